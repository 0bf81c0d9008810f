//! What all threads that work on one query share: which threads they are, and whether they should
//! go on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::cancellation::{Cancellation, Cancelled};
use super::extra_workers::ExtraWorkers;
use super::panics::Panics;
use crate::wait::cancel::CancelToken;
use crate::wait::wake::discard;

/// One run of a query.
#[derive(Debug)]
pub struct Context {
    pub(crate) extra_workers: ExtraWorkers,
    token: Option<CancelToken>,
    /// No chunk is claimed any more: something panicked, the token has fired, or the rest
    /// is not wanted.
    halted: AtomicBool,
    cancelled: AtomicBool,
    panics: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// The run has ended early; the context knows why.
#[derive(Debug)]
pub struct Halted;

impl Context {
    pub(crate) fn new(extra_workers: ExtraWorkers, token: Option<CancelToken>) -> Self {
        Self {
            extra_workers,
            token,
            halted: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            panics: Mutex::new(Vec::new()),
        }
    }

    /// Whether to stop at this boundary between chunks.
    pub(crate) fn is_halted(&self) -> bool {
        if self.halted.load(Ordering::Relaxed) {
            return true;
        }
        let fired = self.token.as_ref().is_some_and(CancelToken::is_cancelled);
        if fired {
            self.cancelled.store(true, Ordering::Relaxed);
            self.halt();
        }
        fired
    }

    /// No thread claims another chunk.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    /// Runs code that may be the user's. A panic ends the run, and is kept.
    pub(crate) fn guard<R>(&self, code: impl FnOnce() -> R) -> Result<R, Halted> {
        // What the code leaves half-done is dropped with the rest of the run.
        catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
            self.panics.lock().unwrap_or_else(PoisonError::into_inner).push(payload);
            self.halt();
            Halted
        })
    }

    /// [`guard`](Self::guard), for a part of the run.
    pub(crate) fn run<R>(&self, part: impl FnOnce() -> Result<R, Halted>) -> Result<R, Halted> {
        self.guard(part).and_then(|outcome| outcome)
    }

    /// An error if the run has ended early.
    pub(crate) fn check(&self) -> Result<(), Halted> {
        if self.halted.load(Ordering::Relaxed) { Err(Halted) } else { Ok(()) }
    }

    /// What the run as a whole yields.
    ///
    /// # Panics
    /// If any part of it did.
    pub(crate) fn finish<L: Cancellation, R>(&self, outcome: Result<R, Halted>) -> L::Output<R> {
        let panics =
            std::mem::take(&mut *self.panics.lock().unwrap_or_else(PoisonError::into_inner));
        if !panics.is_empty() {
            // What the run has made may panic as it is dropped; that panic is not lost, either.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(outcome)));
            let mut panics = panics;
            panics.extend(dropped.err());
            // The hook has run for each of them.
            resume_unwind(Box::new(Panics::new(panics)));
        }
        L::output(outcome.map_err(|Halted| Cancelled))
    }
}

/// A run that is given up may have panics left that it has not passed on.
impl Drop for Context {
    fn drop(&mut self) {
        let panics = self.panics.get_mut().unwrap_or_else(PoisonError::into_inner);
        panics.drain(..).for_each(discard);
    }
}
