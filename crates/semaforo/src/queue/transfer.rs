//! A queue whose senders can wait until their very message is taken.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::rendezvous::{Receive, Rendezvous, Transfer, receiving, sealed};
use super::transfer_rule::{SENDERS, TAKERS, TransferSlot};
use crate::primitive::constant_unless_modelled;
use crate::wait::operation::objects;
use crate::wait::request::Request;

/// An unbounded queue in which a sender may leave a message ([`put`](Self::put)), or wait until it is
/// taken ([`transfer`](Self::transfer)).
///
/// Messages are taken in the order of their coming, be they put or transferred. A transfer that is
/// cancelled, times out or is dropped takes its message along, wherever that stands.
///
/// A transfer is done when its message is claimed: at once by a thread, and by a task when that is
/// polled again. Until then the message can still be withdrawn; and if the task never comes, it goes
/// to the next taker, before all others.
///
/// ```
/// use semaforo::TransferQueue;
///
/// let orders = TransferQueue::new();
/// orders.put("coffee").unwrap();                   // does not wait
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         assert_eq!(orders.take().wait(), Ok("coffee"));
///         assert_eq!(orders.take().wait(), Ok("tea"));
///     });
///     orders.transfer("tea").wait().unwrap();      // a taker has it now
/// });
/// ```
#[doc(alias = "LinkedTransferQueue")]
#[doc(alias = "TransferQueueAsync")]
pub struct TransferQueue<T> {
    rendezvous: Rendezvous<T>,
}

impl<T> sealed::RendezvousQueue for TransferQueue<T> {
    type Item = T;

    const EAGER: bool = false;

    #[inline]
    fn rendezvous(&self) -> &Rendezvous<T> {
        &self.rendezvous
    }
}

impl<T> TransferQueue<T> {
    constant_unless_modelled! {
        /// An empty queue. Can be a `static`, and allocates nothing until it is used.
        #[must_use]
        pub const fn new() -> Self {
            Self { rendezvous: Rendezvous::new(<Self as sealed::RendezvousQueue>::EAGER) }
        }
    }

    /// Leaves an item for the next taker. Never waits.
    ///
    /// # Errors
    /// With the item, if the queue is closed.
    #[doc(alias = "Add")]
    #[doc(alias = "send")]
    #[doc(alias = "offer")]
    pub fn put(&self, item: T) -> Result<(), Rejected<T>> {
        let object = self.rendezvous.object();
        let put = object.change(|rule, _, queue, wakes| rule.put(queue, item, wakes));
        put.map_err(|(item, _)| Rejected { item, why: Closed })
    }

    /// Leaves an item, and waits until it is taken.
    ///
    /// A request that loses a `select!` may have been served already: then its item was taken.
    ///
    /// With a limit of zero it succeeds only if a *thread* waits: that claims the item at once. A task
    /// claims it when it is polled, which takes time, and until then it is not known whether the
    /// item was taken; [`try_transfer`](Self::try_transfer) does not wait for that, and hands the
    /// item to a waiting task, too.
    #[inline]
    pub fn transfer(&self, item: T) -> Request<Transfer<&Self>> {
        Request::new(Transfer::of(self), TransferSlot::sending(item))
    }

    /// [`transfer`](Self::transfer), over a handle of its own.
    pub fn transfer_owned(self: &Arc<Self>, item: T) -> Request<Transfer<Arc<Self>>> {
        Request::new(Transfer::of(Arc::clone(self)), TransferSlot::sending(item))
    }

    /// Hands an item to a taker that waits now, or to none.
    ///
    /// It is done when the item has been handed over, be it to a task that has not claimed it yet. If
    /// that task never comes, the item goes to the next taker. A [`transfer`](Self::transfer) with a
    /// limit of zero is stricter: it fails unless the item is claimed at once, hence by a thread.
    ///
    /// # Errors
    /// With the item, if no taker waits, or the queue is closed.
    #[doc(alias = "tryTransfer")]
    pub fn try_transfer(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        self.rendezvous.try_transfer(item)
    }

    /// A copy of the next item. For other items than such, [`peek_with`](Self::peek_with).
    pub fn peek(&self) -> Option<T>
    where
        T: Copy,
    {
        self.peek_with(|item| *item)
    }

    /// Shows the next item to a closure, if there is one, and leaves it where it is.
    ///
    /// The queue is locked meanwhile, so that the item is the next one for as long as the closure looks
    /// at it: every other user of the queue waits, a task too, and the closure itself must not use the queue,
    /// or it waits for itself.
    ///
    /// ```
    /// use semaforo::TransferQueue;
    ///
    /// let names = TransferQueue::from(["Grace".to_owned(), "Alan".to_owned()]);
    /// assert_eq!(names.peek_with(|name| name.len()), Some(5));
    /// assert_eq!(names.peek_with(String::clone).as_deref(), Some("Grace"));
    /// assert_eq!(names.len(), 2);
    /// ```
    ///
    /// # Panics
    /// If the closure does. That leaves the queue as it was.
    #[doc(alias = "TryPeek")]
    #[doc(alias = "element")]
    pub fn peek_with<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // Caught, so that whatever has to be done before the queue is unlocked is done.
        let looked = self
            .rendezvous
            .object()
            .locked(|rule, _, _| rule.peek(|item| catch_unwind(AssertUnwindSafe(|| look(item)))));
        looked.map(|looked| looked.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// How many items there are, counting those whose senders wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rendezvous.object().locked(|rule, _, _| rule.len())
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items could be taken now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.len()
    }

    /// How many wait for an item.
    #[must_use]
    #[doc(alias = "getWaitingConsumerCount")]
    #[doc(alias = "hasWaitingConsumer")]
    pub fn waiting_consumers(&self) -> usize {
        self.rendezvous.object().waiters_in(TAKERS)
    }

    /// How many wait until their item is taken.
    #[must_use]
    pub fn waiting_transfers(&self) -> usize {
        self.rendezvous.object().waiters_in(SENDERS)
    }

    receiving!();
}

impl<T> Default for TransferQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

objects!([T] TransferQueue<T> => T);

impl<T> fmt::Debug for TransferQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferQueue")
            .field("len", &self.len())
            .field("closed", &self.is_closed())
            .field("waiters", &self.waiters())
            .finish()
    }
}
