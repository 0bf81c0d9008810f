//! The connections of a loop, and what a service may ask of them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Poll, Token};
use rustls::ServerConfig;
use slab::Slab;

use super::budget::Pressure;
use super::buffers::Buffers;
use super::connection::{Connection, Phase};
use super::deadlines::Deadlines;
use super::limits::{self, Limits};
use super::listener::{self, Listener};
use super::signals::Signal;
use super::{Closed, ConnectionId, ListenerId, Reason, Waker};

/// Tokens below are connections, by their index.
pub(super) const LISTENERS: usize = usize::MAX / 2;
pub(super) const SIGNALS: usize = LISTENERS + (usize::MAX / 4);
pub(super) const WAKER: usize = usize::MAX;

/// What the service has still to be told: it may be found out while the service itself is running.
#[derive(Debug)]
pub(super) enum Notice {
    Closed(ConnectionId, Closed),
    Congested(ConnectionId, bool),
}

/// Counts since the start, and what is open now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Connections open now, including those that linger for a moment after their end.
    pub open: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written, without what TLS adds.
    pub written: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Bytes of buffers now, of all loops with the same budget.
    pub buffered: u64,
}

/// All connections of one loop. A service gets it with every callback.
pub struct Connections {
    pub(super) poll: Poll,
    pub(super) waker: Waker,
    pub(super) limits: Limits,
    pub(super) listeners: Vec<Listener>,
    pub(super) signals: Vec<Signal>,
    pub(super) slab: Slab<Connection>,
    /// How many of them are closed, and only listened to for a moment.
    pub(super) lingering: usize,
    pub(super) last_serial: u32,
    pub(super) deadlines: Deadlines,
    pub(super) buffers: Buffers,
    /// What a socket is read into; lent to the service while it looks at it.
    pub(super) buffer: Vec<u8>,
    /// What TLS decrypts into; lent in the same way.
    pub(super) plain: Vec<u8>,
    /// Connections to attend to in this turn, by index.
    pub(super) ready: VecDeque<usize>,
    /// Connections that had their share in this turn, and have more.
    pub(super) next: Vec<usize>,
    /// Connections with output that was not flushed.
    pub(super) dirty: Vec<ConnectionId>,
    pub(super) notices: VecDeque<Notice>,
    /// Takes what is appended for a connection that is gone.
    pub(super) nowhere: Vec<u8>,
    /// Bytes of the buffers of all connections of this loop.
    pub(super) buffered: usize,
    /// Connections that are not read from because buffers have too much together.
    pub(super) squeezed: Vec<ConnectionId>,
    /// When these are looked at again, whatever happens.
    pub(super) squeezed_until: Instant,
    /// When it is looked again for connections that do not move, unless all is used.
    pub(super) relief_at: Instant,
    /// How full the budget of buffers was at the beginning of this turn.
    pub(super) pressure: Pressure,
    pub(super) now: Instant,
    pub(super) stop_at: Option<Instant>,
    /// Accepting has stopped but for what the system had accepted before; what is left of that is
    /// given up then.
    pub(super) accepts_until: Option<Instant>,
    /// All places are taken, and the service is asked again then whether it can free one.
    pub(super) crowded_at: Option<Instant>,
    /// An event of this turn said that the waker was used.
    pub(super) woken: bool,
    /// An event of this turn said that a signal has come.
    pub(super) signalled: bool,
    pub(super) statistics: Statistics,
}

impl Connections {
    /// No connections, and no listener yet.
    pub fn new(limits: Limits) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), Token(WAKER))?;
        Ok(Self {
            poll,
            waker,
            limits,
            listeners: Vec::new(),
            signals: Vec::new(),
            slab: Slab::new(),
            lingering: 0,
            last_serial: 0,
            deadlines: Deadlines::default(),
            buffers: Buffers::default(),
            buffer: vec![0; limits::READ_BUFFER],
            plain: Vec::new(),
            ready: VecDeque::new(),
            next: Vec::new(),
            dirty: Vec::new(),
            notices: VecDeque::new(),
            nowhere: Vec::new(),
            buffered: 0,
            squeezed: Vec::new(),
            squeezed_until: Instant::now(),
            relief_at: Instant::now(),
            pressure: Pressure::default(),
            now: Instant::now(),
            stop_at: None,
            accepts_until: None,
            crowded_at: None,
            woken: false,
            signalled: false,
            statistics: Statistics::default(),
        })
    }

    /// Accepts connections from a bound socket (see [`bind`](super::bind)), which then speak TLS if
    /// a configuration for it is given.
    pub fn listen(
        &mut self,
        socket: TcpListener,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<ListenerId> {
        let mut socket = listener::prepare(socket)?;
        let number = self.listeners.len();
        self.poll.registry().register(
            &mut socket,
            Token(LISTENERS + number),
            Interest::READABLE,
        )?;
        self.listeners.push(Listener { socket, tls, ready: true, retry_at: None });
        Ok(ListenerId(number))
    }

    /// Has [`Service::signalled`](super::Service::signalled) called when this signal arrives,
    /// instead of what it does otherwise.
    pub fn watch_signal(&mut self, signal: i32) -> io::Result<()> {
        let mut signal = Signal::watch(signal)?;
        let token = Token(SIGNALS + self.signals.len());
        self.poll.registry().register(&mut signal.pipe, token, Interest::READABLE)?;
        self.signals.push(signal);
        Ok(())
    }

    /// Something for other threads to wake this loop with.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// When this turn began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The limits given at the start.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What has been counted so far.
    pub fn statistics(&self) -> Statistics {
        let buffered = self.limits.buffers.used() as u64;
        Statistics { open: self.slab.len() as u64, buffered, ..self.statistics }
    }

    /// The address of the other end, if it is still there.
    pub fn peer_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.get(id)?.stream.peer_addr().ok()
    }

    /// Whether the next request may be handled now: not when the connection is paused, has too much
    /// unsent output, or is finishing.
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.wants_input(self.limits.output))
    }

    /// Whether the peer has said that it will send nothing more than what is there already.
    pub fn has_ended(&self, id: ConnectionId) -> bool {
        self.get(id).is_none_or(|connection| connection.told_end)
    }

    /// Whether the socket may have more than was read: the connection's share of a turn is bounded.
    /// Not of one that is not read from for what it has in its buffers.
    pub fn has_more(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.readable && !connection.squeezed)
    }

    /// Neither reads nor offers input until it is resumed.
    pub fn pause(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.paused = true;
        }
    }

    /// Goes on after a pause; unconsumed input is offered again, in this turn, after the callback
    /// that asked for it.
    pub fn resume(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.paused = false;
            connection.again = true;
            self.list(id.index());
        }
    }

    /// It had its share of this turn: the input that is left is offered again in the next one,
    /// after all others had theirs.
    pub fn rest(&mut self, id: ConnectionId) {
        let turn = self.statistics.turns;
        if let Some(connection) = self.get_mut(id) {
            connection.had_its_share = turn;
            connection.again = true;
            if !std::mem::replace(&mut connection.listed, true) {
                self.next.push(id.index());
            }
        }
    }

    /// Reads no more, and closes the connection when all its output was released and taken.
    pub fn finish(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.phase = Phase::Finishing;
            self.pump(id.index());
        }
    }

    /// Closes the connection at once, whatever waits.
    pub fn abort(&mut self, id: ConnectionId) {
        if self.get(id).is_some() {
            self.close(id.index(), Reason::Aborted);
        }
    }

    /// Has [`Service::timed_out`](super::Service::timed_out) called at this time, or never.
    pub fn set_deadline(&mut self, id: ConnectionId, deadline: Option<Instant>) {
        if let Some(connection) = self.slab.get_mut(id.index())
            && connection.serial == id.serial
            && connection.phase != Phase::Lingering
        {
            connection.timer.service = deadline;
            self.deadlines.enter(id, &mut connection.timer);
        }
    }

    /// Closes the listening sockets; open connections stay. Connections that the system has
    /// accepted by now are opened first, as places come free, within this time: closing a listening
    /// socket resets those. Each is finished when it has an answer, or has been silent for
    /// [a moment](limits::MOMENT).
    pub fn stop_accepting(&mut self, within: Duration) {
        let until = self.now + within;
        if let Some(earlier) = self.accepts_until {
            self.accepts_until = Some(earlier.min(until));
            return;
        }
        self.accepts_until = Some(until);
        // The service is not asked for places any more: they come free one by one.
        self.crowded_at = None;
        for listener in &mut self.listeners {
            listener.take_no_more();
            listener.ready = listener.has_waiting();
        }
        self.close_listeners();
    }

    /// Whether connections may still be opened.
    pub fn is_accepting(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Closes the listening sockets if accepting is to stop and nothing waits there, or has waited
    /// too long.
    pub(super) fn close_listeners(&mut self) {
        let none_waits = self.listeners.iter().all(|listener| !listener.ready);
        if self.accepts_until.is_some_and(|until| none_waits || until <= self.now) {
            self.listeners.clear();
        }
    }

    /// Ends the loop: accepting [stops](Self::stop_accepting), all connections are finished, and
    /// connections that have not taken their output within this time are cut off. The callbacks go
    /// on until then.
    pub fn stop(&mut self, within: Duration) {
        self.stop_accepting(within);
        let stop_at = self.now + within;
        self.stop_at = Some(self.stop_at.map_or(stop_at, |earlier| earlier.min(stop_at)));
        let open: Vec<ConnectionId> = self.open().collect();
        for id in open {
            // One that is late is finished after its first answer.
            if self.get(id).is_some_and(|connection| !connection.late) {
                self.finish(id);
            }
        }
    }

    /// Those that are open now.
    pub fn open(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.slab
            .iter()
            .filter(|(_, connection)| connection.phase != Phase::Lingering)
            .map(|(index, connection)| connection.id(index))
    }

    /// How many are open now.
    pub fn open_count(&self) -> usize {
        let count = self.slab.len() - self.lingering;
        debug_assert_eq!(count, self.open().count());
        count
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.slab.get(id.index()).filter(|connection| {
            connection.serial == id.serial && connection.phase != Phase::Lingering
        })
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slab.get_mut(id.index()).filter(|connection| {
            connection.serial == id.serial && connection.phase != Phase::Lingering
        })
    }

    /// Puts a connection on the list of those to attend to in this turn.
    pub(super) fn list(&mut self, index: usize) {
        if let Some(connection) = self.slab.get_mut(index)
            && !connection.listed
        {
            connection.listed = true;
            self.ready.push_back(index);
        }
    }

    /// Lets go of a connection.
    pub(super) fn close(&mut self, index: usize, reason: Reason) {
        let Some(mut connection) = self.slab.try_remove(index) else { return };
        if connection.phase == Phase::Lingering {
            self.lingering -= 1;
        } else {
            let closed = Closed { accepted: connection.accepted(), reason };
            self.notices.push_back(Notice::Closed(connection.id(index), closed));
        }
        self.discount(connection.counted);
        connection.drop_input(&mut self.buffers);
        self.buffers.put(std::mem::take(&mut connection.output));
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("open", &self.slab.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
