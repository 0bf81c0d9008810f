//! The promises of the design, 1 to 3 and 7. Promise 4 is in `futurelock.rs`, 5 in `wakers.rs`, 6 in
//! `model.rs`, `panics.rs` and `races.rs`, and what is allocated in `allocations.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    LONG, Line, Random, Record, SHORT, Step, Waiter, eventually, fire, in_every_arrangement,
    leaked, patient,
};
use semaforo::policy::Exclusive;
use semaforo::{
    AutoEvent, Barrier, BlockingQueue, CancelSource, Condition, Event, Exchanger, Latch, Mutex,
    OwnerKey, Parker, Phaser, Promise, ReentrantLock, ReentrantRwLock, RwLock, Semaphore,
    Synchronizer, SynchronousQueue, TransferQueue, WaitError,
};

/// Promise 1
#[test]
fn first_come_first_served() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(0)));
        let mut line = Line::new(arrangement, semaphore);
        let served = Record::new();
        let waiters: Vec<_> = (0..12)
            .map(|number| {
                let served = served.clone();
                line.enter_then(semaphore.acquire(1), move |permit| {
                    served.note(number);
                    drop(permit);
                })
            })
            .collect();
        semaphore.release(1).unwrap();
        waiters.into_iter().for_each(Waiter::join);
        assert_eq!(served.entries(), (0..12).collect::<Vec<_>>());
    });
}

/// Promise 1: not even with `try_`, and not with a zero timeout.
#[test]
fn nobody_overtakes_a_waiter() {
    let zero = Duration::ZERO;
    let semaphore = Semaphore::new(1);
    let _waiter = Step::queued(semaphore.acquire(2));
    assert!(semaphore.try_acquire(1).is_err());
    assert!(semaphore.acquire(1).timeout(zero).wait().is_err());
    assert!(Step::new(semaphore.acquire(1).timeout(zero)).expect_ready().is_err());

    let lock = RwLock::new(());
    let _reader = lock.read().wait();
    let _writer = Step::queued(lock.write());
    assert!(lock.try_read().is_none());
    assert!(lock.read().timeout(zero).wait().is_err());
}

/// Promise 1: nor if trying finds the object's lock held for a moment, by others who only look.
#[test]
fn nobody_overtakes_a_waiter_while_others_look() {
    const LOOKS: usize = 100_000;
    let semaphore = Semaphore::new(1);
    let _waiter = Step::queued(semaphore.acquire(2));
    let looks = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while looks.fetch_add(1, Ordering::Relaxed) < LOOKS {
                    assert_eq!(semaphore.waiters(), 1);
                }
            });
        }
        let mut overtook = 0;
        while looks.load(Ordering::Relaxed) < LOOKS {
            overtook += usize::from(semaphore.try_acquire(1).is_ok());
        }
        assert_eq!(overtook, 0);
    });
}

/// Promise 1: what was granted to a task that has not run yet is not there for a newcomer.
#[test]
fn nobody_overtakes_a_granted_task() {
    let mutex = Mutex::new(());
    let guard = mutex.lock().wait();
    let mut granted = Step::queued(mutex.lock());
    drop(guard);
    assert!(mutex.try_lock().is_none());
    assert!(mutex.lock().timeout(Duration::ZERO).wait().is_err());

    let event = AutoEvent::new();
    let mut signalled = Step::queued(event.happened());
    event.set();
    assert!(!event.try_pass() && !event.is_set());

    drop(granted.expect_ready());
    signalled.expect_ready();
}

/// Promise 2
#[test]
fn a_grant_wins_over_a_later_cancellation_and_a_later_deadline() {
    let semaphore = Semaphore::new(0);
    let stop = CancelSource::new();
    let limit = Duration::from_millis(5);
    let request = semaphore.acquire(1).cancel_on(&stop.token()).timeout(limit);
    let mut step = Step::queued(request);
    let asked = Instant::now();
    semaphore.release(1).unwrap();
    stop.cancel();
    // Until the timer has certainly looked at it.
    eventually("the limit passes", || asked.elapsed() > 4 * limit);
    assert_eq!((step.wakes(), semaphore.held()), (1, 1));
    drop(step.expect_ready().expect("granted first"));
}

/// Promise 2
#[test]
fn the_first_of_two_ends_stands() {
    let semaphore = Semaphore::new(0);
    let stop = CancelSource::new();
    let request = semaphore.acquire(1).cancel_on(&stop.token());
    let mut timed = Step::queued(request.timeout(Duration::from_millis(1)));
    eventually("the limit passes", || semaphore.waiters() == 0);
    stop.cancel();
    semaphore.release(1).unwrap();
    assert_eq!(timed.expect_ready().unwrap_err(), WaitError::TimedOut);

    let stop = CancelSource::new();
    semaphore.drain();
    let mut cancelled = Step::queued(semaphore.acquire(1).cancel_on(&stop.token()).timeout(SHORT));
    stop.cancel();
    semaphore.release(1).unwrap();
    assert_eq!(cancelled.expect_ready().unwrap_err(), WaitError::Cancelled);
    assert_eq!((cancelled.wakes(), semaphore.available()), (1, 1));
}

/// Promise 3
#[test]
fn firing_a_token_acts_before_it_returns_whoever_is_polled() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(1));
        let stop = CancelSource::new();
        let mut head = Step::queued(semaphore.acquire(2).cancel_on(&stop.token()));
        let follower = Line::new(arrangement, semaphore).enter(semaphore.acquire(1));
        stop.cancel();
        let now = (semaphore.waiters(), semaphore.available(), stop.token().registrations());
        assert_eq!(now, (0, 0, 0), "removed, and the follower has the permit");
        drop(follower.join().unwrap());
        assert_eq!(head.expect_ready().unwrap_err(), WaitError::Cancelled);
    });
}

/// Promise 3: the follower is a task that has not run either.
#[test]
fn firing_a_token_serves_an_unpolled_follower() {
    let lock = RwLock::new(());
    let _reading = lock.read().wait();
    let stop = CancelSource::new();
    let _writer = Step::queued(lock.write().cancel_on(&stop.token()));
    let followers = [Step::queued(lock.read()), Step::queued(lock.read())];
    stop.cancel();
    assert_eq!((lock.readers(), lock.waiters()), (3, 0));
    assert!(followers.iter().all(|follower| follower.wakes() == 1));
}

/// Promise 3: one token, many objects, and all of them done when `cancel` returns.
#[test]
fn firing_a_token_ends_everything_that_waits_with_it() {
    let (semaphore, latch, mutex) = (Semaphore::new(0), Latch::new(1), Mutex::new(()));
    let _guard = mutex.lock().wait();
    let stop = CancelSource::new();
    let token = stop.token();
    let mut permits: Vec<_> =
        (0..100).map(|_| Step::queued(semaphore.acquire(1).cancel_on(&token))).collect();
    let mut opened = Step::queued(latch.opened().cancel_on(&token).timeout(LONG));
    let mut locked = Step::queued(mutex.lock().cancel_on(&token));
    assert_eq!(token.registrations(), 102);
    stop.cancel();
    assert_eq!((semaphore.waiters(), latch.waiters(), mutex.waiters()), (0, 0, 0));
    assert_eq!(token.registrations(), 0);
    for permit in &mut permits {
        assert_eq!(permit.wakes(), 1);
        assert_eq!(permit.expect_ready().unwrap_err(), WaitError::Cancelled);
    }
    assert_eq!(opened.expect_ready(), Err(WaitError::Cancelled));
    assert_eq!(locked.expect_ready().unwrap_err(), WaitError::Cancelled);
}

/// Promise 3: whoever sees a request in the queue and then fires its token sees it gone.
#[test]
fn firing_a_token_acts_on_a_request_that_has_only_just_queued() {
    let semaphore = leaked(Semaphore::new(0));
    let mut late = 0;
    for _ in 0..500 {
        let (stop, other) = (CancelSource::new(), CancelSource::new());
        let tokens = [stop.token(), other.token()];
        let waiter = Waiter::on_a_thread(move || {
            let request = semaphore.acquire(1).cancel_on(&tokens[0]).cancel_on(&tokens[1]);
            request.wait().map(drop).unwrap_err()
        });
        while semaphore.waiters() == 0 {
            std::hint::spin_loop();
        }
        stop.cancel();
        late += semaphore.waiters();
        assert_eq!(waiter.join(), WaitError::Cancelled);
    }
    assert_eq!(late, 0, "requests still queued although their token had fired");
}

/// Promise 3: the timer does what a canceller would.
#[test]
fn a_deadline_acts_although_nobody_is_polled() {
    let lock = RwLock::new(());
    let reading = lock.read().wait();
    let mut writer = Step::queued(lock.write().timeout(SHORT));
    let mut reader = Step::queued(lock.read());
    // The timer's thread changes the lock first, and wakes afterwards.
    eventually("both are woken", || (reader.wakes(), writer.wakes()) == (1, 1));
    assert_eq!((lock.readers(), lock.waiters()), (2, 0));
    drop(reader.expect_ready());
    assert_eq!(writer.expect_ready().unwrap_err(), WaitError::TimedOut);
    drop(reading);
}

/// Promise 3, through a child token.
#[test]
fn firing_a_parent_acts_at_once_too() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(1));
        let stop = CancelSource::new();
        let child = stop.token().child();
        let waiter = Line::new(arrangement, latch).enter(latch.opened().cancel_on(&child.token()));
        crate::support::until_queued(&child.token(), 1);
        fire(&stop, 1);
        assert_eq!(latch.waiters(), 0);
        assert_eq!(waiter.join(), Err(WaitError::Cancelled));
    });
}

/// Promise 7, by the words of `docs/guarantees.md`: 48 bytes for what is asked with a word, up to 88
/// where the request carries more; limits add 72.
#[test]
fn requests_are_small() {
    let token = CancelSource::new().token();
    let mut differing = Vec::new();
    macro_rules! check {
        ($bytes:literal, $limited:literal: $($request:expr),* $(,)?) => {$({
            // Two requests, one after the other: some of them hold a guard.
            let unlimited = size_of_val(&$request);
            let sizes = (unlimited, size_of_val(&$request.timeout(LONG).cancel_on(&token)));
            if sizes != ($bytes, $limited) {
                differing.push((stringify!($request), sizes));
            }
        })*};
    }
    let semaphore = std::sync::Arc::new(Semaphore::new(1));
    let mutex = std::sync::Arc::new(Mutex::new([0_u64; 8]));
    let (lock, reentrant) = (RwLock::new([0_u64; 8]), ReentrantLock::new([0_u64; 8]));
    let reentrant_read_write = ReentrantRwLock::new([0_u64; 8]);
    let (latch, event, auto, parker) =
        (Latch::new(1), Event::new(), AutoEvent::new(), Parker::new());
    let promise = Promise::<[u64; 8], String>::new();
    let own = Synchronizer::new(Exclusive, 0);
    let (barrier, phaser) = (Barrier::new(2), Phaser::new(2));
    let (exchanger, condition) = (Exchanger::<u64>::new(), Condition::new());
    let queue = BlockingQueue::<u64>::unbounded();
    let (transfer, synchronous) = (TransferQueue::<u64>::new(), SynchronousQueue::<u64>::new());
    let key = OwnerKey::new();
    check!(48, 120:
        semaphore.acquire(1),
        semaphore.acquire_owned(1),
        mutex.lock(),
        mutex.lock_owned(),
        lock.read(),
        lock.write(),
        latch.opened(),
        event.happened(),
        auto.happened(),
        parker.park(),
        promise.get(),
        token.cancelled(),
        own.acquire(()),
        phaser.advanced(0),
    );
    check!(56, 128: reentrant.lock(), reentrant.lock_as(&key), barrier.arrive(), phaser.arrive_and_wait());
    check!(64, 136: reentrant_read_write.read_as(&key), reentrant_read_write.write_as(&key));
    check!(64, 136: exchanger.exchange(1));
    check!(72, 144: queue.put(1), queue.take());
    check!(72, 144: condition.wait(mutex.lock().wait()));
    let (second, third) = (Condition::new(), Condition::new());
    check!(128, 200: second.wait(reentrant.lock_as(&key).wait().unwrap()));
    check!(136, 208: third.wait(reentrant_read_write.write_as(&key).wait().unwrap()));
    check!(88, 160: transfer.transfer(1), transfer.take(), synchronous.put(1), synchronous.take());
    assert!(differing.is_empty(), "other sizes than promised: {differing:#?}");
}

/// Promise 7: were withdrawing linear, this would take minutes.
#[test]
fn withdrawing_any_of_a_hundred_thousand_is_quick() {
    let semaphore = Semaphore::new(0);
    let stop = CancelSource::new();
    let token = stop.token();
    let mut queue: Vec<_> = (0..100_000)
        .map(|_| Step::queued(semaphore.acquire(1).timeout(LONG).cancel_on(&token)))
        .collect();
    assert_eq!(semaphore.waiters(), 100_000);
    let mut random = Random::new(1);
    let start = Instant::now();
    while !queue.is_empty() {
        let chosen = random.below(queue.len() as u32) as usize;
        drop(queue.swap_remove(chosen));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!((semaphore.waiters(), token.registrations()), (0, 0));
}
