//! How a request is bounded, and what it yields when it is.

use std::error::Error;
use std::fmt;

use super::bounds::Bounds;
use super::operation::{AskOf, Operation, OutcomeOf};

/// How a request is bounded: [`Unlimited`] or [`Limited`].
pub trait Limits: sealed::Limits {
    /// What a request for this operation yields.
    type Output<O: Operation>;

    #[doc(hidden)]
    fn output<O: Operation>(
        operation: O,
        ask: AskOf<O>,
        beside: O::Beside,
        outcome: OutcomeOf<O>,
    ) -> Self::Output<O>;
}

pub(super) mod sealed {
    pub trait Limits {
        fn bounds(&self) -> Option<&super::Bounds>;
    }
}

/// The bounds of a request that waits for as long as it takes.
#[derive(Debug)]
pub struct Unlimited;

/// The bounds of a request with a time limit or a token.
#[derive(Debug)]
#[repr(transparent)]
pub struct Limited(pub(super) Bounds);

/// Why a bounded request ended without being granted.
///
/// `R` is why it could be refused; with [`Infallible`](std::convert::Infallible) it never is, and
/// matching the other two is exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError<R = std::convert::Infallible> {
    /// It can never be granted.
    Refused(R),
    /// One of its tokens was cancelled.
    Cancelled,
    /// Its time was up.
    TimedOut,
}

impl<R> From<R> for WaitError<R> {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal)
    }
}

impl<R: fmt::Display> fmt::Display for WaitError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Cancelled => write!(f, "cancelled while waiting"),
            Self::TimedOut => write!(f, "timed out while waiting"),
        }
    }
}

impl<R: Error + 'static> Error for WaitError<R> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Cancelled | Self::TimedOut => None,
        }
    }
}

impl Limits for Unlimited {
    type Output<O: Operation> = O::Output;

    #[inline]
    fn output<O: Operation>(
        operation: O,
        ask: AskOf<O>,
        beside: O::Beside,
        outcome: OutcomeOf<O>,
    ) -> O::Output {
        let outcome = outcome.map_err(|error| match error {
            WaitError::Refused(refusal) => refusal,
            WaitError::Cancelled | WaitError::TimedOut => {
                unreachable!("a request without bounds was ended by one")
            }
        });
        operation.output(ask, beside, outcome)
    }
}

impl Limits for Limited {
    type Output<O: Operation> = O::Bounded;

    #[inline]
    fn output<O: Operation>(
        operation: O,
        ask: AskOf<O>,
        beside: O::Beside,
        outcome: OutcomeOf<O>,
    ) -> O::Bounded {
        operation.bounded(ask, beside, outcome)
    }
}

impl sealed::Limits for Unlimited {
    #[inline]
    fn bounds(&self) -> Option<&Bounds> {
        None
    }
}

impl sealed::Limits for Limited {
    #[inline]
    fn bounds(&self) -> Option<&Bounds> {
        Some(&self.0)
    }
}
