//! The loop.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Token};

use super::connection::{Connection, Phase};
use super::connections::{LISTENERS, Notice, SIGNALS, WAKER};
use super::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN, EVENT_ROUNDS, EVENTS};
use super::listener::Accepted;
use super::tls::Session;
use super::{ConnectionId, Connections, ListenerId, Peer, Reason, Service};

/// How often, within a turn, connections are attended to that others have resumed. Beyond that they wait for the
/// next turn: nobody keeps the sockets from being looked at.
const RESUME_ROUNDS: usize = 64;

impl Connections {
    /// Serves until [`Connections::stop`] was called and everybody is gone. An error means that the
    /// operating system would not say which sockets are ready; nothing can be served then.
    pub fn run<S: Service>(&mut self, service: &mut S) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        self.now = Instant::now();
        loop {
            let mut wanted = service.turn_ends(self, self.now);
            // Writing has found connections that are gone; what the service makes of it must be
            // settled before the loop goes to sleep.
            while self.notify(service) {
                wanted = service.turn_ends(self, self.now);
            }
            self.sweep_dirty();
            if self.stop_at.is_some_and(|at| self.slab.is_empty() || at <= self.now) {
                break;
            }
            let all_seen = self.gather(service, &mut events, wanted)?;
            self.attend_all(service);
            self.accept_all(service);
            if all_seen {
                self.expire(service);
            }
        }
        let left: Vec<usize> = self.slab.iter().map(|(index, _)| index).collect();
        for index in left {
            self.close(index, Reason::Aborted);
        }
        if self.notify(service) {
            service.turn_ends(self, self.now);
        }
        Ok(())
    }

    /// Waits for events and notes them. Answers whether all that were there have been seen.
    fn gather<S: Service>(
        &mut self,
        service: &mut S,
        events: &mut Events,
        wanted: Option<Instant>,
    ) -> io::Result<bool> {
        self.statistics.turns += 1;
        self.ready.extend(self.next.drain(..));
        let mut timeout = self.patience(wanted);
        for _ in 0..EVENT_ROUNDS {
            match self.poll.poll(events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
                result => result?,
            }
            self.now = Instant::now();
            let mut count = 0;
            for event in events.iter() {
                count += 1;
                self.note(service, event);
            }
            if count < EVENTS {
                return Ok(true);
            }
            timeout = Some(Duration::ZERO);
        }
        Ok(false)
    }

    /// How long to wait for events.
    fn patience(&self, wanted: Option<Instant>) -> Option<Duration> {
        let room = self.slab.len() < self.limits.connections;
        let accepting = |retry: bool| {
            self.listeners.iter().filter(move |listener| {
                room && listener.ready && listener.retry_at.is_some() == retry
            })
        };
        if !self.ready.is_empty() || accepting(false).next().is_some() {
            return Some(Duration::ZERO);
        }
        let retry = accepting(true).filter_map(|listener| listener.retry_at).min();
        let until =
            [wanted, self.deadlines.next(), self.stop_at, retry].into_iter().flatten().min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    fn note<S: Service>(&mut self, service: &mut S, event: &Event) {
        match event.token().0 {
            WAKER => {
                if self.waker.shared.pending.swap(false, Ordering::AcqRel) {
                    service.woken(self);
                    self.notify(service);
                }
            }
            token if token >= SIGNALS => {
                let Some(signal) = self.signals.get_mut(token - SIGNALS) else { return };
                let number = signal.number;
                if signal.arrived() {
                    service.signalled(self, number);
                    self.notify(service);
                }
            }
            token if token >= LISTENERS => {
                if let Some(listener) = self.listeners.get_mut(token - LISTENERS) {
                    listener.ready = true;
                }
            }
            index => self.note_connection(service, index, event),
        }
    }

    /// An event may be about an earlier connection with the same index; it does no harm then, since only a
    /// read or a write decides what is true.
    fn note_connection<S: Service>(&mut self, service: &mut S, index: usize, event: &Event) {
        let Some(connection) = self.slab.get_mut(index) else { return };
        if event.is_error()
            && let Ok(Some(error)) = connection.stream.take_error()
        {
            self.close(index, Reason::Failed(error.kind()));
            self.notify(service);
            return;
        }
        if event.is_readable() || event.is_read_closed() {
            connection.readable = true;
            connection.fin |= event.is_read_closed();
            self.list(index);
        }
        if event.is_writable()
            && let Some(connection) = self.slab.get_mut(index)
            && !connection.writable
        {
            connection.writable = true;
            self.pump(index);
            self.notify(service);
        }
    }

    /// Tells the service what was found out meanwhile; answers whether there was anything.
    fn notify<S: Service>(&mut self, service: &mut S) -> bool {
        let mut any = false;
        while let Some(notice) = self.notices.pop_front() {
            any = true;
            match notice {
                Notice::Closed(id, closed) => service.closed(self, id, closed),
                Notice::Congested(id, congested) => {
                    if self.get(id).is_some() {
                        service.congested(self, id, congested);
                    }
                }
            }
        }
        any
    }

    fn attend_all<S: Service>(&mut self, service: &mut S) {
        for _ in 0..RESUME_ROUNDS {
            if self.ready.is_empty() {
                return;
            }
            for _ in 0..self.ready.len() {
                let Some(index) = self.ready.pop_front() else { return };
                self.attend(service, index);
                self.notify(service);
            }
        }
    }

    /// Moves the input of a connection on: what was kept, then what the socket has, then its end.
    fn attend<S: Service>(&mut self, service: &mut S, index: usize) {
        let limit = self.limits.output;
        let Some(connection) = self.slab.get_mut(index) else { return };
        connection.listed = false;
        if connection.phase == Phase::Lingering {
            return self.discard(index);
        }
        let id = connection.id(index);
        if connection.again && connection.wants_input(limit) {
            connection.again = false;
            if connection.has_input() {
                self.offer_kept(service, id);
            }
        }
        self.read(service, id);
        let Some(connection) = self.get_mut(id) else { return };
        let waits = !connection.wants_input(limit);
        if (connection.at_end || connection.fin && waits) && !connection.told_end {
            connection.told_end = true;
            service.ended(self, id);
        }
        if let Some(connection) = self.get(id)
            && connection.at_end
            && !connection.again
            && connection.wants_input(limit)
        {
            self.finish(id);
        }
    }

    /// Reads what the socket has, up to one full buffer a turn, and offers it.
    fn read<S: Service>(&mut self, service: &mut S, id: ConnectionId) {
        let (turn, limit) = (self.statistics.turns, self.limits.output);
        loop {
            let Some(connection) = self.slab.get_mut(id.index()) else { return };
            if connection.serial != id.serial
                || !connection.readable
                || connection.at_end
                || !connection.wants_input(limit)
            {
                return;
            }
            if connection.had_its_share == turn {
                if !connection.listed {
                    connection.listed = true;
                    self.next.push(id.index());
                }
                return;
            }
            match connection.read(&mut self.buffer) {
                Ok(Some(0)) => {
                    connection.readable = false;
                    connection.at_end = true;
                    return;
                }
                Ok(Some(count)) => {
                    if count == self.buffer.len() {
                        connection.had_its_share = turn;
                    } else {
                        // A read that comes up short has emptied the socket, and whatever comes
                        // after it is a new event. Only the end may already have been announced.
                        connection.readable = connection.fin;
                    }
                    self.statistics.read += count as u64;
                    self.arrived(service, id, count);
                }
                Ok(None) => {
                    connection.readable = false;
                    return;
                }
                Err(error) => return self.close(id.index(), Reason::Failed(error.kind())),
            }
        }
    }

    /// So many bytes are in the shared buffer: decrypts them if need be, and offers them.
    fn arrived<S: Service>(&mut self, service: &mut S, id: ConnectionId, count: usize) {
        let Some(connection) = self.slab.get_mut(id.index()) else { return };
        let Some(tls) = &mut connection.tls else {
            let buffer = std::mem::take(&mut self.buffer);
            self.offer(service, id, buffer.get(..count).unwrap_or_default());
            self.buffer = buffer;
            return;
        };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        match tls.decrypt(self.buffer.get(..count).unwrap_or_default(), &mut plain) {
            Ok(ended) => {
                connection.at_end |= ended;
                // Shaking hands is not the service's business.
                self.pump(id.index());
                if !plain.is_empty() {
                    self.offer(service, id, &plain);
                }
            }
            Err(_) => {
                tls.write_alert(&mut connection.stream);
                self.close(id.index(), Reason::Tls);
            }
        }
        self.plain = plain;
    }

    /// Offers new input, together with what was kept.
    fn offer<S: Service>(&mut self, service: &mut S, id: ConnectionId, input: &[u8]) {
        let Some(connection) = self.slab.get_mut(id.index()) else { return };
        if connection.has_input() {
            connection.keep(input, &mut self.buffers);
            return self.offer_kept(service, id);
        }
        let consumed = service.received(self, id, input);
        let rest = input.get(consumed..).unwrap_or_default();
        if let Some(connection) = self.slab.get_mut(id.index())
            && connection.serial == id.serial
            && connection.phase == Phase::Open
        {
            if !rest.is_empty() {
                connection.keep(rest, &mut self.buffers);
            }
            self.offered(id);
        }
    }

    /// Offers what was kept.
    fn offer_kept<S: Service>(&mut self, service: &mut S, id: ConnectionId) {
        let Some(connection) = self.get_mut(id) else { return };
        let start = connection.input_start;
        let input = std::mem::take(&mut connection.input);
        let offered = input.get(start..).unwrap_or_default();
        let consumed = service.received(self, id, offered).min(offered.len());
        match self.slab.get_mut(id.index()) {
            Some(connection)
                if connection.serial == id.serial
                    && connection.phase == Phase::Open
                    && consumed < offered.len() =>
            {
                connection.input = input;
                connection.input_start = start + consumed;
            }
            Some(connection) if connection.serial == id.serial => {
                connection.input_start = 0;
                self.buffers.put(input);
            }
            _ => self.buffers.put(input),
        }
        self.offered(id);
    }

    /// After input was offered: a service that stopped because it had to must be asked again.
    fn offered(&mut self, id: ConnectionId) {
        let (limit, most) = (self.limits.output, self.limits.input);
        let Some(connection) = self.get_mut(id) else { return };
        connection.again |= !connection.wants_input(limit);
        if connection.input.len() - connection.input_start > most {
            self.close(id.index(), Reason::TooMuchInput);
        }
    }

    /// Reads and forgets, for a connection that is finished and waits for its peer to close.
    fn discard(&mut self, index: usize) {
        let Some(connection) = self.slab.get_mut(index) else { return };
        if !connection.readable {
            return;
        }
        match connection.read(&mut self.buffer) {
            Ok(None) => connection.readable = false,
            Ok(Some(count)) if count > 0 => {
                connection.listed = true;
                self.next.push(index);
            }
            _ => self.close(index, Reason::Finished),
        }
    }

    /// Accepts while there is room.
    fn accept_all<S: Service>(&mut self, service: &mut S) {
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

    fn open_connection(
        &mut self,
        mut stream: mio::net::TcpStream,
        peer: Peer,
    ) -> io::Result<ConnectionId> {
        let config = self.listeners.get(peer.listener.0).and_then(|listener| listener.tls.clone());
        let tls = config.map(Session::new).transpose().map_err(io::Error::other)?;
        let entry = self.slab.vacant_entry();
        let index = entry.key();
        // Both interests once and for all: edges cost nothing while nothing changes.
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(index), interest)?;
        self.last_serial = self.last_serial.wrapping_add(1);
        let connection = entry.insert(Connection::new(stream, tls, self.last_serial));
        self.statistics.accepted += 1;
        Ok(connection.id(index))
    }

    /// Acts on deadlines that have passed.
    fn expire<S: Service>(&mut self, service: &mut S) {
        let now = self.now;
        while let Some((at, id)) = self.deadlines.pop(now) {
            let Some(connection) = self.slab.get_mut(id.index()) else { continue };
            if connection.serial != id.serial
                || !self.deadlines.settle(at, id, &mut connection.timer, now)
            {
                continue;
            }
            if connection.timer.layer.is_some_and(|deadline| deadline <= now) {
                self.close(id.index(), Reason::Stuck);
            } else {
                connection.timer.service = None;
                self.deadlines.enter(id, &mut connection.timer);
                service.timed_out(self, id);
            }
            self.notify(service);
        }
    }
}
