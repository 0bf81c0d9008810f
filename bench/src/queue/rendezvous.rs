//! A queue without room: every item passes from hand to hand.

use std::sync::mpsc;

use super::lost_messages::kanal;
use super::ours;
use crate::placement::Placement;
use crate::row::{Bar, Contestant, Row};
use crate::workload::{tasks, two_threads};

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "rendezvous-apart",
            "2 threads, no room in the queue, pinned to two cores",
            || between_threads(Placement::Apart),
        )
        .bar(Bar::against("kanal", 1.0)),
        Row::new("rendezvous-together", "the same, both threads on one core", || {
            between_threads(Placement::Together)
        })
        .bar(Bar::against("kanal", 1.2)),
        Row::new(
            "rendezvous-tasks",
            "2 tasks, no room in the queue, tokio with 2 workers",
            between_tasks,
        )
        .bar(Bar::against("kanal", 1.25)),
    ]
}

fn between_threads(placement: Placement) -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::rendezvous(placement)),
        kanal(two_threads::pipe(
            placement,
            kanal::bounded(0),
            |sender, item| sender.send(item).unwrap(),
            |receiver| receiver.recv().unwrap(),
        )),
        Contestant::peer(
            "flume",
            two_threads::pipe(
                placement,
                flume::bounded(0),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
        Contestant::peer(
            "crossbeam",
            two_threads::pipe(
                placement,
                crossbeam_channel::bounded(0),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
        Contestant::peer(
            "std",
            two_threads::pipe(
                placement,
                mpsc::sync_channel(0),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
    ]
}

fn between_tasks() -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::rendezvous_tasks()),
        kanal(tasks::pipe(
            1,
            kanal::bounded_async(0),
            |(sender, _), item| async move { sender.send(item).await.unwrap() },
            |(_, receiver)| async { receiver.recv().await.unwrap() },
        )),
        Contestant::peer(
            "flume",
            tasks::pipe(
                1,
                flume::bounded(0),
                |(sender, _), item| async move { sender.send_async(item).await.unwrap() },
                |(_, receiver)| async { receiver.recv_async().await.unwrap() },
            ),
        ),
    ]
}
