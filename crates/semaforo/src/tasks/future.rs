//! A task that is a future: polled whenever it is woken, until it is done.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use super::error::{JoinError, Panic};
use super::head::{Head, Run, Start, caught, resume, state};
use super::join_state::{Content, Join, JoinState, finish, take};
use super::pool_state::PoolId;
use super::scheduler::{Runnable, Scheduler};
use super::ticks::ticks;
use super::worker::cancel_here;
use crate::primitive::{AtomicU64, Ordering, TrackedCell};
use crate::wait::cancel::{CancelToken, OnCancel};
use crate::wait::wake::first;

/// A task that is a future.
pub(crate) struct Polled<F: Future, S: Scheduler> {
    join: JoinState,
    scheduler: S,
    /// Its number in the scheduler's registry of futures; `UNKNOWN` if it is not there.
    registry_slot: AtomicU64,
    token: Option<CancelToken>,
    /// Its number with the token, likewise.
    token_slot: AtomicU64,
    /// As in a [`Call`](super::call::Call). The future is never moved.
    content: TrackedCell<Content<F, F::Output, ()>>,
}

// SAFETY: the content has one owner at a time.
unsafe impl<F: Future + Send, S: Scheduler> Sync for Polled<F, S> where F::Output: Send {}

const UNKNOWN: u64 = u64::MAX;

impl<F: Future, S: Scheduler> Polled<F, S> {
    /// Leaves the registry and the token, which know futures that may be suspended.
    fn unregister(&self) {
        let number = self.token_slot.swap(UNKNOWN, Ordering::AcqRel);
        if let Some(token) = self.token.as_ref().filter(|_| number != UNKNOWN) {
            token.forget(number as u32);
        }
        let number = self.registry_slot.swap(UNKNOWN, Ordering::AcqRel);
        if number != UNKNOWN {
            self.scheduler.internals().unregister(number);
        }
    }
}

/// A future that has neither wakers nor a handle any more is dropped without having been ready.
impl<F: Future, S: Scheduler> Drop for Polled<F, S> {
    fn drop(&mut self) {
        self.unregister();
    }
}

impl<F, S> Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    /// A task that the caller has to enqueue.
    pub(crate) fn new(start: &Start, state: u32, future: F, scheduler: S) -> Arc<Self> {
        let task = Arc::new(Self {
            join: JoinState::new(start, state | state::SCHEDULED),
            scheduler,
            registry_slot: AtomicU64::new(UNKNOWN),
            token: start.token.clone(),
            token_slot: AtomicU64::new(UNKNOWN),
            content: TrackedCell::new(Content::Work(future, ())),
        });
        let known = Arc::downgrade(&task) as Weak<dyn Run>;
        if let Some(number) = task.scheduler.internals().register(known) {
            task.registry_slot.swap(number, Ordering::AcqRel);
        }
        if let Some(token) = &task.token {
            let known = Arc::downgrade(&task) as Weak<dyn OnCancel>;
            if let Some(number) = token.tell(known) {
                task.token_slot.swap(number.into(), Ordering::AcqRel);
            }
            if token.is_cancelled() {
                task.cancel(0);
            }
        }
        if task.join.head.is_finished() {
            // It was cancelled meanwhile by one of them, before its number was known.
            task.unregister();
        }
        task
    }

    /// Begins a poll, if there is one to be made.
    fn begin(&self) -> bool {
        let mut current = self.join.head.load();
        loop {
            let hinders = state::STARTED | state::DONE | state::CANCELLED;
            if current & state::SCHEDULED == 0 || current & hinders != 0 {
                return false;
            }
            let next = current & !state::SCHEDULED | state::STARTED | state::POLLED;
            match self.exchange(current, next) {
                Ok(()) => return true,
                Err(now) => current = now,
            }
        }
    }

    /// Ends a poll that was not the last. True if the task is to be queued again. The future is
    /// dropped if it was cancelled meanwhile.
    fn suspend(&self) -> bool {
        let mut current = self.join.head.load();
        loop {
            if current & state::CANCELLED != 0 {
                self.drop_future();
                return false;
            }
            match self.exchange(current, current & !state::STARTED) {
                Ok(()) => return current & state::SCHEDULED != 0,
                Err(now) => current = now,
            }
        }
    }

    /// Polls the future, if there is a poll to be made. True if the task is to be queued again.
    #[inline]
    fn step(self: &Arc<Self>) -> bool {
        if self.token.as_ref().is_some_and(CancelToken::is_cancelled) {
            self.cancel(0);
            return false;
        }
        if !self.begin() {
            return false;
        }
        // SAFETY: begun.
        let Some(outcome) = (unsafe { self.poll() }) else { return self.suspend() };
        // SAFETY: begun; the future is done, and is dropped in its place.
        let finished = unsafe { finish(&self.join, &self.content, outcome) };
        self.unregister();
        resume(finished);
        false
    }

    #[inline]
    fn exchange(&self, current: u32, next: u32) -> Result<(), u32> {
        let state = &self.join.head.state;
        state.compare_exchange(current, next, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    fn enqueue(self: Arc<Self>) {
        self.join.head.queued.store(ticks(), Ordering::Relaxed);
        let runnable = Runnable::new(Arc::clone(&self) as Arc<dyn Run>);
        self.scheduler.enqueue(runnable);
    }

    /// Drops the future, which is the caller's.
    fn drop_future(&self) {
        let dropped = caught(|| {
            // SAFETY: the caller has started the task, or has cancelled it while it was suspended.
            self.content.look_mut(|content| unsafe { *content = Content::Gone });
        });
        self.unregister();
        resume(dropped);
    }

    /// # Safety
    /// The caller has begun a poll.
    unsafe fn poll(self: &Arc<Self>) -> Option<Result<F::Output, Panic>> {
        // SAFETY: never dropped, so it need not be counted; `self` outlives it. Its clones count.
        let borrowed = ManuallyDrop::new(Waker::from(unsafe { Arc::from_raw(Arc::as_ptr(self)) }));
        let mut context = Context::from_waker(&borrowed);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the content is the caller's.
            self.content.look_mut(|content| match unsafe { &mut *content } {
                Content::Work(future, ()) => {
                    // SAFETY: the future is never moved.
                    unsafe { Pin::new_unchecked(future) }.poll(&mut context)
                }
                _ => unreachable!("a task that is polled has its future"),
            })
        }));
        match polled {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(output)) => Some(Ok(output)),
            Err(panic) => Some(Err(Panic::new(panic))),
        }
    }
}

impl<F, S> Run for Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    fn head(&self) -> &Head {
        &self.join.head
    }

    fn label(&self) -> Option<&str> {
        self.join.label()
    }

    fn run(self: Arc<Self>) {
        if self.step() {
            self.enqueue();
        }
    }

    fn run_at(self: Arc<Self>, pool: PoolId) -> Option<Arc<dyn Run>> {
        if !self.step() {
            return None;
        }
        if self.scheduler.internals().requeues_on() != Some(pool) {
            self.enqueue();
            return None;
        }
        self.join.head.queued.store(ticks(), Ordering::Relaxed);
        Some(self)
    }

    fn cancel(&self, how: u32) -> bool {
        let Some(before) = self.join.declare_cancelled(how, 0) else { return false };
        let mut buried = None;
        if before & state::STARTED == 0 {
            buried = caught(|| self.drop_future());
        }
        let told = caught(|| self.join.announce(before));
        resume(first(buried, told));
        true
    }
}

impl<F, S> OnCancel for Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    fn cancelled(&self) {
        cancel_here(self);
    }
}

impl<F, S> Join<F::Output> for Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    fn join_state(&self) -> &JoinState {
        &self.join
    }

    unsafe fn take(&self) -> Result<F::Output, JoinError> {
        // SAFETY: passed on from the caller.
        unsafe { take(&self.join, &self.content) }
    }

    fn as_run<'t>(self: Arc<Self>) -> Arc<dyn Run + 't>
    where
        Self: 't,
    {
        self
    }
}

impl<F, S> Wake for Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.join.head.state.fetch_or(state::SCHEDULED, Ordering::AcqRel);
        let hinders = state::SCHEDULED | state::STARTED | state::DONE | state::CANCELLED;
        if before & hinders == 0 {
            Arc::clone(self).enqueue();
        }
    }
}
