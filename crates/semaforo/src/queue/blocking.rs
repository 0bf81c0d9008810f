//! A queue with room for items, bounded or not.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::batch::TakeBatch;
use super::buffer_rule::{BufferRule, BufferSlot, Numbered, PUTTERS, TAKERS};
use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::rank::Rank;
use super::ring::{NotNow, Ring};
use super::slot::given_to;
use super::store::Store;
use crate::primitive::{constant_unless_modelled, made_when_needed};
use crate::wait::contended::Attempt;
use crate::wait::contended::{ContendedObject, SpinLock};
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, ContentOf, Handle, Operation, OutcomeOf, objects, sealed};
use crate::wait::request::Request;
use crate::wait::rule::ObjectRule;
use crate::wait::wake::{self, Panic, resume};

/// A queue that producers wait for when it is full, and consumers when it is empty.
///
/// First in, first out, unless [built](Self::builder) otherwise: last in, first out, or the smallest
/// priority first. Waiting requests are served in the order of their coming, and a newcomer never
/// overtakes:
/// `try_take` finds nothing while others wait for an item, and `try_put` no room while others wait
/// for room.
///
/// An item that is handed to a task that never comes for it goes to the next taker, before all others.
/// A put that fails (closed, cancelled, timed out) gives the item back.
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
#[doc(alias = "BlockingCollection")]
#[doc(alias = "ArrayBlockingQueue")]
#[doc(alias = "LinkedBlockingQueue")]
#[doc(alias = "PriorityBlockingQueue")]
#[doc(alias = "LinkedBlockingDeque")]
#[doc(alias = "mpsc")]
#[doc(alias = "channel")]
#[doc(alias = "ConcurrentQueue")]
#[doc(alias = "ConcurrentStack")]
#[doc(alias = "ConcurrentBag")]
#[doc(alias = "bounded buffer")]
pub struct BlockingQueue<T> {
    /// Made when it is first needed.
    object: OnceLock<Arc<ContendedObject<BufferRule<T>>>>,
    capacity: Option<usize>,
    order: Order<T>,
}

type Key<T> = Box<dyn Fn(&T) -> Rank + Send + Sync>;

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
    Priority {
        key: Key<T>,
        /// All ranks are numbers.
        by_number: bool,
    },
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
    /// an item is asked before it is put, and never while the queue is locked; by
    /// [`put_any`](BlockingQueue::put_any) for each of the queues, and again if it has to wait.
    ///
    /// A priority is anything that is ordered. Integers of up to 64 bits cost nothing; another priority
    /// is put into a box of its own. Priorities are compared while the queue is locked: an order that
    /// uses the queue waits for itself, and two priorities whose order panics count as equal.
    ///
    /// ```
    /// use semaforo::BlockingQueue;
    /// use std::cmp::Reverse;
    ///
    /// // The longest first, and in the order of the alphabet among those.
    /// let words = BlockingQueue::builder()
    ///     .by_priority(|word: &&str| (Reverse(word.len()), word.to_string()))
    ///     .build();
    /// words.extend_from(["pear", "fig", "plum", "banana"]);
    /// assert_eq!(words.drain(), ["banana", "pear", "plum", "fig"]);
    /// ```
    #[doc(alias = "PriorityQueue")]
    #[doc(alias = "Comparator")]
    #[doc(alias = "IComparable")]
    pub fn by_priority<K: Ord + Send + 'static>(
        self,
        priority: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> Self {
        let rank = move |item: &T| Rank::of(priority(item));
        let order = Order::Priority { key: Box::new(rank), by_number: Rank::is_number_of::<K>() };
        Self { order, ..self }
    }

    /// The queue.
    pub fn build(self) -> BlockingQueue<T> {
        let queue = BlockingQueue::planned(self.capacity, self.order);
        queue.object();
        queue
    }
}

impl<T> Order<T> {
    fn object(&self, capacity: Option<usize>) -> Arc<ContendedObject<BufferRule<T>>> {
        let (store, ring) = match (self, capacity) {
            (Self::Fifo, Some(capacity)) => (Store::Ring, Some(Ring::new(capacity))),
            (Self::Fifo, None) => (Store::Fifo(Default::default()), None),
            (Self::Lifo, _) => (Store::Lifo(Vec::new()), None),
            (Self::Priority { by_number: true, .. }, _) => {
                (Store::Numbers { heap: Default::default(), came: 0 }, None)
            }
            (Self::Priority { by_number: false, .. }, _) => {
                (Store::Keys { heap: Default::default(), came: 0, spent: Vec::new() }, None)
            }
        };
        ContendedObject::new(BufferRule::new(store, capacity), SpinLock::new(), ring)
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<T> BlockingQueue<T> {
    constant_unless_modelled! {
        /// A queue with room for so many items. The room is allocated, all of it, when the queue is
        /// first used.
        ///
        /// ```
        /// use semaforo::BlockingQueue;
        ///
        /// static JOBS: BlockingQueue<&str> = BlockingQueue::bounded(8);
        ///
        /// let worker = std::thread::spawn(|| JOBS.take().wait());
        /// JOBS.put("sweep").wait().unwrap();
        /// assert_eq!(worker.join().unwrap(), Ok("sweep"));
        /// ```
        ///
        /// # Panics
        /// If that is zero: [`SynchronousQueue`](crate::SynchronousQueue) is the queue without room.
        #[must_use]
        pub const fn bounded(capacity: usize) -> Self {
            assert!(capacity > 0, "a queue without room is a SynchronousQueue; its capacity was zero");
            Self::planned(Some(capacity), Order::Fifo)
        }
    }

    constant_unless_modelled! {
        /// A queue with room for as many items as there is memory for: putting never waits.
        #[must_use]
        pub const fn unbounded() -> Self {
            Self::planned(None, Order::Fifo)
        }
    }

    constant_unless_modelled! {
        const fn planned(capacity: Option<usize>, order: Order<T>) -> Self {
            Self { object: made_when_needed!(order.object(capacity)), capacity, order }
        }
    }

    #[inline]
    pub(super) fn object(&self) -> &Arc<ContendedObject<BufferRule<T>>> {
        self.object.get_or_init(|| self.order.object(self.capacity))
    }

    /// A queue in another order.
    pub fn builder() -> Builder<T> {
        Builder { capacity: None, order: Order::Fifo }
    }

    /// Puts an item, when there is room.
    ///
    /// A request that loses a `select!` may have been served already: then its item is in the queue.
    /// [`put_any`](Self::put_any) puts into exactly one of several queues.
    #[doc(alias = "Add")]
    #[doc(alias = "send")]
    #[doc(alias = "offer")]
    #[doc(alias = "enqueue")]
    #[inline]
    pub fn put(&self, item: T) -> Request<Put<&Self>> {
        let slot = self.slot(item);
        Request::new(Put(self), slot)
    }

    /// [`put`](Self::put), over a handle of its own.
    pub fn put_owned(self: &Arc<Self>, item: T) -> Request<Put<Arc<Self>>> {
        let slot = self.slot(item);
        Request::new(Put(Arc::clone(self)), slot)
    }

    #[inline]
    pub(super) fn slot(&self, item: T) -> BufferSlot<T> {
        let rank = self.rank(&item);
        BufferSlot::putting(item, rank)
    }

    /// Takes the next item, when there is one. Refused when the queue is closed and empty.
    #[doc(alias = "Take")]
    #[doc(alias = "recv")]
    #[doc(alias = "dequeue")]
    #[inline]
    pub fn take(&self) -> Request<Take<&Self>> {
        Take::request(self)
    }

    /// [`take`](Self::take), over a handle of its own.
    pub fn take_owned(self: &Arc<Self>) -> Request<Take<Arc<Self>>> {
        Take::request(Arc::clone(self))
    }

    /// Puts an item now, or not at all.
    ///
    /// # Errors
    /// With the item, if there is no room, others wait for room, or the queue is closed.
    #[doc(alias = "TryAdd")]
    #[doc(alias = "try_send")]
    #[doc(alias = "offer")]
    pub fn try_put(&self, item: T) -> Result<(), Rejected<T, TryPutError>> {
        let mut slot = self.slot(item);
        self.put_now(&mut slot).map_err(|why| slot.rejected(why))
    }

    /// Takes the next item now, or not at all.
    ///
    /// # Errors
    /// If there is none, or others wait for one.
    #[doc(alias = "TryTake")]
    #[doc(alias = "poll")]
    #[doc(alias = "try_recv")]
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
        self.object().outside.as_ref()
    }

    /// The rank of an item here.
    pub(super) fn rank(&self, item: &T) -> Rank {
        match &self.order {
            Order::Fifo | Order::Lifo => Rank::default(),
            Order::Priority { key, .. } => key(item),
        }
    }

    #[inline(always)]
    pub(super) fn put_now(&self, slot: &mut BufferSlot<T>) -> Result<(), TryPutError> {
        if slot.is_empty() {
            // It was put, and a waker panicked; now the slot is run again.
            return Ok(());
        }
        if let Some(ring) = self.ring() {
            match ring.try_put(|| slot.take_item()) {
                Ok(()) => return Ok(()),
                Err(NotNow::NoUse) => return Err(TryPutError::Full),
                Err(NotNow::Slow) => {}
            }
        }
        self.put_locked(slot)
    }

    #[inline(never)]
    fn put_locked(&self, slot: &mut BufferSlot<T>) -> Result<(), TryPutError> {
        let (put, panic) = self.object().change_unless(
            slot,
            |slot, rule, lists| rule.put_alone(lists, slot).then_some(Ok(())),
            |slot, rule, ring, lists, wakes| rule.put_from(ring, lists, slot, wakes),
        );
        if let Some(panic) = panic {
            resume(panic);
        }
        put
    }

    #[inline(never)]
    fn take_locked(&self) -> Result<T, TryTakeError> {
        let ((taken, spent), panic) = self.object().change_unless(
            &mut (),
            |(), rule, lists| rule.take_alone(lists).map(|(item, spent)| (Ok(item), spent)),
            |(), rule, ring, lists, wakes| (rule.take(ring, lists, wakes), rule.spent()),
        );
        if let Some(panic) = wake::first(panic, drop_keys(spent)) {
            self.put_back(taken.ok());
            resume(panic);
            return Err(TryTakeError::Empty);
        }
        taken.map(|(_, item)| item)
    }

    /// Takes what can be taken now, no more than so many.
    pub(super) fn take_now(&self, max: usize) -> Vec<Numbered<T>> {
        let mut items = Vec::new();
        let (spent, panic) = self.object().change_caught(|rule, ring, lists, wakes| {
            items.extend(std::iter::from_fn(|| rule.take(ring, lists, wakes).ok()).take(max));
            rule.spent()
        });
        if let Some(panic) = wake::first(panic, drop_keys(spent)) {
            self.put_back(std::mem::take(&mut items));
            resume(panic);
        }
        items
    }

    /// Gives items back that were taken, for the takers that wait.
    pub(super) fn put_back(&self, items: impl IntoIterator<Item = Numbered<T>>) {
        self.object().change(|rule, ring, lists, wakes| {
            items.into_iter().for_each(|item| rule.put_back(ring, item));
            rule.settle(ring, lists, (), wakes);
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

    /// Everything that is in the queue, and what the puts bring that wait for room.
    #[doc(alias = "drainTo")]
    pub fn drain(&self) -> Vec<T> {
        self.drain_at_most(usize::MAX)
    }

    /// [`drain`](Self::drain), but no more than so many.
    pub fn drain_at_most(&self, max: usize) -> Vec<T> {
        self.take_now(max).into_iter().map(|(_, item)| item).collect()
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
    /// use semaforo::BlockingQueue;
    ///
    /// let names = BlockingQueue::from(["Grace".to_owned(), "Alan".to_owned()]);
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
        let looked = self.object().locked(|rule, ring, _| {
            rule.peek(ring, |item| catch_unwind(AssertUnwindSafe(|| look(item))))
        });
        looked.map(|looked| looked.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// No more items: puts that wait for room get theirs back, and takers get what is left,
    /// and are then refused. False if it was closed before.
    #[doc(alias = "CompleteAdding")]
    pub fn close(&self) -> bool {
        self.object().change(|rule, ring, lists, wakes| rule.close(ring, lists, wakes))
    }

    /// Whether it was closed; there may be items left.
    #[must_use]
    #[doc(alias = "IsAddingCompleted")]
    #[doc(alias = "IsCompleted")]
    pub fn is_closed(&self) -> bool {
        self.object().locked(|rule, _, _| rule.is_closed())
    }

    /// How many items there are. For a moment that can be more than there is room for: when items come
    /// back that a task was handed and did not take.
    #[must_use]
    #[doc(alias = "Count")]
    pub fn len(&self) -> usize {
        self.object().locked(|rule, ring, _| rule.len(ring))
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items there is room for at most; `None` if any number.
    #[must_use]
    #[doc(alias = "BoundedCapacity")]
    pub fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    /// How many more there is room for; `None` if any number.
    #[must_use]
    #[doc(alias = "remainingCapacity")]
    pub fn remaining(&self) -> Option<usize> {
        self.capacity.map(|capacity| capacity.saturating_sub(self.len()))
    }

    /// How many items could be taken now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.len()
    }

    /// How many requests wait: to take, and to put.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.object().waiters()
    }

    /// How many wait for an item.
    #[must_use]
    pub fn waiting_takers(&self) -> usize {
        self.object().waiters_in(TAKERS)
    }

    /// How many wait for room.
    #[must_use]
    pub fn waiting_putters(&self) -> usize {
        self.object().waiters_in(PUTTERS)
    }

    /// How long a task may leave an item unclaimed while others wait, before it is passed on: 50 ms
    /// unless set, and at least 2 ms.
    pub fn set_patience(&self, patience: Duration) {
        self.object().set_patience(patience);
    }
}

impl<T> Drop for BlockingQueue<T> {
    fn drop(&mut self) {
        let Some(object) = self.object.get() else { return };
        let mut left = Vec::new();
        object.bury(|_, waiter| left.extend(given_to(waiter)));
        let (items, _spent) = object.locked(|rule, ring, _| (rule.empty(ring), rule.spent()));
        left.extend(items);
    }
}

objects!([T] BlockingQueue<T> => T);

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

/// Drops the keys of what was taken: users' values, which may do anything, so that no lock is held.
#[inline]
fn drop_keys(spent: Vec<Rank>) -> Option<Panic> {
    if spent.is_empty() {
        return None;
    }
    catch_unwind(AssertUnwindSafe(|| drop(spent))).err()
}

/// The operation of [`BlockingQueue::put`].
#[derive(Debug)]
pub struct Put<H>(H);

/// The operation of [`BlockingQueue::take`].
#[derive(Debug)]
pub struct Take<H>(H);

impl<H: Handle<Content: Sized, Target = BlockingQueue<ContentOf<H>>>> Take<H> {
    #[inline]
    pub(super) fn request(queue: H) -> Request<Self> {
        Request::new(Self(queue), BufferSlot::taking())
    }
}

impl<H: Handle<Content: Sized, Target = BlockingQueue<ContentOf<H>>>> sealed::Operation for Put<H> {
    type Queue = ContendedObject<BufferRule<ContentOf<H>>>;
    type Extra = ();

    #[inline(always)]
    fn attempt(&self, slot: &mut BufferSlot<ContentOf<H>>) -> Attempt {
        if self.0.put_now(slot).is_ok() { Attempt::Granted } else { Attempt::Unknown }
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.object()
    }
}

impl<H: Handle<Content: Sized, Target = BlockingQueue<ContentOf<H>>>> Operation for Put<H> {
    type Output = Result<(), Rejected<ContentOf<H>>>;
    type Bounded = Result<(), Rejected<ContentOf<H>, WaitError<Closed>>>;

    #[inline]
    fn output(self, slot: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map_err(|why| slot.rejected(why))
    }

    #[inline]
    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map_err(|why| slot.rejected(why))
    }
}

impl<H: Handle<Content: Sized, Target = BlockingQueue<ContentOf<H>>>> sealed::Operation
    for Take<H>
{
    type Queue = ContendedObject<BufferRule<ContentOf<H>>>;
    type Extra = ();

    #[inline(always)]
    fn attempt(&self, slot: &mut BufferSlot<ContentOf<H>>) -> Attempt {
        match self.0.try_take() {
            Ok(item) => {
                slot.fill(item);
                Attempt::Granted
            }
            Err(_) => Attempt::Unknown,
        }
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.object()
    }
}

impl<H: Handle<Content: Sized, Target = BlockingQueue<ContentOf<H>>>> Operation for Take<H> {
    type Output = Result<ContentOf<H>, Closed>;
    type Bounded = Result<ContentOf<H>, WaitError<Closed>>;

    #[inline]
    fn output(self, slot: AskOf<Self>, (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map(|()| slot.into_item())
    }

    #[inline]
    fn bounded(self, slot: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| slot.into_item())
    }
}
