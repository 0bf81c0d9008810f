//! Taking several items at a time.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use super::blocking::BlockingQueue;
use super::buffer_rule::{BufferRule, BufferSlot, Numbered};
use super::errors::Closed;
use crate::wait::contended::Attempt;
use crate::wait::contended::ContendedObject;
use crate::wait::limits::{Limited, Unlimited, WaitError, WaitLimits, limit_methods};
use crate::wait::operation::{self, AskOf, Operation, OutcomeOf};
use crate::wait::request::Request;

/// A request for several items; see [`BlockingQueue::take_batch`]. Await it, or [`wait`](Self::wait).
#[must_use = "a request does nothing until it is awaited or waited on"]
pub struct TakeBatch<'a, T, L = Unlimited> {
    queue: &'a BlockingQueue<T>,
    max: usize,
    silence: Duration,
    limits: WaitLimits,
    _limits: PhantomData<fn() -> L>,
}

/// What a batch yields under these limits.
pub trait BatchLimits: sealed::Sealed {
    /// Why there is no batch.
    type Error: From<Closed>;

    #[doc(hidden)]
    fn error(error: WaitError<Closed>) -> Self::Error;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Unlimited {}
    impl Sealed for super::Limited {}
}

impl BatchLimits for Unlimited {
    type Error = Closed;

    fn error(_: WaitError<Closed>) -> Closed {
        Closed
    }
}

impl BatchLimits for Limited {
    type Error = WaitError<Closed>;

    fn error(error: WaitError<Closed>) -> WaitError<Closed> {
        error
    }
}

impl<'a, T> TakeBatch<'a, T> {
    pub(super) fn new(queue: &'a BlockingQueue<T>, max: usize, silence: Duration) -> Self {
        assert!(max > 0, "a batch of at most zero items was asked for");
        Self { queue, max, silence, limits: WaitLimits::default(), _limits: PhantomData }
    }
}

impl<'a, T, L> TakeBatch<'a, T, L> {
    fn limited(self) -> TakeBatch<'a, T, Limited> {
        let Self { queue, max, silence, limits, _limits: _ } = self;
        TakeBatch { queue, max, silence, limits, _limits: PhantomData }
    }

    limit_methods! {
        batch => batch.limited(), TakeBatch<'a, T, Limited>;
        /// Ends the wait after this time, if there is one, counted from when it begins. What was
        /// collected until then is the batch.
        timeout;
        /// Ends the wait at this instant, if there is one. What was collected until then is the
        /// batch.
        deadline;
        /// Ends the wait when this token, if there is one, is cancelled. What was collected until
        /// then is the batch.
        cancel_on;
    }

    fn start(mut self) -> Collecting<'a, T> {
        self.limits.start();
        let Self { queue, max, silence, limits, _limits: _ } = self;
        Collecting { queue, max, silence, limits, items: Vec::new() }
    }
}

impl<T, L: BatchLimits> TakeBatch<'_, T, L> {
    /// Blocks this thread until there is a batch.
    ///
    /// # Errors
    /// If there is not a single item: the queue is closed, or the wait was ended by its limits.
    pub fn wait(self) -> Result<Vec<T>, L::Error> {
        let mut batch = self.start();
        while batch.wants_more() {
            let next = batch.next().wait();
            if let Some(end) = batch.add(next) {
                return end.map_err(L::error);
            }
        }
        Ok(batch.done())
    }
}

impl<'a, T: Send + 'a, L: BatchLimits + 'a> IntoFuture for TakeBatch<'a, T, L> {
    type Output = Result<Vec<T>, L::Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut batch = self.start();
            while batch.wants_more() {
                let next = pin!(batch.next());
                let next = Suspended { next, batch: &mut batch }.await;
                if let Some(end) = batch.add(next) {
                    return end.map_err(L::error);
                }
            }
            Ok(batch.done())
        })
    }
}

/// A batch being collected. Items go back to the queue if it is dropped.
///
/// They are taken in line, where each gets the number by which it finds its place again.
struct Collecting<'a, T> {
    queue: &'a BlockingQueue<T>,
    max: usize,
    silence: Duration,
    limits: WaitLimits,
    items: Vec<Numbered<T>>,
}

impl<'a, T> Collecting<'a, T> {
    /// Takes what is there, and tells whether to wait for more.
    fn wants_more(&mut self) -> bool {
        self.items.extend(self.queue.take_now(self.max - self.items.len()));
        self.items.len() < self.max
    }

    /// The next wait: without silence for the first item.
    fn next(&self) -> Request<TakeNumbered<'a, T>, Limited> {
        let silence = if self.items.is_empty() { Duration::MAX } else { self.silence };
        let request = Request::new(TakeNumbered(self.queue), BufferSlot::taking());
        self.limits.bound(request.timeout(silence))
    }

    /// Adds what a wait yielded, or ends the batch.
    fn add(
        &mut self,
        next: Result<Numbered<T>, WaitError<Closed>>,
    ) -> Option<Result<Vec<T>, WaitError<Closed>>> {
        match next {
            Ok(item) => {
                self.items.push(item);
                None
            }
            Err(error) if self.items.is_empty() => Some(Err(error)),
            Err(_) => Some(Ok(self.done())),
        }
    }

    fn done(&mut self) -> Vec<T> {
        std::mem::take(&mut self.items).into_iter().map(|(_, item)| item).collect()
    }
}

impl<T> Drop for Collecting<'_, T> {
    fn drop(&mut self) {
        self.queue.put_back(std::mem::take(&mut self.items));
    }
}

/// A batch that waits for its next item. If it is dropped, what was collected goes back in the same
/// step in which the request leaves the line: the request behind it gets that first.
struct Suspended<'s, 'a, T> {
    next: Pin<&'s mut Request<TakeNumbered<'a, T>, Limited>>,
    batch: &'s mut Collecting<'a, T>,
}

impl<T> Future for Suspended<'_, '_, T> {
    type Output = Result<Numbered<T>, WaitError<Closed>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.next.as_mut().poll(context)
    }
}

impl<T> Drop for Suspended<'_, '_, T> {
    fn drop(&mut self) {
        let Some(waiter) = self.next.as_mut().leaving() else { return };
        let items = std::mem::take(&mut self.batch.items);
        // SAFETY: the waiter was queued here, is alive, and its owner is this.
        unsafe {
            self.batch.queue.object().withdraw_with(waiter, |rule, ring| {
                items.into_iter().for_each(|item| rule.put_back(ring, item));
            });
        }
    }
}

/// The operation that takes an item with its number.
struct TakeNumbered<'a, T>(&'a BlockingQueue<T>);

impl<T> operation::sealed::Operation for TakeNumbered<'_, T> {
    type Queue = ContendedObject<BufferRule<T>>;
    type Extra = ();

    #[inline]
    fn attempt(&self, _: &mut BufferSlot<T>) -> Attempt {
        Attempt::Unknown
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.object()
    }
}

impl<T> Operation for TakeNumbered<'_, T> {
    type Output = Result<Numbered<T>, Closed>;
    type Bounded = Result<Numbered<T>, WaitError<Closed>>;

    fn output(self, slot: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map(|()| slot.into_numbered())
    }

    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| slot.into_numbered())
    }
}

impl<T, L> fmt::Debug for TakeBatch<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeBatch")
            .field("max", &self.max)
            .field("silence", &self.silence)
            .finish_non_exhaustive()
    }
}
