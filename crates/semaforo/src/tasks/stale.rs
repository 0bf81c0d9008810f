//! Stale tasks: queued ones that were cancelled or begun before their turn, and how a queue gets
//! rid of them.

use std::collections::VecDeque;
use std::sync::Arc;
// Not modelled: it only decides what is worth while.
use std::sync::atomic::{AtomicU64, Ordering};

use super::head::{Run, survive};

/// How many tasks of this process were cancelled before they began.
static CANCELLED: AtomicU64 = AtomicU64::new(0);

/// Queues that have room for no more than this keep their stale tasks.
const SMALL: usize = 64;

/// A task was cancelled that may be in a queue.
pub(crate) fn note_cancelled() {
    CANCELLED.fetch_add(1, Ordering::Relaxed);
}

/// Stale tasks that came out of a queue, to be dropped when its lock is not held.
#[must_use]
pub(crate) struct StaleTasks(VecDeque<Arc<dyn Run>>);

impl StaleTasks {
    pub(crate) fn discard(self) {
        self.0.into_iter().for_each(|task| survive(move || drop(task)));
    }
}

/// Called before a task is added. A queue that is full grows only if it cannot get rid of stale
/// tasks: so it never has room for much more than the tasks that were in it at once, however many
/// are cancelled before their turn comes. `looked` belongs to the queue: how many tasks had been
/// cancelled when it was last rid of them.
#[inline]
pub(crate) fn make_room(
    queue: &mut VecDeque<Arc<dyn Run>>,
    looked: &mut u64,
) -> Option<StaleTasks> {
    (queue.len() == queue.capacity() && queue.len() >= SMALL).then(|| sweep(queue, looked))?
}

#[cold]
fn sweep(queue: &mut VecDeque<Arc<dyn Run>>, looked: &mut u64) -> Option<StaleTasks> {
    let cancelled = CANCELLED.load(Ordering::Relaxed);
    if cancelled - *looked < queue.len() as u64 / 2 {
        return None;
    }
    *looked = cancelled;
    let all = std::mem::take(queue).into_iter();
    let (stale, tasks) = all.partition::<VecDeque<_>, _>(|task| task.head().is_stale());
    *queue = tasks;
    // The next look comes after as many tasks as this one has left.
    queue.reserve(queue.len().max(SMALL));
    Some(StaleTasks(stale))
}
