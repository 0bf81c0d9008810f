//! What clients ask of the kernel.

use std::fmt;
use std::sync::Arc;

use semaforo_protocol::table::{Method, Row, SERVER, SESSIONS};

use super::Kind;
use super::session::SessionId;
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

/// What can be done with an object, depending on its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb<'a> {
    /// It is to exist.
    Create(Settings),
    /// It is not to exist.
    Delete,
    /// What does it look like?
    Show,
    /// A hold of so many permits (1 of a lock), or for writing or reading.
    Acquire(Wish),
    /// A hold, or part of it, is given back.
    Release {
        /// Which; none: the only one.
        fence: Option<u64>,
        /// How many permits of it; none: all. Of an open semaphore: how many are added; none: one.
        permits: Option<u32>,
    },
    /// A semaphore is to have another number of permits.
    Resize {
        /// How many.
        permits: u32,
    },
    /// Does this hold exist?
    Check {
        /// Which.
        fence: u64,
    },
    /// From writer to reader.
    Downgrade {
        /// Which hold; none: the only one.
        fence: Option<u64>,
    },
    /// From only reader to writer.
    Upgrade {
        /// Which hold; none: the only one.
        fence: Option<u64>,
    },
    /// Counts a latch down.
    Down {
        /// By how much.
        by: u32,
    },
    /// Waits for a latch or an event.
    Wait,
    /// Sets an event.
    Set,
    /// Resets an event, a barrier, or a latch.
    Reset {
        /// To this count; none: to what it began with.
        count: Option<u32>,
    },
    /// Waits for the other parties.
    Arrive {
        /// How many there are.
        parties: u32,
        /// Which round is meant.
        generation: Option<u64>,
    },
    /// A message for whoever takes it.
    Put {
        /// Its bytes.
        payload: &'a [u8],
        /// Smaller ones are taken first.
        priority: i32,
        /// How long until it can be taken.
        delay: Millis,
    },
    /// A message that is to be taken while its sender waits.
    Transfer {
        /// Its bytes.
        payload: &'a [u8],
        /// Smaller ones are taken first.
        priority: i32,
    },
    /// The first message.
    Take {
        /// It stays out until it is acknowledged.
        manual: bool,
    },
    /// A message is done with.
    Ack {
        /// Which.
        message: u64,
        /// Which delivery of it; none: the one that there is.
        deliveries: Option<u64>,
    },
    /// A message goes back.
    Return {
        /// Which.
        message: u64,
        /// Which delivery of it; none: the one that there is.
        deliveries: Option<u64>,
        /// How long until it can be taken again.
        delay: Millis,
    },
}

impl Operation<'_> {
    /// What the table of methods says of it; nothing if objects of that kind do not have the method.
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

impl<'a> Verb<'a> {
    /// The method that it is.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::Create(_) => Method::Create,
            Self::Delete => Method::Delete,
            Self::Show => Method::Show,
            Self::Acquire(_) => Method::Acquire,
            Self::Release { .. } => Method::Release,
            Self::Resize { .. } => Method::Resize,
            Self::Check { .. } => Method::Check,
            Self::Downgrade { .. } => Method::Downgrade,
            Self::Upgrade { .. } => Method::Upgrade,
            Self::Down { .. } => Method::Down,
            Self::Wait => Method::Wait,
            Self::Set => Method::Set,
            Self::Reset { .. } => Method::Reset,
            Self::Arrive { .. } => Method::Arrive,
            Self::Put { .. } => Method::Put,
            Self::Transfer { .. } => Method::Transfer,
            Self::Take { .. } => Method::Take,
            Self::Ack { .. } => Method::Ack,
            Self::Return { .. } => Method::Return,
        }
    }

    /// The message that it adds to a queue.
    #[must_use]
    pub const fn payload(&self) -> Option<&'a [u8]> {
        match self {
            Self::Put { payload, .. } | Self::Transfer { payload, .. } => Some(payload),
            _ => None,
        }
    }
}

/// What a holder wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// So many permits of a semaphore; 1 of a lock.
    Permits(u32),
    /// To read beside others.
    Read,
    /// To write alone.
    Write,
}

/// What an object is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// A semaphore.
    Semaphore {
        /// How many permits there are.
        permits: u32,
    },
    /// A semaphore whose permits nobody holds: to acquire one uses it up, and anybody may add one.
    OpenSemaphore {
        /// The most permits that there can be.
        permits: u32,
        /// How many there are at first.
        initial: u32,
    },
    /// A latch.
    Latch {
        /// Where it begins.
        count: u32,
    },
    /// An event.
    Event {
        /// Whether a set lets only one through.
        auto: bool,
        /// Whether it begins set.
        set: bool,
    },
    /// A queue.
    Queue {
        /// The most messages; 0: no bound.
        capacity: u64,
    },
}
