//! How every file begins: 64 bytes that say what it is, of which version, and to which journal it
//! belongs.
//!
//! ```text
//!  0  "SEMAFORO"
//!  8  version    u32, all numbers little-endian
//! 12  kind       u32, 1: segment, 2: snapshot
//! 16  identity   u64, random, the same in all files of a journal
//! 24  number     u64, the segment's, or that of the last segment in the snapshot
//! 32  size       u64, of a segment's file; 0 in a snapshot
//! 40  position   u64, of the last batch in the snapshot; 0 in a segment
//! 48  time       u64, of the last batch in the snapshot; 0 in a segment
//! 56  zero       u32
//! 60  sum        u32, of the bytes 0..60
//! ```
//!
//! Magic, version and their places never change, so that an old program can tell a newer file from
//! a damaged one.

use super::Position;

/// The version of the files that this program writes; it reads this one.
pub const VERSION: u32 = 1;

/// The size of a heading.
pub(super) const HEADING: usize = 64;

/// Numbers of segments and positions stay below this, so that one can be added without a thought.
const LIMIT: u64 = 1 << 62;

const MAGIC: &[u8; 8] = b"SEMAFORO";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Segment = 1,
    Snapshot = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) kind: Kind,
    pub(super) identity: u64,
    pub(super) number: u64,
    pub(super) size: u64,
    pub(super) position: Position,
    pub(super) time: u64,
}

/// Why a heading cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadHeading {
    /// Written by a newer version of the program.
    Newer(u32),
    /// Damaged, or not ours.
    Damaged(&'static str),
}

impl Heading {
    pub(super) fn write(&self) -> [u8; HEADING] {
        let mut bytes = [0; HEADING];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.size.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.position.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.time.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, BadHeading> {
        let bytes: &[u8; HEADING] = bytes
            .first_chunk()
            .ok_or(BadHeading::Damaged("the file is shorter than its heading"))?;
        let small = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let large = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if &bytes[..8] != MAGIC {
            return Err(BadHeading::Damaged("the file does not begin with SEMAFORO"));
        }
        match small(8) {
            VERSION => {}
            // A version is never so large: this is a flipped bit.
            newer if newer > VERSION && newer < 1 << 8 => return Err(BadHeading::Newer(newer)),
            _ => return Err(BadHeading::Damaged("there is no such version")),
        }
        if small(60) != crc32fast::hash(&bytes[..60]) {
            return Err(BadHeading::Damaged("the checksum of the heading does not match"));
        }
        let kind = match small(12) {
            1 => Kind::Segment,
            2 => Kind::Snapshot,
            _ => return Err(BadHeading::Damaged("it is neither a segment nor a snapshot")),
        };
        let (number, position) = (large(24), large(40));
        if number >= LIMIT || position >= LIMIT {
            return Err(BadHeading::Damaged("nobody has counted that far"));
        }
        Ok(Self { kind, identity: large(16), number, size: large(32), position, time: large(48) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING_OF_NINE: Heading =
        Heading { kind: Kind::Snapshot, identity: 1, number: 9, size: 0, position: 3, time: 4 };

    #[test]
    fn a_heading_reads_back_and_any_flipped_bit_is_noticed() {
        let bytes = HEADING_OF_NINE.write();
        assert_eq!(Heading::read(&bytes), Ok(HEADING_OF_NINE));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Heading::read(&flipped).is_err(), "bit {bit}");
        }
        assert!(Heading::read(&bytes[..63]).is_err());
    }

    #[test]
    fn a_newer_version_is_not_called_damage() {
        let mut bytes = HEADING_OF_NINE.write();
        bytes[8] = 2;
        assert_eq!(Heading::read(&bytes), Err(BadHeading::Newer(2)));
    }
}
