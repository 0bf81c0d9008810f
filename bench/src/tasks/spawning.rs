//! A million empty tasks, started and joined.

use super::countdown::{Countdown, counted_down};
use super::executor::{AsyncExecutor, AsyncStaticExecutor, Executor, Pool, Rayon, Tokio};
use super::ours::{self, Ours};
use crate::java;
use crate::measure::Plan;
use crate::row::{Bar, Contestant, Row, Work};
use crate::workload::whole;

pub(super) const TASKS: u64 = 1_000_000;

const RAYON: &[&str] = &["rayon-spawn", "rayon-scope"];

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    let rounds = plan.few_rounds();
    vec![
        Row::new(
            "spawn-outside",
            "1 000 000 empty tasks with handles, spawned and joined by a thread outside, per task",
            with_handles_outside,
        )
        .bar(Bar::against("async-executor", 1.0))
        .at_most_rounds(rounds),
        Row::new(
            "spawn-worker",
            "the same, spawned and joined by a task",
            with_handles_in_a_worker,
        )
        .bar(Bar::against("async-executor", 1.0))
        .at_most_rounds(rounds),
        Row::new(
            "execute-outside",
            "1 000 000 empty tasks without handles, from a thread outside, until all have ended",
            without_handles_outside,
        )
        .bar(Bar::best_of(RAYON, 1.2))
        .at_most_rounds(rounds),
        Row::new("execute-worker", "the same, from a task", without_handles_in_a_worker)
            .bar(Bar::best_of(RAYON, 1.2))
            .at_most_rounds(rounds),
    ]
}

fn with_handles_outside() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(outside(Ours::stealing())),
        Contestant::sibling("strict", outside(Ours::strict())),
        Contestant::peer("async-executor", outside(AsyncExecutor::get())),
        Contestant::peer("async-executor-static", outside(AsyncStaticExecutor::get())),
        Contestant::peer("tokio", outside(Tokio)),
    ];
    contestants.extend(java::whole("java-forkjoin", "tasks-outside", TASKS));
    contestants
}

fn with_handles_in_a_worker() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(in_a_worker(Ours::stealing())),
        Contestant::sibling("blocking", blocking_in_a_worker(Ours::stealing())),
        Contestant::peer("async-executor", in_a_worker(AsyncExecutor::get())),
        Contestant::peer("async-executor-static", in_a_worker(AsyncStaticExecutor::get())),
        Contestant::peer("tokio", in_a_worker(Tokio)),
    ];
    contestants.extend(java::whole("java-forkjoin", "tasks-worker", TASKS));
    contestants
}

fn without_handles_outside() -> Vec<Contestant> {
    vec![
        Contestant::ours(executed_outside(Ours::stealing())),
        Contestant::sibling("scope", ours::scope_outside(Ours::stealing())),
        Contestant::peer("rayon-spawn", executed_outside(Rayon)),
        Contestant::peer("rayon-scope", whole(TASKS, || Rayon.pool().in_place_scope(empty_jobs))),
    ]
}

fn without_handles_in_a_worker() -> Vec<Contestant> {
    vec![
        Contestant::ours(executed_in_a_worker(Ours::stealing())),
        Contestant::sibling("scope", ours::scope_in_a_worker(Ours::stealing())),
        Contestant::peer("rayon-spawn", executed_in_a_worker(Rayon)),
        Contestant::peer("rayon-scope", whole(TASKS, || Rayon.pool().scope(empty_jobs))),
    ]
}

fn outside(executor: impl Executor) -> Work {
    whole(TASKS, move || executor.wait_for_all(spawned(executor)))
}

fn in_a_worker<E: Executor>(executor: E) -> Work {
    whole(TASKS, move || {
        let root = async move { E::join_all(spawned(executor)).await };
        executor.wait(executor.spawn_future(root));
    })
}

/// Joined by a closure that blocks its worker, instead of a future.
fn blocking_in_a_worker(executor: impl Executor) -> Work {
    whole(TASKS, move || {
        let root = move || executor.wait_for_all(spawned(executor));
        executor.wait(executor.spawn(root));
    })
}

fn spawned<E: Executor>(executor: E) -> Vec<E::Handle<()>> {
    (0..TASKS).map(|_| executor.spawn(|| ())).collect()
}

fn executed_outside(pool: impl Pool) -> Work {
    counted_down(TASKS, TASKS, move |countdown| executed(pool, countdown))
}

fn executed_in_a_worker(pool: impl Pool) -> Work {
    counted_down(TASKS, TASKS, move |countdown| pool.execute(move || executed(pool, countdown)))
}

fn empty_jobs(scope: &rayon::Scope<'_>) {
    for _ in 0..TASKS {
        scope.spawn(|_| ());
    }
}

fn executed(pool: impl Pool, countdown: &'static Countdown) {
    for _ in 0..TASKS {
        pool.execute(|| countdown.one_has_ended());
    }
}
