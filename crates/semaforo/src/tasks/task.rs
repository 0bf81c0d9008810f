//! What every task has, and a task that is one call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::error::{JoinError, Panic};
use super::number::next_id;
use super::ticks::ticks;
use crate::policy::{Gate, Opening};
use crate::primitive::{AtomicU32, AtomicU64, Ordering, TrackedCell};
use crate::synchronizer::Synchronizer;
use crate::wait::cancel::CancelToken;
use crate::wait::wake::{self, Wake};

/// The bits of a task's state.
///
/// | bit | set by | means |
/// |---|---|---|
/// | `STARTED` | whoever begins a call | the work is the setter's, nobody else's; for futures: it is being polled |
/// | `SCHEDULED` | whoever wakes a future | it is in a queue, or will be when its poll returns |
/// | `DONE` | whoever started it | the outcome is there; nothing of the task runs any more |
/// | `CANCELLED` | the canceller, unless `DONE` | joiners need not wait; the outcome is nobody's |
/// | `SHUT_DOWN` | the canceller | why it was cancelled |
/// | `DETACHED` | the handle, as it goes | whoever sets `DONE` drops the outcome |
/// | `JOINER` | the handle | it has left a waker; taken away only by the handle, unless `DONE` |
/// | `WATCHED` | the handle | somebody may wait at the gate |
/// | `POLLED` | whoever polls a future first | it is no newcomer in the queue that it joins |
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

    pub(crate) fn is_finished(state: u32) -> bool {
        state & (DONE | CANCELLED) != 0
    }
}

/// How a task was started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub(crate) level: u32,
    /// In the queue of all workers, even if a worker starts it.
    pub(crate) fair: bool,
    pub(crate) long_running: bool,
    /// The scope that waits for it, by address; 0 if none does.
    pub(crate) group: usize,
    /// Which pool runs it, by address; 0 for other schedulers.
    pub(crate) pool: usize,
    pub(crate) token: Option<CancelToken>,
}

/// What every task has.
pub(crate) struct Base {
    pub(crate) state: AtomicU32,
    pub(crate) level: u32,
    pub(crate) id: u64,
    pub(crate) pool: usize,
    pub(crate) group: usize,
    pub(crate) fair: bool,
    pub(crate) long_running: bool,
    /// When it was queued.
    pub(crate) queued: AtomicU64,
    /// Opens when the task has finished, if somebody watches it.
    gate: Synchronizer<Gate>,
    /// Written by the handle while `JOINER` is not set; read by whoever finishes the task, if it is.
    waker: TrackedCell<Option<Waker>>,
}

impl Base {
    #[inline]
    pub(crate) fn new(start: &Start, state: u32) -> Self {
        Self {
            state: AtomicU32::new(state),
            level: start.level,
            id: next_id(),
            pool: start.pool,
            group: start.group,
            fair: start.fair,
            long_running: start.long_running,
            queued: AtomicU64::new(ticks()),
            gate: Synchronizer::new(Gate, 0),
            waker: TrackedCell::new(None),
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    pub(crate) fn is_finished(&self) -> bool {
        state::is_finished(self.load())
    }

    /// Declares the task cancelled, unless it has finished. Returns the state before.
    pub(crate) fn declare_cancelled(&self, how: u32) -> Option<u32> {
        let mut current = self.load();
        while !state::is_finished(current) {
            let next = current | state::CANCELLED | how;
            match self.state.compare_exchange(current, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(before) => return Some(before),
                Err(now) => current = now,
            }
        }
        None
    }

    /// Tells those who wait that the task has finished; `before` is the state without that.
    ///
    /// # Panics
    /// With the panic of a waker, after everyone else has been woken.
    #[inline]
    pub(crate) fn announce(&self, before: u32) {
        if before & (state::JOINER | state::WATCHED) != 0 {
            self.announce_to(before);
        }
    }

    #[inline(never)]
    fn announce_to(&self, before: u32) {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            if before & state::WATCHED != 0 {
                self.open_gate();
            }
        }));
        if before & state::JOINER != 0 {
            // SAFETY: the handle does not write while `JOINER` is set, and never again now that the
            // task has finished.
            let waker = self.waker.look(|waker| unsafe { (*waker).clone() });
            // A chain of tasks that finish each other must not grow the stack.
            resume(Wake::task(waker).and_then(Wake::wake).map_or(Ok(()), Err));
        }
        resume(opened);
    }

    fn open_gate(&self) {
        let Ok(_) = self.gate.release(Opening::Open);
    }

    /// The gate that opens when the task has finished.
    pub(crate) fn gate(&self) -> &Synchronizer<Gate> {
        if state::is_finished(self.state.fetch_or(state::WATCHED, Ordering::AcqRel)) {
            self.open_gate();
        }
        &self.gate
    }

    /// Leaves a waker for when the task has finished; false if it has already. For the handle only.
    pub(crate) fn leave_waker(&self, waker: &Waker) -> bool {
        let before = self.state.fetch_and(!state::JOINER, Ordering::AcqRel);
        if state::is_finished(before) {
            return false;
        }
        // SAFETY: whoever finishes the task from now on finds `JOINER` not set, and does not look.
        // Nobody else reads or writes.
        let replaced = self.waker.look_mut(|slot| unsafe {
            match &mut *slot {
                Some(old) if old.will_wake(waker) => None,
                slot => slot.replace(waker.clone()),
            }
        });
        let before = self.state.fetch_or(state::JOINER, Ordering::AcqRel);
        drop(replaced);
        !state::is_finished(before)
    }
}

/// What a scheduler can do with a task.
pub(crate) trait Run: Send + Sync {
    fn base(&self) -> &Base;

    /// Runs the task, or a part of it, if that is still to be done. Nobody else does meanwhile.
    fn run(self: Arc<Self>);

    /// Takes the work away, if it has not begun or is suspended, and says so to whoever joins.
    /// False if the task has finished.
    fn cancel(&self, how: u32) -> bool;
}

/// What a handle can do with a task.
pub(crate) trait Join<T>: Run {
    /// Takes the outcome.
    ///
    /// # Safety
    /// The task has finished, and this is called once, by the handle.
    unsafe fn take(&self) -> Result<T, JoinError>;

    fn as_run<'t>(self: Arc<Self>) -> Arc<dyn Run + 't>
    where
        Self: 't;
}

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

/// Where a task is: before its work, after it, or beyond.
pub(crate) enum Stage<W, T, X> {
    Work(W, X),
    Outcome(Result<T, Panic>),
    Gone,
}

/// A task that is one call.
///
/// `X` is dropped when nothing of the task is left but its shell, which may stay in some queue.
#[repr(C)]
pub(crate) struct Call<W: Work, X> {
    base: Base,
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
        Self { base: Base::new(start, state), stage }
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
    fn base(&self) -> &Base {
        &self.base
    }

    fn run(self: Arc<Self>) {
        let before = self.base.state.fetch_or(state::STARTED, Ordering::AcqRel);
        if before & (state::STARTED | state::CANCELLED) != 0 {
            return;
        }
        // SAFETY: this has started it.
        let Stage::Work(work, last) = (unsafe { self.replace(Stage::Gone) }) else { return };
        if work.is_cancelled() {
            let before = self.base.declare_cancelled(0);
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
            if let Some(before) = before {
                self.base.announce(before);
            }
            drop(last);
            return resume(dropped);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| work.call())).map_err(Panic::new);
        // SAFETY: this has started it.
        let finished = unsafe { finish(&self.base, &self.stage, outcome) };
        drop(last);
        resume(finished);
    }

    fn cancel(&self, how: u32) -> bool {
        let Some(before) = self.base.declare_cancelled(how) else { return false };
        if before & state::STARTED != 0 {
            self.base.announce(before);
            return true;
        }
        // SAFETY: whoever starts it from now on finds that it is cancelled, and leaves it alone.
        let stage = unsafe { self.replace(Stage::Gone) };
        if let Stage::Work(work, last) = stage {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
            self.base.announce(before);
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
    unsafe fn take(&self) -> Result<W::Output, JoinError> {
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

/// Ends a task with this outcome: leaves it for the handle, or drops it if nobody wants it, and tells
/// those who wait. Returns a panic that this caused.
///
/// # Safety
/// The caller has started the task, and its work is gone, or may be dropped in its place.
pub(crate) unsafe fn finish<W, T, X>(
    base: &Base,
    stage: &TrackedCell<Stage<W, T, X>>,
    outcome: Result<T, Panic>,
) -> Result<(), Box<dyn Any + Send>> {
    // SAFETY: whoever has started it owns the stage. What was there is dropped in its place.
    let replace =
        |new| catch_unwind(AssertUnwindSafe(|| stage.look_mut(|old| unsafe { *old = new })));
    let mut caught = replace(Stage::Outcome(outcome));
    let before = base.state.fetch_or(state::DONE, Ordering::AcqRel);
    if before & (state::DETACHED | state::CANCELLED) != 0 {
        // Nobody else wants the outcome.
        caught = caught.and(replace(Stage::Gone));
    }
    if before & state::CANCELLED == 0 {
        caught = caught.and(catch_unwind(AssertUnwindSafe(|| base.announce(before))));
    }
    caught
}

/// Takes the outcome of a task.
///
/// # Safety
/// The task has finished, and this is called once, by the handle.
pub(crate) unsafe fn take<W, T, X>(
    base: &Base,
    stage: &TrackedCell<Stage<W, T, X>>,
) -> Result<T, JoinError> {
    let state = base.load();
    if state & state::CANCELLED != 0 {
        return Err(JoinError::cancelled(state));
    }
    // SAFETY: it is done and not cancelled, so the outcome is the handle's, which calls this once. It
    // is no future that would have to stay where it is.
    match stage.look_mut(|stage| unsafe { std::mem::replace(&mut *stage, Stage::Gone) }) {
        Stage::Outcome(outcome) => outcome.map_err(JoinError::Panicked),
        _ => unreachable!("a task that is done has an outcome"),
    }
}

/// Lets a panic reach the caller.
pub(crate) fn resume(caught: Result<(), Box<dyn Any + Send>>) {
    if let Err(panic) = caught {
        wake::resume(panic);
    }
}
