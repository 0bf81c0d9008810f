//! The rule of a queue with room for items: who gets which, and who waits for what.

use std::collections::VecDeque;
use std::fmt;

use super::errors::{Closed, TryPutError, TryTakeError};
use super::rank::{Rank, Word};
use super::raw_item::RawItem;
use super::ring::Ring;
use super::select_wait::{Selectable, Visited};
use super::selection::{Claimed, first_served, link_of, state_of_grant_to};
use super::slot::{Contents, Detail, FIRST_OF_RULE, ItemSlot};
use super::store::Store;
use crate::wait::contended::SpinLock;
use crate::wait::rule::{Arrival, Coming, ObjectRule};
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Lane, Pointer, WaiterState};
use crate::wait::wake::Wakes;

/// The takers, which wait for an item. There are some only if there is no item, but for branches
/// that cannot be claimed, or are about to look here.
pub(super) const TAKERS: Lane = Lane::First;
/// The putters, which wait for space. There are some only if there is none, but for branches that
/// cannot be claimed.
pub(super) const PUTTERS: Lane = Lane::Second;

/// The state of a queue, behind its lock.
///
/// If the items lie in a ring, that is slowed down whenever there is something that its users have
/// to know: a request waits, an item came back, or the queue is closed.
#[derive(Debug)]
pub struct BufferRule<T> {
    store: Store<T>,
    capacity: Option<usize>,
    /// Items that were handed to a taker and came back, in the order in which they were
    /// first handed out. They come before what is in the store.
    returned: VecDeque<(u64, RawItem<T>)>,
    /// How many items have been handed out here.
    handed_out: u64,
    closed: bool,
    slow: bool,
}

/// An item that was handed out, and its number, which it keeps when it comes back.
pub(super) type Numbered<T> = (u64, T);

/// What a request carries to such a queue.
pub(super) type BufferSlot<T> = ItemSlot<T, PutOrTaken>;

/// For an item that is to be put, its rank; for one that was handed out, its number.
pub struct PutOrTaken(Word);

/// The rank of what is to be put has a key, which is to be dropped.
const KEYED: u64 = FIRST_OF_RULE;

impl Detail for PutOrTaken {
    const TAKING: Self = Self(Word { number: 0 });

    #[inline]
    fn release(&mut self, flags: u64) {
        if flags & KEYED != 0 {
            // SAFETY: the flag says that there is such a rank, and the slot is being dropped.
            drop(unsafe { Rank::from_word(self.0, true) });
        }
    }
}

impl fmt::Debug for PutOrTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PutOrTaken")
    }
}

impl<T> Contents<T, PutOrTaken> {
    /// Gives a taker its item, with the number of that.
    #[inline]
    fn serve(&mut self, (number, item): (u64, RawItem<T>)) {
        self.fill(item);
        self.detail = PutOrTaken(Word { number });
    }

    /// The number of an item that was handed out.
    #[inline]
    fn number(&self) -> u64 {
        // SAFETY: a taker's word is a number.
        unsafe { self.detail.0.number }
    }

    /// The rank of what is to be put; nothing is left of it.
    #[inline]
    fn take_rank(&mut self) -> Rank {
        let is_key = self.flags & KEYED != 0;
        self.flags &= !KEYED;
        // SAFETY: the word of a request that puts is that of a rank, and the flag says whether it
        // has a key, which is not left behind.
        unsafe { Rank::from_word(self.detail.0, is_key) }
    }

    /// Puts a rank where there is none.
    #[inline]
    fn set_rank(&mut self, rank: Rank) {
        let (detail, flags) = of_rank(rank);
        self.detail = detail;
        self.flags |= flags;
    }
}

/// What a slot notes of a rank, and the flags that go with it.
#[inline]
fn of_rank(rank: Rank) -> (PutOrTaken, u64) {
    let (word, is_key) = rank.into_word();
    (PutOrTaken(word), if is_key { KEYED } else { 0 })
}

impl<T> BufferSlot<T> {
    /// The slot of a request that puts an item of this rank.
    #[inline]
    pub(super) fn putting(item: T, rank: Rank) -> Self {
        let (detail, flags) = of_rank(rank);
        Self::bringing(item, detail, flags)
    }

    /// The slot of one of several waiters for space: the item is beside it.
    pub(super) fn branch_putting(rank: Rank) -> Self {
        let (detail, flags) = of_rank(rank);
        Self::branch_bringing(detail, flags)
    }

    /// The rank of the item, for an owner who does not wait.
    #[inline]
    pub(super) fn take_rank(&mut self) -> Rank {
        self.own().take_rank()
    }

    /// Gives an owner who does not wait the item back, and its rank.
    #[inline]
    pub(super) fn restore(&mut self, item: T, rank: Rank) {
        self.fill(item);
        self.own().set_rank(rank);
    }

    /// The item that was taken from the lists, so that it has a number.
    pub(super) fn into_numbered(mut self) -> Numbered<T> {
        (self.own().number(), self.into_item())
    }
}

impl<T> BufferRule<T> {
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

    /// Hands an item to the first who waits for one, or stores it if there is room. The rank stays
    /// with the caller if it is not needed.
    #[inline]
    pub(super) fn put(
        &mut self,
        ring: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        (item, rank): (T, &mut Rank),
        wakes: &mut Wakes,
    ) -> Result<(), (T, TryPutError)> {
        if self.closed {
            return Err((item, TryPutError::Closed));
        }
        self.slow_down(ring);
        if let Some(taker) = self.first_without_item(ring, lists) {
            let numbered = (self.next_number(), RawItem::of(item));
            Self::hand(lists, taker, numbered, wakes);
            return Ok(());
        }
        self.store
            .put(ring.as_ref(), self.capacity, rank, item)
            .map_err(|item| (item, TryPutError::Full))
    }

    /// [`put`](Self::put), of the item in a slot, which keeps it otherwise.
    #[inline]
    pub(super) fn put_from(
        &mut self,
        ring: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        slot: &mut BufferSlot<T>,
        wakes: &mut Wakes,
    ) -> Result<(), TryPutError> {
        let (item, mut rank) = (slot.take_item(), slot.take_rank());
        let put = self.put(ring, lists, (item, &mut rank), wakes);
        // A key that was not needed goes with the slot, when the queue is not locked.
        slot.own().set_rank(rank);
        put.map_err(|(item, why)| {
            slot.fill(item);
            why
        })
    }

    /// Puts the item in a slot, if that concerns no other request, and the items lie behind the
    /// lock.
    #[inline(always)]
    pub(super) fn put_alone(
        &mut self,
        lists: &WaitLists<BufferSlot<T>>,
        slot: &mut BufferSlot<T>,
    ) -> bool {
        if self.closed || lists.waiting > 0 || self.store.is_ring() {
            return false;
        }
        let (item, mut rank) = (slot.take_item(), slot.take_rank());
        match self.store.put(None, self.capacity, &mut rank, item) {
            Ok(()) => true,
            Err(item) => {
                slot.restore(item, rank);
                false
            }
        }
    }

    /// Takes the next item and its rank, if that concerns no other request, and the items lie
    /// behind the lock.
    #[inline(always)]
    pub(super) fn take_alone(
        &mut self,
        lists: &WaitLists<BufferSlot<T>>,
    ) -> Option<(Numbered<T>, Vec<Rank>)> {
        if lists.waiting > 0 || !self.returned.is_empty() {
            return None;
        }
        let item = self.store.take(None)?;
        Some(((self.next_number(), item), self.store.spent()))
    }

    /// The first who waits for an item that comes now, and is going to get it.
    #[inline]
    fn first_without_item(
        &self,
        ring: &Option<Ring<T>>,
        lists: &WaitLists<BufferSlot<T>>,
    ) -> Option<Pointer<BufferSlot<T>>> {
        lists.first(TAKERS)?;
        if self.len(ring) > 0 { None } else { Self::first_taker(lists) }
    }

    /// The first who waits for an item, and is going to get one.
    #[inline]
    fn first_taker(lists: &WaitLists<BufferSlot<T>>) -> Option<Pointer<BufferSlot<T>>> {
        // SAFETY: the lock is held.
        first_served(lists, TAKERS, |taker| unsafe { state_of_grant_to(taker) })
    }

    fn hand(
        lists: &mut WaitLists<BufferSlot<T>>,
        taker: Pointer<BufferSlot<T>>,
        numbered: (u64, RawItem<T>),
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            lists.detach(taker);
            let own = taker.as_ref();
            own.ask.with(|slot| slot.serve(numbered));
            lists.answer(taker, state_of_grant_to(own), wakes);
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
        lists: &mut WaitLists<BufferSlot<T>>,
        wakes: &mut Wakes,
    ) -> Result<Numbered<T>, TryTakeError> {
        self.slow_down(ring);
        if let Some((number, item)) = self.returned.pop_front() {
            // SAFETY: a user of the queue takes it.
            return Ok((number, unsafe { item.open() }));
        }
        let Some(item) = self.store.take(ring.as_ref()) else {
            return Err(if self.closed { TryTakeError::Closed } else { TryTakeError::Empty });
        };
        if let Some(putter) = first_served(lists, PUTTERS, |_| WaiterState::Served) {
            // SAFETY: the lock is held, and what is in a lane is alive. A branch was claimed. Who
            // takes is a user of the queue.
            unsafe {
                lists.detach(putter);
                let own = putter.as_ref().ask.with(|slot| slot.take()).map(|item| item.open());
                let item = own.or_else(|| link_of(putter)?.take_item());
                if let Some(item) = item {
                    let ask = &putter.as_ref().ask;
                    let mut rank = ask.with(Contents::take_rank);
                    let put = self.store.put(ring.as_ref(), self.capacity, &mut rank, item);
                    debug_assert!(put.is_ok(), "room was made");
                    // What was not needed goes with the request.
                    ask.with(|slot| slot.set_rank(rank));
                }
                lists.answer(putter, WaiterState::Served, wakes);
            }
        }
        Ok((self.next_number(), item))
    }

    /// Gives an item back that was taken, and is not wanted; it comes before all that were not
    /// handed out before it.
    pub(super) fn put_back(&mut self, ring: &Option<Ring<T>>, (number, item): Numbered<T>) {
        self.take_in(ring, number, RawItem::of(item));
    }

    fn take_in(&mut self, ring: &Option<Ring<T>>, number: u64, item: RawItem<T>) {
        self.slow_down(ring);
        let position = self.returned.partition_point(|(other, _)| *other < number);
        self.returned.insert(position, (number, item));
    }

    /// Looks at the next item.
    pub(super) fn peek<R>(
        &mut self,
        ring: &Option<Ring<T>>,
        look: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        self.slow_down(ring);
        match self.returned.front() {
            // SAFETY: a user of the queue looks at it.
            Some((_, item)) => Some(look(unsafe { item.look() })),
            None => self.store.peek(ring.as_ref(), look),
        }
    }

    /// Ranks of what was taken, to be dropped once the queue is not locked.
    #[inline]
    pub(super) fn spent(&mut self) -> Vec<Rank> {
        self.store.spent()
    }

    pub(super) fn len(&self, ring: &Option<Ring<T>>) -> usize {
        self.returned.len() + self.store.len(ring.as_ref())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Turns all requests away that wait, and newcomers that bring something. False if that was
    /// done before.
    pub(super) fn close(
        &mut self,
        ring: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        wakes: &mut Wakes,
    ) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        self.slow_down(ring);
        for lane in [TAKERS, PUTTERS] {
            while let Some(waiter) = lists.first(lane) {
                // SAFETY: the lock is held, and what is in a lane is alive.
                unsafe {
                    lists.detach(waiter);
                    if let Some(link) = link_of(waiter) {
                        link.selection.refuse();
                    }
                    lists.answer(waiter, WaiterState::Refused, wakes);
                }
            }
        }
        true
    }

    /// Everything that is in it, for a queue that is being dropped.
    pub(super) fn empty(&mut self, ring: &Option<Ring<T>>) -> Vec<T> {
        self.slow_down(ring);
        // SAFETY: the queue's owner drops it.
        let open = |(_, item): (u64, RawItem<T>)| unsafe { item.open() };
        let mut items: Vec<T> = self.returned.drain(..).map(open).collect();
        items.extend(std::iter::from_fn(|| self.store.take(ring.as_ref())));
        items
    }
}

impl<T> ObjectRule for BufferRule<T> {
    type Ask = BufferSlot<T>;
    type Refusal = Closed;
    type Outside = Option<Ring<T>>;
    type Lock = SpinLock;
    type Change = ();

    const IS_STREAMED: bool = true;

    /// A thread that finds the ring full or empty looks again for a moment: the thread that is
    /// about to change that can then do so without the lock.
    #[inline]
    fn tries_first(ring: &Option<Ring<T>>) -> bool {
        ring.is_some()
    }

    fn arrive(
        &mut self,
        ring: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        waiter: Pointer<BufferSlot<T>>,
        _: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<Closed> {
        // SAFETY: the lock is held, and the waiter is alive. Who arrives is a user of the queue.
        unsafe {
            let ask = &waiter.as_ref().ask;
            if !ask.with(|slot| slot.brings()) {
                return match self.take(ring, lists, wakes) {
                    Ok((number, item)) => {
                        ask.with(|slot| slot.serve((number, RawItem::of(item))));
                        Arrival::Served
                    }
                    Err(TryTakeError::Closed) => Arrival::Refused(Closed),
                    Err(TryTakeError::Empty) => Arrival::Waits(TAKERS),
                };
            }
            let Some(item) = ask.with(Contents::take) else { return Arrival::Served };
            let mut rank = ask.with(Contents::take_rank);
            let put = self.put(ring, lists, (item.open(), &mut rank), wakes);
            ask.with(|slot| slot.set_rank(rank));
            match put {
                Ok(()) => Arrival::Served,
                Err((item, why)) => {
                    ask.with(|slot| slot.fill(RawItem::of(item)));
                    match why {
                        TryPutError::Closed => Arrival::Refused(Closed),
                        TryPutError::Full => Arrival::Waits(PUTTERS),
                    }
                }
            }
        }
    }

    /// What was put has been put; what was taken comes back.
    fn take_back(&mut self, ring: &Option<Ring<T>>, waiter: Pointer<BufferSlot<T>>) {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            let taken = ask.with(|slot| {
                if slot.brings() { None } else { slot.take().map(|item| (slot.number(), item)) }
            });
            if let Some((number, item)) = taken {
                self.take_in(ring, number, item);
                if let Some(link) = link_of(waiter) {
                    link.selection.make_dormant();
                }
            }
        }
    }

    /// What came back goes to the first who waits.
    fn settle(
        &mut self,
        _: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        (): (),
        wakes: &mut Wakes,
    ) {
        while !self.returned.is_empty() {
            let Some(taker) = Self::first_taker(lists) else { return };
            if let Some(numbered) = self.returned.pop_front() {
                Self::hand(lists, taker, numbered, wakes);
            }
        }
    }

    #[inline]
    fn before_unlocking(&mut self, ring: &Option<Ring<T>>, lists: &WaitLists<BufferSlot<T>>) {
        if self.slow && lists.waiting == 0 && self.returned.is_empty() && !self.closed {
            if let Some(ring) = ring {
                ring.speed_up();
            }
            self.slow = false;
        }
    }

    fn expulsion(&self, _: &Option<Ring<T>>) -> Option<Closed> {
        self.closed.then_some(Closed)
    }
}

impl<T> Selectable for BufferRule<T> {
    type Item = T;
    type Detail = PutOrTaken;

    fn visit(
        &mut self,
        ring: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        branch: Pointer<BufferSlot<T>>,
        wakes: &mut Wakes,
    ) -> Visited {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &branch.as_ref().ask;
            if ask.with(|slot| slot.brings()) {
                return self.visit_putting(ring, lists, branch, wakes);
            }
            self.slow_down(ring);
            if self.len(ring) == 0 {
                return if self.closed { Visited::Refused } else { Visited::Waits(TAKERS) };
            }
            if !link_of(branch).is_some_and(|link| link.claim(WaiterState::Served)) {
                return Visited::Gone;
            }
            if let Ok((number, item)) = self.take(ring, lists, wakes) {
                ask.with(|slot| slot.serve((number, RawItem::of(item))));
            }
            Visited::Served
        }
    }
}

impl<T> BufferRule<T> {
    /// [`visit`](Selectable::visit), for a branch that brings an item.
    fn visit_putting(
        &mut self,
        ring: &Option<Ring<T>>,
        lists: &mut WaitLists<BufferSlot<T>>,
        branch: Pointer<BufferSlot<T>>,
        wakes: &mut Wakes,
    ) -> Visited {
        if self.closed {
            return Visited::Refused;
        }
        self.slow_down(ring);
        // SAFETY: the lock is held; the branch is alive, as is what is in a lane.
        unsafe {
            let Some(link) = link_of(branch) else { return Visited::Gone };
            let mut next = lists.first(TAKERS).filter(|_| self.len(ring) == 0);
            while let Some(taker) = next {
                let claimed = match link_of(taker) {
                    None if link.claim(WaiterState::Served) => Claimed::Both,
                    None => Claimed::NotThis,
                    // A request that takes, and one that puts, are never the same.
                    Some(other) => {
                        let others = state_of_grant_to(taker.as_ref());
                        link.claim_both(WaiterState::Served, other, others)
                    }
                };
                match claimed {
                    Claimed::Both => {
                        if let Some(item) = link.take_item() {
                            let numbered = (self.next_number(), RawItem::of(item));
                            Self::hand(lists, taker, numbered, wakes);
                        }
                        return Visited::Served;
                    }
                    Claimed::NotThis => return Visited::Gone,
                    Claimed::NotOther => next = lists.lanes[TAKERS.number()].after(taker),
                }
            }
            if self.capacity.is_some_and(|capacity| self.store.len(ring.as_ref()) >= capacity) {
                return Visited::Waits(PUTTERS);
            }
            if !link.claim(WaiterState::Served) {
                return Visited::Gone;
            }
            if let Some(item) = link.take_item() {
                let ask = &branch.as_ref().ask;
                let mut rank = ask.with(Contents::take_rank);
                let put = self.store.put(ring.as_ref(), self.capacity, &mut rank, item);
                debug_assert!(put.is_ok(), "there was room");
                ask.with(|slot| slot.set_rank(rank));
            }
            Visited::Served
        }
    }
}
