//! Many readers or one writer, who may come again.

use std::error::Error;
use std::fmt;

use super::{Lanes, Owner, Policy, TooManyHolds, Trust};

/// Many readers or one writer, in Hoare's order as [`ReadWrite`](super::ReadWrite); a writer has a
/// name, and may read and write again, also while others wait.
///
/// While an owner writes the state is its number, and below it how often it reads and writes;
/// otherwise it is how many read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedReadWrite;

/// How a request wants in, and on whose behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Beside other readers.
    Read(Owner),
    /// Alone.
    Write(Owner),
}

/// How a hold ends, or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A reader leaves, or the writer gives up one of its reads.
    Read(Owner),
    /// The writer gives up one of its writes.
    Write(Owner),
    /// The writer turns one of its writes into a read, with no writer in between.
    Downgrade(Owner),
    /// The only reader becomes the writer.
    Upgrade(Owner),
    /// A reader reads once more.
    ReadAgain(Owner),
}

/// It is not held, or not in that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeldSo;

const HOLD_BITS: u32 = 10;
const HOLDS: u64 = (1 << HOLD_BITS) - 1;
const ONE_READ: u64 = 1 << HOLD_BITS;
const OWNER_SHIFT: u32 = 2 * HOLD_BITS;
const READERS: u64 = (1 << OWNER_SHIFT) - 1;

impl OwnedReadWrite {
    /// The lane that readers queue in.
    pub const READ_LANE: usize = 0;
    /// The lane that writers queue in.
    pub const WRITE_LANE: usize = 1;
    /// How often a writer can write, and how often it can read, at the same time.
    pub const MAX_HOLDS: u32 = HOLDS as u32;
    /// How many can read at the same time.
    pub const MAX_READERS: u32 = READERS as u32;

    /// Who writes.
    #[must_use]
    pub const fn writer(state: u64) -> Option<Owner> {
        Owner::new(state >> OWNER_SHIFT)
    }

    /// How many read, counting every read of a writer.
    #[must_use]
    pub const fn readers(state: u64) -> u32 {
        (if Self::is_written(state) { state >> HOLD_BITS & HOLDS } else { state & READERS }) as u32
    }

    /// How often the writer writes.
    #[must_use]
    pub const fn writes(state: u64) -> u32 {
        (if Self::is_written(state) { state & HOLDS } else { 0 }) as u32
    }

    /// How many reads and writes a writer has given up.
    pub(crate) const fn given_up(holds: u32) -> (u32, u32) {
        (holds >> HOLD_BITS, holds & HOLDS as u32)
    }

    const fn is_written(state: u64) -> bool {
        state >> OWNER_SHIFT != 0
    }

    fn is_writer(state: u64, owner: Owner) -> bool {
        Self::writer(state) == Some(owner)
    }

    /// Once the last write is given up, the writer's reads are like any owner's.
    const fn without_writer(state: u64) -> u64 {
        if state & HOLDS == 0 { state >> HOLD_BITS & HOLDS } else { state }
    }
}

impl Policy for OwnedReadWrite {
    type Ask = Entry;
    type Give = Exit;
    type Refusal = TooManyHolds;
    type Misuse = NotHeldSo;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;
    const LOOKS_AGAIN: bool = true;
    const LANES: usize = 2;

    fn acquire(&self, state: u64, entry: Entry) -> Option<u64> {
        match entry {
            Entry::Read(owner) if Self::is_writer(state, owner) => {
                (Self::readers(state) < Self::MAX_HOLDS).then_some(state + ONE_READ)
            }
            Entry::Read(_) => (!Self::is_written(state) && state < READERS).then_some(state + 1),
            Entry::Write(owner) if Self::is_writer(state, owner) => {
                (Self::writes(state) < Self::MAX_HOLDS).then_some(state + 1)
            }
            Entry::Write(owner) => (state == 0).then_some(owner.number() << OWNER_SHIFT | 1),
        }
    }

    fn release(&self, state: u64, exit: Exit) -> Result<u64, NotHeldSo> {
        let readers = Self::readers(state);
        match exit {
            Exit::Read(owner) if Self::is_writer(state, owner) && readers > 0 => {
                Ok(state - ONE_READ)
            }
            Exit::Read(_) if !Self::is_written(state) && readers > 0 => Ok(state - 1),
            Exit::Write(owner) if Self::is_writer(state, owner) => {
                Ok(Self::without_writer(state - 1))
            }
            Exit::Downgrade(owner)
                if Self::is_writer(state, owner) && readers < Self::MAX_HOLDS =>
            {
                Ok(Self::without_writer(state + ONE_READ - 1))
            }
            Exit::Upgrade(owner) if state == 1 => Ok(owner.number() << OWNER_SHIFT | 1),
            Exit::ReadAgain(owner)
                if Self::is_writer(state, owner) && (1..Self::MAX_HOLDS).contains(&readers) =>
            {
                Ok(state + ONE_READ)
            }
            Exit::ReadAgain(_)
                if !Self::is_written(state) && (1..Self::MAX_READERS).contains(&readers) =>
            {
                Ok(state + 1)
            }
            _ => Err(NotHeldSo),
        }
    }

    fn undo(&self, entry: Entry) -> Option<Exit> {
        Some(match entry {
            Entry::Read(owner) => Exit::Read(owner),
            Entry::Write(owner) => Exit::Write(owner),
        })
    }

    /// Of a writer, with its reads.
    fn give_up(&self, state: u64, entry: Entry) -> Option<(u64, u32)> {
        match entry {
            Entry::Write(owner) if Self::is_writer(state, owner) => {
                Some((0, (state & READERS) as u32))
            }
            _ => None,
        }
    }

    fn refuse(&self, state: u64, entry: Entry) -> Option<TooManyHolds> {
        // Its writer can only be kept out by its own holds.
        let (Entry::Read(owner) | Entry::Write(owner)) = entry;
        Self::is_writer(state, owner).then_some(TooManyHolds)
    }

    fn lane(&self, entry: Entry) -> usize {
        match entry {
            Entry::Read(_) => Self::READ_LANE,
            Entry::Write(_) => Self::WRITE_LANE,
        }
    }

    fn next_lane(&self, _: u64, given: Option<Exit>, waiting: Lanes) -> usize {
        let write_ended = matches!(given, Some(Exit::Write(_) | Exit::Downgrade(_)));
        if waiting.contains(Self::READ_LANE) && (write_ended || !waiting.contains(Self::WRITE_LANE))
        {
            Self::READ_LANE
        } else {
            Self::WRITE_LANE
        }
    }

    fn overtakes(&self, state: u64, entry: Entry) -> bool {
        let (Entry::Read(owner) | Entry::Write(owner)) = entry;
        Self::is_writer(state, owner)
    }
}

impl fmt::Display for NotHeldSo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not held in that way, or not by a sole reader")
    }
}

impl Error for NotHeldSo {}
