//! Cases K: parking. K-06, a race, is in `races.rs`.

use std::time::{Duration, Instant};

use crate::support::{LONG, Line, SHORT, Step, fire, in_every_arrangement, leaked};
use semaforo::{CancelSource, Parker, WaitError};

/// K-01
#[test]
fn an_unpark_that_comes_first_is_stored() {
    in_every_arrangement(|arrangement| {
        let parker = leaked(Parker::new());
        let token = CancelSource::new().token();
        let mut line = Line::new(arrangement, parker);
        parker.unpark();
        assert_eq!((parker.available(), parker.is_parked()), (1, false));
        line.start(parker.park()).join();
        assert_eq!(parker.available(), 0);
        parker.unpark();
        assert_eq!(line.start(parker.park().timeout(LONG)).join(), Ok(()));
        parker.unpark();
        assert_eq!(line.start(parker.park().timeout(Duration::ZERO)).join(), Ok(()));
        parker.unpark();
        assert_eq!(line.start(parker.park().deadline(Instant::now())).join(), Ok(()));
        parker.unpark();
        assert_eq!(line.start(parker.park().cancel_on(&token)).join(), Ok(()));
        assert_eq!(parker.available(), 0);
    });
}

/// K-02
#[test]
fn a_parked_one_returns_when_unparked_and_when_cancelled() {
    in_every_arrangement(|arrangement| {
        let parker = leaked(Parker::default());
        let mut line = Line::new(arrangement, parker);
        let unparked = line.enter(parker.park());
        assert!(parker.is_parked());
        parker.unpark();
        unparked.join();
        assert!(!parker.is_parked());
        let stop = CancelSource::new();
        let cancelled = line.enter(parker.park().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        assert_eq!((parker.available(), parker.waiters()), (0, 0));
    });
}

/// K-03
#[test]
fn a_cancellation_that_came_first_ends_parking_and_stays() {
    in_every_arrangement(|arrangement| {
        let parker = leaked(Parker::new());
        let stop = CancelSource::new();
        let token = stop.token();
        stop.cancel();
        let mut line = Line::new(arrangement, parker);
        for _ in 0..2 {
            let parked = line.start(parker.park().cancel_on(&token)).join();
            assert_eq!(parked, Err(WaitError::Cancelled));
            assert!(token.is_cancelled());
        }
        assert_eq!((parker.available(), parker.waiters()), (0, 0));
    });
}

/// K-04
#[test]
fn timed_parking_expires() {
    in_every_arrangement(|arrangement| {
        let parker = leaked(Parker::new());
        let mut line = Line::new(arrangement, parker);
        let start = Instant::now();
        assert_eq!(line.start(parker.park().timeout(SHORT)).join(), Err(WaitError::TimedOut));
        assert!(start.elapsed() >= SHORT);
        let zero = line.start(parker.park().timeout(Duration::ZERO)).join();
        assert_eq!(zero, Err(WaitError::TimedOut));
        let past = start.checked_sub(LONG).unwrap_or(start);
        assert_eq!(line.start(parker.park().deadline(past)).join(), Err(WaitError::TimedOut));
        assert_eq!((parker.available(), parker.waiters()), (0, 0));
    });
}

/// K-05
#[test]
fn at_most_one_permit_is_stored() {
    in_every_arrangement(|arrangement| {
        let parker = leaked(Parker::new());
        let mut line = Line::new(arrangement, parker);
        parker.unpark();
        parker.unpark();
        line.start(parker.park()).join();
        let second = line.enter(parker.park());
        parker.unpark();
        second.join();
        assert_eq!(parker.available(), 0);
    });
}

/// Parking here and `std::thread::park` know nothing of each other.
#[test]
fn the_permit_of_the_standard_library_is_left_alone() {
    let parker = leaked(Parker::new());
    let thread = std::thread::spawn(|| {
        std::thread::current().unpark();
        parker.park().wait();
        let start = Instant::now();
        std::thread::park_timeout(LONG);
        start.elapsed()
    });
    crate::support::until_queued(parker, 1);
    parker.unpark();
    assert!(thread.join().unwrap() < LONG / 2, "its own permit was still there");
}

#[test]
fn debugging_shows_permit_and_parked() {
    let parker = Parker::new();
    let _parked = Step::queued(parker.park());
    assert_eq!(format!("{parker:?}"), "Parker { permit: false, parked: true }");
}
