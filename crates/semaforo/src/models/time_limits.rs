//! A time limit: against granting, cancelling and dropping.

use std::sync::Arc;
use std::task::Poll;

use super::accounts::{settled, unless};
use super::checker::{explore, explore_within};
use super::race::{HOUR, time_passes, with};
use super::task::Task;
use crate::{CancelSource, Semaphore, WaitError};

/// A thread's time is up while a permit is released: it has the permit, or the permit is free.
#[test]
fn time_out_of_a_thread_against_grant() {
    explore_within(5, || {
        let semaphore = with(Semaphore::new(0)).race([
            |semaphore| {
                drop(unless(WaitError::TimedOut, semaphore.acquire(1).timeout(HOUR).wait()))
            },
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// The timer ends a task while a permit is released.
#[test]
fn time_out_of_a_task_against_grant() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1).timeout(HOUR));
        with(Arc::clone(&semaphore))
            .race([|_| assert!(time_passes()), |semaphore| semaphore.release(1).unwrap()]);
        drop(unless(WaitError::TimedOut, task.left().resume()));
        settled(&semaphore, 1, 0);
    });
}

/// The same, and the task polls at the same time.
#[test]
fn time_out_of_a_task_that_polls_against_grant() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1).timeout(HOUR));
        with((Arc::clone(&semaphore), task)).race([
            |_| _ = time_passes(),
            |(semaphore, _)| semaphore.release(1).unwrap(),
            |(_, task)| drop(unless(WaitError::TimedOut, task.take().run())),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// The time is up while the request is dropped: the timer lets go of it, and nobody touches it
/// afterwards.
#[test]
fn time_out_against_drop() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1).timeout(HOUR));
        with((Arc::clone(&semaphore), task))
            .race([|_| _ = time_passes(), |(_, task)| drop(task.take())]);
        settled(&semaphore, 0, 0);
    });
}

/// The time is up while a task queues and arms the timer: it is ended at once, or later.
#[test]
fn time_out_against_queueing() {
    explore(|| {
        let semaphore = with(Semaphore::new(0)).race([
            |_| _ = time_passes(),
            |semaphore| {
                let mut task = Task::new(semaphore.acquire(1).timeout(HOUR));
                let ended = match task.poll() {
                    Poll::Ready(ended) => ended,
                    Poll::Pending => {
                        time_passes();
                        task.resume()
                    }
                };
                assert_eq!(ended.unwrap_err(), WaitError::TimedOut);
            },
        ]);
        settled(&semaphore, 0, 0);
    });
}

/// The time is up while the token fires: the request ends for one of the two reasons.
#[test]
fn time_out_against_cancel() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let request = semaphore.acquire_owned(1).timeout(HOUR).cancel_on(&source.token());
        let task = Task::queued(request);
        let source = with(source).race([|_| _ = time_passes(), CancelSource::cancel]);
        let ended = task.left().resume().unwrap_err();
        assert!(matches!(ended, WaitError::TimedOut | WaitError::Cancelled));
        settled(&semaphore, 0, 0);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// The same with a thread, which times its own sleep.
#[test]
fn time_out_of_a_thread_against_cancel() {
    explore(|| {
        let (semaphore, source) = with((Semaphore::new(0), CancelSource::new())).race([
            |(semaphore, source)| {
                let request = semaphore.acquire(1).timeout(HOUR).cancel_on(&source.token());
                let ended = request.wait().unwrap_err();
                assert!(matches!(ended, WaitError::TimedOut | WaitError::Cancelled));
            },
            |(_, source)| source.cancel(),
        ]);
        settled(&semaphore, 0, 0);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// The head waits for more than there is, and holds up a thread that wants less. When the head's
/// time is up the thread goes on.
#[test]
fn time_out_lets_a_follower_through() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let head = Task::queued(semaphore.acquire_owned(2).timeout(HOUR));
        with(Arc::clone(&semaphore)).race([
            |semaphore| drop(semaphore.acquire(1).wait().unwrap()),
            |_| assert!(time_passes()),
        ]);
        assert_eq!(head.left().resume().unwrap_err(), WaitError::TimedOut);
        settled(&semaphore, 1, 0);
    });
}
