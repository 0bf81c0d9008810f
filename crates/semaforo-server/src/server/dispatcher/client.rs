//! The clients: what is known of each connection, and of its requests that wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use semaforo_protocol::wire::Scanner;

use crate::journal::Position;
use crate::kernel::{ConnectionKey, Parcel, WaitId};
use crate::net::ConnectionId;
use crate::server::access::Token;
use crate::server::http::Ticket;
use crate::server::quotas::Share;

/// What the protocol needs to know of a connection.
pub(super) struct Client {
    pub(super) id: ConnectionId,
    pub(super) scanner: Scanner,
    /// The token that it has shown for all its requests.
    pub(super) token: Option<Arc<Token>>,
    /// Its waiting requests, by ticket.
    pub(super) waiting: HashMap<u64, Waiting>,
    /// Their tickets, by the ids that the client gave them.
    pub(super) tickets: HashMap<Box<str>, u64>,
    /// Messages that it was sent and may not have got, by where they begin in its output.
    pub(super) parcels: VecDeque<(u64, Parcel)>,
    /// Up to where it was tried to send its output.
    pub(super) tried: u64,
    /// It is paused until all its waiting requests are answered.
    pub(super) in_order: bool,
    /// It is paused until it was told, by and by, that it waits for nothing any more.
    pub(super) gives_up: bool,
    /// And is closed then.
    pub(super) finishes: bool,
    /// It was appended to in this turn.
    pub(super) touched: bool,
    /// And a message was among it.
    pub(super) addressed: bool,
    /// What was appended leaves after so many messages for takers over HTTP: among them is perhaps
    /// its own.
    pub(super) after: u64,
    /// It has made a request: on a server with tokens, one with a token that is known.
    pub(super) known: bool,
    /// Since when the end of a request is missing of which the beginning has come.
    pub(super) unfinished: Option<Instant>,
    /// Since when it has not read its answers.
    pub(super) congested: Option<Instant>,
}

/// What may leave when the journal is durable up to a position: a connection's output, up to an
/// offset.
pub(super) struct Mark {
    pub(super) position: Position,
    pub(super) id: ConnectionId,
    pub(super) offset: u64,
    /// There is a message in it, which goes before everything else.
    pub(super) message: bool,
    /// It goes after so many messages for takers over HTTP.
    pub(super) after: u64,
}

/// A request that was not answered yet.
pub(super) struct Waiting {
    pub(super) id: Option<Box<str>>,
    pub(super) wait: WaitId,
    /// The token that it was made with.
    pub(super) token: Option<Arc<Token>>,
    /// It counts for that.
    pub(super) _share: Option<Share>,
}

/// Where a request comes from.
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
            Self::Http(ticket) => ConnectionKey(HTTP | ticket.0),
        }
    }

    pub(super) fn of(key: ConnectionKey) -> Self {
        if key.0 & HTTP == 0 {
            Self::Tcp(ConnectionId::from(key.0))
        } else {
            Self::Http(Ticket(key.0 & !HTTP))
        }
    }
}

impl Client {
    /// Since when it has been slow.
    pub(super) fn slow_since(&self) -> Option<Instant> {
        [self.unfinished, self.congested].into_iter().flatten().min()
    }

    /// Forgets messages of which the socket has taken something.
    pub(super) fn forget_parcels(&mut self, accepted: u64) {
        while self.parcels.front().is_some_and(|(offset, _)| *offset < accepted) {
            self.parcels.pop_front();
        }
    }
}
