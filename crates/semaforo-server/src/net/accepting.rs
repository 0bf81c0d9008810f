//! New connections.

use std::io;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::connection::Connection;
use super::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN, MOMENT};
use super::listener::Accepted;
use super::tls::Session;
use super::{ConnectionId, Connections, ListenerId, Peer, Service};

impl Connections {
    /// Accepts while a place is free.
    pub(super) fn accept_all<S: Service>(&mut self, service: &mut S) {
        let mut left = ACCEPTS_PER_TURN;
        for number in 0..self.listeners.len() {
            loop {
                // The index of a closed connection is free once the service knows about it.
                self.notify(service);
                let now = self.now;
                self.free_a_place(service, number);
                let has_place = self.slab.len() < self.limits.connections && left > 0;
                let Some(listener) = self.listeners.get_mut(number) else { return };
                if !has_place || !listener.ready || listener.retry_at.is_some_and(|at| at > now) {
                    break;
                }
                listener.retry_at = None;
                left -= 1;
                let error = match listener.accept() {
                    Accepted::Connection(stream, address) => {
                        let peer = Peer { address, listener: ListenerId(number) };
                        match self.open_connection(stream, peer) {
                            Ok(id) => {
                                service.opened(self, id, peer);
                                self.hurry(id);
                                continue;
                            }
                            Err(error) => error,
                        }
                    }
                    Accepted::Nothing => {
                        listener.ready = false;
                        break;
                    }
                    Accepted::Vanished => continue,
                    Accepted::Failed(error) => error,
                };
                if let Some(listener) = self.listeners.get_mut(number) {
                    listener.retry_at = Some(now + ACCEPT_PAUSE);
                }
                service.accept_failed(self, &error);
            }
        }
        self.notify(service);
        self.close_listeners();
    }

    /// A connection that is late has only a moment for its first request.
    fn hurry(&mut self, id: ConnectionId) {
        let end = self.now + MOMENT;
        if let Some(connection) = self.get_mut(id).filter(|connection| connection.late) {
            let deadline = connection.timer.service.map_or(end, |deadline| deadline.min(end));
            self.set_deadline(id, Some(deadline));
        }
    }

    /// Asks the service for a place, if none is free and a connection waits for one at this
    /// listener.
    fn free_a_place<S: Service>(&mut self, service: &mut S, number: usize) {
        if self.slab.len() < self.limits.connections {
            self.crowded_at = None;
            return;
        }
        if self.accepts_until.is_some() {
            return;
        }
        let now = self.now;
        let Some(listener) = self.listeners.get_mut(number) else { return };
        if !listener.ready || self.crowded_at.is_some_and(|at| at > now) {
            return;
        }
        if !listener.has_waiting() {
            // An event will tell when one comes.
            listener.ready = false;
            self.crowded_at = None;
            return;
        }
        self.crowded_at = service.crowded(self);
        self.notify(service);
    }

    fn open_connection(&mut self, mut stream: TcpStream, peer: Peer) -> io::Result<ConnectionId> {
        let config = self.listeners.get(peer.listener.0).and_then(|listener| listener.tls.clone());
        let tls = config.map(Session::new).transpose().map_err(io::Error::other)?;
        let entry = self.slab.vacant_entry();
        let index = entry.key();
        // Both interests once and for all: edges cost nothing while nothing changes.
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(index), interest)?;
        // One bit less: a service may use it to tell other numbers from ours.
        self.last_serial = self.last_serial.wrapping_add(1) & (u32::MAX >> 1);
        let connection = entry.insert(Connection::new(stream, tls, self.last_serial, self.now));
        connection.late = self.accepts_until.is_some();
        self.statistics.accepted += 1;
        Ok(connection.id(index))
    }
}
