//! Promise 5: no user code under a lock, a panicking waker costs nobody else their wake-up, and
//! chained releases do not grow the stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::support::{
    InlineTask, LONG, SHORT, Step, Waiter, eventually, in_its_own_process, leaked, meddling_waker,
    panic_of, panicking_waker, patient,
};
use semaforo::{
    AutoEvent, CancelSource, Event, Latch, Mutex, Promise, RwLock, Semaphore, WaitError,
};

/// Runs on a thread that may hang, which is what calling back under a lock does.
#[track_caller]
fn without_hanging(run: impl FnOnce() + Send + 'static) {
    Waiter::on_a_thread(run).join();
}

/// More permits than a meddling waker makes available for a moment.
const MANY: u32 = 1000;

/// A waker that uses the semaphore in every way, whatever is done to the waker.
fn meddling(semaphore: &'static Semaphore) -> (Waker, Arc<AtomicUsize>) {
    meddling_waker(move || {
        let _ = format!("{semaphore:?}");
        semaphore.release(1).unwrap();
        drop(semaphore.try_acquire(1));
        drop(semaphore.acquire(1).timeout(Duration::ZERO).wait());
        drop(Step::new(semaphore.acquire(2 * MANY).timeout(LONG)).poll_with(Waker::noop()));
        semaphore.reduce(1);
    })
}

#[test]
fn a_waker_may_use_the_object_that_a_release_wakes_it_for() {
    without_hanging(|| {
        let semaphore = leaked(Semaphore::new(0));
        let (waker, calls) = meddling(semaphore);
        let mut first = Step::new(semaphore.acquire(MANY));
        let mut second = Step::new(semaphore.acquire(MANY));
        assert!(first.poll_with(&waker).is_pending());
        assert!(second.poll_with(&waker).is_pending());
        let before = calls.load(Ordering::SeqCst);
        semaphore.release(2 * MANY).unwrap();
        assert!(calls.load(Ordering::SeqCst) >= before + 2);
        drop((first.expect_ready().unwrap(), second.expect_ready().unwrap()));
        assert_eq!((semaphore.held(), semaphore.waiters()), (0, 0));
    });
}

#[test]
fn a_waker_may_use_the_object_while_it_is_replaced_and_dropped() {
    without_hanging(|| {
        let semaphore = leaked(Semaphore::new(0));
        let (first, _) = meddling(semaphore);
        let (second, _) = meddling(semaphore);
        // Another waiter behind it is what dropping it has to look at.
        let mut step = Step::new(semaphore.acquire(MANY));
        assert!(step.poll_with(&first).is_pending());
        let _behind = Step::queued(semaphore.acquire(MANY));
        drop(first);
        assert!(step.poll_with(&second).is_pending());
        drop(second);
        drop(step);
    });
}

#[test]
fn a_waker_may_use_the_object_that_a_token_wakes_it_for() {
    without_hanging(|| {
        let semaphore = leaked(Semaphore::new(0));
        let (waker, _) = meddling(semaphore);
        let stop = CancelSource::new();
        let mut step = Step::new(semaphore.acquire(MANY).cancel_on(&stop.token()).timeout(LONG));
        assert!(step.poll_with(&waker).is_pending());
        stop.cancel();
        assert_eq!(step.expect_ready().unwrap_err(), WaitError::Cancelled);
    });
}

#[test]
fn a_waker_may_use_the_object_that_the_timer_wakes_it_for() {
    without_hanging(|| {
        let semaphore = leaked(Semaphore::new(0));
        let (waker, _) = meddling(semaphore);
        let mut step = Step::new(semaphore.acquire(MANY).timeout(Duration::from_millis(2)));
        assert!(step.poll_with(&waker).is_pending());
        eventually("the limit passes", || semaphore.waiters() == 0);
        assert_eq!(step.expect_ready().unwrap_err(), WaitError::TimedOut);
    });
}

#[test]
fn a_waker_may_use_the_object_when_its_grant_was_taken_back() {
    without_hanging(|| {
        let semaphore = leaked(Semaphore::new(0));
        semaphore.set_patience(Duration::from_millis(2));
        let (waker, _) = meddling(semaphore);
        let mut dormant = Step::new(semaphore.acquire(MANY));
        assert!(dormant.poll_with(&waker).is_pending());
        let mut next = Step::queued(semaphore.acquire(MANY));
        semaphore.release(MANY).unwrap();
        eventually("the grant is passed on", || next.wakes() > 0);
        assert!(dormant.poll_with(&waker).is_pending());
        drop(next.expect_ready().unwrap());
        drop(dormant.expect_ready().unwrap());
    });
}

/// A waker may use a token, also the one that wakes it.
#[test]
fn a_waker_may_use_the_token_that_wakes_it() {
    without_hanging(|| {
        let latch = Latch::new(1);
        let stop = Arc::new(CancelSource::new());
        let in_waker = Arc::clone(&stop);
        let waker = crate::support::waker_that(move || {
            in_waker.cancel();
            assert!(in_waker.token().child().is_cancelled());
            in_waker.cancel_after(LONG);
            let _ = in_waker.token().registrations();
        });
        let mut through = Step::new(latch.opened().cancel_on(&stop.token()));
        assert!(through.poll_with(&waker).is_pending());
        let token = stop.token();
        let mut direct = Step::new(token.cancelled());
        assert!(direct.poll_with(&waker).is_pending());
        stop.cancel();
        direct.expect_ready();
        assert_eq!(through.expect_ready(), Err(WaitError::Cancelled));
    });
}

/// Whoever learns through a token that it was cancelled finds it so in every way.
#[test]
fn a_waker_finds_the_token_cancelled_that_wakes_it() {
    let latch = Latch::new(1);
    let stop = CancelSource::new();
    let (token, seen) = (stop.token(), crate::support::Record::new());
    let note = seen.clone();
    let waker = crate::support::waker_that(move || {
        let ready = Step::new(token.cancelled()).poll().is_ready();
        note.note((token.is_cancelled(), ready));
    });
    let mut step = Step::new(latch.opened().cancel_on(&stop.token()));
    assert!(step.poll_with(&waker).is_pending());
    stop.cancel();
    assert_eq!(seen.entries(), [(true, true)]);
}

/// A waker may drop the very request that it was woken for.
#[test]
fn a_waker_may_drop_its_request() {
    without_hanging(|| {
        type Slot = std::sync::Mutex<Option<Box<dyn std::any::Any + Send>>>;
        let semaphore = leaked(Semaphore::new(0));
        let slot: &'static Slot = leaked(std::sync::Mutex::new(None));
        let waker = crate::support::waker_that(|| {
            let request = slot.lock().unwrap().take();
            drop(request);
        });
        let mut request = Box::pin(semaphore.acquire(1));
        let mut context = std::task::Context::from_waker(&waker);
        assert!(request.as_mut().poll(&mut context).is_pending());
        *slot.lock().unwrap() = Some(Box::new(request));
        let mut next = Step::queued(semaphore.acquire(1));
        semaphore.release(1).unwrap();
        assert!(slot.lock().unwrap().is_none());
        drop(next.expect_ready().unwrap());
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
    });
}

/// A waker may block, even on the timer's thread: threads time their own sleep.
#[test]
fn a_waker_may_block_with_a_limit() {
    without_hanging(|| {
        let latch = leaked(Latch::new(1));
        let blocked = leaked(Latch::new(1));
        let waker = crate::support::waker_that(|| {
            assert_eq!(latch.opened().timeout(SHORT).wait(), Err(WaitError::TimedOut));
            blocked.count_down();
        });
        let mut step = Step::new(latch.opened().timeout(Duration::from_millis(1)));
        assert!(step.poll_with(&waker).is_pending());
        assert_eq!(blocked.opened().timeout(LONG).wait(), Ok(()));
        assert_eq!(step.expect_ready(), Err(WaitError::TimedOut));
    });
}

/// What a task that blocks inside a waker waits for may be woken by the wake-ups still to come.
#[test]
fn a_waker_may_block_for_what_a_later_wake_up_brings() {
    without_hanging(|| {
        let (event, brought) = (leaked(Event::new()), leaked(Event::new()));
        let chained = leaked(Event::new());
        let waits = crate::support::waker_that(|| {
            // Wakes the other from inside a waker, so its wake-up has to wait its turn.
            chained.set();
            brought.happened().wait();
        });
        let brings = crate::support::waker_that(|| brought.set());
        let mut first = Step::new(event.happened());
        let mut second = Step::new(chained.happened());
        assert!(first.poll_with(&waits).is_pending());
        assert!(second.poll_with(&brings).is_pending());
        event.set();
        first.expect_ready();
        second.expect_ready();
    });
}

/// X-15, for everything that can let many through at once: the first of 33 wakers panics.
fn one_of_33_panics<F: Future>(request: impl Fn() -> F, broadcast: impl FnOnce()) {
    let mut waiters: Vec<_> = (0..33).map(|_| Step::new(request())).collect();
    assert!(waiters[0].poll_with(&panicking_waker()).is_pending());
    for waiter in &mut waiters[1..] {
        waiter.expect_pending();
    }
    assert_eq!(panic_of(broadcast), "the waker panicked", "the caller sees it");
    let outputs: Vec<_> = waiters.iter_mut().map(Step::expect_ready).collect();
    assert!(waiters[1..].iter().all(|waiter| waiter.wakes() == 1));
    drop(outputs);
}

///
#[test]
fn a_panicking_waker_costs_nobody_else_their_wake_up() {
    let semaphore = Semaphore::new(0);
    one_of_33_panics(|| semaphore.acquire(1), || semaphore.release(33).unwrap());
    assert_eq!((semaphore.available(), semaphore.waiters()), (33, 0));

    let closed = Semaphore::new(0);
    one_of_33_panics(|| closed.acquire(1), || closed.close());

    let latch = Latch::new(1);
    one_of_33_panics(|| latch.opened(), || assert_eq!(latch.count_down(), 0));

    let event = Event::new();
    one_of_33_panics(|| event.happened(), || event.set());
    event.reset();
    one_of_33_panics(|| event.happened(), || assert_eq!(event.pulse(), 33));

    let auto = AutoEvent::new();
    one_of_33_panics(|| auto.happened(), || assert_eq!(auto.pulse(), 33));

    let promise = Promise::<u32, ()>::new();
    one_of_33_panics(|| promise.get(), || promise.set(1).unwrap());

    let lock = RwLock::new(());
    let writing = lock.write().wait();
    one_of_33_panics(|| lock.read(), || drop(writing));
    assert_eq!((lock.readers(), lock.waiters()), (0, 0));

    let stop = CancelSource::new();
    let token = stop.token();
    one_of_33_panics(|| token.cancelled(), || stop.cancel());

    let stop = CancelSource::new();
    let token = stop.token();
    let shut = Latch::new(1);
    one_of_33_panics(|| shut.opened().cancel_on(&token), || stop.cancel());
    assert_eq!(token.registrations(), 0);
}

/// the timer survives, and those behind it are served.
#[test]
fn a_panicking_waker_does_not_end_the_timer() {
    let latch = Latch::new(1);
    let _panics = Step::panicking(latch.opened().timeout(Duration::from_millis(1)));
    let mut others: Vec<_> = (2..20)
        .map(|limit| latch.opened().timeout(Duration::from_millis(limit)))
        .map(Step::queued)
        .collect();
    let start = Instant::now();
    eventually("everyone times out", || latch.waiters() == 0);
    assert!(start.elapsed() < LONG);
    for step in &mut others {
        assert_eq!(step.expect_ready(), Err(WaitError::TimedOut));
    }
}

const CHAIN: usize = 10_000;

/// `start` starts one of the waiters, which lets the next one through as soon as it has been.
fn chain_of_waiters(start: impl Fn(&Arc<AtomicUsize>, &Arc<AtomicUsize>), release: impl FnOnce()) {
    let (deepest, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..CHAIN {
        start(&deepest, &finished);
    }
    assert_eq!(finished.load(Ordering::SeqCst), 0);
    release();
    assert_eq!(finished.load(Ordering::SeqCst), CHAIN, "all of them have finished");
    assert_eq!(deepest.load(Ordering::SeqCst), 1, "none of them inside another");
}

///
#[test]
fn ten_thousand_chained_releases_do_not_grow_the_stack() {
    in_its_own_process(|| {
        let semaphore = leaked(patient(Semaphore::new(0)));
        let after = |finished: &Arc<AtomicUsize>| {
            let finished = Arc::clone(finished);
            move || {
                finished.fetch_add(1, Ordering::SeqCst);
            }
        };
        chain_of_waiters(
            |deepest, finished| {
                let after = after(finished);
                InlineTask::start(deepest, async move {
                    drop(semaphore.acquire(1).await.unwrap());
                    after();
                });
            },
            || semaphore.release(1).unwrap(),
        );
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));

        let mutex = leaked(patient(Mutex::new(0)));
        let guard = mutex.lock().wait();
        chain_of_waiters(
            |deepest, finished| {
                let after = after(finished);
                InlineTask::start(deepest, async move {
                    *mutex.lock().await += 1;
                    after();
                });
            },
            || drop(guard),
        );
        assert_eq!(*mutex.lock().wait(), CHAIN);

        let lock = leaked(patient(RwLock::new(0)));
        let guard = lock.read().wait();
        chain_of_waiters(
            |deepest, finished| {
                let after = after(finished);
                InlineTask::start(deepest, async move {
                    *lock.write().timeout(LONG).await.unwrap() += 1;
                    after();
                });
            },
            || drop(guard),
        );

        let event = leaked(patient(AutoEvent::new()));
        chain_of_waiters(
            |deepest, finished| {
                let after = after(finished);
                InlineTask::start(deepest, async move {
                    event.happened().await;
                    event.set();
                    after();
                });
            },
            || event.set(),
        );
    });
}

/// one token ends them all, and each goes on at once to something else.
#[test]
fn firing_a_token_for_ten_thousand_does_not_grow_the_stack() {
    in_its_own_process(|| {
        let (latch, semaphore) = (leaked(Latch::new(1)), leaked(Semaphore::new(0)));
        let stop = leaked(CancelSource::new());
        chain_of_waiters(
            |deepest, finished| {
                let finished = Arc::clone(finished);
                InlineTask::start(deepest, async move {
                    let ended = latch.opened().cancel_on(&stop.token()).await;
                    assert_eq!(ended, Err(WaitError::Cancelled));
                    semaphore.release(1).unwrap();
                    finished.fetch_add(1, Ordering::SeqCst);
                });
            },
            || stop.cancel(),
        );
        assert_eq!(semaphore.available() as usize, CHAIN);
    });
}

/// a chain from one object to the next.
#[test]
fn a_chain_through_ten_thousand_objects_does_not_grow_the_stack() {
    in_its_own_process(|| {
        let events: Vec<&'static Event> = (0..=CHAIN).map(|_| leaked(Event::new())).collect();
        let deepest = Arc::new(AtomicUsize::new(0));
        for pair in events.windows(2) {
            let (this, next) = (pair[0], pair[1]);
            InlineTask::start(&deepest, async move {
                this.happened().await;
                next.set();
            });
        }
        events[0].set();
        assert!(events[CHAIN].is_set());
        assert_eq!(deepest.load(Ordering::SeqCst), 1);
    });
}
