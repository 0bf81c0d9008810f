//! The rule of a queue with room for items: who gets which, and who waits for what.

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;

use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::ring::Ring;
use super::store::Store;
use crate::primitive::TrackedCell;
use crate::wait::hall::{Arrival, Rule};
use crate::wait::queue::Queue;
use crate::wait::waiter::{Lane, Pointer, standing};
use crate::wait::wake::Wakes;

/// Those who wait for an item. There are some only if there is no item.
pub(super) const TAKERS: Lane = Lane::First;
/// Those who wait for room. There are some only if there is none.
pub(super) const PUTTERS: Lane = Lane::Second;

/// The state of a queue, behind its lock.
///
/// If the items lie in a ring, that is slowed down whenever there is something that its users have to
/// know: somebody waits, an item came back, or the queue is closed.
#[derive(Debug)]
pub struct Buffered<T> {
    store: Store<T>,
    capacity: Option<usize>,
    /// Items that were handed to somebody who did not want them, in the order in which they were
    /// first handed out. They come before what is in the store.
    returned: VecDeque<Numbered<T>>,
    /// How many items have been handed out here.
    handed_out: u64,
    closed: bool,
    slow: bool,
}

/// An item that was handed out, and its number, which it keeps when it comes back.
pub(super) type Numbered<T> = (u64, T);

/// What somebody brings to the queue, or wants from it.
pub struct Errand<T> {
    /// Belongs to the lock's holder while its owner waits, and to its owner otherwise.
    slot: TrackedCell<Slot<T>>,
}

/// Whole words only: a request is moved a lot, and a word that was written in parts is slow to read.
struct Slot<T> {
    item: MaybeUninit<T>,
    /// For an item that is to be put, its priority; for one that was handed out, which it is.
    tag: u64,
    flags: u64,
}

/// There is an item.
const FULL: u64 = 1;
/// It is to be put.
const PUTTING: u64 = 2;

impl<T> Slot<T> {
    #[inline]
    fn is_putting(&self) -> bool {
        self.flags & PUTTING != 0
    }

    #[inline]
    fn fill(&mut self, item: T, tag: u64) {
        self.item.write(item);
        self.tag = tag;
        self.flags |= FULL;
    }

    /// The item, if there is one.
    #[inline]
    fn take(&mut self) -> Option<T> {
        if self.flags & FULL == 0 {
            return None;
        }
        self.flags &= !FULL;
        // SAFETY: the flag said so.
        Some(unsafe { self.item.assume_init_read() })
    }
}

impl<T> Errand<T> {
    #[inline]
    pub(super) fn put(item: T, priority: i64) -> Self {
        let item = MaybeUninit::new(item);
        let slot = Slot { item, tag: priority as u64, flags: FULL | PUTTING };
        Self { slot: TrackedCell::new(slot) }
    }

    #[inline]
    pub(super) fn take() -> Self {
        Self { slot: TrackedCell::new(Slot { item: MaybeUninit::uninit(), tag: 0, flags: 0 }) }
    }

    /// For an owner who does not wait.
    #[inline]
    fn own(&mut self) -> &mut Slot<T> {
        // SAFETY: borrowed exclusively.
        self.slot.look_mut(|slot| unsafe { &mut *slot })
    }

    /// Whether there is no item, for an owner who does not wait.
    #[inline]
    pub(super) fn is_empty(&mut self) -> bool {
        self.own().flags & FULL == 0
    }

    /// The item and its priority, for an owner who does not wait.
    #[inline]
    pub(super) fn goods(&mut self) -> (T, i64) {
        let slot = self.own();
        let item = slot.take().expect("an errand has its item until it is put");
        (item, slot.tag as i64)
    }

    /// Gives an owner who does not wait its item, or its item back.
    #[inline]
    pub(super) fn fill(&mut self, item: T) {
        let tag = self.own().tag;
        self.own().fill(item, tag);
    }

    /// The item that was taken.
    #[inline]
    pub(super) fn taken(mut self) -> T {
        self.own().take().expect("whoever is served has an item")
    }

    /// The item that was taken in line, so that it has a number.
    pub(super) fn taken_in_line(self) -> Numbered<T> {
        // SAFETY: the owner's, who does not wait.
        (unsafe { self.slot(|slot| slot.tag) }, self.taken())
    }

    /// The item that was not put.
    pub(super) fn rejected<E>(mut self, why: E) -> Rejected<T, E> {
        Rejected { item: self.goods().0, why }
    }

    /// # Safety
    /// The lock is held, or this is its owner, who does not wait.
    #[inline]
    unsafe fn slot<R>(&self, change: impl FnOnce(&mut Slot<T>) -> R) -> R {
        // SAFETY: the caller's promise makes this the only access.
        self.slot.look_mut(|slot| change(unsafe { &mut *slot }))
    }
}

impl<T> Drop for Errand<T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.own().take());
    }
}

impl<T> fmt::Debug for Errand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Errand")
    }
}

impl<T> Buffered<T> {
    pub(super) fn new(store: Store<T>, capacity: Option<usize>) -> Self {
        Self {
            store,
            capacity,
            returned: VecDeque::new(),
            handed_out: 0,
            closed: false,
            slow: false,
        }
    }

    #[inline]
    fn slow_down(&mut self, ring: &Option<Ring<T>>) {
        if let (Some(ring), false) = (ring, self.slow) {
            ring.slow_down();
            self.slow = true;
        }
    }

    /// Hands an item to the first who waits for one, or stores it if there is room.
    #[inline]
    pub(super) fn put(
        &mut self,
        ring: &Option<Ring<T>>,
        queue: &mut Queue<Errand<T>>,
        (item, priority): (T, i64),
        wakes: &mut Wakes,
    ) -> Result<(), (T, TryPutError)> {
        if self.closed {
            return Err((item, TryPutError::Closed));
        }
        self.slow_down(ring);
        if let Some(taker) = queue.first(TAKERS) {
            let numbered = (self.next_number(), item);
            Self::hand(queue, taker, numbered, wakes);
            return Ok(());
        }
        self.store
            .put(ring.as_ref(), self.capacity, priority, item)
            .map_err(|item| (item, TryPutError::Full))
    }

    fn hand(
        queue: &mut Queue<Errand<T>>,
        taker: Pointer<Errand<T>>,
        (number, item): Numbered<T>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            queue.detach(taker);
            let own = taker.as_ref();
            own.ask.slot(|slot| slot.fill(item, number));
            let thread = own.notes(|notes| notes.thread);
            let standing = if thread { standing::SERVED } else { standing::GRANTED };
            queue.answer(taker, standing, wakes);
        }
    }

    fn next_number(&mut self) -> u64 {
        self.handed_out += 1;
        self.handed_out
    }

    /// Takes the next item, and lets the first who waits for room have it.
    #[inline]
    pub(super) fn take(
        &mut self,
        ring: &Option<Ring<T>>,
        queue: &mut Queue<Errand<T>>,
        wakes: &mut Wakes,
    ) -> Result<Numbered<T>, TryTakeError> {
        self.slow_down(ring);
        if let Some(numbered) = self.returned.pop_front() {
            return Ok(numbered);
        }
        let Some(item) = self.store.take(ring.as_ref()) else {
            return Err(if self.closed { TryTakeError::Closed } else { TryTakeError::Empty });
        };
        if let Some(putter) = queue.first(PUTTERS) {
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                queue.detach(putter);
                let ask = &putter.as_ref().ask;
                let (item, tag) = ask.slot(|slot| (slot.take(), slot.tag));
                if let Some(item) = item {
                    let priority = tag as i64;
                    let put = self.store.put(ring.as_ref(), self.capacity, priority, item);
                    debug_assert!(put.is_ok(), "room was made");
                }
                queue.answer(putter, standing::SERVED, wakes);
            }
        }
        Ok((self.next_number(), item))
    }

    /// Gives an item back that was taken, and is not wanted; it comes before all that were not handed
    /// out before it.
    pub(super) fn put_back(&mut self, ring: &Option<Ring<T>>, (number, item): Numbered<T>) {
        self.slow_down(ring);
        let position = self.returned.partition_point(|(other, _)| *other < number);
        self.returned.insert(position, (number, item));
    }

    /// Copies the next item.
    pub(super) fn peek(&mut self, ring: &Option<Ring<T>>) -> Option<T>
    where
        T: Copy,
    {
        self.slow_down(ring);
        match self.returned.front() {
            Some((_, item)) => Some(*item),
            None => self.store.peek(ring.as_ref()),
        }
    }

    pub(super) fn len(&self, ring: &Option<Ring<T>>) -> usize {
        self.returned.len() + self.store.len(ring.as_ref())
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Turns everyone away who waits, and all newcomers who bring something. False if that was done
    /// before.
    pub(super) fn close(
        &mut self,
        ring: &Option<Ring<T>>,
        queue: &mut Queue<Errand<T>>,
        wakes: &mut Wakes,
    ) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        self.slow_down(ring);
        for lane in [TAKERS, PUTTERS] {
            while let Some(waiter) = queue.first(lane) {
                // SAFETY: the lock is held, and what is in a lane is alive.
                unsafe {
                    queue.detach(waiter);
                    queue.answer(waiter, standing::REFUSED, wakes);
                }
            }
        }
        true
    }

    /// Everything that is in it, for a queue that is being dropped.
    pub(super) fn empty(&mut self, ring: &Option<Ring<T>>) -> Vec<T> {
        self.slow_down(ring);
        let mut items: Vec<T> = self.returned.drain(..).map(|(_, item)| item).collect();
        items.extend(std::iter::from_fn(|| self.store.take(ring.as_ref())));
        items
    }

    /// What a taker who was leaked has been handed.
    pub(super) fn handed_to(taker: Pointer<Errand<T>>) -> Option<T> {
        // SAFETY: the lock is held, and the waiter is alive, because it was pinned.
        unsafe {
            let ask = &taker.as_ref().ask;
            ask.slot(|slot| if slot.is_putting() { None } else { slot.take() })
        }
    }
}

impl<T> Rule for Buffered<T> {
    type Ask = Errand<T>;
    type Refusal = Closed;
    type Outside = Option<Ring<T>>;

    const IS_STREAMED: bool = true;

    /// A thread that finds the ring full or empty looks again for a moment: whoever is about to
    /// change that can then do so without the lock.
    #[inline]
    fn tries_first(ring: &Option<Ring<T>>) -> bool {
        ring.is_some()
    }

    fn arrive(
        &mut self,
        ring: &Option<Ring<T>>,
        queue: &mut Queue<Errand<T>>,
        waiter: Pointer<Errand<T>>,
        wakes: &mut Wakes,
    ) -> Arrival<Closed> {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            if !ask.slot(|slot| slot.is_putting()) {
                return match self.take(ring, queue, wakes) {
                    Ok((number, item)) => {
                        ask.slot(|slot| slot.fill(item, number));
                        Arrival::Served
                    }
                    Err(TryTakeError::Closed) => Arrival::Refused(Closed),
                    Err(TryTakeError::Empty) => Arrival::Waits(TAKERS),
                };
            }
            let (item, tag) = ask.slot(|slot| (slot.take(), slot.tag));
            let Some(item) = item else { return Arrival::Served };
            match self.put(ring, queue, (item, tag as i64), wakes) {
                Ok(()) => Arrival::Served,
                Err((item, why)) => {
                    ask.slot(|slot| slot.fill(item, tag));
                    match why {
                        TryPutError::Closed => Arrival::Refused(Closed),
                        TryPutError::Full => Arrival::Waits(PUTTERS),
                    }
                }
            }
        }
    }

    /// What was put has been put; what was taken comes back.
    fn take_back(&mut self, ring: &Option<Ring<T>>, waiter: Pointer<Errand<T>>) {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            let (item, number) =
                ask.slot(|slot| (if slot.is_putting() { None } else { slot.take() }, slot.tag));
            if let Some(item) = item {
                self.put_back(ring, (number, item));
            }
        }
    }

    /// What came back goes to the first who waits.
    fn settle(&mut self, _: &Option<Ring<T>>, queue: &mut Queue<Errand<T>>, wakes: &mut Wakes) {
        while let (false, Some(taker)) = (self.returned.is_empty(), queue.first(TAKERS)) {
            if let Some(numbered) = self.returned.pop_front() {
                Self::hand(queue, taker, numbered, wakes);
            }
        }
    }

    #[inline]
    fn before_unlocking(&mut self, ring: &Option<Ring<T>>, queue: &Queue<Errand<T>>) {
        if self.slow && queue.waiting == 0 && self.returned.is_empty() && !self.closed {
            if let Some(ring) = ring {
                ring.speed_up();
            }
            self.slow = false;
        }
    }

    fn expulsion(&self) -> Option<Closed> {
        self.closed.then_some(Closed)
    }
}
