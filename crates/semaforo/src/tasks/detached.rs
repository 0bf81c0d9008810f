//! A task that is one call, and nobody waits for: as small as a task can be.

use std::sync::Arc;

use super::call::{Last, Work};
use super::head::{Head, Run, Start, caught, resume, state};
use crate::primitive::{Ordering, TrackedCell};

/// A task without a handle. Whoever takes it from its queue is the only one who has it, and runs or
/// cancels it; others may only look at its head meanwhile.
pub(crate) struct Detached<W, X> {
    head: Head,
    work: TrackedCell<Option<(W, X)>>,
}

// SAFETY: the work is reached only by the one who has taken the task from its queue.
unsafe impl<W: Send, X: Send> Sync for Detached<W, X> {}

impl<W, X> Detached<W, X> {
    #[inline]
    pub(crate) fn new(start: &Start, work: W, last: X) -> Self {
        let head = Head::new(start, state::DETACHED);
        Self { head, work: TrackedCell::new(Some((work, last))) }
    }

    /// Takes the work, for the only one who has the task. It says so in the state, for those who look.
    #[inline]
    fn take(&self, state: u32) -> Option<(W, X)> {
        let before = self.head.state.load(Ordering::Relaxed);
        self.head.state.store(before | state, Ordering::Relaxed);
        // SAFETY: this is the only one who has the task.
        self.work.look_mut(|work| unsafe { (*work).take() })
    }
}

impl<W: Work<Output = ()> + Send, X: Last + Send> Run for Detached<W, X> {
    #[inline]
    fn head(&self) -> &Head {
        &self.head
    }

    #[inline]
    fn run(self: Arc<Self>) {
        let Some((work, last)) = self.take(state::STARTED) else { return };
        if let Some(panic) = caught(|| work.call()) {
            last.keep_panic(panic);
        }
    }

    fn cancel(&self, how: u32) -> bool {
        let Some((work, last)) = self.take(state::CANCELLED | how) else { return false };
        last.keep_cancelled(how);
        let dropped = caught(|| drop(work));
        drop(last);
        resume(dropped);
        true
    }
}
