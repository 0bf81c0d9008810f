//! Parties that go from phase to phase together.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::{Policy, Trust, refusals};

/// Phases: each ends when all registered parties have arrived.
///
/// The state keeps the number of the phase, how many parties are registered, how many of them have
/// yet to arrive, and whether there are no more phases. A request that waits asks for the end of a
/// phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    hooked: bool,
}

/// What can be done besides waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many parties more.
    Register(u32),
    /// A party arrives; if it is the last, the phase ends, unless a hook has to be asked.
    Arrive,
    /// A party arrives for the last time.
    ArriveAndDeregister,
    /// The hook was asked: the next phase begins, or there are no more.
    Advance {
        /// Whether there are no more phases.
        terminate: bool,
    },
    /// No more phases.
    Terminate,
}

/// Why a step cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PhaserError {
    /// There are no more phases.
    Terminated,
    /// More arrivals than registered parties.
    NotRegistered,
    /// More parties than there can be.
    TooManyParties,
    /// The phase has ended, and its hook is being asked.
    Advancing,
}

const COUNT_BITS: u32 = 16;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const ONE_PARTY: u64 = 1 << COUNT_BITS;
const PHASE_SHIFT: u32 = 2 * COUNT_BITS;
const PHASE_BITS: u32 = 27;
/// A phase has ended, and the next has not begun, because the hook is being asked.
const ADVANCING: u64 = 1 << (PHASE_SHIFT + PHASE_BITS);
const TERMINATED: u64 = ADVANCING << 1;

impl Phases {
    /// The most parties that can be registered.
    pub const MAX_PARTIES: u32 = COUNT as u32;
    /// The number of the last phase; the one after it is 0 again.
    pub const MAX_PHASE: u32 = (1 << PHASE_BITS) - 1;

    /// Phases that end by themselves or, if `hooked`, when a hook has been asked.
    #[must_use]
    pub const fn new(hooked: bool) -> Self {
        Self { hooked }
    }

    /// The state with so many parties, in this phase.
    ///
    /// # Panics
    /// If that is more than [`MAX_PARTIES`](Self::MAX_PARTIES), or after
    /// [`MAX_PHASE`](Self::MAX_PHASE).
    #[must_use]
    pub const fn initial(parties: u32, phase: u32) -> u64 {
        assert!(parties <= Self::MAX_PARTIES, "a phaser has at most 65535 parties");
        assert!(phase <= Self::MAX_PHASE, "the phase is above 2^27 - 1");
        (phase as u64) << PHASE_SHIFT | (parties as u64) << COUNT_BITS | parties as u64
    }

    /// The number of the phase.
    #[must_use]
    pub const fn phase(state: u64) -> u32 {
        (state >> PHASE_SHIFT) as u32 & Self::MAX_PHASE
    }

    /// How many parties are registered.
    #[must_use]
    pub const fn parties(state: u64) -> u32 {
        (state >> COUNT_BITS & COUNT) as u32
    }

    /// How many parties have yet to arrive.
    #[must_use]
    pub const fn unarrived(state: u64) -> u32 {
        (state & COUNT) as u32
    }

    /// Whether there are no more phases.
    #[must_use]
    pub const fn is_terminated(state: u64) -> bool {
        state & TERMINATED != 0
    }

    /// Whether a phase has ended and the next has not begun.
    #[must_use]
    pub const fn is_advancing(state: u64) -> bool {
        state & ADVANCING != 0
    }

    /// The phase in which a party is expected that registers now.
    #[must_use]
    pub const fn expected(state: u64) -> u32 {
        if Self::is_advancing(state) { Self::next_phase(state) } else { Self::phase(state) }
    }

    const fn next_phase(state: u64) -> u32 {
        Self::phase(state).wrapping_add(1) & Self::MAX_PHASE
    }

    /// The next phase begins.
    const fn advance(state: u64) -> u64 {
        Self::initial(Self::parties(state), Self::next_phase(state))
    }

    const fn arrive(&self, state: u64, leaves: bool) -> Result<u64, PhaserError> {
        // A driver may begin with any state, also with fewer parties than have yet to arrive.
        if Self::unarrived(state) == 0 || Self::parties(state) < Self::unarrived(state) {
            let advancing = Self::is_advancing(state);
            return Err(if advancing {
                PhaserError::Advancing
            } else {
                PhaserError::NotRegistered
            });
        }
        let state = state - 1 - if leaves { ONE_PARTY } else { 0 };
        Ok(if Self::unarrived(state) > 0 {
            state
        } else if self.hooked {
            state | ADVANCING
        } else if Self::parties(state) == 0 {
            state | TERMINATED
        } else {
            Self::advance(state)
        })
    }
}

impl Policy for Phases {
    type Ask = u32;
    type Give = Step;
    type Refusal = Infallible;
    type Misuse = PhaserError;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;
    const TRIES_FIRST: bool = true;

    #[inline]
    fn acquire(&self, state: u64, phase: u32) -> Option<u64> {
        (Self::phase(state) != phase || Self::is_terminated(state)).then_some(state)
    }

    #[inline]
    fn release(&self, state: u64, step: Step) -> Result<u64, PhaserError> {
        if Self::is_terminated(state) {
            return Err(PhaserError::Terminated);
        }
        match step {
            Step::Register(more) => {
                if more > Self::MAX_PARTIES - Self::parties(state) {
                    return Err(PhaserError::TooManyParties);
                }
                // A party that registers while a phase is ending is expected in the next.
                let unarrived = if Self::is_advancing(state) { 0 } else { u64::from(more) };
                Ok(state + u64::from(more) * ONE_PARTY + unarrived)
            }
            Step::Arrive => self.arrive(state, false),
            Step::ArriveAndDeregister => self.arrive(state, true),
            Step::Advance { terminate: true } | Step::Terminate => Ok(state | TERMINATED),
            Step::Advance { terminate: false } => Ok(Self::advance(state)),
        }
    }

    #[inline]
    fn undo(&self, _: u32) -> Option<Step> {
        None
    }

    /// Requests that wait for the end of different phases do not wait for each other.
    #[inline]
    fn overtakes(&self, _: u64, _: u32) -> bool {
        true
    }
}

refusals!(PhaserError);

impl fmt::Display for PhaserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminated => "the phaser is terminated",
            Self::NotRegistered => "more parties arrived than are registered",
            Self::TooManyParties => "a phaser has at most 65535 parties",
            Self::Advancing => "the phase has ended, and its hook is being asked",
        })
    }
}

impl Error for PhaserError {}
