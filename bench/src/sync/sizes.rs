//! How much room a request takes while it waits, in bytes.

use std::time::Duration;

use tokio::time::Timeout;

use crate::row::{Bar, Contestant, Row, Work};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("size-request", "size of a semaphore request", unbounded)
            .unit("bytes")
            .bar(Bar::limit(64.0)),
        Row::new("size-request-limit", "size of a semaphore request with a time limit", bounded)
            .unit("bytes")
            .bar(Bar::limit(128.0)),
    ]
}

fn unbounded() -> Vec<Contestant> {
    vec![
        Contestant::ours(size_of_value(&semaforo::Semaphore::new(1).acquire(1))),
        Contestant::peer(
            "futures-intrusive",
            size_of_value(&futures_intrusive::sync::Semaphore::new(true, 1).acquire(1)),
        ),
        Contestant::peer("tokio", size_of_value(&tokio::sync::Semaphore::new(1).acquire())),
        Contestant::peer(
            "asyncband",
            size_of_value(&asyncband::semaphore::Semaphore::new(1).acquire(1)),
        ),
        Contestant::peer("saa", size_of_value(&saa::Semaphore::with_permits(1).acquire_async())),
    ]
}

/// The peers have no limits of their own; their users wrap them in tokio's.
fn bounded() -> Vec<Contestant> {
    let limit = Duration::from_secs(3600);
    vec![
        Contestant::ours(size_of_value(&semaforo::Semaphore::new(1).acquire(1).timeout(limit))),
        Contestant::peer(
            "futures-intrusive",
            size_with_limit(&futures_intrusive::sync::Semaphore::new(true, 1).acquire(1)),
        ),
        Contestant::peer("tokio", size_with_limit(&tokio::sync::Semaphore::new(1).acquire())),
        Contestant::peer(
            "asyncband",
            size_with_limit(&asyncband::semaphore::Semaphore::new(1).acquire(1)),
        ),
    ]
}

fn size_of_value<F>(request: &F) -> Work {
    Work::Known(size_of_val(request) as f64)
}

fn size_with_limit<F>(_request: &F) -> Work {
    Work::Known(size_of::<Timeout<F>>() as f64)
}
