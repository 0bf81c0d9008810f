//! What the server says.

use std::io;
use std::time::{Duration, Instant};

use semaforo_protocol::table::{MAX_DEPTH, MAX_FRAME};
use semaforo_protocol::wire::{Answer, Limits};

use super::{Driver, HOUSEKEEPING_PREFIX, Housekeeping, SHORTEST_PAUSE, State};
use crate::completion::{Completer, Granted};
use crate::handle::giving_back;
use crate::moment::Moment;
use crate::request_spec::Repeat;
use crate::{Error, Reply};

impl Driver {
    /// Reads, and deals with what has been answered. False if the connection was given up.
    pub(super) fn receive(&mut self, may_end: bool, now: Instant) -> bool {
        match self.read(may_end, now) {
            Ok(()) => true,
            Err(error) => {
                self.disconnect(error, now);
                false
            }
        }
    }

    fn read(&mut self, may_end: bool, now: Instant) -> io::Result<()> {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let (State::Up(link) | State::Greeting { link, .. }) = &mut self.state else {
            return Ok(());
        };
        let read = link.connect().and_then(|_| link.read(may_end));
        if std::mem::take(&mut link.has_heard) {
            self.heard = now;
        }
        let found = link.frames(|frame| {
            frames.push(frame.to_vec());
            true
        });
        if let State::Greeting { greeted: greeted @ false, link, .. } = &mut self.state
            && link.connect().unwrap_or(false)
        {
            *greeted = true;
            self.greet(now);
        }
        for frame in &frames {
            let Ok(answer) = Answer::parse(frame) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not an answer"));
            };
            self.answered(&answer, now)?;
        }
        if !read? {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server has hung up"));
        }
        found
    }

    /// Deals with an answer.
    fn answered(&mut self, answer: &Answer<'_>, now: Instant) -> io::Result<()> {
        let Some(id) = answer.headers.get("id") else {
            // Only what the server could not read has no id.
            let message = answer.error().unwrap_or_else(|| format!("status {}", answer.status));
            if matches!(answer.status, 400 | 413) {
                self.unread(answer.status, &message);
            }
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        if let Some(number) = id.strip_prefix(HOUSEKEEPING_PREFIX) {
            let Ok(turn) = number.parse() else { return Ok(()) };
            let Some(sent) = self.housekeeping.remove(&turn) else { return Ok(()) };
            return self.done(sent.kind, sent.moment, answer, now);
        }
        let Ok(number) = id.parse() else { return Ok(()) };
        let Some(asked) = self.outstanding.get_mut(&number) else { return Ok(()) };
        let Some(sent) = asked.sent else { return Ok(()) };

        if answer.status == 503 && asked.spec.repeat != Repeat::Never {
            // The next server, or the next life of this one, can do it.
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it is shutting down"));
        }
        if answer.status == 204 && asked.is_told_too_early(now) {
            // The server is about to close the connection, because of something else. Nothing has
            // happened.
            if asked.spec.repeat == Repeat::Never {
                if let Some(mut asked) = self.forget(number) {
                    asked.fail(Error::Disconnected);
                }
                return Ok(());
            }
            asked.sent = None;
            self.unsent.insert(number);
            return Ok(());
        }
        if let Some(session_number) = asked.session {
            if asked.has_renewed(answer.status) {
                if let Some(session) = self.sessions.get(session_number) {
                    session.confirm(sent);
                }
            } else if answer.status == 410 {
                if !asked.is_about_a_hold() {
                    self.lose(session_number);
                    return Ok(());
                }
                self.keep_alive(session_number, now);
            }
        }
        if let Some(asked) = self.forget(number) {
            let session =
                asked.session.and_then(|session_number| self.sessions.get(session_number));
            let unclaimed = asked.answer(Reply::new(answer), session.as_deref());
            self.give_back(unclaimed, now);
        }
        Ok(())
    }

    /// The server could not read something, and so it does not say what.
    ///
    /// A server that has named its limits does not say that, since the client keeps to them.
    /// Another one means something that it has not answered: what waited was answered before. That
    /// is sent again, and what is there the next time, too, fails; so does what is not sent twice.
    fn unread(&mut self, status: u16, message: &str) {
        let mut over = Vec::new();
        for (number, asked) in &mut self.outstanding {
            let was_unread = asked.sent.is_some() && asked.spec.repeat != Repeat::UntilDone;
            let is_again = was_unread && std::mem::replace(&mut asked.was_unread, true);
            if is_again || (was_unread && asked.spec.repeat == Repeat::Never) {
                over.push(*number);
            }
        }
        for number in over {
            if let Some(mut asked) = self.forget(number) {
                asked.fail(Error::Refused { status, message: message.to_owned() });
            }
        }
    }

    fn give_back(&mut self, unclaimed: Option<Granted>, now: Instant) {
        if let Some(spec) = unclaimed.as_ref().and_then(giving_back) {
            self.next_give_back += 1;
            self.ask(self.next_give_back, spec, Completer::none(), None, now);
        }
    }

    /// Deals with the answer to something of the client's own.
    fn done(
        &mut self,
        kind: Housekeeping,
        sent: Moment,
        answer: &Answer<'_>,
        now: Instant,
    ) -> io::Result<()> {
        match kind {
            Housekeeping::Greeting { .. } => self.greeted(answer, now),
            Housekeeping::Open(session_number) => {
                let Some(session) = self.sessions.get(session_number) else { return Ok(()) };
                if answer.status == 503 {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "shutting down"));
                }
                let (Some(id), 200) = (answer.headers.get("session"), answer.status) else {
                    let reply = Reply::new(answer);
                    self.fail_session(session_number, || Error::of(&reply));
                    return Ok(());
                };
                session.lease.opened(id);
                session.is_opening = false;
                let ttl = answer.headers.get("ttl").and_then(|ttl| ttl.parse().ok());
                session.ttl = ttl.map_or(session.ttl, Duration::from_millis);
                session.confirm(sent);
                Ok(())
            }
            Housekeeping::KeepAlive(session_number) => {
                match (answer.status, self.sessions.get(session_number)) {
                    (200, Some(session)) => {
                        session.keep_alive_sent = None;
                        session.confirm(sent);
                    }
                    (410, Some(_)) => self.lose(session_number),
                    // Anything else confirms nothing; the connection is given up in time.
                    _ => {}
                }
                Ok(())
            }
            Housekeeping::Close | Housekeeping::Cancel | Housekeeping::Ping => Ok(()),
        }
    }

    fn greeted(&mut self, answer: &Answer<'_>, now: Instant) -> io::Result<()> {
        if answer.status != 200 {
            let error = Error::of(&Reply::new(answer));
            if let Some(mut first) = self.first.take() {
                let _ = first.complete(Err(error));
                self.close(now);
                return Ok(());
            }
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()));
        }
        let limits = named_limits(answer);
        let state = std::mem::replace(&mut self.state, State::Down { retry: now });
        self.state = match state {
            State::Greeting { mut link, .. } | State::Up(mut link) => {
                link.limits = limits;
                State::Up(link)
            }
            State::Down { .. } | State::Resolving { .. } => state,
        };
        self.pause = SHORTEST_PAUSE;
        if let Some(mut first) = self.first.take() {
            let _ = first.complete(Ok(Granted::nothing()));
        }
        Ok(())
    }
}

/// How large and how deep a request may be, as the answer to the greeting says. A server that says
/// nothing takes what servers usually take.
fn named_limits(answer: &Answer<'_>) -> Limits {
    let named = |name| answer.headers.get(name).and_then(|value| value.parse().ok());
    let usual = Limits::default();
    Limits {
        size: named(MAX_FRAME).unwrap_or(usual.size),
        depth: named(MAX_DEPTH).unwrap_or(usual.depth),
    }
}
