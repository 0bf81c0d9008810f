//! A scheduler that has at most so many tasks run at once, on another.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::head::Run;
use super::levels::Levels;
use super::scheduler::{Runnable, Scheduled, Scheduler};
use super::spawner::Spawn;
use super::spin::Spin;
use super::ticks::CLOCK;

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
/// while it is polled, not while it is suspended.
pub struct Limited<S> {
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    scheduler: S,
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
        Self { inner: Arc::new(Inner { scheduler, limit, levels, porters }) }
    }

    /// The scheduler that runs them.
    pub fn scheduler(&self) -> &S {
        &self.inner.scheduler
    }
}

impl<S: Scheduler + 'static> Inner<S> {
    /// Sends a porter, if there are less than may be and something waits.
    fn send_porter(self: &Arc<Self>) {
        let sends = self.porters.with(|porters| {
            let sends = *porters < self.limit && !self.levels.is_empty();
            *porters += usize::from(sends);
            sends
        });
        if sends {
            let level = self.levels.smallest().unwrap_or(0);
            let porter = Porter { inner: Arc::clone(self), works: true };
            self.scheduler.at(level).execute_regardless(move || porter.carry());
        }
    }
}

/// Carries one task.
struct Porter<S: Scheduler + 'static> {
    inner: Arc<Inner<S>>,
    /// False once its task is done.
    works: bool,
}

impl<S: Scheduler + 'static> Porter<S> {
    fn carry(mut self) {
        if let Some(task) = self.inner.levels.pop(u32::MAX) {
            // Only a destructor or a waker can panic here; the hook has said so.
            let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
        }
        self.works = false;
    }
}

impl<S: Scheduler + 'static> Drop for Porter<S> {
    fn drop(&mut self) {
        self.inner.porters.with(|porters| *porters -= 1);
        if std::thread::panicking() {
            // The other scheduler has panicked: it would do so again.
            return;
        }
        if self.works {
            // The other scheduler does not want it, so nobody will come for the tasks either.
            let how = self.inner.scheduler.refusal().unwrap_or(0);
            while let Some(task) = self.inner.levels.pop(u32::MAX) {
                let _ = catch_unwind(AssertUnwindSafe(|| task.cancel(how)));
            }
        }
        self.inner.send_porter();
    }
}

impl<S: Scheduler + Clone + 'static> Scheduler for Limited<S> {
    /// # Panics
    /// If the other scheduler does not have the task's level.
    fn enqueue(&self, runnable: Runnable) {
        let (level, levels) = (runnable.level(), self.level_count());
        assert!(level < levels, "there is no level {level}: there are {levels}, counted from 0");
        self.inner.levels.push(level.min(LEVELS - 1), runnable.into_task());
        self.inner.send_porter();
    }

    fn concurrency(&self) -> usize {
        self.inner.limit.min(self.inner.scheduler.concurrency())
    }

    fn scheduled(&self) -> Vec<Scheduled> {
        let (mut scheduled, now) = (Vec::new(), CLOCK.now());
        self.inner.levels.visit(|task| scheduled.extend(Scheduled::of_task(task, None, &now)));
        scheduled
    }

    fn normal_level(&self) -> u32 {
        self.inner.scheduler.normal_level()
    }

    fn level_count(&self) -> u32 {
        self.inner.scheduler.level_count()
    }

    fn refusal(&self) -> Option<u32> {
        self.inner.scheduler.refusal()
    }

    fn adopt(&self, task: Weak<dyn Run>) -> Option<u64> {
        self.inner.scheduler.adopt(task)
    }

    fn dismiss(&self, number: u64) {
        self.inner.scheduler.dismiss(number);
    }
}

impl<S> Clone for Limited<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: fmt::Debug> fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("limit", &self.inner.limit)
            .field("running", &self.inner.porters.with(|porters| *porters))
            .field("scheduler", &self.inner.scheduler)
            .finish_non_exhaustive()
    }
}
