//! A task that is one call, and can be joined.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::error::{JoinError, Panic};
use super::head::{Head, Run, Start, caught, resume, state};
use super::join_state::{Content, Join, JoinState, finish, take};
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

/// What is dropped when nothing of a task is left, and told before how the task ended.
pub(crate) trait OnEnd {
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

impl OnEnd for () {}

/// The registration of a task with the token that cancels it, ended when this is dropped.
pub(crate) struct CancelOnToken<X> {
    token: CancelToken,
    /// None if the token has fired, or never does.
    number: Option<u32>,
    /// Dropped after the registration.
    on_end: X,
}

impl<X: OnEnd> OnEnd for CancelOnToken<X> {
    fn keep_cancelled(&self, how: u32) {
        self.on_end.keep_cancelled(how);
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl<X> Drop for CancelOnToken<X> {
    fn drop(&mut self) {
        self.number.into_iter().for_each(|number| self.token.forget(number));
    }
}

/// A task that is one call.
///
/// `X` is dropped when the work is gone; the task itself may stay in some queue.
#[repr(C)]
pub(crate) struct Call<W: Work, X> {
    join: JoinState,
    /// Belongs to the thread that has set `STARTED` or cancelled it before; once it is done, to the
    /// handle, or to the thread that finished it if it was cancelled or has no handle.
    content: TrackedCell<Content<W, W::Output, X>>,
}

// SAFETY: the content has one owner at a time.
unsafe impl<W: Work + Send, X: Send> Sync for Call<W, X> where W::Output: Send {}

impl<W: Work, X> Call<W, X> {
    #[inline]
    pub(crate) fn new(start: &Start, state: u32, work: W, on_end: X) -> Self {
        let content = TrackedCell::new(Content::Work(work, on_end));
        Self { join: JoinState::new(start, state), content }
    }

    /// A task that is cancelled when the token fires, unless it has finished by then; cancelled
    /// now, if it has fired already.
    ///
    /// # Safety
    /// What the work has borrowed is not used after `on_end` was dropped.
    pub(crate) unsafe fn with_token(
        start: &Start,
        token: &CancelToken,
        state: u32,
        work: W,
        on_end: X,
    ) -> Arc<Call<W, CancelOnToken<X>>>
    where
        W: Send,
        W::Output: Send,
        X: OnEnd + Send,
    {
        let task = Arc::new_cyclic(|task: &Weak<Call<W, CancelOnToken<X>>>| {
            let task = Weak::clone(task) as Weak<dyn OnCancel + '_>;
            // SAFETY: only the lifetime changes, and all that borrows is gone before `on_end` is.
            let task =
                unsafe { std::mem::transmute::<Weak<dyn OnCancel + '_>, Weak<dyn OnCancel>>(task) };
            let on_end = CancelOnToken { token: token.clone(), number: token.tell(task), on_end };
            Call::new(start, state, work, on_end)
        });
        if token.is_cancelled() {
            // It may have fired while the task could not be told yet.
            task.cancel(0);
        }
        task
    }

    /// # Safety
    /// The content is the caller's.
    #[inline]
    unsafe fn replace(&self, content: Content<W, W::Output, X>) -> Content<W, W::Output, X> {
        // SAFETY: passed on from the caller.
        self.content.look_mut(|old| unsafe { std::mem::replace(&mut *old, content) })
    }

    /// Drops work that will not be done, and wakes the joiners; `before` is the state before the
    /// task was declared cancelled, if the caller has done that.
    fn drop_work(&self, before: Option<u32>, work: W, on_end: X)
    where
        X: OnEnd,
    {
        let state = self.join.head.load();
        if state & state::DETACHED != 0 {
            on_end.keep_cancelled(state & state::SHUT_DOWN);
        }
        let dropped = caught(|| drop(work));
        let told = caught(|| before.into_iter().for_each(|before| self.join.announce(before)));
        drop(on_end);
        resume(first(dropped, told));
    }
}

impl<W, X> Run for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: OnEnd + Send,
{
    #[inline]
    fn head(&self) -> &Head {
        &self.join.head
    }

    fn label(&self) -> Option<&str> {
        self.join.label()
    }

    fn run(self: Arc<Self>) {
        let before = self.join.head.state.fetch_or(state::STARTED, Ordering::AcqRel);
        if before & (state::STARTED | state::CANCELLED) != 0 {
            return;
        }
        // SAFETY: this has started it.
        let Content::Work(work, on_end) = (unsafe { self.replace(Content::Gone) }) else { return };
        if on_end.is_cancelled() {
            let before = self.join.declare_cancelled(0, 0);
            return self.drop_work(before, work, on_end);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| work.call())).map_err(Panic::new);
        // SAFETY: this has started it.
        let finished = unsafe { finish(&self.join, &self.content, outcome) };
        drop(on_end);
        resume(finished);
    }

    fn cancel(&self, how: u32) -> bool {
        // A pool that is shut down has found it in a queue, where a call that a waiter has begun
        // leaves it stale.
        let unless = if how & state::SHUT_DOWN != 0 { state::STARTED } else { 0 };
        let Some(before) = self.join.declare_cancelled(how, unless) else { return false };
        if before & state::STARTED != 0 {
            self.join.announce(before);
            return true;
        }
        // SAFETY: a thread that starts it from now on finds that it is cancelled, and leaves it
        // alone.
        let content = unsafe { self.replace(Content::Gone) };
        if let Content::Work(work, on_end) = content {
            self.drop_work(Some(before), work, on_end);
        }
        true
    }
}

impl<W, X> OnCancel for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: OnEnd + Send,
{
    fn cancelled(&self) {
        cancel_here(self);
    }
}

impl<W, X> Join<W::Output> for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: OnEnd + Send,
{
    fn join_state(&self) -> &JoinState {
        &self.join
    }

    unsafe fn take(&self) -> Result<W::Output, JoinError> {
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
