//! Skynet: a task starts ten, each of them ten more, until there are a million,
//! which report their numbers; every task adds up what it hears.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

use rayon::prelude::*;

use super::executor::{Executor, Rayon, Tokio};
use super::ours::{self, Ours};
use crate::measure::Plan;
use crate::row::{Bar, Contestant, Row, Work};
use crate::workload::milliseconds;

pub(super) const LEAVES: u64 = 1_000_000;
pub(super) const CHILDREN: u64 = 10;

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    vec![
        Row::new("skynet", "1 000 000 leaves, each a task, ten children per task", every_leaf)
            .unit("ms")
            .bar(Bar::against("rayon-scope", 1.5))
            .at_most_rounds(plan.few_rounds()),
        Row::new("skynet-split", "the same sum; a task is only what another thread takes", split)
            .unit("ms")
            .bar(Bar::against("rayon-par-iter", 1.3)),
    ]
}

fn every_leaf() -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::skynet_in_scopes(Ours::stealing())),
        Contestant::sibling("awaited", awaited_by(Ours::stealing())),
        Contestant::peer("rayon-scope", summed(|| Rayon.pool().install(|| in_scopes(0, LEAVES)))),
        Contestant::peer("tokio", awaited_by(Tokio)),
    ]
}

fn split() -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::skynet_in_queries(Ours::stealing())),
        Contestant::peer(
            "rayon-par-iter",
            summed(|| Rayon.pool().install(|| in_parallel(0, LEAVES))),
        ),
    ]
}

pub(super) fn summed(skynet: impl Fn() -> u64 + 'static) -> Work {
    milliseconds(move || assert_eq!(black_box(skynet()), LEAVES * (LEAVES - 1) / 2))
}

/// Every leaf is a task, as in the original.
fn awaited_by<E: Executor>(executor: E) -> Work {
    summed(move || executor.wait(executor.spawn_future(awaited(executor, 0, LEAVES))))
}

fn awaited<E: Executor>(
    executor: E,
    first: u64,
    leaves: u64,
) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return first;
        }
        let children: Vec<E::Handle<u64>> = (0..CHILDREN)
            .map(|child| {
                let part = leaves / CHILDREN;
                executor.spawn_future(awaited(executor, first + child * part, part))
            })
            .collect();
        let mut sum = 0;
        for child in children {
            sum += E::join(child).await;
        }
        sum
    })
}

/// Every leaf is a job.
fn in_scopes(first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let part = leaves / CHILDREN;
    let mut sums = [0; CHILDREN as usize];
    rayon::scope(|scope| {
        for (child, sum) in (0..).zip(&mut sums) {
            scope.spawn(move |_| *sum = in_scopes(first + child * part, part));
        }
    });
    sums.iter().sum()
}

/// Rayon decides what becomes a job.
fn in_parallel(first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let part = leaves / CHILDREN;
    (0..CHILDREN).into_par_iter().map(|child| in_parallel(first + child * part, part)).sum()
}
