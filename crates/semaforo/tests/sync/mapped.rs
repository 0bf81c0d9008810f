//! Guards of a part of a lock's value.

use std::sync::Arc;

use semaforo::sync::mapped::{
    MappedMutexGuard, MappedReadGuard, MappedReentrantGuard, MappedRwLockReadGuard,
    MappedRwLockWriteGuard, OwnedMappedMutexGuard, OwnedMappedRwLockReadGuard,
    OwnedMappedRwLockWriteGuard,
};
use semaforo::sync::reentrant_rwlock::{ReadHold, WriteHold};
use semaforo::{
    KeyGuard, Mutex, MutexGuard, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard,
    OwnerKey, ReentrantGuard, ReentrantLock, ReentrantRwLock, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};

use crate::support::{Step, panic_of};

type Pair = (u32, String);

fn pair() -> Pair {
    (1, "one".to_owned())
}

#[test]
fn a_part_of_a_mutex_keeps_it_locked() {
    let lock = Mutex::new(pair());
    let mut name: MappedMutexGuard<'_, Pair, String> =
        MutexGuard::map(lock.lock().wait(), |pair| &mut pair.1);
    name.push('!');
    assert!(lock.is_locked() && lock.try_lock().is_none());
    assert_eq!((format!("{name}"), format!("{name:?}")), ("one!".into(), "\"one!\"".into()));
    let mut waits = Step::queued(lock.lock());
    let mut end = MappedMutexGuard::map(name, |name| &mut name.as_mut_str()[3..]);
    end.make_ascii_uppercase();
    waits.expect_pending();
    drop(end);
    assert_eq!(waits.expect_ready().1, "one!");
}

/// A part that is not there leaves the guard as it was, and a panic releases the lock.
#[test]
fn a_part_that_is_not_there() {
    let lock = Mutex::new(vec![1, 2]);
    let guard = lock.lock().wait();
    let mut guard = MutexGuard::try_map(guard, |list| list.get_mut(2)).unwrap_err();
    guard.push(3);
    let mut third = MutexGuard::try_map(guard, |list| list.get_mut(2)).unwrap();
    *third += 1;
    let third = MappedMutexGuard::try_map(third, |_| None::<&mut u8>).unwrap_err();
    assert_eq!(*third, 4);
    panic_of(|| MappedMutexGuard::map(third, |_| -> &mut i32 { panic!("no such part") }));
    assert!(!lock.is_locked());
    panic_of(|| MutexGuard::map(lock.lock().wait(), |_| -> &mut i32 { panic!("no such part") }));
    assert_eq!(*lock.lock().wait(), [1, 2, 4]);
}

#[test]
fn parts_of_both_sides_of_an_rwlock() {
    let lock = RwLock::new(pair());
    let number: MappedRwLockReadGuard<'_, Pair, u32> =
        RwLockReadGuard::map(lock.read().wait(), |pair| &pair.0);
    let name = RwLockReadGuard::try_map(lock.read().wait(), |pair| pair.1.get(1..)).unwrap();
    assert_eq!((*number, &*name, lock.readers()), (1, "ne", 2));
    let first = MappedRwLockReadGuard::map(name, |name| &name.as_bytes()[0]);
    assert_eq!((*first, lock.readers()), (b'n', 2));
    let number = MappedRwLockReadGuard::try_map(number, |_| None::<&u8>).unwrap_err();
    drop((number, first));
    let mut number: MappedRwLockWriteGuard<'_, Pair, u32> =
        RwLockWriteGuard::map(lock.write().wait(), |pair| &mut pair.0);
    *number += 1;
    assert!(lock.has_writer());
    drop(number);
    assert!(!lock.has_writer());
    let kept = RwLockWriteGuard::try_map(lock.write().wait(), |_| None::<&mut u8>).unwrap_err();
    assert_eq!((kept.0, lock.has_writer()), (2, true));
}

/// They go to other threads, and outlive the other handles of their lock.
#[test]
fn owned_parts_go_anywhere() {
    let lock = Arc::new(Mutex::new(pair()));
    let guard = lock.lock_owned().wait();
    let name: OwnedMappedMutexGuard<Pair, String> = OwnedMutexGuard::map(guard, |pair| &mut pair.1);
    drop(lock);
    let thread = std::thread::spawn(move || {
        let mut name = name;
        name.push('!');
        name.len()
    });
    assert_eq!(thread.join().unwrap(), 4);

    let lock = Arc::new(RwLock::new(pair()));
    let number: OwnedMappedRwLockReadGuard<Pair, u32> =
        OwnedRwLockReadGuard::map(lock.read_owned().wait(), |pair| &pair.0);
    std::thread::spawn(move || assert_eq!(*number, 1)).join().unwrap();
    let mut number: OwnedMappedRwLockWriteGuard<Pair, u32> =
        OwnedRwLockWriteGuard::map(lock.write_owned().wait(), |pair| &mut pair.0);
    std::thread::spawn(move || *number += 1).join().unwrap();
    assert_eq!(lock.read().wait().0, 2);
}

#[test]
fn parts_of_a_reentrant_lock() {
    let (lock, key) = (ReentrantLock::new(pair()), OwnerKey::new());
    let outer = lock.lock().wait().unwrap();
    let name: MappedReentrantGuard<'_, Pair, String> =
        ReentrantGuard::map(lock.lock().wait().unwrap(), |pair| &pair.1);
    assert_eq!((name.as_str(), lock.holds()), ("one", 2));
    drop((outer, name));
    let guard = lock.lock_as(&key).wait().unwrap();
    let number = KeyGuard::try_map(guard, |pair| Some(&pair.0)).unwrap();
    assert_eq!((*number, lock.holds()), (1, 1));
    drop(number);
    assert!(!lock.is_locked());
}

/// Both sides give out `&T` only, to a thread and to a key, borrowed and owned.
#[test]
fn parts_of_a_reentrant_read_write_lock() {
    let (lock, key) = (Arc::new(ReentrantRwLock::new(pair())), OwnerKey::new());
    let write = WriteHold::map(lock.write().wait().unwrap(), |pair| &pair.1);
    let read = ReadHold::map(lock.read().wait().unwrap(), |pair| &pair.0);
    assert_eq!((write.as_str(), *read, lock.writes(), lock.readers()), ("one", 1, 1, 1));
    let read = MappedReadGuard::try_map(read, |_| None::<&u8>).unwrap_err();
    drop((write, read));
    assert_eq!((lock.writes(), lock.readers()), (0, 0));

    let write = lock.write_owned_as(&key).wait().unwrap();
    let write = WriteHold::try_map(write, |_| None::<&u8>).unwrap_err();
    let name = WriteHold::map(write, |pair| pair.1.as_str());
    let read = ReadHold::map(lock.read_owned_as(&key).wait().unwrap(), |pair| &pair.0);
    let weak = Arc::downgrade(&lock);
    drop(lock);
    let thread = std::thread::spawn(move || (name.len(), *read));
    assert_eq!(thread.join().unwrap(), (3, 1));
    assert!(weak.upgrade().is_none(), "the parts were the last that kept it");
}
