//! Cases M: the mutex. What only a policy can get wrong is in `framework.rs`, races in `races.rs`.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    LONG, Line, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, leaked, panic_of,
};
use semaforo::{CancelSource, Mutex, RwLock, WaitError};

/// M-01
#[test]
fn a_new_lock_is_free() {
    for lock in [Mutex::new(7), Mutex::barging(7), Mutex::from(7)] {
        assert!(!lock.is_locked());
        assert_eq!((lock.available(), lock.waiters()), (1, 0));
        assert_eq!(lock.into_inner(), 7);
    }
    assert_eq!(*Mutex::<u32>::default().lock().wait(), 0);
}

#[test]
fn the_guard_gives_the_value_and_frees_the_lock() {
    let mut lock = Mutex::new(String::from("a"));
    {
        let mut guard = lock.lock().wait();
        guard.push('b');
        assert!(lock.is_locked());
        assert_eq!((lock.available(), semaforo::MutexGuard::mutex(&guard).waiters()), (0, 0));
        assert_eq!(format!("{guard} {guard:?}"), "ab \"ab\"");
    }
    assert!(!lock.is_locked());
    lock.get_mut().push('c');
    assert_eq!(&*lock.try_lock().unwrap(), "abc");
}

/// M-09
#[test]
fn locking_again_is_never_silently_granted() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(()));
        let stop = CancelSource::new();
        let guard = lock.lock().wait();
        let mut line = Line::new(arrangement, lock);
        assert!(lock.try_lock().is_none());
        let limited = |limit| lock.lock().timeout(limit);
        assert_eq!(limited(Duration::ZERO).wait().unwrap_err(), WaitError::TimedOut);
        assert_eq!(limited(SHORT).wait().unwrap_err(), WaitError::TimedOut);
        let zero = line.start(limited(Duration::ZERO)).join();
        assert_eq!(zero.unwrap_err(), WaitError::TimedOut);
        let again = line.enter(lock.lock().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(again.join().unwrap_err(), WaitError::Cancelled);
        assert_eq!(lock.waiters(), 0, "no ghost is left");
        assert!(lock.is_locked());
        drop(guard);
        assert!(lock.try_lock().is_some());
    });
}

/// M-11
#[test]
fn cancelling_a_waiter_leaves_the_holder_alone() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(1));
        let mut guard = lock.lock().wait();
        let stop = CancelSource::new();
        let waiter = Line::new(arrangement, lock).enter(lock.lock().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!((lock.is_locked(), lock.waiters()), (true, 0));
        assert_eq!(waiter.join().unwrap_err(), WaitError::Cancelled);
        *guard += 1;
        drop(guard);
        assert_eq!(*lock.try_lock().unwrap(), 2);
    });
}

/// M-14
#[test]
fn a_handed_over_lock_passes_on_when_its_waiter_is_dropped() {
    let lock = Mutex::new(());
    let guard = lock.lock().wait();
    let b = Step::queued(lock.lock());
    let mut c = Step::queued(lock.lock());
    drop(guard);
    assert_eq!((b.wakes(), c.wakes()), (1, 0));
    drop(b);
    assert_eq!(c.wakes(), 1);
    assert!(lock.is_locked(), "it belongs to c");
    drop(c.expect_ready());
    assert!(!lock.is_locked());
}

/// M-14: the one behind is a thread, or a task on some executor.
#[test]
fn a_handed_over_lock_passes_on_to_whoever_waits() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(()));
        let guard = lock.lock().wait();
        let b = Step::queued(lock.lock());
        let c = Line::new(arrangement, lock).enter(lock.lock());
        drop(guard);
        assert_eq!(lock.waiters(), 1);
        drop(b);
        assert_eq!(lock.waiters(), 0);
        drop(c.join());
        assert!(!lock.is_locked());
    });
}

/// M-14: a grant wins.
#[test]
fn firing_the_token_of_a_granted_waiter_changes_nothing() {
    let lock = Mutex::new(());
    let stop = CancelSource::new();
    let guard = lock.lock().wait();
    let mut b = Step::queued(lock.lock().cancel_on(&stop.token()));
    let mut c = Step::queued(lock.lock());
    drop(guard);
    stop.cancel();
    assert_eq!((b.wakes(), c.wakes(), lock.waiters()), (1, 0, 1));
    let guard = b.expect_ready().expect("granted before it was cancelled");
    c.expect_pending();
    drop(guard);
    drop(c.expect_ready());
}

/// M-15
#[test]
fn dropping_a_task_that_holds_the_lock_frees_it() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(()));
        let mut task = Step::queued(async {
            let _guard = lock.lock().await;
            std::future::pending::<()>().await;
        });
        task.expect_pending();
        let waiter = Line::new(arrangement, lock).enter(lock.lock());
        drop(task);
        drop(waiter.join());
        assert!(!lock.is_locked());
    });
}

/// M-15
#[test]
fn dropping_a_task_that_waits_for_the_lock_leaves_it_free() {
    let lock = Mutex::new(());
    let guard = lock.lock().wait();
    let waiting = Step::queued(async { drop(lock.lock().await) });
    assert_eq!(lock.waiters(), 1);
    drop(waiting);
    assert_eq!(lock.waiters(), 0);
    drop(guard);
    assert!(lock.try_lock().is_some());
}

/// P14
#[test]
fn a_panic_while_holding_frees_the_lock_without_poisoning_it() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(0));
        let guard = lock.lock().wait();
        let mut line = Line::new(arrangement, lock);
        let panics = line.enter_then(lock.lock(), |mut guard| {
            *guard = 7;
            panic!("while holding");
        });
        let follows = line.enter(lock.lock());
        drop(guard);
        let message = panic_of(|| panics.join());
        assert_eq!(message, "while holding");
        assert_eq!(*follows.join(), 7);
        assert!(!lock.is_locked());
    });
}

#[test]
fn waiters_get_the_lock_in_the_order_in_which_they_came() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(Mutex::new(Vec::new()));
        let guard = lock.lock().wait();
        let mut line = Line::new(arrangement, lock);
        let waiters: Vec<_> = (0..6)
            .map(|number| line.enter_then(lock.lock(), move |mut order| order.push(number)))
            .collect();
        drop(guard);
        waiters.into_iter().for_each(Waiter::join);
        assert_eq!(*lock.lock().wait(), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn an_owned_guard_goes_anywhere() {
    in_every_arrangement(|arrangement| {
        let lock = Arc::new(Mutex::new(1));
        let first = lock.try_lock_owned().unwrap();
        assert!(lock.try_lock_owned().is_none());
        let waiter = Line::new(arrangement, &*lock).enter(lock.lock_owned());
        std::thread::spawn(move || drop(first)).join().unwrap();
        let mut second = waiter.join();
        *second += 1;
        drop(second);
        assert_eq!(Arc::into_inner(lock).expect("nobody else has it").into_inner(), 2);
    });
}

/// A lock around something without a size of its own.
#[test]
fn the_value_may_be_unsized() {
    let lock: Arc<Mutex<[u8]>> = Arc::new(Mutex::new([1, 2, 3]));
    lock.lock().wait().reverse();
    assert_eq!(*lock.lock_owned().wait(), [3, 2, 1]);
    assert!(lock.lock().timeout(LONG).wait().is_ok());
}

#[test]
fn debugging_does_not_wait() {
    let lock = Mutex::new(5);
    assert!(format!("{lock:?}").contains('5'));
    let _guard = lock.lock().wait();
    let _waiter = Step::queued(lock.lock());
    let shown = format!("{lock:?}");
    assert!(shown.contains("<locked>") && shown.contains("waiters: 1"), "{shown}");
}

#[test]
fn a_barging_lock_lets_a_newcomer_overtake_a_waiter_that_has_not_run() {
    let lock = Mutex::barging(());
    let guard = lock.lock().wait();
    let mut waiter = Step::queued(lock.lock());
    drop(guard);
    assert_eq!(waiter.wakes(), 1, "told to try");
    let newcomer = lock.try_lock().expect("free, and barging is on");
    waiter.expect_pending();
    drop(newcomer);
    drop(waiter.expect_ready());
    assert_eq!((lock.waiters(), lock.is_locked()), (0, false));
}

/// Why a second lock by the same thread is no mistake by itself: the guard may be elsewhere, with a
/// thread that has not even looked at it. No build may stop these programs.
#[test]
fn a_thread_may_lock_what_it_has_locked_and_given_away() {
    let lock = leaked(Mutex::new(0));
    let read_write = leaked(RwLock::new(0));
    let (mut guard, mut write) = (lock.lock().wait(), read_write.write().wait());
    let other = std::thread::spawn(move || {
        // This thread waits for both before they are touched here.
        eventually("the first thread waits", || lock.waiters() == 1);
        *guard += 1;
        drop(guard);
        eventually("the first thread waits again", || read_write.waiters() == 1);
        *write += 1;
    });
    assert_eq!(*lock.lock().wait(), 1);
    assert_eq!(*read_write.write().wait(), 1);
    other.join().unwrap();
}
