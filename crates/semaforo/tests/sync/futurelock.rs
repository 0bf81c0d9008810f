//! Promise 4: a future that is never polled holds up nobody.
//!
//! The shape is that of Oxide's RFD 609, "Futurelock": a task selects between a lock request and
//! something else, the other wins, and the task goes on to ask for the lock again while it still
//! owns the first request, which nobody polls any more.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    LIMIT, LONG, Line, SHORT, Step, eventually, in_every_arrangement, leaked, on_tokio,
    until_queued,
};
use semaforo::WaitError;
use semaforo::{AutoEvent, CancelSource, Latch, Mutex, OwnerKey, ReentrantLock, RwLock, Semaphore};

const PATIENCE: Duration = Duration::from_millis(5);

/// The program of the write-up, for any kind of lock: `first` and `second` ask for the same thing,
/// which somebody else holds until `let_go`.
fn futurelock<A, B>(
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B,
    let_go: impl FnOnce() + Send + 'static,
) where
    A: Future,
    B: Future,
{
    let program = async {
        let mut first = pin!(first());
        tokio::select! {
            _ = &mut first => panic!("it is held"),
            () = tokio::time::sleep(PATIENCE) => {}
        }
        let holder = tokio::spawn(async move { let_go() });
        let second = second().await;
        drop(second);
        holder.await.unwrap();
        // Polled again, it still gets its turn.
        drop(first.await);
    };
    on_tokio(async {
        tokio::time::timeout(LIMIT, program).await.expect("this hangs where promise 4 is not kept");
    });
}

#[test]
fn a_mutex_does_not_futurelock() {
    let lock = Arc::new(Mutex::new(()));
    lock.set_patience(PATIENCE);
    let guard = lock.try_lock_owned().unwrap();
    futurelock(|| lock.lock(), || lock.lock(), || drop(guard));
    assert_eq!((lock.is_locked(), lock.waiters()), (false, 0));
}

#[test]
fn a_barging_mutex_does_not_futurelock() {
    let lock = Arc::new(Mutex::barging(()));
    lock.set_patience(PATIENCE);
    let guard = lock.try_lock_owned().unwrap();
    futurelock(|| lock.lock(), || lock.lock(), || drop(guard));
    assert_eq!((lock.is_locked(), lock.waiters()), (false, 0));
}

#[test]
fn a_semaphore_does_not_futurelock() {
    let semaphore = Arc::new(Semaphore::new(1));
    semaphore.set_patience(PATIENCE);
    let permit = semaphore.try_acquire_owned(1).unwrap();
    futurelock(|| semaphore.acquire(1), || semaphore.acquire(1), || drop(permit));
    assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
}

#[test]
fn a_read_write_lock_does_not_futurelock() {
    let lock = Arc::new(RwLock::new(()));
    lock.set_patience(PATIENCE);
    let guard = lock.write_owned().wait();
    futurelock(|| lock.write(), || lock.write(), || drop(guard));
    let guard = lock.write_owned().wait();
    futurelock(|| lock.read(), || lock.write(), || drop(guard));
    let guard = lock.read_owned().wait();
    futurelock(|| lock.write(), || lock.read(), || drop(guard));
    assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (0, false, 0));
}

#[test]
fn a_reentrant_lock_does_not_futurelock() {
    let lock = Arc::new(ReentrantLock::new(()));
    lock.set_patience(PATIENCE);
    let (holder, one, two) = (OwnerKey::new(), OwnerKey::new(), OwnerKey::new());
    let guard = lock.lock_owned_as(&holder).wait().unwrap();
    futurelock(|| lock.lock_as(&one), || lock.lock_as(&two), || drop(guard));
    assert_eq!((lock.holds(), lock.waiters()), (0, 0));
}

/// Without a setting the patience is 50 ms.
#[test]
fn the_patience_need_not_be_set() {
    let lock = Mutex::new(());
    let guard = lock.lock().wait();
    let unpolled = Step::queued(lock.lock());
    let mut next = Step::queued(lock.lock());
    drop(guard);
    eventually("the grant is passed on", || next.wakes() == 1);
    drop(next.expect_ready());
    drop(unpolled);
    assert!(!lock.is_locked());
}

/// The one that is passed over keeps its place, and stands first again when it is polled.
#[test]
fn a_dormant_request_stands_first_when_polled() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(PATIENCE);
    let mut unpolled = Step::queued(semaphore.acquire(1));
    let mut second = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    eventually("the grant is passed on", || second.wakes() == 1);
    assert_eq!(unpolled.wakes(), 1);
    // No request waits behind the second one, so that its grant stays: from here on all may take
    // their time.
    semaphore.set_patience(LONG);
    let mut third = Step::queued(semaphore.acquire(1));
    let permit = second.expect_ready().unwrap();
    assert_eq!(semaphore.waiters(), 2, "the dormant one and the third");
    unpolled.expect_pending();
    drop(permit);
    assert_eq!((unpolled.wakes(), third.wakes()), (2, 0));
    drop(unpolled.expect_ready().unwrap());
    drop(third.expect_ready().unwrap());
}

/// Those who wait behind an unpolled task may be threads or tasks.
#[test]
fn whoever_waits_behind_an_unpolled_task_is_served() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(0));
        lock.set_patience(PATIENCE);
        let guard = lock.lock().wait();
        let mut unpolled = Step::queued(lock.lock());
        let mut line = Line::new(arrangement, lock);
        let waiters: Vec<_> =
            (0..3).map(|_| line.enter_then(lock.lock(), |mut value| *value += 1)).collect();
        drop(guard);
        waiters.into_iter().for_each(crate::support::Waiter::join);
        assert_eq!(lock.waiters(), 1, "dormant");
        assert_eq!(*unpolled.expect_ready(), 3);
        assert!(!lock.is_locked());
    });
}

/// Somebody who comes after the grant makes it doubtful too.
#[test]
fn a_newcomer_gets_what_an_unpolled_task_does_not_claim() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(()));
        lock.set_patience(PATIENCE);
        let guard = lock.lock().wait();
        let unpolled = Step::queued(lock.lock());
        drop(guard);
        let newcomer = Line::new(arrangement, lock).start(lock.lock());
        drop(newcomer.join());
        drop(unpolled);
        assert_eq!((lock.is_locked(), lock.waiters()), (false, 0));
    });
}

/// If nobody else wants it, a grant waits for its task for as long as it takes.
#[test]
fn an_unclaimed_grant_stays_while_nobody_waits() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(PATIENCE);
    let mut unpolled = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    // Nothing shows that nothing happens but time.
    assert!(Latch::new(1).opened().timeout(PATIENCE * 8).wait().is_err());
    assert_eq!((semaphore.available(), semaphore.held()), (0, 1));
    drop(unpolled.expect_ready().unwrap());
}

/// What a dormant request is withdrawn from is nobody's business.
#[test]
fn a_dormant_request_can_be_dropped_cancelled_and_timed_out() {
    let lock = Mutex::new(());
    lock.set_patience(PATIENCE);
    let stop = CancelSource::new();
    let guard = lock.lock().wait();
    let dropped = Step::queued(lock.lock());
    let mut cancelled = Step::queued(lock.lock().cancel_on(&stop.token()));
    let mut timed = Step::queued(lock.lock().timeout(SHORT * 8));
    let mut last = Step::queued(lock.lock());
    drop(guard);
    eventually("everyone before the last goes dormant", || last.wakes() == 1);
    let guard = last.expect_ready();
    assert_eq!(lock.waiters(), 3);
    drop(dropped);
    assert_eq!(lock.waiters(), 2);
    stop.cancel();
    assert_eq!(lock.waiters(), 1);
    assert_eq!(cancelled.expect_ready().unwrap_err(), WaitError::Cancelled);
    until_queued(&lock, 0);
    assert_eq!(timed.expect_ready().unwrap_err(), WaitError::TimedOut);
    drop(guard);
    assert!(lock.try_lock().is_some());
}

/// A dormant request is refused like any other when it comes back to a closed semaphore.
#[test]
fn a_dormant_request_learns_that_the_semaphore_was_closed() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(PATIENCE);
    let mut dormant = Step::queued(semaphore.acquire(1));
    let mut next = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    eventually("the grant is passed on", || next.wakes() == 1);
    drop(next.expect_ready().unwrap());
    semaphore.close();
    assert_eq!(dormant.expect_ready().unwrap_err(), semaforo::AcquireError::Closed);
    assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
}

/// A signal that its task does not take goes on to the next, exactly once.
#[test]
fn a_signal_to_an_unpolled_task_is_passed_on() {
    in_every_arrangement(|arrangement| {
        let event = leaked(AutoEvent::new());
        event.set_patience(PATIENCE);
        let mut unpolled = Step::queued(event.happened());
        let waiter = Line::new(arrangement, event).enter(event.happened());
        event.set();
        waiter.join();
        unpolled.expect_pending();
        assert!(!event.is_set(), "there was one signal");
        event.set();
        unpolled.expect_ready();
    });
}

/// Several unpolled tasks in a row cost a patience each, and all of them keep their places.
#[test]
fn a_row_of_unpolled_tasks_holds_up_nobody() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(Duration::from_millis(2));
    let mut unpolled: Vec<_> = (0..10).map(|_| Step::queued(semaphore.acquire(1))).collect();
    let mut last = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    eventually("the last is served", || last.wakes() == 1);
    let permit = last.expect_ready().unwrap();
    assert_eq!(semaphore.waiters(), 10);
    drop(permit);
    assert_eq!(semaphore.available(), 1, "nobody is awake to have it");
    for step in &mut unpolled {
        drop(step.expect_ready().unwrap());
    }
    assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
}

/// Whoever is counted among the waiters passes with them.
#[test]
fn a_pulse_lets_a_dormant_waiter_pass_too() {
    let event = AutoEvent::new();
    event.set_patience(PATIENCE);
    let mut dormant = Step::queued(event.happened());
    let mut next = Step::queued(event.happened());
    event.set();
    eventually("the signal is passed on", || next.wakes() == 1);
    next.expect_ready();
    assert_eq!(event.waiters(), 1);
    assert_eq!(event.pulse(), 1);
    assert_eq!(event.waiters(), 0);
    dormant.expect_ready();
}
