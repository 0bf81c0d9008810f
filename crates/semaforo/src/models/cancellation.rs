//! A token fires: against granting, queueing, registering and dropping.

use std::sync::Arc;

use super::accounts::{settled, unless};
use super::checker::{explore, explore_within};
use super::race::with;
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::{CancelSource, Semaphore, WaitError};

on_both_sides!(
    registering_against_fire,
    a_child_against_fire,
    two_tokens_against_fire,
    waiting_for_the_token_against_fire,
    cancelling_lets_a_follower_through
);

/// A thread waits with a token, while the token fires and a permit is released: it has the permit,
/// or the permit is free.
#[test]
fn grant_against_cancel_of_a_thread() {
    explore_within(4, || {
        let (semaphore, source) = with((Semaphore::new(0), CancelSource::new())).race([
            |(semaphore, source)| {
                drop(unless(
                    WaitError::Cancelled,
                    semaphore.acquire(1).cancel_on(&source.token()).wait(),
                ))
            },
            |(_, source)| source.cancel(),
            |(semaphore, _)| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 1, 0);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// The same with a task that waits in the queue, and learns of one of the two.
#[test]
fn grant_against_cancel_of_a_task() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let task = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        with((Arc::clone(&semaphore), source))
            .race([|(_, source)| source.cancel(), |(semaphore, _)| semaphore.release(1).unwrap()]);
        drop(unless(WaitError::Cancelled, task.left().resume()));
        settled(&semaphore, 1, 0);
    });
}

/// The same, and the task polls at the same time.
#[test]
fn grant_against_cancel_of_a_task_that_polls() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let task = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        with((Arc::clone(&semaphore), source, task)).race([
            |(_, source, _)| source.cancel(),
            |(semaphore, _, _)| semaphore.release(1).unwrap(),
            |(_, _, task)| drop(unless(WaitError::Cancelled, task.take().run())),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// One queues and registers while its token fires. Nobody releases: it ends as cancelled, whether
/// the token fired before, in between or after.
fn registering_against_fire<S: Side>() {
    explore(|| {
        let (semaphore, source) = with((Semaphore::new(0), CancelSource::new())).race([
            |(semaphore, source)| {
                let ended = S::finish(semaphore.acquire(1).cancel_on(&source.token()));
                assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
            },
            |(_, source)| source.cancel(),
        ]);
        settled(&semaphore, 0, 0);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// A child is made of a token, and a request waits with the child, while the parent fires.
fn a_child_against_fire<S: Side>() {
    explore(|| {
        let (semaphore, source) = with((Semaphore::new(0), CancelSource::new())).race([
            |(semaphore, source)| {
                let child = source.token().child();
                let ended = S::finish(semaphore.acquire(1).cancel_on(&child.token()));
                assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
            },
            |(_, source)| source.cancel(),
        ]);
        settled(&semaphore, 0, 0);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// A request with two tokens, either of which may fire while it registers with both.
fn two_tokens_against_fire<S: Side>() {
    explore(|| {
        let sources = (CancelSource::new(), CancelSource::new());
        let (semaphore, (first, second)) = with((Semaphore::new(0), sources)).race([
            |(semaphore, (first, second))| {
                let request = semaphore.acquire(1).cancel_on(&first.token());
                let ended = S::finish(request.cancel_on(&second.token()));
                assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
            },
            |(_, (_, second))| second.cancel(),
        ]);
        settled(&semaphore, 0, 0);
        assert_eq!(first.token().registrations() + second.token().registrations(), 0);
    });
}

/// A parent and its child fire at once, and both would end the same request: it ends once.
#[test]
fn a_parent_and_its_child_fire() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let parent = CancelSource::new();
        let child = parent.token().child();
        let task = Task::queued(semaphore.acquire_owned(1).cancel_on(&child.token()));
        let (parent, child) = with((parent, child))
            .race([|(parent, _)| parent.cancel(), |(_, child)| child.cancel()]);
        assert_eq!(task.left().resume().unwrap_err(), WaitError::Cancelled);
        settled(&semaphore, 0, 0);
        assert_eq!(parent.token().registrations() + child.token().registrations(), 0);
    });
}

/// A request is dropped while its token fires: the token lets go of it, and nobody touches it
/// afterwards.
#[test]
fn drop_against_fire() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let task = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        let (source, _) = with((source, task))
            .race([|(source, _)| source.cancel(), |(_, task)| drop(task.take())]);
        settled(&semaphore, 0, 0);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// The head waits for more than there is, and holds up one who wants less. When the head is
/// cancelled the other goes on, whether it has queued by then or not.
fn cancelling_lets_a_follower_through<S: Side>() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let source = CancelSource::new();
        let head = Task::queued(semaphore.acquire_owned(2).cancel_on(&source.token()));
        with((Arc::clone(&semaphore), source)).race([
            |(semaphore, _)| drop(S::finish(semaphore.acquire(1)).unwrap()),
            |(_, source)| source.cancel(),
        ]);
        assert_eq!(head.left().resume().unwrap_err(), WaitError::Cancelled);
        settled(&semaphore, 1, 0);
    });
}

/// The token itself is waited for while it fires.
fn waiting_for_the_token_against_fire<S: Side>() {
    explore(|| {
        let source = with(CancelSource::new())
            .race([|source| S::finish(source.token().cancelled()), CancelSource::cancel]);
        assert_eq!(source.token().registrations(), 0);
    });
}

/// A token fires while one of two that wait with it is dropped: the other ends, in whichever order
/// the token finds them.
#[test]
fn firing_over_two_against_drop() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let first = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        let second = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        with((source, first))
            .race([|(source, _)| source.cancel(), |(_, first)| drop(first.take())]);
        assert_eq!(second.left().resume().unwrap_err(), WaitError::Cancelled);
        settled(&semaphore, 0, 0);
    });
}
