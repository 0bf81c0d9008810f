//! What a transfer queue and a synchronous queue share: their object, sending and taking.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use self::sealed::RendezvousQueue as _;
use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::slot::given_to;
use super::transfer_rule::{TransferRule, TransferSlot};
use crate::primitive::{constant_unless_modelled, made_when_needed};
use crate::wait::contended::Attempt;
use crate::wait::contended::ContendedObject;
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, Handle, Operation, OutcomeOf, sealed as sealed_operation};
use crate::wait::request::Request;
use crate::wait::rule::ObjectRule;
use crate::wait::wake::resume;

/// The object of such a queue, and what users do with it.
pub(super) struct Rendezvous<T> {
    /// Made when it is first needed.
    object: OnceLock<Arc<ContendedObject<TransferRule<T>>>>,
    eager: bool,
}

// SAFETY: what lies here moves with it, and may be dropped by another thread.
unsafe impl<T: Send> Send for Rendezvous<T> {}
// SAFETY: items are sent through here, never shared.
unsafe impl<T: Send> Sync for Rendezvous<T> {}

impl<T> Rendezvous<T> {
    constant_unless_modelled! {
        pub(super) const fn new(eager: bool) -> Self {
            Self { object: made_when_needed!(TransferRule::object(eager)), eager }
        }
    }

    #[inline]
    pub(super) fn object(&self) -> &Arc<ContendedObject<TransferRule<T>>> {
        self.object.get_or_init(|| TransferRule::object(self.eager))
    }

    /// Hands an item to a waiting taker.
    pub(super) fn try_transfer(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        if !self.object().outside.shows_takers() {
            return Err(Rejected { item, why: TryPutError::Full });
        }
        let handed =
            self.object().change(|rule, _, lists, wakes| rule.hand_over(lists, item, wakes));
        handed.map_err(|(item, why)| Rejected { item, why })
    }

    #[inline]
    pub(super) fn try_take(&self) -> Result<T, TryTakeError> {
        if !self.object().outside.shows_messages() {
            return Err(TryTakeError::Empty);
        }
        let (taken, panic) =
            self.object().change_caught(|rule, _, lists, wakes| rule.take(lists, wakes));
        if let Some(panic) = panic {
            self.put_back(taken.ok());
            resume(panic);
            return Err(TryTakeError::Empty);
        }
        taken.map(|(_, item)| item)
    }

    fn put_back(&self, messages: impl IntoIterator<Item = (u64, T)>) {
        self.object().change(|rule, hints, lists, wakes| {
            rule.put_back(messages);
            rule.settle(hints, lists, (), wakes);
        });
    }

    pub(super) fn drain_at_most(&self, max: usize) -> Vec<T> {
        let mut messages = Vec::new();
        let ((), panic) = self.object().change_caught(|rule, _, lists, wakes| {
            messages.extend(std::iter::from_fn(|| rule.take(lists, wakes).ok()).take(max));
        });
        if let Some(panic) = panic {
            self.put_back(std::mem::take(&mut messages));
            resume(panic);
        }
        messages.into_iter().map(|(_, item)| item).collect()
    }

    pub(super) fn close(&self) -> bool {
        self.object().change(|rule, hints, lists, wakes| rule.close(hints, lists, wakes))
    }
}

impl<T> Drop for Rendezvous<T> {
    fn drop(&mut self) {
        let Some(object) = self.object.get() else { return };
        let mut left = Vec::new();
        object.bury(|_, waiter| left.extend(given_to(waiter)));
        left.extend(object.locked(|rule, _, _| rule.empty()));
    }
}

impl<T> fmt::Debug for Rendezvous<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, closed) = self.object().locked(|rule, _, _| (rule.len(), rule.is_closed()));
        f.debug_struct("Rendezvous")
            .field("messages", &messages)
            .field("closed", &closed)
            .field("waiters", &self.object().waiters())
            .finish()
    }
}

/// A queue whose senders and takers meet in a rendezvous.
pub trait RendezvousQueue: sealed::RendezvousQueue {}

pub(super) mod sealed {
    pub trait RendezvousQueue {
        type Item;

        /// Whether a message that is handed to a waiting task counts as taken at once, or when the
        /// task claims it.
        const EAGER: bool;

        fn rendezvous(&self) -> &super::Rendezvous<Self::Item>;
    }
}

impl<Q: sealed::RendezvousQueue> RendezvousQueue for Q {}

/// The items of the queue behind a handle.
type ItemOf<H> = <<H as Deref>::Target as sealed::RendezvousQueue>::Item;

/// The operation of a sender, which waits until its message is taken.
pub struct Transfer<H>(H);

/// The operation of a taker, which waits for a message.
pub struct Receive<H>(H);

impl<H> Transfer<H> {
    #[inline]
    pub(super) fn of(queue: H) -> Self {
        Self(queue)
    }
}

impl<H: Handle<Target: RendezvousQueue>> Receive<H> {
    #[inline]
    pub(super) fn request(queue: H) -> Request<Self> {
        Request::new(Self(queue), TransferSlot::taking())
    }
}

impl<H> fmt::Debug for Transfer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transfer")
    }
}

impl<H> fmt::Debug for Receive<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receive")
    }
}

impl<H: Handle<Target: RendezvousQueue>> sealed_operation::Operation for Transfer<H> {
    type Queue = ContendedObject<TransferRule<ItemOf<H>>>;
    type Extra = ();

    /// If being handed over is being taken, it can be done before anything else.
    #[inline]
    fn attempt(&self, slot: &mut TransferSlot<ItemOf<H>>) -> Attempt {
        let rendezvous = self.0.rendezvous();
        if !H::Target::EAGER || !rendezvous.object().outside.shows_takers() || slot.is_empty() {
            return Attempt::Unknown;
        }
        match rendezvous.try_transfer(slot.take_item()) {
            Ok(()) => Attempt::Granted,
            Err(Rejected { item, .. }) => {
                slot.fill(item);
                Attempt::Unknown
            }
        }
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.rendezvous().object()
    }
}

impl<H: Handle<Target: RendezvousQueue>> Operation for Transfer<H> {
    type Output = Result<(), Rejected<ItemOf<H>>>;
    type Bounded = Result<(), Rejected<ItemOf<H>, WaitError<Closed>>>;

    #[inline]
    fn output(self, slot: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map_err(|why| slot.rejected(why))
    }

    #[inline]
    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map_err(|why| slot.rejected(why))
    }
}

impl<H: Handle<Target: RendezvousQueue>> sealed_operation::Operation for Receive<H> {
    type Queue = ContendedObject<TransferRule<ItemOf<H>>>;
    type Extra = ();

    #[inline]
    fn attempt(&self, slot: &mut TransferSlot<ItemOf<H>>) -> Attempt {
        match self.0.rendezvous().try_take() {
            Ok(item) => {
                slot.fill(item);
                Attempt::Granted
            }
            Err(_) => Attempt::Unknown,
        }
    }

    /// A thread that finds nothing looks again for a moment: the sender that is about to leave
    /// something can then go on at once.
    #[inline]
    fn tries_first(&self) -> bool {
        !H::Target::EAGER
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.rendezvous().object()
    }
}

impl<H: Handle<Target: RendezvousQueue>> Operation for Receive<H> {
    type Output = Result<ItemOf<H>, Closed>;
    type Bounded = Result<ItemOf<H>, WaitError<Closed>>;

    #[inline]
    fn output(self, slot: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map(|()| slot.into_item())
    }

    #[inline]
    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| slot.into_item())
    }
}

/// What both queues offer.
macro_rules! receiving {
    () => {
        /// Takes the next item, when there is one. Refused when the queue is closed and empty.
        #[inline]
        pub fn take(&self) -> Request<Receive<&Self>> {
            Receive::request(self)
        }

        /// [`take`](Self::take), over a handle of its own.
        pub fn take_owned(self: &Arc<Self>) -> Request<Receive<Arc<Self>>> {
            Receive::request(Arc::clone(self))
        }

        /// Takes the next item now, or not at all.
        ///
        /// # Errors
        /// If there is none, or others wait for one.
        #[doc(alias = "poll")]
        pub fn try_take(&self) -> Result<T, TryTakeError> {
            self.rendezvous.try_take()
        }

        /// Every item that could be taken now. Senders that wait until theirs is taken are told.
        pub fn drain(&self) -> Vec<T> {
            self.drain_at_most(usize::MAX)
        }

        /// [`drain`](Self::drain), but no more than so many.
        pub fn drain_at_most(&self, max: usize) -> Vec<T> {
            self.rendezvous.drain_at_most(max)
        }

        /// No more items: senders that wait until theirs is taken get it back, and takers get
        /// what is left, and are then refused. False if it was closed before.
        pub fn close(&self) -> bool {
            self.rendezvous.close()
        }

        /// Whether it was closed; there may be items left.
        #[must_use]
        pub fn is_closed(&self) -> bool {
            self.rendezvous.object().locked(|rule, _, _| rule.is_closed())
        }

        /// How many requests wait: for an item, and until theirs is taken.
        #[must_use]
        pub fn waiters(&self) -> usize {
            self.rendezvous.object().waiters()
        }

        /// How long a task may leave an item unclaimed while others wait, before it is passed on:
        /// 50 ms unless set, and at least 2 ms.
        pub fn set_patience(&self, patience: Duration) {
            self.rendezvous.object().set_patience(patience);
        }
    };
}
pub(super) use receiving;
