//! A scheduler that has at most so many tasks run at once, on another.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Weak};

use super::head::{Head, Run, state, survive};
use super::levels::Levels;
use super::pool::Pool;
use super::scheduler::internals::{Internals, kept_by_a_task};
use super::scheduler::{Runnable, Scheduled, Scheduler};
use super::spawner::Spawn;
use super::spin::SpinLock;
use super::ticks::CLOCK;
use crate::primitive::constant_thread_local;

/// Runs tasks by another scheduler, but at most so many at once; the others wait here, the most
/// urgent first, first come first served within a level.
///
/// ```
/// use semaforo::tasks::{Limited, Pool, Scheduler, Spawn};
///
/// let downloads = Limited::new(Pool::global().clone(), 2);
/// let sizes: Vec<_> = (1..=4).map(|n| downloads.spawn(move || 100 * n)).collect();
/// let sizes: Vec<i32> = sizes.into_iter().map(|size| size.wait().unwrap()).collect();
/// assert_eq!(sizes, [100, 200, 300, 400]);
/// assert_eq!(downloads.concurrency(), 2);
/// ```
///
/// Its tasks are not in the way of others: each takes its turn in the other scheduler's queue. A
/// future counts while it is polled, not while it is suspended. A task that waits for another one
/// counts: if all that may run wait for tasks that are left here, they wait for ever.
#[doc(alias = "LimitedConcurrencyLevelTaskScheduler")]
#[doc(alias = "ConcurrentExclusiveSchedulerPair")]
#[derive(Clone)]
pub struct Limited<S> {
    scheduler: S,
    queue: Arc<Queue>,
}

/// The tasks that wait, and how many run.
struct Queue {
    limit: usize,
    levels: Levels,
    /// How many runners there are: tasks of the other scheduler, each of which runs one task.
    runners: SpinLock<usize>,
}

/// How many levels wait apart. Those beyond count as the last.
const LEVELS: u32 = 64;

impl<S: Scheduler + Clone + 'static> Limited<S> {
    /// At most `limit` at once, by `scheduler`.
    ///
    /// # Panics
    /// If the limit is zero.
    #[must_use]
    pub fn new(scheduler: S, limit: usize) -> Self {
        assert!(limit > 0, "a limit of 0 would let no task run");
        let (levels, runners) = (Levels::new(LEVELS), SpinLock::new(0));
        Self { scheduler, queue: Arc::new(Queue { limit, levels, runners }) }
    }

    /// The scheduler that runs them.
    pub fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// Sends a runner, if there are fewer than there may be and a task waits; and another, for as
    /// long as the other scheduler has run the last one by the time it returns.
    fn send_runner(&self) {
        let address = Arc::as_ptr(&self.queue).addr();
        loop {
            let sends = self.queue.runners.with(|runners| {
                let sends = *runners < self.queue.limit && !self.queue.levels.is_empty();
                *runners += usize::from(sends);
                sends
            });
            if !sends {
                return;
            }
            let level = self.queue.levels.smallest().unwrap_or(0);
            // Not the one that was asked for: it might be in its own queue.
            let runner = Runner { limited: kept_by_a_task(self), task: None, works: true };
            let _sending = Sending::begin(address);
            self.scheduler.at(level).execute_regardless(move || runner.begin());
            if !Sending::is_over() {
                return;
            }
        }
    }
}

constant_thread_local! {
    /// Which queue this thread is sending a runner for, by address, and whether that one has
    /// already ended.
    static SENDING: Cell<(usize, bool)> = Cell::new((0, false));
}

/// This thread hands a runner to the other scheduler, until this is dropped. One that is run inside
/// of that does not send the next, which would grow the stack, but says that it has ended.
struct Sending((usize, bool));

impl Sending {
    fn begin(queue: usize) -> Self {
        Self(SENDING.with(|sending| sending.replace((queue, false))))
    }

    fn is_over() -> bool {
        SENDING.with(Cell::get).1
    }

    /// A runner for this queue has ended. False if this thread is not the one that sends it now.
    fn end(queue: usize) -> bool {
        SENDING.with(|sending| {
            let is_sent_here = sending.get().0 == queue;
            if is_sent_here {
                sending.set((queue, true));
            }
            is_sent_here
        })
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        SENDING.with(|sending| sending.set(self.0));
    }
}

/// Runs one task, as a task of the other scheduler.
struct Runner<S: Scheduler + Clone + 'static> {
    limited: Limited<S>,
    /// The task, once it has been taken from the queue.
    task: Option<Arc<dyn Run>>,
    /// False once its task is done.
    works: bool,
}

impl<S: Scheduler + Clone + 'static> Runner<S> {
    fn begin(mut self) {
        self.task = self.limited.queue.levels.pop(u32::MAX);
        match &self.task {
            Some(task) if wants_a_thread(task.head().load()) => {
                let (scheduler, task) = (self.limited.scheduler.clone(), Arc::clone(task));
                scheduler.enqueue(Runnable::new(Arc::new(OnOwnThread::new(&task, self))));
            }
            _ => self.run(),
        }
    }

    fn run(mut self) {
        // What the task starts and waits for may need runners too.
        let elsewhere = Sending::begin(0);
        if let Some(task) = self.task.take() {
            survive(move || task.run());
        }
        drop(elsewhere);
        self.works = false;
    }
}

fn wants_a_thread(state: u32) -> bool {
    state & state::LONG_RUNNING != 0 && !state::is_stale(state)
}

/// A runner on its way to the thread of a long-running task. It has the task's number, by which a
/// pool knows the thread that a future has from its first poll to its last.
struct OnOwnThread<S: Scheduler + Clone + 'static> {
    head: Head,
    task: Weak<dyn Run>,
    runner: SpinLock<Option<Runner<S>>>,
}

impl<S: Scheduler + Clone + 'static> OnOwnThread<S> {
    fn new(task: &Arc<dyn Run>, runner: Runner<S>) -> Self {
        let mut head = {
            let scheduler = &runner.limited.scheduler;
            let spawner = scheduler.at(task.head().level).long_running();
            Head::new(spawner.how(), state::DETACHED)
        };
        head.id = task.head().id;
        let task = task.part_of().unwrap_or_else(|| Arc::downgrade(task));
        Self { head, task, runner: SpinLock::new(Some(runner)) }
    }

    fn take(&self) -> Option<Runner<S>> {
        self.runner.with(Option::take)
    }
}

impl<S: Scheduler + Clone + 'static> Run for OnOwnThread<S> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn part_of(&self) -> Option<Weak<dyn Run>> {
        Some(Weak::clone(&self.task))
    }

    fn run(self: Arc<Self>) {
        self.take().into_iter().for_each(Runner::run);
    }

    fn cancel(&self, _: u32) -> bool {
        self.take().is_some()
    }
}

impl<S: Scheduler + Clone + 'static> Drop for Runner<S> {
    fn drop(&mut self) {
        let queue = &self.limited.queue;
        queue.runners.with(|runners| *runners -= 1);
        if std::thread::panicking() {
            // The other scheduler has panicked: it would do so again.
            return;
        }
        if self.works {
            // The other scheduler does not want it, so no runner will come for the tasks either.
            let how = self.limited.scheduler.internals().refusal().unwrap_or(0);
            while let Some(task) = self.task.take().or_else(|| queue.levels.pop(u32::MAX)) {
                survive(move || task.cancel(how));
            }
        }
        if !Sending::end(Arc::as_ptr(queue).addr()) {
            self.limited.send_runner();
        }
    }
}

impl<S: Scheduler + Clone + 'static> Scheduler for Limited<S> {
    /// # Panics
    /// If the other scheduler does not have the task's level.
    fn enqueue(&self, runnable: Runnable) {
        let (level, levels) = (runnable.level(), self.internals().level_count());
        assert!(level < levels, "there is no level {level}: there are {levels}, counted from 0");
        self.queue.levels.push(level.min(LEVELS - 1), runnable.into_task());
        self.send_runner();
    }

    fn concurrency(&self) -> usize {
        self.queue.limit.min(self.scheduler.concurrency())
    }

    fn scheduled(&self) -> Vec<Scheduled> {
        let (mut scheduled, now) = (Vec::new(), CLOCK.now());
        self.queue.levels.visit(|task| scheduled.extend(Scheduled::of_task(task, None, &now)));
        scheduled
    }

    fn normal_level(&self) -> u32 {
        self.scheduler.normal_level()
    }

    fn on_pool(&self) -> Option<&Pool> {
        self.scheduler.on_pool()
    }

    #[inline]
    fn internals(&self) -> &dyn Internals {
        self
    }
}

impl<S: Scheduler + Clone + 'static> Internals for Limited<S> {
    fn level_count(&self) -> u32 {
        self.scheduler.internals().level_count()
    }

    fn make_kept_by_a_task(&self, clone: &mut dyn Any) {
        if let Some(clone) = clone.downcast_mut::<Self>() {
            self.scheduler.internals().make_kept_by_a_task(&mut clone.scheduler);
        }
    }

    fn refusal(&self) -> Option<u32> {
        self.scheduler.internals().refusal()
    }

    fn register(&self, task: Weak<dyn Run>) -> Option<u64> {
        self.scheduler.internals().register(task)
    }

    fn unregister(&self, number: u64) {
        self.scheduler.internals().unregister(number);
    }
}

impl<S: fmt::Debug> fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("limit", &self.queue.limit)
            .field("running", &self.queue.runners.with(|runners| *runners))
            .field("scheduler", &self.scheduler)
            .finish_non_exhaustive()
    }
}
