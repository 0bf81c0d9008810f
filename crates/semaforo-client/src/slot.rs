//! Where an outcome is put, by the client's thread, for the one who asked.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semaforo::Event;

use super::lease::Lease;
use super::plan::Undo;
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

/// Where an outcome is put.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    done: Event,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody knows yet.
    #[default]
    Pending,
    /// It is there to be claimed.
    Done(Outcome),
    /// Nobody will put, or claim, anything any more.
    Over,
}

impl Slot {
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

    /// Puts the outcome there, or gives it back if nobody waits for it any more.
    fn put(&self, outcome: Outcome) -> Result<(), Outcome> {
        {
            let mut state = self.state();
            if !matches!(*state, State::Pending) {
                return Err(outcome);
            }
            *state = State::Done(outcome);
        }
        // Somebody's waker that panics must not end the client's thread, on which all depend.
        let _ = catch_unwind(AssertUnwindSafe(|| self.done.set()));
        Ok(())
    }
}

/// The client's side of a slot. If it is dropped, the one who waits learns that there is no client
/// any more.
#[derive(Debug)]
pub(super) struct Pledge(Option<Arc<Slot>>);

impl Pledge {
    pub(super) const fn new(slot: Arc<Slot>) -> Self {
        Self(Some(slot))
    }

    /// For what nobody waits for.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Whether there may be somebody who waits for it.
    pub(super) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Puts the outcome there, or gives it back if nobody waits for it any more.
    pub(super) fn keep(&mut self, outcome: Outcome) -> Result<(), Outcome> {
        match self.0.take() {
            Some(slot) => slot.put(outcome),
            None => Err(outcome),
        }
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        // Nothing was granted, so nothing is lost if nobody waits.
        let _ = self.keep(Err(Error::Disconnected));
    }
}
