//! Connecting, and connecting again.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::link::Link;
use super::{CONNECT_LIMIT, Driver, Errand, LINK, LONGEST_PAUSE, State};
use crate::client::Error;
use crate::client::plan::Mode;
use crate::wire::Value;

impl Driver {
    /// The first request of a connection. A server waits only so long for it.
    pub(super) fn greet(&mut self, now: Instant) {
        match self.settings.token.clone() {
            Some(token) => {
                let headers = [("token", Value::Text(&token))];
                self.errand(Errand::Greeting, "AUTH", "", headers, now);
            }
            None => self.errand(Errand::Greeting, "PING", "", [], now),
        }
    }

    /// Begins to connect; the next address if one cannot be.
    pub(super) fn connect(&mut self, now: Instant) {
        let addresses = match self.settings.target.resolve() {
            Ok(addresses) => addresses,
            Err(error) => return self.disconnect(error, now),
        };
        self.try_addresses(addresses, now, None);
    }

    fn try_addresses(
        &mut self,
        mut addresses: Vec<SocketAddr>,
        now: Instant,
        mut error: Option<io::Error>,
    ) {
        while !addresses.is_empty() {
            let address = addresses.remove(0);
            match Link::open(&self.settings.target, address, self.poll.registry(), LINK) {
                Ok(link) => {
                    let (link, limit) = (Box::new(link), now + CONNECT_LIMIT);
                    self.state = State::Greeting { link, limit, others: addresses, greeted: false };
                    return;
                }
                Err(failure) => error = Some(failure),
            }
        }
        self.state = State::Down { retry: now };
        self.disconnect(error.unwrap_or_else(|| io::ErrorKind::NotConnected.into()), now);
    }

    /// The connection is lost, or could not be made.
    pub(super) fn disconnect(&mut self, error: io::Error, now: Instant) {
        self.errands.clear();
        self.on_trial = None;
        match std::mem::replace(&mut self.state, State::Down { retry: now }) {
            State::Greeting { link, others, .. } => {
                link.close(self.poll.registry());
                if !others.is_empty() {
                    return self.try_addresses(others, now, Some(error));
                }
            }
            State::Up(link) => {
                link.close(self.poll.registry());
                self.up_until = now;
            }
            State::Down { .. } => {}
        }
        if let Some(mut first) = self.first.take() {
            let _ = first.keep(Err(Error::CannotConnect(error)));
            self.close(now);
            return;
        }
        self.state = State::Down { retry: now + jittered(self.pause) };
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
        for (_, session) in self.sessions.iter() {
            session.disconnected();
        }
        let mut over = Vec::new();
        for (number, asked) in &mut self.outstanding {
            let was_sent = asked.sent.take().is_some();
            if was_sent && asked.plan.mode == Mode::Once {
                over.push(*number);
            } else {
                self.unsent.insert(*number);
            }
        }
        for number in over {
            if let Some(mut asked) = self.forget(number) {
                asked.fail(Error::Disconnected);
            }
        }
    }
}

/// Between half and all of it, so that the clients of a server that comes back do not all come at once.
fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}
