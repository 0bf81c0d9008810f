//! Signals behind a task that was granted the lock, or in barging mode was told to try again, and is
//! never polled again: whoever is signalled goes on all the same.

use std::time::Duration;

use semaforo::Condition;

use crate::locks::Lock;
use crate::support::{Line, Step, Waiter, eventually, in_every_arrangement};

const PATIENCE: Duration = Duration::from_millis(5);

/// Somebody waits for a signal, and says when it has the lock.
fn waits<L: Lock>(line: &mut Line<'static, Condition<L::Policy>>, lock: L) -> Waiter<()> {
    let condition = line.object();
    line.enter_then(condition.wait(lock.lock()), drop)
}

/// A lock with a condition, `prepare`, and then a task that keeps the lock's line from moving.
fn behind<L: Lock, T>(
    prepare: impl Fn(&mut Line<'static, Condition<L::Policy>>, L) -> T,
    run: impl Fn(L, &'static Condition<L::Policy>, T),
) {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        lock.set_patience(PATIENCE);
        let prepared = prepare(&mut Line::new(arrangement, condition), lock);
        let guard = lock.lock();
        let mut unpolled = Step::queued(lock.ask());
        drop(guard);
        run(lock, condition, prepared);
        drop(unpolled.expect_ready());
        assert_eq!((condition.waiters(), lock.waiters(), lock.is_locked()), (0, 0, false));
    });
}

pub(crate) fn a_signal_behind_an_unpolled_task<L: Lock>() {
    behind::<L, _>(waits, |lock, condition, signalled| {
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        drop(guard);
        signalled.join();
    });
}

pub(crate) fn a_broadcast_behind_an_unpolled_task<L: Lock>() {
    let three = |line: &mut _, lock| [(); 3].map(|()| waits(line, lock));
    behind::<L, _>(three, |lock, condition, signalled| {
        let guard = lock.lock();
        assert_eq!(condition.broadcast(&guard), 3);
        drop(guard);
        signalled.into_iter().for_each(Waiter::join);
    });
}

pub(crate) fn an_urgent_signal_behind_an_unpolled_task<L: Lock>() {
    behind::<L, _>(waits, |lock, condition, signalled| {
        // A task that the machine keeps from coming in time misses its turn, and waits again.
        eventually("the signalled one comes", || {
            drop(condition.signal_urgent(lock.lock()).wait());
            signalled.is_done()
        });
        signalled.join();
    });
}

/// The one that was signalled is dropped, in the lock's line.
pub(crate) fn a_signal_passed_on_behind_an_unpolled_task<L: Lock>() {
    let two = |line: &mut Line<'static, Condition<L::Policy>>, lock: L| {
        (Step::queued(line.object().wait(lock.lock())), waits(line, lock))
    };
    behind::<L, _>(two, |lock, condition, (dropped, next)| {
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        drop(guard);
        drop(dropped);
        next.join();
    });
}
