//! More waiters than are woken at a time (32): between two batches the world may change.

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex as StdMutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semaforo::request::Limited;
use semaforo::sync::semaphore::Acquire;
use semaforo::{CancelSource, Event, Latch, Request, RwLock, Semaphore, WaitError};
use support::{
    LONG, Line, Step, Waiter, eventually, in_every_arrangement, leaked, panic_of, until_queued,
    waker_that,
};

const MANY: usize = 100;

#[test]
fn everyone_is_woken_once_and_in_order() {
    let order = support::WakeOrder::new();
    let latch = Latch::new(1);
    let mut waiters: Vec<_> = (0..MANY).map(|_| Step::new(latch.opened())).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert!(waiter.poll_with(&order.waker(number)).is_pending());
    }
    latch.count_down();
    assert_eq!(order.entries(), (0..MANY).collect::<Vec<_>>());
    waiters.iter_mut().for_each(Step::expect_ready);
}

#[test]
fn threads_and_tasks_are_all_let_through() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(RwLock::new(0));
        let mut writing = lock.write().wait();
        let mut line = Line::new(arrangement, lock);
        let readers: Vec<_> =
            (0..40).map(|_| line.enter_then(lock.read(), |value| *value)).collect();
        let writer = line.enter_then(lock.write(), |mut value| *value += 1);
        *writing = 1;
        drop(writing);
        assert!(readers.into_iter().all(|reader| reader.join() == 1));
        writer.join();
        assert_eq!((*lock.read().wait(), lock.waiters()), (2, 0));
    });
}

type Bounded = Request<Acquire<&'static Semaphore>, Limited>;

/// What the first waker does to a request that was answered, but whose turn to be woken has not come.
fn between_batches(
    meddle: impl Fn(Pin<Box<Bounded>>) + Send + Sync + 'static,
) -> &'static Semaphore {
    let semaphore = leaked(Semaphore::new(0));
    semaphore.set_patience(LONG);
    let requests: &'static StdMutex<Vec<_>> = leaked(StdMutex::new(Vec::new()));
    let mut first = Step::new(semaphore.acquire(1));
    let waker = waker_that(move || {
        let others = std::mem::take(&mut *requests.lock().unwrap());
        others.into_iter().for_each(&meddle);
    });
    assert!(first.poll_with(&waker).is_pending());
    for _ in 0..MANY {
        let mut request: Pin<Box<Bounded>> = Box::pin(semaphore.acquire(1).timeout(LONG));
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        requests.lock().unwrap().push(request);
    }
    semaphore.release(MANY as u32 + 1).unwrap();
    drop(first.expect_ready().unwrap());
    assert!(requests.lock().unwrap().is_empty());
    semaphore
}

#[test]
fn requests_may_be_dropped_between_two_batches() {
    let semaphore = between_batches(drop);
    let now = (semaphore.available() as usize, semaphore.held(), semaphore.waiters());
    assert_eq!(now, (MANY + 1, 0, 0));
}

#[test]
fn requests_may_be_claimed_between_two_batches() {
    fn claim(mut request: Pin<Box<Bounded>>) {
        let mut context = Context::from_waker(Waker::noop());
        let polled = request.as_mut().poll(&mut context);
        let Poll::Ready(permit) = polled else { panic!("granted by the release") };
        drop(permit.unwrap());
    }
    let semaphore = between_batches(claim);
    let now = (semaphore.available() as usize, semaphore.held(), semaphore.waiters());
    assert_eq!(now, (MANY + 1, 0, 0));
}

/// A grant wins also when its turn to be told has not come.
#[test]
fn a_token_that_fires_between_two_batches_changes_nothing() {
    let semaphore = leaked(Semaphore::new(0));
    let stop = leaked(CancelSource::new());
    let mut first = Step::new(semaphore.acquire(1));
    assert!(first.poll_with(&waker_that(|| stop.cancel())).is_pending());
    let mut others: Vec<_> =
        (0..MANY).map(|_| Step::queued(semaphore.acquire(1).cancel_on(&stop.token()))).collect();
    semaphore.release(MANY as u32 + 1).unwrap();
    drop(first.expect_ready().unwrap());
    for other in &mut others {
        drop(other.expect_ready().expect("granted before"));
    }
    assert_eq!(semaphore.available() as usize, MANY + 1);
}

/// A thread's limit may pass while it stands between two batches: it was granted.
#[test]
fn a_limit_that_passes_between_two_batches_changes_nothing() {
    let semaphore = leaked(Semaphore::new(0));
    let mut first = Step::new(semaphore.acquire(1));
    let slow = waker_that(|| {
        assert!(Latch::new(1).opened().timeout(Duration::from_millis(300)).wait().is_err());
    });
    assert!(first.poll_with(&slow).is_pending());
    let tasks: Vec<_> = (0..40).map(|_| Step::queued(semaphore.acquire(1))).collect();
    let last = Waiter::on_a_thread(|| {
        semaphore.acquire(1).timeout(Duration::from_millis(200)).wait().map(drop)
    });
    until_queued(semaphore, 42);
    semaphore.release(42).unwrap();
    assert_eq!(last.join(), Ok(()));
    drop((first, tasks));
    assert_eq!((semaphore.available(), semaphore.waiters()), (42, 0));
}

/// Followers of a head that is withdrawn, more than a batch of them, one of whom panics.
#[test]
fn a_withdrawal_lets_more_than_a_batch_through() {
    let lock = RwLock::new(());
    let _reading = lock.read().wait();
    let writer = Step::queued(lock.write());
    let mut readers: Vec<_> = (0..MANY).map(|_| Step::new(lock.read())).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        if number == 50 {
            assert!(reader.poll_with(&support::panicking_waker()).is_pending());
        } else {
            reader.expect_pending();
        }
    }
    panic_of(|| drop(writer));
    let guards: Vec<_> = readers.iter_mut().map(Step::expect_ready).collect();
    assert_eq!((lock.readers() as usize, lock.waiters()), (MANY + 1, 0));
    drop(guards);
}

/// A waker that blocks until another waiter of the same broadcast has gone on.
#[test]
fn a_waker_may_block_for_what_another_of_its_batch_does() {
    for waits_as_a_thread in [false, true] {
        let (event, other) = (leaked(Event::new()), leaked(Event::new()));
        let mut first = Step::new(event.happened());
        let blocks = waker_that(|| other.happened().wait());
        assert!(first.poll_with(&blocks).is_pending());
        let mut task = Step::new(event.happened());
        let thread = if waits_as_a_thread {
            let thread = Waiter::on_a_thread(|| {
                event.happened().wait();
                other.set();
            });
            // Long asleep, so that it has to be woken.
            assert!(Latch::new(1).opened().timeout(Duration::from_millis(20)).wait().is_err());
            Some(thread)
        } else {
            assert!(task.poll_with(&waker_that(|| other.set())).is_pending());
            None
        };
        Waiter::on_a_thread(|| event.set()).join();
        drop(thread);
    }
}

/// The timer ends many at once, too.
#[test]
fn many_limits_pass_at_once() {
    let latch = Latch::new(1);
    let mut waiters: Vec<_> = (0..1000)
        .map(|_| Step::queued(latch.opened().timeout(Duration::from_millis(50))))
        .collect();
    until_queued(&latch, 0);
    for waiter in &mut waiters {
        // The timer's thread wakes after it has changed the state.
        eventually("the waiter is woken", || waiter.wakes() == 1);
        assert_eq!(waiter.expect_ready(), Err(WaitError::TimedOut));
        assert_eq!(waiter.wakes(), 1);
    }
}
