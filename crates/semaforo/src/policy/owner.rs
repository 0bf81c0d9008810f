//! One owner at a time, who may come again.

use std::error::Error;
use std::fmt;

use super::{Policy, Trust, refusals};

/// One owner at a time, who may hold many times over.
///
/// The state is the owner's number and, below it, how often it holds; zero when free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned;

/// Who holds: a thread or a key, by number. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

/// The owner holds it [`Owned::MAX_HOLDS`] times already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyHolds;

/// An owner gave back what another holds, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOwner;

const HOLD_BITS: u32 = 20;
const HOLDS: u64 = (1 << HOLD_BITS) - 1;

impl Owner {
    /// The owner of this number, if it is one: from 1 to 2^41 - 1.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        let fits = number > 0 && number < 1 << (super::STATE_BITS - HOLD_BITS);
        if fits { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl Owned {
    /// How often an owner can hold at the same time.
    pub const MAX_HOLDS: u32 = HOLDS as u32;

    /// Who holds.
    #[must_use]
    pub const fn owner(state: u64) -> Option<Owner> {
        Owner::new(state >> HOLD_BITS)
    }

    /// How often the owner holds.
    #[must_use]
    pub const fn holds(state: u64) -> u32 {
        (state & HOLDS) as u32
    }
}

impl Policy for Owned {
    type Ask = Owner;
    type Give = Owner;
    type Refusal = TooManyHolds;
    type Misuse = NotOwner;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;
    const LOOKS_AGAIN: bool = true;

    #[inline]
    fn acquire(&self, state: u64, owner: Owner) -> Option<u64> {
        if state == 0 {
            Some(owner.0 << HOLD_BITS | 1)
        } else {
            (state >> HOLD_BITS == owner.0 && state & HOLDS < HOLDS).then_some(state + 1)
        }
    }

    #[inline]
    fn release(&self, state: u64, owner: Owner) -> Result<u64, NotOwner> {
        if state == 0 || state >> HOLD_BITS != owner.0 {
            return Err(NotOwner);
        }
        Ok(if state & HOLDS == 1 { 0 } else { state - 1 })
    }

    #[inline]
    fn undo(&self, owner: Owner) -> Option<Owner> {
        Some(owner)
    }

    fn give_up(&self, state: u64, owner: Owner) -> Option<(u64, u32)> {
        (Self::owner(state) == Some(owner)).then(|| (0, Self::holds(state)))
    }

    fn refuse(&self, state: u64, owner: Owner) -> Option<TooManyHolds> {
        (state >> HOLD_BITS == owner.0 && state & HOLDS == HOLDS).then_some(TooManyHolds)
    }

    #[inline]
    fn overtakes(&self, state: u64, owner: Owner) -> bool {
        state >> HOLD_BITS == owner.0
    }
}

refusals!(TooManyHolds);

impl fmt::Display for TooManyHolds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held {} times already, which is the most", Owned::MAX_HOLDS)
    }
}

impl Error for TooManyHolds {}

impl fmt::Display for NotOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "given back by somebody who does not own it")
    }
}

impl Error for NotOwner {}
