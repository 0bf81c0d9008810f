//! `bench query`: parallel queries over data that is already there.

#[cfg(feature = "kernels")]
mod good_kernels;
mod kernels;
mod matrices;
mod ours;
mod sums;
mod tables;

use std::hint::black_box;
use std::sync::LazyLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::measure::Plan;
use crate::row::{Row, Work};
use crate::workload::milliseconds;

pub(crate) fn rows(plan: &Plan) -> Vec<Row> {
    [matrices::rows(plan), sums::rows(), tables::rows()].into_iter().flatten().collect()
}

/// Where rayon, and what is built on it, runs with so many threads.
fn rayon_with(threads: usize) -> &'static ThreadPool {
    static ONE: LazyLock<ThreadPool> = LazyLock::new(|| started(1));
    static TWO: LazyLock<ThreadPool> = LazyLock::new(|| started(2));
    match threads {
        1 => &ONE,
        2 => &TWO,
        _ => unreachable!("rows have one or two threads"),
    }
}

fn started(threads: usize) -> ThreadPool {
    let built = ThreadPoolBuilder::new().num_threads(threads).build();
    built.expect("the system allows a few more threads")
}

/// The whole query, in milliseconds; dropping what it yields is part of it.
fn query<T>(run: impl Fn() -> T + 'static) -> Work {
    milliseconds(move || drop(black_box(run())))
}

fn query_on_rayon<T: Send>(threads: usize, run: impl Fn() -> T + Sync + 'static) -> Work {
    query(move || rayon_with(threads).install(&run))
}
