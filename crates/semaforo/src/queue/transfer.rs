//! A queue whose senders can wait until their very message is taken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::meeting::{Meeting, Receive, Transfer, private, receiving};
use super::transferring::{Delivery, SENDERS, TAKERS};
use crate::wait::request::Request;

/// An unbounded queue in which a sender may leave a message ([`put`](Self::put)), or wait until it is
/// taken ([`transfer`](Self::transfer)).
///
/// Messages are taken in the order of their coming, whoever waits for which. A transfer that is
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
///     orders.transfer("tea").wait().unwrap();      // somebody has it now
/// });
/// ```
pub struct TransferQueue<T> {
    meeting: Meeting<T>,
}

impl<T> private::Sealed<T> for TransferQueue<T> {
    const EAGER: bool = false;

    #[inline]
    fn meeting(&self) -> &Meeting<T> {
        &self.meeting
    }
}

impl<T> TransferQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self { meeting: Meeting::new(<Self as private::Sealed<T>>::EAGER) }
    }

    /// Leaves an item for whoever takes it. Never waits.
    ///
    /// # Errors
    /// With the item, if the queue is closed.
    pub fn put(&self, item: T) -> Result<(), Rejected<T>> {
        let hall = &self.meeting.hall;
        let put = hall.change(|rule, _, queue, wakes| rule.put(queue, item, wakes));
        put.map_err(|(item, _)| Rejected { item, why: Closed })
    }

    /// Leaves an item, and waits until it is taken.
    #[inline]
    pub fn transfer(&self, item: T) -> Request<Transfer<T, Self, &Self>> {
        Request::new(Transfer::of(self), Delivery::send(item))
    }

    /// [`transfer`](Self::transfer), over a handle of its own.
    pub fn transfer_owned(self: &Arc<Self>, item: T) -> Request<Transfer<T, Self, Arc<Self>>> {
        Request::new(Transfer::of(Arc::clone(self)), Delivery::send(item))
    }

    /// Hands an item to somebody who waits for one now, or to nobody.
    ///
    /// # Errors
    /// With the item, if nobody waits, or the queue is closed.
    pub fn try_transfer(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        self.meeting.try_transfer(item)
    }

    /// A copy of the next item. Only for items that are copied without running anybody's code, because
    /// the queue is locked meanwhile.
    pub fn peek(&self) -> Option<T>
    where
        T: Copy,
    {
        self.meeting.hall.locked(|rule, _, _| rule.peek())
    }

    /// How many items there are, counting those whose senders wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.meeting.hall.locked(|rule, _, _| rule.len())
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
    pub fn waiting_consumers(&self) -> usize {
        self.meeting.hall.waiters_in(TAKERS)
    }

    /// How many wait until their item is taken.
    #[must_use]
    pub fn waiting_transfers(&self) -> usize {
        self.meeting.hall.waiters_in(SENDERS)
    }

    receiving!();
}

impl<T> Default for TransferQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for TransferQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferQueue")
            .field("len", &self.len())
            .field("closed", &self.is_closed())
            .field("waiters", &self.waiters())
            .finish()
    }
}
