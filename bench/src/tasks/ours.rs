//! What ours does in each row.

use super::search::Price;
use crate::row::Contestant;

pub(super) fn spawn_outside() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn spawn_in_a_worker() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn execute_outside() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn execute_in_a_worker() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn ping_pong() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn chain() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn yield_many() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn skynet() -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn latency(_percent: usize) -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn search_as_a_task(_prices: &'static [Price]) -> Vec<Contestant> {
    Vec::new()
}

pub(super) fn search_as_an_async_function(_prices: &'static [Price]) -> Vec<Contestant> {
    Vec::new()
}
