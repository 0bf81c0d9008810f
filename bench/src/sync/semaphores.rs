//! A permit taken and returned by one thread, nobody else about.

use crate::java;
use crate::row::{Bar, Contestant, Row};
use crate::workload::one_thread::{ready, repeat};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "semaphore-blocking",
            "acquire and release a permit, one thread, blocking",
            blocking,
        )
        .bar(Bar::against("saa", 0.95)),
        Row::new(
            "semaphore-async",
            "acquire and release a permit, polled with a no-op waker",
            polled,
        )
        .bar(Bar::against("saa", 0.85)),
    ]
}

fn blocking() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(repeat(semaforo::Semaphore::new(1), |semaphore| {
            drop(semaphore.acquire(1).wait().unwrap());
        })),
        Contestant::peer(
            "saa",
            repeat(saa::Semaphore::with_permits(1), |semaphore| {
                semaphore.acquire_sync();
                semaphore.release();
            }),
        ),
        Contestant::peer(
            "async-lock",
            repeat(async_lock::Semaphore::new(1), |semaphore| {
                drop(semaphore.acquire_blocking());
            }),
        ),
        Contestant::peer(
            "tokio",
            repeat(tokio::sync::Semaphore::new(1), |semaphore| {
                drop(semaphore.blocking_acquire().unwrap());
            }),
        ),
    ];
    contestants.extend(java::counted("java", "semaphore"));
    contestants.extend(java::counted("java-fair", "semaphore-fair"));
    contestants
}

fn polled() -> Vec<Contestant> {
    vec![
        Contestant::ours(repeat(semaforo::Semaphore::new(1), |semaphore| {
            drop(ready(semaphore.acquire(1)).unwrap());
        })),
        Contestant::peer(
            "saa",
            repeat(saa::Semaphore::with_permits(1), |semaphore| {
                ready(semaphore.acquire_async());
                semaphore.release();
            }),
        ),
        Contestant::peer(
            "futures-intrusive",
            repeat(futures_intrusive::sync::Semaphore::new(true, 1), |semaphore| {
                drop(ready(semaphore.acquire(1)));
            }),
        ),
        Contestant::peer(
            "async-lock",
            repeat(async_lock::Semaphore::new(1), |semaphore| {
                drop(ready(semaphore.acquire()));
            }),
        ),
        Contestant::peer(
            "asyncband",
            repeat(asyncband::semaphore::Semaphore::new(1), |semaphore| {
                drop(ready(semaphore.acquire(1)));
            }),
        ),
        Contestant::peer(
            "tokio",
            repeat(tokio::sync::Semaphore::new(1), |semaphore| {
                drop(ready(semaphore.acquire()).unwrap());
            }),
        ),
    ]
}
