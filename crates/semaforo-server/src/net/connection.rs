//! One connection: its socket, its two buffers and where it is in its life.

use std::io::{self, Read, Write};
use std::time::Instant;

use mio::net::TcpStream;

use super::ConnectionId;
use super::buffers::Buffers;
use super::deadlines::Timer;
use super::tls::Session;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Read from and written to.
    Open,
    /// Nothing is read any more; closed once all output is taken.
    Finishing,
    /// The service was told that it is closed; input is thrown away until the peer closes, too.
    Lingering,
}

/// One connection. The service owns the decision what is appended and released, the layer
/// everything else.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) tls: Option<Box<Session>>,
    pub(super) serial: u32,
    pub(super) phase: Phase,

    /// The socket may have something to read: an event said so, and no read has come up short
    /// since.
    pub(super) readable: bool,
    /// The socket may have room: set by an event, cleared by a write that came up short.
    pub(super) writable: bool,
    /// An event said that the peer has sent its FIN; input may be left before it.
    pub(super) fin: bool,
    /// The FIN was reached: there is no more input.
    pub(super) at_end: bool,
    /// The service knows that the peer sends no more.
    pub(super) told_end: bool,
    /// The service does not want input at the moment.
    pub(super) paused: bool,
    /// Too much output waits although the socket was tried; the service knows.
    pub(super) congested: bool,
    /// To be attended to as soon as it wants input, though no event will say so: there is kept
    /// input to offer again, or a socket that was not read.
    pub(super) again: bool,
    /// In one of the lists of connections to attend to.
    pub(super) listed: bool,
    /// In the list of connections with output that was not flushed.
    pub(super) dirty: bool,
    /// Opened after accepting was to stop: it ends with its first answer.
    pub(super) late: bool,
    /// The turn in which it last had as much attention as one connection may have.
    pub(super) had_its_share: u64,

    /// Input that was offered and not consumed, from `input_start`.
    pub(super) input: Vec<u8>,
    pub(super) input_start: usize,

    /// Output not taken, from `output_start`.
    pub(super) output: Vec<u8>,
    pub(super) output_start: usize,
    /// The stream offset of the first byte of `output`.
    output_base: u64,
    /// The stream offset up to which output may be written.
    pub(super) released: u64,

    /// Bytes of its buffers, as the budget knows them.
    pub(super) counted: usize,
    /// Bytes that the service keeps of its input.
    pub(super) charged: usize,
    /// When something was last read, or taken by the peer.
    pub(super) moved: Instant,
    /// Not read from because of what buffers have together; it is on the list of those.
    pub(super) squeezed: bool,

    pub(super) timer: Timer,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<Box<Session>>,
        serial: u32,
        now: Instant,
    ) -> Self {
        Self {
            stream,
            tls,
            serial,
            phase: Phase::Open,
            readable: false,
            writable: true,
            fin: false,
            at_end: false,
            told_end: false,
            paused: false,
            congested: false,
            again: false,
            listed: false,
            dirty: false,
            late: false,
            had_its_share: 0,
            input: Vec::new(),
            input_start: 0,
            output: Vec::new(),
            output_start: 0,
            output_base: 0,
            released: 0,
            counted: 0,
            charged: 0,
            moved: now,
            squeezed: false,
            timer: Timer::default(),
        }
    }

    pub(super) fn id(&self, index: usize) -> ConnectionId {
        ConnectionId { serial: self.serial, index: index as u32 }
    }

    /// The stream offset of the next byte that the service appends.
    pub(super) fn queued(&self) -> u64 {
        self.output_base + self.output.len() as u64
    }

    /// The stream offset up to which output was taken.
    pub(super) fn accepted(&self) -> u64 {
        let encrypted = self.tls.as_ref().map_or(0, |tls| tls.unsent());
        self.output_base + self.output_start as u64 - encrypted as u64
    }

    /// Bytes of its buffers now.
    pub(super) fn buffered(&self) -> usize {
        self.input.capacity() + self.output.capacity() + self.charged
    }

    pub(super) fn unsent(&self) -> usize {
        (self.queued() - self.accepted()) as usize
    }

    /// Whether there is something that may be written.
    pub(super) fn wants_write(&self) -> bool {
        self.output_base + (self.output_start as u64) < self.released
            || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether input may be read and offered, with so much output at most unsent.
    pub(super) fn wants_input(&self, limit: usize) -> bool {
        self.phase == Phase::Open && !self.paused && !self.congested && self.unsent() <= limit
    }

    /// Whether it has had its share of this turn.
    pub(super) fn rests(&self, turn: u64) -> bool {
        self.had_its_share == turn
    }

    /// Whether it is late, has an answer, and has nothing left to be answered.
    pub(super) fn is_served(&self, limit: usize) -> bool {
        self.late
            && self.queued() > 0
            && self.wants_input(limit)
            && !self.again
            && !self.readable
            && !self.has_input()
    }

    pub(super) fn has_input(&self) -> bool {
        self.input_start < self.input.len()
    }

    /// Adds to the kept input. Consumed input is moved out of the way only when it is the larger
    /// part, so that every byte is moved about once.
    pub(super) fn keep(&mut self, bytes: &[u8], buffers: &mut Buffers) {
        if self.input.capacity() == 0 {
            self.input = buffers.take();
        }
        if self.input_start >= self.input.len() - self.input_start {
            self.input.drain(..self.input_start);
            self.input_start = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    pub(super) fn drop_input(&mut self, buffers: &mut Buffers) {
        self.input_start = 0;
        buffers.put(std::mem::take(&mut self.input));
    }

    /// Reads once. `None`: there is nothing at the moment.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes what is released, as far as the socket takes it.
    pub(super) fn write(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        let end = (self.released - self.output_base) as usize;
        if let Some(tls) = &mut self.tls {
            let output = self.output.get(..end).unwrap_or_default();
            tls.write(&mut self.stream, output, &mut self.output_start, &mut self.writable)?;
        } else {
            while self.writable {
                let output = self.output.get(self.output_start..end).unwrap_or_default();
                if output.is_empty() {
                    break;
                }
                match self.stream.write(output) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        self.writable = count == output.len();
                        self.output_start += count;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.writable = false;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.tidy_output(buffers);
        Ok(())
    }

    /// Gives an empty buffer back, and moves taken output out of the way when it is the larger
    /// part.
    fn tidy_output(&mut self, buffers: &mut Buffers) {
        if self.output_start < self.output.len() - self.output_start {
            return;
        }
        self.output_base += self.output_start as u64;
        if self.output_start == self.output.len() {
            buffers.put(std::mem::take(&mut self.output));
        } else {
            self.output.drain(..self.output_start);
        }
        self.output_start = 0;
    }

    /// Sets when the peer must have taken something. While it is congested taking a little is not
    /// enough to move it.
    pub(super) fn watch_output(&mut self, progress: bool, limit: Instant) {
        if !self.wants_write() {
            self.timer.layer = None;
        } else if self.timer.layer.is_none() || (progress && !self.congested) {
            self.timer.layer = Some(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_costs_little() {
        let size = size_of::<Connection>();
        assert!(size <= 256, "{size} bytes; ten thousand of them should stay below 3 MB");
    }
}
