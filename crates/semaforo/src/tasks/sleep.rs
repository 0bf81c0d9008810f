//! Waiting for nothing but time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::policy::Gate;
use crate::primitive::global;
use crate::synchronizer::Synchronizer;
use crate::wait::cancel::CancelToken;
use crate::wait::contended::Attempt;
use crate::wait::limits::{Limited, WaitError};
use crate::wait::operation::{Operation, sealed};
use crate::wait::request::Request;
use crate::wait::word::WordObject;

/// Waits for this time, counted from the first poll: in a task or in a thread, with or without a
/// pool.
///
/// ```
/// use semaforo::tasks::{Pool, sleep};
/// use std::time::Duration;
///
/// let tea = Pool::global().spawn_future(async {
///     sleep(Duration::from_millis(3)).await;
///     "tea"
/// });
/// assert_eq!(tea.wait().unwrap(), "tea");
/// sleep(Duration::from_millis(1)).wait();
/// ```
///
/// It can be cancelled like any other request:
///
/// ```
/// use semaforo::{CancelSource, WaitError, tasks::sleep};
/// use std::time::Duration;
///
/// let stop = CancelSource::new();
/// stop.cancel();
/// let slept = sleep(Duration::from_secs(3600)).cancel_on(&stop.token()).wait();
/// assert_eq!(slept, Err(WaitError::Cancelled));
/// ```
///
/// A thread that sleeps inside a task of a pool keeps its place there, as with every other wait; a
/// future that awaits this leaves it.
#[doc(alias = "Task.Delay")]
#[doc(alias = "Thread.Sleep")]
#[doc(alias = "delay")]
pub fn sleep(time: Duration) -> Sleep {
    Sleep { request: Request::new(Sleeping, ()).timeout(time) }
}

/// Waits until this instant; see [`sleep`].
pub fn sleep_until(instant: Instant) -> Sleep {
    Sleep { request: Request::new(Sleeping, ()).deadline(instant) }
}

/// The request of [`sleep`] and [`sleep_until`].
#[must_use = "a request does nothing until it is awaited or waited on"]
pub struct Sleep {
    request: Request<Sleeping, Limited>,
}

impl Sleep {
    /// Blocks this thread until the time has come.
    pub fn wait(self) {
        let slept = self.request.wait();
        debug_assert!(slept.is_ok(), "without a token it ends by its time");
    }

    /// Ends the wait when this token, if there is one, is cancelled; then the request yields
    /// [`WaitError::Cancelled`], and otherwise `Ok`. A further limit makes it shorter.
    pub fn cancel_on<'t>(
        self,
        token: impl Into<Option<&'t CancelToken>>,
    ) -> Request<Sleeping, Limited> {
        self.request.cancel_on(token)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the request is pinned with this, and never moved out of it.
        let request = unsafe { self.map_unchecked_mut(|this| &mut this.request) };
        request.poll(context).map(drop)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sleep").field(&self.request).finish()
    }
}

global! {
    /// A gate that never opens.
    pub(crate) static NEVER: Synchronizer<Gate> = Synchronizer::new(Gate, 0);
}

/// The operation of letting time pass.
#[derive(Debug)]
pub struct Sleeping;

impl sealed::Operation for Sleeping {
    type Queue = WordObject<Gate>;
    type Extra = ();

    fn attempt(&self, (): &mut ()) -> Attempt {
        Attempt::Unknown
    }

    fn queue(&self) -> &WordObject<Gate> {
        NEVER.core()
    }
}

impl Operation for Sleeping {
    type Output = ();
    type Bounded = Result<(), WaitError>;

    fn output(self, (): (), (): (), _: Result<(), std::convert::Infallible>) {}

    fn bounded(self, (): (), (): (), outcome: Result<(), WaitError>) -> Result<(), WaitError> {
        match outcome {
            Err(WaitError::Cancelled) => Err(WaitError::Cancelled),
            Ok(()) | Err(WaitError::TimedOut) => Ok(()),
        }
    }
}
