//! HTTP/1.1: the same operations, and what an operator looks at.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/KIND/NAME/METHOD?header=value` | the body is the payload; status, payload and headers (as `Semaforo-Fence: 12`) of the answer |
//! | `POST /v1` | the body is a request object; the body of the answer is the answer object |
//! | `GET /healthz` | 200 while the server is alive |
//! | `GET /readyz` | 200 while it takes requests |
//! | `GET /metrics` | statistics, for Prometheus |
//! | `GET /openapi.json` | all of this, for programs |
//!
//! A thread of its own runs [`Http`] over the [connection layer](crate::net). What it cannot answer
//! itself it hands, as the very bytes that a TCP client would have sent, to a [`Backend`], which
//! answers with the bytes that a TCP client would have got. So there is one protocol, and HTTP is a
//! way to carry it.
//!
//! ```no_run
//! # use semaforo_server::{net, server::http::{self, Backend, Http, Options}};
//! # fn start(backend: impl Backend + Send + 'static) -> std::io::Result<()> {
//! let options = Options::default();
//! let mut connections = net::Connections::new(options.connection_limits())?;
//! connections.listen(net::bind("127.0.0.1:13080".parse().unwrap())?, None)?;
//! let waker = connections.waker(); // to be woken whenever the backend has answers
//! let thread = std::thread::spawn(move || connections.run(&mut Http::new(options, backend)));
//! # Ok(())
//! # }
//! ```
//!
//! **A web page must not be able to use it by accident.** A page that a user of this machine looks
//! at can make the browser send requests here. So a body must be declared as `application/json` (a
//! page cannot do that without asking first, and it is refused then), a foreign `Origin` is
//! refused, and `Host` must be an address, `localhost` or a name below it, or one that was
//! configured.
//!
//! **A full server can still be looked at.** Beyond its [budget](Options::connections) of
//! connections, a few are accepted that may only ask for health, statistics and administration, one
//! request each.

mod answer;
mod body;
mod frame;
mod guard;
mod head;
mod limits;
mod metrics;
mod openapi;
mod parser;
mod percent;
mod route;
mod service;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::net::{ConnectionId, Reason};

pub use limits::{BODY_TIME, CONNECTIONS, HEAD, HEAD_TIME, IDLE_TIME, RESERVED, RESERVED_TIME};
pub use metrics::{Family, Metrics};
pub use openapi::document;
pub use service::Http;

/// Names a request from [`Backend::submit`] to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request on its way to where it is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The request object, checked by [`wire::Scanner`](semaforo_protocol::wire::Scanner).
    pub frame: Vec<u8>,
    /// From `Authorization: Bearer`; a `token` header within the request goes first.
    pub token: Option<String>,
    /// The address of the client.
    pub peer: SocketAddr,
}

/// An answer on its way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The request that it answers.
    pub ticket: Ticket,
    /// The answer object, as [`wire::write_answer`](semaforo_protocol::wire::write_answer) writes
    /// it. If it is empty there is no answer, and the connection ends without one.
    pub frame: Vec<u8>,
    /// Whether to say, with [`Backend::settled`], what became of it.
    pub confirm: bool,
    /// Whether the request was made with a token that is known, or none is needed: its client is
    /// no stranger any more.
    pub known: bool,
}

/// No other request can be taken at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// How the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It takes requests.
    Ready,
    /// It is alive and takes no requests, for this reason: it recovers, or it stops.
    NotReady(&'static str),
    /// It is not well, for this reason, and should be restarted.
    Failing(&'static str),
}

/// Where requests are decided. All of its methods are called on the thread of HTTP, and none may
/// block.
pub trait Backend {
    /// Takes a request. Every request that was taken is answered exactly once, also if it is
    /// cancelled.
    fn submit(&mut self, ticket: Ticket, request: Submission) -> Result<(), Busy>;

    /// The client has gone away: if the request still waits, it should not wait any longer.
    fn cancel(&mut self, ticket: Ticket);

    /// The next answer, if there is one. Asked for after the waker of the connections was used.
    fn next_answer(&mut self) -> Option<Answered>;

    /// For an answer that asked for it: the client's socket has accepted nothing of it so far. What
    /// became of it is told later.
    fn tried(&mut self, ticket: Ticket) {
        let _ = ticket;
    }

    /// For an answer that asked for it: whether the client's socket accepted any byte of it. Told
    /// once.
    fn settled(&mut self, ticket: Ticket, accepted: bool) {
        let _ = (ticket, accepted);
    }

    /// How the server is.
    fn health(&self) -> Health;

    /// The server is stopping: no new connections, and those that are open end with their answer.
    /// Looked at after the waker of the connections was used.
    fn is_stopping(&self) -> bool;

    /// The statistics of the server, as of now.
    fn metrics(&mut self) -> Metrics;

    /// Whether this token makes a client known, or none is needed.
    fn knows(&self, token: Option<&str>) -> bool {
        let _ = token;
        true
    }

    /// Grows whenever other tokens are known than before. Looked at after the waker of the
    /// connections was used.
    fn tokens_version(&self) -> u64 {
        0
    }

    /// Whether a client may see the statistics.
    ///
    /// # Errors
    /// What it is answered if not.
    fn may_observe(&self, token: Option<&str>, peer: SocketAddr) -> Result<(), Refusal> {
        let _ = (token, peer);
        Ok(())
    }

    /// A client has connected.
    fn connected(&self, id: ConnectionId, peer: SocketAddr) {
        let _ = (id, peer);
    }

    /// Its connection is closed.
    fn gone(&self, id: ConnectionId, reason: Reason) {
        let _ = (id, reason);
    }

    /// A request was refused for what it is, before anything was submitted.
    fn refused(&self, refusal: &Refusal, peer: SocketAddr) {
        let _ = (refusal, peer);
    }

    /// Accepting failed for want of descriptors or memory, and will be tried again.
    fn accept_failed(&mut self, error: &io::Error) {
        let _ = error;
    }
}

/// What can be set.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections at a time, without the reserved ones.
    pub connections: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Levels of a request.
    pub depth: usize,
    /// Names, without a port, by which clients may call this server in `Host`, in addition to those
    /// that are always allowed.
    pub hosts: Vec<String>,
    /// How long a client may take.
    pub times: Times,
}

/// How long a client may take for what it does.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// From connecting to the first byte of a request.
    pub first: Duration,
    /// From there to the end of the head.
    pub head: Duration,
    /// From there to the end of the body.
    pub body: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// For everything, in a reserved place.
    pub reserved: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            first: crate::net::limits::FIRST_REQUEST,
            head: HEAD_TIME,
            body: BODY_TIME,
            idle: IDLE_TIME,
            reserved: RESERVED_TIME,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            body: semaforo_protocol::wire::Limits::SIZE,
            depth: semaforo_protocol::wire::Limits::DEPTH,
            hosts: Vec::new(),
            times: Times::default(),
        }
    }
}

impl Options {
    /// The limits that its connections must have.
    pub fn connection_limits(&self) -> crate::net::Limits {
        crate::net::Limits {
            connections: self.connections + RESERVED,
            input: HEAD + crate::net::limits::READ_BUFFER,
            ..crate::net::Limits::default()
        }
    }
}

/// Why a request is refused without being decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// With 405: which methods of HTTP are allowed there.
    pub(crate) allow: &'static str,
}

impl Refusal {
    /// A refusal with this status, and words for people.
    pub fn new(status: u16, reason: impl fmt::Display) -> Self {
        Self { status, reason: reason.to_string(), allow: "" }
    }
}
