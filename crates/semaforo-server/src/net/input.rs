//! Input: read by the layer, offered to the service, consumed by the service.

use super::connection::Phase;
use super::{ConnectionId, Connections, Reason, Service};

/// How often, within a turn, connections are attended to that others have resumed. Beyond that they
/// wait for the next turn: no connection keeps the sockets from being looked at.
const RESUME_ROUNDS: usize = 64;

impl Connections {
    /// Attends to all connections whose input can move.
    pub(super) fn attend_all<S: Service>(&mut self, service: &mut S) {
        for _ in 0..RESUME_ROUNDS {
            if self.ready.is_empty() {
                return;
            }
            for _ in 0..self.ready.len() {
                let Some(index) = self.ready.pop_front() else { return };
                self.attend(service, index);
                self.recount(index);
                self.notify(service);
            }
        }
    }

    /// Moves the input of a connection on: what was kept, then what the socket has, then its end.
    fn attend<S: Service>(&mut self, service: &mut S, index: usize) {
        let (turn, limit) = (self.statistics.turns, self.limits.output);
        let Some(connection) = self.slab.get_mut(index) else { return };
        connection.listed = false;
        if connection.phase == Phase::Lingering {
            return self.discard(index);
        }
        let id = connection.id(index);
        if connection.again && connection.wants_input(limit) && !connection.rests(turn) {
            connection.again = false;
            if connection.has_input() {
                self.offer_kept(service, id);
            }
        }
        self.read(service, id);
        let Some(connection) = self.get_mut(id) else { return };
        if connection.again && connection.rests(turn) && connection.wants_input(limit) {
            // It is on the list for the next turn: its end is told when all its input was offered.
            return self.rest(id);
        }
        let waits = !connection.wants_input(limit) || connection.squeezed;
        if (connection.at_end || connection.fin && waits) && !connection.told_end {
            connection.told_end = true;
            service.ended(self, id);
        }
        let Some(connection) = self.get_mut(id) else { return };
        if connection.is_served(limit) {
            return self.finish(id);
        }
        if !connection.at_end {
            return;
        }
        if !connection.wants_input(limit) {
            // No event will tell again that it has ended.
            connection.again = true;
        } else if !connection.again {
            self.finish(id);
        }
    }

    /// Reads what the socket has, up to one full buffer a turn, and offers it.
    fn read<S: Service>(&mut self, service: &mut S, id: ConnectionId) {
        let (turn, limit) = (self.statistics.turns, self.limits.output);
        loop {
            let Some(connection) = self.slab.get_mut(id.index()) else { return };
            if connection.serial != id.serial || !connection.readable || connection.at_end {
                return;
            }
            if !connection.wants_input(limit) {
                // No event will tell again that there is something to read.
                connection.again = true;
                return;
            }
            if connection.rests(turn) {
                if !connection.listed {
                    connection.listed = true;
                    self.next.push(id.index());
                }
                return;
            }
            self.recount(id.index());
            if self.is_squeezed(id.index()) {
                if let Some(connection) = self.get_mut(id) {
                    connection.again = true;
                }
                return;
            }
            let Some(connection) = self.slab.get_mut(id.index()) else { return };
            match connection.read(&mut self.buffer) {
                Ok(Some(0)) => {
                    connection.readable = false;
                    connection.at_end = true;
                    return;
                }
                Ok(Some(count)) => {
                    connection.moved = self.now;
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
}
