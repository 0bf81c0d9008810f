//! The requests that are on their way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semaforo_protocol::table::Method;

use super::sessions::Session;
use crate::completion::{Completer, Granted};
use crate::moment::Moment;
use crate::request_spec::{ClientHeaders, Repeat, RequestSpec, Undo};
use crate::{Error, Reply};

/// A request that is on its way.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) spec: RequestSpec,
    completer: Completer,
    asked: Instant,
    pub(super) deadline: Option<Instant>,
    /// When the clock is looked at for it: at its deadline, or a while later.
    pub(super) timer: Option<Instant>,
    /// The session that it belongs to, from the first sending on.
    pub(super) session: Option<u64>,
    /// Its number there.
    pub(super) seq: Option<u64>,
    /// When it was sent on the connection that there is now.
    pub(super) sent: Option<Moment>,
    /// On how many connections it was sent.
    pub(super) sendings: u32,
    /// Its call was dropped; only what it was granted has to be given back.
    pub(super) is_abandoned: bool,
    /// It was not answered when the server said that it could not read something.
    pub(super) was_unread: bool,
    /// It has been given a while more than its time limit for the answer to arrive.
    pub(super) is_overdue: bool,
}

impl Outstanding {
    pub(super) fn new(
        spec: RequestSpec,
        completer: Completer,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Self {
        Self {
            session: spec.lease.as_ref().map(|lease| lease.number),
            spec,
            completer,
            asked: now,
            deadline,
            timer: deadline,
            seq: None,
            sent: None,
            sendings: 0,
            is_abandoned: false,
            was_unread: false,
            is_overdue: false,
        }
    }

    /// Whether the server is only asked to forget it: it was abandoned, perhaps before the server
    /// has read it, and if it were done now nothing would undo it.
    fn is_to_be_cancelled(&self) -> bool {
        self.is_abandoned && self.spec.undo == Undo::Nothing
    }

    /// Writes the request, for this connection.
    pub(super) fn write(
        &mut self,
        output: &mut Vec<u8>,
        number: u64,
        session: Option<&mut Session>,
        now: Instant,
    ) {
        let mut own = ClientHeaders { id: number, seq: self.seq, ..ClientHeaders::default() };
        if self.is_abandoned {
            // Only the outcome is wanted, if there is one. Also of a raw request that did not say
            // that it waits, or said so in a header of its own.
            self.spec.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("timeout"));
            own.timeout = Some(0);
        } else if let (true, Some(deadline)) = (self.spec.waits, self.deadline) {
            let left = deadline.saturating_duration_since(now);
            // Rounded up: nothing may end before its time.
            let left = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            own.timeout = Some(left);
        }
        if let Some(session) = session {
            if let (true, Some(seq)) = (self.is_to_be_cancelled(), self.seq) {
                // As soon as the server knows, not even what is still on its way from before is
                // done.
                session.answered(seq);
            }
            own.acked = session.news();
            own.session = session.id();
        }
        if self.is_to_be_cancelled() {
            own.timeout = None;
            RequestSpec::new(Method::Cancel, "", Repeat::Numbered).write(output, own);
        } else {
            self.spec.write(output, own);
        }
        // Now, and not when the turn began: the machine may have slept in between.
        self.sent = Some(Moment::now());
        self.sendings += 1;
    }

    /// Until when it waits for a connection, if there is none since then: one that has a time limit
    /// of its own until that, and what only has to be given back for ever.
    pub(super) fn waits_for_a_connection(
        &self,
        since: Instant,
        patience: Duration,
    ) -> Option<Instant> {
        let is_bounded = self.deadline.is_some() || !self.completer.is_open();
        if is_bounded { None } else { self.asked.max(since).checked_add(patience) }
    }

    /// Whether 410 can mean that a hold is gone; otherwise only the session can be.
    pub(super) fn is_about_a_hold(&self) -> bool {
        self.spec.lease.is_some()
            || matches!(self.spec.repeat, Repeat::Never | Repeat::Idempotent)
            || self.spec.row.is_some_and(|row| row.names_a_hold)
    }

    /// Whether 204 is no outcome: its time is not over, and it was not withdrawn.
    pub(super) fn is_told_too_early(&self, now: Instant) -> bool {
        match self.spec.repeat {
            Repeat::Idempotent => self.deadline.is_none_or(|deadline| now < deadline),
            // It may have a time limit that only the server knows, or a number by which others can
            // withdraw it.
            Repeat::Never => {
                let mut own = ["timeout", "seq"].iter();
                self.deadline.is_none() && own.all(|name| self.spec.get(name).is_none())
            }
            Repeat::UntilDone | Repeat::Numbered => false,
        }
    }

    /// Whether an answer of this status means that the server has renewed the session.
    pub(super) fn has_renewed(&self, status: u16) -> bool {
        matches!(status, 200 | 204) && self.spec.row.is_some_and(|row| row.renews)
    }

    /// Whether it has to be withdrawn at the server, too, and stays here until that is settled: it
    /// may be done, or granted something.
    pub(super) fn outlives_its_caller(&self) -> bool {
        match self.spec.repeat {
            Repeat::UntilDone => true,
            Repeat::Numbered => self.sendings > 0,
            Repeat::Never => self.sent.is_some() && self.spec.undo != Undo::Nothing,
            Repeat::Idempotent => false,
        }
    }

    /// Whether it has no call and only gives back, or ends what is held.
    pub(super) const fn has_to_be_done(&self) -> bool {
        matches!(self.spec.repeat, Repeat::UntilDone)
            || (!self.completer.is_open() && !self.is_abandoned)
    }

    /// Tells its call the answer, or yields what is granted if there is no call any more.
    pub(super) fn answer(mut self, mut reply: Reply, session: Option<&Session>) -> Option<Granted> {
        let is_repeated = self.spec.repeat == Repeat::UntilDone && self.sendings > 1;
        if is_repeated && self.seq.is_none() && reply.status == 410 {
            // It was done the first time, and only the answer was lost. With a number the server
            // knows that itself.
            reply.status = 200;
        }
        let lease = session.map(|session| Arc::clone(&session.lease));
        let undo = self.spec.undo_of(&reply);
        let RequestSpec { path, headers: mut credentials, .. } = self.spec;
        credentials.retain(|(name, _)| {
            ["session", "token"].iter().any(|other| name.eq_ignore_ascii_case(other))
        });
        let granted = Granted { reply, path, undo, lease, credentials };
        match self.completer.complete(Ok(granted)) {
            Err(Ok(granted)) => Some(granted),
            _ => None,
        }
    }

    /// Tells its call, if there still is one, what ended the request.
    pub(super) fn fail(&mut self, error: Error) {
        // Nothing was granted.
        let _ = self.completer.complete(Err(error));
    }
}
