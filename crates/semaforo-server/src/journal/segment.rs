//! A segment: a heading in a block of its own, batches, zeros.

use std::io;

use super::{
    Disk, DiskFile, Position,
    batch::{self, Found, Header, Seal},
    heading::{Heading, Kind},
    names,
    worker::Cancelled,
};

/// Where batches begin: appending never touches the block in which the heading is.
pub(super) const BODY: usize = 4096;

/// Zeros are written in pieces of this size.
const PIECE: usize = 256 << 10;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// How many zeros may wait for the disk at once. A long queue of them would delay the syncs of the
/// segment in use.
const UNSYNCED: u64 = 1 << 20;

/// A segment that batches can be written to.
#[derive(Debug)]
pub(super) struct Segment<File> {
    pub(super) number: u64,
    pub(super) seal: Seal,
    pub(super) file: File,
    /// Of the file.
    pub(super) size: u64,
    /// Where the next batch goes.
    pub(super) end: u64,
}

impl<File> Segment<File> {
    /// How many bytes of events a batch can have here.
    pub(super) fn space(&self) -> usize {
        let bytes = usize::try_from(self.size.saturating_sub(self.end)).unwrap_or(usize::MAX);
        batch::most_events(bytes).min(batch::MAXIMUM_BATCH)
    }

    /// Whether a batch with so many bytes of events has its place.
    pub(super) fn fits(&self, events: usize) -> bool {
        events <= batch::MAXIMUM_BATCH && self.end + batch::size(events) as u64 <= self.size
    }
}

/// The size of a segment in which a batch with so many bytes of events fits: a power of two, so
/// that one that is a little larger usually fits as well, or `usual` if that is enough.
pub(super) fn size_for(events: usize, usual: u64) -> u64 {
    let needed = (BODY + batch::size(events)) as u64;
    if needed <= usual { usual } else { needed.next_power_of_two() }
}

/// Makes an empty segment durably, or one that is half as large, and so on, if there is not enough
/// space.
pub(super) fn prepare_within<D: Disk>(
    disk: &D,
    identity: u64,
    Order { number, mut size, least }: Order,
    cancelled: &Cancelled,
) -> io::Result<Segment<D::File>> {
    loop {
        match prepare(disk, identity, number, size, cancelled) {
            Err(error) if is_space_missing(&error) && size / 2 >= least => size /= 2,
            result => return result,
        }
    }
}

fn is_space_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A segment to prepare.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) number: u64,
    /// How large it should be.
    pub(super) size: u64,
    /// How large it has to be.
    pub(super) least: u64,
}

/// Makes an empty segment durably, in place of one with the same number if there is one.
pub(super) fn prepare<D: Disk>(
    disk: &D,
    identity: u64,
    number: u64,
    size: u64,
    cancelled: &Cancelled,
) -> io::Result<Segment<D::File>> {
    let name = names::segment(number);
    let unfinished = names::unfinished(&name);
    let filled = fill(disk, &unfinished, identity, number, size, cancelled).and_then(|file| {
        disk.rename(&unfinished, &name)?;
        disk.sync_directory()?;
        Ok(file)
    });
    match filled {
        Ok(file) => {
            let seal = Seal::new(identity, number);
            Ok(Segment { number, seal, file, size, end: BODY as u64 })
        }
        Err(error) => {
            // The space is needed elsewhere; if this fails too, the next start removes it.
            let _ = disk.remove(&unfinished);
            Err(error)
        }
    }
}

fn fill<D: Disk>(
    disk: &D,
    unfinished: &str,
    identity: u64,
    number: u64,
    size: u64,
    cancelled: &Cancelled,
) -> io::Result<D::File> {
    let file = disk.create(unfinished)?;
    let heading = Heading { kind: Kind::Segment, identity, number, size, position: 0, time: 0 };
    let mut block = [0; BODY];
    block[..super::heading::HEADING].copy_from_slice(&heading.write());
    file.write_at(&block, 0)?;
    let (mut end, mut synced) = (BODY as u64, 0);
    while end < size {
        if cancelled.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let piece_end = size.min(end + PIECE as u64);
        write_zeros(&file, end, piece_end)?;
        end = piece_end;
        if end - synced >= UNSYNCED || end == size {
            file.sync()?;
            synced = end;
        }
    }
    Ok(file)
}

/// Writes zeros from `start` up to `end`.
pub(super) fn write_zeros(file: &impl DiskFile, mut start: u64, end: u64) -> io::Result<()> {
    while start < end {
        let piece = (end - start).min(PIECE as u64);
        file.write_at(&ZEROS[..piece as usize], start)?;
        start += piece;
    }
    Ok(())
}

/// How a walk through a segment ended.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The last intact batch.
    pub(super) last: Option<Header>,
    /// The latest time of them.
    pub(super) time: u64,
    /// How many there were.
    pub(super) batches: u64,
    /// Where they end.
    pub(super) end: usize,
    /// What stands there, if it is not nothing.
    pub(super) damage: Option<String>,
}

/// Goes through the batches of a segment, of which `bytes` is the whole file. `known` is the
/// position up to which everything is known already: that is the last batch before, or one of this
/// segment's own if a snapshot has some of them in it. `each` gets a batch that is not known, and
/// where it begins.
pub(super) fn walk<E>(
    bytes: &[u8],
    seal: Seal,
    known: Position,
    mut each: impl FnMut(usize, &Header, &[u8]) -> Result<(), E>,
) -> Result<Walked, E> {
    let mut walked = Walked { end: BODY, ..Walked::default() };
    let first = batch::position_at(bytes.get(BODY..).unwrap_or_default(), seal);
    let mut position = first.filter(|first| (1..=known).contains(first)).map_or(known, |it| it - 1);
    loop {
        match batch::look(bytes.get(walked.end..).unwrap_or_default(), seal, position + 1) {
            Found::Batch(header, events) => {
                if header.position > known {
                    each(walked.end, &header, events)?;
                }
                walked.end += header.size();
                walked.batches += 1;
                walked.time = walked.time.max(header.time);
                walked.last = Some(header);
                position += 1;
            }
            Found::End if position < known => {
                let found =
                    format!("nothing, although a snapshot has batch {known} of this segment");
                walked.damage = Some(found);
                return Ok(walked);
            }
            Found::End => return Ok(walked),
            Found::Damage(found) => {
                walked.damage = Some(found);
                return Ok(walked);
            }
        }
    }
}

/// Reads a whole file into `buffer`.
pub(super) fn read_whole(file: &impl DiskFile, buffer: &mut Vec<u8>) -> io::Result<()> {
    let size = usize::try_from(file.size()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    buffer.resize(size, 0);
    file.read_at(buffer, 0)
}
