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

use crate::measure::Plan;
use crate::row::Row;

pub(crate) fn rows(plan: &Plan) -> Vec<Row> {
    [spawning::rows(plan), scheduling::rows(), skynet::rows(plan), latency::rows(), search::rows()]
        .into_iter()
        .flatten()
        .collect()
}
