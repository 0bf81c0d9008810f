//! Waits that are cancelled, or whose time is up.

use std::time::{Duration, Instant};

use semaforo::{CancelSource, Interrupted, WaitError};

use crate::locks::Lock;
use crate::support::{
    LONG, Line, SHORT, Step, Waiter, eventually, fire, in_every_arrangement,
    in_every_arrangement_at_once,
};

/// The guard of a wait that must have been ended by this.
#[track_caller]
fn ended<G>(outcome: Result<G, Interrupted<G>>, why: WaitError) -> G {
    match outcome {
        Ok(_) => panic!("expected {why:?}"),
        Err(interrupted) => {
            assert_eq!(interrupted.why, why);
            interrupted.into_guard()
        }
    }
}

/// The guard of a wait that must have been signalled.
#[track_caller]
fn signalled<G>(outcome: Result<G, Interrupted<G>>) -> G {
    outcome.unwrap_or_else(|interrupted| panic!("not signalled: {interrupted}"))
}

/// C-10
pub(crate) fn a_wait_is_not_ended_before_its_time<L: Lock>() {
    in_every_arrangement_at_once(|arrangement| {
        for by_deadline in [false, true] {
            let (lock, condition) = L::with_condition();
            let guard = lock.lock();
            let start = Instant::now();
            let request = condition.wait(guard);
            let request =
                if by_deadline { request.deadline(start + SHORT) } else { request.timeout(SHORT) };
            let waiter = Line::new(arrangement, condition).start(request);
            let guard = ended(waiter.join(), WaitError::TimedOut);
            assert!(start.elapsed() >= SHORT);
            assert!(lock.is_locked(), "held on return");
            assert_eq!((condition.waiters(), lock.waiters()), (0, 0));
            assert!(!condition.signal(&guard));
            drop(guard);
            assert!(!lock.is_locked());
        }
    });
}

/// C-11, X-03
pub(crate) fn a_zero_timeout_never_gives_the_lock_away<L: Lock>() {
    in_every_arrangement(|arrangement| {
        for by_deadline in [false, true] {
            let (lock, condition) = L::with_condition();
            let guard = lock.lock();
            let mut line = Line::new(arrangement, condition);
            let behind = lock.start(line.next_kind(), drop);
            eventually("it waits", || lock.waiters() == 1);
            let request = condition.wait(guard);
            let now = Instant::now();
            let request = if by_deadline {
                request.deadline(now.checked_sub(LONG).unwrap_or(now))
            } else {
                request.timeout(Duration::ZERO)
            };
            let guard = ended(line.start(request).join(), WaitError::TimedOut);
            assert_eq!((lock.is_locked(), lock.waiters()), (true, 1));
            assert!(!behind.is_done(), "nobody had the lock in between");
            drop(guard);
            behind.join();
        }
    });
}

///
pub(crate) fn a_fired_token_never_gives_the_lock_away<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        stop.cancel();
        let guard = lock.lock();
        let mut line = Line::new(arrangement, condition);
        let behind = lock.start(line.next_kind(), drop);
        eventually("it waits", || lock.waiters() == 1);
        let waiter = line.start(condition.wait(guard).cancel_on(&stop.token()));
        let guard = ended(waiter.join(), WaitError::Cancelled);
        assert!(!behind.is_done());
        drop(guard);
        behind.join();
        assert_eq!(condition.waiters(), 0);
    });
}

///
pub(crate) fn cancelled_comes_before_timed_out<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        stop.cancel();
        let request = condition.wait(lock.lock()).timeout(Duration::ZERO);
        let waiter = Line::new(arrangement, condition).start(request.cancel_on(&stop.token()));
        drop(ended(waiter.join(), WaitError::Cancelled));
        assert!(!lock.is_locked());
    });
}

/// C-12
pub(crate) fn cancelling_ends_the_wait_with_the_lock_held<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, condition);
        let waiter = line.enter(condition.wait(lock.lock()).cancel_on(&stop.token()));
        let other = line.enter_then(condition.wait(lock.lock()), drop);
        fire(&stop, 1);
        assert_eq!(condition.waiters(), 1, "it has left when the token has fired");
        let guard = ended(waiter.join(), WaitError::Cancelled);
        assert!(lock.is_locked());
        assert_eq!((condition.waiters(), stop.token().registrations()), (1, 0));
        assert!(condition.signal(&guard), "the other one");
        drop(guard);
        other.join();
    });
}

/// C-13
pub(crate) fn whoever_is_cancelled_waits_for_the_lock<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        let request = condition.wait(lock.lock()).cancel_on(&stop.token());
        let waiter = Line::new(arrangement, condition).enter(request);
        let guard = lock.lock();
        fire(&stop, 1);
        assert_eq!((condition.waiters(), lock.waiters()), (0, 1));
        assert!(!waiter.is_done());
        assert!(!condition.signal(&guard), "no signal is spent on it");
        drop(guard);
        let guard = ended(waiter.join(), WaitError::Cancelled);
        assert!(lock.is_locked() && lock.try_lock().is_none());
        drop(guard);
    });
}

/// C-15: P12, the signal wins.
pub(crate) fn a_signal_wins_over_a_token<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, condition);
        let first = line.enter(condition.wait(lock.lock()).cancel_on(&stop.token()));
        let second = line.enter_then(condition.wait(lock.lock()), drop);
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        stop.cancel();
        assert_eq!((condition.waiters(), lock.waiters()), (1, 1), "nothing changes");
        drop(guard);
        let guard = signalled(first.join());
        assert!(!second.is_done());
        assert!(condition.signal(&guard));
        drop(guard);
        second.join();
    });
}

/// C-16
pub(crate) fn a_signal_wins_over_the_time<L: Lock>() {
    in_every_arrangement_at_once(|arrangement| {
        let (lock, condition) = L::with_condition();
        let end = Instant::now() + SHORT * 4;
        let request = condition.wait(lock.lock()).deadline(end);
        let waiter = Line::new(arrangement, condition).start(request);
        let guard = lock.lock();
        if !condition.signal(&guard) {
            // Only if this thread was kept from running for so long that its time was up.
            assert!(Instant::now() >= end);
            drop(guard);
            drop(ended(waiter.join(), WaitError::TimedOut));
            return;
        }
        eventually("its time is up", || Instant::now() >= end + SHORT);
        assert!(!waiter.is_done());
        drop(guard);
        drop(signalled(waiter.join()));
    });
}

pub(crate) fn a_limit_that_came_first_wins_over_a_signal<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, condition);
        let cancelled = line.enter(condition.wait(lock.lock()).cancel_on(&stop.token()));
        let other = line.enter_then(condition.wait(lock.lock()), drop);
        let guard = lock.lock();
        fire(&stop, 1);
        assert_eq!(condition.broadcast(&guard), 1, "the signal goes to whoever still waits for it");
        drop(guard);
        drop(ended(cancelled.join(), WaitError::Cancelled));
        other.join();
        assert!(!lock.is_locked());
    });
}

/// More than are woken in one batch, one token for all.
pub(crate) fn everyone_is_cancelled_by_one_token<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let stop = CancelSource::new();
    let token = stop.token();
    let mut waiters: Vec<_> = (0..40)
        .map(|_| Step::queued(condition.wait(lock.lock()).cancel_on(&token).timeout(LONG)))
        .collect();
    fire(&stop, 40);
    assert_eq!(condition.waiters(), 0);
    for waiter in &mut waiters {
        drop(ended(waiter.expect_ready(), WaitError::Cancelled));
    }
    assert_eq!((lock.is_locked(), lock.waiters(), token.registrations()), (false, 0, 0));
}

///
pub(crate) fn the_longest_limit_is_no_limit<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let mut line = Line::new(arrangement, condition);
        let waiters = [
            line.enter(condition.wait(lock.lock()).timeout(Duration::MAX)),
            line.enter(condition.wait(lock.lock()).timeout(Duration::from_nanos(u64::MAX))),
        ];
        assert_eq!(condition.broadcast(&lock.lock()), 2);
        waiters.into_iter().map(Waiter::join).for_each(|outcome| drop(signalled(outcome)));
    });
}
