//! Who asks.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::journal::Position;
use crate::kernel::{ConnectionKey, Parcel, WaitKey};
use crate::net::ConnectionId;
use crate::server::access::Rights;
use crate::server::http::Ticket;
use crate::wire::Scanner;

/// What the protocol needs to know of a connection.
pub(super) struct Client {
    pub(super) id: ConnectionId,
    pub(super) scanner: Scanner,
    /// What it may do; none: it has to say who it is.
    pub(super) rights: Option<Rights>,
    /// Its waiting requests, by ticket.
    pub(super) waiting: HashMap<u64, Waiting>,
    /// Their tickets, by the ids that the client gave them.
    pub(super) tickets: HashMap<Box<str>, u64>,
    /// Messages that it was sent and may not have got, by where they begin in its output.
    pub(super) parcels: VecDeque<(u64, Parcel)>,
    /// It is paused until all its waiting requests are answered.
    pub(super) in_order: bool,
    /// It was appended to in this turn.
    pub(super) touched: bool,
    /// And a message was among it.
    pub(super) addressed: bool,
    /// It has made a request.
    pub(super) known: bool,
}

/// What may leave when the journal is durable up to a position: a connection's output, up to an offset.
pub(super) struct Mark {
    pub(super) position: Position,
    pub(super) id: ConnectionId,
    pub(super) offset: u64,
    /// There is a message in it, which goes before everything else.
    pub(super) message: bool,
}

/// A request that was not answered yet.
pub(super) struct Waiting {
    pub(super) id: Option<Box<str>>,
    pub(super) key: WaitKey,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A connection.
    Tcp(ConnectionId),
    /// A request over HTTP, which is a connection of its own to the kernel.
    Http(Ticket),
}

/// The bit that tells the two apart.
pub(super) const HTTP: u64 = 1 << 63;

impl Caller {
    pub(super) fn key(self) -> ConnectionKey {
        match self {
            Self::Tcp(id) => ConnectionKey(id.into()),
            Self::Http(ticket) => ConnectionKey(HTTP | ticket),
        }
    }

    pub(super) fn of(key: ConnectionKey) -> Self {
        if key.0 & HTTP == 0 {
            Self::Tcp(ConnectionId::from(key.0))
        } else {
            Self::Http(key.0 & !HTTP)
        }
    }
}

impl Client {
    /// Forgets messages of which the socket has taken something.
    pub(super) fn forget_parcels(&mut self, accepted: u64) {
        while self.parcels.front().is_some_and(|(offset, _)| *offset < accepted) {
            self.parcels.pop_front();
        }
    }
}
