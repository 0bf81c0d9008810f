//! Promise 6 where somebody panics: whatever a waker does, units are neither lost nor duplicated.
//!
//! A waker's panic comes out of whatever call woke it. These are the calls that are in the middle of
//! something of their own at that moment.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::support::{
    Step, Waiter, WakerOf, eventually, in_its_own_process, leaked, panic_of, panicking_waker,
    waker_that,
};
use semaforo::{Event, Mutex, RwLock, Semaphore, WaitError};

#[test]
fn a_guard_that_wakes_a_panicking_waker_is_given_back() {
    let mutex = Mutex::new(());
    let guard = mutex.lock().wait();
    let mut waiter = Step::panicking(mutex.lock());
    panic_of(|| drop(guard));
    drop(waiter.expect_ready());
    assert!(!mutex.is_locked());

    let lock = RwLock::new(());
    let guard = lock.write().wait();
    let mut reader = Step::panicking(lock.read());
    panic_of(|| drop(guard));
    drop(reader.expect_ready());
    assert_eq!((lock.readers(), lock.has_writer()), (0, false));
}

/// The write has become a read when the waiting readers are woken. If that panics, there is no guard
/// for anybody to drop, so the read must have ended.
#[test]
fn a_downgrade_that_wakes_a_panicking_waker_holds_nothing() {
    let lock = RwLock::new(());
    let guard = lock.write().wait();
    let mut reader = Step::panicking(lock.read());
    panic_of(|| drop(guard.downgrade()));
    drop(reader.expect_ready());
    assert_eq!((lock.readers(), lock.has_writer()), (0, false));
}

/// In barging mode a task that comes for a permit may wake the next one.
#[test]
fn a_poll_that_wakes_a_panicking_waker_keeps_no_permit() {
    let semaphore = Semaphore::barging(0);
    let mut first = Step::queued(semaphore.acquire(1));
    let second = Step::panicking(semaphore.acquire(1));
    let released = panic_or(|| semaphore.release(2).unwrap());
    let polled = panic_or(|| drop(first.poll()));
    assert!(released.is_err() || polled.is_err(), "somebody sees the panic");
    drop((first, second));
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (2, 0, 0));
}

/// The same for a thread, which tries again when it is told to.
#[test]
fn a_wait_that_wakes_a_panicking_waker_keeps_no_permit() {
    let semaphore = leaked(Semaphore::barging(0));
    let first = Waiter::on_a_thread(|| drop(semaphore.acquire(1).wait().unwrap()));
    crate::support::until_queued(semaphore, 1);
    let mut second = Step::panicking(semaphore.acquire(1));
    let released = panic_or(|| semaphore.release(2).unwrap());
    let waited = first.join_or_panic();
    let polled = panic_or(|| drop(second.poll()));
    assert!(released.is_err() || waited.is_err(), "somebody sees the panic");
    drop((second, polled));
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (2, 0, 0));
}

fn panic_or<R>(run: impl FnOnce() -> R) -> Result<R, ()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(drop)
}

/// A thread that is about to sleep first makes the wake-ups that it owes. One of them gives it its
/// permit and then panics: the panic comes out of the wait, and the permit must not stay with it.
#[test]
fn a_wait_that_is_ended_by_a_panic_keeps_no_permit() {
    let semaphore = leaked(Semaphore::new(0));
    let (outer, inner) = (leaked(Event::new()), leaked(Event::new()));
    let blocks = waker_that(|| {
        inner.set();
        drop(semaphore.acquire(1).wait());
    });
    let gives_and_panics = waker_that(|| {
        semaphore.release(1).unwrap();
        panic!("after the release");
    });
    let mut first = Step::new(outer.happened());
    let mut second = Step::new(inner.happened());
    assert!(first.poll_with(&blocks).is_pending());
    assert!(second.poll_with(&gives_and_panics).is_pending());
    assert_eq!(panic_of(|| outer.set()), "after the release");
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (1, 0, 0));
}

/// Dropping a request lets its followers through. If that panics, the rest of it is dropped too.
#[test]
fn a_dropped_request_that_wakes_a_panicking_waker_lets_go_of_its_object() {
    let semaphore = Arc::new(Semaphore::new(1));
    let head = Step::queued(semaphore.acquire_owned(2));
    let mut follower = Step::panicking(semaphore.acquire(1));
    panic_of(|| drop(head));
    drop(follower.expect_ready().unwrap());
    assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
    drop(follower);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

/// A thread whose limit passes lets its followers through before it returns.
#[test]
fn a_timed_out_wait_that_wakes_a_panicking_waker_leaves_the_queue() {
    let semaphore = leaked(Semaphore::new(1));
    let head = Waiter::on_a_thread(|| {
        semaphore.acquire(2).timeout(Duration::from_millis(300)).wait().map(drop).unwrap_err()
    });
    crate::support::until_queued(semaphore, 1);
    let mut follower = Step::panicking(semaphore.acquire(1));
    match head.join_or_panic() {
        Ok(error) => assert_eq!(error, WaitError::TimedOut),
        Err(panic) => assert_eq!(crate::support::message_of(&*panic), "the waker panicked"),
    }
    drop(follower.expect_ready().unwrap());
    assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
}

/// A second panic while unwinding would abort the process.
#[test]
fn a_guard_dropped_by_a_panic_may_wake_a_panicking_waker() {
    in_its_own_process(|| {
        let mutex = Mutex::new(());
        let mut waiter = Step::new(mutex.lock());
        let message = panic_of(|| {
            let _guard = mutex.lock().wait();
            assert!(waiter.poll_with(&panicking_waker()).is_pending());
            panic!("the first");
        });
        assert_eq!(message, "the first");
        drop(waiter.expect_ready());
        assert!(!mutex.is_locked());
    });
}

/// A waker that cannot be cloned leaves the request as it was.
#[test]
fn a_panic_while_cloning_the_waker_queues_nothing() {
    let semaphore = Semaphore::new(0);
    let waker = WakerOf(|| {}, || panic!("not to be cloned"), || {}).into_waker();
    let mut step = Step::new(semaphore.acquire(1));
    assert_eq!(panic_of(|| drop(step.poll_with(&waker))), "not to be cloned");
    assert_eq!(semaphore.waiters(), 0);
    step.expect_pending();
    assert_eq!(panic_of(|| drop(step.poll_with(&waker))), "not to be cloned");
    assert_eq!(semaphore.waiters(), 1, "it keeps its place and its waker");
    semaphore.release(1).unwrap();
    assert_eq!(step.wakes(), 1);
    drop(step.expect_ready().unwrap());
    assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
}

/// The watchdog passes a grant on and wakes a waker that panics: the next one is served all the same.
#[test]
fn a_panicking_waker_does_not_end_the_watchdog() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(Duration::from_millis(2));
    let mut unpolled = Step::queued(semaphore.acquire(1));
    let mut panics = Step::panicking(semaphore.acquire(1));
    let mut last = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    eventually("the last is served", || last.wakes() == 1);
    drop(last.expect_ready().unwrap());
    for step in [&mut unpolled, &mut panics] {
        assert!(step.poll_with(Waker::noop()).is_ready());
    }
}

/// Several panics at once: the first one reaches the caller.
#[test]
fn the_first_of_several_panics_is_the_one_that_is_seen() {
    let (event, chained) = (leaked(Event::new()), leaked(Event::new()));
    let mut waiters: Vec<_> = (0..3).map(|_| Step::new(event.happened())).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let waker = waker_that(move || {
            chained.set();
            panic!("number {number}");
        });
        assert!(waiter.poll_with(&waker).is_pending());
    }
    // Woken from inside the first waker, so its own turn comes after that one's panic.
    let _nested = Step::panicking(chained.happened());
    assert_eq!(panic_of(|| event.set()), "number 0");
}
