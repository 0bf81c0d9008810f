//! More are answered than a batch of wake-ups holds (two, in a model): the rest is answered, but not
//! told until the first have been woken. Against polling, dropping, cancelling and releasing.

use std::sync::Arc;

use super::accounts::settled;
use super::checker::{explore, explore_within};
use super::race::with;
use super::task::{Asking, Task};
use crate::{AcquireError, CancelSource, Latch, OwnedPermit, Semaphore};

/// Four tasks that wait for a permit each.
fn four() -> (Arc<Semaphore>, [Asking; 4]) {
    let semaphore = Arc::new(Semaphore::new(0));
    let tasks = [(); 4].map(|()| Task::queued(semaphore.acquire_owned(1)));
    (semaphore, tasks)
}

/// All outcomes but that of the third, which is the first that has to be deferred.
fn but_of_the_third(tasks: [Asking; 4]) -> [Result<OwnedPermit, AcquireError>; 3] {
    let [first, second, _, fourth] = tasks;
    [first, second, fourth].map(|task| task.left().resume())
}

/// All are released at once, while one that has to be deferred polls: it has its permit, and all
/// are woken.
#[test]
fn deferring_against_poll() {
    explore_within(5, || {
        let (semaphore, tasks) = with(four()).race([
            |(semaphore, _)| semaphore.release(4).unwrap(),
            |(_, tasks)| drop(tasks[2].take().run().unwrap()),
        ]);
        assert!(but_of_the_third(tasks).iter().all(Result::is_ok));
        settled(&semaphore, 4, 0);
    });
}

/// The same, and the deferred one is dropped: its permit is left over.
#[test]
fn deferring_against_drop() {
    explore_within(5, || {
        let (semaphore, tasks) = with(four()).race([
            |(semaphore, _)| semaphore.release(4).unwrap(),
            |(_, tasks)| drop(tasks[2].take()),
        ]);
        assert!(but_of_the_third(tasks).iter().all(Result::is_ok));
        settled(&semaphore, 4, 0);
    });
}

/// Three are released, so that what the dropped one leaves goes to the fourth.
#[test]
fn deferring_against_drop_with_a_follower() {
    explore_within(5, || {
        let (semaphore, tasks) = with(four()).race([
            |(semaphore, _)| semaphore.release(3).unwrap(),
            |(_, tasks)| drop(tasks[2].take()),
        ]);
        assert!(but_of_the_third(tasks).iter().all(Result::is_ok));
        settled(&semaphore, 3, 0);
    });
}

/// Two releasers at once, each of whom may find what the other has deferred.
#[test]
fn two_releasers_defer() {
    explore_within(5, || {
        let (semaphore, tasks) = with(four()).race([
            |(semaphore, _)| semaphore.release(3).unwrap(),
            |(semaphore, _)| semaphore.release(1).unwrap(),
        ]);
        for task in tasks {
            drop(task.left().resume().unwrap());
        }
        settled(&semaphore, 4, 0);
    });
}

/// All are refused at once, while the deferred one polls.
#[test]
fn closing_against_poll() {
    explore_within(5, || {
        let (semaphore, tasks) = with(four()).race([
            |(semaphore, _)| semaphore.close(),
            |(_, tasks)| assert!(tasks[2].take().run().is_err()),
        ]);
        assert!(but_of_the_third(tasks).iter().all(Result::is_err));
        settled(&semaphore, 0, 0);
    });
}

/// A token fires for one that was granted but not told: the grant wins.
#[test]
fn deferring_against_cancel() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let source = CancelSource::new();
        let tasks = [(); 2].map(|()| Task::queued(semaphore.acquire_owned(1)));
        let last = Task::queued(semaphore.acquire_owned(1).cancel_on(&source.token()));
        with((Arc::clone(&semaphore), source))
            .race([|(semaphore, _)| semaphore.release(3).unwrap(), |(_, source)| source.cancel()]);
        for task in tasks {
            drop(task.left().resume().unwrap());
        }
        drop(last.left().resume());
        settled(&semaphore, 3, 0);
    });
}

/// A latch opens for two tasks and, behind them, a thread that may still be queueing.
#[test]
fn deferring_a_thread() {
    explore_within(5, || {
        let latch = Arc::new(Latch::new(1));
        let (first, second) = (Arc::clone(&latch), Arc::clone(&latch));
        let first = Task::queued(async move { first.opened().await });
        let second = Task::queued(async move { second.opened().await });
        with(Arc::clone(&latch))
            .race([|latch| latch.opened().wait(), |latch| _ = latch.count_down()]);
        first.left().resume();
        second.left().resume();
        assert_eq!(latch.waiters(), 0);
    });
}
