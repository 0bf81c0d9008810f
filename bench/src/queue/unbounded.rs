//! A queue without limit, and the same queue when the putting side waits until its
//! item was taken.

use super::lost_messages::kanal;
use super::ours;
use crate::java;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};
use crate::workload::two_threads::pipe;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("unbounded", "put and take, 2 threads, no limit, pinned to two cores", put)
            .bar(Bar::against("crossbeam", 1.0)),
        Row::new("transfer", "transfer and take, 2 threads, pinned to two cores", transfer)
            .bar(Bar::against("java", 0.1)),
    ]
}

fn put() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(ours::unbounded()),
        Contestant::sibling("blocking-queue", ours::unbounded_blocking()),
        Contestant::peer(
            "crossbeam",
            pipe(
                Apart,
                crossbeam_channel::unbounded(),
                |sender, item| sender.send(item).unwrap(),
                |receiver| receiver.recv().unwrap(),
            ),
        ),
        kanal(pipe(
            Apart,
            kanal::unbounded(),
            |sender, item| sender.send(item).unwrap(),
            |receiver| receiver.recv().unwrap(),
        )),
    ];
    contestants.extend(java::timed("java", "unbounded", Apart));
    contestants
}

fn transfer() -> Vec<Contestant> {
    let mut contestants = vec![Contestant::ours(ours::transfer())];
    contestants.extend(java::timed("java", "transfer", Apart));
    contestants
}
