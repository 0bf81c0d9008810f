//! Giving up: a request joins a queue and is dropped again.

use crate::row::{Bar, Contestant, Row};
use crate::workload::one_thread::queue_and_drop;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("queue-behind-0", "queue a request behind nobody and drop it", || contestants(0))
            .bar(Bar::against("futures-intrusive", 1.05)),
        Row::new(
            "queue-behind-100000",
            "queue a request behind 100 000 others and drop it",
            || contestants(100_000),
        )
        .bar(Bar::against("futures-intrusive", 1.05)),
    ]
}

fn contestants(others: usize) -> Vec<Contestant> {
    vec![
        Contestant::ours(queue_and_drop(semaforo::Semaphore::new(0), others, |semaphore| {
            semaphore.acquire(1)
        })),
        Contestant::peer(
            "futures-intrusive",
            queue_and_drop(futures_intrusive::sync::Semaphore::new(true, 0), others, |semaphore| {
                semaphore.acquire(1)
            }),
        ),
        Contestant::peer(
            "tokio",
            queue_and_drop(tokio::sync::Semaphore::new(0), others, |semaphore| semaphore.acquire()),
        ),
        Contestant::peer(
            "saa",
            queue_and_drop(saa::Semaphore::with_permits(0), others, |semaphore| {
                semaphore.acquire_async()
            }),
        ),
    ]
}
