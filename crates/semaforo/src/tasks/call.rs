//! A task that is one call, and can be joined.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::{JoinError, Panic};
use super::head::{Head, Run, Start, resume, state};
use super::joint::{Join, Joint, Stage, finish, take};
use crate::primitive::{Ordering, TrackedCell};
use crate::wait::cancel::CancelToken;

/// What a task does, and when it need not any more.
pub(crate) trait Work {
    type Output;

    fn call(self) -> Self::Output;

    fn is_cancelled(&self) -> bool {
        false
    }
}

impl<T, F: FnOnce() -> T> Work for F {
    type Output = T;

    #[inline]
    fn call(self) -> T {
        self()
    }
}

/// Work that is not begun once its token has fired.
pub(crate) struct Heeding<W> {
    pub(crate) token: CancelToken,
    pub(crate) work: W,
}

impl<W: Work> Work for Heeding<W> {
    type Output = W::Output;

    fn call(self) -> W::Output {
        self.work.call()
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
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

    /// # Safety
    /// The stage is the caller's.
    #[inline]
    unsafe fn replace(&self, stage: Stage<W, W::Output, X>) -> Stage<W, W::Output, X> {
        // SAFETY: passed on from the caller.
        self.stage.look_mut(|old| unsafe { std::mem::replace(&mut *old, stage) })
    }
}

impl<W, X> Run for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: Send,
{
    #[inline]
    fn head(&self) -> &Head {
        &self.joint.head
    }

    fn run(self: Arc<Self>) {
        let before = self.joint.head.state.fetch_or(state::STARTED, Ordering::AcqRel);
        if before & (state::STARTED | state::CANCELLED) != 0 {
            return;
        }
        // SAFETY: this has started it.
        let Stage::Work(work, last) = (unsafe { self.replace(Stage::Gone) }) else { return };
        if work.is_cancelled() {
            let before = self.joint.declare_cancelled(0);
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
            if let Some(before) = before {
                self.joint.announce(before);
            }
            drop(last);
            return resume(dropped);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| work.call())).map_err(Panic::new);
        // SAFETY: this has started it.
        let finished = unsafe { finish(&self.joint, &self.stage, outcome) };
        drop(last);
        resume(finished);
    }

    fn cancel(&self, how: u32) -> bool {
        let Some(before) = self.joint.declare_cancelled(how) else { return false };
        if before & state::STARTED != 0 {
            self.joint.announce(before);
            return true;
        }
        // SAFETY: whoever starts it from now on finds that it is cancelled, and leaves it alone.
        let stage = unsafe { self.replace(Stage::Gone) };
        if let Stage::Work(work, last) = stage {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
            self.joint.announce(before);
            drop(last);
            resume(dropped);
        }
        true
    }
}

impl<W, X> Join<W::Output> for Call<W, X>
where
    W: Work + Send,
    W::Output: Send,
    X: Send,
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
