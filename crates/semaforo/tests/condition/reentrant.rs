//! A lock that is held several times is given away altogether, and held as often when the wait ends.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use semaforo::{
    CancelSource, KeyGuard, OwnerKey, ReentrantCondition, ReentrantGuard, ReentrantLock, WaitError,
};

use crate::support::{
    Kind, LONG, Line, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, leaked,
    panic_of, until_queued,
};

type Value = AtomicUsize;
type Fixture = (&'static ReentrantLock<Value>, &'static ReentrantCondition);

const HOLDS: [usize; 3] = [1, 2, 5];

fn fixture() -> Fixture {
    (leaked(ReentrantLock::new(AtomicUsize::new(0))), leaked(ReentrantCondition::new()))
}

/// So many holds of one key.
fn hold(lock: &'static ReentrantLock<Value>, times: usize) -> Vec<KeyGuard<'static, Value>> {
    let key = OwnerKey::new();
    (0..times).map(|_| lock.lock_as(&key).wait().unwrap()).collect()
}

/// C-04, for threads.
#[test]
fn a_thread_holds_as_often_as_before() {
    in_every_arrangement(|arrangement| {
        for times in HOLDS {
            let (lock, condition) = fixture();
            let kind = arrangement.kind(times);
            let waiter = Waiter::on_a_thread(move || {
                let mut guards: Vec<ReentrantGuard<'_, _>> =
                    (0..times).map(|_| lock.lock().wait().unwrap()).collect();
                let last = guards.pop().unwrap();
                let last = match kind {
                    Kind::Blocking => condition.wait(last).wait(),
                    Kind::Async(executor) => executor.block_on(condition.wait(last)),
                };
                assert_eq!(lock.holds() as usize, times);
                assert!(lock.is_held_by_this_thread());
                guards.push(last);
                for left in (0..times).rev() {
                    assert!(lock.is_held_by_this_thread());
                    guards.pop();
                    assert_eq!(lock.holds() as usize, left);
                }
            });
            until_queued(condition, 1);
            assert_eq!((lock.holds(), lock.available()), (0, 1), "given away altogether");
            let guard = lock.lock().wait().unwrap();
            let again = lock.lock().wait().unwrap();
            assert!(condition.signal(&again));
            drop(again);
            assert!(!waiter.is_done());
            drop(guard);
            waiter.join();
            assert!(!lock.is_locked());
        }
    });
}

/// C-04, for keys.
#[test]
fn a_key_holds_as_often_as_before() {
    in_every_arrangement(|arrangement| {
        for times in HOLDS {
            let (lock, condition) = fixture();
            let mut guards = hold(lock, times);
            let request = condition.wait(guards.pop().unwrap());
            let waiter = Line::new(arrangement, condition).enter(request);
            assert_eq!(lock.holds(), 0);
            let other = lock.try_lock_as(&OwnerKey::new()).expect("given away altogether");
            assert!(condition.signal(&other));
            drop(other);
            guards.push(waiter.join());
            for left in (0..times).rev() {
                assert!(lock.try_lock_as(&OwnerKey::new()).is_none());
                guards.pop();
                assert_eq!(lock.holds() as usize, left);
            }
        }
    });
}

/// C-12, with all holds.
#[test]
fn a_limit_restores_the_holds_too() {
    in_every_arrangement(|arrangement| {
        for times in HOLDS {
            let (lock, condition) = fixture();
            let stop = CancelSource::new();
            let mut guards = hold(lock, times);
            let mut line = Line::new(arrangement, condition);
            let request = condition.wait(guards.pop().unwrap()).cancel_on(&stop.token());
            let cancelled = line.enter(request);
            fire(&stop, 1);
            let ended = cancelled.join().unwrap_err();
            assert_eq!((ended.why, lock.holds() as usize), (WaitError::Cancelled, times));
            let timed = line.start(condition.wait(ended.guard).timeout(SHORT)).join().unwrap_err();
            assert_eq!((timed.why, lock.holds() as usize), (WaitError::TimedOut, times));
            let zero = condition.wait(timed.guard).timeout(Duration::ZERO);
            let zero = line.start(zero).join().unwrap_err();
            assert_eq!((zero.why, lock.holds() as usize), (WaitError::TimedOut, times));
            drop((zero, guards));
            assert!(!lock.is_locked());
        }
    });
}

/// Those who come for the lock find it held at every moment from the grant on.
#[test]
fn nobody_gets_in_while_the_holds_are_restored() {
    let (lock, condition) = fixture();
    let over = leaked(std::sync::atomic::AtomicBool::new(false));
    let signals = Waiter::on_a_thread(move || {
        while !over.load(std::sync::atomic::Ordering::SeqCst) {
            let guard = lock.lock().wait().unwrap();
            assert_eq!(
                (lock.holds(), guard.fetch_add(1, std::sync::atomic::Ordering::SeqCst)),
                (1, 0)
            );
            condition.signal(&guard);
            guard.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let outer = lock.lock().wait().unwrap();
    for times in 1..300 {
        let mut guards: Vec<_> = (0..times % 7).map(|_| lock.lock().wait().unwrap()).collect();
        let last = condition.wait(lock.lock().wait().unwrap()).wait();
        assert_eq!(last.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
        guards.push(last);
        assert_eq!(lock.holds() as usize, guards.len() + 1);
        assert!(lock.is_held_by_this_thread());
        outer.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
    drop(outer);
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    signals.join();
}

/// Hoare's signal gives all holds away, too, and restores them.
#[test]
fn an_urgent_signal_restores_the_holds() {
    in_every_arrangement(|arrangement| {
        for times in HOLDS {
            let (lock, condition) = fixture();
            let mut line = Line::new(arrangement, condition);
            let signalled =
                line.enter_then(condition.wait(hold(lock, 1).pop().unwrap()), move |guard| {
                    assert_eq!(lock.holds(), 1);
                    drop(guard);
                });
            let mut guards = hold(lock, times);
            let request = condition.signal_urgent(guards.pop().unwrap());
            guards.push(line.start(request).join());
            assert_eq!(lock.holds() as usize, times);
            signalled.join();
            drop(guards);
            assert!(!lock.is_locked());
        }
    });
}

/// Whoever drops a wait has given the lock away, all of it: the other guards hold nothing, and
/// dropping them takes nothing from anybody.
#[test]
fn dropping_a_wait_leaves_the_other_guards_without_a_hold() {
    let (lock, condition) = fixture();
    let mut guards = hold(lock, 3);
    let waiting = Step::queued(condition.wait(guards.pop().unwrap()));
    drop(waiting);
    assert_eq!(lock.holds(), 0);
    let other = hold(lock, 2);
    drop(guards);
    assert_eq!(lock.holds(), 2, "another's");
    drop(other);
    assert!(!lock.is_locked());
}

/// C-02: a guard whose owner has given the lock away is no licence to signal. (If it were, whoever is
/// signalled would stand in line for a lock that nobody holds, and so nobody would pass on.)
#[test]
fn signalling_with_a_guard_that_holds_nothing_panics_and_changes_nothing() {
    let (lock, condition) = fixture();
    let mut guards = hold(lock, 2);
    let mut waiting = Step::queued(condition.wait(guards.pop().unwrap()));
    let outer = guards.pop().unwrap();
    for message in [
        panic_of(|| condition.signal(&outer)),
        panic_of(|| condition.signal_many(&outer, 1)),
        panic_of(|| condition.broadcast(&outer)),
    ] {
        assert!(message.contains("not held"), "{message}");
        assert_eq!((condition.waiters(), lock.waiters(), lock.holds()), (1, 0, 0));
    }
    let other = lock.try_lock_as(&OwnerKey::new()).expect("nobody holds it");
    assert!(condition.signal(&other));
    drop(other);
    drop((waiting.expect_ready(), outer));
    assert!(!lock.is_locked());
}

/// C-01, likewise.
#[test]
fn waiting_with_a_guard_that_holds_nothing_panics_and_changes_nothing() {
    for urgently in [false, true] {
        let (lock, condition) = fixture();
        let stop = CancelSource::new();
        let mut guards = hold(lock, 3);
        let mut waiting = Step::queued(condition.wait(guards.pop().unwrap()));
        let outer = guards.pop().unwrap();
        let message = panic_of(|| {
            if urgently {
                drop(condition.signal_urgent(outer).wait());
            } else {
                let _ = condition.wait(outer).timeout(LONG).cancel_on(&stop.token()).wait();
            }
        });
        assert!(message.contains("not held"), "{message}");
        assert_eq!((condition.waiters(), lock.waiters(), lock.holds()), (1, 0, 0));
        let mut polled = Step::new(condition.wait(guards.pop().unwrap()).cancel_on(&stop.token()));
        panic_of(|| polled.poll().is_ready());
        drop(polled);
        assert_eq!(stop.token().registrations(), 0);
        stop.cancel();
        assert_eq!((condition.waiters(), lock.waiters(), lock.holds()), (1, 0, 0));
        assert!(condition.signal(&lock.try_lock_as(&OwnerKey::new()).unwrap()));
        drop(waiting.expect_ready());
    }
}

/// The task's key is what holds, whichever thread it runs on.
#[test]
fn a_task_that_moves_between_threads_holds_as_often_as_before() {
    let (lock, condition) = fixture();
    let mut guards = hold(lock, 2);
    let mut waiting = Step::queued(condition.wait(guards.pop().unwrap()));
    assert!(condition.signal(&lock.lock().wait().unwrap()));
    eventually("it is woken", || waiting.wakes() == 1);
    let guard = std::thread::spawn(move || waiting.expect_ready()).join().unwrap();
    assert_eq!(lock.holds(), 2);
    std::thread::spawn(move || drop(guards)).join().unwrap();
    drop(guard);
    assert!(!lock.is_locked());
}
