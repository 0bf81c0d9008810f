//! The handle of a task: joining it, waiting for it, cancelling it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::abort::AbortHandle;
use super::error::JoinError;
use super::head::{Head, Run, state};
use super::join_state::{Join, JoinState};
use super::pool_state::PoolId;
use super::scheduler::Scheduler;
use super::spawner::Spawner;
use super::worker::{self, cancel_here};
use crate::policy::Gate;
use crate::primitive::Ordering;
use crate::wait::cancel::CancelToken;
use crate::wait::contended::Attempt;
use crate::wait::limits::{Limited, WaitError};
use crate::wait::operation::{Operation, sealed};
use crate::wait::parker::Backoff;
use crate::wait::request::Request;
use crate::wait::word::WordObject;

/// The methods of handles that do not depend on what a handle has beside its `joiner`.
macro_rules! handle_methods {
    () => {
        /// Ends the wait after this time, if there is one, counted from the first poll. The task goes
        /// on.
        ///
        /// It takes the handle, as [`deadline`](Self::deadline) and [`cancel_on`](Self::cancel_on) do:
        /// when the wait has ended first, the outcome is lost. [`by_ref`](Self::by_ref)`().timeout(..)`
        /// keeps it.
        pub fn timeout(
            self,
            limit: impl Into<Option<Duration>>,
        ) -> Request<Joining<Self>, Limited> {
            Joining::request(self).timeout(limit)
        }

        /// Ends the wait at this instant, if there is one. The task goes on; [`by_ref`](Self::by_ref)
        /// keeps the handle, which this takes.
        pub fn deadline(
            self,
            limit: impl Into<Option<Instant>>,
        ) -> Request<Joining<Self>, Limited> {
            Joining::request(self).deadline(limit)
        }

        /// Ends the wait when this token, if there is one, is cancelled. The task goes on; to cancel
        /// that, [`cancel`](Self::cancel) it, or start it with a [token](Spawner::cancel_on).
        /// [`by_ref`](Self::by_ref) keeps the handle, which this takes.
        pub fn cancel_on<'t>(
            self,
            token: impl Into<Option<&'t CancelToken>>,
        ) -> Request<Joining<Self>, Limited> {
            Joining::request(self).cancel_on(token)
        }

        /// Joins the task, and keeps the handle: after a time limit or a token has ended the wait, the
        /// handle can be waited on again.
        ///
        /// ```
        /// use semaforo::{WaitError, tasks::{Pool, sleep}};
        /// use std::time::Duration;
        ///
        /// let mut tea = Pool::global().spawn_future(async {
        ///     sleep(Duration::from_millis(20)).await;
        ///     "tea"
        /// });
        /// let tea = loop {
        ///     match tea.by_ref().timeout(Duration::from_millis(1)).wait() {
        ///         Err(WaitError::TimedOut) => println!("not yet"),
        ///         outcome => break outcome.unwrap(),
        ///     }
        /// };
        /// assert_eq!(tea, "tea");
        /// ```
        ///
        /// # Panics
        /// If the outcome was taken by reference before.
        pub fn by_ref(&mut self) -> Request<Joining<&mut Self>> {
            Joining::request(self)
        }

        /// Waits until the task has finished, without taking the result.
        ///
        /// ```
        /// use semaforo::tasks::Pool;
        /// use std::time::Duration;
        ///
        /// let answer = Pool::global().spawn(|| 42);
        /// while answer.finished().timeout(Duration::from_millis(100)).wait().is_err() {
        ///     println!("not yet");
        /// }
        /// assert_eq!(answer.wait().unwrap(), 42);
        /// ```
        pub fn finished(&self) -> Request<Finishing<'_>> {
            self.joiner.finished()
        }

        /// Cancels the task. If it has not begun, it never will; a future that is suspended is dropped,
        /// at once. If it is running, that goes on undisturbed, but its result is dropped: joining it
        /// says at once that it was cancelled. False if it had finished already.
        ///
        /// # Panics
        /// If dropping what the task had captured panics, or a waker does.
        #[doc(alias = "Future.cancel")]
        pub fn cancel(&self) -> bool {
            cancel_here(&**self.joiner.task())
        }

        /// Whether the task has finished, or was cancelled: joining it does not wait.
        #[doc(alias = "IsCompleted")]
        #[doc(alias = "isDone")]
        #[must_use]
        pub fn is_finished(&self) -> bool {
            self.joiner.head().is_finished()
        }

        /// The task's number, as [`scheduled`](super::Pool::scheduled) shows it.
        #[must_use]
        pub fn id(&self) -> u64 {
            self.joiner.head().id
        }
    };
}
pub(super) use handle_methods;

/// A task that was started, and its result.
///
/// It is a request like any other: await it, or [`wait`](Self::wait) for it, bounded in time and
/// cancellable. (It is also `Unpin`, so `select!` takes `&mut handle` as it is.)
///
/// ```
/// use semaforo::tasks::Pool;
/// use std::time::Duration;
///
/// let pool = Pool::new();
/// let sum = pool.spawn(|| (1..=10).sum::<u32>());
/// let double = sum.then(&pool, |sum| 2 * sum.unwrap());
/// assert_eq!(double.timeout(Duration::from_secs(10)).wait().unwrap(), 110);
/// ```
///
/// Dropping a handle detaches the task: it goes on, and its result is dropped. So does a bounded
/// request that ends before the task; use [`by_ref`](Self::by_ref) to wait for a while and keep the
/// handle.
///
/// # Waiting inside a task
///
/// A worker of the same pool that waits for a task that has not begun runs it on the spot: it needs
/// the result anyway. It never runs anything else, so that nothing runs under the waiter's locks
/// that would not have to run before it goes on. If the task has begun elsewhere, the worker
/// sleeps, and [another thread](super::Builder::stand_ins) takes its place. (What is tied to the
/// thread, such as a [`ReentrantLock`](crate::ReentrantLock) that the waiter holds, is also the
/// task's when it is run on the spot.)
///
/// # Panics
/// When it is used again after it has yielded the outcome to a future that awaited it by reference.
#[doc(alias = "Task")]
#[doc(alias = "CompletableFuture")]
#[doc(alias = "FutureTask")]
#[doc(alias = "JoinHandle")]
#[must_use = "dropping a handle detaches the task; `execute` starts one without a handle"]
pub struct Handle<T> {
    joiner: Joiner<'static, T>,
}

impl<T> Handle<T> {
    #[inline]
    pub(crate) fn new(task: Arc<dyn Join<T>>) -> Self {
        Self { joiner: Joiner::new(task) }
    }

    /// Blocks this thread until the task has finished.
    ///
    /// # Errors
    /// If the task panicked, was cancelled, or was refused by a pool that is shut down.
    #[doc(alias = "Task.Wait")]
    #[doc(alias = "Task.Result")]
    #[doc(alias = "Future.get")]
    #[doc(alias = "TryExecuteTaskInline")]
    pub fn wait(self) -> Result<T, JoinError> {
        self.joiner.wait()
    }

    handle_methods!();

    /// A handle that cancels the task, and can be cloned and sent elsewhere while this one joins
    /// it.
    ///
    /// ```
    /// use semaforo::tasks::{JoinError, Pool};
    ///
    /// let endless = Pool::global().spawn_future(std::future::pending::<()>());
    /// let abort = endless.abort_handle();
    /// std::thread::spawn(move || abort.cancel());
    /// assert!(matches!(endless.wait(), Err(JoinError::Cancelled)));
    /// ```
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle
    where
        T: 'static,
    {
        let task: Arc<dyn Run> = Arc::clone(self.joiner.task()).as_run();
        AbortHandle::new(Arc::downgrade(&task), self.id())
    }

    /// The pool whose threads run the task, if that is known.
    pub(super) fn pool(&self) -> Option<PoolId> {
        self.joiner.join_state().pool
    }

    /// Starts `next` with the outcome as soon as that is there, by this scheduler or [`Spawner`].
    ///
    /// ```
    /// use semaforo::tasks::{Pool, Spawn};
    ///
    /// let pool = Pool::new();
    /// let length = pool.spawn(|| "tea".repeat(3)).then(pool.at(2), |tea| tea.unwrap().len());
    /// assert_eq!(length.wait().unwrap(), 9);
    /// ```
    #[doc(alias = "ContinueWith")]
    #[doc(alias = "thenApply")]
    #[doc(alias = "thenApplyAsync")]
    #[doc(alias = "handleAsync")]
    pub fn then<'s, U, S>(
        self,
        by: impl Into<Spawner<'s, S>>,
        next: impl FnOnce(Result<T, JoinError>) -> U + Send + 'static,
    ) -> Handle<U>
    where
        T: Send + 'static,
        U: Send + 'static,
        S: Scheduler + Clone + 'static,
    {
        by.into().spawn_future(async move { next(self.await) })
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.joiner.poll(context)
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.joiner.debug("Handle", f)
    }
}

/// The right to take a task's outcome, for a handle.
pub(super) struct Joiner<'t, T> {
    /// Gone once the outcome has been taken.
    task: Option<Arc<dyn Join<T> + 't>>,
}

impl<'t, T> Joiner<'t, T> {
    #[inline]
    pub(super) fn new(task: Arc<dyn Join<T> + 't>) -> Self {
        Self { task: Some(task) }
    }

    #[inline]
    pub(super) fn task(&self) -> &Arc<dyn Join<T> + 't> {
        self.task.as_ref().expect("a handle was used after it had yielded the outcome")
    }

    #[inline]
    pub(super) fn join_state(&self) -> &JoinState {
        self.task().join_state()
    }

    #[inline]
    pub(super) fn head(&self) -> &Head {
        &self.join_state().head
    }

    pub(super) fn finished(&self) -> Request<Finishing<'_>> {
        Request::new(Finishing(self.join_state()), ())
    }

    pub(super) fn wait(mut self) -> Result<T, JoinError> {
        if !self.head().is_finished() {
            self.wait_until_finished();
        }
        self.take()
    }

    fn wait_until_finished(&self) {
        let standing = self.head().load() & (state::ON_THE_SPOT | state::STARTED);
        if standing == state::ON_THE_SPOT && self.join_state().pool.is_some_and(worker::is_of) {
            worker::run_queued_here(Arc::clone(self.task()).as_run());
        }
        let mut backoff = Backoff::new();
        while !self.head().is_finished() {
            if backoff.is_spent() {
                return self.finished().wait();
            }
            backoff.wait();
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        if !self.head().is_finished() && self.join_state().leave_waker(context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(self.take())
    }

    /// Takes the outcome of a task that has finished.
    pub(super) fn take(&mut self) -> Result<T, JoinError> {
        let task = self.task.take().expect("the outcome is taken once");
        // SAFETY: finished, and never taken again.
        unsafe { task.take() }
    }

    pub(super) fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(task) = &self.task else { return f.debug_tuple(name).field(&"joined").finish() };
        let state = task.head().load();
        let standing = match state {
            _ if state & state::CANCELLED != 0 => "cancelled",
            _ if state & state::DONE != 0 => "done",
            _ if state & state::STARTED != 0 => "running",
            _ if state & (state::SCHEDULED | state::POLLED) == state::POLLED => "suspended",
            _ => "queued",
        };
        f.debug_struct(name).field("id", &task.head().id).field("state", &standing).finish()
    }
}

impl<T> Drop for Joiner<'_, T> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let before = task.head().state.fetch_or(state::DETACHED, Ordering::AcqRel);
        if before & (state::DONE | state::CANCELLED) == state::DONE {
            // SAFETY: done, and this is the last of the handle.
            drop(unsafe { task.take() });
        } else if before & state::JOINER != 0 {
            task.join_state().take_waker_back();
        }
    }
}

/// The operation of waiting until a task has finished.
pub struct Finishing<'h>(&'h JoinState);

impl sealed::Operation for Finishing<'_> {
    type Queue = WordObject<Gate>;
    type Extra = ();

    fn attempt(&self, (): &mut ()) -> Attempt {
        if self.0.head.is_finished() { Attempt::Granted } else { Attempt::Unknown }
    }

    fn queue(&self) -> &WordObject<Gate> {
        self.0.gate().core()
    }

    fn thread_waits(&self, begins: bool) {
        worker::wait_for_task_of(self.0.pool, &self.0.head, begins);
    }
}

impl Operation for Finishing<'_> {
    type Output = ();
    type Bounded = Result<(), WaitError>;

    fn output(self, (): (), (): (), _: Result<(), std::convert::Infallible>) {}

    fn bounded(self, (): (), (): (), outcome: Result<(), WaitError>) -> Result<(), WaitError> {
        outcome
    }
}

impl fmt::Debug for Finishing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Finishing").field(&self.0.head.id).finish()
    }
}

/// The operation of joining a task: by its handle, or by a reference to that.
///
/// The outcome's type is known through the handle alone: were it named beside that, the two would
/// have to agree in their lifetimes, and a task that waits for this could not be shown to be `Send`
/// if the outcome has a lifetime in it.
pub struct Joining<H>(H);

pub(super) mod by {
    use super::{JoinError, JoinState};

    /// A handle, or a reference to one.
    pub trait Joins {
        type Outcome;

        fn join_state(&self) -> &JoinState;

        /// Takes the outcome of a task that has finished.
        fn take(&mut self) -> Result<Self::Outcome, JoinError>;
    }

    impl<H: Joins> Joins for &mut H {
        type Outcome = H::Outcome;

        fn join_state(&self) -> &JoinState {
            (**self).join_state()
        }

        fn take(&mut self) -> Result<H::Outcome, JoinError> {
            (**self).take()
        }
    }
}

impl<T> by::Joins for Handle<T> {
    type Outcome = T;

    fn join_state(&self) -> &JoinState {
        self.joiner.join_state()
    }

    fn take(&mut self) -> Result<T, JoinError> {
        self.joiner.take()
    }
}

impl<H: by::Joins> Joining<H> {
    pub(super) fn request(handle: H) -> Request<Self> {
        Request::new(Self(handle), ())
    }
}

impl<H: by::Joins> sealed::Operation for Joining<H> {
    type Queue = WordObject<Gate>;
    type Extra = ();

    fn attempt(&self, (): &mut ()) -> Attempt {
        if self.0.join_state().head.is_finished() { Attempt::Granted } else { Attempt::Unknown }
    }

    fn queue(&self) -> &WordObject<Gate> {
        self.0.join_state().gate().core()
    }

    fn thread_waits(&self, begins: bool) {
        let join = self.0.join_state();
        worker::wait_for_task_of(join.pool, &join.head, begins);
    }
}

impl<H: by::Joins> Operation for Joining<H> {
    type Output = Result<H::Outcome, JoinError>;
    type Bounded = Result<H::Outcome, WaitError<JoinError>>;

    fn output(
        mut self,
        (): (),
        (): (),
        _: Result<(), std::convert::Infallible>,
    ) -> Result<H::Outcome, JoinError> {
        self.0.take()
    }

    fn bounded(mut self, (): (), (): (), outcome: Result<(), WaitError>) -> Self::Bounded {
        match outcome {
            Ok(()) => self.0.take().map_err(WaitError::Refused),
            Err(WaitError::Cancelled) => Err(WaitError::Cancelled),
            Err(WaitError::TimedOut) => Err(WaitError::TimedOut),
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Joining<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joining").field(&self.0).finish()
    }
}
