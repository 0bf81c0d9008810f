//! Pools whose workers are held until the test has queued what it wants to see picked.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use semaforo::tasks::{Mode, Pool};

use super::{LIMIT, watched};

pub(crate) const MODES: [Mode; 2] = [Mode::Strict, Mode::Stealing];

/// A pool of so many threads that picks in this order, and is otherwise as pools are.
pub(crate) fn pool(mode: Mode, threads: usize) -> Pool {
    Pool::builder().mode(mode).threads(threads).build().unwrap()
}

/// A pool that has spare threads besides, as many as its tasks may want.
pub(crate) fn pool_with_spares(mode: Mode, threads: usize) -> Pool {
    Pool::builder().mode(mode).threads(threads).spares(256).build().unwrap()
}

/// Runs a case in both modes, each with a watchdog.
#[track_caller]
pub(crate) fn in_both_modes(case: impl Fn(Mode) + Send + Sync + 'static) {
    let case = Arc::new(case);
    for mode in MODES {
        println!("mode: {mode:?}");
        let case = Arc::clone(&case);
        watched(move || case(mode));
    }
}

/// Workers that do nothing until this is dropped. They are busy in a way that the pool cannot see, so
/// nobody takes their place.
pub(crate) struct Held {
    _doors: Vec<Sender<()>>,
}

/// Occupies every worker of a pool.
#[track_caller]
pub(crate) fn hold(pool: &Pool) -> Held {
    hold_some(pool, pool.threads())
}

/// Occupies so many workers.
#[track_caller]
pub(crate) fn hold_some(pool: &Pool, workers: usize) -> Held {
    let (begun, begins) = channel();
    let doors = (0..workers)
        .map(|_| {
            let ((door, closed), begun) = (channel::<()>(), begun.clone());
            pool.at(0).execute(move || {
                begun.send(()).unwrap();
                // Ends when the other side is dropped.
                let _ = closed.recv();
            });
            door
        })
        .collect();
    for _ in 0..workers {
        begins.recv_timeout(LIMIT).expect("every worker begins");
    }
    Held { _doors: doors }
}
