//! Whether a query can be cancelled, and what it yields then.

use std::error::Error;
use std::fmt;

use crate::wait::cancel::CancelToken;

/// Whether a query can be cancelled: [`Uncancellable`] or [`Cancellable`].
pub trait Cancellation: sealed::Cancellation {
    /// What a terminal yields whose result is a `T`.
    type Output<T>;

    #[doc(hidden)]
    fn output<T>(outcome: Result<T, Cancelled>) -> Self::Output<T>;
}

mod sealed {
    pub trait Cancellation: Send {
        fn token(self) -> Option<super::CancelToken>;
    }
}

/// A query that runs to its end.
#[derive(Clone, Copy, Debug)]
pub struct Uncancellable;

/// A query [with a token](super::Query::with_cancel): its terminals yield a `Result`.
#[derive(Clone, Debug)]
pub struct Cancellable(pub(super) CancelToken);

/// A query's token fired before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the query was cancelled")
    }
}

impl Error for Cancelled {}

impl Cancellation for Uncancellable {
    type Output<T> = T;

    fn output<T>(outcome: Result<T, Cancelled>) -> T {
        outcome.unwrap_or_else(|Cancelled| unreachable!("a query without a token was cancelled"))
    }
}

impl Cancellation for Cancellable {
    type Output<T> = Result<T, Cancelled>;

    fn output<T>(outcome: Result<T, Cancelled>) -> Result<T, Cancelled> {
        outcome
    }
}

impl sealed::Cancellation for Uncancellable {
    fn token(self) -> Option<CancelToken> {
        None
    }
}

impl sealed::Cancellation for Cancellable {
    fn token(self) -> Option<CancelToken> {
        Some(self.0)
    }
}
