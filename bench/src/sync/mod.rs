//! `bench sync`: semaphores, mutexes and read-write locks.

mod crowds;
mod fights;
mod limits;
mod mutexes;
mod ping_pong;
mod queueing;
mod rwlocks;
mod semaphores;
mod sizes;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [
        semaphores::rows(),
        mutexes::rows(),
        queueing::rows(),
        limits::rows(),
        ping_pong::rows(),
        fights::rows(),
        crowds::rows(),
        rwlocks::rows(),
        sizes::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
