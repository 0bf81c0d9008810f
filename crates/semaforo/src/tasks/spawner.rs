//! How a task is started.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::call::{Call, Heeding, Work};
use super::detached::{Detached, Last};
use super::future::Polled;
use super::handle::Handle;
use super::head::{Run, Start, state};
use super::joint::Join;
use super::scheduler::{Runnable, Scheduler};
use crate::wait::cancel::CancelToken;

/// Starts tasks on any [`Scheduler`].
pub trait Spawn: Scheduler + Sized {
    /// Starts a task that calls `work`.
    ///
    /// ```
    /// use semaforo::tasks::{Pool, Spawn};
    ///
    /// let pool = Pool::new();
    /// let answer = pool.spawn(|| 6 * 7);
    /// assert_eq!(answer.wait().unwrap(), 42);
    /// ```
    #[inline]
    fn spawn<T, F>(&self, work: F) -> Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.start().spawn(work)
    }

    /// Starts a task that calls `work`, and gives up all hope of hearing from it: there is no handle.
    /// If it panics, the panic hook says so, and nobody else.
    #[inline]
    fn execute(&self, work: impl FnOnce() + Send + 'static) {
        self.start().execute(work);
    }

    /// Starts a task that polls `future` whenever it is woken.
    ///
    /// ```
    /// use semaforo::tasks::{Pool, Spawn};
    ///
    /// let pool = Pool::new();
    /// let answer = pool.spawn_future(async { 6 * 7 });
    /// assert_eq!(answer.wait().unwrap(), 42);
    /// ```
    #[inline]
    fn spawn_future<F>(&self, future: F) -> Handle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        Self: Clone + 'static,
    {
        self.start().spawn_future(future)
    }

    /// How a task is to be started: see [`Spawner`].
    #[inline]
    fn start(&self) -> Spawner<'_, Self> {
        Spawner::on(self)
    }

    /// Starts tasks at this level; smaller ones come first.
    ///
    /// ```
    /// use semaforo::tasks::{Pool, Spawn};
    ///
    /// let pool = Pool::new();
    /// pool.at(9).execute(|| println!("when there is nothing better to do"));
    /// ```
    #[inline]
    fn at(&self, level: u32) -> Spawner<'_, Self> {
        self.start().at(level)
    }
}

impl<S: Scheduler> Spawn for S {}

/// How, and by which scheduler, tasks are to be started.
///
/// ```
/// use semaforo::tasks::{Pool, Spawn};
/// use semaforo::CancelSource;
///
/// let pool = Pool::new();
/// let stop = CancelSource::new();
/// let urgent = pool.at(0).fair().cancel_on(&stop.token()).spawn(|| "first");
/// assert_eq!(urgent.wait().unwrap(), "first");
/// ```
#[derive(Clone)]
#[must_use = "this starts nothing by itself"]
pub struct Spawner<'s, S> {
    scheduler: &'s S,
    start: Start,
}

impl<'s, S: Scheduler> Spawner<'s, S> {
    /// Starts tasks by this scheduler, as it does normally.
    #[inline]
    pub fn on(scheduler: &'s S) -> Self {
        let (level, pool) = (scheduler.normal_level(), scheduler.pool());
        Self { scheduler, start: Start { level, pool, ..Start::default() } }
    }

    /// At this level; smaller ones come first.
    #[inline]
    pub fn at(mut self, level: u32) -> Self {
        self.start.level = level;
        self
    }

    /// In the queue of all workers, behind those who came before, even if a worker starts it.
    #[inline]
    pub fn fair(mut self) -> Self {
        self.start.state |= state::FAIR;
        self
    }

    /// On a thread of its own, if the scheduler has threads.
    #[inline]
    pub fn long_running(mut self) -> Self {
        self.start.state |= state::LONG_RUNNING;
        // Nor on the thread of whoever waits for it.
        self.start.pool = 0;
        self
    }

    /// Not at all, if this token has fired when the task's turn comes. A future is not polled any more
    /// either.
    #[inline]
    pub fn cancel_on(mut self, token: &CancelToken) -> Self {
        self.start.token = Some(match self.start.token.take() {
            None => token.clone(),
            Some(other) => CancelToken::any([&other, token]),
        });
        self
    }

    pub(crate) fn how(&self) -> &Start {
        &self.start
    }

    pub(crate) fn in_group(mut self, group: usize) -> Self {
        self.start.group = group;
        self
    }

    /// Starts a task that calls `work`.
    #[inline]
    pub fn spawn<T, F>(&self, work: F) -> Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match &self.start.token {
            None => self.spawn_work(work, ()),
            Some(token) => self.spawn_work(Heeding { token: token.clone(), work }, ()),
        }
    }

    /// Starts a task that calls `work`, without a handle.
    #[inline]
    pub fn execute(&self, work: impl FnOnce() + Send + 'static) {
        match &self.start.token {
            None => self.execute_work(work, ()),
            Some(token) => self.execute_work(Heeding { token: token.clone(), work }, ()),
        }
    }

    /// Starts a task that polls `future` whenever it is woken.
    pub fn spawn_future<F>(&self, future: F) -> Handle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        S: Clone + 'static,
    {
        let task = Polled::new(&self.start, 0, future, self.scheduler.kept_by_a_task());
        self.enqueue(Arc::clone(&task) as Arc<dyn Run>);
        Handle::new(task)
    }

    #[inline]
    pub(crate) fn spawn_work<W, X>(&self, work: W, last: X) -> Handle<W::Output>
    where
        W: Work + Send + 'static,
        W::Output: Send + 'static,
        X: Send + 'static,
    {
        let task = Arc::new(Call::new(&self.start, 0, work, last));
        self.enqueue(Arc::clone(&task) as Arc<dyn Run>);
        Handle::new(task as Arc<dyn Join<W::Output>>)
    }

    #[inline]
    pub(crate) fn execute_work<W, X>(&self, work: W, last: X)
    where
        W: Work<Output = ()> + Send + 'static,
        X: Last + Send + 'static,
    {
        self.enqueue(Arc::new(Detached::new(&self.start, work, last)));
    }

    /// Starts a task that calls `work`, even if the scheduler takes no new ones: for what is part of
    /// another task.
    pub(crate) fn execute_regardless(&self, work: impl FnOnce() + Send + 'static) {
        self.scheduler.enqueue(Runnable::new(Arc::new(Detached::new(&self.start, work, ()))));
    }

    #[inline]
    pub(crate) fn enqueue(&self, task: Arc<dyn Run>) {
        match self.scheduler.refusal() {
            None => self.scheduler.enqueue(Runnable::new(task)),
            Some(how) => drop(task.cancel(how)),
        }
    }
}

impl<'s, S: Scheduler> From<&'s S> for Spawner<'s, S> {
    fn from(scheduler: &'s S) -> Self {
        Self::on(scheduler)
    }
}

impl<S> fmt::Debug for Spawner<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner")
            .field("level", &self.start.level)
            .field("fair", &(self.start.state & state::FAIR != 0))
            .field("long_running", &(self.start.state & state::LONG_RUNNING != 0))
            .finish_non_exhaustive()
    }
}
