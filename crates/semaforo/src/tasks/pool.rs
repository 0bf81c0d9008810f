//! The pool.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock, Weak};

use super::builder::Builder;
use super::handle::Handle;
use super::head::{Run, state};
use super::metrics::Metrics;
use super::pool_state::{Mode, PoolId, PoolState};
use super::scheduler::internals::Internals;
use super::scheduler::{Runnable, Scheduled, Scheduler};
use super::spawner::{Spawn, Spawner};
use crate::policy::Gate;
use crate::synchronizer::{Asking, Synchronizer};
use crate::wait::request::Request;

/// Threads that run tasks, the most urgent first.
///
/// Tasks are closures or futures. Each has a level; smaller ones come first. A task that runs is
/// never interrupted. In which order those that wait are picked is the pool's [`Mode`].
///
/// ```
/// use semaforo::tasks::Pool;
///
/// let pool = Pool::new();
/// let later = pool.at(7).spawn(|| "later");
/// let soon = pool.at(1).spawn(|| "soon");
/// assert_eq!(soon.wait().unwrap(), "soon");
/// assert_eq!(later.wait().unwrap(), "later");
/// ```
///
/// A `Pool` is a handle, and cheap to clone. When the last one is dropped, the pool
/// [drains](Shutdown::Drain): what was started still runs, and then the threads end.
#[doc(alias = "ExecutorService")]
#[doc(alias = "ThreadPoolExecutor")]
#[doc(alias = "ForkJoinPool")]
#[doc(alias = "ThreadPool")]
#[doc(alias = "Executors")]
#[doc(alias = "thread pool")]
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    state: Arc<PoolState>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.state.close(false);
    }
}

/// How a pool ends: see [`Pool::shutdown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// What is queued still runs, and whatever that starts in turn. Futures run to their end,
    /// however long that takes.
    Drain,
    /// What has not begun is cancelled, and futures that are suspended are dropped.
    Cancel,
}

impl Pool {
    /// A pool with a thread for each core, ten levels and [stealing](Mode::Stealing).
    ///
    /// # Panics
    /// If the system refuses to start the threads.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the system starts the threads of a pool")
    }

    /// A pool with other settings: see [`Builder`].
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The pool of this process, started when it is first used. It is never dropped; if it is shut
    /// down, it stays so.
    #[must_use]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Pool> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    pub(crate) fn with(state: Arc<PoolState>) -> Self {
        Self { inner: Arc::new(Inner { state }) }
    }

    #[inline]
    pub(crate) fn state(&self) -> &Arc<PoolState> {
        &self.inner.state
    }

    /// Starts a task that calls `work`, at the normal level.
    #[doc(alias = "Task.Run")]
    #[doc(alias = "TaskFactory.StartNew")]
    #[doc(alias = "StartNew")]
    #[doc(alias = "submit")]
    #[doc(alias = "supplyAsync")]
    #[inline]
    pub fn spawn<T, F>(&self, work: F) -> Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.start().spawn(work)
    }

    /// Starts a task that calls `work`, without a handle. If it panics, the panic hook says so, and
    /// nothing else does.
    #[doc(alias = "QueueUserWorkItem")]
    #[doc(alias = "runAsync")]
    #[inline]
    pub fn execute(&self, work: impl FnOnce() + Send + 'static) {
        self.start().execute(work);
    }

    /// Starts a task that polls `future` whenever it is woken.
    #[inline]
    pub fn spawn_future<F>(&self, future: F) -> Handle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.start().spawn_future(future)
    }

    /// Starts tasks at this level; smaller ones come first.
    ///
    /// # Panics
    /// If the pool has no such level.
    #[inline]
    pub fn at(&self, level: u32) -> Spawner<'_, Self> {
        assert!(
            level < self.levels(),
            "there is no level {level}: the pool has {}, counted from 0",
            self.levels()
        );
        self.start().at(level)
    }

    /// Starts tasks in the queue of all workers, behind the tasks that came before, even from a
    /// worker.
    #[doc(alias = "PreferFairness")]
    #[inline]
    pub fn fair(&self) -> Spawner<'_, Self> {
        self.start().fair()
    }

    /// Starts tasks on threads of their own: for what takes so long, or waits so much, that it
    /// would be in the way of others.
    #[doc(alias = "TaskCreationOptions.LongRunning")]
    #[inline]
    pub fn long_running(&self) -> Spawner<'_, Self> {
        self.start().long_running()
    }

    /// Ends the pool. That begins at once; the request waits until all its threads have gone.
    ///
    /// From now on nothing can be started from outside: joining such a task yields
    /// [`ShutDown`](super::JoinError::ShutDown). With [`Shutdown::Drain`] tasks that run may go on
    /// to start others. [`Shutdown::Cancel`] can follow on [`Shutdown::Drain`], if that takes too
    /// long. Do not wait for it inside one of the pool's own tasks: they have to end first.
    ///
    /// ```
    /// use semaforo::tasks::{Pool, Shutdown};
    /// use std::time::Duration;
    ///
    /// let pool = Pool::new();
    /// let work = pool.spawn(|| 42);
    /// if pool.shutdown(Shutdown::Drain).timeout(Duration::from_secs(10)).wait().is_err() {
    ///     pool.shutdown(Shutdown::Cancel).wait();
    /// }
    /// assert_eq!(work.wait().unwrap(), 42);
    /// ```
    #[doc(alias = "shutdownNow")]
    #[doc(alias = "awaitTermination")]
    pub fn shutdown(&self, how: Shutdown) -> Request<Leaving> {
        self.state().close(how == Shutdown::Cancel);
        Request::new(Leaving(Arc::clone(self.state())), ())
    }

    /// How many tasks may be begun and not finished at once. Not counted are those on threads of
    /// their own, those that wait, or have waited, for other tasks of this pool, and those of
    /// [spare threads](Builder::spares), if there are any.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.state().threads
    }

    /// How many levels there are.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.state().levels.count()
    }

    /// What is queued, the most urgent and then the oldest first; for people who debug. Workers
    /// have to wait while their queues are looked at.
    ///
    /// ```
    /// use semaforo::tasks::Pool;
    /// use semaforo::Event;
    /// use std::sync::Arc;
    ///
    /// let pool = Pool::builder().threads(1).build().unwrap();
    /// let go = Arc::new(Event::new());
    /// # let running = Arc::new(Event::new());
    /// let first = pool.spawn({
    ///     let go = Arc::clone(&go);
    /// #   let running = Arc::clone(&running);
    ///     move || {
    /// #       running.set();
    ///         while !go.is_set() {}
    ///     }
    /// });
    /// # running.happened().wait();
    /// let second = pool.at(3).spawn(|| ());
    ///
    /// let waiting = pool.scheduled();
    /// assert_eq!((waiting.len(), waiting[0].id, waiting[0].level), (1, second.id(), 3));
    /// go.set();
    /// # drop(first);
    /// ```
    #[doc(alias = "GetScheduledTasks")]
    #[must_use]
    pub fn scheduled(&self) -> Vec<Scheduled> {
        self.state().scheduled()
    }

    /// What the pool counts.
    ///
    /// ```
    /// use semaforo::tasks::Pool;
    ///
    /// let pool = Pool::new();
    /// pool.at(2).spawn(|| ()).wait().unwrap();
    /// let metrics = pool.metrics();
    /// assert_eq!((metrics.levels[2].picked, metrics.levels[2].queued), (1, 0));
    /// assert_eq!(metrics.levels[2].waits.count(), 1);
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.state().metrics()
    }

    /// The level of tasks that are started without saying one.
    #[must_use]
    pub fn normal(&self) -> u32 {
        self.state().normal
    }

    /// Whether tasks can be started, by this thread.
    pub(crate) fn is_open(&self) -> bool {
        self.state().refusal().is_none()
    }

    /// Whether something more urgent than this level waits in the queue of all.
    pub(crate) fn has_more_urgent_than(&self, level: u32) -> bool {
        self.state().levels.smallest().is_some_and(|smallest| smallest < level)
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for Pool {
    /// # Panics
    /// If the pool does not have the task's level.
    #[inline]
    fn enqueue(&self, runnable: Runnable) {
        let (head, levels) = (runnable.head(), self.levels());
        let (level, state) = (head.level, head.load());
        assert!(level < levels, "there is no level {level}: the pool has {levels}, counted from 0");
        self.state().enqueue_as(runnable.into_task(), state);
    }

    fn concurrency(&self) -> usize {
        self.threads()
    }

    fn scheduled(&self) -> Vec<Scheduled> {
        self.state().scheduled()
    }

    #[inline]
    fn normal_level(&self) -> u32 {
        self.state().normal
    }

    #[inline]
    fn on_pool(&self) -> Option<&Self> {
        Some(self)
    }

    #[inline]
    fn internals(&self) -> &dyn Internals {
        self
    }
}

impl Internals for Pool {
    fn level_count(&self) -> u32 {
        self.levels()
    }

    #[inline]
    fn refusal(&self) -> Option<u32> {
        self.state().refusal()
    }

    /// In strict mode nothing runs before its turn, not even what is waited for.
    #[inline]
    fn start_state(&self) -> u32 {
        match self.state().mode {
            Mode::Stealing => state::ON_THE_SPOT,
            Mode::Strict => 0,
        }
    }

    fn requeues_on(&self) -> Option<PoolId> {
        Some(self.state().id())
    }

    fn register(&self, task: Weak<dyn Run>) -> Option<u64> {
        Some(self.state().futures.add(task))
    }

    fn unregister(&self, number: u64) {
        self.state().unregister(number);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = self.metrics();
        let queued: usize = metrics.levels.iter().map(|level| level.queued).sum();
        f.debug_struct("Pool")
            .field("name", &self.state().name)
            .field("mode", &self.state().mode)
            .field("threads", &self.threads())
            .field("running", &metrics.running)
            .field("waiting", &metrics.waiting)
            .field("joining", &metrics.joining)
            .field("queued", &queued)
            .finish()
    }
}

/// The operation of waiting until a pool has ended.
pub struct Leaving(Arc<PoolState>);

impl Asking for Leaving {
    type Policy = Gate;
    type Granted = ();

    fn synchronizer(&self) -> &Synchronizer<Gate> {
        &self.0.ended
    }

    fn granted(self, (): ()) {}
}

impl fmt::Debug for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaving")
    }
}
