//! A queue without room: an item goes from hand to hand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::errors::{Rejected, TryPutError, TryTakeError};
use super::rendezvous::{Receive, Rendezvous, Transfer, receiving, sealed};
use super::transfer_rule::{SENDERS, TAKERS, TransferSlot};
use crate::primitive::constant_unless_modelled;
use crate::wait::operation::objects;
use crate::wait::request::Request;

/// A queue without room: a put waits for a taker, and a taker for a put.
///
/// Both are served first come, first served. A put that is cancelled, times out or is dropped takes
/// its item along.
///
/// A put is done when its item has been handed to a taker. If that was a waiting task, which is then
/// dropped or never polled again, the item goes to the next taker, before all others; to
/// know that an item was claimed, use [`TransferQueue::transfer`](crate::TransferQueue::transfer).
///
/// ```
/// use semaforo::SynchronousQueue;
///
/// let counter = SynchronousQueue::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| counter.put("ticket").wait().unwrap());
///     assert_eq!(counter.take().wait(), Ok("ticket"));
/// });
/// ```
#[doc(alias = "rendezvous")]
#[doc(alias = "zero-capacity channel")]
pub struct SynchronousQueue<T> {
    rendezvous: Rendezvous<T>,
}

impl<T> sealed::RendezvousQueue for SynchronousQueue<T> {
    type Item = T;

    const EAGER: bool = true;

    #[inline]
    fn rendezvous(&self) -> &Rendezvous<T> {
        &self.rendezvous
    }
}

impl<T> SynchronousQueue<T> {
    constant_unless_modelled! {
        /// A queue without waiting requests. Can be a `static`, and allocates nothing until it is used.
        #[must_use]
        pub const fn new() -> Self {
            Self { rendezvous: Rendezvous::new(<Self as sealed::RendezvousQueue>::EAGER) }
        }
    }

    /// Waits for a taker of the item.
    ///
    /// A request that loses a `select!` may have been served already: then its item was taken.
    #[inline]
    pub fn put(&self, item: T) -> Request<Transfer<&Self>> {
        Request::new(Transfer::of(self), TransferSlot::sending(item))
    }

    /// [`put`](Self::put), over a handle of its own.
    pub fn put_owned(self: &Arc<Self>, item: T) -> Request<Transfer<Arc<Self>>> {
        Request::new(Transfer::of(Arc::clone(self)), TransferSlot::sending(item))
    }

    /// Hands an item to a taker that waits now, or to none.
    ///
    /// # Errors
    /// With the item, if no taker waits, or the queue is closed.
    #[doc(alias = "offer")]
    pub fn try_put(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        self.rendezvous.try_transfer(item)
    }

    /// Zero: there is no room for any item.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    /// True: there is no room for any item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Zero: there is no room for any item.
    #[must_use]
    pub fn remaining(&self) -> usize {
        0
    }

    /// Nothing: there is no room for any item.
    #[must_use]
    pub fn peek(&self) -> Option<T> {
        None
    }

    /// How many items could be taken now: those that wait to be taken.
    #[must_use]
    pub fn available(&self) -> usize {
        self.rendezvous.object().locked(|rule, _, _| rule.len())
    }

    /// How many wait for an item.
    #[must_use]
    pub fn waiting_takers(&self) -> usize {
        self.rendezvous.object().waiters_in(TAKERS)
    }

    /// How many requests wait for a taker.
    #[must_use]
    pub fn waiting_putters(&self) -> usize {
        self.rendezvous.object().waiters_in(SENDERS)
    }

    receiving!();
}

impl<T> Default for SynchronousQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

objects!([T] SynchronousQueue<T> => T);

impl<T> fmt::Debug for SynchronousQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SynchronousQueue")
            .field("closed", &self.is_closed())
            .field("waiters", &self.waiters())
            .finish()
    }
}
