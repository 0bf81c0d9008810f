//! How requests get to the client's thread.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mio::Waker;
use semaforo::{CancelSource, CancelToken};

use super::completion::{Completer, Granted};
use super::request_spec::{Repeat, RequestSpec};

/// What the client's thread is told.
#[derive(Debug)]
pub(super) enum Command {
    Ask {
        number: u64,
        spec: RequestSpec,
        completer: Completer,
        deadline: Option<Instant>,
    },
    /// The call of this request was dropped, cancelled or timed out.
    Withdraw(u64),
    /// All sessions are to end, and the thread with them.
    Close(Completer),
}

/// What clients, guards and requests share with the client's thread.
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    waker: Waker,
    lost: Mutex<CancelSource>,
}

#[derive(Default)]
struct Inbox {
    commands: Vec<Command>,
    /// The last request's number.
    last: u64,
    /// The thread has ended.
    is_closed: bool,
}

impl Shared {
    pub(super) fn new(waker: Waker) -> Self {
        Self { inbox: Mutex::default(), waker, lost: Mutex::default() }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command that is not taken any more is dropped, and its completer says so to the call.
    fn send(&self, command: impl FnOnce(&mut u64) -> Command) {
        let mut refused = None;
        let is_first = {
            let mut inbox = self.inbox();
            let command = command(&mut inbox.last);
            if inbox.is_closed {
                refused = Some(command);
                false
            } else {
                inbox.commands.push(command);
                inbox.commands.len() == 1
            }
        };
        drop(refused);
        if is_first {
            self.wake();
        }
    }

    /// Lets the thread look what there is to do.
    pub(super) fn wake(&self) {
        // If it fails, the thread sees it when it next wakes.
        let _ = self.waker.wake();
    }

    /// Everything that has come.
    pub(super) fn receive(&self, into: &mut Vec<Command>) {
        into.append(&mut self.inbox().commands);
    }

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        let commands = {
            let mut inbox = self.inbox();
            inbox.is_closed = true;
            std::mem::take(&mut inbox.commands)
        };
        drop(commands);
    }

    pub(super) fn session_lost(&self) -> CancelToken {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).token()
    }

    /// A session was lost. Tokens that are asked for from now on are those of the next.
    pub(super) fn lose_session(&self) {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        // The client's thread goes on, whatever a waker does.
        let _ = catch_unwind(AssertUnwindSafe(|| lost.cancel()));
    }
}

/// The way to the client's thread, which ends when the last of these is dropped.
pub(super) struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Asks, and returns the request's number; none if it cannot be asked, which is its outcome.
    pub(super) fn ask(
        &self,
        spec: RequestSpec,
        mut completer: Completer,
        deadline: Option<Instant>,
    ) -> Option<u64> {
        if let Err(wrong) = spec.check() {
            let _ = completer.complete(Err(wrong));
            return None;
        }
        let mut number = 0;
        self.shared.send(|last| {
            *last += 1;
            number = *last;
            Command::Ask { number, spec, completer, deadline }
        });
        Some(number)
    }

    pub(super) fn withdraw(&self, number: u64) {
        self.shared.send(|_| Command::Withdraw(number));
    }

    pub(super) fn close(&self, completer: Completer) {
        self.shared.send(|_| Command::Close(completer));
    }

    pub(super) fn session_lost(&self) -> CancelToken {
        self.shared.session_lost()
    }

    /// Gives back a grant that was not claimed.
    pub(super) fn give_back(&self, granted: &Granted) {
        if let Some(spec) = giving_back(granted) {
            self.ask(spec, Completer::none(), None);
        }
    }
}

/// The request that gives back what was granted.
pub(super) fn giving_back(granted: &Granted) -> Option<RequestSpec> {
    if granted.reply.status != 200 {
        return None;
    }
    let mut credentials = granted.credentials.iter();
    let names_session = credentials.any(|(name, _)| name.eq_ignore_ascii_case("session"));
    let repeat = match &granted.lease {
        Some(_) => Repeat::UntilDone,
        None if names_session => Repeat::Idempotent,
        // The connection's own, and gone with it.
        None => Repeat::Never,
    };
    let mut spec = granted.undo.spec(&granted.path, repeat, &granted.reply)?;
    spec.headers.extend(granted.credentials.iter().cloned());
    spec.lease.clone_from(&granted.lease);
    Some(spec)
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close(Completer::none());
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
