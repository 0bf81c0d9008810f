//! The timer's thread, which sleeps until the next time that it knows of: against those who want
//! something earlier.
//!
//! Time passes up to [`PRESENT`] and stands still: what is due later is not, and nothing but being
//! told wakes the thread.

use std::sync::Arc;
use std::time::Duration;

use super::accounts::settled;
use super::checker::{explore, explore_within};
use super::race::{HOUR, with};
use super::task::Task;
use crate::wait::timer::TIMER;
use crate::{CancelSource, Semaphore, WaitError};

/// In milliseconds.
const PRESENT: u64 = 5;

/// A limit whose time has come when the thread looks.
const SOON: Duration = Duration::from_millis(PRESENT - 1);

/// The thread has nothing to do while somebody comes with a limit.
#[test]
fn a_limit_against_an_idle_thread() {
    explore(|| {
        let semaphore = with(Semaphore::new(0)).race([
            |_| TIMER.act_by(PRESENT),
            |semaphore| {
                let limited = Task::new(semaphore.acquire(1).timeout(SOON));
                assert_eq!(limited.run().unwrap_err(), WaitError::TimedOut);
            },
        ]);
        settled(&semaphore, 0, 0);
    });
}

/// The thread sleeps until a later time, or is about to, while two come whose limits are earlier.
#[test]
fn two_limits_against_a_thread_that_sleeps_longer() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let later = Task::queued(semaphore.acquire_owned(1).timeout(HOUR));
        with(Arc::clone(&semaphore)).race([
            |_| {
                TIMER.act_by(PRESENT);
                TIMER.act_by(PRESENT);
            },
            |semaphore| {
                let limited = Task::new(semaphore.acquire(1).timeout(SOON));
                assert_eq!(limited.run().unwrap_err(), WaitError::TimedOut);
            },
            |semaphore| {
                let limited = Task::new(semaphore.acquire(1).timeout(SOON / 2));
                assert_eq!(limited.run().unwrap_err(), WaitError::TimedOut);
            },
        ]);
        assert_eq!(semaphore.waiters(), 1);
        drop(later);
        settled(&semaphore, 0, 0);
    });
}

/// A limit is taken back, by a request that is dropped, while another comes: the thread acts on that.
#[test]
fn a_limit_against_one_that_is_taken_back() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let dropped = Task::queued(semaphore.acquire_owned(1).timeout(HOUR));
        with((Arc::clone(&semaphore), dropped)).race([
            |_| TIMER.act_by(PRESENT),
            |(_, dropped)| drop(dropped.take()),
            |(semaphore, _)| {
                let limited = Task::new(semaphore.acquire(1).timeout(SOON));
                assert_eq!(limited.run().unwrap_err(), WaitError::TimedOut);
            },
        ]);
        settled(&semaphore, 0, 0);
    });
}

/// A source is told to fire soon, while the thread sleeps until a later limit.
#[test]
fn a_token_against_a_thread_that_sleeps_longer() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let request = semaphore.acquire_owned(1).timeout(HOUR).cancel_on(&source.token());
        let waits = Task::queued(request);
        with((source, waits)).race([
            |_| TIMER.act_by(PRESENT),
            |(source, _)| source.cancel_after(SOON),
            |(_, waits)| assert_eq!(waits.take().resume().unwrap_err(), WaitError::Cancelled),
        ]);
        settled(&semaphore, 0, 0);
    });
}

/// A grant is not claimed, and the watchdog is out, for later than now. A shorter patience brings it
/// back in time.
#[test]
fn a_shorter_patience_against_a_thread_that_sleeps_longer() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let unclaimed = Task::queued(semaphore.acquire_owned(1));
        let follower = Task::queued(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        with((Arc::clone(&semaphore), follower)).race([
            |_| {
                TIMER.act_by(PRESENT);
                TIMER.act_by(PRESENT);
            },
            |(semaphore, _)| semaphore.set_patience(SOON),
            |(_, follower)| drop(follower.take().resume().unwrap()),
        ]);
        drop(unclaimed);
        settled(&semaphore, 1, 0);
    });
}
