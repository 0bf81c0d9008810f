//! What every task has.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use super::pool_state::PoolId;
use super::scope::ScopeId;
use super::task_id::next_id;
use super::ticks::ticks;
use crate::primitive::{AtomicU32, Ordering};
use crate::wait::cancel::CancelToken;
use crate::wait::wake;

/// The bits of a task's state.
///
/// | bit | set by | means |
/// |---|---|---|
/// | `STARTED` | the thread that begins a call | the work is its alone; a future is being polled |
/// | `SCHEDULED` | a waker of a future | it is in a queue, or will be when its poll returns |
/// | `DONE` | the thread that has set `STARTED` | the outcome is there, and nothing runs any more |
/// | `CANCELLED` | the canceller, unless `DONE` | joiners need not wait; the outcome is not taken |
/// | `SHUT_DOWN` | the canceller | why it was cancelled |
/// | `DETACHED` | the handle, as it goes | the thread that sets `DONE` drops the outcome |
/// | `JOINER` | the handle | it has left a waker; taken away only by the handle, unless `DONE` |
/// | `WATCHED` | the handle | there may be requests at the gate |
/// | `POLLED` | the first poll of a future | it is no newcomer in the queue that it joins |
/// | `FAIR`, `LONG_RUNNING` | the spawner | how it was started |
/// | `ON_THE_SPOT` | the spawner | a worker that waits for it may run it before its turn |
pub(crate) mod state {
    pub(crate) const STARTED: u32 = 1;
    pub(crate) const SCHEDULED: u32 = 1 << 1;
    pub(crate) const DONE: u32 = 1 << 2;
    pub(crate) const CANCELLED: u32 = 1 << 3;
    pub(crate) const SHUT_DOWN: u32 = 1 << 4;
    pub(crate) const DETACHED: u32 = 1 << 5;
    pub(crate) const JOINER: u32 = 1 << 6;
    pub(crate) const WATCHED: u32 = 1 << 7;
    pub(crate) const POLLED: u32 = 1 << 8;
    pub(crate) const FAIR: u32 = 1 << 9;
    pub(crate) const LONG_RUNNING: u32 = 1 << 10;
    pub(crate) const ON_THE_SPOT: u32 = 1 << 11;

    pub(crate) fn is_finished(state: u32) -> bool {
        state & (DONE | CANCELLED) != 0
    }

    /// Whether a task in a queue has no work that could begin there: it was cancelled, or a thread
    /// that waits for it has begun it before its turn.
    pub(crate) fn is_stale(state: u32) -> bool {
        state & (STARTED | DONE | CANCELLED) != 0
    }
}

/// How a task was started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub(crate) level: u32,
    /// The bits of its state that say how.
    pub(crate) state: u32,
    /// The scope that waits for it, if one does.
    pub(crate) scope: Option<ScopeId>,
    /// The pool whose threads run it, if that is known.
    pub(crate) pool: Option<PoolId>,
    pub(crate) token: Option<CancelToken>,
    pub(crate) label: Option<Arc<Label>>,
}

/// What a task is called. One pointer, because most have none.
#[derive(Debug)]
pub(crate) struct Label(Box<str>);

impl Label {
    pub(crate) fn new(label: String) -> Arc<Self> {
        Arc::new(Self(label.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What every task has: as little as possible.
pub(crate) struct Head {
    pub(crate) state: AtomicU32,
    pub(crate) level: u32,
    /// When it was queued. Not modelled: there is no time in a model.
    pub(crate) queued: AtomicU64,
    pub(crate) scope: Option<ScopeId>,
    pub(crate) id: u64,
}

impl Head {
    #[inline]
    pub(crate) fn new(start: &Start, state: u32) -> Self {
        Self {
            state: AtomicU32::new(start.state | state),
            level: start.level,
            queued: AtomicU64::new(ticks()),
            scope: start.scope,
            id: next_id(),
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    pub(crate) fn is_finished(&self) -> bool {
        state::is_finished(self.load())
    }

    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        state::is_stale(self.load())
    }
}

/// What a scheduler can do with a task.
pub(crate) trait Run: Send + Sync {
    fn head(&self) -> &Head;

    /// Its label, if it was given one.
    fn label(&self) -> Option<&str> {
        None
    }

    /// The task whose thread this one wants, if it is a part of that: a long-running future that
    /// goes through other schedulers.
    fn part_of(&self) -> Option<Weak<dyn Run>> {
        None
    }

    /// Runs the task, or a part of it, if that is still to be done. No other thread does meanwhile.
    fn run(self: Arc<Self>);

    /// [`run`](Self::run), by a worker of this pool. If the task is to be queued there
    /// again, it is given back.
    fn run_at(self: Arc<Self>, pool: PoolId) -> Option<Arc<dyn Run>> {
        let _ = pool;
        self.run();
        None
    }

    /// Takes the work away, if it has not begun or is suspended, and says so to the joiners.
    /// False if the task has finished, or is a call that has begun and `how` is `SHUT_DOWN`.
    fn cancel(&self, how: u32) -> bool;
}

/// Calls something, whatever that does, and returns its panic. What is left to do afterwards is
/// done before the panic goes on: see [`resume`].
#[inline]
pub(crate) fn caught(call: impl FnOnce()) -> Option<Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(call)).err()
}

/// Lets a panic reach the caller.
#[inline]
pub(crate) fn resume(panic: Option<Box<dyn Any + Send>>) {
    if let Some(panic) = panic {
        wake::resume(panic);
    }
}

/// Runs or cancels a task for a thread that goes on afterwards. Only a destructor or a waker can
/// panic here; the hook has said so.
#[inline]
pub(crate) fn survive<R>(call: impl FnOnce() -> R) {
    if let Some(panic) = caught(|| drop(call())) {
        wake::discard(panic);
    }
}
