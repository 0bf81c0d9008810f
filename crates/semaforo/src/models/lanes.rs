//! Readers and writers: handing over between two lanes.

use std::sync::Arc;

use super::checker::{explore, explore_within};
use super::race::{For, time_passes, with};
use super::task::Task;
use super::witness::Witness;
use crate::RwLock;
use crate::sync::rwlock::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

/// A lock, what it protects, and a guard that one side has.
type Inside<G> = (Arc<RwLock<()>>, Witness, For<G>);

fn come_to_read<G>((lock, witness, _): &Inside<G>) {
    let _guard = lock.read().wait();
    witness.look();
}

fn come_to_write<G>((lock, witness, _): &Inside<G>) {
    let _guard = lock.write().wait();
    witness.change();
}

fn written() -> Inside<OwnedRwLockWriteGuard<()>> {
    let lock = Arc::new(RwLock::new(()));
    let guard = For::one_side(lock.write_owned().wait());
    (lock, Witness::new(), guard)
}

fn read() -> Inside<OwnedRwLockReadGuard<()>> {
    let lock = Arc::new(RwLock::new(()));
    let guard = For::one_side(lock.read_owned().wait());
    (lock, Witness::new(), guard)
}

fn nobody_is_in(lock: &RwLock<()>) {
    while time_passes() {}
    assert_eq!((lock.waiters(), lock.readers(), lock.has_writer()), (0, 0, false));
}

/// A write ends while a reader and a writer come: both get in, the writer alone.
#[test]
fn end_of_a_write_against_both() {
    explore_within(3, || {
        let (lock, witness, _) =
            with(written()).race([come_to_read, come_to_write, |(_, witness, guard)| {
                let _guard = guard.take();
                witness.change();
            }]);
        nobody_is_in(&lock);
        assert_eq!(witness.look(), 2);
    });
}

/// A read ends while a reader and a writer come.
#[test]
fn end_of_a_read_against_both() {
    explore_within(3, || {
        let (lock, witness, _) =
            with(read()).race([come_to_read, come_to_write, |(_, witness, guard)| {
                let _guard = guard.take();
                witness.look();
            }]);
        nobody_is_in(&lock);
        assert_eq!(witness.look(), 1);
    });
}

/// A writer becomes a reader while a writer comes: nobody writes until it has left.
#[test]
fn downgrade_against_a_writer() {
    explore_within(5, || {
        let (lock, witness, _) = with(written()).race([come_to_write, |(_, witness, guard)| {
            let guard = guard.take();
            witness.change();
            let _guard = guard.downgrade();
            assert_eq!(witness.look(), 1);
        }]);
        nobody_is_in(&lock);
        assert_eq!(witness.look(), 2);
    });
}

/// A writer becomes a reader while a reader comes, which is let in beside it, also if a writer
/// waits.
#[test]
fn downgrade_lets_a_reader_in() {
    explore_within(5, || {
        let (lock, witness, guard) = written();
        let writer = Task::queued(lock.write_owned());
        let reader = Task::queued(lock.read_owned());
        let (_, witness, _, reader) = with((Arc::clone(&lock), witness, guard, reader)).race([
            |(_, witness, _, reader)| {
                let _guard = reader.take().resume();
                assert_eq!(witness.look(), 1);
            },
            |(_, witness, guard, _)| {
                let guard = guard.take();
                witness.change();
                let _guard = guard.downgrade();
                assert_eq!(witness.look(), 1);
            },
        ]);
        drop(reader);
        drop(writer.left().resume());
        nobody_is_in(&lock);
        assert_eq!(witness.look(), 1);
    });
}

/// A reader wants to become the writer while another reader comes or leaves: it does if it is alone.
#[test]
fn upgrade_against_a_reader() {
    explore(|| {
        let (lock, ..) = with(read()).race([come_to_read, |(_, witness, guard)| {
            match guard.take().try_upgrade() {
                Ok(_guard) => witness.change(),
                Err(_guard) => assert_eq!(witness.look(), 0),
            }
        }]);
        nobody_is_in(&lock);
    });
}

/// A reader wants to become the writer while a writer queues: it does, and the other waits for it.
#[test]
fn upgrade_against_a_writer() {
    explore_within(5, || {
        let (lock, witness, _) = with(read()).race([come_to_write, |(_, witness, guard)| {
            let _guard = guard.take().try_upgrade().expect("a sole reader");
            witness.change();
        }]);
        nobody_is_in(&lock);
        assert_eq!(witness.look(), 2);
    });
}

/// A writer that waits holds up readers behind it. It is dropped while the reader inside leaves: the
/// readers get in.
#[test]
fn drop_of_a_writer_against_the_end_of_a_read() {
    explore(|| {
        let (lock, _, guard) = read();
        let writer = Task::queued(lock.write_owned());
        let first = Task::queued(lock.read_owned());
        let second = Task::queued(lock.read_owned());
        with((guard, writer))
            .race([|(guard, _)| drop(guard.take()), |(_, writer)| drop(writer.take())]);
        let readers = (first.left().resume(), second.left().resume());
        assert_eq!(lock.readers(), 2);
        drop(readers);
        nobody_is_in(&lock);
    });
}

/// A writer that waits for a reader to leave is dropped: a thread that wants to read goes in beside
/// that one, whether it has queued by then or not.
#[test]
fn drop_of_a_writer_lets_a_reader_in() {
    explore(|| {
        let (lock, _, guard) = read();
        let writer = Task::queued(lock.write_owned());
        with((Arc::clone(&lock), writer))
            .race([|(lock, _)| drop(lock.read().wait()), |(_, writer)| drop(writer.take())]);
        drop(guard.left());
        nobody_is_in(&lock);
    });
}

/// A write ends over a reader and a writer that wait, while the reader is dropped: whichever of the
/// two is let in, the writer gets its turn.
#[test]
fn drop_of_a_reader_against_the_end_of_a_write() {
    explore(|| {
        let (lock, _, guard) = written();
        let reader = Task::queued(lock.read_owned());
        let writer = Task::queued(lock.write_owned());
        with((guard, reader))
            .race([|(guard, _)| drop(guard.take()), |(_, reader)| drop(reader.take())]);
        drop(writer.left().resume());
        nobody_is_in(&lock);
    });
}
