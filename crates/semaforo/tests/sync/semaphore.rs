//! Cases S: the semaphore. The order in which it serves is in `semaphore_order.rs`.

use std::sync::Arc;
use std::time::Instant;

use crate::support::{
    LONG, Line, SHORT, Step, fire, in_every_arrangement, leaked, panic_of, until_queued,
};
use semaforo::{AcquireError, CancelSource, ReleaseError, Semaphore, TryError, WaitError};

/// S-01
#[test]
fn starts_with_the_permits_that_it_was_given() {
    for permits in [0, 1, 42] {
        assert_eq!(Semaphore::new(permits).available(), permits);
        assert_eq!(Semaphore::barging(permits).available(), permits);
    }
    assert_eq!(Semaphore::new(Semaphore::MAX_PERMITS).available(), Semaphore::MAX_PERMITS);
    assert_eq!(Semaphore::with_max(42, 42).available(), 42);
    assert_eq!(Semaphore::barging_with_max(42, 42).maximum(), 42);
    assert_eq!(Semaphore::with_max(0, 0).available(), 0);
}

/// S-01
#[test]
fn refuses_to_start_above_the_maximum() {
    let above_own = panic_of(|| Semaphore::with_max(43, 42));
    assert!(above_own.contains("maximum"), "{above_own}");
    panic_of(|| Semaphore::barging_with_max(1, 0));
    panic_of(|| Semaphore::new(Semaphore::MAX_PERMITS + 1));
    panic_of(|| Semaphore::new(u32::MAX));
    panic_of(|| Semaphore::with_max(0, u32::MAX));
}

/// S-02
#[test]
fn trying_takes_what_is_there_and_no_more() {
    let semaphore = Semaphore::new(2);
    let first = semaphore.try_acquire(1).unwrap();
    let second = semaphore.try_acquire(1).unwrap();
    assert!(semaphore.try_acquire(1).is_err());
    assert!(semaphore.try_acquire(1).is_err());
    assert_eq!((semaphore.available(), semaphore.held()), (0, 2));
    drop((first, second));
    assert_eq!((semaphore.available(), semaphore.held()), (2, 0));
}

/// S-06
#[test]
fn releasing_above_the_maximum_is_an_error_and_changes_nothing() {
    let semaphore = Semaphore::with_max(9, 10);
    assert_eq!(semaphore.release(2), Err(ReleaseError { released: 2, room: 1 }));
    assert_eq!(semaphore.available(), 9);
    assert_eq!(semaphore.release(1), Ok(()));
    assert_eq!(semaphore.release(1), Err(ReleaseError { released: 1, room: 0 }));
    assert_eq!(semaphore.release(10), Err(ReleaseError { released: 10, room: 0 }));
    assert_eq!(semaphore.release(u32::MAX), Err(ReleaseError { released: u32::MAX, room: 0 }));
    assert_eq!(semaphore.available(), 10);
}

/// S-06: what is held counts, so that giving it back always fits.
#[test]
fn what_is_held_leaves_no_room_to_release() {
    let semaphore = Semaphore::with_max(4, 4);
    let permit = semaphore.try_acquire(2).unwrap();
    assert_eq!(semaphore.release(2), Err(ReleaseError { released: 2, room: 0 }));
    drop(permit);
    assert_eq!((semaphore.available(), semaphore.held()), (4, 0));
}

/// S-06: the same in the largest semaphore there is.
#[test]
fn the_largest_maximum_does_not_wrap_around() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    assert!(semaphore.release(1).is_err());
    assert!(semaphore.release(u32::MAX).is_err());
    let all = semaphore.try_acquire(Semaphore::MAX_PERMITS).unwrap();
    assert!(semaphore.release(1).is_err());
    assert_eq!(all.permits(), Semaphore::MAX_PERMITS);
    drop(all);
    assert_eq!(semaphore.available(), Semaphore::MAX_PERMITS);
}

/// S-07: a negative amount cannot be expressed.
#[test]
fn releasing_zero_has_no_effect() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::with_max(0, 1));
        assert_eq!(semaphore.release(0), Ok(()));
        let waiter = Line::new(arrangement, semaphore).enter(semaphore.acquire(1));
        assert_eq!(semaphore.release(0), Ok(()));
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 1));
        semaphore.release(1).unwrap();
        drop(waiter.join().unwrap());
        // At the maximum too.
        assert_eq!(semaphore.release(0), Ok(()));
        assert_eq!(semaphore.available(), 1);
    });
}

/// S-14
#[test]
fn a_released_permit_belongs_to_the_waiter_before_it_runs() {
    let semaphore = Semaphore::new(0);
    let mut waiter = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (0, 1, 0));
    assert!(semaphore.try_acquire(1).is_err());
    assert_eq!(waiter.wakes(), 1);
    drop(waiter.expect_ready().unwrap());
    assert_eq!(semaphore.available(), 1);
}

/// S-14: also for a thread, whether or not it has run.
#[test]
fn a_released_permit_is_never_there_for_others() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(0));
        let waiter = Line::new(arrangement, semaphore).enter(semaphore.acquire(1));
        semaphore.release(1).unwrap();
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 0));
        assert!(semaphore.try_acquire(1).is_err());
        drop(waiter.join().unwrap());
        assert_eq!(semaphore.available(), 1);
    });
}

/// S-22
#[test]
fn dropping_the_only_waiter_after_its_grant_returns_the_permit() {
    let semaphore = Semaphore::new(0);
    let waiter = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    assert_eq!(semaphore.available(), 0);
    drop(waiter);
    assert_eq!((semaphore.available(), semaphore.held()), (1, 0));
    drop(semaphore.acquire(1).wait().unwrap());
}

/// S-23
#[test]
fn a_cancelled_waiter_is_not_granted_afterwards() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(2));
        let held = semaphore.try_acquire(1).unwrap();
        let stop = CancelSource::new();
        let request = semaphore.acquire(2).cancel_on(&stop.token());
        let waiter = Line::new(arrangement, semaphore).enter(request);
        fire(&stop, 1);
        drop(held);
        assert_eq!(waiter.join().unwrap_err(), WaitError::Cancelled);
        assert_eq!(semaphore.try_acquire(2).map(|permit| permit.permits()), Ok(2));
    });
}

/// S-27
#[test]
fn a_request_above_the_maximum_is_refused_and_in_nobodys_way() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::with_max(2, 2));
        let mut line = Line::new(arrangement, semaphore);
        let too_many = AcquireError::TooMany { asked: 3, maximum: 2 };
        assert_eq!(line.start(semaphore.acquire(3)).join().unwrap_err(), too_many);
        let limited = line.start(semaphore.acquire(3).timeout(LONG)).join();
        assert_eq!(limited.unwrap_err(), WaitError::Refused(too_many));
        assert!(semaphore.try_acquire(3).is_err());
        for _ in 0..6 {
            drop(line.start(semaphore.acquire(1)).join().unwrap());
        }
        assert_eq!((semaphore.available(), semaphore.waiters()), (2, 0));
    });
}

/// S-27: refused also when it would have to queue behind others.
#[test]
fn a_request_above_the_maximum_is_refused_while_others_wait() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::with_max(0, 2));
        let mut line = Line::new(arrangement, semaphore);
        let first = line.enter(semaphore.acquire(1));
        assert!(line.start(semaphore.acquire(u32::MAX)).join().is_err());
        assert_eq!(semaphore.waiters(), 1);
        semaphore.release(1).unwrap();
        drop(first.join().unwrap());
    });
}

/// S-28
#[test]
fn a_request_for_zero_is_granted_at_once_whoever_waits() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(1));
        let held = semaphore.try_acquire(1).unwrap();
        let mut line = Line::new(arrangement, semaphore);
        let queued = line.enter(semaphore.acquire(1));
        let zero = line.start(semaphore.acquire(0)).join().unwrap();
        let limited = line.start(semaphore.acquire(0).timeout(LONG)).join().unwrap();
        let tried = semaphore.try_acquire(0).unwrap();
        assert_eq!((semaphore.waiters(), semaphore.available()), (1, 0));
        drop((zero, limited, tried));
        assert_eq!((semaphore.waiters(), semaphore.available(), semaphore.held()), (1, 0, 1));
        drop(held);
        drop(queued.join().unwrap());
    });
}

/// S-29
#[test]
fn draining_takes_everything_and_reducing_saturates() {
    let semaphore = Semaphore::new(10);
    assert_eq!(semaphore.drain(), 10);
    assert_eq!(semaphore.drain(), 0);
    assert_eq!(semaphore.reduce(u32::MAX), 0);
    semaphore.release(5).unwrap();
    assert_eq!(semaphore.reduce(2), 2);
    assert_eq!(semaphore.reduce(0), 0);
    assert_eq!(semaphore.reduce(4), 3);
    assert_eq!(semaphore.available(), 0);
}

/// S-29: what is held is not drained, and what was drained can be added again.
#[test]
fn draining_leaves_what_is_held_and_those_who_wait() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::with_max(4, 4));
        let held = semaphore.try_acquire(1).unwrap();
        let waiter = Line::new(arrangement, semaphore).enter(semaphore.acquire(4));
        assert_eq!(semaphore.drain(), 3);
        assert_eq!((semaphore.held(), semaphore.waiters()), (1, 1));
        drop(held);
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 1));
        semaphore.release(3).unwrap();
        drop(waiter.join().unwrap());
        assert_eq!(semaphore.available(), 4);
    });
}

#[test]
fn closing_refuses_those_who_wait_and_those_who_come() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(2));
        let held = semaphore.try_acquire(1).unwrap();
        let mut line = Line::new(arrangement, semaphore);
        let unbounded = line.enter(semaphore.acquire(2));
        let bounded = line.enter(semaphore.acquire(1).timeout(LONG));
        semaphore.close();
        assert!(semaphore.is_closed());
        assert_eq!(semaphore.waiters(), 0);
        assert_eq!(unbounded.join().unwrap_err(), AcquireError::Closed);
        assert_eq!(bounded.join().unwrap_err(), WaitError::Refused(AcquireError::Closed));
        assert_eq!(line.start(semaphore.acquire(1)).join().unwrap_err(), AcquireError::Closed);
        assert!(semaphore.try_acquire(1).is_err());
        drop(held);
        assert_eq!((semaphore.available(), semaphore.held()), (2, 0));
        semaphore.close();
    });
}

#[test]
fn a_grant_made_before_closing_stands() {
    let semaphore = Semaphore::new(0);
    let mut waiter = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    semaphore.close();
    drop(waiter.expect_ready().unwrap());
    assert_eq!((semaphore.available(), semaphore.held()), (1, 0));
}

#[test]
fn forgetting_a_permit_makes_room_for_another() {
    let semaphore = Arc::new(Semaphore::with_max(2, 2));
    semaphore.try_acquire(1).unwrap().forget();
    assert_eq!((semaphore.available(), semaphore.held()), (1, 0));
    semaphore.try_acquire_owned(1).unwrap().forget();
    assert_eq!(Arc::strong_count(&semaphore), 1);
    semaphore.release(2).unwrap();
    assert_eq!(semaphore.available(), 2);
}

#[test]
fn permits_are_split_and_merged_exactly() {
    let (semaphore, other) = (Semaphore::new(5), Semaphore::new(1));
    let mut permit = semaphore.try_acquire(5).unwrap();
    let three = permit.split(3).unwrap();
    assert!(permit.split(3).is_none());
    assert_eq!((permit.permits(), three.permits(), semaphore.held()), (2, 3, 5));
    drop(permit);
    assert_eq!(semaphore.available(), 2);
    let mut two = semaphore.try_acquire(2).unwrap();
    two.merge(three).unwrap();
    let foreign = two.merge(other.try_acquire(1).unwrap()).unwrap_err();
    assert_eq!((two.permits(), foreign.permits()), (5, 1));
    drop((two, foreign));
    assert_eq!((semaphore.available(), other.available()), (5, 1));
}

#[test]
fn an_owned_permit_goes_anywhere_and_lets_the_semaphore_go() {
    in_every_arrangement(|arrangement| {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiter = Line::new(arrangement, &*semaphore).enter(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        let permit = waiter.join().unwrap();
        std::thread::spawn(move || drop(permit)).join().unwrap();
        assert_eq!(semaphore.available(), 1);
        assert_eq!(Arc::strong_count(&semaphore), 1);
    });
}

#[test]
fn a_time_limit_is_kept_from_the_first_poll() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(0));
        let request = semaphore.acquire(1).timeout(SHORT);
        let start = Instant::now();
        let waiter = Line::new(arrangement, semaphore).start(request);
        assert_eq!(waiter.join().unwrap_err(), WaitError::TimedOut);
        assert!(start.elapsed() >= SHORT);
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 0));
    });
}

#[test]
fn debugging_shows_what_is_going_on() {
    let semaphore = Semaphore::new(3);
    let permit = semaphore.try_acquire(2).unwrap();
    let _waiter = Step::queued(semaphore.acquire(2));
    until_queued(&semaphore, 1);
    let shown = format!("{semaphore:?} {permit:?}");
    for part in ["available: 1", "held: 2", "waiters: 1", "closed: false", "permits: 2"] {
        assert!(shown.contains(part), "{shown}");
    }
}

/// What was not granted at once says whether it is worth to try again.
#[test]
fn trying_tells_not_now_from_never() {
    let semaphore = Arc::new(Semaphore::with_max(1, 4));
    let too_many = TryError::Refused(AcquireError::TooMany { asked: 5, maximum: 4 });
    assert_eq!(semaphore.try_acquire(5).unwrap_err(), too_many);
    assert_eq!(semaphore.try_acquire(2).unwrap_err(), TryError::NotNow);
    let held = semaphore.try_acquire_owned(1).unwrap();
    assert_eq!(semaphore.try_acquire_owned(1).unwrap_err(), TryError::NotNow);
    let waits = Step::queued(semaphore.acquire(2));
    drop(held);
    assert_eq!(semaphore.try_acquire(1).unwrap_err(), TryError::NotNow, "others wait");
    drop(waits);
    semaphore.close();
    let closed = TryError::Refused(AcquireError::Closed);
    assert_eq!(semaphore.try_acquire(1).unwrap_err(), closed);
    assert_eq!(semaphore.try_acquire(5).unwrap_err(), closed);
    assert_eq!(semaphore.try_acquire_owned(0).unwrap_err(), closed);
    assert_eq!((semaphore.available(), semaphore.held()), (1, 0));
    assert_eq!(closed.to_string(), "the semaphore is closed");
    assert_eq!(TryError::<AcquireError>::NotNow.to_string(), "not without waiting");

    fn now(semaphore: &Semaphore) -> Result<u32, WaitError<AcquireError>> {
        Ok(semaphore.try_acquire(1)?.permits())
    }
    assert_eq!(now(&semaphore), Err(WaitError::Refused(AcquireError::Closed)));
    assert_eq!(now(&Semaphore::new(0)), Err(WaitError::TimedOut));
    assert_eq!(now(&Semaphore::new(1)), Ok(1));
}
