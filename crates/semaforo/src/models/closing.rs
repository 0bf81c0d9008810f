//! Closing: against queueing, granting and dropping.

use std::sync::Arc;

use super::accounts::{settled, unless};
use super::checker::explore;
use super::race::with;
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::{AcquireError, Semaphore};

on_both_sides!(close_against);

/// A thread or a task queues while the semaphore is closed: it is refused, before or after it queues.
fn close_against<S: Side>() {
    explore(|| {
        let semaphore = with(Semaphore::new(0)).race([
            |semaphore| {
                let refused = S::finish(semaphore.acquire(1)).unwrap_err();
                assert_eq!(refused, AcquireError::Closed);
            },
            Semaphore::close,
        ]);
        settled(&semaphore, 0, 0);
    });
}

/// A permit is released to a task that waits, while the semaphore is closed: it has the permit or is
/// refused, and the permit is there.
#[test]
fn close_against_release() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1));
        with(Arc::clone(&semaphore))
            .race([|semaphore| semaphore.release(1).unwrap(), |semaphore| semaphore.close()]);
        drop(unless(AcquireError::Closed, task.left().resume()));
        settled(&semaphore, 1, 0);
    });
}

/// A task is dropped while the semaphore is closed over it and another.
#[test]
fn close_against_drop() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let first = Task::queued(semaphore.acquire_owned(1));
        let second = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), first))
            .race([|(semaphore, _)| semaphore.close(), |(_, first)| drop(first.take())]);
        assert_eq!(second.left().resume().unwrap_err(), AcquireError::Closed);
        settled(&semaphore, 0, 0);
    });
}

/// A granted task is dropped after the semaphore was closed: its permit is given back, to nobody.
#[test]
fn close_against_an_unclaimed_grant() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1));
        semaphore.release(1).unwrap();
        with((Arc::clone(&semaphore), task))
            .race([|(semaphore, _)| semaphore.close(), |(_, task)| drop(task.take())]);
        settled(&semaphore, 1, 0);
    });
}
