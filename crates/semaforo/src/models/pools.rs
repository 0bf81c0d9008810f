//! Whole pools, with their workers: sleeping against waking, places for spare threads, the end.

use super::checker::{explore_within, spawn};
use super::tray::Count;
use crate::tasks::{Pool, Shutdown};

/// A pool with one level.
pub(super) fn pool(threads: usize, spares: usize) -> Pool {
    Pool::builder().threads(threads).spares(spares).levels(1).build().unwrap()
}

/// Runs what is left, and waits until the workers have gone.
pub(super) fn shut_down(pool: Pool) {
    pool.shutdown(Shutdown::Drain).wait();
}

/// A worker goes to sleep while a task comes.
#[test]
fn sleep_against_wake() {
    explore_within(2, || {
        let (pool, count) = (pool(1, 0), Count::default());
        let counted = count.clone();
        pool.execute(move || counted.up());
        shut_down(pool);
        assert_eq!(count.get(), 1);
    });
}

/// The pool ends while a task comes: it is run or cancelled.
#[test]
fn a_task_against_the_end() {
    explore_within(2, || {
        let (pool, count) = (pool(1, 0), Count::default());
        let dropped = count.drops();
        let other = pool.clone();
        let ends = spawn(move || shut_down(other));
        pool.execute(move || drop(dropped));
        ends.join().unwrap();
        assert_eq!(count.get(), 1);
    });
}
