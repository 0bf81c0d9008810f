//! What can go wrong with a queue.

use std::error::Error;
use std::fmt;

use crate::wait::limits::WaitError;

/// The queue is closed; for those who take, it is empty too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// An item that was not accepted, and why.
///
/// Whoever offers an item and fails has it back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rejected<T, E = Closed> {
    /// The item.
    pub item: T,
    /// Why it was not accepted.
    pub why: E,
}

/// Why an item was not accepted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryPutError {
    /// There is no room, others wait for room, or nobody waits for an item.
    Full,
    /// The queue is closed.
    Closed,
}

/// Why there was no item at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryTakeError {
    /// There is none, or others wait for one.
    Empty,
    /// There is none, and the queue is closed.
    Closed,
}

impl<T, E> Rejected<T, E> {
    /// The item.
    pub fn into_item(self) -> T {
        self.item
    }
}

impl<T> From<Rejected<T>> for Rejected<T, WaitError<Closed>> {
    fn from(Rejected { item, why }: Rejected<T>) -> Self {
        Self { item, why: why.into() }
    }
}

/// The item need not be `Debug`: it is the reason that matters.
impl<T, E: fmt::Debug> fmt::Debug for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<T, E: fmt::Display> fmt::Display for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the item was not accepted: {}", self.why)
    }
}

impl<T, E: Error + 'static> Error for Rejected<T, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the queue is closed")
    }
}

impl fmt::Display for TryPutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "there is no room now, or nobody who waits for it"),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl fmt::Display for TryTakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there is no item now"),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl Error for Closed {}
impl Error for TryPutError {}
impl Error for TryTakeError {}
