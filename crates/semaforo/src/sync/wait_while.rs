//! Waiting on a condition for as long as something holds.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::condition::{Condition, Interrupted, LockGuard, WaitFor, assert_here};
use crate::policy::Policy;
use crate::primitive::now;
use crate::wait::cancel::CancelToken;
use crate::wait::limits::{Limited, Unlimited};
use crate::wait::request::Request;

/// A wait that goes on for as long as something holds; see [`Condition::wait_while`].
#[must_use = "a request does nothing until it is awaited or waited on"]
pub struct WaitWhile<'c, P: Policy, G: LockGuard<Policy = P>, F, L> {
    condition: &'c Condition<P>,
    goes_on: F,
    limits: L,
    stage: Stage<G>,
}

/// Where it stands. Pinned with the rest.
enum Stage<G: LockGuard> {
    /// The lock is held.
    Inside(G),
    /// It is being waited for a signal.
    Waiting(Request<WaitFor<G>, Limited>),
    Finished,
}

/// The limits of a [`WaitWhile`].
#[derive(Debug, Default)]
pub struct WhileLimits {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    tokens: Vec<CancelToken>,
}

/// How a [`WaitWhile`] is bounded, and what it yields then.
pub trait WaitWhileLimits: sealed::Limits {
    /// What the wait yields.
    type Output<G>;

    #[doc(hidden)]
    fn output<G>(outcome: Result<G, Interrupted<G>>) -> Self::Output<G>;
}

mod sealed {
    pub trait Limits {
        /// Fixes the end of a time that counts from now.
        fn start(&mut self);
        fn limits(&self) -> Option<&super::WhileLimits>;
    }
}

impl sealed::Limits for Unlimited {
    fn start(&mut self) {}

    fn limits(&self) -> Option<&WhileLimits> {
        None
    }
}

impl sealed::Limits for WhileLimits {
    fn start(&mut self) {
        if let Some(end) = self.timeout.take().and_then(|timeout| now().checked_add(timeout)) {
            self.deadline = Some(self.deadline.map_or(end, |other| other.min(end)));
        }
    }

    fn limits(&self) -> Option<&WhileLimits> {
        Some(self)
    }
}

impl WaitWhileLimits for Unlimited {
    type Output<G> = G;

    fn output<G>(outcome: Result<G, Interrupted<G>>) -> G {
        outcome.unwrap_or_else(|interrupted| interrupted.guard)
    }
}

impl WaitWhileLimits for WhileLimits {
    type Output<G> = Result<G, Interrupted<G>>;

    fn output<G>(outcome: Result<G, Interrupted<G>>) -> Result<G, Interrupted<G>> {
        outcome
    }
}

impl<'c, P: Policy, G: LockGuard<Policy = P>, F> WaitWhile<'c, P, G, F, Unlimited> {
    pub(super) fn new(condition: &'c Condition<P>, guard: G, goes_on: F) -> Self {
        Self { condition, goes_on, limits: Unlimited, stage: Stage::Inside(guard) }
    }

    fn limited(self) -> WaitWhile<'c, P, G, F, WhileLimits> {
        let Self { condition, goes_on, limits: Unlimited, stage } = self;
        WaitWhile { condition, goes_on, limits: WhileLimits::default(), stage }
    }

    /// Ends the wait after this time, counted from the first poll; `None` is no limit.
    pub fn timeout(
        self,
        limit: impl Into<Option<Duration>>,
    ) -> WaitWhile<'c, P, G, F, WhileLimits> {
        self.limited().timeout(limit)
    }

    /// Ends the wait at this instant, if there is one.
    pub fn deadline(
        self,
        limit: impl Into<Option<Instant>>,
    ) -> WaitWhile<'c, P, G, F, WhileLimits> {
        self.limited().deadline(limit)
    }

    /// Ends the wait when this token is cancelled, if there is one.
    pub fn cancel_on<'t>(
        self,
        token: impl Into<Option<&'t CancelToken>>,
    ) -> WaitWhile<'c, P, G, F, WhileLimits> {
        self.limited().cancel_on(token)
    }
}

impl<P: Policy, G: LockGuard<Policy = P>, F> WaitWhile<'_, P, G, F, WhileLimits> {
    /// Ends the wait after this time, counted from the first poll, if nothing else ends it before.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.limits.timeout = self.limits.timeout.into_iter().chain(limit.into()).min();
        self
    }

    /// Ends the wait at this instant, if nothing else ends it before.
    pub fn deadline(mut self, limit: impl Into<Option<Instant>>) -> Self {
        self.limits.deadline = self.limits.deadline.into_iter().chain(limit.into()).min();
        self
    }

    /// Ends the wait when this token is cancelled; with several, the first of them.
    pub fn cancel_on<'t>(mut self, token: impl Into<Option<&'t CancelToken>>) -> Self {
        self.limits.tokens.extend(token.into().cloned());
        self
    }
}

impl<P, G, F, L> WaitWhile<'_, P, G, F, L>
where
    P: Policy,
    G: LockGuard<Policy = P>,
    F: FnMut(&G::Target) -> bool,
    L: WaitWhileLimits,
{
    /// Blocks this thread until the condition no longer holds, or the wait is ended by its limits.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait(mut self) -> L::Output<G> {
        self.limits.start();
        let Stage::Inside(mut guard) = std::mem::replace(&mut self.stage, Stage::Finished) else {
            unreachable!("a wait that was polled is pinned");
        };
        assert_here(&guard);
        while (self.goes_on)(&guard) {
            match next(self.condition, &self.limits, guard).wait() {
                Ok(signalled) => guard = signalled,
                Err(interrupted) => return L::output(self.look_again(interrupted)),
            }
        }
        L::output(Ok(guard))
    }

    /// What has come about by the time that the lock is held again counts, although the limit came
    /// first.
    fn look_again(&mut self, interrupted: Interrupted<G>) -> Result<G, Interrupted<G>> {
        if (self.goes_on)(&interrupted.guard) { Err(interrupted) } else { Ok(interrupted.guard) }
    }
}

/// One wait for a signal, under these limits.
fn next<P: Policy, G: LockGuard<Policy = P>>(
    condition: &Condition<P>,
    limits: &impl sealed::Limits,
    guard: G,
) -> Request<WaitFor<G>, Limited> {
    let request = condition.wait(guard).timeout(None);
    let Some(WhileLimits { timeout: _, deadline, tokens }) = limits.limits() else {
        return request;
    };
    let request = request.deadline(*deadline);
    tokens.iter().fold(request, |request, token| request.cancel_on(token))
}

impl<P, G, F, L> Future for WaitWhile<'_, P, G, F, L>
where
    P: Policy,
    G: LockGuard<Policy = P>,
    F: FnMut(&G::Target) -> bool,
    L: WaitWhileLimits,
{
    type Output = L::Output<G>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<L::Output<G>> {
        // SAFETY: a request is pinned whenever this is, and is dropped where it is.
        let this = unsafe { self.get_unchecked_mut() };
        loop {
            let guard = match &mut this.stage {
                Stage::Waiting(request) => {
                    // SAFETY: as above.
                    let request = unsafe { Pin::new_unchecked(request) };
                    let outcome = std::task::ready!(request.poll(context));
                    this.stage = Stage::Finished;
                    match outcome {
                        Ok(guard) => guard,
                        Err(interrupted) => {
                            return Poll::Ready(L::output(this.look_again(interrupted)));
                        }
                    }
                }
                // A guard is not pinned.
                inside => match std::mem::replace(inside, Stage::Finished) {
                    Stage::Inside(guard) => {
                        this.limits.start();
                        assert_here(&guard);
                        guard
                    }
                    _ => panic!("a request was polled after it had completed"),
                },
            };
            if !(this.goes_on)(&guard) {
                return Poll::Ready(L::output(Ok(guard)));
            }
            this.stage = Stage::Waiting(next(this.condition, &this.limits, guard));
        }
    }
}

impl<P: Policy, G: LockGuard<Policy = P>, F, L> fmt::Debug for WaitWhile<'_, P, G, F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitWhile").field(self.condition).finish()
    }
}
