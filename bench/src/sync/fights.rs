//! Two threads, pinned to two cores, fight for one permit.
//!
//! Bimodal: as long as both run, a hand-off is a cache line; once the loser has
//! parked, it is a wake-up. More rounds than usual, and a bar on the spread.

use futures_executor::block_on;

use crate::java;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};
use crate::workload::two_threads::fight;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "fight-fifo",
            "2 threads fight for 1 permit, strictly first come first served, pinned",
            fifo,
        )
        .bar(Bar::against("saa", 0.3).spread_within(3.0))
        .patience(3),
        Row::new("fight-barging", "the same, newcomers may overtake", barging)
            .bar(Bar::against("parking_lot", 1.0))
            .patience(3),
    ]
}

fn fifo() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(fight(Apart, semaforo::Semaphore::new(1), |semaphore, _| {
            drop(semaphore.acquire(1).wait().unwrap());
        })),
        Contestant::peer(
            "saa",
            fight(Apart, saa::Semaphore::with_permits(1), |semaphore, _| {
                semaphore.acquire_sync();
                semaphore.release();
            }),
        ),
        Contestant::peer(
            "tokio",
            fight(Apart, tokio::sync::Semaphore::new(1), |semaphore, _| {
                drop(semaphore.blocking_acquire().unwrap());
            }),
        ),
    ];
    contestants.extend(java::timed("java-fair", "fight-fair", Apart));
    contestants
}

fn barging() -> Vec<Contestant> {
    vec![
        Contestant::ours(fight(Apart, semaforo::Semaphore::barging(1), |semaphore, _| {
            drop(semaphore.acquire(1).wait().unwrap());
        })),
        Contestant::sibling(
            "mutex",
            fight(Apart, semaforo::Mutex::barging(0_u64), |mutex, _| {
                drop(mutex.lock().wait());
            }),
        ),
        Contestant::peer(
            "parking_lot",
            fight(Apart, parking_lot::Mutex::new(0_u64), |mutex, _| drop(mutex.lock())),
        ),
        Contestant::peer(
            "futures-intrusive",
            fight(Apart, futures_intrusive::sync::Semaphore::new(false, 1), |semaphore, _| {
                drop(block_on(semaphore.acquire(1)));
            }),
        ),
    ]
}
