//! Releasing against queueing, claiming and dropping.

use std::mem::forget;
use std::sync::Arc;

use super::accounts::{Basket, once_contended, settled};
use super::checker::{explore, explore_within};
use super::race::with;
use super::side::{ATask, AThread, Side, on_both_sides};
use super::task::{Asking, Task};
use super::witness::{Witness, all_come_in, enter};
use crate::{AutoEvent, Latch, Mutex, Semaphore};

on_both_sides!(
    release_against_the_first,
    release_on_the_fast_path_against_queueing,
    asking_while_granted,
    trying_against_waiting,
    parking_against_a_signal,
    a_pulse_against_a_signal,
);

/// The first that ever has to wait moves the word into a core, while another releases. The release
/// reaches the word wherever it is, and wakes the one who waits.
fn release_against_the_first<S: Side>() {
    explore(|| {
        let semaphore = with(Semaphore::new(0)).race([
            |semaphore| drop(S::finish(semaphore.acquire(1)).unwrap()),
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// The word moved long ago, and nobody waits: the releaser is on its fast path while the waiter
/// sets the has-waiters bit. One of them sees the other.
fn release_on_the_fast_path_against_queueing<S: Side>() {
    explore(|| {
        let semaphore = with(once_contended(Semaphore::new(0))).race([
            |semaphore| drop(S::finish(semaphore.acquire(1)).unwrap()),
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// Two threads move the word at once: one core stands, and both wait in it, while a third lets
/// everybody pass.
#[test]
fn two_move_the_word_at_once() {
    explore_within(3, || {
        let latch = with(Latch::new(1)).race([
            |latch| latch.opened().wait(),
            |latch| latch.opened().wait(),
            |latch| _ = latch.count_down(),
        ]);
        assert_eq!((latch.waiters(), latch.count()), (0, 0));
    });
}

/// Somebody asks what is available while the word moves: the answer is what the word says, wherever
/// it is.
#[test]
fn asking_while_the_word_moves() {
    explore(|| {
        let semaphore = with(Semaphore::new(1)).race([
            |semaphore| {
                assert_eq!(semaphore.available(), 1);
                assert_eq!(semaphore.available(), 1);
            },
            |semaphore| drop(Task::new(semaphore.acquire(2)).poll()),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// One who was granted a permit asks who holds it: it does, although the thread that granted it may not be
/// done.
fn asking_while_granted<S: Side>() {
    explore(|| {
        let semaphore = with(Semaphore::new(0)).race([
            |semaphore| {
                let permit = S::finish(semaphore.acquire(1)).unwrap();
                assert_eq!((semaphore.available(), semaphore.held()), (0, 1));
                forget(permit);
            },
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 0, 1);
    });
}

/// Two releases at once, each on the fast path if it can, meet two threads that queue: each is
/// served once.
#[test]
fn two_releasers_and_two_threads() {
    explore_within(2, || {
        let semaphore = with(once_contended(Semaphore::new(0))).race([
            |semaphore| forget(semaphore.acquire(1).wait().unwrap()),
            |semaphore| forget(semaphore.acquire(1).wait().unwrap()),
            |semaphore| semaphore.release(1).unwrap(),
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        settled(&semaphore, 0, 2);
    });
}

/// Two releases at once meet two tasks that wait: both are woken, and each has its permit.
#[test]
fn two_releasers_and_two_tasks() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let first = Task::queued(semaphore.acquire_owned(1));
        let second = Task::queued(semaphore.acquire_owned(1));
        with(Arc::clone(&semaphore)).race([
            |semaphore| semaphore.release(1).unwrap(),
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        let permits = (first.left().resume().unwrap(), second.left().resume().unwrap());
        settled(&semaphore, 0, 2);
        drop(permits);
        settled(&semaphore, 2, 0);
    });
}

/// Two releases at once, neither enough for the head, which asks for both.
#[test]
fn two_releasers_and_one_who_wants_both() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let both = Task::queued(semaphore.acquire_owned(2));
        with(Arc::clone(&semaphore)).race([
            |semaphore| semaphore.release(1).unwrap(),
            |semaphore| semaphore.release(1).unwrap(),
        ]);
        drop(both.left().resume().unwrap());
        settled(&semaphore, 2, 0);
    });
}

/// A task polls while it is being granted: it is told or woken, once.
#[test]
fn grant_against_poll() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), task)).race([
            |(semaphore, _)| semaphore.release(1).unwrap(),
            |(_, task)| drop(task.take().run().unwrap()),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// A task's request is dropped while it is being granted: the permit stays, and nobody touches the
/// request afterwards.
#[test]
fn grant_against_drop() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), task))
            .race([|(semaphore, _)| semaphore.release(1).unwrap(), |(_, task)| drop(task.take())]);
        settled(&semaphore, 1, 0);
    });
}

/// The same with somebody behind it, who gets what it leaves: its permit, or its place.
#[test]
fn grant_against_drop_with_a_follower() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let task = Task::queued(semaphore.acquire_owned(2));
        let follower = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), task))
            .race([|(semaphore, _)| semaphore.release(2).unwrap(), |(_, task)| drop(task.take())]);
        drop(follower.left().resume().unwrap());
        settled(&semaphore, 2, 0);
    });
}

/// The head waits for more than there is, and holds up a thread that wants less. When the head is
/// dropped the thread goes on, whether it has queued by then or not.
#[test]
fn drop_lets_a_follower_through() {
    explore(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let head = Task::queued(semaphore.acquire_owned(2));
        with((Arc::clone(&semaphore), head)).race([
            |(semaphore, _)| drop(semaphore.acquire(1).wait().unwrap()),
            |(_, head)| drop(head.take()),
        ]);
        settled(&semaphore, 1, 0);
    });
}

/// Two neighbours in the queue are dropped at once, while a third is granted.
#[test]
fn two_drops_against_a_grant() {
    explore_within(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let first = Task::queued(semaphore.acquire_owned(1));
        let second = Task::queued(semaphore.acquire_owned(1));
        let third = Task::queued(semaphore.acquire_owned(1));
        with((Arc::clone(&semaphore), first, second)).race([
            |(_, first, _)| drop(first.take()),
            |(_, _, second)| drop(second.take()),
            |(semaphore, _, _)| semaphore.release(1).unwrap(),
        ]);
        drop(third.left().resume().unwrap());
        settled(&semaphore, 1, 0);
    });
}

/// A task waits for two permits, of which one is there.
fn wants_both() -> (Arc<Semaphore>, Asking) {
    let semaphore = Arc::new(Semaphore::new(1));
    let both = Task::queued(semaphore.acquire_owned(2));
    (semaphore, both)
}

/// The other permit is released, while a thread tries to have one: it does not overtake, at any moment
/// of the hand-over.
#[test]
fn trying_does_not_overtake() {
    explore(|| {
        let (semaphore, both) = with(wants_both()).race([
            |(semaphore, _)| assert!(semaphore.try_acquire(1).is_err()),
            |(semaphore, _)| semaphore.release(1).unwrap(),
        ]);
        drop(both.left().resume().unwrap());
        settled(&semaphore, 2, 0);
    });
}

/// A thread tries to have the one permit, while another holds the object's lock for a moment, and
/// leaves everything as it was.
#[test]
fn trying_does_not_overtake_while_another_looks() {
    explore(|| {
        let (semaphore, both) = with(wants_both()).race([
            |(semaphore, _)| assert!(semaphore.try_acquire(1).is_err()),
            |(semaphore, _)| assert_eq!(semaphore.waiters(), 1),
        ]);
        drop(both);
        settled(&semaphore, 1, 0);
    });
}

/// Two take a lock that nobody ever waited for. Neither is inside with the other, the second sees
/// what the first did, and both come in.
#[test]
fn mutual_exclusion_of_two() {
    explore(|| all_come_in(Mutex::new(()), [enter::<AThread>, enter::<ATask>]));
}

/// The same with three.
#[test]
fn mutual_exclusion_of_three() {
    explore_within(3, || {
        all_come_in(Mutex::new(()), [enter::<AThread>, enter::<ATask>, enter::<AThread>]);
    });
}

/// One who only tries, beside one who waits and one who holds: trying takes the lock or not, and
/// is never inside with another.
fn trying_against_waiting<S: Side>() {
    explore(|| {
        let (mutex, witness) =
            with((Mutex::new(()), Witness::new())).race([enter::<S>, |(mutex, witness)| {
                if let Some(_guard) = mutex.try_lock() {
                    witness.change();
                }
            }]);
        assert_eq!((mutex.waiters(), mutex.is_locked()), (0, false));
        assert!(matches!(witness.look(), 1 | 2));
    });
}

/// One parks while it is signalled: the signal is stored or wakes it.
fn parking_against_a_signal<S: Side>() {
    explore(|| {
        let event =
            with(AutoEvent::new()).race([|event| S::finish(event.happened()), AutoEvent::set]);
        assert_eq!((event.waiters(), event.is_set()), (0, false));
    });
}

/// A pulse, then a signal, and one who waits. If the pulse lets it through, the signal is stored,
/// and lets it through a second time, but not a third; otherwise the signal is used up by the first.
fn a_pulse_against_a_signal<S: Side>() {
    explore(|| {
        let (event, pulsed) = with((AutoEvent::new(), Basket::default())).race([
            |(event, _)| S::finish(event.happened()),
            |(event, pulsed)| {
                pulsed.add((0..event.pulse()).map(|_| 1));
                event.set();
            },
        ]);
        let stored = match pulsed.sorted()[..] {
            [] => false,
            [1] => true,
            ref more => panic!("one waits, and {more:?} were let through"),
        };
        assert_eq!((event.waiters(), event.is_set()), (0, stored));
        assert_eq!((event.try_pass(), event.try_pass()), (stored, false));
    });
}
