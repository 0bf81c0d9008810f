//! Where senders and takers of messages meet: what a transfer queue and a synchronous queue share.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::transferring::{Delivery, Signs, Transferring};
use crate::sync::Of;
use crate::wait::core::Attempt;
use crate::wait::hall::{Hall, Rule};
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, Handle, Operation, OutcomeOf, sealed};
use crate::wait::wake::resume;

/// The place itself.
pub(super) struct Meeting<T> {
    pub(super) hall: Arc<Hall<Transferring<T>>>,
}

// SAFETY: what lies here moves with it, and may be dropped by another thread.
unsafe impl<T: Send> Send for Meeting<T> {}
// SAFETY: items are sent through here, never shared.
unsafe impl<T: Send> Sync for Meeting<T> {}

impl<T> Meeting<T> {
    pub(super) fn new(eager: bool) -> Self {
        Self { hall: Hall::new(Transferring::new(eager), Signs::new()) }
    }

    /// Hands an item to somebody who waits.
    pub(super) fn try_transfer(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        if !self.hall.outside.shows_takers() {
            return Err(Rejected { item, why: TryPutError::Full });
        }
        let handed = self.hall.change(|rule, _, queue, wakes| rule.hand_over(queue, item, wakes));
        handed.map_err(|(item, why)| Rejected { item, why })
    }

    #[inline]
    pub(super) fn try_take(&self) -> Result<T, TryTakeError> {
        if !self.hall.outside.shows_messages() {
            return Err(TryTakeError::Empty);
        }
        let (taken, panic) =
            self.hall.change_caught(|rule, _, queue, wakes| rule.take(queue, wakes));
        if let Some(panic) = panic {
            self.put_back(taken.ok());
            resume(panic);
            return Err(TryTakeError::Empty);
        }
        taken.map(|(_, item)| item)
    }

    fn put_back(&self, messages: impl IntoIterator<Item = (u64, T)>) {
        self.hall.change(|rule, signs, queue, wakes| {
            rule.put_back(messages);
            rule.settle(signs, queue, wakes);
        });
    }

    pub(super) fn drain_at_most(&self, max: usize) -> Vec<T> {
        let mut messages = Vec::new();
        let ((), panic) = self.hall.change_caught(|rule, _, queue, wakes| {
            messages.extend(std::iter::from_fn(|| rule.take(queue, wakes).ok()).take(max));
        });
        if let Some(panic) = panic {
            self.put_back(std::mem::take(&mut messages));
            resume(panic);
        }
        messages.into_iter().map(|(_, item)| item).collect()
    }

    pub(super) fn close(&self) -> bool {
        self.hall.change(|rule, signs, queue, wakes| rule.close(signs, queue, wakes))
    }
}

impl<T> Drop for Meeting<T> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.hall.bury(|_, waiter| left.extend(Transferring::handed_to(waiter)));
        left.extend(self.hall.locked(|rule, _, _| rule.empty()));
    }
}

impl<T> fmt::Debug for Meeting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, closed) = self.hall.locked(|rule, _, _| (rule.len(), rule.is_closed()));
        f.debug_struct("Meeting")
            .field("messages", &messages)
            .field("closed", &closed)
            .field("waiters", &self.hall.waiters())
            .finish()
    }
}

/// A queue that is such a place.
pub trait MeetingPlace<T>: private::Sealed<T> {}

pub(super) mod private {
    pub trait Sealed<T> {
        /// Whether a message that is handed to a waiting task counts as taken at once, or when the
        /// task claims it.
        const EAGER: bool;

        fn meeting(&self) -> &super::Meeting<T>;
    }
}

impl<T, Q: private::Sealed<T>> MeetingPlace<T> for Q {}

/// The operation of those who wait until their message is taken.
pub struct Transfer<T, Q, H: Handle<Q>>(H, Of<(T, Q)>);

/// The operation of those who wait for a message.
pub struct Receive<T, Q, H: Handle<Q>>(H, Of<(T, Q)>);

impl<T, Q, H: Handle<Q>> Transfer<T, Q, H> {
    #[inline]
    pub(super) fn of(queue: H) -> Self {
        Self(queue, PhantomData)
    }
}

impl<T, Q, H: Handle<Q>> Receive<T, Q, H> {
    #[inline]
    pub(super) fn of(queue: H) -> Self {
        Self(queue, PhantomData)
    }
}

impl<T, Q, H: Handle<Q>> fmt::Debug for Transfer<T, Q, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transfer")
    }
}

impl<T, Q, H: Handle<Q>> fmt::Debug for Receive<T, Q, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receive")
    }
}

impl<T, Q: MeetingPlace<T>, H: Handle<Q>> sealed::Operation for Transfer<T, Q, H> {
    type Line = Hall<Transferring<T>>;
    type Beside = ();

    /// If being handed over is being taken, it can be done before anything else.
    #[inline]
    fn attempt(&self, delivery: &mut Delivery<T>) -> Attempt {
        let meeting = self.0.meeting();
        if !Q::EAGER || !meeting.hall.outside.shows_takers() || delivery.is_empty() {
            return Attempt::Unknown;
        }
        match meeting.try_transfer(delivery.goods()) {
            Ok(()) => Attempt::Granted,
            Err(Rejected { item, .. }) => {
                delivery.fill(item);
                Attempt::Unknown
            }
        }
    }

    #[inline]
    fn line(&self) -> &Self::Line {
        &self.0.meeting().hall
    }
}

impl<T, Q: MeetingPlace<T>, H: Handle<Q>> Operation for Transfer<T, Q, H> {
    type Output = Result<(), Rejected<T>>;
    type Bounded = Result<(), Rejected<T, WaitError<Closed>>>;

    #[inline]
    fn output(self, delivery: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map_err(|why| delivery.rejected(why))
    }

    #[inline]
    fn bounded(self, delivery: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map_err(|why| delivery.rejected(why))
    }
}

impl<T, Q: MeetingPlace<T>, H: Handle<Q>> sealed::Operation for Receive<T, Q, H> {
    type Line = Hall<Transferring<T>>;
    type Beside = ();

    #[inline]
    fn attempt(&self, delivery: &mut Delivery<T>) -> Attempt {
        match self.0.meeting().try_take() {
            Ok(item) => {
                delivery.fill(item);
                Attempt::Granted
            }
            Err(_) => Attempt::Unknown,
        }
    }

    /// A thread that finds nothing looks again for a moment: whoever is about to leave something can
    /// then go on at once.
    #[inline]
    fn tries_first(&self) -> bool {
        !Q::EAGER
    }

    #[inline]
    fn line(&self) -> &Self::Line {
        &self.0.meeting().hall
    }
}

impl<T, Q: MeetingPlace<T>, H: Handle<Q>> Operation for Receive<T, Q, H> {
    type Output = Result<T, Closed>;
    type Bounded = Result<T, WaitError<Closed>>;

    #[inline]
    fn output(self, delivery: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map(|()| delivery.taken())
    }

    #[inline]
    fn bounded(self, delivery: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| delivery.taken())
    }
}

/// What both queues offer.
macro_rules! receiving {
    () => {
        /// Takes the next item, when there is one. Refused when the queue is closed and empty.
        #[inline]
        pub fn take(&self) -> Request<Receive<T, Self, &Self>> {
            Request::new(Receive::of(self), Delivery::take())
        }

        /// [`take`](Self::take), over a handle of its own.
        pub fn take_owned(self: &Arc<Self>) -> Request<Receive<T, Self, Arc<Self>>> {
            Request::new(Receive::of(Arc::clone(self)), Delivery::take())
        }

        /// Takes the next item now, or not at all.
        ///
        /// # Errors
        /// If there is none, or others wait for one.
        pub fn try_take(&self) -> Result<T, TryTakeError> {
            self.meeting.try_take()
        }

        /// Every item that could be taken now. Those who wait until theirs is taken are told.
        pub fn drain(&self) -> Vec<T> {
            self.drain_at_most(usize::MAX)
        }

        /// [`drain`](Self::drain), but no more than so many.
        pub fn drain_at_most(&self, max: usize) -> Vec<T> {
            self.meeting.drain_at_most(max)
        }

        /// No more items: those who wait until theirs is taken get it back, and whoever takes gets
        /// what is left, and is then refused. False if it was closed before.
        pub fn close(&self) -> bool {
            self.meeting.close()
        }

        /// Whether it was closed; there may be items left.
        #[must_use]
        pub fn is_closed(&self) -> bool {
            self.meeting.hall.locked(|rule, _, _| rule.is_closed())
        }

        /// How many requests wait: for an item, and until theirs is taken.
        #[must_use]
        pub fn waiters(&self) -> usize {
            self.meeting.hall.waiters()
        }

        /// How long a task may leave an item unclaimed while others wait, before it is passed on:
        /// 50 ms unless set, and at least 2 ms.
        pub fn set_patience(&self, patience: Duration) {
            self.meeting.hall.set_patience(patience);
        }
    };
}
pub(super) use receiving;
