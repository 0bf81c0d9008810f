//! The two ends of a queue: when the last of one side is gone, the queue is closed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::blocking::{BlockingQueue, Put};
use super::errors::{Rejected, TryPutError, TryTakeError};
use super::items::{ItemStream, Items};
use super::rendezvous::Transfer;
use super::source::Source;
use super::synchronous::SynchronousQueue;
use super::transfer::TransferQueue;
use crate::wait::request::Request;

/// What both ends share.
struct Ends<Q> {
    queue: Arc<Q>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

/// The end of a queue that items are put into. Made by `into_ends`; clone it for more senders.
///
/// When the last sender is dropped, be it by a panic, the queue is closed: receivers get what is left,
/// and are then refused.
pub struct Sender<Q: Source>(Arc<Ends<Q>>);

/// The end of a queue that items are taken from. Made by `into_ends`; clone it for more receivers.
///
/// When the last receiver is dropped, be it by a panic, the queue is closed: senders get their items
/// back. What is in the queue is dropped with the last sender.
pub struct Receiver<Q: Source>(Arc<Ends<Q>>);

macro_rules! ends {
    ($($end:ident: $count:ident),*) => {$(
        impl<Q: Source> $end<Q> {
            /// The queue, for everything else that it offers. Using it does not keep it open.
            pub fn queue(&self) -> &Arc<Q> {
                &self.0.queue
            }
        }

        impl<Q: Source> Clone for $end<Q> {
            fn clone(&self) -> Self {
                self.0.$count.fetch_add(1, Ordering::Relaxed);
                Self(Arc::clone(&self.0))
            }
        }

        impl<Q: Source> Drop for $end<Q> {
            fn drop(&mut self) {
                if self.0.$count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.0.queue.shut();
                }
            }
        }

        impl<Q: Source + fmt::Debug> fmt::Debug for $end<Q> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($end)).field(&self.0.queue).finish()
            }
        }
    )*};
}

ends!(Sender: senders, Receiver: receivers);

macro_rules! into_ends {
    ($($queue:ident: $use:literal),*) => {$(
        impl<T> $queue<T> {
            /// The two ends of this queue: it is closed when the last [`Sender`], or the last
            /// [`Receiver`], is dropped. So a producer that panics does not leave its consumers waiting.
            ///
            /// ```
            #[doc = concat!("use semaforo::", stringify!($queue), ";")]
            ///
            #[doc = concat!("let (sender, receiver) = ", stringify!($queue), "::default().into_ends();")]
            /// std::thread::scope(|scope| {
            ///     scope.spawn(move || {
            ///         for number in 1..=3 {
            #[doc = concat!("            ", $use)]
            ///         }
            ///     });                                        // the only sender is gone
            ///     assert_eq!(receiver.items().sum::<i32>(), 6);
            /// });
            /// ```
            #[doc(alias = "channel")]
            #[doc(alias = "mpsc")]
            pub fn into_ends(self) -> (Sender<Self>, Receiver<Self>) {
                let [senders, receivers] = [(); 2].map(|()| AtomicUsize::new(1));
                let ends = Arc::new(Ends { queue: Arc::new(self), senders, receivers });
                (Sender(Arc::clone(&ends)), Receiver(ends))
            }
        }
    )*};
}

into_ends! {
    BlockingQueue: "sender.put(number).wait().unwrap();",
    TransferQueue: "sender.transfer(number).wait().unwrap();",
    SynchronousQueue: "sender.put(number).wait().unwrap();"
}

impl<T> Sender<BlockingQueue<T>> {
    /// Puts an item, when there is room: [`BlockingQueue::put`].
    pub fn put(&self, item: T) -> Request<Put<&BlockingQueue<T>>> {
        self.0.queue.put(item)
    }

    /// Puts an item now, or not at all: [`BlockingQueue::try_put`].
    ///
    /// # Errors
    /// With the item, if there is no room, others wait for room, or the queue is closed.
    pub fn try_put(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        self.0.queue.try_put(item)
    }
}

impl<T> Sender<SynchronousQueue<T>> {
    /// Waits for a taker of the item: [`SynchronousQueue::put`].
    pub fn put(&self, item: T) -> Request<Transfer<&SynchronousQueue<T>>> {
        self.0.queue.put(item)
    }

    /// Hands an item to a taker that waits now, or to none: [`SynchronousQueue::try_put`].
    ///
    /// # Errors
    /// With the item, if no taker waits, or the queue is closed.
    pub fn try_put(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        self.0.queue.try_put(item)
    }
}

impl<T> Sender<TransferQueue<T>> {
    /// Leaves an item for the next taker: [`TransferQueue::put`].
    ///
    /// # Errors
    /// With the item, if the queue is closed.
    pub fn put(&self, item: T) -> Result<(), Rejected<T>> {
        self.0.queue.put(item)
    }

    /// Leaves an item, and waits until it is taken: [`TransferQueue::transfer`].
    pub fn transfer(&self, item: T) -> Request<Transfer<&TransferQueue<T>>> {
        self.0.queue.transfer(item)
    }

    /// Hands an item to a taker that waits now, or to none: [`TransferQueue::try_transfer`].
    ///
    /// # Errors
    /// With the item, if no taker waits, or the queue is closed.
    pub fn try_transfer(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        self.0.queue.try_transfer(item)
    }
}

impl<Q: Source> Receiver<Q> {
    /// Takes the next item, when there is one. Refused when the queue is closed and empty.
    pub fn take(&self) -> Request<Q::Take<&Q>> {
        Q::take_by(&*self.0.queue)
    }

    /// Takes the next item now, or not at all.
    ///
    /// # Errors
    /// If there is none, or others wait for one.
    pub fn try_take(&self) -> Result<Q::Item, TryTakeError> {
        self.0.queue.take_at_once()
    }

    /// Takes item after item in this thread, until the queue is closed and empty.
    pub fn items(&self) -> Items<&Q> {
        Items::of(&*self.0.queue)
    }

    /// Takes item after item in a task, until the queue is closed and empty.
    pub fn stream(&self) -> ItemStream<&Q> {
        ItemStream::of(&*self.0.queue)
    }
}

/// The items of a receiver, which goes with them: see its `into_iter`.
#[must_use = "nothing is taken until this is iterated"]
pub struct Received<Q: Source> {
    items: Items<Arc<Q>>,
    receiver: Receiver<Q>,
}

impl<Q: Source + fmt::Debug> fmt::Debug for Received<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Received").field(&self.receiver.0.queue).finish()
    }
}

impl<Q: Source> Iterator for Received<Q> {
    type Item = Q::Item;

    fn next(&mut self) -> Option<Q::Item> {
        self.items.next()
    }
}

/// Takes item after item in this thread, until the queue is closed and empty. The receiver is dropped
/// with the loop.
impl<Q: Source> IntoIterator for Receiver<Q> {
    type Item = Q::Item;
    type IntoIter = Received<Q>;

    fn into_iter(self) -> Received<Q> {
        Received { items: Items::of(Arc::clone(&self.0.queue)), receiver: self }
    }
}

/// Takes item after item in this thread, until the queue is closed and empty.
impl<'a, Q: Source> IntoIterator for &'a Receiver<Q> {
    type Item = Q::Item;
    type IntoIter = Items<&'a Q>;

    fn into_iter(self) -> Items<&'a Q> {
        self.items()
    }
}
