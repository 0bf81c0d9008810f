//! The spawner: how, and by which scheduler, tasks are started.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::call::Call;
use super::detached::Detached;
use super::future::Polled;
use super::handle::Handle;
use super::head::{Label, Run, Start, state};
use super::scheduler::internals;
use super::scheduler::{Runnable, Scheduler};
use super::scope::ScopeId;
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

    /// Starts a task that calls `work`, and gives up all hope of hearing from it: there is no
    /// handle. If it panics, the panic hook says so, and nothing else does.
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
        let internals = scheduler.internals();
        let pool = internals.runs_on().or_else(|| Some(scheduler.on_pool()?.state().id()));
        let (level, state) = (scheduler.normal_level(), internals.start_state());
        Self { scheduler, start: Start { level, pool, state, ..Start::default() } }
    }

    /// At this level; smaller ones come first.
    #[inline]
    pub fn at(mut self, level: u32) -> Self {
        self.start.level = level;
        self
    }

    /// In the queue of all workers, behind the tasks that came before, even if a worker starts it.
    #[inline]
    pub fn fair(mut self) -> Self {
        self.start.state |= state::FAIR;
        self
    }

    /// On a thread of its own, if the scheduler has threads.
    #[inline]
    pub fn long_running(mut self) -> Self {
        self.start.state |= state::LONG_RUNNING;
        self.start.state &= !state::ON_THE_SPOT;
        self
    }

    /// Until this token fires: when [`cancel`](crate::CancelSource::cancel) returns, the task has
    /// been cancelled, as by [`Handle::cancel`], if it has not finished. If it had not begun it
    /// never does, and what it had captured has been dropped; so has a future that was suspended,
    /// and whatever it waited for goes to others. If it is running, that goes on undisturbed (it
    /// can ask the token), but its result is dropped. Joining it is answered in each case.
    ///
    /// With several tokens, the first that fires counts; `None` is no token.
    ///
    /// ```
    /// use semaforo::CancelSource;
    /// use semaforo::tasks::{JoinError, Pool, Spawn};
    ///
    /// let (pool, stop) = (Pool::new(), CancelSource::new());
    /// let never = pool.start().cancel_on(&stop.token()).spawn_future(std::future::pending::<()>());
    /// stop.cancel();
    /// assert!(never.is_finished());
    /// assert!(matches!(never.wait(), Err(JoinError::Cancelled)));
    /// ```
    #[doc(alias = "CancellationToken")]
    #[inline]
    pub fn cancel_on<'t>(mut self, token: impl Into<Option<&'t CancelToken>>) -> Self {
        let Some(token) = token.into() else { return self };
        self.start.token = Some(match self.start.token.take() {
            None => token.clone(),
            Some(other) => CancelToken::any([&other, token]),
        });
        self
    }

    /// With this name, which [`scheduled`](Scheduler::scheduled) shows.
    ///
    /// ```
    /// use semaforo::tasks::{CurrentThread, Scheduler, Spawn};
    ///
    /// let here = CurrentThread::new();
    /// let report = here.at(7).label("monthly report").spawn(|| ());
    /// assert_eq!(here.scheduled()[0].label.as_deref(), Some("monthly report"));
    /// # here.run_until(report).unwrap();
    /// ```
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.start.label = Some(Label::new(label.into()));
        self
    }

    pub(crate) fn how(&self) -> &Start {
        &self.start
    }

    pub(crate) fn in_scope(mut self, scope: ScopeId) -> Self {
        self.start.scope = Some(scope);
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
            None => Handle::new(self.started(Call::new(&self.start, 0, work, ()))),
            Some(token) => {
                // SAFETY: the work borrows nothing.
                let task = unsafe { Call::with_token(&self.start, token, 0, work, ()) };
                self.enqueue_unless_cancelled(&task);
                Handle::new(task)
            }
        }
    }

    /// Starts a task that calls `work`, without a handle.
    #[inline]
    pub fn execute(&self, work: impl FnOnce() + Send + 'static) {
        match &self.start.token {
            None if self.start.label.is_none() => {
                // The thread that takes it from the queue is its only owner.
                self.enqueue(Arc::new(Detached::new(&self.start, work, ())));
            }
            None => drop(self.started(Call::new(&self.start, state::DETACHED, work, ()))),
            Some(token) => {
                let state = state::DETACHED;
                // SAFETY: the work borrows nothing.
                let task = unsafe { Call::with_token(&self.start, token, state, work, ()) };
                self.enqueue_unless_cancelled(&task);
            }
        }
    }

    /// Starts a task that polls `future` whenever it is woken.
    pub fn spawn_future<F>(&self, future: F) -> Handle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        S: Clone + 'static,
    {
        Handle::new(self.start_future(future))
    }

    pub(crate) fn start_future<F>(&self, future: F) -> Arc<Polled<F, S>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        S: Clone + 'static,
    {
        let task = Polled::new(&self.start, 0, future, internals::kept_by_a_task(self.scheduler));
        self.enqueue_unless_cancelled(&task);
        task
    }

    #[inline]
    fn started<R: Run + 'static>(&self, task: R) -> Arc<R> {
        let task = Arc::new(task);
        self.enqueue(Arc::clone(&task) as Arc<dyn Run>);
        task
    }

    /// Enqueues a task whose token may have fired already.
    fn enqueue_unless_cancelled<R: Run + 'static>(&self, task: &Arc<R>) {
        if !task.head().is_finished() {
            self.enqueue(Arc::clone(task) as Arc<dyn Run>);
        }
    }

    /// Starts a task that calls `work`, even if the scheduler takes no new ones: for what is part
    /// of another task.
    pub(crate) fn execute_regardless(&self, work: impl FnOnce() + Send + 'static) {
        self.scheduler.enqueue(Runnable::new(Arc::new(Detached::new(&self.start, work, ()))));
    }

    #[inline]
    pub(crate) fn enqueue(&self, task: Arc<dyn Run>) {
        match self.scheduler.internals().refusal() {
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
