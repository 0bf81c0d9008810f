//! Tasks on threads of their own. A call has its thread until it ends; so has a future, whose
//! thread sleeps while it is suspended.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Wake;

use super::head::{Run, state, survive};
use super::pool_state::PoolId;
use crate::primitive::{Mutex, MutexGuard};
use crate::wait::parker::Parker;

/// The threads of long-running tasks, each by the number of its task, or of the task that this is a
/// part of.
#[derive(Default)]
pub(crate) struct OwnThreads {
    threads: Mutex<HashMap<u64, Thread>>,
}

struct Thread {
    parker: Arc<Parker>,
    /// The future, when it was woken: its thread may be the only one that keeps it.
    woken: Option<Arc<dyn Run>>,
}

impl OwnThreads {
    fn threads(&self) -> MutexGuard<'_, HashMap<u64, Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a task to its thread. If it has none, it is given back.
    pub(crate) fn wake(&self, task: Arc<dyn Run>) -> Option<Arc<dyn Run>> {
        let mut threads = self.threads();
        let Some(thread) = threads.get_mut(&task.head().id) else { return Some(task) };
        let replaced = thread.woken.replace(task);
        let parker = Arc::clone(&thread.parker);
        drop(threads);
        drop(replaced);
        parker.wake();
        None
    }

    /// Runs a task of this pool to its end, on this thread.
    pub(crate) fn run(&self, task: Arc<dyn Run>, pool: PoolId) {
        let (id, parker) = (task.head().id, Parker::new());
        self.threads().insert(id, Thread { parker: Arc::clone(&parker), woken: None });
        let mut next = Some(task);
        while let Some(task) = next.take() {
            let suspended = task.part_of().unwrap_or_else(|| Arc::downgrade(&task));
            survive(|| next = task.run_at(pool));
            if next.is_none() {
                next = self.sleep(id, &suspended, &parker);
            }
        }
    }

    /// Sleeps until a future is woken; none if it has ended, or is gone, and this is its thread no
    /// more.
    fn sleep(&self, id: u64, task: &Weak<dyn Run>, parker: &Parker) -> Option<Arc<dyn Run>> {
        loop {
            let is_suspended = is_suspended(task);
            let mut threads = self.threads();
            let woken = threads.get_mut(&id).and_then(|thread| thread.woken.take());
            if woken.is_some() {
                return woken;
            }
            if !is_suspended {
                threads.remove(&id);
                return None;
            }
            drop(threads);
            parker.park(None);
        }
    }

    /// Has every thread look whether its future has ended.
    pub(crate) fn look_after_end(&self) {
        let threads = self.threads();
        let parkers: Vec<_> = threads.values().map(|thread| Arc::clone(&thread.parker)).collect();
        drop(threads);
        parkers.into_iter().for_each(Wake::wake);
    }
}

/// Whether a task is a future that may be woken again; a call has ended when it has run.
fn is_suspended(task: &Weak<dyn Run>) -> bool {
    let mut state = 0;
    // This may be the last that keeps it, if its wakers have gone meanwhile.
    survive(|| state = task.upgrade().map_or(state::DONE, |task| task.head().load()));
    state & state::POLLED != 0 && !state::is_finished(state)
}
