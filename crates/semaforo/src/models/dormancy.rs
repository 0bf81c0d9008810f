//! A grant that is not claimed is taken back: against claiming, dropping, releasing and ending.
//!
//! In each model a task was granted a permit and has not come, and another waits behind it, so that
//! the watchdog is armed. Its first tick marks the grant, its second takes it back.

use std::sync::Arc;

use super::accounts::{settled, unless};
use super::checker::{explore, explore_within};
use super::race::{HOUR, time_passes, two_ticks, with};
use super::task::{Asking, Task};
use crate::{CancelSource, Semaphore, WaitError};

/// A semaphore of one permit, which a task has been granted and not claimed, and another task that
/// waits for it.
fn unclaimed() -> (Arc<Semaphore>, Asking, Asking) {
    let semaphore = Arc::new(Semaphore::new(0));
    let granted = Task::queued(semaphore.acquire_owned(1));
    let follower = Task::queued(semaphore.acquire_owned(1));
    semaphore.release(1).unwrap();
    (semaphore, granted, follower)
}

/// The task claims its grant while it is taken back: it has it, or waits for its turn; and the
/// other has its turn too.
#[test]
fn revoke_against_claim() {
    explore_within(4, || {
        let (semaphore, ..) = with(unclaimed()).race([
            |(_, granted, _)| drop(granted.take().run().unwrap()),
            |(_, _, follower)| {
                two_ticks();
                drop(follower.take().resume().unwrap());
            },
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// The task claims its grant while the watchdog sees it for the first time: it has it.
#[test]
fn first_tick_against_claim() {
    explore(|| {
        let (semaphore, _, follower) = with(unclaimed())
            .race([|(_, granted, _)| drop(granted.take().run().unwrap()), |_| _ = time_passes()]);
        drop(follower.left().resume().unwrap());
        settled(&semaphore, 1, 0);
    });
}

/// The task is dropped while its grant is taken back: the other gets it, once.
#[test]
fn revoke_against_drop() {
    explore_within(5, || {
        let (semaphore, ..) = with(unclaimed()).race([
            |(_, granted, _)| drop(granted.take()),
            |(_, _, follower)| {
                two_ticks();
                drop(follower.take().resume().unwrap());
            },
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// The one who waits leaves while the grant is taken back for it: the permit goes to whoever comes.
#[test]
fn revoke_against_drop_of_the_follower() {
    explore(|| {
        let (semaphore, granted, _) =
            with(unclaimed()).race([|(_, _, follower)| drop(follower.take()), |_| two_ticks()]);
        drop(granted.left().resume().unwrap());
        settled(&semaphore, 1, 0);
    });
}

/// A thread queues behind an unclaimed grant, and arms the watchdog. It is served by the second tick,
/// or when the task is dropped.
#[test]
fn revoke_against_queueing() {
    explore_within(5, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let granted = Task::queued(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        with((Arc::clone(&semaphore), granted)).race([
            |(semaphore, _)| drop(semaphore.acquire(1).wait().unwrap()),
            |(_, granted)| {
                two_ticks();
                drop(granted.take());
            },
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// A dormant task is polled while the permit comes back: it has it at once, or stands first and is
/// woken.
#[test]
fn waking_from_dormancy_against_release() {
    explore_within(5, || {
        let (semaphore, granted, follower) = unclaimed();
        two_ticks();
        let permit = follower.left().resume().unwrap();
        assert_eq!(semaphore.waiters(), 1);
        let permit = super::race::For::one_side(permit);
        with((granted, permit)).race([
            |(_, permit)| drop(permit.take()),
            |(granted, _)| drop(granted.take().run().unwrap()),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// A dormant task is dropped while the permit comes back.
#[test]
fn drop_while_dormant_against_release() {
    explore(|| {
        let (semaphore, granted, follower) = unclaimed();
        two_ticks();
        let permit = super::race::For::one_side(follower.left().resume().unwrap());
        with((granted, permit))
            .race([|(_, permit)| drop(permit.take()), |(granted, _)| drop(granted.take())]);
        settled(&semaphore, 1, 0);
    });
}

/// A token fires while the grant is taken back: the grant wins, or the dormant task is cancelled.
#[test]
fn revoke_against_cancel() {
    explore_within(5, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let granted = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        let follower = Task::queued(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        with((source, follower)).race([
            |(source, _)| source.cancel(),
            |(_, follower)| {
                two_ticks();
                drop(follower.take().resume().unwrap());
            },
        ]);
        drop(unless(WaitError::Cancelled, granted.left().resume()));
        settled(&semaphore, 1, 0);
    });
}

/// A dormant task is polled, and stands first again, while its time is up.
#[test]
fn waking_from_dormancy_against_time_out() {
    explore_within(5, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let granted = Task::queued(semaphore.acquire_owned(1).timeout(HOUR));
        let follower = Task::queued(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        two_ticks();
        let permit = follower.left().resume().unwrap();
        with((Arc::clone(&semaphore), granted)).race([
            |_| _ = time_passes(),
            |(_, granted)| {
                assert_eq!(granted.take().run().unwrap_err(), WaitError::TimedOut);
            },
        ]);
        drop(permit);
        settled(&semaphore, 1, 0);
    });
}
