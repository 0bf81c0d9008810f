//! Waits that are dropped, or never polled again, in every stage: neither the lock nor a signal is
//! lost.

use std::time::Duration;

use semaforo::CancelSource;

use crate::locks::Lock;
use crate::support::{LONG, Line, Step, eventually, fire, in_every_arrangement};

const PATIENCE: Duration = Duration::from_millis(5);

/// Nobody holds the lock, and nobody waits for it or for a signal.
#[track_caller]
fn nothing_is_left<L: Lock>(lock: L, condition: &semaforo::Condition<L::Policy>) {
    assert_eq!((condition.waiters(), lock.waiters(), lock.is_locked()), (0, 0, false));
    drop(lock.try_lock().expect("free"));
}

pub(crate) fn a_wait_that_was_never_polled_never_gave_the_lock_away<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let request = condition.wait(lock.lock());
        assert_eq!((condition.waiters(), lock.is_locked()), (0, true));
        assert!(lock.try_lock().is_none());
        let behind = lock.start(arrangement.kind(0), drop);
        eventually("it waits", || lock.waiters() == 1);
        drop(request);
        behind.join();
        let stop = CancelSource::new();
        drop(condition.wait(lock.lock()).timeout(LONG).cancel_on(&stop.token()));
        drop(condition.signal_urgent(lock.lock()));
        drop(condition.wait_while(lock.lock(), |_| true));
        nothing_is_left(lock, condition);
    });
}

pub(crate) fn dropped_in_the_condition<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let dropped = Step::queued(condition.wait(lock.lock()));
        let waiter =
            Line::new(arrangement, condition).enter_then(condition.wait(lock.lock()), drop);
        let last = Step::queued(condition.wait(lock.lock()));
        let guard = lock.lock();
        drop((dropped, last));
        assert_eq!((condition.waiters(), lock.waiters()), (1, 0));
        assert!(lock.is_locked(), "a third one's");
        assert!(condition.signal(&guard));
        drop(guard);
        waiter.join();
        nothing_is_left(lock, condition);
    });
}

/// C-17
pub(crate) fn dropped_in_the_locks_line<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let first = Step::queued(condition.wait(lock.lock()));
        let second =
            Line::new(arrangement, condition).enter_then(condition.wait(lock.lock()), drop);
        let third = Step::queued(condition.wait(lock.lock()));
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        assert_eq!((condition.waiters(), lock.waiters()), (2, 1));
        drop(first);
        assert_eq!((condition.waiters(), lock.waiters()), (1, 1), "the signal goes to the second");
        drop(guard);
        second.join();
        assert_eq!((third.wakes(), condition.waiters()), (0, 1));
        drop(third);
        nothing_is_left(lock, condition);
    });
}

pub(crate) fn dropped_when_granted<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let first = Step::queued(condition.wait(lock.lock()));
        let second =
            Line::new(arrangement, condition).enter_then(condition.wait(lock.lock()), drop);
        let third = Step::queued(condition.wait(lock.lock()));
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        drop(guard);
        assert_eq!(first.wakes(), 1);
        drop(first);
        second.join();
        assert_eq!((third.wakes(), condition.waiters()), (0, 1));
        drop(third);
        nothing_is_left(lock, condition);
    });
}

pub(crate) fn dropped_after_a_limit_signals_nobody<L: Lock>() {
    for granted in [false, true] {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        let dropped = Step::queued(condition.wait(lock.lock()).cancel_on(&stop.token()));
        let other = Step::queued(condition.wait(lock.lock()));
        let guard = lock.lock();
        fire(&stop, 1);
        if granted {
            drop(guard);
            assert_eq!(dropped.wakes(), 1);
            drop(dropped);
        } else {
            drop(dropped);
            drop(guard);
        }
        assert_eq!((other.wakes(), condition.waiters()), (0, 1));
        drop(other);
        nothing_is_left(lock, condition);
    }
}

/// Whoever comes after a broadcast was not meant.
pub(crate) fn dropped_after_a_broadcast_signals_nobody<L: Lock>() {
    for granted in [false, true] {
        let (lock, condition) = L::with_condition();
        let dropped = Step::queued(condition.wait(lock.lock()));
        let guard = lock.lock();
        let before = (!granted).then(|| Step::queued(lock.ask()));
        assert_eq!(condition.broadcast(&guard), 1);
        let late = Step::queued(condition.wait(guard));
        assert_eq!(dropped.wakes(), usize::from(granted));
        drop(dropped);
        assert_eq!((late.wakes(), condition.waiters()), (0, 1));
        drop((before, late));
        nothing_is_left(lock, condition);
    }
}

pub(crate) fn a_passed_on_signal_is_passed_on_again<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let mut waiters: Vec<_> = (0..40).map(|_| Step::queued(condition.wait(lock.lock()))).collect();
    let guard = lock.lock();
    assert!(condition.signal(&guard));
    let last = waiters.pop().unwrap();
    let (in_line, granted) = (waiters.drain(..20).collect::<Vec<_>>(), waiters);
    for waiter in in_line {
        drop(waiter);
        assert_eq!(lock.waiters(), 1);
    }
    drop(guard);
    for waiter in granted {
        assert_eq!(waiter.wakes(), 1);
        drop(waiter);
    }
    let mut last = last;
    assert_eq!((last.wakes(), condition.waiters()), (1, 0));
    drop(last.expect_ready());
    nothing_is_left(lock, condition);
}

/// Dropped in any stage: whoever waits for a signal gets it if it was sent, and whoever waits for the
/// lock gets that in any case.
pub(crate) fn every_stage_with_everyone_behind<L: Lock>() {
    in_every_arrangement(|arrangement| {
        for stage in 0..4 {
            let (lock, condition) = L::with_condition();
            let stop = CancelSource::new();
            let request = condition.wait(lock.lock()).timeout(LONG).cancel_on(&stop.token());
            let mut dropped = Step::new(request);
            let mut line = Line::new(arrangement, condition);
            let mut waits = None;
            if stage > 0 {
                dropped.expect_pending();
                waits = Some(line.enter_then(condition.wait(lock.lock()), drop));
            }
            let mut guard = (stage > 0).then(|| lock.lock());
            let for_the_lock = lock.start(line.next_kind(), drop);
            eventually("it waits", || lock.waiters() == 1);
            if stage > 1 {
                assert!(condition.signal(guard.as_ref().unwrap()));
                assert_eq!((condition.waiters(), lock.waiters()), (1, 2));
            }
            if stage > 2 {
                guard = None;
                for_the_lock.join();
                eventually("it is granted", || dropped.wakes() == 1);
                drop(dropped);
            } else {
                drop(dropped);
                guard = None;
                for_the_lock.join();
            }
            drop(guard);
            if let Some(waits) = waits {
                if stage == 1 {
                    assert!(!waits.is_done());
                    assert!(condition.signal(&lock.lock()));
                }
                waits.join();
            }
            assert_eq!(stop.token().registrations(), 0);
            nothing_is_left(lock, condition);
        }
    });
}

/// Promise 4
pub(crate) fn an_unpolled_task_holds_up_nobody<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        lock.set_patience(PATIENCE);
        let mut unpolled = Step::queued(condition.wait(lock.lock()));
        let mut line = Line::new(arrangement, condition);
        let signalled = line.enter_then(condition.wait(lock.lock()), drop);
        let guard = lock.lock();
        let for_the_lock = lock.start(line.next_kind(), drop);
        eventually("it waits", || lock.waiters() == 1);
        assert_eq!(condition.broadcast(&guard), 2);
        drop(guard);
        for_the_lock.join();
        signalled.join();
        assert_eq!(unpolled.wakes(), 1);
        drop(unpolled.expect_ready());
        nothing_is_left(lock, condition);
    });
}

/// It was signalled, so it needs no other signal, and a limit comes too late.
pub(crate) fn a_signalled_task_that_was_passed_over_keeps_its_signal<L: Lock>() {
    let (lock, condition) = L::with_condition();
    lock.set_patience(PATIENCE);
    let stop = CancelSource::new();
    let mut unpolled = Step::queued(condition.wait(lock.lock()).cancel_on(&stop.token()));
    let other = Step::queued(condition.wait(lock.lock()));
    let guard = lock.lock();
    assert!(condition.signal(&guard));
    let mut next = Step::queued(lock.ask());
    drop(guard);
    eventually("it is passed over", || next.wakes() == 1);
    let guard = next.expect_ready();
    stop.cancel();
    assert_eq!(lock.waiters(), 1, "dormant");
    unpolled.expect_pending();
    drop(guard);
    assert!(unpolled.expect_ready().is_ok(), "the signal wins");
    assert_eq!((other.wakes(), condition.waiters()), (0, 1));
    drop(other);
    nothing_is_left(lock, condition);
}

pub(crate) fn a_signalled_task_that_was_passed_over_can_be_dropped<L: Lock>() {
    let (lock, condition) = L::with_condition();
    lock.set_patience(PATIENCE);
    let unpolled = Step::queued(condition.wait(lock.lock()));
    let mut other = Step::queued(condition.wait(lock.lock()));
    let guard = lock.lock();
    assert!(condition.signal(&guard));
    let mut next = Step::queued(lock.ask());
    drop(guard);
    eventually("it is passed over", || next.wakes() == 1);
    let guard = next.expect_ready();
    drop(unpolled);
    assert_eq!((condition.waiters(), lock.waiters()), (0, 1), "the signal goes to the other");
    drop(guard);
    drop(other.expect_ready());
    nothing_is_left(lock, condition);
}

///
pub(crate) fn the_waker_is_given_back<L: Lock>() {
    let (lock, condition) = L::with_condition();
    for stage in 0..3 {
        let counter = std::sync::Arc::new(());
        let held = std::sync::Arc::clone(&counter);
        let waker = crate::support::waker_that(move || {
            let _ = &held;
        });
        let mut step = Step::new(condition.wait(lock.lock()));
        for _ in 0..2 {
            assert!(step.poll_with(&waker.clone()).is_pending());
        }
        let guard = lock.lock();
        if stage > 0 {
            assert!(condition.signal(&guard));
        }
        if stage > 1 {
            drop(guard);
            drop(step);
        } else {
            drop(step);
            drop(guard);
        }
        drop(waker);
        assert_eq!(std::sync::Arc::strong_count(&counter), 1);
    }
    nothing_is_left(lock, condition);
}
