//! Counted permits, and their simplest case, the exclusive hold.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::{Policy, Trust, refusals};

/// Any number of permits up to a maximum.
///
/// The state keeps what is available and what is held, so that what is held can always be given
/// back: permits are added only while the two together stay within the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permits {
    maximum: u32,
    barging: bool,
}

/// What can be done with permits besides acquiring them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giving {
    /// A holder gives back so many.
    Return(u32),
    /// So many that were not held are added.
    Add(u32),
    /// A holder keeps so many for good.
    Forget(u32),
    /// Up to so many that are available are taken away.
    Reduce(u32),
    /// No more requests: those that wait are refused.
    Close,
}

/// Why a semaphore turns a request down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The semaphore was closed.
    Closed,
    /// More permits were asked for than the semaphore can ever have.
    TooMany {
        /// How many were asked for.
        asked: u32,
        /// The most that there can be.
        maximum: u32,
    },
}

/// More permits were to be released than there is room for below the maximum. None were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "SemaphoreFullException")]
pub struct ReleaseError {
    /// How many were to be released.
    pub released: u32,
    /// How many could have been.
    pub room: u32,
}

const COUNT_BITS: u32 = 30;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const CLOSED: u64 = 1 << (2 * COUNT_BITS);

impl Permits {
    /// The largest maximum.
    pub const MAX: u32 = COUNT as u32;

    /// Permits up to this maximum, in strict order or not.
    ///
    /// # Panics
    /// If the maximum is above [`MAX`](Self::MAX).
    #[must_use]
    pub const fn new(maximum: u32, barging: bool) -> Self {
        assert!(maximum <= Self::MAX, "the maximum number of permits is above 2^30 - 1");
        Self { maximum, barging }
    }

    /// The state with so many permits available and none held.
    ///
    /// # Panics
    /// If that is more than the maximum.
    #[must_use]
    pub const fn initial(&self, permits: u32) -> u64 {
        assert!(permits <= self.maximum, "more initial permits than the maximum");
        permits as u64
    }

    /// The most permits that there can be.
    #[must_use]
    pub const fn maximum(&self) -> u32 {
        self.maximum
    }

    /// How many are available.
    #[must_use]
    pub const fn available(state: u64) -> u32 {
        (state & COUNT) as u32
    }

    /// How many are held.
    #[must_use]
    pub const fn held(state: u64) -> u32 {
        (state >> COUNT_BITS & COUNT) as u32
    }

    /// Whether requests are refused.
    #[must_use]
    pub const fn is_closed(state: u64) -> bool {
        state & CLOSED != 0
    }
}

/// `permits` in the place where the held ones are counted.
const fn as_held(permits: u32) -> u64 {
    (permits as u64) << COUNT_BITS
}

impl Policy for Permits {
    type Ask = u32;
    type Give = Giving;
    type Refusal = AcquireError;
    type Misuse = ReleaseError;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;
    const LOOKS_AGAIN: bool = true;

    #[inline]
    fn acquire(&self, state: u64, permits: u32) -> Option<u64> {
        let granted = !Self::is_closed(state) && Self::available(state) >= permits;
        granted.then(|| state - u64::from(permits) + as_held(permits))
    }

    #[inline]
    fn release(&self, state: u64, give: Giving) -> Result<u64, ReleaseError> {
        match give {
            Giving::Return(permits) | Giving::Forget(permits) if permits > Self::held(state) => {
                Err(ReleaseError { released: permits, room: Self::held(state) })
            }
            Giving::Return(permits) => Ok(state + u64::from(permits) - as_held(permits)),
            Giving::Add(permits) => {
                // A driver may begin with any state, also with more than the maximum.
                let there = Self::available(state) + Self::held(state);
                let room = self.maximum.saturating_sub(there);
                if permits > room {
                    return Err(ReleaseError { released: permits, room });
                }
                Ok(state + u64::from(permits))
            }
            Giving::Forget(permits) => Ok(state - as_held(permits)),
            Giving::Reduce(permits) => Ok(state - u64::from(permits.min(Self::available(state)))),
            Giving::Close => Ok(state | CLOSED),
        }
    }

    #[inline]
    fn undo(&self, permits: u32) -> Option<Giving> {
        Some(Giving::Return(permits))
    }

    fn refuse(&self, state: u64, permits: u32) -> Option<AcquireError> {
        let too_many = AcquireError::TooMany { asked: permits, maximum: self.maximum };
        self.expel(state).or((permits > self.maximum).then_some(too_many))
    }

    fn expel(&self, state: u64) -> Option<AcquireError> {
        Self::is_closed(state).then_some(AcquireError::Closed)
    }

    fn overtakes(&self, _: u64, permits: u32) -> bool {
        permits == 0
    }

    #[inline]
    fn barges(&self, _: u64) -> bool {
        self.barging
    }
}

refusals!(AcquireError);

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "the semaphore is closed"),
            Self::TooMany { asked, maximum } => {
                write!(f, "{asked} permits were asked for, but there can be only {maximum}")
            }
        }
    }
}

impl Error for AcquireError {}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { released, room } = self;
        write!(f, "{released} permits were released, but there is room for only {room}")
    }
}

impl Error for ReleaseError {}

/// One holder at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusive;

/// Something was given back that is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

const HELD: u64 = 1;
const BARGING: u64 = 2;

impl Exclusive {
    /// The state in which it is free.
    #[must_use]
    pub const fn initial(barging: bool) -> u64 {
        if barging { BARGING } else { 0 }
    }

    /// Whether it is held.
    #[must_use]
    pub const fn is_held(state: u64) -> bool {
        state & HELD != 0
    }
}

impl Policy for Exclusive {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = NotHeld;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;
    const LOOKS_AGAIN: bool = true;

    #[inline]
    fn acquire(&self, state: u64, (): ()) -> Option<u64> {
        (!Self::is_held(state)).then_some(state | HELD)
    }

    #[inline]
    fn release(&self, state: u64, (): ()) -> Result<u64, NotHeld> {
        if Self::is_held(state) { Ok(state & !HELD) } else { Err(NotHeld) }
    }

    #[inline]
    fn undo(&self, (): ()) -> Option<()> {
        Some(())
    }

    #[inline]
    fn barges(&self, state: u64) -> bool {
        state & BARGING != 0
    }
}

impl fmt::Display for NotHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "given back by somebody who does not hold it")
    }
}

impl Error for NotHeld {}
