//! Cases L: the latch. L-08, a race, is in `races.rs`.

use std::time::{Duration, Instant};

use crate::support::{Line, SHORT, Step, Waiter, fire, in_every_arrangement, leaked};
use semaforo::{CancelSource, CountError, Latch, WaitError};

/// L-01
#[test]
fn counting_down_reaches_zero() {
    let latch = Latch::new(2);
    assert_eq!((latch.count(), latch.is_open(), latch.available()), (2, false, 0));
    assert_eq!(latch.count_down(), 1);
    assert_eq!(latch.count(), 1);
    assert_eq!(latch.count_down(), 0);
    assert_eq!((latch.count(), latch.is_open(), latch.available()), (0, true, u32::MAX));
}

/// L-02
#[test]
fn counting_down_at_zero_has_no_effect() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(0));
        let mut line = Line::new(arrangement, latch);
        for _ in 0..3 {
            assert_eq!(latch.count_down(), 0);
            assert!(latch.try_pass());
            line.start(latch.opened()).join();
        }
        assert_eq!(latch.count(), 0);
    });
}

/// L-04
#[test]
fn a_waiter_passes_at_the_last_count() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(2));
        let waiter = Line::new(arrangement, latch).enter(latch.opened());
        latch.count_down();
        assert_eq!(latch.waiters(), 1);
        assert!(!latch.try_pass());
        assert!(!waiter.is_done());
        latch.count_down();
        assert_eq!(latch.waiters(), 0);
        waiter.join();
    });
}

/// L-05
#[test]
fn a_timed_wait_ends_and_leaves_the_count() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(1));
        let mut line = Line::new(arrangement, latch);
        let start = Instant::now();
        let timed = line.start(latch.opened().timeout(SHORT)).join();
        assert_eq!(timed, Err(WaitError::TimedOut));
        assert!(start.elapsed() >= SHORT);
        let deadline = Instant::now() + SHORT;
        assert_eq!(line.start(latch.opened().deadline(deadline)).join(), Err(WaitError::TimedOut));
        assert!(Instant::now() >= deadline);
        assert_eq!((latch.count(), latch.waiters()), (1, 0));
        let later = line.enter(latch.opened());
        latch.count_down();
        later.join();
    });
}

/// L-06
#[test]
fn cancelling_one_waiter_leaves_the_others_and_the_count() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(1));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, latch);
        let before = line.enter(latch.opened());
        let cancelled = line.enter(latch.opened().cancel_on(&stop.token()));
        let after = line.enter(latch.opened());
        fire(&stop, 1);
        assert_eq!((latch.count(), latch.waiters()), (1, 2));
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        assert!(!before.is_done() && !after.is_done());
        latch.count_down();
        before.join();
        after.join();
    });
}

/// L-07
#[test]
fn waiters_that_come_at_any_time_pass_together() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(3));
        let mut line = Line::new(arrangement, latch);
        let mut waiters = Vec::new();
        for batch in 1..=3 {
            waiters.extend((0..4).map(|_| line.enter(latch.opened())));
            assert_eq!(latch.waiters(), 4 * batch);
            assert!(waiters.iter().all(|waiter| !waiter.is_done()));
            latch.count_down();
        }
        assert_eq!((latch.count(), latch.waiters()), (0, 0));
        waiters.into_iter().for_each(Waiter::join);
    });
}

/// L-09: a negative start cannot be expressed.
#[test]
fn counting_down_by_a_wrong_amount_is_an_error() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(3));
        let waiter = Line::new(arrangement, latch).enter(latch.opened());
        assert_eq!(latch.count_down_by(0), Err(CountError::Zero));
        let too_many = |counted| Err(CountError::TooMany { counted, left: 3 });
        assert_eq!(latch.count_down_by(4), too_many(4));
        assert_eq!(latch.count_down_by(u32::MAX), too_many(u32::MAX));
        assert_eq!((latch.count(), latch.waiters()), (3, 1));
        assert_eq!(latch.count_down_by(1), Ok(2));
        assert_eq!(latch.count_down_by(2), Ok(0));
        waiter.join();
        assert!(latch.count_down_by(1).is_err());
    });
}

/// L-10
#[test]
fn a_latch_grows_while_it_is_shut_and_starts_again_when_reset() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(2));
        let mut line = Line::new(arrangement, latch);
        assert_eq!(latch.add(0), Err(CountError::Zero));
        assert_eq!(latch.add(1), Ok(3));
        assert_eq!(latch.add(u32::MAX), Err(CountError::Overflow));
        assert_eq!(latch.add(u32::MAX - 2), Err(CountError::Overflow));
        assert_eq!(latch.count(), 3);
        let waiter = line.enter(latch.opened());
        assert_eq!(latch.count_down_by(3), Ok(0));
        assert_eq!(latch.add(1), Err(CountError::Open));
        waiter.join();
        latch.reset();
        assert_eq!((latch.count(), latch.is_open()), (2, false));
        let blocked = line.enter(latch.opened());
        latch.count_down();
        latch.reset();
        latch.count_down();
        assert!(!blocked.is_done(), "those who wait go on waiting for the new count");
        assert_eq!((latch.count(), latch.waiters()), (1, 1));
        latch.count_down();
        blocked.join();
    });
}

/// L-10: whoever was let through stays so, even if it has not run yet.
#[test]
fn a_reset_does_not_catch_those_who_were_let_through() {
    let latch = Latch::new(1);
    let mut waiter = Step::queued(latch.opened());
    latch.count_down();
    latch.reset();
    waiter.expect_ready();
    assert_eq!(latch.opened().timeout(Duration::ZERO).wait(), Err(WaitError::TimedOut));
}

#[test]
fn the_largest_latch_counts_exactly() {
    let latch = Latch::new(u32::MAX);
    assert_eq!(latch.add(1), Err(CountError::Overflow));
    assert_eq!(latch.count_down(), u32::MAX - 1);
    assert_eq!(latch.add(1), Ok(u32::MAX));
    assert_eq!(latch.count_down_by(u32::MAX), Ok(0));
    let shown = format!("{latch:?}");
    assert!(shown.contains("count: 0") && shown.contains("waiters: 0"), "{shown}");
}
