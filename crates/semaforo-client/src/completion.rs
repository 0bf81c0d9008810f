//! The outcome of a request, on its way from the client's thread to the call that waits for it.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semaforo::Event;

use super::lease::Lease;
use super::request_spec::Undo;
use super::{Error, Reply};

/// An answer, and what is needed to give back what it grants.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) reply: Reply,
    pub(super) path: String,
    pub(super) undo: Undo,
    pub(super) lease: Option<Arc<Lease>>,
    /// In whose name it was asked, if that was said in the request itself.
    pub(super) credentials: Vec<(Cow<'static, str>, String)>,
}

impl Granted {
    /// For what the client does by itself.
    pub(super) const fn nothing() -> Self {
        let reply = Reply { status: 200, headers: Vec::new(), payload: None };
        Self {
            reply,
            path: String::new(),
            undo: Undo::Nothing,
            lease: None,
            credentials: Vec::new(),
        }
    }
}

pub(super) type Outcome = Result<Granted, Error>;

/// What a call waits for: the outcome of its request.
#[derive(Debug, Default)]
pub(super) struct Completion {
    state: Mutex<State>,
    done: Event,
}

#[derive(Debug, Default)]
enum State {
    /// There is no outcome yet.
    #[default]
    Pending,
    /// It is there to be claimed.
    Done(Outcome),
    /// The outcome was claimed, or the call withdrawn.
    Over,
}

impl Completion {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set once there is an outcome.
    pub(super) const fn done(&self) -> &Event {
        &self.done
    }

    /// Takes the outcome, or withdraws: then none will come.
    pub(super) fn claim_or_withdraw(&self) -> Option<Outcome> {
        match std::mem::replace(&mut *self.state(), State::Over) {
            State::Done(outcome) => Some(outcome),
            State::Pending | State::Over => None,
        }
    }

    /// Puts the outcome there, or gives it back if its call has withdrawn.
    fn put(&self, outcome: Outcome) -> Result<(), Outcome> {
        {
            let mut state = self.state();
            if !matches!(*state, State::Pending) {
                return Err(outcome);
            }
            *state = State::Done(outcome);
        }
        // A caller's waker that panics must not end the client's thread, on which all depend.
        let _ = catch_unwind(AssertUnwindSafe(|| self.done.set()));
        Ok(())
    }
}

/// The side of a completion that the client's thread has. If it is dropped, the call ends with
/// [`Disconnected`](Error::Disconnected).
#[derive(Debug)]
pub(super) struct Completer(Option<Arc<Completion>>);

impl Completer {
    pub(super) const fn new(completion: Arc<Completion>) -> Self {
        Self(Some(completion))
    }

    /// For a request without a call.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Whether there may be a call that waits for it.
    pub(super) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Puts the outcome there, or gives it back if its call has withdrawn.
    pub(super) fn complete(&mut self, outcome: Outcome) -> Result<(), Outcome> {
        match self.0.take() {
            Some(completion) => completion.put(outcome),
            None => Err(outcome),
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        // Nothing was granted, so nothing is lost if there is no call.
        let _ = self.complete(Err(Error::Disconnected));
    }
}
