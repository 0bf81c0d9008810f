//! A task that is a future: polled whenever it is woken, until it is done.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use super::error::{JoinError, Panic};
use super::scheduler::{Runnable, Scheduler};
use super::task::{Base, Join, Run, Stage, Start, finish, resume, state, take};
use super::ticks::ticks;
use crate::primitive::{Ordering, TrackedCell};
use crate::wait::cancel::CancelToken;

/// A task that is a future.
pub(crate) struct Polled<F: Future, S: Scheduler> {
    base: Base,
    scheduler: S,
    /// Under which number the scheduler knows it while it is suspended.
    adopted: OnceLock<u64>,
    token: Option<CancelToken>,
    /// As in a [`Call`](super::task::Call). The future is never moved.
    stage: TrackedCell<Stage<F, F::Output, ()>>,
}

// SAFETY: the stage has one owner at a time.
unsafe impl<F: Future + Send, S: Scheduler> Sync for Polled<F, S> where F::Output: Send {}

impl<F, S> Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    /// A task that the caller has to enqueue.
    pub(crate) fn new(start: &Start, state: u32, future: F, scheduler: S) -> Arc<Self> {
        let task = Arc::new(Self {
            base: Base::new(start, state | state::SCHEDULED),
            scheduler,
            adopted: OnceLock::new(),
            token: start.token.clone(),
            stage: TrackedCell::new(Stage::Work(future, ())),
        });
        let weak = Arc::downgrade(&task);
        if let Some(number) = task.scheduler.adopt(weak) {
            let _ = task.adopted.set(number);
        }
        task
    }

    /// Begins a poll, if there is one to be made.
    fn begin(&self) -> bool {
        let mut current = self.base.load();
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

    /// Ends a poll that was not the last. The future is to be dropped if it was cancelled meanwhile.
    fn suspend(self: Arc<Self>) {
        let mut current = self.base.load();
        loop {
            if current & state::CANCELLED != 0 {
                return self.bury();
            }
            match self.exchange(current, current & !state::STARTED) {
                Ok(()) if current & state::SCHEDULED != 0 => return self.enqueue(),
                Ok(()) => return,
                Err(now) => current = now,
            }
        }
    }

    #[inline]
    fn exchange(&self, current: u32, next: u32) -> Result<(), u32> {
        let state = &self.base.state;
        state.compare_exchange(current, next, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    fn enqueue(self: Arc<Self>) {
        self.base.queued.store(ticks(), Ordering::Relaxed);
        let runnable = Runnable::new(Arc::clone(&self) as Arc<dyn Run>);
        self.scheduler.enqueue(runnable);
    }

    /// Drops the future, which is the caller's.
    fn bury(&self) {
        // SAFETY: the caller has started the task, or has cancelled it while it was suspended.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.stage.look_mut(|stage| unsafe { *stage = Stage::Gone });
        }));
        self.dismiss();
        resume(dropped);
    }

    fn dismiss(&self) {
        if let Some(number) = self.adopted.get() {
            self.scheduler.dismiss(*number);
        }
    }

    /// # Safety
    /// The caller has begun a poll.
    unsafe fn poll(self: &Arc<Self>) -> Option<Result<F::Output, Panic>> {
        // SAFETY: never dropped, so it need not be counted; `self` outlives it. Its clones count.
        let borrowed = ManuallyDrop::new(Waker::from(unsafe { Arc::from_raw(Arc::as_ptr(self)) }));
        let mut context = Context::from_waker(&borrowed);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the stage is the caller's, and the future is never moved.
            self.stage.look_mut(|stage| match unsafe { &mut *stage } {
                Stage::Work(future, ()) => unsafe { Pin::new_unchecked(future) }.poll(&mut context),
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
    fn base(&self) -> &Base {
        &self.base
    }

    fn run(self: Arc<Self>) {
        if self.token.as_ref().is_some_and(CancelToken::is_cancelled) {
            self.cancel(0);
            return;
        }
        if !self.begin() {
            return;
        }
        // SAFETY: begun.
        match unsafe { self.poll() } {
            None => self.suspend(),
            Some(outcome) => {
                // SAFETY: begun; the future is done, and is dropped in its place.
                let finished = unsafe { finish(&self.base, &self.stage, outcome) };
                self.dismiss();
                resume(finished);
            }
        }
    }

    fn cancel(&self, how: u32) -> bool {
        let Some(before) = self.base.declare_cancelled(how) else { return false };
        let mut buried = Ok(());
        if before & state::STARTED == 0 {
            buried = catch_unwind(AssertUnwindSafe(|| self.bury()));
        }
        self.base.announce(before);
        resume(buried);
        true
    }
}

impl<F, S> Join<F::Output> for Polled<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Scheduler + 'static,
{
    unsafe fn take(&self) -> Result<F::Output, JoinError> {
        // SAFETY: passed on from the caller.
        unsafe { take(&self.base, &self.stage) }
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
        let before = self.base.state.fetch_or(state::SCHEDULED, Ordering::AcqRel);
        let hinders = state::SCHEDULED | state::STARTED | state::DONE | state::CANCELLED;
        if before & hinders == 0 {
            Arc::clone(self).enqueue();
        }
    }
}
