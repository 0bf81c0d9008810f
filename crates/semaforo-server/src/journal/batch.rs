//! A batch as bytes: a header of 48 bytes, the events, zeros up to the next multiple of 8.
//!
//! ```text
//!  0  magic            u32, all numbers little-endian
//!  4  header's sum     u32, of the bytes 8..48
//!  8  length           u32, bytes of events
//! 12  events' sum      u32
//! 16  position         u64
//! 24  time             u64, the kernel's milliseconds
//! 32  mark             u64, everything up to this position was synced when this was written
//! 40  segment          u32, the low half of the segment's number
//! 44  flags            u32, bit 0: a clean stop
//! ```

use crc32fast::Hasher;

use super::Position;

/// How many bytes of events a batch may have.
pub const MAXIMUM_BATCH: usize = 256 << 20;

/// The size of a batch's header.
pub(super) const HEADER: usize = 48;

/// Batches begin at multiples of this, which makes a search for them quick.
pub(super) const ALIGNMENT: usize = 8;

const MAGIC: u32 = u32::from_le_bytes(*b"BAT\x01");
const CLEAN: u32 = 1;

/// What ties batches to their place: the seed of all checksums of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    seed: u32,
    segment: u32,
}

impl Seal {
    pub(super) fn new(identity: u64, segment: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&identity.to_le_bytes());
        hasher.update(&segment.to_le_bytes());
        Self { seed: hasher.finalize(), segment: segment as u32 }
    }

    fn sum(self, bytes: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.seed);
        hasher.update(bytes);
        hasher.finalize()
    }

    /// The checksum of a snapshot's piece, which also ties it to its place among the others.
    pub(super) fn sum_of_piece(self, number: u64, bytes: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.seed);
        hasher.update(&number.to_le_bytes());
        hasher.update(bytes);
        hasher.finalize()
    }
}

/// What a batch says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) position: Position,
    pub(super) time: u64,
    /// Everything up to this position was synced when the batch was written.
    pub(super) mark: Position,
    pub(super) clean: bool,
    length: u32,
    sum: u32,
}

impl Header {
    /// Reads an intact header that belongs to the segment; anything else is none.
    pub(super) fn read(bytes: &[u8], seal: Seal) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let small = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let large = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        // In this order: a search through garbage ends at the first comparison.
        if small(0) != MAGIC || small(40) != seal.segment || small(4) != seal.sum(&bytes[8..]) {
            return None;
        }
        Some(Self {
            length: small(8),
            sum: small(12),
            position: large(16),
            time: large(24),
            mark: large(32),
            clean: small(44) & CLEAN != 0,
        })
    }

    /// How many bytes the batch takes in its segment.
    pub(super) fn size(&self) -> usize {
        size(self.length as usize)
    }
}

/// How many bytes of events a batch can have that takes at most so many bytes.
pub(super) const fn most_events(bytes: usize) -> usize {
    (bytes / ALIGNMENT * ALIGNMENT).saturating_sub(HEADER)
}

/// How many bytes a batch with so many bytes of events takes.
pub(super) const fn size(events: usize) -> usize {
    (HEADER + events).next_multiple_of(ALIGNMENT)
}

/// Writes a batch into `buffer`, which is emptied first and kept for the next one.
pub(super) fn write(
    buffer: &mut Vec<u8>,
    seal: Seal,
    events: &[u8],
    position: Position,
    time: u64,
    mark: Position,
    clean: bool,
) {
    let mut header = [0; HEADER];
    header[8..12].copy_from_slice(&(events.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&seal.sum(events).to_le_bytes());
    header[16..24].copy_from_slice(&position.to_le_bytes());
    header[24..32].copy_from_slice(&time.to_le_bytes());
    header[32..40].copy_from_slice(&mark.to_le_bytes());
    header[40..44].copy_from_slice(&seal.segment.to_le_bytes());
    header[44..48].copy_from_slice(&(if clean { CLEAN } else { 0 }).to_le_bytes());
    let sum = seal.sum(&header[8..]);
    header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&sum.to_le_bytes());
    buffer.clear();
    buffer.extend_from_slice(&header);
    buffer.extend_from_slice(events);
    buffer.resize(size(events.len()), 0);
}

/// The position of the batch at the beginning of `rest`, if there is one.
pub(super) fn position_at(rest: &[u8], seal: Seal) -> Option<Position> {
    Header::read(rest, seal).map(|header| header.position)
}

/// What stands at a place in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The batch that was expected.
    Batch(Header, &'a [u8]),
    /// Nothing but zeros up to the end of the segment.
    End,
    /// Something else.
    Damage(String),
}

/// Looks at the beginning of `rest`, the bytes up to the end of the segment, where the batch with
/// the position `expected` should be.
pub(super) fn look(rest: &[u8], seal: Seal, expected: Position) -> Found<'_> {
    let Some(header) = Header::read(rest, seal) else {
        return match first_other_than_zero(rest) {
            None => Found::End,
            Some(0..HEADER) => Found::Damage("there is no valid batch header".into()),
            Some(at) => Found::Damage(format!("zeros, and {at} bytes on something else")),
        };
    };
    if header.position != expected {
        return Found::Damage(format!("this is batch {}", header.position));
    }
    let Some(events) = rest.get(HEADER..HEADER + header.length as usize) else {
        return Found::Damage(format!("its {} bytes reach beyond the segment", header.length));
    };
    if seal.sum(events) != header.sum {
        return Found::Damage("the checksum of its events does not match".into());
    }
    match rest.get(HEADER + events.len()..header.size()) {
        Some(padding) if padding.iter().all(|&byte| byte == 0) => {}
        _ => return Found::Damage("its events are not followed by zeros".into()),
    }
    Found::Batch(header, events)
}

/// The first intact header in `rest` which proves that everything up to `position` had been synced
/// when it was written, and where it begins. `rest` begins at a multiple of the alignment.
pub(super) fn find_proof(rest: &[u8], seal: Seal, position: Position) -> Option<(usize, Header)> {
    (0..rest.len())
        .step_by(ALIGNMENT)
        .filter_map(|at| Some((at, Header::read(rest.get(at..)?, seal)?)))
        .find(|(_, header)| header.mark >= position)
}

/// Where the first byte is that is not zero.
pub(super) fn first_other_than_zero(bytes: &[u8]) -> Option<usize> {
    // Whole blocks first: comparing slices is much quicker than looking at bytes.
    const ZEROS: [u8; 4096] = [0; 4096];
    let start =
        bytes.chunks(ZEROS.len()).position(|block| *block != ZEROS[..block.len()])? * ZEROS.len();
    let within = bytes.get(start..)?.iter().position(|&byte| byte != 0)?;
    Some(start + within)
}

/// Where the last byte is that is not zero.
pub(super) fn last_other_than_zero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let before =
        bytes.rchunks(ZEROS.len()).position(|block| *block != ZEROS[..block.len()])? * ZEROS.len();
    bytes.get(..bytes.len() - before)?.iter().rposition(|&byte| byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(seal: Seal, events: &[u8], position: Position, mark: Position) -> Vec<u8> {
        let mut buffer = Vec::new();
        write(&mut buffer, seal, events, position, 5, mark, false);
        buffer
    }

    #[test]
    fn a_batch_reads_back() {
        let seal = Seal::new(7, 3);
        let mut bytes = batch(seal, b"events", 9, 8);
        assert_eq!(bytes.len(), size(6));
        bytes.extend([0; 100]);
        match look(&bytes, seal, 9) {
            Found::Batch(header, events) => {
                assert_eq!(events, b"events");
                assert_eq!((header.position, header.time, header.mark), (9, 5, 8));
                assert_eq!(header.size(), size(6));
                assert!(!header.clean);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(look(&bytes[size(6)..], seal, 10), Found::End);
        assert!(matches!(look(&bytes, seal, 8), Found::Damage(_)), "another position");
        assert!(matches!(look(&bytes[..50], seal, 9), Found::Damage(_)), "cut");
    }

    #[test]
    fn a_batch_belongs_to_its_journal_and_its_segment() {
        let bytes = batch(Seal::new(7, 3), b"events", 9, 8);
        assert!(Header::read(&bytes, Seal::new(7, 4)).is_none());
        assert!(Header::read(&bytes, Seal::new(8, 3)).is_none());
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let seal = Seal::new(7, 3);
        let bytes = batch(seal, b"events", 9, 8);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(look(&flipped, seal, 9), Found::Damage(_)), "bit {bit}");
        }
    }

    #[test]
    fn a_proof_is_a_later_mark() {
        let seal = Seal::new(7, 3);
        let mut bytes = vec![0; 64];
        bytes.extend(batch(seal, b"five", 5, 2));
        bytes.extend(batch(seal, b"six", 6, 4));
        let second = 64 + size(4);
        assert_eq!(find_proof(&bytes, seal, 2).map(|(at, _)| at), Some(64));
        assert_eq!(find_proof(&bytes, seal, 4).map(|(at, h)| (at, h.position)), Some((second, 6)));
        assert_eq!(find_proof(&bytes, seal, 5), None);
        assert_eq!(find_proof(&bytes, Seal::new(7, 4), 2), None);
    }

    #[test]
    fn zeros_are_zeros_at_every_length() {
        for length in [0, 1, 4095, 4096, 4097, 10_000] {
            let mut bytes = vec![0; length];
            assert_eq!(first_other_than_zero(&bytes), None);
            assert_eq!(last_other_than_zero(&bytes), None);
            for at in [0, length / 2, length.saturating_sub(1)] {
                if at < length {
                    bytes[at] = 1;
                    assert_eq!(first_other_than_zero(&bytes), Some(at));
                    assert_eq!(last_other_than_zero(&bytes), Some(at));
                    bytes[at] = 0;
                }
            }
        }
    }
}
