//! The two sides that wait, a thread and a task, for models that are the same with both.

use std::future::Future;

use super::checker::{explore, explore_within};
use super::task::Task;
use crate::Request;
use crate::policy::Policy;
use crate::request::{Limits, Operation};
use crate::sync::condition::LockGuard;
use crate::sync::{WaitWhile, WaitWhileLimits};
use crate::tasks::Handle;

/// Who waits: a type, as the sides of a race are functions that capture nothing.
pub(super) trait Side {
    /// Waits until there is an outcome.
    fn finish<W: Wait>(wait: W) -> W::Output;

    /// Runs a model in every order, but with a thread, which does more before it sleeps, only in
    /// those within so many preemptions.
    fn explore(preemptions: usize, model: fn());
}

/// It blocks.
pub(super) struct AThread;

/// It is polled, and polled again each time that it was woken.
pub(super) struct ATask;

impl Side for AThread {
    fn finish<W: Wait>(wait: W) -> W::Output {
        wait.wait()
    }

    fn explore(preemptions: usize, model: fn()) {
        explore_within(preemptions, model);
    }
}

impl Side for ATask {
    fn finish<W: Wait>(wait: W) -> W::Output {
        Task::new(wait).run()
    }

    fn explore(_: usize, model: fn()) {
        explore(model);
    }
}

/// What either side can wait for.
pub(super) trait Wait: Future + Sized {
    /// Blocks the thread.
    fn wait(self) -> Self::Output;
}

impl<O: Operation, L: Limits> Wait for Request<O, L> {
    fn wait(self) -> Self::Output {
        self.wait()
    }
}

impl<P, G, F, L> Wait for WaitWhile<'_, P, G, F, L>
where
    P: Policy,
    G: LockGuard<Policy = P>,
    F: FnMut(&G::Target) -> bool,
    L: WaitWhileLimits,
{
    fn wait(self) -> Self::Output {
        self.wait()
    }
}

impl<T> Wait for Handle<T> {
    fn wait(self) -> Self::Output {
        self.wait()
    }
}

/// Makes two tests of each of these models, one for each side.
macro_rules! on_both_sides {
    ($($model:ident),* $(,)?) => {
        $(mod $model {
            use crate::models::side::{ATask, AThread};

            #[test]
            fn by_a_thread() {
                super::$model::<AThread>();
            }

            #[test]
            fn by_a_task() {
                super::$model::<ATask>();
            }
        })*
    };
}

pub(super) use on_both_sides;
