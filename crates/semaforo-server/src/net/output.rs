//! Output: appended by the service, released by the service, written by the layer.

use std::net::Shutdown;

use super::connection::{Connection, Phase};
use super::connections::Notice;
use super::{Closed, ConnectionId, Connections, Reason, limits};

impl Connections {
    /// Where output is appended, and only that. Nothing of it is written before a flush. For a
    /// connection that is gone, what is appended goes nowhere.
    pub fn output(&mut self, id: ConnectionId) -> &mut Vec<u8> {
        match self.slab.get_mut(id.index()) {
            Some(connection)
                if connection.serial == id.serial && connection.phase != Phase::Lingering =>
            {
                if connection.output.capacity() == 0 {
                    connection.output = self.buffers.take();
                }
                if !connection.dirty {
                    connection.dirty = true;
                    self.dirty.push(id);
                }
                &mut connection.output
            }
            _ => {
                self.nowhere.clear();
                &mut self.nowhere
            }
        }
    }

    /// Appends to the output.
    pub fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.output(id).extend_from_slice(bytes);
    }

    /// The stream offset of the next byte of output, counted from the beginning of the connection.
    pub fn queued(&self, id: ConnectionId) -> Option<u64> {
        self.get(id).map(Connection::queued)
    }

    /// The stream offset up to which output was taken by the socket.
    pub fn accepted(&self, id: ConnectionId) -> Option<u64> {
        self.get(id).map(Connection::accepted)
    }

    /// How many bytes of output wait for the socket to take them.
    pub fn unsent(&self, id: ConnectionId) -> usize {
        self.get(id).map_or(0, Connection::unsent)
    }

    /// Lets everything go that was appended so far, and writes as much as the socket takes; the
    /// rest follows by itself.
    pub fn flush(&mut self, id: ConnectionId) {
        self.flush_to(id, u64::MAX);
    }

    /// Lets output go up to a stream offset, and writes as much as the socket takes; the rest, up
    /// to there, follows by itself.
    pub fn flush_to(&mut self, id: ConnectionId, offset: u64) {
        if let Some(connection) = self.get_mut(id) {
            let queued = connection.queued();
            connection.released = connection.released.max(offset.min(queued));
            connection.dirty &= offset < queued;
            self.pump(id.index());
        }
    }

    /// Flushes every connection that was appended to since its last flush.
    pub fn flush_all(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            if self.get(id).is_some_and(|connection| connection.dirty) {
                self.flush(id);
            }
        }
        self.dirty = dirty;
    }

    /// Forgets about those that were flushed one by one.
    pub(super) fn sweep_dirty(&mut self) {
        if !self.dirty.is_empty() {
            let mut dirty = std::mem::take(&mut self.dirty);
            dirty.retain(|&id| {
                let is_dirty = self.get(id).is_some_and(|connection| connection.dirty);
                if is_dirty {
                    self.recount(id.index());
                }
                is_dirty
            });
            self.dirty = dirty;
        }
    }

    /// Writes what may be written, and draws the conclusions.
    pub(super) fn pump(&mut self, index: usize) {
        let Some(connection) = self.slab.get_mut(index) else { return };
        let id = connection.id(index);
        let tried = connection.writable && connection.wants_write();
        let before = connection.accepted();
        if tried && let Err(error) = connection.write(&mut self.buffers) {
            return self.close(index, Reason::Failed(error.kind()));
        }
        self.recount(index);
        let Some(connection) = self.slab.get_mut(index) else { return };
        let taken = connection.accepted() - before;
        if taken > 0 {
            connection.moved = self.now;
        }
        self.statistics.written += taken;
        let unsent = connection.unsent();
        let limit = self.limits.output;
        if !connection.congested && unsent > limit && !connection.writable {
            connection.congested = true;
            self.notices.push_back(Notice::Congested(id, true));
        } else if connection.congested && unsent <= limit / 2 {
            connection.congested = false;
            self.notices.push_back(Notice::Congested(id, false));
        }
        if tried {
            connection.watch_output(taken > 0, self.now + self.limits.stuck);
            self.deadlines.enter(id, &mut connection.timer);
        }
        let drained = unsent == 0 && !connection.wants_write();
        if connection.phase == Phase::Finishing && drained {
            self.shut(index);
        } else if connection.again && connection.wants_input(limit) {
            self.list(index);
        }
    }

    /// All output was taken: says so to the peer, and waits a moment for it to do the same.
    fn shut(&mut self, index: usize) {
        let Some(connection) = self.slab.get_mut(index) else { return };
        if let Some(tls) = &mut connection.tls {
            tls.close(&mut connection.stream);
        }
        // With nothing left to read, closing cannot overtake the last output. On the way out of the
        // process that is good enough; otherwise input may still be on its way.
        let nothing_left =
            self.stop_at.is_some() && !matches!(connection.read(&mut [0; 4096]), Ok(Some(1..)));
        if connection.at_end || nothing_left || connection.stream.shutdown(Shutdown::Write).is_err()
        {
            return self.close(index, Reason::Finished);
        }
        let id = connection.id(index);
        let closed = Closed { accepted: connection.accepted(), reason: Reason::Finished };
        self.notices.push_back(Notice::Closed(id, closed));
        connection.phase = Phase::Lingering;
        self.lingering += 1;
        connection.drop_input(&mut self.buffers);
        connection.charged = 0;
        connection.timer.service = None;
        connection.timer.layer = Some(self.now + limits::LINGER);
        self.deadlines.enter(id, &mut connection.timer);
        self.recount(index);
        self.list(index);
    }
}
