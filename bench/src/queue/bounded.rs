//! A bounded queue between producers and consumers.

use std::sync::mpsc;

use super::lost_messages::kanal;
use super::ours;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};
use crate::workload::{tasks, two_threads};

/// Tasks that put, and as many that take.
pub(super) const PAIRS: u64 = 4;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "bounded-1024",
            "1 producer and 1 consumer thread, room for 1024, pinned to two cores",
            || between_threads(1024),
        )
        .bar(Bar::against("crossbeam", 0.8)),
        Row::new("bounded-64", "the same, room for 64", || between_threads(64))
            .bar(Bar::against("crossbeam", 0.8)),
        Row::new(
            "bounded-64-tasks",
            "4 producer and 4 consumer tasks, room for 64, tokio with 2 workers",
            || between_tasks(64),
        )
        .bar(Bar::against("kanal", 1.0)),
    ]
}

fn between_threads(capacity: usize) -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::bounded(capacity)),
        Contestant::peer(
            "crossbeam",
            two_threads::pipe(
                Apart,
                crossbeam_channel::bounded(capacity),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
        kanal(two_threads::pipe(
            Apart,
            kanal::bounded(capacity),
            |sender, item| sender.send(item).unwrap(),
            |receiver| receiver.recv().unwrap(),
        )),
        Contestant::peer(
            "flume",
            two_threads::pipe(
                Apart,
                flume::bounded(capacity),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
        Contestant::peer(
            "tokio",
            two_threads::pipe(
                Apart,
                tokio::sync::mpsc::channel(capacity),
                |sender, item| sender.blocking_send(item).unwrap(),
                |receiver| receiver.blocking_recv().unwrap(),
            ),
        ),
        Contestant::peer(
            "std",
            two_threads::pipe(
                Apart,
                mpsc::sync_channel(capacity),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
    ]
}

/// Flume hangs here now and then. By its source, a receiver that was woken in vain
/// joins the line again after letting go of the lock, and may miss what was sent meanwhile.
fn between_tasks(capacity: usize) -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::bounded_tasks(capacity)),
        kanal(tasks::pipe(
            PAIRS,
            kanal::bounded_async(capacity),
            |(sender, _), item| async move { sender.send(item).await.unwrap() },
            |(_, receiver)| async { receiver.recv().await.unwrap() },
        )),
        Contestant::peer(
            "async-channel",
            tasks::pipe(
                PAIRS,
                async_channel::bounded(capacity),
                |(sender, _), item| async move { sender.send(item).await.unwrap() },
                |(_, receiver)| async { receiver.recv().await.unwrap() },
            ),
        ),
        Contestant::peer(
            "flume",
            tasks::pipe(
                PAIRS,
                flume::bounded(capacity),
                |(sender, _), item| async move { sender.send_async(item).await.unwrap() },
                |(_, receiver)| async { receiver.recv_async().await.unwrap() },
            ),
        ),
    ]
}
