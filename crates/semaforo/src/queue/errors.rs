//! What can go wrong with a queue.

use std::error::Error;
use std::fmt;

use crate::policy::refusals;
use crate::wait::limits::WaitError;

/// The queue is closed; for requests that take, it is empty too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// An item that was not accepted, and why.
///
/// The caller that offered it has it back.
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
    /// There is no room, others wait for room, or no taker waits for an item.
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

impl<T, E> Rejected<T, E> {
    /// Why it was not accepted. The item is dropped.
    ///
    /// A `?` does this where an error without the item is wanted, as here. With the item (if that can
    /// be sent and shared, and borrows nothing) it also becomes any `Box<dyn Error + Send + Sync>`.
    ///
    /// ```
    /// use semaforo::{BlockingQueue, Closed, WaitError};
    /// use std::cell::Cell;
    /// use std::error::Error;
    /// use std::time::Duration;
    ///
    /// fn both(queue: &BlockingQueue<Cell<u8>>) -> Result<(), WaitError<Closed>> {
    ///     queue.put(Cell::new(1)).wait()?;
    ///     queue.put(Cell::new(2)).timeout(Duration::from_millis(1)).wait()?;
    ///     Ok(())
    /// }
    ///
    /// fn any(queue: &BlockingQueue<Cell<u8>>) -> Result<(), Box<dyn Error + Send + Sync>> {
    ///     queue.try_put(Cell::new(1)).map_err(|rejected| rejected.into_error())?;
    ///     Ok(())
    /// }
    ///
    /// let queue = BlockingQueue::bounded(1);
    /// assert_eq!(both(&queue), Err(WaitError::TimedOut));
    /// assert!(any(&queue).is_err());
    /// ```
    pub fn into_error(self) -> E {
        self.why
    }
}

/// Drops the item.
impl<T> From<Rejected<T>> for Closed {
    fn from(rejected: Rejected<T>) -> Self {
        rejected.into_error()
    }
}

/// Drops the item.
impl<T> From<Rejected<T>> for WaitError<Closed> {
    fn from(rejected: Rejected<T>) -> Self {
        Self::Refused(rejected.into_error())
    }
}

/// Drops the item.
impl<T, R> From<Rejected<T, WaitError<R>>> for WaitError<R> {
    fn from(rejected: Rejected<T, WaitError<R>>) -> Self {
        rejected.into_error()
    }
}

/// Drops the item.
impl<T> From<Rejected<T, TryPutError>> for TryPutError {
    fn from(rejected: Rejected<T, TryPutError>) -> Self {
        rejected.into_error()
    }
}

/// Drops the item.
impl<T> From<Rejected<T>> for TryPutError {
    fn from(rejected: Rejected<T>) -> Self {
        rejected.into_error().into()
    }
}

impl From<Closed> for TryPutError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

impl From<Closed> for TryTakeError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// Not now is a time limit of zero.
impl From<TryPutError> for WaitError<Closed> {
    fn from(error: TryPutError) -> Self {
        match error {
            TryPutError::Full => Self::TimedOut,
            TryPutError::Closed => Self::Refused(Closed),
        }
    }
}

/// Not now is a time limit of zero.
impl From<TryTakeError> for WaitError<Closed> {
    fn from(error: TryTakeError) -> Self {
        match error {
            TryTakeError::Empty => Self::TimedOut,
            TryTakeError::Closed => Self::Refused(Closed),
        }
    }
}

/// Drops the item.
impl<T> From<Rejected<T, TryPutError>> for WaitError<Closed> {
    fn from(rejected: Rejected<T, TryPutError>) -> Self {
        rejected.into_error().into()
    }
}

impl<T> From<Rejected<T>> for Rejected<T, TryPutError> {
    fn from(Rejected { item, why }: Rejected<T>) -> Self {
        Self { item, why: why.into() }
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

refusals!(Closed);

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
