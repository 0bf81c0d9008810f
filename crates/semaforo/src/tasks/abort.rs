//! Cancelling a task without joining it.

use std::fmt;
use std::sync::Weak;

use super::head::Run;
use super::worker::cancel_here;

/// Cancels a task, beside the [`Handle`](super::Handle) that joins it: see
/// [`Handle::abort_handle`](super::Handle::abort_handle). It keeps nothing of the task.
#[derive(Clone)]
pub struct AbortHandle {
    task: Weak<dyn Run>,
    id: u64,
}

impl AbortHandle {
    pub(super) fn new(task: Weak<dyn Run>, id: u64) -> Self {
        Self { task, id }
    }

    /// Cancels the task, as [`Handle::cancel`](super::Handle::cancel) does. False if it had
    /// finished already.
    ///
    /// # Panics
    /// If dropping what the task had captured panics, or a waker does.
    pub fn cancel(&self) -> bool {
        self.task.upgrade().is_some_and(|task| cancel_here(&*task))
    }

    /// Whether the task has finished, or was cancelled.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.upgrade().is_none_or(|task| task.head().is_finished())
    }

    /// The task's number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finished = self.is_finished();
        f.debug_struct("AbortHandle").field("id", &self.id).field("finished", &finished).finish()
    }
}
