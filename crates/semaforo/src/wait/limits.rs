//! How a request is bounded, and what it yields when it is.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use super::bounds::Bounds;
use super::cancel::CancelToken;
use super::operation::{AskOf, Operation, OutcomeOf};
use super::request::Request;
use crate::policy::Refusal;
use crate::primitive::now;

/// How a request is bounded: [`Unlimited`] or [`Limited`].
pub trait Limits: sealed::Limits {
    /// What a request for this operation yields.
    type Output<O: Operation>;

    #[doc(hidden)]
    fn output<O: Operation>(
        operation: O,
        ask: AskOf<O>,
        extra: O::Extra,
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
    #[doc(alias = "InterruptedException")]
    #[doc(alias = "ThreadInterruptedException")]
    #[doc(alias = "OperationCanceledException")]
    Cancelled,
    /// Its time was up.
    #[doc(alias = "TimeoutException")]
    TimedOut,
}

impl WaitError {
    /// The same, of a request that could also have been refused: a `?` does this for the refusals of
    /// this crate, and a policy of your own can be told with it.
    ///
    /// ```
    /// use semaforo::{AcquireError, Mutex, Semaphore, WaitError};
    /// use std::time::Duration;
    ///
    /// fn both(lock: &Mutex<u32>, jobs: &Semaphore) -> Result<u32, WaitError<AcquireError>> {
    ///     let _job = jobs.acquire(1).wait()?;                            // an AcquireError
    ///     Ok(*lock.lock().timeout(Duration::from_millis(5)).wait()?)     // a WaitError
    /// }
    ///
    /// assert_eq!(both(&Mutex::new(7), &Semaphore::new(1)), Ok(7));
    /// ```
    pub fn widen<R>(self) -> WaitError<R> {
        match self {
            Self::Cancelled => WaitError::Cancelled,
            Self::TimedOut => WaitError::TimedOut,
        }
    }
}

impl<R: Refusal> From<R> for WaitError<R> {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal)
    }
}

/// Why something that is now or not at all was not.
///
/// `R` is why it could be refused; with [`Infallible`](std::convert::Infallible) it never is. What can
/// never be refused says only whether it was granted: `try_lock` yields an `Option`, `try_pass` a `bool`.
///
/// ```
/// use semaforo::{AcquireError, Semaphore, TryError};
///
/// let jobs = Semaphore::with_max(0, 4);
/// assert_eq!(jobs.try_acquire(1).unwrap_err(), TryError::NotNow);
/// jobs.close();
/// assert_eq!(jobs.try_acquire(1).unwrap_err(), TryError::Refused(AcquireError::Closed));
/// ```
#[doc(alias = "TryAcquireError")]
#[doc(alias = "TryLockError")]
#[doc(alias = "NoPermits")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryError<R = std::convert::Infallible> {
    /// It would have had to wait.
    NotNow,
    /// It can never be granted.
    Refused(R),
}

impl<R: fmt::Display> fmt::Display for TryError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNow => write!(f, "not without waiting"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl<R: Error + 'static> Error for TryError<R> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotNow => None,
            Self::Refused(refusal) => Some(refusal),
        }
    }
}

/// Not now is a time limit of zero.
impl<R> From<TryError<R>> for WaitError<R> {
    fn from(error: TryError<R>) -> Self {
        match error {
            TryError::NotNow => Self::TimedOut,
            TryError::Refused(refusal) => Self::Refused(refusal),
        }
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
        extra: O::Extra,
        outcome: OutcomeOf<O>,
    ) -> O::Output {
        let outcome = outcome.map_err(|error| match error {
            WaitError::Refused(refusal) => refusal,
            WaitError::Cancelled | WaitError::TimedOut => {
                unreachable!("a request without bounds was ended by one")
            }
        });
        operation.output(ask, extra, outcome)
    }
}

impl Limits for Limited {
    type Output<O: Operation> = O::Bounded;

    #[inline]
    fn output<O: Operation>(
        operation: O,
        ask: AskOf<O>,
        extra: O::Extra,
        outcome: OutcomeOf<O>,
    ) -> O::Bounded {
        operation.bounded(ask, extra, outcome)
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

/// What may end the waits of something that makes several requests: a time limit, a deadline and
/// tokens. (What may end a single request is in its `Bounds`.)
#[derive(Clone, Debug, Default)]
pub struct WaitLimits {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    tokens: Vec<CancelToken>,
}

impl WaitLimits {
    /// Ends a wait after this time, if there is one, unless something else ends it before.
    pub(crate) fn limit_duration(&mut self, limit: Option<Duration>) {
        self.timeout = self.timeout.into_iter().chain(limit).min();
    }

    /// Ends a wait at this instant, if there is one, unless something else ends it before.
    pub(crate) fn limit_instant(&mut self, limit: Option<Instant>) {
        self.deadline = self.deadline.into_iter().chain(limit).min();
    }

    /// Ends a wait when this token, if there is one, is cancelled, or any other.
    pub(crate) fn add_token(&mut self, token: Option<&CancelToken>) {
        self.tokens.extend(token.cloned());
    }

    /// Whether there is nothing that could end a wait.
    pub(crate) fn is_none(&self) -> bool {
        self.timeout.is_none() && self.deadline.is_none() && self.tokens.is_empty()
    }

    /// Lets the time limit count from now, for all requests together.
    pub(crate) fn start(&mut self) {
        let end = self.timeout.take().and_then(|timeout| now().checked_add(timeout));
        self.limit_instant(end);
    }

    /// A request under these limits.
    pub(crate) fn bound<O: Operation>(&self, request: Request<O, Limited>) -> Request<O, Limited> {
        let request = request.timeout(self.timeout).deadline(self.deadline);
        self.tokens.iter().fold(request, |request, token| request.cancel_on(token))
    }
}

/// The builder methods of something that has [`WaitLimits`], as its field `limits` or as that of
/// what
/// `$limited` makes of it.
macro_rules! limit_methods {
    (
        $this:ident => $limited:expr, $output:ty;
        $(#[$timeout:meta])* timeout;
        $(#[$deadline:meta])* deadline;
        $(#[$token:meta])* cancel_on;
    ) => {
        $(#[$timeout])*
        pub fn timeout(self, limit: impl Into<Option<std::time::Duration>>) -> $output {
            let $this = self;
            let mut limited = $limited;
            limited.limits.limit_duration(limit.into());
            limited
        }

        $(#[$deadline])*
        pub fn deadline(self, limit: impl Into<Option<std::time::Instant>>) -> $output {
            let $this = self;
            let mut limited = $limited;
            limited.limits.limit_instant(limit.into());
            limited
        }

        $(#[$token])*
        pub fn cancel_on<'t>(
            self,
            token: impl Into<Option<&'t $crate::wait::cancel::CancelToken>>,
        ) -> $output {
            let $this = self;
            let mut limited = $limited;
            limited.limits.add_token(token.into());
            limited
        }
    };
}
pub(crate) use limit_methods;
