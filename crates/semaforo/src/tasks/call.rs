//! A task that is one call, and can be joined.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::error::{JoinError, Panic};
use super::head::{Head, Run, Start, caught, resume, state};
use super::joint::{Join, Joint, Stage, finish, take};
use super::worker::cancel_here;
use crate::primitive::{Ordering, TrackedCell};
use crate::wait::cancel::{CancelToken, OnCancel};
use crate::wait::wake::{discard, first};

/// What a task does.
pub(crate) trait Work {
    type Output;

    fn call(self) -> Self::Output;
}

impl<T, F: FnOnce() -> T> Work for F {
    type Output = T;

    #[inline]
    fn call(self) -> T {
        self()
    }
}

/// What is dropped when nothing of a task is left.
pub(crate) trait Last {
    /// Takes the panic of a task without a handle.
    fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        discard(panic);
    }

    /// A task without a handle was cancelled before it began, for this reason.
    fn keep_cancelled(&self, how: u32) {
        let _ = how;
    }

    /// Whether the task need not begin any more.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Last for () {}

/// A task's place among those that are cancelled when its token fires, given back when this is dropped.
pub(crate) struct Told<X> {
    token: CancelToken,
    /// None if the token has fired, or never does.
    number: Option<u32>,
    /// Dropped after the token has been told.
    last: X,
}

impl<X: Last> Last for Told<X> {
    fn keep_cancelled(&self, how: u32) {
        self.last.keep_cancelled(how);
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl<X> Drop for Told<X> {
    fn drop(&mut self) {
        self.number.into_iter().for_each(|number| self.token.forget(number));
    }
}

/// A task that is one call.
///
/// `X` is dropped when nothing of the task is left but its shell, which may stay in some queue.
#[repr(C)]
pub(crate) struct Call<W: Work, X> {
    joint: Joint,
    /// Belongs to whoever set `STARTED` or cancelled it before; once it is done, to the handle, or to
    /// whoever finished it if that was cancelled or has no handle.
    stage: TrackedCell<Stage<W, W::Output, X>>,
}

// SAFETY: the stage has one owner at a time.
unsafe impl<W: Work + Send, X: Send> Sync for Call<W, X> where W::Output: Send {}

impl<W: Work, X> Call<W, X> {
    #[inline]
    pub(crate) fn new(start: &Start, state: u32, work: W, last: X) -> Self {
        let stage = TrackedCell::new(Stage::Work(work, last));
        Self { joint: Joint::new(start, state), stage }
    }

    /// A task that is cancelled when the token fires, unless it has finished by then; cancelled now, if it
    /// has fired already.
    ///
    /// # Safety
    /// Nobody uses what the work has borrowed after `last` was dropped.
    pub(crate) unsafe fn with_token(
        start: &Start,
        token: &CancelToken,
        state: u32,
        work: W,
        last: X,
    ) -> Arc<Call<W, Told<X>>>
    where
        W: Send,
        W::Output: Send,
        X: Last + Send,
    {
        let task = Arc::new_cyclic(|task: &Weak<Call<W, Told<X>>>| {
            let task = Weak::clone(task) as Weak<dyn OnCancel + '_>;
            // SAFETY: only the lifetime changes, and all that borrows is gone before `last` is.
            let task =
                unsafe { std::mem::transmute::<Weak<dyn OnCancel + '_>, Weak<dyn OnCancel>>(task) };
            let told = Told { token: token.clone(), number: token.tell(task), last };
            Call::new(start, state, work, told)
        });
        if token.is_cancelled() {
            // It may have fired while the task could not be told yet.
            task.cancel(0);
        }
        task
    }

    /// # Safety
    /// The stage is the caller's.
    #[inline]
    unsafe fn replace(&self, stage: Stage<W, W::Output, X>) -> Stage<W, W::Output, X> {
        // SAFETY: passed on from the caller.
        self.stage.look_mut(|old| unsafe { std::mem::replace(&mut *old, stage) })
    }

    /// Drops work that will not be done, and tells those who wait; `before` is the state before the task
    /// was declared cancelled, if this is who did.
    fn bury(&self, before: Option<u32>, work: W, last: X)
    where
        X: Last,
    {
        let state = self.joint.head.load();
        if state & state::DETACHED != 0 {
            last.keep_cancelled(state & state::SHUT_DOWN);
        }
        let dropped = caught(|| drop(work));
        let told = caught(|| before.into_iter().for_each(|before| self.joint.announce(before)));
        drop(last);
        resume(first(dropped, told));
    }
}

impl<W, X> Run for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: Last + Send,
{
    #[inline]
    fn head(&self) -> &Head {
        &self.joint.head
    }

    fn label(&self) -> Option<&str> {
        self.joint.label()
    }

    fn run(self: Arc<Self>) {
        let before = self.joint.head.state.fetch_or(state::STARTED, Ordering::AcqRel);
        if before & (state::STARTED | state::CANCELLED) != 0 {
            return;
        }
        // SAFETY: this has started it.
        let Stage::Work(work, last) = (unsafe { self.replace(Stage::Gone) }) else { return };
        if last.is_cancelled() {
            let before = self.joint.declare_cancelled(0, 0);
            return self.bury(before, work, last);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| work.call())).map_err(Panic::new);
        // SAFETY: this has started it.
        let finished = unsafe { finish(&self.joint, &self.stage, outcome) };
        drop(last);
        resume(finished);
    }

    fn cancel(&self, how: u32) -> bool {
        // A pool that is shut down has found it in a queue, where a call that a waiter has begun
        // leaves its shell.
        let unless = if how & state::SHUT_DOWN != 0 { state::STARTED } else { 0 };
        let Some(before) = self.joint.declare_cancelled(how, unless) else { return false };
        if before & state::STARTED != 0 {
            self.joint.announce(before);
            return true;
        }
        // SAFETY: whoever starts it from now on finds that it is cancelled, and leaves it alone.
        let stage = unsafe { self.replace(Stage::Gone) };
        if let Stage::Work(work, last) = stage {
            self.bury(Some(before), work, last);
        }
        true
    }
}

impl<W, X> OnCancel for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: Last + Send,
{
    fn cancelled(&self) {
        cancel_here(self);
    }
}

impl<W, X> Join<W::Output> for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: Last + Send,
{
    fn joint(&self) -> &Joint {
        &self.joint
    }

    unsafe fn take(&self) -> Result<W::Output, JoinError> {
        // SAFETY: passed on from the caller.
        unsafe { take(&self.joint, &self.stage) }
    }

    fn as_run<'t>(self: Arc<Self>) -> Arc<dyn Run + 't>
    where
        Self: 't,
    {
        self
    }
}
