//! A queue with room for items, bounded or not.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::batch::TakeBatch;
use super::buffered::{Buffered, Errand, Numbered, PUTTERS, TAKERS};
use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::items::{ItemStream, Items};
use super::ring::{NotNow, Ring};
use super::store::Store;
use crate::sync::Of;
use crate::wait::core::Attempt;
use crate::wait::hall::{Hall, Rule};
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, Handle, Operation, OutcomeOf, sealed};
use crate::wait::request::Request;
use crate::wait::wake::resume;

/// A queue that producers wait for when it is full, and consumers when it is empty.
///
/// First in, first out, unless [built](Self::builder) otherwise: last in, first out, or the smallest
/// priority first. Whoever waits is served in the order of its coming, and a newcomer never overtakes:
/// `try_take` finds nothing while others wait for an item, and `try_put` no room while others wait
/// for room.
///
/// An item that is handed to a task that never comes for it goes to the next taker, before all others.
/// Whoever puts an item and fails (closed, cancelled, timed out) has it back.
///
/// ```
/// use semaforo::BlockingQueue;
///
/// let jobs = BlockingQueue::bounded(2);
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         for job in 1..=5 {
///             jobs.put(job).wait().unwrap();      // waits while there are two
///         }
///         jobs.close();
///     });
///     assert_eq!(jobs.items().sum::<u32>(), 15);  // until it is closed and empty
/// });
/// ```
///
/// A thread that finds a bounded queue full or empty looks again for about a microsecond before it
/// takes its place in line; a task takes it at its first poll.
pub struct BlockingQueue<T> {
    pub(super) hall: Arc<Hall<Buffered<T>>>,
    key: Option<Key<T>>,
}

type Key<T> = Box<dyn Fn(&T) -> i64 + Send + Sync>;

// SAFETY: what is in the queue moves with it, and may be dropped by another thread.
unsafe impl<T: Send> Send for BlockingQueue<T> {}
// SAFETY: items are sent through the queue, never shared.
unsafe impl<T: Send> Sync for BlockingQueue<T> {}

/// Describes a [`BlockingQueue`].
///
/// ```
/// use semaforo::BlockingQueue;
///
/// let urgent_first = BlockingQueue::builder().by_priority(|(urgency, _)| *urgency).build();
/// urgent_first.try_put((2, "water the plants")).unwrap();
/// urgent_first.try_put((1, "put out the fire")).unwrap();
/// assert_eq!(urgent_first.try_take().unwrap(), (1, "put out the fire"));
/// ```
#[must_use = "a builder makes a queue when it is built"]
pub struct Builder<T> {
    capacity: Option<usize>,
    order: Order<T>,
}

enum Order<T> {
    Fifo,
    Lifo,
    Priority(Key<T>),
}

impl<T> Builder<T> {
    /// Room for so many items, and no more.
    ///
    /// # Panics
    /// If it is zero: [`SynchronousQueue`](crate::SynchronousQueue) is the queue without room.
    pub fn capacity(self, capacity: usize) -> Self {
        assert!(capacity > 0, "a queue without room is a SynchronousQueue; its capacity was zero");
        Self { capacity: Some(capacity), ..self }
    }

    /// Last in, first out.
    pub fn lifo(self) -> Self {
        Self { order: Order::Lifo, ..self }
    }

    /// The item with the smallest priority first; first in, first out among equals. The priority of
    /// an item is asked once, before it is put.
    pub fn by_priority(self, priority: impl Fn(&T) -> i64 + Send + Sync + 'static) -> Self {
        Self { order: Order::Priority(Box::new(priority)), ..self }
    }

    /// The queue.
    pub fn build(self) -> BlockingQueue<T> {
        let (store, ring, key) = match (self.order, self.capacity) {
            (Order::Fifo, Some(capacity)) => (Store::Ring, Some(Ring::new(capacity)), None),
            (Order::Fifo, None) => (Store::Line(Default::default()), None, None),
            (Order::Lifo, _) => (Store::Stack(Vec::new()), None, None),
            (Order::Priority(key), _) => {
                (Store::Ranks { heap: Default::default(), came: 0 }, None, Some(key))
            }
        };
        BlockingQueue { hall: Hall::new(Buffered::new(store, self.capacity), ring), key }
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<T> BlockingQueue<T> {
    /// A queue with room for so many items. The room is allocated at once.
    ///
    /// # Panics
    /// If that is zero: [`SynchronousQueue`](crate::SynchronousQueue) is the queue without room.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        Self::builder().capacity(capacity).build()
    }

    /// A queue with room for as many items as there is memory for: putting never waits.
    #[must_use]
    pub fn unbounded() -> Self {
        Self::builder().build()
    }

    /// A queue in another order.
    pub fn builder() -> Builder<T> {
        Builder { capacity: None, order: Order::Fifo }
    }

    /// Puts an item, when there is room.
    #[inline]
    pub fn put(&self, item: T) -> Request<Put<T, &Self>> {
        let errand = self.errand(item);
        Request::new(Put(self, PhantomData), errand)
    }

    /// [`put`](Self::put), over a handle of its own.
    pub fn put_owned(self: &Arc<Self>, item: T) -> Request<Put<T, Arc<Self>>> {
        let errand = self.errand(item);
        Request::new(Put(Arc::clone(self), PhantomData), errand)
    }

    #[inline]
    fn errand(&self, item: T) -> Errand<T> {
        let priority = self.key.as_ref().map_or(0, |key| key(&item));
        Errand::put(item, priority)
    }

    /// Takes the next item, when there is one. Refused when the queue is closed and empty.
    #[inline]
    pub fn take(&self) -> Request<Take<T, &Self>> {
        Request::new(Take(self, PhantomData), Errand::take())
    }

    /// [`take`](Self::take), over a handle of its own.
    pub fn take_owned(self: &Arc<Self>) -> Request<Take<T, Arc<Self>>> {
        Request::new(Take(Arc::clone(self), PhantomData), Errand::take())
    }

    /// Puts an item now, or not at all.
    ///
    /// # Errors
    /// With the item, if there is no room, others wait for room, or the queue is closed.
    pub fn try_put(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        let mut errand = self.errand(item);
        self.put_now(&mut errand).map_err(|why| errand.rejected(why))
    }

    /// Takes the next item now, or not at all.
    ///
    /// # Errors
    /// If there is none, or others wait for one.
    #[inline]
    pub fn try_take(&self) -> Result<T, TryTakeError> {
        match self.ring().map(Ring::try_take) {
            Some(Ok(item)) => Ok(item),
            Some(Err(NotNow::NoUse)) => Err(TryTakeError::Empty),
            Some(Err(NotNow::Slow)) | None => self.take_locked(),
        }
    }

    #[inline]
    fn ring(&self) -> Option<&Ring<T>> {
        self.hall.outside.as_ref()
    }

    #[inline(always)]
    fn put_now(&self, errand: &mut Errand<T>) -> Result<(), TryPutError> {
        if errand.is_empty() {
            // It was put, and a waker panicked; now the errand is run again.
            return Ok(());
        }
        if let Some(ring) = self.ring() {
            match ring.try_put(|| errand.goods().0) {
                Ok(()) => return Ok(()),
                Err(NotNow::NoUse) => return Err(TryPutError::Full),
                Err(NotNow::Slow) => {}
            }
        }
        self.put_locked(errand)
    }

    #[inline(never)]
    fn put_locked(&self, errand: &mut Errand<T>) -> Result<(), TryPutError> {
        let goods = errand.goods();
        let put = self.hall.change(|rule, ring, queue, wakes| rule.put(ring, queue, goods, wakes));
        put.map_err(|(item, why)| {
            errand.fill(item);
            why
        })
    }

    #[inline(never)]
    fn take_locked(&self) -> Result<T, TryTakeError> {
        let (taken, panic) =
            self.hall.change_caught(|rule, ring, queue, wakes| rule.take(ring, queue, wakes));
        if let Some(panic) = panic {
            self.put_back(taken.ok());
            resume(panic);
            return Err(TryTakeError::Empty);
        }
        taken.map(|(_, item)| item)
    }

    /// Takes what can be taken now, no more than so many.
    pub(super) fn take_now(&self, max: usize) -> Vec<Numbered<T>> {
        let mut items = Vec::new();
        let ((), panic) = self.hall.change_caught(|rule, ring, queue, wakes| {
            items.extend(std::iter::from_fn(|| rule.take(ring, queue, wakes).ok()).take(max));
        });
        if let Some(panic) = panic {
            self.put_back(std::mem::take(&mut items));
            resume(panic);
        }
        items
    }

    /// Gives items back that were taken, for those who wait.
    pub(super) fn put_back(&self, items: impl IntoIterator<Item = Numbered<T>>) {
        self.hall.change(|rule, ring, queue, wakes| {
            items.into_iter().for_each(|item| rule.put_back(ring, item));
            rule.settle(ring, queue, wakes);
        });
    }

    /// Takes several items at a time: up to `max`, or fewer once no more has come for the time of
    /// `silence`, or the queue is closed. The first item is waited for like any other.
    ///
    /// Items that were collected when the request is dropped go back to where they were.
    ///
    /// ```
    /// use semaforo::BlockingQueue;
    /// use std::time::Duration;
    ///
    /// let rows = BlockingQueue::unbounded();
    /// (1..=12).for_each(|row| rows.try_put(row).unwrap());
    /// assert_eq!(rows.take_batch(10, Duration::from_secs(1)).wait().unwrap().len(), 10);
    /// assert_eq!(rows.take_batch(10, Duration::from_millis(5)).wait().unwrap(), [11, 12]);
    /// ```
    ///
    /// # Panics
    /// If `max` is zero.
    pub fn take_batch(&self, max: usize, silence: Duration) -> TakeBatch<'_, T> {
        TakeBatch::new(self, max, silence)
    }

    /// Everything that is in the queue, and what those who wait for room bring.
    pub fn drain(&self) -> Vec<T> {
        self.drain_at_most(usize::MAX)
    }

    /// [`drain`](Self::drain), but no more than so many.
    pub fn drain_at_most(&self, max: usize) -> Vec<T> {
        self.take_now(max).into_iter().map(|(_, item)| item).collect()
    }

    /// A copy of the next item. Only for items that are copied without running anybody's code, because
    /// the queue is locked meanwhile.
    pub fn peek(&self) -> Option<T>
    where
        T: Copy,
    {
        self.hall.locked(|rule, ring, _| rule.peek(ring))
    }

    /// No more items: those who wait for room get theirs back, and whoever takes gets what is left,
    /// and is then refused. False if it was closed before.
    pub fn close(&self) -> bool {
        self.hall.change(|rule, ring, queue, wakes| rule.close(ring, queue, wakes))
    }

    /// Whether it was closed; there may be items left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.hall.locked(|rule, _, _| rule.is_closed())
    }

    /// How many items there are. For a moment that can be more than there is room for: when items come
    /// back that somebody was handed and did not take.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hall.locked(|rule, ring, _| rule.len(ring))
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items there is room for at most; `None` if any number.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.hall.locked(|rule, _, _| rule.capacity())
    }

    /// How many more there is room for; `None` if any number.
    #[must_use]
    pub fn remaining(&self) -> Option<usize> {
        self.hall.locked(|rule, ring, _| Some(rule.capacity()?.saturating_sub(rule.len(ring))))
    }

    /// How many items could be taken now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.len()
    }

    /// How many requests wait: to take, and to put.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.hall.waiters()
    }

    /// How many wait for an item.
    #[must_use]
    pub fn waiting_takers(&self) -> usize {
        self.hall.waiters_in(TAKERS)
    }

    /// How many wait for room.
    #[must_use]
    pub fn waiting_putters(&self) -> usize {
        self.hall.waiters_in(PUTTERS)
    }

    /// How long a task may leave an item unclaimed while others wait, before it is passed on: 50 ms
    /// unless set, and at least 2 ms.
    pub fn set_patience(&self, patience: Duration) {
        self.hall.set_patience(patience);
    }

    /// Takes item after item in this thread, until the queue is closed and empty.
    pub fn items(&self) -> Items<'_, T> {
        Items(self)
    }

    /// Takes item after item in a task, until the queue is closed and empty.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use semaforo::BlockingQueue;
    ///
    /// # futures::executor::block_on(async {
    /// let jobs = BlockingQueue::unbounded();
    /// (1..=3).for_each(|job| jobs.try_put(job).unwrap());
    /// jobs.close();
    /// assert_eq!(jobs.stream().collect::<Vec<_>>().await, [1, 2, 3]);
    /// # });
    /// ```
    pub fn stream(&self) -> ItemStream<'_, T> {
        ItemStream::new(self)
    }
}

impl<T> Drop for BlockingQueue<T> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.hall.bury(|_, waiter| left.extend(Buffered::handed_to(waiter)));
        left.extend(self.hall.locked(|rule, ring, _| rule.empty(ring)));
    }
}

impl<T> fmt::Debug for BlockingQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("closed", &self.is_closed())
            .field("waiters", &self.waiters())
            .finish()
    }
}

/// The operation of [`BlockingQueue::put`].
#[derive(Debug)]
pub struct Put<T, H: Handle<BlockingQueue<T>>>(H, Of<T>);

/// The operation of [`BlockingQueue::take`].
#[derive(Debug)]
pub struct Take<T, H: Handle<BlockingQueue<T>>>(H, Of<T>);

impl<T, H: Handle<BlockingQueue<T>>> sealed::Operation for Put<T, H> {
    type Line = Hall<Buffered<T>>;
    type Beside = ();

    #[inline(always)]
    fn attempt(&self, errand: &mut Errand<T>) -> Attempt {
        if self.0.put_now(errand).is_ok() { Attempt::Granted } else { Attempt::Unknown }
    }

    #[inline]
    fn line(&self) -> &Self::Line {
        &self.0.hall
    }
}

impl<T, H: Handle<BlockingQueue<T>>> Operation for Put<T, H> {
    type Output = Result<(), Rejected<T>>;
    type Bounded = Result<(), Rejected<T, WaitError<Closed>>>;

    #[inline]
    fn output(self, errand: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map_err(|why| errand.rejected(why))
    }

    #[inline]
    fn bounded(self, errand: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map_err(|why| errand.rejected(why))
    }
}

impl<T, H: Handle<BlockingQueue<T>>> sealed::Operation for Take<T, H> {
    type Line = Hall<Buffered<T>>;
    type Beside = ();

    #[inline(always)]
    fn attempt(&self, errand: &mut Errand<T>) -> Attempt {
        match self.0.try_take() {
            Ok(item) => {
                errand.fill(item);
                Attempt::Granted
            }
            Err(_) => Attempt::Unknown,
        }
    }

    #[inline]
    fn line(&self) -> &Self::Line {
        &self.0.hall
    }
}

impl<T, H: Handle<BlockingQueue<T>>> Operation for Take<T, H> {
    type Output = Result<T, Closed>;
    type Bounded = Result<T, WaitError<Closed>>;

    #[inline]
    fn output(self, errand: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map(|()| errand.taken())
    }

    #[inline]
    fn bounded(self, errand: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| errand.taken())
    }
}
