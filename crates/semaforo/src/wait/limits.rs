//! How a request is bounded, and what it yields when it is.

use std::error::Error;
use std::fmt;

use super::bounds::Bounds;
use crate::policy::Refusal;

/// How a request is bounded: [`Unlimited`] or [`Limited`].
pub trait Limits: sealed::Limits {
    /// What the request yields.
    type Output<G, R: Refusal>;

    #[doc(hidden)]
    fn output<G, R: Refusal>(outcome: Result<G, WaitError<R>>) -> Self::Output<G, R>;
}

pub(super) mod sealed {
    #[expect(private_interfaces, reason = "a sealed trait: nobody else can name or call these")]
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
    type Output<G, R: Refusal> = R::Output<G>;

    #[inline]
    fn output<G, R: Refusal>(outcome: Result<G, WaitError<R>>) -> R::Output<G> {
        match outcome {
            Ok(grant) => R::granted(grant),
            Err(WaitError::Refused(refusal)) => refusal.refused(),
            Err(WaitError::Cancelled | WaitError::TimedOut) => {
                unreachable!("a request without bounds was ended by one")
            }
        }
    }
}

impl Limits for Limited {
    type Output<G, R: Refusal> = Result<G, WaitError<R>>;

    #[inline]
    fn output<G, R: Refusal>(outcome: Result<G, WaitError<R>>) -> Self::Output<G, R> {
        outcome
    }
}

#[expect(private_interfaces, reason = "a sealed trait: nobody else can name or call these")]
impl sealed::Limits for Unlimited {
    #[inline]
    fn bounds(&self) -> Option<&Bounds> {
        None
    }
}

#[expect(private_interfaces, reason = "a sealed trait: nobody else can name or call these")]
impl sealed::Limits for Limited {
    #[inline]
    fn bounds(&self) -> Option<&Bounds> {
        Some(&self.0)
    }
}
