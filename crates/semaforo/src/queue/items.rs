//! Taking item after item.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::blocking::BlockingQueue;
use super::errors::Closed;
use super::source;
use super::synchronous::SynchronousQueue;
use super::transfer::TransferQueue;
use crate::wait::limits::{Limited, WaitError, WaitLimits, limit_methods};
use crate::wait::operation::{ContentOf, Handle};
use crate::wait::request::Request;

macro_rules! item_methods {
    ($($queue:ident),*) => {$(
        impl<T> $queue<T> {
            /// Takes item after item in this thread, until the queue is closed and empty. Limits and
            /// tokens can be set, for each item: [`Items`]. So does `for item in &queue`.
            #[doc(alias = "GetConsumingEnumerable")]
            pub fn items(&self) -> Items<&Self> {
                Items::of(self)
            }

            /// [`items`](Self::items), over a handle of its own.
            pub fn items_owned(self: &std::sync::Arc<Self>) -> Items<std::sync::Arc<Self>> {
                Items::of(std::sync::Arc::clone(self))
            }

            /// Takes item after item in a task, until the queue is closed and empty. Limits and tokens
            /// can be set, for each item: [`ItemStream`].
            ///
            /// ```
            /// use futures::StreamExt;
            #[doc = concat!("use semaforo::", stringify!($queue), ";")]
            ///
            /// # futures::executor::block_on(async {
            #[doc = concat!("let jobs = ", stringify!($queue), "::<u32>::default();")]
            /// jobs.close();
            /// assert_eq!(jobs.stream().collect::<Vec<_>>().await, []);
            /// # });
            /// ```
            pub fn stream(&self) -> ItemStream<&Self> {
                ItemStream::of(self)
            }

            /// [`stream`](Self::stream), over a handle of its own.
            pub fn stream_owned(self: &std::sync::Arc<Self>) -> ItemStream<std::sync::Arc<Self>> {
                ItemStream::of(std::sync::Arc::clone(self))
            }
        }

        /// Takes item after item in this thread, until the queue is closed and empty.
        impl<'a, T> IntoIterator for &'a $queue<T> {
            type Item = T;
            type IntoIter = Items<Self>;

            fn into_iter(self) -> Items<Self> {
                self.items()
            }
        }
    )*};
}

item_methods!(BlockingQueue, TransferQueue, SynchronousQueue);

type TakeOf<H> = <<H as std::ops::Deref>::Target as source::sealed::Source>::Take<H>;

macro_rules! per_item {
    () => {
        limit_methods! {
            items => items, Self;
            /// Ends when no item has come for this time, if there is one.
            timeout;
            /// Ends when there is no item at this instant, if there is one, or later.
            deadline;
            /// Ends when there is no item and this token, if there is one, was cancelled; with
            /// several, any of them.
            cancel_on;
        }

        /// Why there was no further item, once that is so: closed and empty, too late, or cancelled.
        pub fn ended_by(&self) -> Option<WaitError<Closed>> {
            self.ended
        }
    };
}

/// The items of a queue, taken one after another by a thread until it is closed and empty, or until a
/// limit or token ends the wait for one of them.
///
/// An item that is there is taken in any case, as by every request. Dropping this leaves the rest in
/// the queue. After its end it can be asked again, and waits again, if the queue is not closed.
///
/// ```
/// use semaforo::{BlockingQueue, WaitError};
/// use std::time::Duration;
///
/// let jobs = BlockingQueue::unbounded();
/// jobs.extend_from([1, 2, 3]);
/// let mut items = jobs.items().timeout(Duration::from_millis(5));
/// assert_eq!(items.by_ref().sum::<u32>(), 6);
/// assert_eq!(items.ended_by(), Some(WaitError::TimedOut));
/// ```
#[must_use = "nothing is taken until this is iterated"]
pub struct Items<H> {
    queue: H,
    limits: WaitLimits,
    ended: Option<WaitError<Closed>>,
}

impl<H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>>> Items<H> {
    pub(super) fn of(queue: H) -> Self {
        Self { queue, limits: WaitLimits::default(), ended: None }
    }

    per_item!();
}

impl<H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>>> Iterator
    for Items<H>
{
    type Item = ContentOf<H>;

    fn next(&mut self) -> Option<ContentOf<H>> {
        let request = source::sealed::Source::take_by(&*self.queue);
        let taken = if self.limits.is_none() {
            request.wait().map_err(WaitError::Refused)
        } else {
            self.limits.bound(request.timeout(None)).wait()
        };
        self.ended = taken.as_ref().err().copied();
        taken.ok()
    }
}

impl<H: fmt::Debug> fmt::Debug for Items<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Items").field(&self.queue).finish()
    }
}

/// The items of a queue, taken one after another by a task until it is closed and empty, or until a
/// limit or token ends the wait for one of them.
///
/// An item that is there is taken in any case, as by every request. Dropping this leaves the rest in
/// the queue, and gives back an item that it was handed and has not yielded.
#[must_use = "nothing is taken until this is polled"]
pub struct ItemStream<
    H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>>,
> {
    queue: H,
    limits: WaitLimits,
    ended: Option<WaitError<Closed>>,
    /// What it waits for. Pinned with it.
    next: Next<H>,
}

enum Next<H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>>> {
    Nothing,
    Unlimited(Request<TakeOf<H>>),
    Limited(Request<TakeOf<H>, Limited>),
}

impl<H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>>> ItemStream<H> {
    pub(super) fn of(queue: H) -> Self {
        Self { queue, limits: WaitLimits::default(), ended: None, next: Next::Nothing }
    }

    per_item!();
}

impl<H> Stream for ItemStream<H>
where
    H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>> + Clone,
{
    type Item = ContentOf<H>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ContentOf<H>>> {
        // SAFETY: the request is pinned whenever the stream is: it is never moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if let Next::Nothing = this.next {
            let request = source::sealed::Source::take_by(this.queue.clone());
            this.next = if this.limits.is_none() {
                Next::Unlimited(request)
            } else {
                Next::Limited(this.limits.bound(request.timeout(None)))
            };
        }
        // SAFETY: as above.
        let taken = unsafe {
            match &mut this.next {
                Next::Nothing => return Poll::Pending,
                Next::Unlimited(request) => {
                    let request = Pin::new_unchecked(request);
                    std::task::ready!(request.poll(context)).map_err(WaitError::Refused)
                }
                Next::Limited(request) => {
                    std::task::ready!(Pin::new_unchecked(request).poll(context))
                }
            }
        };
        this.next = Next::Nothing;
        this.ended = taken.as_ref().err().copied();
        Poll::Ready(taken.ok())
    }
}

impl<H> fmt::Debug for ItemStream<H>
where
    H: Handle<Content: Sized, Target: source::sealed::Source<Item = ContentOf<H>>> + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ItemStream").field(&self.queue).finish()
    }
}
