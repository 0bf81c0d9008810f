//! What clients ask of the kernel.

use std::fmt;
use std::sync::Arc;

use semaforo_protocol::table::{Method, Row, SERVER, SESSIONS};

use super::Kind;
use super::session::SessionId;
use super::verb::Verb;
use super::view::Selection;

/// Milliseconds of the kernel's clock, which only grows.
pub type Millis = u64;

/// A connection, for as long as the server lives: no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionKey(pub u64);

/// Where an answer goes: a connection, and what the server calls the request there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection.
    pub connection: ConnectionKey,
    /// The request, in the server's own numbering.
    pub ticket: u64,
}

/// A request as the kernel sees it.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// The named session that it is for; none: the connection's own.
    pub session: Option<SessionId>,
    /// The session's number of it, by which it can be retried.
    pub retry: Option<Retry>,
    /// All answers up to this number have arrived.
    pub acked: Option<u64>,
    /// How long it may wait; none: for ever.
    pub timeout: Option<Millis>,
    /// What its message is charged to.
    pub charge: Charge,
    /// What is to be done.
    pub operation: Operation<'a>,
}

/// What a message is charged to, if anything: something of the server's that is dropped when the
/// message is gone, and says to the kernel nothing else. Not journaled.
///
/// Boxed twice, so that a message that is charged to nothing pays for one word only.
#[derive(Clone, Default)]
pub struct Charge(Option<Arc<Box<dyn Send + Sync>>>);

impl Charge {
    /// Keeps `receipt` until the message is gone.
    pub fn new(receipt: impl Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Box::new(receipt))))
    }

    /// Whether there is anything to be kept.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "charged" } else { "free" })
    }
}

/// What makes a request recognizable when it comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The session's number of it.
    pub seq: u64,
    /// A digest of what it asks for: the same number must not ask for anything else.
    pub digest: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// Nothing.
    Ping,
    /// A session is to begin; the id was drawn by the server.
    Open {
        /// Its secret.
        id: SessionId,
        /// Its time to live.
        ttl: Millis,
        /// What people see of it.
        label: &'a str,
    },
    /// The session is to live on.
    KeepAlive,
    /// The session is to end.
    Close,
    /// The session's waiting request of that number is to end.
    Cancel {
        /// Its number.
        seq: u64,
    },
    /// Something is to be done with an object.
    Object {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: &'a str,
        /// What is to be done.
        verb: Verb<'a>,
    },
    /// What is there?
    List(Selection<'a>),
}

impl Operation<'_> {
    /// What the table of methods says of it; nothing if objects of that kind do not have the
    /// method.
    #[must_use]
    pub fn row(&self) -> Option<&'static Row> {
        let (rows, method) = match self {
            Self::Object { kind, verb, .. } => return Row::of(*kind, verb.method()),
            Self::Ping => (SERVER.rows, Method::Ping),
            Self::Cancel { .. } => (SERVER.rows, Method::Cancel),
            Self::List(_) => (SERVER.rows, Method::List),
            Self::Open { .. } => (SESSIONS.rows, Method::Open),
            Self::KeepAlive => (SESSIONS.rows, Method::KeepAlive),
            Self::Close => (SESSIONS.rows, Method::Close),
        };
        rows.iter().find(|row| row.method == method)
    }
}
