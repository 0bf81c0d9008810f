//! Many readers or one writer, in Hoare's order.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::{Lanes, Policy, Trust};

/// Many readers or one writer.
///
/// Hoare's rule: a waiting writer stops new readers, and when a write ends, exactly the readers
/// that wait then go in, before the next writer. So neither side can starve the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWrite;

/// How a request wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

/// How a hold ends, or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A reader leaves.
    Read,
    /// The writer leaves.
    Write,
    /// The writer becomes a reader, with no writer in between.
    Downgrade,
    /// The only reader becomes the writer.
    Upgrade,
}

/// What was to be given up is not held, or a reader who is not alone asked for an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSoleReader;

const READERS: u64 = u32::MAX as u64;
const WRITER: u64 = 1 << 32;
const BARGING: u64 = 1 << 33;

impl ReadWrite {
    /// The lane that readers queue in.
    pub const READ_LANE: usize = 0;
    /// The lane that writers queue in.
    pub const WRITE_LANE: usize = 1;

    /// The state in which it is free.
    #[must_use]
    pub const fn initial(barging: bool) -> u64 {
        if barging { BARGING } else { 0 }
    }

    /// How many readers are in.
    #[must_use]
    pub const fn readers(state: u64) -> u32 {
        (state & READERS) as u32
    }

    /// Whether a writer is in.
    #[must_use]
    pub const fn has_writer(state: u64) -> bool {
        state & WRITER != 0
    }
}

impl Policy for ReadWrite {
    type Ask = Access;
    type Give = Ending;
    type Refusal = Infallible;
    type Misuse = NotSoleReader;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;
    const LOOKS_AGAIN: bool = true;

    const LANES: usize = 2;

    #[inline]
    fn acquire(&self, state: u64, access: Access) -> Option<u64> {
        match access {
            Access::Read => {
                (!Self::has_writer(state) && Self::readers(state) < u32::MAX).then_some(state + 1)
            }
            Access::Write => (state & (READERS | WRITER) == 0).then_some(state | WRITER),
        }
    }

    #[inline]
    fn release(&self, state: u64, ending: Ending) -> Result<u64, NotSoleReader> {
        let readers = Self::readers(state);
        match ending {
            Ending::Read if readers > 0 => Ok(state - 1),
            Ending::Write if Self::has_writer(state) => Ok(state & !WRITER),
            Ending::Downgrade if Self::has_writer(state) => Ok((state & !WRITER) + 1),
            Ending::Upgrade if readers == 1 => Ok((state - 1) | WRITER),
            _ => Err(NotSoleReader),
        }
    }

    #[inline]
    fn undo(&self, access: Access) -> Option<Ending> {
        Some(match access {
            Access::Read => Ending::Read,
            Access::Write => Ending::Write,
        })
    }

    fn lane(&self, access: Access) -> usize {
        match access {
            Access::Read => Self::READ_LANE,
            Access::Write => Self::WRITE_LANE,
        }
    }

    fn next_lane(&self, _: u64, given: Option<Ending>, waiting: Lanes) -> usize {
        let write_ended = matches!(given, Some(Ending::Write | Ending::Downgrade));
        if waiting.contains(Self::READ_LANE) && (write_ended || !waiting.contains(Self::WRITE_LANE))
        {
            Self::READ_LANE
        } else {
            Self::WRITE_LANE
        }
    }

    #[inline]
    fn barges(&self, state: u64) -> bool {
        state & BARGING != 0
    }
}

impl fmt::Display for NotSoleReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not held in that way, or not by a sole reader")
    }
}

impl Error for NotSoleReader {}
