//! Why a task has no result.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;

use super::head::state;
use crate::wait::limits::WaitError;
use crate::wait::wake;

/// Why a task has no result.
///
/// ```
/// use semaforo::tasks::{JoinError, Pool};
///
/// let pool = Pool::new();
/// let broken = pool.spawn(|| { if true { panic!("no tea") } });
/// match broken.wait() {
///     Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), Some("no tea")),
///     other => panic!("{other:?}"),
/// }
/// ```
#[doc(alias = "AggregateException")]
#[doc(alias = "ExecutionException")]
#[doc(alias = "TaskCanceledException")]
#[doc(alias = "CancellationException")]
#[derive(Debug)]
pub enum JoinError {
    /// It was cancelled, before it began or before it ended.
    Cancelled,
    /// It panicked, with this.
    Panicked(Panic),
    /// The pool was shut down before it began, or before it was even started.
    ShutDown,
}

impl JoinError {
    pub(crate) fn cancelled(state: u32) -> Self {
        if state & state::SHUT_DOWN != 0 { Self::ShutDown } else { Self::Cancelled }
    }

    /// Goes on panicking, if that is what the task did.
    ///
    /// # Panics
    /// With the task's own panic; or with this error's message, if it was cancelled.
    pub fn resume(self) -> ! {
        match self {
            Self::Panicked(panic) => panic.resume(),
            error => panic!("{error}"),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => write!(f, "the task was cancelled"),
            Self::Panicked(panic) => panic.fmt(f),
            Self::ShutDown => write!(f, "the pool was shut down"),
        }
    }
}

impl Error for JoinError {}

impl From<JoinError> for WaitError<JoinError> {
    fn from(error: JoinError) -> Self {
        Self::Refused(error)
    }
}

impl From<WaitError> for WaitError<JoinError> {
    fn from(error: WaitError) -> Self {
        error.widen()
    }
}

/// What a task panicked with.
///
/// Dropping it does not panic, even if dropping the payload would.
pub struct Panic {
    /// Given away by `into_payload`, or dropped with this. Small, because every task has room for it.
    payload: ManuallyDrop<Box<dyn Any + Send>>,
}

// SAFETY: through a shared reference nothing is reached of the payload but text, which may be shared.
unsafe impl Sync for Panic {}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        Self { payload: ManuallyDrop::new(payload) }
    }

    /// What it said, if it said something.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        let payload = &**self.payload;
        let text = payload.downcast_ref::<&str>().copied();
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }

    /// The payload, as [`catch_unwind`](std::panic::catch_unwind) would have given it.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        let mut panic = ManuallyDrop::new(self);
        // SAFETY: nothing uses it afterwards; the panic itself is not dropped.
        unsafe { ManuallyDrop::take(&mut panic.payload) }
    }

    /// Goes on panicking, without calling the panic hook again.
    ///
    /// # Panics
    /// Always.
    pub fn resume(self) -> ! {
        resume_unwind(self.into_payload())
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards.
        wake::discard(unsafe { ManuallyDrop::take(&mut self.payload) });
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message().unwrap_or("..")).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            Some(message) => write!(f, "the task panicked: {message}"),
            None => write!(f, "the task panicked"),
        }
    }
}
