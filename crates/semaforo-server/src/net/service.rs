//! What is served: the callbacks of a loop.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use super::Connections;

/// A connection, for as long as it exists; afterwards it names nothing, and everything asked of it
/// is without effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(super) serial: u32,
    pub(super) index: u32,
}

impl ConnectionId {
    /// A small number that no other open connection has. It is given to another one only after
    /// [`Service::closed`] was called for this one, so a service may keep its own state in a
    /// vector.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// The highest bit is never set.
impl From<ConnectionId> for u64 {
    fn from(id: ConnectionId) -> u64 {
        u64::from(id.serial) << 32 | u64::from(id.index)
    }
}

impl From<u64> for ConnectionId {
    fn from(number: u64) -> Self {
        Self { serial: (number >> 32) as u32, index: number as u32 }
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.serial)
    }
}

/// Which of the listeners, as [`Connections::listen`] numbered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub(super) usize);

/// Where a new connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The address of the other end.
    pub address: SocketAddr,
    /// The listener that accepted it.
    pub listener: ListenerId,
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// The stream offset up to which output was taken: what was appended from here on has reached
    /// nobody. With TLS a record counts as taken as soon as the socket has its first byte.
    pub accepted: u64,
    /// Why it is gone.
    pub reason: Reason,
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was finished: all output was taken.
    Finished,
    /// The service, or the end of the loop, has cut it off.
    Aborted,
    /// Reading or writing failed; most often the peer has reset it.
    Failed(io::ErrorKind),
    /// The peer did not take its output in time.
    Stuck,
    /// The service left more input unconsumed than the limit.
    TooMuchInput,
    /// It did not move, and its buffers were needed for others.
    NoBuffers,
    /// What arrived was not TLS as it should be.
    Tls,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Finished => f.write_str("finished"),
            Reason::Aborted => f.write_str("cut off"),
            Reason::Failed(kind) => write!(f, "failed: {kind}"),
            Reason::Stuck => f.write_str("did not take its output in time"),
            Reason::TooMuchInput => f.write_str("too much unconsumed input"),
            Reason::NoBuffers => f.write_str("too slow when all buffers were in use"),
            Reason::Tls => f.write_str("did not speak TLS"),
        }
    }
}

/// The program behind the connections.
///
/// One turn of the loop: wait for sockets; for each that is ready [`opened`](Self::opened),
/// [`received`](Self::received), [`ended`](Self::ended), [`congested`](Self::congested),
/// [`closed`](Self::closed) as it goes; then [`woken`](Self::woken) and
/// [`signalled`](Self::signalled); then [`timed_out`](Self::timed_out); and at last, always,
/// [`turn_ends`](Self::turn_ends), which writes. Callbacks are never nested.
pub trait Service {
    /// A connection was accepted. With TLS it has still to shake hands.
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, peer: Peer) {
        let _ = (net, id, peer);
    }

    /// `input` is everything that has arrived and is not consumed; answers how many bytes of it are
    /// consumed now. Called when bytes arrive, and again after [`Connections::resume`] or when the
    /// peer has taken its output. A service that handles many requests in one call stops early when
    /// [`Connections::wants_input`] says no.
    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize;

    /// The peer will send nothing more after what is there already. Called as soon as it is known,
    /// once, which for a paused connection is before the rest of its input was offered. When all
    /// input was offered and the connection is not paused, it is finished without the service's
    /// doing.
    fn ended(&mut self, net: &mut Connections, id: ConnectionId) {
        let _ = (net, id);
    }

    /// More than the limit waits for the peer although the socket was tried (`true`), or half of it
    /// was taken since (`false`). In between nothing is read from it.
    fn congested(&mut self, net: &mut Connections, id: ConnectionId, congested: bool) {
        let _ = (net, id, congested);
    }

    /// All places are taken, and another client waits for one. A service may
    /// [abort](Connections::abort) a connection for it. Answers when it is to be asked again if
    /// there is still no place; without an answer, when one is free.
    fn crowded(&mut self, net: &mut Connections) -> Option<Instant> {
        let _ = net;
        None
    }

    /// The deadline set with [`Connections::set_deadline`] has passed; it is not set any more.
    fn timed_out(&mut self, net: &mut Connections, id: ConnectionId) {
        net.abort(id);
    }

    /// The connection is gone, whether the service, the peer or a failure has closed it. Called
    /// exactly once for each that was opened.
    fn closed(&mut self, net: &mut Connections, id: ConnectionId, closed: Closed) {
        let _ = (net, id, closed);
    }

    /// A [`Waker`](super::Waker) was used since the last turn.
    fn woken(&mut self, net: &mut Connections) {
        let _ = net;
    }

    /// A signal that was asked for with [`Connections::watch_signal`] has arrived.
    fn signalled(&mut self, net: &mut Connections, signal: i32) {
        let _ = (net, signal);
    }

    /// Accepting failed for want of descriptors or memory, and will be tried again.
    fn accept_failed(&mut self, net: &mut Connections, error: &io::Error) {
        let _ = (net, error);
    }

    /// Everything that was ready has been read. Here is the place to let output go, with
    /// [`Connections::flush`], [`Connections::flush_all`] or [`Connections::flush_to`]. Answers
    /// when it must be called again at the latest.
    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        let _ = now;
        net.flush_all();
        None
    }
}
