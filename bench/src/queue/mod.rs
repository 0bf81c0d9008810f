//! `bench queue`: queues, and the meeting points that need a queue of their own.

mod barriers;
mod bounded;
mod exchanger;
mod lost_messages;
mod ours;
mod phaser;
mod priority;
mod rendezvous;
mod unbounded;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [
        bounded::rows(),
        rendezvous::rows(),
        unbounded::rows(),
        barriers::rows(),
        exchanger::rows(),
        phaser::rows(),
        priority::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
