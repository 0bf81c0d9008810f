//! Cases M: the re-entrant lock.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::{
    Kind, LONG, Line, Step, Waiter, fire, in_every_arrangement, leaked, until_queued,
};
use semaforo::{CancelSource, OwnerKey, ReentrantLock, TooManyHolds, WaitError};

/// M-01
#[test]
fn a_new_lock_has_no_owner() {
    let lock = ReentrantLock::new(7);
    assert!(!lock.is_locked());
    assert!(!lock.is_held_by_this_thread());
    assert!(!lock.is_held_by(&OwnerKey::new()));
    assert_eq!((lock.holds(), lock.available(), lock.waiters()), (0, 1, 0));
    assert_eq!(lock.into_inner(), 7);
}

#[test]
fn a_lock_is_made_of_its_value() {
    let lock = ReentrantLock::from(String::from("a"));
    assert_eq!((lock.lock().wait().unwrap().as_str(), lock.holds()), ("a", 1));
    assert_eq!(lock.into_inner(), "a");
    assert_eq!(*ReentrantLock::<u32>::default().lock().wait().unwrap(), 0);
}

#[test]
fn the_owner_comes_again_at_once_whoever_waits() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(ReentrantLock::new(Cell::new(0)));
        let outer = lock.lock().wait().unwrap();
        let kind = arrangement.kind(0);
        let waiter = Waiter::start_there(kind, || lock.lock(), |guard| guard.unwrap().get());
        until_queued(lock, 1);
        let inner = lock.lock().wait().unwrap();
        let tried = lock.try_lock().unwrap();
        let limited = lock.lock().timeout(Duration::ZERO).wait().unwrap();
        let polled = Step::new(lock.lock()).expect_ready().unwrap();
        assert_eq!((lock.holds(), lock.waiters()), (5, 1));
        inner.set(3);
        drop((outer, tried, limited, polled));
        assert!(lock.is_held_by_this_thread());
        assert!(!waiter.is_done());
        drop(inner);
        assert_eq!(waiter.join(), 3);
        assert_eq!(lock.holds(), 0);
    });
}

/// M-05, by type: a thread has a guard only of its own, and it cannot be sent. A key is not
/// another.
#[test]
fn another_owner_does_not_get_in() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(ReentrantLock::new(()));
        let (mine, other) = (leaked(OwnerKey::new()), leaked(OwnerKey::new()));
        let guard = lock.lock_as(mine).wait().unwrap();
        assert!(lock.is_held_by(mine) && !lock.is_held_by(other));
        assert!(!lock.is_held_by_this_thread());
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_as(other).is_none());
        let mut line = Line::new(arrangement, lock);
        let waiter = line.enter(lock.lock_as(other));
        let again = lock.try_lock_as(mine).unwrap();
        assert_eq!((lock.holds(), lock.waiters()), (2, 1));
        drop((guard, again));
        drop(waiter.join().unwrap());
        assert!(!lock.is_locked());
    });
}

/// The key is the owner, wherever it is presented.
#[test]
fn a_key_owns_the_lock_across_threads() {
    let lock = Arc::new(ReentrantLock::new(()));
    let key = Arc::new(OwnerKey::new());
    let outer = lock.lock_owned_as(&key).wait().unwrap();
    let elsewhere = {
        let (lock, key) = (Arc::clone(&lock), Arc::clone(&key));
        std::thread::spawn(move || lock.lock_owned_as(&key).wait().unwrap()).join().unwrap()
    };
    assert_eq!(lock.holds(), 2);
    drop(outer);
    assert!(lock.is_held_by(&key));
    std::thread::spawn(move || drop(elsewhere)).join().unwrap();
    assert!(!lock.is_locked());
    assert_eq!(Arc::strong_count(&lock), 1);
}

/// M-07
#[test]
fn one_hold_too_many_is_refused_and_all_can_be_unwound() {
    let lock = ReentrantLock::new(());
    let max = ReentrantLock::<()>::MAX_HOLDS;
    let guards: Vec<_> = (0..max).map(|_| lock.lock().wait().unwrap()).collect();
    assert_eq!(lock.holds(), max);
    assert_eq!(lock.lock().wait().unwrap_err(), TooManyHolds);
    assert!(lock.try_lock().is_none());
    let timed = lock.lock().timeout(LONG).wait();
    assert_eq!(timed.unwrap_err(), WaitError::Refused(TooManyHolds));
    assert_eq!(Step::new(lock.lock()).expect_ready().unwrap_err(), TooManyHolds);
    assert_eq!((lock.holds(), lock.waiters()), (max, 0));
    drop(guards);
    assert_eq!(lock.holds(), 0);
    assert!(lock.try_lock().is_some());
}

/// M-08
#[test]
fn ten_thousand_nested_holds_unwind_one_by_one() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(ReentrantLock::new(()));
        let mut guards: Vec<_> = (0..10_000).map(|_| lock.lock().wait().unwrap()).collect();
        let waiter = Waiter::start_there(arrangement.kind(0), || lock.lock(), drop);
        until_queued(lock, 1);
        while guards.pop().is_some() && !guards.is_empty() {
            assert!(lock.is_held_by_this_thread());
        }
        waiter.join();
        assert!(!lock.is_locked());
    });
}

/// M-11
#[test]
fn cancelling_a_waiter_leaves_owner_and_count_alone() {
    in_every_arrangement(|arrangement| {
        let lock = leaked(ReentrantLock::new(()));
        let stop = CancelSource::new();
        let token = stop.token();
        let guards = [lock.lock().wait().unwrap(), lock.lock().wait().unwrap()];
        let waiter = Waiter::start_there(
            arrangement.kind(0),
            move || lock.lock().cancel_on(&token),
            |guard| guard.map(drop),
        );
        until_queued(lock, 1);
        fire(&stop, 1);
        assert_eq!((lock.holds(), lock.waiters()), (2, 0));
        assert!(lock.is_held_by_this_thread());
        assert_eq!(waiter.join().unwrap_err(), WaitError::Cancelled);
        drop(guards);
        assert!(!lock.is_locked());
    });
}

/// A dropped grant of one key goes to the next.
#[test]
fn a_granted_lock_passes_on_when_its_waiter_is_dropped() {
    let lock = ReentrantLock::new(());
    let (a, b, c) = (OwnerKey::new(), OwnerKey::new(), OwnerKey::new());
    let held = lock.lock_as(&a).wait().unwrap();
    let for_b = Step::queued(lock.lock_as(&b));
    let mut for_c = Step::queued(lock.lock_as(&c));
    drop(held);
    assert!(lock.is_held_by(&b));
    drop(for_b);
    assert!(lock.is_held_by(&c));
    drop(for_c.expect_ready().unwrap());
    assert!(!lock.is_locked());
}

/// Two requests of one owner that both had to wait are served together.
#[test]
fn requests_of_one_owner_do_not_wait_for_each_other() {
    let lock = ReentrantLock::new(());
    let (a, b) = (OwnerKey::new(), OwnerKey::new());
    let held = lock.lock_as(&a).wait().unwrap();
    let mut first = Step::queued(lock.lock_as(&b));
    let mut second = Step::queued(lock.lock_as(&b));
    drop(held);
    assert_eq!((lock.holds(), lock.waiters()), (2, 0));
    let (first, second) = (first.expect_ready().unwrap(), second.expect_ready().unwrap());
    drop(second);
    assert!(lock.is_held_by(&b));
    drop(first);
    assert!(!lock.is_locked());
}

/// P14
#[test]
fn a_panic_while_holding_frees_the_lock() {
    let lock = leaked(ReentrantLock::new(()));
    let panics = Waiter::<()>::start_there(
        Kind::Blocking,
        || lock.lock(),
        |guard| {
            let _guard = guard.unwrap();
            panic!("while holding");
        },
    );
    assert!(panics.join_or_panic().is_err());
    assert!(!lock.is_locked());
}

#[test]
fn the_value_can_be_reached_without_locking_by_its_only_user() {
    let mut lock = ReentrantLock::new(1);
    *lock.get_mut() += 1;
    let guard = lock.lock().wait().unwrap();
    assert_eq!((*guard, semaforo::ReentrantGuard::reentrant_lock(&guard).holds()), (2, 1));
    assert_eq!(format!("{guard:?}"), "2");
    assert!(format!("{lock:?}").contains('2'), "its owner can look");
    drop(guard);
    let _guard = lock.lock_as(&OwnerKey::new()).wait().unwrap();
    assert!(format!("{lock:?}").contains("<locked>"));
}

/// A newcomer is refused when its owner holds as often as it can; a request that waits goes on waiting
/// until there is room.
#[test]
fn a_request_that_waits_is_served_when_there_is_room() {
    let lock = ReentrantLock::new(());
    let (first, second) = (OwnerKey::new(), OwnerKey::new());
    let held = lock.lock_as(&first).wait().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    // One more than the second owner can have.
    let mut waiting: Vec<_> =
        (0..=ReentrantLock::<()>::MAX_HOLDS).map(|_| Box::pin(lock.lock_as(&second))).collect();
    for request in &mut waiting {
        assert!(request.as_mut().poll(&mut context).is_pending());
    }
    drop(held);
    assert_eq!((lock.holds(), lock.waiters()), (ReentrantLock::<()>::MAX_HOLDS, 1));
    assert_eq!(lock.lock_as(&second).wait().unwrap_err(), TooManyHolds);
    let mut last = waiting.pop().unwrap();
    drop(waiting.pop());
    let Poll::Ready(outcome) = last.as_mut().poll(&mut context) else { panic!("not answered") };
    drop(outcome.unwrap());
    drop(waiting);
    assert_eq!(lock.holds(), 0);
}
