//! The scheduler, which decides when and where tasks run, and what it gets to run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::internals::{Internals, NoInternals};
use super::head::{Head, Run, state};
use super::pool::Pool;
use super::ticks::{CLOCK, Now};
use crate::primitive::Ordering;

/// Decides when and where tasks run.
///
/// One method matters: [`enqueue`](Self::enqueue) takes a task that is ready to run, and the
/// scheduler calls [`Runnable::run`] when and where it likes. Everything else (handles,
/// cancellation, panics, futures and their wakers, continuations) comes with it: see
/// [`Spawn`](super::Spawn).
///
/// ```
/// use semaforo::tasks::{Runnable, Scheduler, Spawn};
///
/// /// Runs everything at once, where it was started.
/// #[derive(Clone)]
/// struct Immediate;
///
/// impl Scheduler for Immediate {
///     fn enqueue(&self, runnable: Runnable) {
///         runnable.run();
///     }
/// }
///
/// assert_eq!(Immediate.spawn(|| 6 * 7).wait().unwrap(), 42);
/// ```
#[doc(alias = "TaskScheduler")]
#[doc(alias = "Executor")]
pub trait Scheduler: Send + Sync {
    /// Takes a task that is ready to run. A [`Runnable`] that is dropped instead is cancelled.
    #[doc(alias = "QueueTask")]
    fn enqueue(&self, runnable: Runnable);

    /// How many tasks run at once, at most; `usize::MAX` if there is no limit or it is not known.
    #[doc(alias = "MaximumConcurrencyLevel")]
    fn concurrency(&self) -> usize {
        usize::MAX
    }

    /// What is queued, for people who debug.
    #[doc(alias = "GetScheduledTasks")]
    fn scheduled(&self) -> Vec<Scheduled> {
        Vec::new()
    }

    /// The level of a task that is started without saying one.
    fn normal_level(&self) -> u32 {
        0
    }

    /// The pool whose threads run its tasks, if it passes them on to one. A worker of that pool
    /// that waits for one of these tasks is replaced meanwhile, as if it were the pool's own;
    /// otherwise it is not, and the task may have to wait for it.
    fn on_pool(&self) -> Option<&Pool> {
        None
    }

    /// What only the schedulers of this crate have besides.
    #[doc(hidden)]
    fn internals(&self) -> &dyn Internals {
        &NoInternals
    }
}

macro_rules! forwarded {
    () => {
        fn enqueue(&self, runnable: Runnable) {
            (**self).enqueue(runnable);
        }

        fn concurrency(&self) -> usize {
            (**self).concurrency()
        }

        fn scheduled(&self) -> Vec<Scheduled> {
            (**self).scheduled()
        }

        fn normal_level(&self) -> u32 {
            (**self).normal_level()
        }

        fn on_pool(&self) -> Option<&Pool> {
            (**self).on_pool()
        }

        #[inline]
        fn internals(&self) -> &dyn Internals {
            (**self).internals()
        }
    };
}

impl<S: Scheduler + ?Sized> Scheduler for Arc<S> {
    forwarded!();
}

impl<S: Scheduler + ?Sized> Scheduler for &S {
    forwarded!();
}

/// What the schedulers of this crate have besides [`Scheduler`]'s methods. Public, because that
/// trait names it; nothing outside of this crate can.
pub(crate) mod internals {
    use std::any::Any;
    use std::sync::Weak;

    use super::super::head::Run;
    use super::super::pool_state::PoolId;
    use super::Scheduler;

    pub trait Internals {
        /// How many levels there are, if it cares.
        fn level_count(&self) -> u32 {
            u32::MAX
        }

        /// Why a new task cannot be started: the bits of its state.
        fn refusal(&self) -> Option<u32> {
            None
        }

        /// The bits of a new task's state.
        fn start_state(&self) -> u32 {
            0
        }

        /// The pool whose workers can queue its tasks again by themselves.
        fn requeues_on(&self) -> Option<PoolId> {
            None
        }

        /// The pool whose threads run its tasks, if [`Scheduler::on_pool`] does not say it.
        fn runs_on(&self) -> Option<PoolId> {
            None
        }

        /// Remembers a future that may be suspended.
        fn register(&self, task: Weak<dyn Run>) -> Option<u64> {
            let _ = task;
            None
        }

        /// Forgets it.
        fn unregister(&self, number: u64) {
            let _ = number;
        }

        /// Makes a clone of this scheduler one that a task may keep, which may be in this
        /// scheduler's own queue.
        fn make_kept_by_a_task(&self, clone: &mut dyn Any) {
            let _ = clone;
        }
    }

    /// Of a scheduler that is not this crate's.
    pub(crate) struct NoInternals;

    impl Internals for NoInternals {}

    /// A clone for a task to keep, which may be in this scheduler's own queue.
    pub(crate) fn kept_by_a_task<S: Scheduler + Clone + 'static>(scheduler: &S) -> S {
        let mut clone = scheduler.clone();
        scheduler.internals().make_kept_by_a_task(&mut clone);
        clone
    }
}

/// A task that is ready to run, in the hands of a [`Scheduler`].
#[must_use = "a task that is dropped instead of run is cancelled"]
pub struct Runnable {
    task: Option<Arc<dyn Run>>,
}

impl Runnable {
    #[inline]
    pub(crate) fn new(task: Arc<dyn Run>) -> Self {
        Self { task: Some(task) }
    }

    #[inline]
    pub(crate) fn into_task(mut self) -> Arc<dyn Run> {
        self.task.take().expect("a runnable has its task until it is consumed")
    }

    fn task(&self) -> &dyn Run {
        self.task.as_deref().expect("a runnable has its task until it is consumed")
    }

    pub(super) fn head(&self) -> &Head {
        self.task().head()
    }

    /// Runs the task on this thread: a closure to its end, a future until it has to wait.
    #[doc(alias = "TryExecuteTask")]
    pub fn run(self) {
        self.into_task().run();
    }

    /// The task's number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.task().head().id
    }

    /// The task's level; smaller ones come first.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.task().head().level
    }

    /// What the task is called, if it was started with a [label](super::Spawner::label).
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.task().label()
    }

    /// Whether the task asked for the common queue, wherever it was started.
    #[must_use]
    pub fn is_fair(&self) -> bool {
        self.task().head().load() & state::FAIR != 0
    }

    /// Whether the task said that it takes long.
    #[must_use]
    pub fn is_long_running(&self) -> bool {
        self.task().head().load() & state::LONG_RUNNING != 0
    }

    /// Whether there is nothing left to run, because the task was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.task().head().load() & state::CANCELLED != 0
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.cancel(0);
        }
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable").field("id", &self.id()).field("level", &self.level()).finish()
    }
}

/// A task that waits for its turn, as [`scheduled`](Scheduler::scheduled) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheduled {
    /// The task's number, also known to its handle.
    pub id: u64,
    /// Its level; smaller ones come first.
    pub level: u32,
    /// How long it has been queued.
    pub age: Duration,
    /// Which worker has it in its own queue; none if it is in the queue of all.
    pub worker: Option<usize>,
    /// What it is called, if it was started with a [label](super::Spawner::label).
    pub label: Option<String>,
}

impl Scheduled {
    /// What is known of a queued task, for schedulers that list theirs; none if it was cancelled.
    #[must_use]
    pub fn of(runnable: &Runnable) -> Option<Self> {
        Self::of_task(runnable.task(), None, &CLOCK.now())
    }

    pub(crate) fn of_task(task: &dyn Run, worker: Option<usize>, now: &Now) -> Option<Self> {
        let head = task.head();
        if head.is_stale() {
            return None;
        }
        let age = now.age(head.queued.load(Ordering::Relaxed));
        let label = task.label().map(String::from);
        Some(Self { id: head.id, level: head.level, age, worker, label })
    }
}
