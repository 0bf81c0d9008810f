//! A snapshot: events that rebuild a state, in pieces with a checksum each.
//!
//! ```text
//! heading                             64 bytes
//! length u32, sum u32, events ...     as often as needed, each with whole events
//! 0 u32, sum u32, pieces u64          the end
//! ```
//!
//! A piece's checksum is seeded like a batch's and covers its number, so that none can be left out
//! or exchanged.

use std::io;

use super::{
    Disk, DiskFile, Fold, MAXIMUM_BATCH, OpenError, Position,
    batch::Seal,
    heading::{HEADING, Heading, Kind},
    names,
    worker::Cancelled,
};

/// A piece is written when it has this size.
const PIECE: usize = 256 << 10;

/// How much may wait for the disk at once, so that the main thread's syncs do not wait long behind
/// it.
const UNSYNCED: u64 = 1 << 20;

/// Before each piece: its length and its sum.
const PIECE_HEADER: usize = 8;

/// What a snapshot stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Covered {
    pub(super) identity: u64,
    /// The last segment in it.
    pub(super) segment: u64,
    /// The last batch in it.
    pub(super) position: Position,
    pub(super) time: u64,
}

/// Writes a snapshot under its unfinished name and syncs it; says how big it is.
pub(super) fn write<D: Disk, F: Fold>(
    disk: &D,
    covered: Covered,
    state: &F,
    cancelled: &Cancelled,
) -> io::Result<u64> {
    let Covered { identity, segment: number, position, time } = covered;
    let file = disk.create(&names::unfinished(&names::snapshot(number)))?;
    let heading = Heading { kind: Kind::Snapshot, identity, number, size: 0, position, time };
    let mut writer = Writer {
        file,
        seal: Seal::new(identity, number),
        buffer: heading.write().to_vec(),
        piece: HEADING,
        pieces: 0,
        written: 0,
        synced: 0,
        cancelled,
    };
    writer.begin_piece();
    state.dump(&mut |events| writer.add(events))?;
    writer.finish()
}

struct Writer<'a, File> {
    file: File,
    seal: Seal,
    /// What is not yet written: the piece at hand and perhaps the heading before it.
    buffer: Vec<u8>,
    /// Where in the buffer the piece at hand begins.
    piece: usize,
    pieces: u64,
    written: u64,
    synced: u64,
    cancelled: &'a Cancelled,
}

impl<File: DiskFile> Writer<'_, File> {
    fn begin_piece(&mut self) {
        self.piece = self.buffer.len();
        self.buffer.extend_from_slice(&[0; PIECE_HEADER]);
    }

    fn add(&mut self, events: &[u8]) -> io::Result<()> {
        if events.len() > MAXIMUM_BATCH {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a snapshot's piece of {} bytes; {MAXIMUM_BATCH} are allowed",
                    events.len()
                ),
            ));
        }
        if self.buffer.len() + events.len() > PIECE {
            self.write_piece()?;
        }
        self.buffer.extend_from_slice(events);
        Ok(())
    }

    fn write_piece(&mut self) -> io::Result<()> {
        if self.cancelled.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let Some((header, events)) =
            self.buffer[self.piece..].split_first_chunk_mut::<PIECE_HEADER>()
        else {
            return Ok(());
        };
        if events.is_empty() {
            return Ok(());
        }
        self.pieces += 1;
        let sum = self.seal.sum_of_piece(self.pieces, events);
        header[..4].copy_from_slice(&(events.len() as u32).to_le_bytes());
        header[4..].copy_from_slice(&sum.to_le_bytes());
        self.write_buffer()?;
        self.begin_piece();
        Ok(())
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= UNSYNCED {
            self.file.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<u64> {
        self.write_piece()?;
        self.buffer.truncate(self.piece);
        let count = self.pieces.to_le_bytes();
        let sum = self.seal.sum_of_piece(0, &count);
        self.buffer.extend_from_slice(&0_u32.to_le_bytes());
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.buffer.extend_from_slice(&count);
        self.write_buffer()?;
        self.file.sync()?;
        // What is read back to be checked shall come from the disk.
        self.file.forget_cache();
        Ok(self.written)
    }
}

/// Opens a snapshot of this process, whose name and identity need no check.
pub(super) fn open<D: Disk>(disk: &D, name: &str) -> Result<(D::File, Heading), OpenError> {
    let mut bytes = [0; HEADING];
    let file = disk
        .open(name)
        .and_then(|file| {
            file.read_at(&mut bytes, 0)?;
            Ok(file)
        })
        .map_err(|error| OpenError::Io { doing: "read", file: disk.path(name), error })?;
    match Heading::read(&bytes) {
        Ok(heading) => Ok((file, heading)),
        Err(error) => Err(OpenError::Corrupt {
            file: disk.path(name),
            offset: 0,
            found: format!("{error:?}; it was intact when it was written"),
        }),
    }
}

/// Reads and checks a snapshot, and folds it; says how big it is.
pub(super) fn read<D: Disk, F: Fold>(
    disk: &D,
    name: &str,
    file: &D::File,
    heading: &Heading,
    state: &mut F,
    cancelled: &Cancelled,
) -> Result<u64, OpenError> {
    let unreadable = |error| OpenError::Io { doing: "read", file: disk.path(name), error };
    let corrupt = |offset, found: &str| OpenError::Corrupt {
        file: disk.path(name),
        offset,
        found: format!("{found}; a snapshot is complete before it gets its name"),
    };
    let size = file.size().map_err(unreadable)?;
    let seal = Seal::new(heading.identity, heading.number);
    let mut events = Vec::new();
    let mut offset = HEADING as u64;
    let mut pieces = 0;
    loop {
        if cancelled.is_set() {
            return Err(unreadable(io::ErrorKind::Interrupted.into()));
        }
        let mut header = [0; PIECE_HEADER];
        // The end takes as much again as a piece's header.
        if offset + 2 * PIECE_HEADER as u64 > size {
            return Err(corrupt(offset, "the snapshot ends too early"));
        }
        file.read_at(&mut header, offset).map_err(unreadable)?;
        let [a, b, c, d, sum @ ..] = header;
        let (length, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(sum));
        let content = offset + PIECE_HEADER as u64;
        let is_end = length == 0;
        let length = if is_end { PIECE_HEADER } else { length as usize };
        if length > MAXIMUM_BATCH.max(PIECE) || length as u64 > size - content {
            return Err(corrupt(offset, "a piece reaches beyond the end of the snapshot"));
        }
        events.resize(length, 0);
        file.read_at(&mut events, content).map_err(unreadable)?;
        let number = if is_end { 0 } else { pieces + 1 };
        if seal.sum_of_piece(number, &events) != sum {
            return Err(corrupt(offset, "the checksum of a piece does not match"));
        }
        let end = content + length as u64;
        if is_end {
            if events != u64::to_le_bytes(pieces) || end != size {
                return Err(corrupt(offset, "the end does not fit what is before it"));
            }
            return Ok(size);
        }
        state.apply(&events).map_err(|error| OpenError::BadEvent {
            file: disk.path(name),
            offset,
            position: heading.position,
            error,
        })?;
        pieces += 1;
        offset = end;
    }
}
