//! Barging mode: a waiter is only told to try again, and newcomers may be faster.

use std::sync::Arc;

use super::accounts::{Basket, settled, unless};
use super::checker::{explore, explore_within};
use super::race::{two_ticks, with};
use super::side::{ATask, AThread};
use super::task::{Asking, Task};
use super::witness::{Witness, all_come_in, enter};
use crate::{AcquireError, CancelSource, Mutex, RwLock, Semaphore, WaitError};

/// A semaphore without permits, and two tasks that wait for one each.
fn two() -> (Arc<Semaphore>, Asking, Asking) {
    let semaphore = Arc::new(Semaphore::barging(0));
    let first = Task::queued(semaphore.acquire_owned(1));
    let second = Task::queued(semaphore.acquire_owned(1));
    (semaphore, first, second)
}

/// Two threads fight for a lock: nobody is inside with the other, and both come in.
#[test]
fn mutual_exclusion_of_two() {
    explore_within(5, || all_come_in(Mutex::barging(()), [enter::<AThread>, enter::<AThread>]));
}

/// Three fight, one of them a task.
#[test]
fn mutual_exclusion_of_three() {
    explore_within(3, || {
        all_come_in(Mutex::barging(()), [enter::<AThread>, enter::<ATask>, enter::<AThread>]);
    });
}

/// A task is told to try again while a newcomer comes: both have the permit in some order.
#[test]
fn nudge_against_a_newcomer() {
    explore_within(4, || {
        let semaphore = Arc::new(Semaphore::barging(0));
        let task = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), task)).race([
            |(semaphore, _)| drop(semaphore.acquire(1).wait().unwrap()),
            |(semaphore, task)| {
                semaphore.release(1).unwrap();
                drop(task.take().resume().unwrap());
            },
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// A thread is told to try again while somebody else only tries.
#[test]
fn nudge_of_a_thread_against_trying() {
    explore_within(3, || {
        let semaphore = with(Semaphore::barging(0)).race([
            |semaphore| drop(semaphore.acquire(1).wait().unwrap()),
            |semaphore| drop(semaphore.try_acquire(1)),
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// A task that may have been told to try again is dropped: the next one is told in its place.
#[test]
fn nudge_against_drop() {
    explore(|| {
        let (semaphore, _, second) = with(two()).race([
            |(semaphore, ..)| semaphore.release(1).unwrap(),
            |(_, first, _)| drop(first.take()),
        ]);
        drop(second.left().resume().unwrap());
        settled(&semaphore, 1, 0);
    });
}

/// Two permits come back one by one, to two who wait: both are told, one by the other.
#[test]
fn two_releasers_and_two_tasks() {
    explore(|| {
        let (semaphore, first, second) = with(two()).race([
            |(semaphore, ..)| semaphore.release(1).unwrap(),
            |(semaphore, ..)| semaphore.release(1).unwrap(),
        ]);
        let permits = (first.left().resume().unwrap(), second.left().resume().unwrap());
        settled(&semaphore, 0, 2);
        drop(permits);
        settled(&semaphore, 2, 0);
    });
}

/// A task comes to try again while the watchdog passes it over for the next one.
#[test]
fn nudge_taken_back_against_poll() {
    explore_within(4, || {
        let (semaphore, first, second) = two();
        semaphore.release(1).unwrap();
        with((first, second)).race([
            |(first, _)| drop(first.take().run().unwrap()),
            |(_, second)| {
                two_ticks();
                drop(second.take().resume().unwrap());
            },
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// A task that may have been told to try again is cancelled: it has the permit, or the next one is
/// told in its place.
#[test]
fn nudge_against_cancel() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::barging(0));
        let source = CancelSource::new();
        let first = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        let second = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), source))
            .race([|(semaphore, _)| semaphore.release(1).unwrap(), |(_, source)| source.cancel()]);
        drop(unless(WaitError::Cancelled, first.left().resume()));
        drop(second.left().resume().unwrap());
        settled(&semaphore, 1, 0);
    });
}

/// A thread that may have been told to try again is cancelled, while a newcomer may take what it was
/// told of, for good: then it sees that it was cancelled, and does not wait for another turn.
#[test]
fn nudge_of_a_thread_against_cancel() {
    explore_within(3, || {
        let (semaphore, _, taken) =
            with((Semaphore::barging(0), CancelSource::new(), Basket::default())).race([
                |(semaphore, source, taken)| match semaphore
                    .acquire(1)
                    .cancel_on(&source.token())
                    .wait()
                {
                    Ok(permit) => {
                        taken.add([1]);
                        permit.forget();
                    }
                    Err(error) => assert_eq!(error, WaitError::Cancelled),
                },
                |(_, source, _)| source.cancel(),
                |(semaphore, _, taken)| {
                    semaphore.release(1).unwrap();
                    if let Ok(permit) = semaphore.try_acquire(1) {
                        taken.add([1]);
                        permit.forget();
                    }
                },
            ]);
        let taken = taken.sorted().len() as u32;
        assert!(taken <= 1, "one permit was taken twice");
        settled(&semaphore, 1 - taken, 0);
    });
}

/// A task was told to try again. While it comes, it is cancelled, and a newcomer is there: one of the
/// two has the permit, and the task behind has it next.
#[test]
fn nudge_against_cancel_and_a_newcomer() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::barging(0));
        let source = CancelSource::new();
        let first = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        let second = Task::queued(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        with((Arc::clone(&semaphore), source, first)).race([
            |(semaphore, ..)| drop(semaphore.try_acquire(1)),
            |(_, source, _)| source.cancel(),
            |(_, _, first)| drop(unless(WaitError::Cancelled, first.take().run())),
        ]);
        drop(second.left().resume().unwrap());
        settled(&semaphore, 1, 0);
    });
}

/// A task was told to try again, and does not come. The semaphore is closed, and whoever is behind it,
/// or may be about to, is refused all the same.
#[test]
fn close_behind_a_nudge() {
    explore_within(3, || {
        let (semaphore, first, second) = two();
        semaphore.release(1).unwrap();
        let (_, second) = with((Arc::clone(&semaphore), second)).race([
            |(semaphore, _)| {
                assert_eq!(semaphore.acquire(2).wait().unwrap_err(), AcquireError::Closed);
            },
            |(semaphore, _)| drop(semaphore.try_acquire(1)),
            |(semaphore, _)| semaphore.close(),
        ]);
        assert_eq!(second.left().resume().unwrap_err(), AcquireError::Closed);
        assert_eq!(first.left().resume().unwrap_err(), AcquireError::Closed);
        settled(&semaphore, 1, 0);
    });
}

/// Readers and a writer fight: nobody writes while another is inside, and all come in.
#[test]
fn readers_and_a_writer() {
    explore_within(3, || {
        let (lock, witness) = with((RwLock::barging(()), Witness::new())).race([
            |(lock, witness)| {
                let _guard = lock.read().wait();
                witness.look();
            },
            |(lock, witness)| {
                let _guard = lock.write().wait();
                witness.change();
            },
            |(lock, witness)| {
                let _guard = lock.write().wait();
                witness.change();
            },
        ]);
        assert_eq!((lock.waiters(), lock.readers(), lock.has_writer()), (0, 0, false));
        assert_eq!(witness.look(), 2);
    });
}
