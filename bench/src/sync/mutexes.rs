//! A mutex locked and unlocked by one thread, nobody else about.

use crate::row::{Bar, Contestant, Row};
use crate::workload::one_thread::{ready, repeat};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("mutex-blocking", "lock and unlock, one thread, blocking", blocking)
            .bar(Bar::against("std", 1.05)),
        Row::new("mutex-async", "lock and unlock, polled with a no-op waker", polled)
            .bar(Bar::against("saa", 1.0)),
    ]
}

fn blocking() -> Vec<Contestant> {
    vec![
        Contestant::ours(repeat(semaforo::Mutex::new(0_u64), |mutex| drop(mutex.lock().wait()))),
        Contestant::peer(
            "saa",
            repeat(saa::Lock::new(), |lock| {
                lock.lock_sync();
                lock.release_lock();
            }),
        ),
        Contestant::peer(
            "std",
            repeat(std::sync::Mutex::new(0_u64), |mutex| drop(mutex.lock().unwrap())),
        ),
        Contestant::peer(
            "parking_lot",
            repeat(parking_lot::Mutex::new(0_u64), |mutex| drop(mutex.lock())),
        ),
        Contestant::peer(
            "async-lock",
            repeat(async_lock::Mutex::new(0_u64), |mutex| drop(mutex.lock_blocking())),
        ),
        Contestant::peer(
            "tokio",
            repeat(tokio::sync::Mutex::new(0_u64), |mutex| drop(mutex.blocking_lock())),
        ),
    ]
}

fn polled() -> Vec<Contestant> {
    vec![
        Contestant::ours(repeat(semaforo::Mutex::new(0_u64), |mutex| drop(ready(mutex.lock())))),
        Contestant::peer(
            "saa",
            repeat(saa::Lock::new(), |lock| {
                ready(lock.lock_async());
                lock.release_lock();
            }),
        ),
        Contestant::peer(
            "futures-intrusive",
            repeat(futures_intrusive::sync::Mutex::new(0_u64, true), |mutex| {
                drop(ready(mutex.lock()))
            }),
        ),
        Contestant::peer(
            "async-lock",
            repeat(async_lock::Mutex::new(0_u64), |mutex| drop(ready(mutex.lock()))),
        ),
        Contestant::peer(
            "tokio",
            repeat(tokio::sync::Mutex::new(0_u64), |mutex| drop(ready(mutex.lock()))),
        ),
    ]
}
