//! A scheduler whose tasks run on the thread that waits for something else.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use super::head::{Run, survive};
use super::levels::Levels;
use super::registry::Registry;
use super::scheduler::internals::Internals;
use super::scheduler::{Runnable, Scheduled, Scheduler};
use super::ticks::CLOCK;
use crate::primitive::{AtomicBool, Ordering};
use crate::wait::parker::{Parker, Sleeping};
use crate::wait::wake::settle_debts;

/// Runs tasks on the thread that calls [`run_until`](Self::run_until), the most urgent first, first
/// come first served within a level. Tasks can be started from any thread.
///
/// ```
/// use semaforo::tasks::{CurrentThread, Spawn};
/// use std::thread;
///
/// let here = CurrentThread::new();
/// let thread = here.spawn(|| thread::current().id());
/// assert_eq!(here.run_until(thread).unwrap(), thread::current().id());
/// ```
///
/// Only `run_until` runs tasks. A [`Handle`](super::Handle) that is waited for on this thread,
/// inside of a task or outside, waits for a task that nothing runs meanwhile: hand it to
/// `run_until`, or await it.
///
/// When the last clone is dropped, the tasks that are left are cancelled, the suspended futures
/// included.
#[doc(alias = "SynchronizationContext")]
#[doc(alias = "LocalSet")]
#[derive(Clone)]
pub struct CurrentThread {
    inner: Arc<Inner>,
    /// Not for tasks that are in its queue: they would keep it, and it them.
    cancels: Option<Arc<CancelOnDrop>>,
}

/// Cancels all tasks when the last clone that can run them is dropped.
struct CancelOnDrop(Arc<Inner>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.abandoned.store(true, Ordering::SeqCst);
        self.0.cancel_all();
        let suspended = self.0.futures.all();
        suspended.iter().filter_map(Weak::upgrade).for_each(cancel);
    }
}

struct Inner {
    levels: Levels,
    futures: Registry,
    runs: AtomicBool,
    /// No thread will run anything any more.
    abandoned: AtomicBool,
    /// The thread that runs, if it sleeps.
    parker: Arc<Parker>,
}

const LEVELS: u32 = 10;

impl CurrentThread {
    /// A scheduler with ten levels; the normal one is 5.
    #[must_use]
    pub fn new() -> Self {
        let parker = Parker::new();
        let inner = Arc::new(Inner {
            levels: Levels::new(LEVELS),
            futures: Registry::new(),
            runs: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            parker,
        });
        Self { cancels: Some(Arc::new(CancelOnDrop(Arc::clone(&inner)))), inner }
    }

    /// Polls `future` whenever it is woken, and runs tasks in between, on this thread, until the
    /// future is ready. Tasks that are left then wait for the next call.
    ///
    /// # Panics
    /// If a call of this has not returned yet, in this thread or another. With the panic of
    /// `future`.
    pub fn run_until<F: Future>(&self, future: F) -> F::Output {
        let inner = &self.inner;
        let others = inner.runs.swap(true, Ordering::Acquire);
        assert!(!others, "`run_until` of this scheduler is being called already");
        let _ends = Runs(&inner.runs);
        let polled =
            Arc::new(Polling { woken: AtomicBool::new(true), parker: Arc::clone(&inner.parker) });
        let waker = Waker::from(Arc::clone(&polled));
        let mut future = pin!(future);
        loop {
            if polled.woken.swap(false, Ordering::AcqRel) {
                let context = &mut Context::from_waker(&waker);
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    return output;
                }
            }
            match inner.levels.pop(u32::MAX) {
                Some(task) => survive(move || task.run()),
                None if polled.woken.load(Ordering::Acquire) => (),
                None => {
                    settle_debts();
                    let _sleeping = Sleeping::now();
                    // Waking the future and adding a task unpark; having done so before counts.
                    inner.parker.park(None);
                }
            }
        }
    }
}

/// The runner has left when this is dropped.
struct Runs<'r>(&'r AtomicBool);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The waker of the future that is run.
struct Polling {
    woken: AtomicBool,
    parker: Arc<Parker>,
}

impl Wake for Polling {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        Arc::clone(&self.parker).wake();
    }
}

impl Default for CurrentThread {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for CurrentThread {
    /// # Panics
    /// If the task's level is 10 or more.
    fn enqueue(&self, runnable: Runnable) {
        let level = runnable.level();
        assert!(level < LEVELS, "there is no level {level}: there are {LEVELS}, counted from 0");
        self.inner.levels.push(level, runnable.into_task());
        Arc::clone(&self.inner.parker).wake();
        if self.inner.abandoned.load(Ordering::SeqCst) {
            self.inner.cancel_all();
        }
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn scheduled(&self) -> Vec<Scheduled> {
        let (mut scheduled, now) = (Vec::new(), CLOCK.now());
        self.inner.levels.visit(|task| scheduled.extend(Scheduled::of_task(task, None, &now)));
        scheduled
    }

    fn normal_level(&self) -> u32 {
        LEVELS / 2
    }

    #[inline]
    fn internals(&self) -> &dyn Internals {
        self
    }
}

impl Internals for CurrentThread {
    fn level_count(&self) -> u32 {
        LEVELS
    }

    fn make_kept_by_a_task(&self, clone: &mut dyn Any) {
        clone.downcast_mut::<Self>().into_iter().for_each(|clone| clone.cancels = None);
    }

    fn register(&self, task: Weak<dyn Run>) -> Option<u64> {
        Some(self.inner.futures.add(task))
    }

    fn unregister(&self, number: u64) {
        self.inner.futures.remove(number);
    }
}

impl Inner {
    fn cancel_all(&self) {
        std::iter::from_fn(|| self.levels.pop(u32::MAX)).for_each(cancel);
    }
}

/// Cancels a task because no thread will run it.
fn cancel(task: Arc<dyn Run>) {
    survive(move || task.cancel(0));
}

impl fmt::Debug for CurrentThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentThread").field("queued", &self.scheduled().len()).finish()
    }
}
