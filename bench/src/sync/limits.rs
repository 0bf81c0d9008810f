//! Requests with a time limit that is never reached.
//!
//! The peers have no limits of their own; their users wrap them in tokio's.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Timeout, timeout};

use crate::row::{Bar, Contestant, Row, Work};
use crate::workload::one_thread::{pending, ready, repeat};

const LIMIT: Duration = Duration::from_secs(3600);

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("limit-granted", "acquire with a limit of an hour, granted at once", granted)
            .bar(Bar::against("no-limit", 1.1)),
        Row::new("limit-queued", "queue with a limit of an hour and drop it", queued)
            .bar(Bar::against("tokio", 0.75)),
    ]
}

fn granted() -> Vec<Contestant> {
    vec![
        Contestant::ours(repeat(semaforo::Semaphore::new(1), |semaphore| {
            drop(ready(semaphore.acquire(1).timeout(LIMIT)).unwrap());
        })),
        Contestant::sibling(
            "no-limit",
            repeat(semaforo::Semaphore::new(1), |semaphore| {
                drop(ready(semaphore.acquire(1)).unwrap());
            }),
        ),
        Contestant::peer(
            "saa",
            with_clock(repeat(saa::Semaphore::with_permits(1), |semaphore| {
                ready(limited(semaphore.acquire_async())).unwrap();
                semaphore.release();
            })),
        ),
        Contestant::peer(
            "tokio",
            with_clock(repeat(tokio::sync::Semaphore::new(1), |semaphore| {
                drop(ready(limited(semaphore.acquire())).unwrap().unwrap());
            })),
        ),
    ]
}

fn queued() -> Vec<Contestant> {
    vec![
        Contestant::ours(repeat(semaforo::Semaphore::new(0), |semaphore| {
            pending(semaphore.acquire(1).timeout(LIMIT));
        })),
        Contestant::peer(
            "tokio",
            with_clock(repeat(tokio::sync::Semaphore::new(0), |semaphore| {
                pending(limited(semaphore.acquire()));
            })),
        ),
        Contestant::peer(
            "asyncband",
            with_clock(repeat(asyncband::semaphore::Semaphore::new(0), |semaphore| {
                pending(limited(semaphore.acquire(1)));
            })),
        ),
    ]
}

fn limited<F: Future>(future: F) -> Timeout<F> {
    timeout(LIMIT, future)
}

/// Takes each sample where tokio's clock can be found.
///
/// Entered rather than blocked on: inside a task, tokio's own semaphore would stop
/// being granted at once when the task has used up its budget.
fn with_clock(work: Work) -> Work {
    let Work::Counted(mut sample) = work else { unreachable!("only counted work is given limits") };
    let runtime: Runtime =
        Builder::new_current_thread().enable_time().build().expect("a runtime without threads");
    Work::counted(move |operations| {
        let _clock = runtime.enter();
        sample(operations)
    })
}
