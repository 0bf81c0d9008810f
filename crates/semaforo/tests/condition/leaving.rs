//! SignalPolicy as the last act: the one signalled has the lock in the same step.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use semaforo::{Monitor, OwnerKey, ReentrantLock, ReentrantMonitor};

use crate::locks::Lock;
use crate::support::{Line, Record, Step, eventually, in_every_arrangement, panic_of};

/// Also before those who have waited for the lock all the time: what was signalled still holds.
pub(crate) fn the_signalled_one_has_the_lock_at_once<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let order = Record::new();
        let note = |name: &'static str| {
            let order = order.clone();
            move |guard: L::Guard| {
                order.note((name, guard.fetch_add(1, SeqCst)));
            }
        };
        let mut line = Line::new(arrangement, condition);
        let first = line.enter_then(condition.wait(lock.lock()), note("signalled"));
        let second = line.enter_then(condition.wait(lock.lock()), note("other"));
        let guard = lock.lock();
        let newcomer = lock.start(arrangement.kind(0), note("newcomer"));
        eventually("it waits for the lock", || lock.waiters() == 1);
        guard.store(5, SeqCst);
        assert!(condition.signal_and_leave(guard));
        first.join();
        newcomer.join();
        assert_eq!((condition.waiters(), lock.is_locked()), (1, false));
        assert!(condition.signal_and_leave(lock.lock()));
        second.join();
        assert_eq!(order.entries(), [("signalled", 5), ("newcomer", 6), ("other", 7)]);
        assert!(!lock.is_locked());
    });
}

pub(crate) fn without_anybody_who_waits_it_only_leaves<L: Lock>() {
    let (lock, condition) = L::with_condition();
    assert!(!condition.signal_and_leave(lock.lock()), "never waited on");
    drop(Step::queued(condition.wait(lock.lock())));
    let guard = lock.lock();
    let mut next = Step::queued(lock.ask());
    assert!(!condition.signal_and_leave(guard));
    drop(next.expect_ready());
    assert!(!lock.is_locked());
}

pub(crate) fn the_guard_of_another_lock_is_refused<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let mut waiting = Step::queued(condition.wait(lock.lock()));
    let another = L::new();
    let message = panic_of(|| condition.signal_and_leave(another.lock()));
    assert_eq!(message, "a condition was used with the guard of another lock");
    assert!(!another.is_locked() && condition.waiters() == 1);
    assert!(condition.signal_and_leave(lock.lock()));
    drop(waiting.expect_ready());
}

/// It was granted the lock, which is passed on while it does not come; then it is next.
pub(crate) fn a_signalled_task_that_does_not_come_keeps_its_signal<L: Lock>() {
    let (lock, condition) = L::with_condition();
    lock.set_patience(Duration::from_millis(2));
    let mut waiting = Step::queued(condition.wait(lock.lock()));
    let guard = lock.lock();
    let mut other = Step::queued(lock.ask());
    assert!(condition.signal_and_leave(guard));
    assert_eq!(waiting.wakes(), 1);
    eventually("its turn is passed on", || other.wakes() == 1);
    let guard = other.expect_ready();
    waiting.expect_pending();
    drop(guard);
    drop(waiting.expect_ready());
    assert!(!lock.is_locked());
}

pub(crate) fn a_signalled_task_that_is_dropped_passes_the_signal_on<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let [first, mut second] = [(); 2].map(|()| Step::queued(condition.wait(lock.lock())));
    assert!(condition.signal_and_leave(lock.lock()));
    assert!(lock.is_locked());
    drop(first);
    assert_eq!(condition.waiters(), 0);
    drop(second.expect_ready());
    assert!(!lock.is_locked());
}

/// The panic comes out of the call, which has left all the same.
pub(crate) fn a_panicking_waker_leaves_nothing_behind<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let mut waiting = Step::panicking(condition.wait(lock.lock()));
    let message = panic_of(|| condition.signal_and_leave(lock.lock()));
    assert_eq!(message, "the waker panicked");
    assert!(lock.is_locked(), "the signalled one's");
    drop(waiting.expect_ready());
    assert!(!lock.is_locked());
    drop(lock.try_lock().unwrap());
}

/// The owner holds it once more, so it cannot be handed over yet; but the one signalled is next.
#[test]
fn an_owner_that_holds_it_more_than_once_has_the_signalled_one_come_next() {
    let lock = ReentrantLock::new(());
    let (condition, me) = (semaforo::ReentrantCondition::new(), OwnerKey::new());
    let mut waiting = Step::queued(condition.wait(lock.lock_as(&OwnerKey::new()).wait().unwrap()));
    let outer = lock.lock_as(&me).wait().unwrap();
    let inner = lock.lock_as(&me).wait().unwrap();
    let (before, other) = (lock.lock_as(&OwnerKey::new()), OwnerKey::new());
    let mut before = Step::queued(before);
    assert!(condition.signal_and_leave(inner));
    assert_eq!(lock.holds(), 1);
    waiting.expect_pending();
    drop(outer);
    let signalled = waiting.expect_ready();
    assert!(lock.try_lock_as(&other).is_none());
    before.expect_pending();
    drop(signalled);
    drop(before.expect_ready());
    assert!(!lock.is_locked());
}

/// In the monitors, by their own condition.
#[test]
fn monitors_signal_and_leave() {
    let monitor = Monitor::new(0);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut inside = monitor.wait(monitor.enter().wait()).wait();
            *inside += 1;
            *inside
        });
        eventually("it waits", || monitor.waiting() == 1);
        let mut inside = monitor.enter().wait();
        *inside = 41;
        assert!(monitor.signal_and_leave(inside));
        assert_eq!(waits.join().unwrap(), 42);
    });
    let another = Monitor::new(0);
    panic_of(|| monitor.signal_and_leave(another.enter().wait()));
    assert!(!monitor.signal_and_leave(monitor.enter().wait()));

    let (again, key) = (ReentrantMonitor::new(()), OwnerKey::new());
    let mut waits = Step::queued(again.wait(again.enter_as(&key).wait().unwrap()));
    assert!(again.signal_and_leave(again.enter().wait().unwrap()));
    drop(waits.expect_ready());
    assert!(!again.is_entered());
}

/// Whoever is signalled finds what was promised, however many compete for the lock.
#[test]
fn what_was_signalled_holds() {
    let (monitor, rounds) = (Monitor::new(false), 500);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                let mut full = monitor.enter().wait();
                if !*full {
                    full = monitor.wait(full).wait();
                }
                assert!(*full, "a wait without a loop");
                *full = false;
            }
        });
        for _ in 0..rounds {
            loop {
                let mut full = monitor.enter().wait();
                if !*full {
                    *full = true;
                    monitor.signal_and_leave(full);
                    break;
                }
            }
        }
    });
    assert_eq!((monitor.waiting(), monitor.waiters(), monitor.is_entered()), (0, 0, false));
}
