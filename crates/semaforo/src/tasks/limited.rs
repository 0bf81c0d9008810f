//! A scheduler that has at most so many tasks run at once, on another.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Weak};

use super::head::{Head, Run, state, survive};
use super::levels::Levels;
use super::pool::Pool;
use super::scheduler::{Runnable, Scheduled, Scheduler};
use super::spawner::Spawn;
use super::spin::Spin;
use super::ticks::CLOCK;
use crate::primitive::constant_thread_local;

/// Runs tasks by another scheduler, but at most so many at once; the others wait here, the most urgent
/// first, first come first served within a level.
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
/// Its tasks are in nobody's way: each takes its turn in the other scheduler's queue. A future counts
/// while it is polled, not while it is suspended. A task that waits for another one counts: if all that may
/// run wait for tasks that are left here, they wait for ever.
#[doc(alias = "LimitedConcurrencyLevelTaskScheduler")]
#[doc(alias = "ConcurrentExclusiveSchedulerPair")]
#[derive(Clone)]
pub struct Limited<S> {
    scheduler: S,
    queue: Arc<Queue>,
}

/// Those that wait, and how many do not.
struct Queue {
    limit: usize,
    levels: Levels,
    /// How many porters there are: each carries one task at a time to the other scheduler.
    porters: Spin<usize>,
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
        let (levels, porters) = (Levels::new(LEVELS), Spin::new(0));
        Self { scheduler, queue: Arc::new(Queue { limit, levels, porters }) }
    }

    /// The scheduler that runs them.
    pub fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// Sends a porter, if there are less than may be and something waits; and another, for as long as the
    /// other scheduler has run the last one by the time it returns.
    fn send_porter(&self) {
        let address = Arc::as_ptr(&self.queue).addr();
        loop {
            let sends = self.queue.porters.with(|porters| {
                let sends = *porters < self.queue.limit && !self.queue.levels.is_empty();
                *porters += usize::from(sends);
                sends
            });
            if !sends {
                return;
            }
            let level = self.queue.levels.smallest().unwrap_or(0);
            // Not the one that was asked for: it might be in its own queue.
            let porter = Porter { limited: self.kept_by_a_task(), task: None, works: true };
            let _sending = Sending::begin(address);
            self.scheduler.at(level).execute_regardless(move || porter.carry());
            if !Sending::is_over() {
                return;
            }
        }
    }
}

constant_thread_local! {
    /// Which queue this thread is sending a porter for, by address, and whether that one has come back.
    static SENDING: Cell<(usize, bool)> = Cell::new((0, false));
}

/// This thread hands a porter to the other scheduler, until this is dropped. One that is run inside of that
/// does not send the next, which would grow the stack, but says that it is back.
struct Sending((usize, bool));

impl Sending {
    fn begin(queue: usize) -> Self {
        Self(SENDING.with(|sending| sending.replace((queue, false))))
    }

    fn is_over() -> bool {
        SENDING.with(Cell::get).1
    }

    /// A porter for this queue is back. False if the one who sent it has gone on.
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

/// Carries one task.
struct Porter<S: Scheduler + Clone + 'static> {
    limited: Limited<S>,
    /// The task, once it has been taken from the queue.
    task: Option<Arc<dyn Run>>,
    /// False once its task is done.
    works: bool,
}

impl<S: Scheduler + Clone + 'static> Porter<S> {
    fn carry(mut self) {
        self.task = self.limited.queue.levels.pop(u32::MAX);
        match &self.task {
            Some(task) if wants_a_thread(task.head().load()) => {
                let (scheduler, task) = (self.limited.scheduler.clone(), Arc::clone(task));
                scheduler.enqueue(Runnable::new(Arc::new(OnItsThread::new(&task, self))));
            }
            _ => self.run(),
        }
    }

    fn run(mut self) {
        // What the task starts and waits for may need porters too.
        let elsewhere = Sending::begin(0);
        if let Some(task) = self.task.take() {
            survive(move || task.run());
        }
        drop(elsewhere);
        self.works = false;
    }
}

fn wants_a_thread(state: u32) -> bool {
    state & state::LONG_RUNNING != 0 && !state::is_shell(state)
}

/// A porter on its way to the thread of a long-running task. It has the task's number, by which a
/// pool knows the thread that a future has from its first poll to its last.
struct OnItsThread<S: Scheduler + Clone + 'static> {
    head: Head,
    task: Weak<dyn Run>,
    porter: Spin<Option<Porter<S>>>,
}

impl<S: Scheduler + Clone + 'static> OnItsThread<S> {
    fn new(task: &Arc<dyn Run>, porter: Porter<S>) -> Self {
        let mut head = {
            let scheduler = &porter.limited.scheduler;
            let spawner = scheduler.at(task.head().level).long_running();
            Head::new(spawner.how(), state::DETACHED)
        };
        head.id = task.head().id;
        let task = task.part_of().unwrap_or_else(|| Arc::downgrade(task));
        Self { head, task, porter: Spin::new(Some(porter)) }
    }

    fn take(&self) -> Option<Porter<S>> {
        self.porter.with(Option::take)
    }
}

impl<S: Scheduler + Clone + 'static> Run for OnItsThread<S> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn part_of(&self) -> Option<Weak<dyn Run>> {
        Some(Weak::clone(&self.task))
    }

    fn run(self: Arc<Self>) {
        self.take().into_iter().for_each(Porter::run);
    }

    fn cancel(&self, _: u32) -> bool {
        self.take().is_some()
    }
}

impl<S: Scheduler + Clone + 'static> Drop for Porter<S> {
    fn drop(&mut self) {
        let queue = &self.limited.queue;
        queue.porters.with(|porters| *porters -= 1);
        if std::thread::panicking() {
            // The other scheduler has panicked: it would do so again.
            return;
        }
        if self.works {
            // The other scheduler does not want it, so nobody will come for the tasks either.
            let how = self.limited.scheduler.refusal().unwrap_or(0);
            while let Some(task) = self.task.take().or_else(|| queue.levels.pop(u32::MAX)) {
                survive(move || task.cancel(how));
            }
        }
        if !Sending::end(Arc::as_ptr(queue).addr()) {
            self.limited.send_porter();
        }
    }
}

impl<S: Scheduler + Clone + 'static> Scheduler for Limited<S> {
    /// # Panics
    /// If the other scheduler does not have the task's level.
    fn enqueue(&self, runnable: Runnable) {
        let (level, levels) = (runnable.level(), self.level_count());
        assert!(level < levels, "there is no level {level}: there are {levels}, counted from 0");
        self.queue.levels.push(level.min(LEVELS - 1), runnable.into_task());
        self.send_porter();
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

    fn level_count(&self) -> u32 {
        self.scheduler.level_count()
    }

    fn kept_by_a_task(&self) -> Self {
        Self { scheduler: self.scheduler.kept_by_a_task(), queue: Arc::clone(&self.queue) }
    }

    fn refusal(&self) -> Option<u32> {
        self.scheduler.refusal()
    }

    fn on_pool(&self) -> Option<&Pool> {
        self.scheduler.on_pool()
    }

    fn adopt(&self, task: Weak<dyn Run>) -> Option<u64> {
        self.scheduler.adopt(task)
    }

    fn dismiss(&self, number: u64) {
        self.scheduler.dismiss(number);
    }
}

impl<S: fmt::Debug> fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("limit", &self.queue.limit)
            .field("running", &self.queue.porters.with(|porters| *porters))
            .field("scheduler", &self.scheduler)
            .finish_non_exhaustive()
    }
}
