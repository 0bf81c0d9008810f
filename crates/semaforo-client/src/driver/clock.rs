//! What time does: keep-alives, time limits, sessions that end.

use std::io;
use std::time::Instant;

use semaforo_protocol::wire::Value;

use super::outstanding::Outstanding;
use super::{Driver, GRACE, Housekeeping, SILENCE, State};
use crate::Error;
use crate::moment::Moment;
use crate::request_spec::Repeat;

impl Driver {
    pub(super) fn look_at_the_clock(&mut self, now: Instant) {
        self.expire_sessions(now);
        self.expire_requests(now);
        match &self.state {
            State::Down { retry } if *retry <= now => {
                let is_wanted = self.closing.is_none() || self.has_business();
                if is_wanted {
                    self.connect(now);
                }
            }
            State::Greeting { limit, .. } if *limit <= now => {
                self.disconnect(io::ErrorKind::TimedOut.into(), now);
            }
            State::Resolving { limit } => self.look_for_addresses(*limit, now),
            State::Up(_) => self.listen(now),
            _ => {}
        }
        if !matches!(self.state, State::Up(_)) {
            let is_over = |asked: &Outstanding| {
                let limit = asked.waits_for_a_connection(self.up_until, self.settings.patience);
                limit.is_some_and(|limit| limit <= now)
            };
            let over = self.outstanding.iter().filter(|(_, asked)| is_over(asked));
            let over: Vec<u64> = over.map(|(number, _)| *number).collect();
            for number in over {
                self.end(number, Error::Disconnected, now);
            }
        }
    }

    /// When the silence is too long, and whether the connection is dead then or only to be tried.
    /// Housekeeping is answered at once; a request may wait for as long as it likes.
    fn silence(&self) -> Option<(Instant, bool)> {
        let limit = SILENCE.min(self.settings.ttl / 3);
        if let Some((_, housekeeping)) = self.housekeeping.first_key_value() {
            return Some((self.heard.max(housekeeping.sent) + limit, true));
        }
        let expects_something = self.outstanding.len() > self.unsent.len();
        expects_something.then(|| (self.heard + limit, false))
    }

    fn listen(&mut self, now: Instant) {
        match self.silence() {
            Some((limit, true)) if limit <= now => {
                self.disconnect(io::ErrorKind::TimedOut.into(), now);
            }
            Some((limit, false)) if limit <= now => {
                self.send_housekeeping(Housekeeping::Ping, [], now);
            }
            _ => {}
        }
    }

    /// Tells the call of a request that there will be no answer.
    fn end(&mut self, number: u64, error: Error, now: Instant) {
        if let Some(asked) = self.outstanding.get_mut(&number) {
            asked.fail(error);
            self.withdraw(number, now);
        }
    }

    fn expire_sessions(&mut self, now: Instant) {
        let mut lost = Vec::new();
        let mut due = Vec::new();
        let mut is_dead = false;
        let moment = Moment::now();
        for (session_number, session) in self.sessions.iter() {
            if session.id().is_none() {
                continue;
            }
            if session.lease.ends().is_some_and(|ends| ends <= moment) {
                lost.push(session_number);
            } else if session.keep_alive_due().is_some_and(|time| time <= moment) {
                due.push(session_number);
            }
            is_dead |= session.keep_alive_limit().is_some_and(|limit| limit <= moment);
        }
        for session_number in lost {
            self.lose(session_number);
        }
        if is_dead {
            // Nothing comes through any more: another connection may do better.
            return self.disconnect(io::ErrorKind::TimedOut.into(), now);
        }
        for session_number in due {
            self.keep_alive(session_number, now);
        }
    }

    fn expire_requests(&mut self, now: Instant) {
        while let Some((time, number)) = self.deadlines.first().copied() {
            if time > now {
                break;
            }
            self.deadlines.pop_first();
            let Some(asked) = self.outstanding.get_mut(&number) else { continue };
            asked.timer = None;
            if asked.is_abandoned {
                continue;
            }
            if matches!(self.state, State::Up(_)) && !asked.is_overdue {
                // The server knows the time limit, too, and its answer says what happened.
                asked.is_overdue = true;
                asked.timer = Some(now + GRACE);
                self.deadlines.insert((now + GRACE, number));
                continue;
            }
            self.end(number, Error::TimedOut, now);
        }
    }

    /// When the clock has to be looked at again.
    pub(super) fn next_time(&mut self) -> Option<Instant> {
        let mut times = Vec::new();
        times.extend(self.deadlines.first().map(|(time, _)| *time));
        let is_up = matches!(self.state, State::Up(_));
        let mut moments = Vec::new();
        for (_, session) in self.sessions.iter() {
            if session.id().is_some() {
                moments.extend(session.lease.ends());
                moments.extend(session.keep_alive_due().filter(|_| is_up));
                moments.extend(session.keep_alive_limit());
            }
        }
        if let Some(moment) = moments.into_iter().min() {
            self.alarm.arm(moment, Moment::now());
            times.push(moment.instant());
        }
        match &self.state {
            State::Down { retry } => times.push(*retry),
            State::Resolving { limit } | State::Greeting { limit, .. } => times.push(*limit),
            State::Up(_) => times.extend(self.silence().map(|(time, _)| time)),
        }
        if !is_up {
            let (since, patience) = (self.up_until, self.settings.patience);
            let outstanding = self.outstanding.values();
            times.extend(
                outstanding.filter_map(|asked| asked.waits_for_a_connection(since, patience)),
            );
        }
        times.extend(self.closing.as_ref().map(|closing| closing.limit));
        times.into_iter().min()
    }

    /// A session is over: so is everything that was asked in it.
    pub(super) fn lose(&mut self, session_number: u64) {
        // First, so that a caller that learns of it from a request finds the token fired.
        self.shared.lose_session();
        self.fail_session(session_number, || Error::SessionLost);
    }

    pub(super) fn fail_session(&mut self, session_number: u64, error: impl Fn() -> Error) {
        if let Some(session) = self.sessions.remove(session_number) {
            let was_open = session.id().is_some();
            session.lease.lose();
            let mut over = Vec::new();
            for (number, asked) in &self.outstanding {
                let is_for_it = asked.session == Some(session_number);
                let waits_for_any = asked.session.is_none()
                    && matches!(asked.spec.repeat, Repeat::Numbered | Repeat::UntilDone);
                if is_for_it || (!was_open && waits_for_any) {
                    over.push(*number);
                }
            }
            for number in over {
                if let Some(mut asked) = self.forget(number) {
                    asked.fail(error());
                }
            }
        }
    }

    pub(super) fn keep_alive(&mut self, session_number: u64, now: Instant) {
        if !matches!(self.state, State::Up(_)) {
            return;
        }
        let Some(session) = self.sessions.get(session_number) else { return };
        let Some(id) = session.id().map(str::to_owned) else { return };
        if session.keep_alive_sent.is_none() {
            session.keep_alive_sent = Some(Moment::now());
            let acked = session.news().map(|acked| ("acked", Value::Number(acked)));
            let headers = std::iter::once(("session", Value::Text(&id))).chain(acked);
            self.send_housekeeping(Housekeeping::KeepAlive(session_number), headers, now);
        }
    }
}
