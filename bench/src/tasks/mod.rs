//! `bench tasks`: starting tasks, joining them, and who goes first.

mod countdown;
mod executor;
mod latency;
mod one_lock;
mod ours;
mod scheduling;
mod search;
mod skynet;
mod spawning;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [spawning::rows(), scheduling::rows(), skynet::rows(), latency::rows(), search::rows()]
        .into_iter()
        .flatten()
        .collect()
}
