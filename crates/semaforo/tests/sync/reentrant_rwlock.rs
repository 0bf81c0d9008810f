//! Cases R of the re-entrant reader-writer lock, and what it shares with the other two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{
    Line, SHORT, Step, Waiter, fire, in_every_arrangement, leaked, panic_of, until_queued,
};
use semaforo::sync::reentrant_rwlock::ReadHold;
use semaforo::{CancelSource, Condition, OwnerKey, ReentrantRwLock, TooManyHolds, WaitError};

type Lock = ReentrantRwLock<AtomicU32>;

fn new() -> &'static Lock {
    leaked(ReentrantRwLock::new(AtomicU32::new(0)))
}

fn key() -> &'static OwnerKey {
    leaked(OwnerKey::new())
}

#[test]
fn a_new_lock_is_free() {
    let lock = new();
    assert_eq!((lock.readers(), lock.writes(), lock.waiters()), (0, 0, 0));
    assert!(!lock.is_written_by_this_thread() && !lock.is_written_by(key()));
    assert_eq!(lock.available(), (1 << 20) - 1);
    assert!(format!("{lock:?}").contains("readers: 0"));
    assert_eq!(ReentrantRwLock::from(7).into_inner(), 7);
    let lock = ReentrantRwLock::<String>::default();
    assert_eq!((lock.read().wait().unwrap().as_str(), lock.writes()), ("", 0));
}

///
#[test]
fn a_writer_writes_again_whoever_waits() {
    in_every_arrangement(|arrangement| {
        let (lock, me) = (new(), key());
        let first = lock.write_as(me).wait().unwrap();
        let mut line = Line::new(arrangement, lock);
        let [one, other] = [(); 2].map(|()| line.enter(lock.write_as(key())));
        let second = lock.write_as(me).wait().unwrap();
        assert_eq!((lock.writes(), lock.waiters(), lock.is_written_by(me)), (2, 2, true));
        drop(first);
        assert_eq!((lock.writes(), lock.waiters(), lock.is_written_by(me)), (1, 2, true));
        drop(second);
        drop(one.join().unwrap());
        drop(other.join().unwrap());
        assert_eq!(lock.writes(), 0);
    });
}

///
#[test]
fn a_writer_reads_at_once_whoever_waits() {
    in_every_arrangement(|arrangement| {
        let (lock, me) = (new(), key());
        let write = lock.write_as(me).wait().unwrap();
        let mut line = Line::new(arrangement, lock);
        let reader = line.enter(lock.read_as(key()));
        let writer = line.enter(lock.write_as(key()));
        let read = lock.read_as(me).wait().unwrap();
        let tried = lock.try_read_as(me).unwrap();
        assert_eq!((lock.readers(), lock.writes(), lock.waiters()), (2, 1, 2));
        drop((write, tried));
        // It goes on reading, and the reader that waited comes in; the writer does not.
        let other = reader.join().unwrap();
        assert_eq!((lock.readers(), lock.writes(), lock.waiters()), (2, 0, 1));
        drop((read, other));
        drop(writer.join().unwrap());
    });
}

/// Hoare's rule, as for the lock that is not re-entrant.
#[test]
fn a_waiting_writer_stops_readers_and_a_write_that_ends_lets_them_in() {
    in_every_arrangement(|arrangement| {
        let lock = new();
        let read = lock.read_as(key()).wait().unwrap();
        let mut line = Line::new(arrangement, lock);
        let writer = line.enter(lock.write_as(key()));
        let readers = [(); 2].map(|()| line.enter(lock.read_as(key())));
        assert_eq!((lock.waiting_readers(), lock.waiting_writers()), (2, 1));
        assert!(lock.try_read_as(key()).is_none(), "nobody overtakes");
        drop(read);
        let write = writer.join().unwrap();
        assert_eq!((lock.writes(), lock.waiting_readers()), (1, 2));
        let later = line.enter(lock.write_as(key()));
        let read = write.downgrade();
        let readers = readers.map(|reader| reader.join().unwrap());
        assert_eq!((lock.readers(), lock.writes(), lock.waiting_writers()), (3, 0, 1));
        drop((read, readers));
        drop(later.join().unwrap());
    });
}

/// A clone reads again although a writer waits; a new request would wait behind it.
#[test]
fn a_reader_reads_again_by_cloning_its_guard() {
    in_every_arrangement(|arrangement| {
        let lock = new();
        let read = lock.read_as(key()).wait().unwrap();
        let writer = Line::new(arrangement, lock).enter(lock.write_as(key()));
        let again = read.clone();
        drop(read);
        assert_eq!((lock.readers(), lock.waiters()), (1, 1));
        drop(again);
        drop(writer.join().unwrap());
        let (me, write) = (key(), key());
        let _write = lock.write_as(write).wait().unwrap();
        let read = lock.read_as(write).wait().unwrap();
        drop((read.clone(), read));
        assert!(lock.try_read_as(me).is_none());
    });
}

///
#[test]
fn only_a_sole_reader_becomes_a_writer() {
    let lock = new();
    let (one, other) = (lock.read().wait().unwrap(), lock.read_as(key()).wait().unwrap());
    let one = one.try_upgrade().unwrap_err();
    assert_eq!((lock.readers(), lock.writes()), (2, 0));
    drop(other);
    let write = one.try_upgrade().unwrap();
    assert!(lock.is_written_by_this_thread());
    let read = lock.read().wait().unwrap();
    assert!(read.try_upgrade().is_err(), "its owner writes already");
    let ended = lock.write_as(key()).timeout(SHORT).wait();
    assert_eq!(ended.unwrap_err(), WaitError::TimedOut);
    let read: ReadHold<_, _> = write.downgrade();
    assert_eq!((lock.readers(), lock.writes()), (1, 0));
    drop(read);
}

/// M-07
#[test]
fn too_many_holds_are_refused_and_can_be_unwound() {
    let lock = new();
    let most = Lock::MAX_HOLDS as usize;
    let mut writes: Vec<_> = (0..most).map(|_| lock.write().wait().unwrap()).collect();
    let reads: Vec<_> = (0..most).map(|_| lock.read().wait().unwrap()).collect();
    assert_eq!(lock.write().wait().unwrap_err(), TooManyHolds);
    assert_eq!(lock.read().wait().unwrap_err(), TooManyHolds);
    assert!(lock.try_write().is_none() && lock.try_read().is_none());
    assert_eq!(lock.write().timeout(SHORT).wait().unwrap_err(), TooManyHolds.into());
    assert_eq!((lock.writes(), lock.readers()), (Lock::MAX_HOLDS, Lock::MAX_HOLDS));
    writes.clear();
    assert_eq!((lock.writes(), lock.readers()), (0, Lock::MAX_HOLDS));
    drop(reads);
    assert_eq!(lock.readers(), 0);
    assert!(lock.try_write().is_some());
}

///
#[test]
fn cancelling_waiters_leaves_the_holder_alone() {
    in_every_arrangement(|arrangement| {
        let (lock, me, stop) = (new(), key(), CancelSource::new());
        let write = lock.write_as(me).wait().unwrap();
        let mut line = Line::new(arrangement, lock);
        let reader = line.enter(lock.read_as(key()).cancel_on(&stop.token()));
        let writer = line.enter(lock.write_as(key()).cancel_on(&stop.token()));
        fire(&stop, 2);
        assert_eq!((lock.writes(), lock.waiters(), lock.is_written_by(me)), (1, 0, true));
        assert_eq!(reader.join().unwrap_err(), WaitError::Cancelled);
        assert_eq!(writer.join().unwrap_err(), WaitError::Cancelled);
        drop(write);
        assert!(lock.try_write().is_some());
    });
}

/// a condition of the write side gives all its writes away, and they come back.
#[test]
fn a_condition_of_the_write_side_restores_the_writes() {
    in_every_arrangement(|arrangement| {
        let (lock, me, other) = (new(), key(), key());
        let condition = leaked(Condition::new());
        let kind = arrangement.kind(0);
        let waiter = Waiter::start_then(
            kind,
            {
                let inner = lock.write_as(me).wait().unwrap();
                // A second write, in another guard that stays here.
                std::mem::forget(lock.write_as(me).wait().unwrap());
                assert_eq!(lock.writes(), 2);
                condition.wait(inner)
            },
            |inner| {
                inner.fetch_add(1, Ordering::Relaxed);
                inner
            },
        );
        until_queued(condition, 1);
        let write = lock.write_as(other).wait().unwrap();
        assert_eq!(lock.writes(), 1);
        assert!(condition.signal(&write));
        assert_eq!((condition.waiters(), lock.waiters()), (0, 1));
        drop(write);
        let inner = waiter.join();
        assert_eq!(
            (lock.writes(), lock.is_written_by(me), inner.load(Ordering::Relaxed)),
            (2, true, 1)
        );
        drop(inner);
        assert_eq!(lock.writes(), 1, "the forgotten guard's");
    });
}

/// A key is the writer wherever it is presented, and an owned guard goes anywhere.
#[test]
fn owned_guards_cross_threads() {
    let lock = Arc::new(ReentrantRwLock::new(1));
    let key = Arc::new(OwnerKey::new());
    let write = lock.write_owned_as(&key).wait().unwrap();
    let read = {
        let (lock, key) = (Arc::clone(&lock), Arc::clone(&key));
        std::thread::spawn(move || lock.read_owned_as(&key).wait().unwrap()).join().unwrap()
    };
    assert_eq!((*read, lock.readers(), lock.writes()), (1, 1, 1));
    drop((write, read));
    assert_eq!(lock.readers(), 0);
}

/// What is counted under the lock is exact, whoever re-enters.
#[test]
fn re_entering_threads_exclude_each_other() {
    const ROUNDS: u32 = 2_000;
    let lock = ReentrantRwLock::new((AtomicU32::new(0), AtomicU32::new(0)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    if round % 4 == 0 {
                        let read = lock.read().wait().unwrap();
                        let (one, other) = (&read.0, &read.1);
                        assert_eq!(one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
                        continue;
                    }
                    let outer = lock.write().wait().unwrap();
                    let before = outer.0.load(Ordering::Relaxed);
                    outer.0.store(before + 1, Ordering::Relaxed);
                    let inner = lock.write().wait().unwrap();
                    let read = lock.read().wait().unwrap();
                    read.1.store(before + 1, Ordering::Relaxed);
                    drop((outer, inner));
                    assert_eq!(read.0.load(Ordering::Relaxed), before + 1, "no writer in between");
                }
            });
        }
    });
    assert_eq!(lock.into_inner().0.into_inner(), 4 * ROUNDS * 3 / 4);
}

/// The write has become a read when the reader is let in: what its waker's panic drops is a read.
#[test]
fn a_downgrade_that_wakes_a_panicking_waker_holds_nothing() {
    for writes in 1..3 {
        let (lock, me) = (new(), key());
        let write = lock.write_as(me).wait().unwrap();
        let again = (1..writes).map(|_| lock.write_as(me).wait().unwrap()).collect::<Vec<_>>();
        let read = lock.read_as(me).wait().unwrap();
        drop(again);
        let mut other = Step::panicking(lock.read_as(key()));
        panic_of(|| drop(write.downgrade()));
        assert_eq!((lock.readers(), lock.writes()), (2, 0), "the other's, and the one kept");
        drop((other.expect_ready(), read));
        assert!(lock.try_write().is_some());
    }
}

/// Likewise: the read has become a write when the owner's other request to write is let in.
#[test]
fn an_upgrade_that_wakes_a_panicking_waker_holds_nothing() {
    let (lock, me) = (new(), key());
    let read = lock.read_as(me).wait().unwrap();
    let mut again = Step::panicking(lock.write_as(me));
    panic_of(|| read.try_upgrade().map(drop).map_err(drop));
    assert_eq!((lock.readers(), lock.writes()), (0, 1), "the other's only");
    drop(again.expect_ready());
    assert!(lock.try_write().is_some());
}

/// A downgrade that is refused by a panic gives the write back.
#[test]
fn a_downgrade_beyond_the_most_reads_gives_the_write_back() {
    let (lock, me) = (new(), key());
    let write = lock.write_as(me).wait().unwrap();
    let again = lock.write_as(me).wait().unwrap();
    let reads: Vec<_> = (0..Lock::MAX_HOLDS).map(|_| lock.read_as(me).wait().unwrap()).collect();
    let message = panic_of(|| drop(write.downgrade()));
    assert!(message.contains("as often as it can"), "{message}");
    assert_eq!((lock.readers(), lock.writes()), (Lock::MAX_HOLDS, 1));
    drop((reads, again));
    assert!(lock.try_write().is_some());
}
