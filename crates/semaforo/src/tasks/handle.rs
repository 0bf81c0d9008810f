//! What is left in the hands of whoever started a task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::error::JoinError;
use super::head::{Head, state};
use super::joint::{Join, Joint};
use super::scheduler::Scheduler;
use super::spawner::Spawner;
use super::worker;
use crate::policy::Gate;
use crate::primitive::Ordering;
use crate::synchronizer::Passing;
use crate::wait::cancel::CancelToken;
use crate::wait::core::{Attempt, Core};
use crate::wait::limits::{Limited, WaitError};
use crate::wait::operation::{Operation, sealed};
use crate::wait::parker::Backoff;
use crate::wait::request::Request;

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
/// request that ends before the task; use [`finished`](Self::finished) to wait for a while and keep
/// the handle.
///
/// # Waiting inside a task
///
/// A worker of the same pool that waits for a task which nobody has begun runs it on the spot: it
/// needs the result anyway. It never runs anything else, so that nothing runs under the waiter's locks
/// that would not have to run before it goes on. If the task has begun elsewhere, the worker
/// sleeps, and a spare thread takes its place. (What is tied to the thread, such as a
/// [`ReentrantLock`](crate::ReentrantLock) that the waiter holds, is also the task's when it is run
/// on the spot.)
///
/// # Panics
/// When it is used again after it has yielded the outcome to somebody who awaited it by reference.
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
    pub fn wait(self) -> Result<T, JoinError> {
        self.joiner.wait()
    }

    /// Ends the wait after this time, counted from the first poll. The task goes on.
    pub fn timeout(self, limit: Duration) -> Request<Joining<T>, Limited> {
        self.join().timeout(limit)
    }

    /// Ends the wait at this instant. The task goes on.
    pub fn deadline(self, limit: Instant) -> Request<Joining<T>, Limited> {
        self.join().deadline(limit)
    }

    /// Ends the wait when this token is cancelled. The task goes on; to cancel that,
    /// [`cancel`](Self::cancel) it, or start it with a [token](Spawner::cancel_on).
    pub fn cancel_on(self, token: &CancelToken) -> Request<Joining<T>, Limited> {
        self.join().cancel_on(token)
    }

    fn join(self) -> Request<Joining<T>> {
        Request::new(Joining(self), ())
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
    pub fn finished(&self) -> Request<Passing<'_, Gate>> {
        self.joiner.joint().gate().pass(())
    }

    /// Cancels the task. If it has not begun, it never will; a future that is suspended is dropped, at
    /// once. If it is running, that goes on undisturbed, but its result is dropped: whoever joins
    /// learns at once that it was cancelled. False if it had finished already.
    ///
    /// # Panics
    /// If dropping what the task had captured panics, or a waker does.
    pub fn cancel(&self) -> bool {
        self.joiner.task().cancel(0)
    }

    /// Whether the task has finished, or was cancelled: joining it does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.joiner.head().is_finished()
    }

    /// The task's number, as [`scheduled`](super::Pool::scheduled) shows it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.joiner.head().id
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

/// The one who may take a task's outcome.
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
    pub(super) fn joint(&self) -> &Joint {
        self.task().joint()
    }

    #[inline]
    pub(super) fn head(&self) -> &Head {
        &self.joint().head
    }

    pub(super) fn wait(mut self) -> Result<T, JoinError> {
        if !self.head().is_finished() {
            self.wait_for_it();
        }
        self.take()
    }

    fn wait_for_it(&self) {
        if worker::is_of(self.joint().pool) && self.head().load() & state::STARTED == 0 {
            worker::run_queued_here(Arc::clone(self.task()).as_run());
        }
        let mut backoff = Backoff::new();
        while !self.head().is_finished() {
            if backoff.is_spent() {
                return self.joint().gate().pass(()).wait();
            }
            backoff.wait();
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        if !self.head().is_finished() && self.joint().leave_waker(context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(self.take())
    }

    /// Takes the outcome of a task that has finished.
    fn take(&mut self) -> Result<T, JoinError> {
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
            task.joint().take_waker_back();
        }
    }
}

/// The operation of joining a task, for bounded requests.
pub struct Joining<T>(Handle<T>);

impl<T> sealed::Operation for Joining<T> {
    type Line = Core<Gate>;
    type Beside = ();

    fn attempt(&self, (): &mut ()) -> Attempt {
        if self.0.is_finished() { Attempt::Granted } else { Attempt::Unknown }
    }

    fn line(&self) -> &Core<Gate> {
        self.0.joiner.joint().gate().core()
    }
}

impl<T> Operation for Joining<T> {
    type Output = Result<T, JoinError>;
    type Bounded = Result<T, WaitError<JoinError>>;

    fn output(
        mut self,
        (): (),
        (): (),
        _: Result<(), std::convert::Infallible>,
    ) -> Result<T, JoinError> {
        self.0.joiner.take()
    }

    fn bounded(mut self, (): (), (): (), outcome: Result<(), WaitError>) -> Self::Bounded {
        match outcome {
            Ok(()) => self.0.joiner.take().map_err(WaitError::Refused),
            Err(WaitError::Cancelled) => Err(WaitError::Cancelled),
            Err(WaitError::TimedOut) => Err(WaitError::TimedOut),
        }
    }
}

impl<T> fmt::Debug for Joining<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joining").field(&self.0).finish()
    }
}
