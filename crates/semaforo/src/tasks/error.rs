//! Why a task has no result.

use std::any::Any;
use std::error::Error;
use std::fmt;
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
    /// Reached only by who owns this, so that it need not be `Sync`. Gone when it was passed on.
    payload: Option<Box<dyn Any + Send>>,
    message: Option<Box<str>>,
}

// SAFETY: nothing can be done to the payload through a shared reference.
unsafe impl Sync for Panic {}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let message = match payload.downcast_ref::<&str>() {
            Some(message) => Some(Box::from(*message)),
            None => payload.downcast_ref::<String>().map(|message| message.as_str().into()),
        };
        Self { payload: Some(payload), message }
    }

    /// What it said, if it said something.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The payload, as [`catch_unwind`](std::panic::catch_unwind) would have given it.
    #[must_use]
    pub fn into_payload(mut self) -> Box<dyn Any + Send> {
        self.payload.take().expect("a payload is passed on once")
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
        if let Some(payload) = self.payload.take() {
            wake::discard(payload);
        }
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
