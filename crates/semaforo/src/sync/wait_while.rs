//! Waiting on a condition for as long as something holds.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::condition::{Condition, Interrupted, LockGuard, WaitFor, assert_here};
use crate::policy::Policy;
use crate::wait::limits::{Limited, Unlimited, WaitLimits, limit_methods};
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
        fn limits(&self) -> Option<&super::WaitLimits>;
    }
}

impl sealed::Limits for Unlimited {
    fn start(&mut self) {}

    fn limits(&self) -> Option<&WaitLimits> {
        None
    }
}

impl sealed::Limits for WaitLimits {
    fn start(&mut self) {
        Self::start(self);
    }

    fn limits(&self) -> Option<&WaitLimits> {
        Some(self)
    }
}

impl WaitWhileLimits for Unlimited {
    type Output<G> = G;

    fn output<G>(outcome: Result<G, Interrupted<G>>) -> G {
        outcome.unwrap_or_else(|interrupted| interrupted.guard)
    }
}

impl WaitWhileLimits for WaitLimits {
    type Output<G> = Result<G, Interrupted<G>>;

    fn output<G>(outcome: Result<G, Interrupted<G>>) -> Result<G, Interrupted<G>> {
        outcome
    }
}

impl<'c, P: Policy, G: LockGuard<Policy = P>, F> WaitWhile<'c, P, G, F, Unlimited> {
    pub(super) fn new(condition: &'c Condition<P>, guard: G, goes_on: F) -> Self {
        Self { condition, goes_on, limits: Unlimited, stage: Stage::Inside(guard) }
    }

    fn limited(self) -> WaitWhile<'c, P, G, F, WaitLimits> {
        let Self { condition, goes_on, limits: Unlimited, stage } = self;
        WaitWhile { condition, goes_on, limits: WaitLimits::default(), stage }
    }

    limit_methods! {
        wait => wait.limited(), WaitWhile<'c, P, G, F, WaitLimits>;
        /// Ends the wait after this time, counted from the first poll; `None` is no limit.
        timeout;
        /// Ends the wait at this instant, if there is one.
        deadline;
        /// Ends the wait when this token is cancelled, if there is one.
        cancel_on;
    }
}

impl<P: Policy, G: LockGuard<Policy = P>, F> WaitWhile<'_, P, G, F, WaitLimits> {
    limit_methods! {
        wait => wait, Self;
        /// Ends the wait after this time, counted from the first poll, if nothing else ends it
        /// before.
        timeout;
        /// Ends the wait at this instant, if nothing else ends it before.
        deadline;
        /// Ends the wait when this token is cancelled; with several, the first of them.
        cancel_on;
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
    match limits.limits() {
        Some(limits) => limits.bound(request),
        None => request,
    }
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
