//! Something that is open or shut: for all comers, or for one at a time.

use std::convert::Infallible;

use super::{Policy, Trust};

/// Open or shut; while it is open all requests pass. The state is 1 when open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate;

/// What happens to a [`Gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// All requests pass from now on, and those that wait now.
    Open,
    /// No request passes from now on.
    Shut,
}

impl Policy for Gate {
    type Ask = ();
    type Give = Opening;
    type Refusal = Infallible;
    type Misuse = Infallible;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;

    #[inline]
    fn acquire(&self, state: u64, (): ()) -> Option<u64> {
        (state == 1).then_some(state)
    }

    #[inline]
    fn release(&self, _: u64, opening: Opening) -> Result<u64, Infallible> {
        Ok(u64::from(opening == Opening::Open))
    }

    fn undo(&self, (): ()) -> Option<Opening> {
        None
    }
}

/// At most one stored signal, which the next one to come uses up. The state is 1 when stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalPolicy;

/// What happens to a [`SignalPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Lets the first waiter through, or is stored for the next one.
    Set,
    /// Takes a stored signal away.
    Reset,
}

impl Policy for SignalPolicy {
    type Ask = ();
    type Give = Signal;
    type Refusal = Infallible;
    type Misuse = Infallible;

    const TRUST: Trust<Self> = Trust::NEVER_PANICS;

    #[inline]
    fn acquire(&self, state: u64, (): ()) -> Option<u64> {
        (state == 1).then_some(0)
    }

    #[inline]
    fn release(&self, _: u64, signal: Signal) -> Result<u64, Infallible> {
        Ok(u64::from(signal == Signal::Set))
    }

    #[inline]
    fn undo(&self, (): ()) -> Option<Signal> {
        Some(Signal::Set)
    }
}
