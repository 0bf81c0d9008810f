//! Connecting, and connecting again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_protocol::table::LIMITS;
use semaforo_protocol::wire::Value;

use super::link::Link;
use super::{
    CONNECT_LIMIT, Driver, FIRST_RESOLVE_LIMIT, Housekeeping, LINK, LONGEST_PAUSE, RESOLVE_LIMIT,
    Settings, State,
};
use crate::Error;
use crate::error::Unencrypted;
use crate::request_spec::Repeat;

impl Settings {
    /// Whether a token may be sent there: encrypted, within this machine, or because it was
    /// allowed.
    pub(super) fn may_know_tokens(&self, address: SocketAddr) -> bool {
        let is_here = address.ip().to_canonical().is_loopback();
        self.insecure || self.target.tls.is_some() || is_here
    }
}

/// Nothing was sent, since a token would have been.
pub(super) fn unencrypted(address: SocketAddr) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Unencrypted(address))
}

impl Driver {
    /// The first request of a connection, which also asks what the server can read. A server waits
    /// only so long for it.
    pub(super) fn greet(&mut self, now: Instant) {
        let token = self.settings.token.clone();
        let kind = Housekeeping::Greeting { authenticates: token.is_some() };
        let token = token.as_deref().map(|token| ("token", Value::Text(token)));
        let headers = [(LIMITS.name, Value::Text("true"))].into_iter().chain(token);
        self.send_housekeeping(kind, headers, now);
    }

    /// Begins to connect, or to find out where to.
    pub(super) fn connect(&mut self, now: Instant) {
        let target = &self.settings.target;
        if let Ok(address) = target.address.parse() {
            return self.try_addresses(vec![address], now, None);
        }
        if let Some(Ok(found)) = self.resolving.as_ref().map(Receiver::try_recv) {
            // It was found after the wait for it had ended. Since then the server may have moved.
            self.resolving = None;
            if let Ok(addresses) = found {
                self.addresses = addresses;
            }
        }
        if self.resolving.is_none() {
            let (sender, receiver) = mpsc::channel();
            let (resolve, address) = (target.resolve, target.address.clone());
            let shared = Arc::clone(&self.shared);
            // This thread has keep-alives to send, and time limits to watch.
            let thread = thread::Builder::new().name("semaforo resolver".to_owned());
            let spawned = thread.spawn(move || {
                let _ = sender.send(resolve(&address));
                shared.wake();
            });
            if let Err(error) = spawned {
                return self.disconnect(error, now);
            }
            self.resolving = Some(receiver);
        }
        let limit = if self.addresses.is_empty() { FIRST_RESOLVE_LIMIT } else { RESOLVE_LIMIT };
        self.state = State::Resolving { limit: now + limit };
    }

    /// Connects, once it is known where to. If that takes too long, or fails, to where it was last.
    pub(super) fn look_for_addresses(&mut self, limit: Instant, now: Instant) {
        let Some(resolving) = &self.resolving else { return };
        let error = match resolving.try_recv() {
            Ok(Ok(addresses)) => {
                self.resolving = None;
                self.addresses.clone_from(&addresses);
                return self.try_addresses(addresses, now, None);
            }
            Ok(Err(error)) => {
                self.resolving = None;
                error
            }
            Err(TryRecvError::Empty) if now < limit => return,
            // It goes on, for the next time.
            Err(TryRecvError::Empty) => {
                let message =
                    format!("nobody knows yet where {:?} is", self.settings.target.address);
                io::Error::new(io::ErrorKind::TimedOut, message)
            }
            Err(TryRecvError::Disconnected) => {
                self.resolving = None;
                io::ErrorKind::NotFound.into()
            }
        };
        self.try_addresses(self.addresses.clone(), now, Some(error));
    }

    /// Begins to connect; the next address if one cannot be.
    fn try_addresses(
        &mut self,
        mut addresses: Vec<SocketAddr>,
        now: Instant,
        mut error: Option<io::Error>,
    ) {
        while !addresses.is_empty() {
            let address = addresses.remove(0);
            if self.settings.token.is_some() && !self.settings.may_know_tokens(address) {
                error = Some(unencrypted(address));
                continue;
            }
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
        self.housekeeping.clear();
        match std::mem::replace(&mut self.state, State::Down { retry: now }) {
            State::Greeting { link, others, .. } => {
                link.give_up(self.poll.registry());
                if !others.is_empty() {
                    return self.try_addresses(others, now, Some(error));
                }
            }
            State::Up(link) => {
                link.give_up(self.poll.registry());
                self.up_until = now;
            }
            State::Down { .. } | State::Resolving { .. } => {}
        }
        if let Some(mut first) = self.first.take() {
            let _ = first.complete(Err(Error::CannotConnect(error)));
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
            if was_sent && asked.spec.repeat == Repeat::Never {
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

/// Between half and all of it, so that the clients of a server that comes back do not all come at
/// once.
fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}
