//! Starting tasks of a scope, and their handles.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::call::Call;
use super::error::{JoinError, Panic};
use super::future::Polled;
use super::handle::by::Joins;
use super::handle::{Finishing, Joiner, Joining, handle_methods};
use super::head::{Head, Run, caught, state};
use super::join_state::{Join, JoinState};
use super::pool::Pool;
use super::scope::{PendingGuard, PendingTasks, Scope, outlive};
use super::spawner::Spawner;
use super::worker::cancel_here;
use crate::primitive::{AtomicU64, Ordering};
use crate::wait::cancel::CancelToken;
use crate::wait::limits::Limited;
use crate::wait::request::Request;

/// How tasks of a [`Scope`] are to be started.
///
/// ```
/// use semaforo::CancelSource;
/// use semaforo::tasks::{JoinError, Pool};
///
/// let (stop, words) = (CancelSource::new(), ["to", "be"]);
/// stop.cancel();
/// Pool::global().scope(|scope| {
///     let urgent = scope.at(0).label("the first word").spawn(|| words[0].len());
///     let never = scope.start().cancel_on(&stop.token()).spawn(|| words[1].len());
///     assert_eq!(urgent.wait().unwrap(), 2);
///     assert!(matches!(never.wait(), Err(JoinError::Cancelled)));
/// });
/// ```
#[derive(Clone, Debug)]
#[must_use = "this starts nothing by itself"]
pub struct ScopedSpawner<'scope, 'env: 'scope> {
    pub(super) scope: &'scope Scope<'scope, 'env>,
    pub(super) spawner: Spawner<'env, Pool>,
}

impl<'scope> ScopedSpawner<'scope, '_> {
    /// At this level; smaller ones come first.
    ///
    /// # Panics
    /// If the pool has no such level.
    pub fn at(mut self, level: u32) -> Self {
        self.scope.expect_level(level);
        self.spawner = self.spawner.at(level);
        self
    }

    /// In the queue of all workers, as [`Spawner::fair`].
    pub fn fair(mut self) -> Self {
        self.spawner = self.spawner.fair();
        self
    }

    /// Until this token, if there is one, fires, as [`Spawner::cancel_on`]. The end of the scope
    /// waits for a task that was cancelled while it runs all the same.
    pub fn cancel_on<'t>(mut self, token: impl Into<Option<&'t CancelToken>>) -> Self {
        self.spawner = self.spawner.cancel_on(token);
        self
    }

    /// With this name, which [`scheduled`](Pool::scheduled) shows.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.spawner = self.spawner.label(label);
        self
    }

    /// Starts a task that calls `work`.
    pub fn spawn<T, F>(&self, work: F) -> ScopedHandle<'scope, T>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        let unreported = &self.scope.pending.unreported;
        let work = move || {
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
                unreported.fetch_add(1, Ordering::Relaxed);
                resume_unwind(panic)
            })
        };
        let (how, guard) = (self.spawner.how(), self.scope.pending_guard());
        let task: Arc<dyn Join<T> + 'scope> = match &how.token {
            None => Arc::new(Call::new(how, 0, work, guard)),
            // SAFETY: the task's own count keeps the scope until all of the work is gone.
            Some(token) => unsafe { Call::with_token(how, token, 0, work, guard) },
        };
        self.enqueue(Arc::clone(&task).as_run());
        ScopedHandle { joiner: Joiner::new(task), unreported }
    }

    /// Starts a task that calls `work`, without a handle.
    pub fn execute(&self, work: impl FnOnce() + Send + 'scope) {
        let pending: &'scope PendingTasks = &self.scope.pending;
        let work = move || {
            if let Some(panic) = caught(work) {
                pending.keep_panic(Panic::new(panic));
            }
        };
        let (how, guard, state) = (self.spawner.how(), self.scope.pending_guard(), state::DETACHED);
        match &how.token {
            None => self.enqueue(Arc::new(Call::new(how, state, work, guard))),
            Some(token) => {
                // SAFETY: the task's own count keeps the scope until all of the work is gone.
                self.enqueue(unsafe { Call::with_token(how, token, state, work, guard) });
            }
        }
    }

    /// Starts a task that polls `future` whenever it is woken.
    pub fn spawn_future<F>(&self, future: F) -> ScopedHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        let (unreported, output) = (&self.scope.pending.unreported, Arc::default());
        let work = ScopedWork {
            future,
            output: Arc::clone(&output),
            unreported,
            _guard: self.scope.pending_guard(),
        };
        let work: Borrowing<'scope> = Box::pin(work);
        // SAFETY: only the lifetime changes. The future is dropped when it is ready or cancelled;
        // what it has borrowed is gone before its guard, which the owner of the scope waits for.
        let work = unsafe { std::mem::transmute::<Borrowing<'scope>, Borrowing<'static>>(work) };
        let task = Arc::new(ScopedFuture { task: self.spawner.start_future(work), output });
        ScopedHandle { joiner: Joiner::new(task), unreported }
    }

    fn enqueue(&self, task: Arc<dyn Run + 'scope>) {
        if !task.head().is_finished() {
            // SAFETY: the task's own count keeps the scope until all of the work is gone.
            self.spawner.enqueue(unsafe { outlive(task) });
        }
    }
}

/// A future of a scope, whatever its type.
type Borrowing<'scope> = Pin<Box<dyn Future<Output = ()> + Send + 'scope>>;

/// Where the output of a future goes that may borrow.
type Output<T> = Arc<Mutex<Option<T>>>;

/// A future of a scope. What it holds is dropped in this order.
struct ScopedWork<'scope, F: Future> {
    future: F,
    output: Output<F::Output>,
    unreported: &'scope AtomicU64,
    _guard: PendingGuard,
}

impl<F: Future> Future for ScopedWork<'_, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future stays where it is; nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => {
                *this.output.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
                Poll::Ready(())
            }
            Err(panic) => {
                this.unreported.fetch_add(1, Ordering::Relaxed);
                resume_unwind(panic)
            }
        }
    }
}

/// A task that is a future of a scope.
struct ScopedFuture<T> {
    task: Arc<Polled<Borrowing<'static>, Pool>>,
    output: Output<T>,
}

impl<T: Send> Run for ScopedFuture<T> {
    fn head(&self) -> &Head {
        self.task.head()
    }

    fn label(&self) -> Option<&str> {
        self.task.label()
    }

    fn run(self: Arc<Self>) {
        Arc::clone(&self.task).run();
    }

    fn cancel(&self, how: u32) -> bool {
        self.task.cancel(how)
    }
}

impl<T: Send> Join<T> for ScopedFuture<T> {
    fn join_state(&self) -> &JoinState {
        self.task.join_state()
    }

    unsafe fn take(&self) -> Result<T, JoinError> {
        // SAFETY: passed on from the caller.
        unsafe { self.task.take() }?;
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(output.expect("a future that was ready has left its output"))
    }

    fn as_run<'t>(self: Arc<Self>) -> Arc<dyn Run + 't>
    where
        Self: 't,
    {
        self
    }
}

/// A task of a [`Scope`], and its result. Dropping it detaches the task, and so does a bounded wait that
/// ends first; the scope still waits.
///
/// A future of the scope awaits it, and leaves its thread meanwhile:
///
/// ```
/// use semaforo::tasks::Pool;
///
/// let words = ["to", "be"];
/// let total = Pool::global().scope(|scope| {
///     let [to, be] = words.each_ref().map(|word| scope.spawn(|| word.len()));
///     let sum = scope.spawn_future(async { to.await.unwrap() + be.await.unwrap() });
///     sum.wait().unwrap()
/// });
/// assert_eq!(total, 4);
/// ```
///
/// # Panics
/// When it is used again after it has yielded the outcome to a future that awaited it by reference.
pub struct ScopedHandle<'scope, T> {
    joiner: Joiner<'scope, T>,
    unreported: &'scope AtomicU64,
}

impl<T> ScopedHandle<'_, T> {
    /// Blocks this thread until the task has finished.
    ///
    /// # Errors
    /// If the task panicked, was cancelled, or was refused by a pool that is shut down.
    pub fn wait(self) -> Result<T, JoinError> {
        let Self { joiner, unreported } = self;
        reported(joiner.wait(), unreported)
    }

    handle_methods!();
}

/// An outcome for the joiner: a panic in it counts as reported.
fn reported<T>(outcome: Result<T, JoinError>, unreported: &AtomicU64) -> Result<T, JoinError> {
    if matches!(outcome, Err(JoinError::Panicked(_))) {
        unreported.fetch_sub(1, Ordering::Relaxed);
    }
    outcome
}

impl<T> Joins for ScopedHandle<'_, T> {
    type Outcome = T;

    fn join_state(&self) -> &JoinState {
        self.joiner.join_state()
    }

    fn take(&mut self) -> Result<T, JoinError> {
        reported(self.joiner.take(), self.unreported)
    }
}

impl<T> Future for ScopedHandle<'_, T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.joiner.poll(context);
        polled.map(|outcome| reported(outcome, self.unreported))
    }
}

impl<T> fmt::Debug for ScopedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.joiner.debug("ScopedHandle", f)
    }
}
