//! A barrier for two, tripped again and again.

use futures_executor::block_on;

use super::ours;
use crate::java;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};
use crate::workload::{tasks, two_threads};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("barrier", "2 threads at a barrier, per trip, pinned to two cores", threads)
            .bar(Bar::against("saa", 1.0)),
        Row::new("barrier-tasks", "2 tasks at a barrier, per trip, tokio with 2 workers", tasks)
            .bar(Bar::against("asyncband", 1.0))
            .patience(2),
    ]
}

fn threads() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(ours::barrier()),
        Contestant::peer(
            "saa",
            two_threads::meet(Apart, saa::Barrier::with_count(2), |barrier, _| {
                barrier.wait_sync();
            }),
        ),
        Contestant::peer(
            "std",
            two_threads::meet(Apart, std::sync::Barrier::new(2), |barrier, _| {
                barrier.wait();
            }),
        ),
        Contestant::peer(
            "tokio",
            two_threads::meet(Apart, tokio::sync::Barrier::new(2), |barrier, _| {
                block_on(barrier.wait());
            }),
        ),
        Contestant::peer(
            "async-lock",
            two_threads::meet(Apart, async_lock::Barrier::new(2), |barrier, _| {
                barrier.wait_blocking();
            }),
        ),
    ];
    contestants.extend(java::timed("java", "barrier", Apart));
    contestants
}

fn tasks() -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::barrier_tasks()),
        Contestant::peer(
            "asyncband",
            tasks::meet(asyncband::barrier::Barrier::new(2), |barrier| async {
                barrier.wait().await;
            }),
        ),
        Contestant::peer(
            "async-lock",
            tasks::meet(async_lock::Barrier::new(2), |barrier| async {
                barrier.wait().await;
            }),
        ),
        Contestant::peer(
            "tokio",
            tasks::meet(tokio::sync::Barrier::new(2), |barrier| async {
                barrier.wait().await;
            }),
        ),
    ]
}
