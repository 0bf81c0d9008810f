//! New connections.

use std::io;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::connection::Connection;
use super::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN};
use super::listener::Accepted;
use super::tls::Session;
use super::{ConnectionId, Connections, ListenerId, Peer, Service};

impl Connections {
    /// Accepts while there is room.
    pub(super) fn accept_all<S: Service>(&mut self, service: &mut S) {
        let mut left = ACCEPTS_PER_TURN;
        for number in 0..self.listeners.len() {
            loop {
                // The index of a closed connection is free once the service knows about it.
                self.notify(service);
                let room = self.slab.len() < self.limits.connections && left > 0;
                let now = self.now;
                let Some(listener) = self.listeners.get_mut(number) else { return };
                if !room || !listener.ready || listener.retry_at.is_some_and(|at| at > now) {
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
        let connection = entry.insert(Connection::new(stream, tls, self.last_serial));
        self.statistics.accepted += 1;
        Ok(connection.id(index))
    }
}
