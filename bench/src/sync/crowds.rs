//! 64 tasks on tokio with two workers share a few permits.

use tokio::task::yield_now;

use crate::row::{Bar, Contestant, Row};
use crate::workload::tasks::crowd;

/// All of these serve in order, as ours does.
const FIFO: &[&str] = &["futures-intrusive", "tokio", "asyncband"];

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("tasks-1-permit", "64 tasks on tokio with 2 workers, 1 permit", || {
            contestants(1, false)
        })
        .bar(Bar::best_of(FIFO, 1.1)),
        Row::new("tasks-1-permit-yield", "the same, yielding while holding it", || {
            contestants(1, true)
        })
        .bar(Bar::best_of(FIFO, 1.1)),
        Row::new("tasks-8-permits", "64 tasks on tokio with 2 workers, 8 permits", || {
            contestants(8, false)
        })
        .bar(Bar::best_of(FIFO, 1.1)),
        Row::new("tasks-8-permits-yield", "the same, yielding while holding one", || {
            contestants(8, true)
        })
        .bar(Bar::best_of(FIFO, 1.1)),
    ]
}

fn contestants(permits: u32, yields: bool) -> Vec<Contestant> {
    let pause = move || async move {
        if yields {
            yield_now().await;
        }
    };
    vec![
        Contestant::ours(crowd(
            semaforo::Semaphore::new(permits),
            move |semaphore, _| async move {
                let _permit = semaphore.acquire(1).await.unwrap();
                pause().await;
            },
        )),
        Contestant::peer(
            "futures-intrusive",
            crowd(
                futures_intrusive::sync::Semaphore::new(true, permits as usize),
                move |semaphore, _| async move {
                    let _permit = semaphore.acquire(1).await;
                    pause().await;
                },
            ),
        ),
        Contestant::peer(
            "tokio",
            crowd(tokio::sync::Semaphore::new(permits as usize), move |semaphore, _| async move {
                let _permit = semaphore.acquire().await.unwrap();
                pause().await;
            }),
        ),
        Contestant::peer(
            "asyncband",
            crowd(
                asyncband::semaphore::Semaphore::new(permits as usize),
                move |semaphore, _| async move {
                    let _permit = semaphore.acquire(1).await;
                    pause().await;
                },
            ),
        ),
    ]
}
