//! The state that lets a task be joined: its gate, its joiner's waker, its outcome.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::error::{JoinError, Panic};
use super::head::{Head, Label, Run, Start, caught, resume, state};
use super::pool_state::PoolId;
use super::stale::note_cancelled;
use crate::policy::{Gate, Opening};
use crate::primitive::{Ordering, TrackedCell};
use crate::synchronizer::Synchronizer;
use crate::wait::wake::{Wake, first};

/// What a task that can be joined has besides its work.
pub(crate) struct JoinState {
    pub(crate) head: Head,
    /// The pool whose threads run it, if that is known.
    pub(crate) pool: Option<PoolId>,
    label: Option<Arc<Label>>,
    /// Opens when the task has finished, if a request waits for that.
    gate: Synchronizer<Gate>,
    /// Written by the handle while `JOINER` is not set; taken by the thread that finishes the task,
    /// if it is.
    waker: TrackedCell<Option<Waker>>,
}

// SAFETY: the waker is written and taken as its field says, whichever threads those are; the rest
// can be shared.
unsafe impl Sync for JoinState {}

impl JoinState {
    #[inline]
    pub(crate) fn new(start: &Start, state: u32) -> Self {
        Self {
            head: Head::new(start, state),
            pool: start.pool,
            label: start.label.clone(),
            gate: Synchronizer::new(Gate, 0),
            waker: TrackedCell::new(None),
        }
    }

    pub(crate) fn label(&self) -> Option<&str> {
        self.label.as_deref().map(Label::as_str)
    }

    /// Declares the task cancelled, unless it has finished or is in one of the states `unless`.
    /// Returns the state before.
    pub(crate) fn declare_cancelled(&self, how: u32, unless: u32) -> Option<u32> {
        let mut current = self.head.load();
        while !state::is_finished(current) && current & unless == 0 {
            let next = current | state::CANCELLED | how;
            match self.head.state.compare_exchange(
                current,
                next,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(before) => {
                    if before & state::STARTED == 0 {
                        note_cancelled();
                    }
                    return Some(before);
                }
                Err(now) => current = now,
            }
        }
        None
    }

    /// Tells the joiners that the task has finished; `before` is the state without that.
    ///
    /// # Panics
    /// With the panic of a waker, after all other joiners have been woken.
    #[inline]
    pub(crate) fn announce(&self, before: u32) {
        if before & (state::JOINER | state::WATCHED) != 0 {
            self.announce_to(before);
        }
    }

    #[inline(never)]
    fn announce_to(&self, before: u32) {
        let opened = caught(|| {
            if before & state::WATCHED != 0 {
                self.open_gate();
            }
        });
        let mut woken = None;
        if before & state::JOINER != 0 {
            // SAFETY: the handle does not write while `JOINER` is set, and never again now that the
            // task has finished.
            // Taken, because a chain of tasks that each hold the next one could not be dropped.
            let waker = self.waker.look_mut(|waker| unsafe { (*waker).take() });
            // A chain of tasks that finish each other must not grow the stack.
            woken = Wake::task(waker).and_then(Wake::wake);
        }
        resume(first(opened, woken));
    }

    fn open_gate(&self) {
        let Ok(_) = self.gate.release(Opening::Open);
    }

    /// The gate that opens when the task has finished.
    pub(crate) fn gate(&self) -> &Synchronizer<Gate> {
        if state::is_finished(self.head.state.fetch_or(state::WATCHED, Ordering::AcqRel)) {
            self.open_gate();
        }
        &self.gate
    }

    /// Leaves a waker for when the task has finished; false if it has already. For the handle only.
    pub(crate) fn leave_waker(&self, waker: &Waker) -> bool {
        let before = self.head.state.fetch_and(!state::JOINER, Ordering::AcqRel);
        if state::is_finished(before) {
            return false;
        }
        // SAFETY: a thread that finishes the task from now on finds `JOINER` not set, and does not
        // look. No other reads or writes.
        let stays = self
            .waker
            .look(|slot| unsafe { (*slot).as_ref().is_some_and(|old| old.will_wake(waker)) });
        let mut replaced = None;
        if !stays {
            match catch_unwind(AssertUnwindSafe(|| waker.clone())) {
                // SAFETY: as above.
                Ok(new) => replaced = self.waker.look_mut(|slot| unsafe { (*slot).replace(new) }),
                Err(panic) => {
                    let woken = caught(|| self.keep_waker());
                    resume_unwind(first(Some(panic), woken).expect("the first of them"));
                }
            }
        }
        let before = self.head.state.fetch_or(state::JOINER, Ordering::AcqRel);
        drop(replaced);
        !state::is_finished(before)
    }

    /// The waker that is there, if one is, stays: another could not be cloned. If the task has
    /// finished meanwhile, it is woken.
    #[cold]
    fn keep_waker(&self) {
        // SAFETY: `JOINER` is not set, as in `leave_waker`.
        if !self.waker.look(|slot| unsafe { (*slot).is_some() }) {
            return;
        }
        let before = self.head.state.fetch_or(state::JOINER, Ordering::AcqRel);
        if state::is_finished(before) {
            self.announce_to(state::JOINER);
        }
    }

    /// Takes the waker back, unless the thread that finishes the task is about to wake it. For the
    /// handle only.
    #[cold]
    pub(crate) fn take_waker_back(&self) {
        let before = self.head.state.fetch_and(!state::JOINER, Ordering::AcqRel);
        if !state::is_finished(before) {
            // SAFETY: as above.
            drop(self.waker.look_mut(|waker| unsafe { (*waker).take() }));
        }
    }
}

/// What a handle can do with a task.
pub(crate) trait Join<T>: Run {
    fn join_state(&self) -> &JoinState;

    /// Takes the outcome.
    ///
    /// # Safety
    /// The task has finished, and this is called once, by the handle.
    unsafe fn take(&self) -> Result<T, JoinError>;

    fn as_run<'t>(self: Arc<Self>) -> Arc<dyn Run + 't>
    where
        Self: 't;
}

/// What a task holds: its work, then its outcome, then nothing.
pub(crate) enum Content<W, T, X> {
    Work(W, X),
    Outcome(Result<T, Panic>),
    Gone,
}

/// Ends a task with this outcome: leaves it for the handle, or drops it if there is none, and tells
/// the joiners. Returns a panic that this caused.
///
/// # Safety
/// The caller has started the task, and its work is gone, or may be dropped in its place.
pub(crate) unsafe fn finish<W, T, X>(
    join: &JoinState,
    content: &TrackedCell<Content<W, T, X>>,
    outcome: Result<T, Panic>,
) -> Option<Box<dyn Any + Send>> {
    // SAFETY: the thread that has started the task owns its content. What was there is dropped in
    // its place.
    let replace = |new| caught(|| content.look_mut(|old| unsafe { *old = new }));
    let mut panic = replace(Content::Outcome(outcome));
    let before = join.head.state.fetch_or(state::DONE, Ordering::AcqRel);
    if before & (state::DETACHED | state::CANCELLED) != 0 {
        // There is no joiner that would take the outcome.
        panic = first(panic, replace(Content::Gone));
    }
    if before & state::CANCELLED == 0 {
        panic = first(panic, caught(|| join.announce(before)));
    }
    panic
}

/// Takes the outcome of a task.
///
/// # Safety
/// The task has finished, and this is called once, by the handle.
pub(crate) unsafe fn take<W, T, X>(
    join: &JoinState,
    content: &TrackedCell<Content<W, T, X>>,
) -> Result<T, JoinError> {
    let state = join.head.load();
    if state & state::CANCELLED != 0 {
        return Err(JoinError::cancelled(state));
    }
    // SAFETY: it is done and not cancelled, so the outcome is the handle's, which calls this once.
    // It is no future that would have to stay where it is.
    match content.look_mut(|content| unsafe { std::mem::replace(&mut *content, Content::Gone) }) {
        Content::Outcome(outcome) => outcome.map_err(JoinError::Panicked),
        _ => unreachable!("a task that is done has an outcome"),
    }
}
