//! Ours, as the shapes of this area see it, and what only ours can do.

use std::future::Future;
use std::sync::LazyLock;

use semaforo::query::prelude::*;
use semaforo::tasks::{self, Handle, Mode};

use super::executor::{Executor, Pool};
use super::latency::Prioritized;
use super::skynet::{self, CHILDREN, LEAVES};
use super::spawning::TASKS;
use crate::row::Work;
use crate::workload::tasks::WORKERS;
use crate::workload::whole;

#[derive(Clone, Copy)]
pub(super) struct Ours(&'static tasks::Pool);

impl Ours {
    /// What one gets without asking for anything.
    pub(super) fn stealing() -> Ours {
        static POOL: LazyLock<tasks::Pool> = LazyLock::new(|| started(Mode::Stealing));
        Ours(&POOL)
    }

    pub(super) fn strict() -> Ours {
        static POOL: LazyLock<tasks::Pool> = LazyLock::new(|| started(Mode::Strict));
        Ours(&POOL)
    }
}

fn started(mode: Mode) -> tasks::Pool {
    let built = tasks::Pool::builder().threads(WORKERS).mode(mode).build();
    built.expect("the system allows two more threads")
}

impl Pool for Ours {
    fn execute(self, task: impl FnOnce() + Send + 'static) {
        self.0.execute(task);
    }
}

impl Executor for Ours {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, task: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        self.0.spawn(task)
    }

    fn spawn_future<T: Send + 'static>(
        self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Handle<T> {
        self.0.spawn_future(task)
    }

    fn execute_future(self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn_future(task));
    }

    async fn join<T: Send + 'static>(handle: Handle<T>) -> T {
        handle.await.expect("no task panics")
    }

    fn wait<T: Send + 'static>(self, handle: Handle<T>) -> T {
        handle.wait().expect("no task panics")
    }

    fn wait_for_all(self, handles: Vec<Handle<()>>) {
        handles.into_iter().for_each(|handle| self.wait(handle));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tasks::yield_now()
    }
}

impl Prioritized for Ours {
    fn execute_at(self, level: u32, task: impl FnOnce() + Send + 'static) {
        self.0.at(level).execute(task);
    }
}

/// A million tasks in a scope, of a thread outside.
pub(super) fn scope_outside(Ours(pool): Ours) -> Work {
    whole(TASKS, || empty_tasks_in_a_scope(pool))
}

/// The same, of a task.
pub(super) fn scope_in_a_worker(ours: Ours) -> Work {
    whole(TASKS, move || ours.wait(ours.spawn(move || empty_tasks_in_a_scope(ours.0))))
}

fn empty_tasks_in_a_scope(pool: &tasks::Pool) {
    pool.scope(|scope| {
        for _ in 0..TASKS {
            scope.execute(|| ());
        }
    });
}

pub(super) fn skynet_in_scopes(ours: Ours) -> Work {
    skynet::summed(move || ours.wait(ours.spawn(move || in_scopes(ours.0, 0, LEAVES))))
}

fn in_scopes(pool: &tasks::Pool, first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let part = leaves / CHILDREN;
    let mut sums = [0; CHILDREN as usize];
    pool.scope(|scope| {
        for (child, sum) in (0..).zip(&mut sums) {
            scope.execute(move || *sum = in_scopes(pool, first + child * part, part));
        }
    });
    sums.iter().sum()
}

pub(super) fn skynet_in_queries(Ours(pool): Ours) -> Work {
    skynet::summed(move || in_queries(pool, 0, LEAVES))
}

fn in_queries(pool: &tasks::Pool, first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let part = leaves / CHILDREN;
    let children = (0..CHILDREN).as_parallel().on(pool).with_threads(WORKERS);
    children.map(|child| in_queries(pool, first + child * part, part)).sum()
}
