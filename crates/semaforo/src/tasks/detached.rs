//! A task that is one call, and has no handle: as small as a task can be.

use std::sync::Arc;

use super::call::{OnEnd, Work};
use super::head::{Head, Run, Start, caught, resume, state};
use crate::primitive::{Ordering, TrackedCell};

/// A task without a handle. The thread that takes it from its queue is its only owner, and runs or
/// cancels it; until then other threads may look at its head.
pub(crate) struct Detached<W, X> {
    head: Head,
    work: TrackedCell<Option<(W, X)>>,
}

// SAFETY: the work is reached only by the thread that has taken the task from its queue.
unsafe impl<W: Send, X: Send> Sync for Detached<W, X> {}

impl<W, X> Detached<W, X> {
    #[inline]
    pub(crate) fn new(start: &Start, work: W, on_end: X) -> Self {
        let head = Head::new(start, state::DETACHED);
        Self { head, work: TrackedCell::new(Some((work, on_end))) }
    }

    /// Takes the work, for the task's only owner. The state says so, for threads that look at the
    /// queue.
    #[inline]
    fn take(&self, state: u32) -> Option<(W, X)> {
        let before = self.head.state.load(Ordering::Relaxed);
        self.head.state.store(before | state, Ordering::Relaxed);
        // SAFETY: the caller is the task's only owner.
        self.work.look_mut(|work| unsafe { (*work).take() })
    }
}

impl<W: Work<Output = ()> + Send, X: OnEnd + Send> Run for Detached<W, X> {
    #[inline]
    fn head(&self) -> &Head {
        &self.head
    }

    #[inline]
    fn run(self: Arc<Self>) {
        let Some((work, on_end)) = self.take(state::STARTED) else { return };
        if let Some(panic) = caught(|| work.call()) {
            on_end.keep_panic(panic);
        }
    }

    fn cancel(&self, how: u32) -> bool {
        let Some((work, on_end)) = self.take(state::CANCELLED | how) else { return false };
        on_end.keep_cancelled(how);
        let dropped = caught(|| drop(work));
        drop(on_end);
        resume(dropped);
        true
    }
}
