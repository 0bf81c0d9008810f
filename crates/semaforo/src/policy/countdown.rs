//! Counting down to zero.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::{Policy, Trust};

/// All requests pass once the count is zero. The state is the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountdownPolicy;

/// What happens to a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountDown {
    /// One less, unless it is zero already.
    One,
    /// Exactly so many less.
    By(u32),
    /// So many more, unless it is zero already.
    Add(u32),
    /// So many, whatever it was.
    Reset(u32),
}

/// Why a count was left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CountError {
    /// Zero is nothing to count.
    Zero,
    /// More was to be counted down than is left.
    TooMany {
        /// How much was to be counted down.
        counted: u32,
        /// How much is left.
        left: u32,
    },
    /// The latch is open already, and only a reset shuts it.
    Open,
    /// The count would exceed `u32::MAX`.
    Overflow,
}

impl Policy for CountdownPolicy {
    type Ask = ();
    type Give = CountDown;
    type Refusal = Infallible;
    type Misuse = CountError;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;

    #[inline]
    fn acquire(&self, count: u64, (): ()) -> Option<u64> {
        (count == 0).then_some(0)
    }

    #[inline]
    fn release(&self, count: u64, change: CountDown) -> Result<u64, CountError> {
        match change {
            CountDown::One => Ok(count.saturating_sub(1)),
            CountDown::By(0) | CountDown::Add(0) => Err(CountError::Zero),
            CountDown::By(counted) => count
                .checked_sub(u64::from(counted))
                .ok_or(CountError::TooMany { counted, left: count as u32 }),
            CountDown::Add(_) if count == 0 => Err(CountError::Open),
            CountDown::Add(more) => Some(count + u64::from(more))
                .filter(|count| *count <= u64::from(u32::MAX))
                .ok_or(CountError::Overflow),
            CountDown::Reset(count) => Ok(u64::from(count)),
        }
    }

    fn undo(&self, (): ()) -> Option<CountDown> {
        None
    }
}

impl fmt::Display for CountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => write!(f, "a count of zero changes nothing"),
            Self::TooMany { counted, left } => {
                write!(f, "counted down by {counted}, but only {left} is left")
            }
            Self::Open => write!(f, "the latch is open already; reset it to use it again"),
            Self::Overflow => write!(f, "the count would exceed {}", u32::MAX),
        }
    }
}

impl Error for CountError {}
