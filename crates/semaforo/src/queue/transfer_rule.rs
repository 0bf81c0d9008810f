//! The rule of a queue whose senders may wait until their very message is taken.

use std::sync::Arc;

use super::errors::{Closed, TryPutError, TryTakeError};
use super::messages::{Message, Messages};
use super::raw_item::RawItem;
use super::select_wait::{Selectable, Visited};
use super::selection::{first_served, link_of, state_of_grant_to};
use super::slot::{Contents, Detail, FIRST_OF_RULE, ItemSlot};
use crate::primitive::{AtomicU32, Ordering};
use crate::wait::contended::{ContendedObject, SpinLock};
use crate::wait::rule::{Arrival, Coming, ObjectRule};
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Lane, Pointer, WaiterState};
use crate::wait::wake::Wakes;

/// The takers, which wait for a message. There are some only if there is none, but for branches
/// that cannot be claimed, or are about to look here.
pub(super) const TAKERS: Lane = Lane::First;
/// The senders, which wait until their message is taken.
pub(super) const SENDERS: Lane = Lane::Second;

/// The state of a queue, behind its lock.
#[derive(Debug)]
pub struct TransferRule<T> {
    messages: Messages<RawItem<T>, Sender<T>>,
    /// When a message that is handed to a waiting task counts as taken: at once, or when the task
    /// claims it.
    eager: bool,
    closed: bool,
    /// How many have had to wait for a message.
    came: u64,
}

type Sender<T> = Pointer<TransferSlot<T>>;

/// What a request carries to such a queue.
pub(super) type TransferSlot<T> = ItemSlot<T, MessageNote<T>>;

/// What is noted of a message beside it.
#[derive(Debug)]
pub struct MessageNote<T> {
    /// The message's, once it has one.
    number: u64,
    /// For a sender, the task that was handed its message; for a taker, who sent what it was
    /// handed.
    other: Option<Pointer<TransferSlot<T>>>,
    /// How many takers had come when this one had to wait; 0 if it has not.
    came: u64,
}

/// A sender's message lies in the queue, under its number.
const IN_QUEUE: u64 = FIRST_OF_RULE;
/// A sender's message was handed to another, a task, which has not claimed it.
const HANDED: u64 = FIRST_OF_RULE << 1;

impl<T> Detail for MessageNote<T> {
    const TAKING: Self = Self { number: 0, other: None, came: 0 };

    #[inline]
    fn release(&mut self, _: u64) {}
}

impl<T> Contents<T, MessageNote<T>> {
    /// Notes where a sender's message is: [`IN_QUEUE`], [`HANDED`], or with itself or taken (0).
    #[inline]
    fn set_whereabouts(&mut self, whereabouts: u64) {
        self.flags = self.flags & !(IN_QUEUE | HANDED) | whereabouts;
    }

    /// Where a sender's message is, as it was noted.
    #[inline]
    fn whereabouts(&self) -> u64 {
        self.flags & (IN_QUEUE | HANDED)
    }

    /// A sender's message lies in the queue, under this number.
    #[inline]
    fn lies_in_queue(&mut self, number: u64) {
        self.set_whereabouts(IN_QUEUE);
        self.detail.number = number;
    }

    /// Gives a taker this message.
    #[inline]
    fn fill_with(&mut self, Message { number, item, sender }: Message<RawItem<T>, Sender<T>>) {
        self.fill(item);
        self.detail.number = number;
        self.detail.other = sender;
    }

    /// The message, if there is one.
    fn take_message(&mut self) -> Option<Message<RawItem<T>, Sender<T>>> {
        let item = self.take()?;
        Some(Message { number: self.detail.number, item, sender: self.detail.other.take() })
    }
}

impl<T> TransferSlot<T> {
    /// The slot of a request that sends an item.
    #[inline]
    pub(super) fn sending(item: T) -> Self {
        Self::bringing(item, MessageNote::TAKING, 0)
    }
}

/// What can be seen without the lock: a hint that saves taking it in vain.
#[derive(Debug)]
pub struct Hints(AtomicU32);

const MESSAGES: u32 = 1;
const WAITING_TAKERS: u32 = 2;

impl Hints {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(super) fn shows_messages(&self) -> bool {
        self.0.load(Ordering::Acquire) & MESSAGES != 0
    }

    #[inline]
    pub(super) fn shows_takers(&self) -> bool {
        self.0.load(Ordering::Acquire) & WAITING_TAKERS != 0
    }
}

impl<T> TransferRule<T> {
    pub(super) fn object(eager: bool) -> Arc<ContendedObject<Self>> {
        let rule = Self { messages: Messages::new(), eager, closed: false, came: 0 };
        ContendedObject::new(rule, SpinLock::new(), Hints::new())
    }

    /// Hands an item to the first who waits for one.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        lists: &mut WaitLists<TransferSlot<T>>,
        item: T,
        wakes: &mut Wakes,
    ) -> Result<(), (T, TryPutError)> {
        if self.closed {
            return Err((item, TryPutError::Closed));
        }
        let Some(taker) = self.first_without_message(lists) else {
            return Err((item, TryPutError::Full));
        };
        let number = self.messages.next_number();
        self.hand(lists, taker, Message { number, item: RawItem::of(item), sender: None }, wakes);
        Ok(())
    }

    /// Hands an item to the first who waits for one, or leaves it for the next taker.
    pub(super) fn put(
        &mut self,
        lists: &mut WaitLists<TransferSlot<T>>,
        item: T,
        wakes: &mut Wakes,
    ) -> Result<(), (T, TryPutError)> {
        self.hand_over(lists, item, wakes).or_else(|(item, why)| match why {
            TryPutError::Closed => Err((item, why)),
            TryPutError::Full => {
                self.messages.push(RawItem::of(item), None);
                Ok(())
            }
        })
    }

    /// The first who waits for a message that comes now, and is going to get it.
    #[inline]
    fn first_without_message(
        &self,
        lists: &WaitLists<TransferSlot<T>>,
    ) -> Option<Pointer<TransferSlot<T>>> {
        if self.messages.len() > 0 { None } else { Self::first_taker(lists) }
    }

    /// The first who waits for a message, and is going to get one.
    #[inline]
    fn first_taker(lists: &WaitLists<TransferSlot<T>>) -> Option<Pointer<TransferSlot<T>>> {
        // SAFETY: the lock is held.
        first_served(lists, TAKERS, |taker| unsafe { state_of_grant_to(taker) })
    }

    /// Hands a message to a waiting taker. True if that is as good as taken; otherwise its sender
    /// goes on waiting.
    #[inline]
    fn hand(
        &mut self,
        lists: &mut WaitLists<TransferSlot<T>>,
        taker: Pointer<TransferSlot<T>>,
        mut message: Message<RawItem<T>, Sender<T>>,
        wakes: &mut Wakes,
    ) -> bool {
        // SAFETY: the lock is held, and what is in a lane is alive, as are senders of messages.
        unsafe {
            lists.detach(taker);
            let own = taker.as_ref();
            let thread = own.notes(|notes| notes.thread);
            let taken = thread || self.eager;
            let sender = message.sender;
            if taken {
                message.sender = None;
            } else if let Some(sender) = sender {
                sender.as_ref().ask.with(|slot| {
                    slot.set_whereabouts(HANDED);
                    slot.detail.other = Some(taker);
                });
            }
            own.ask.with(|slot| slot.fill_with(message));
            lists.answer(
                taker,
                if thread { WaiterState::Served } else { WaiterState::Granted },
                wakes,
            );
            taken
        }
    }

    /// Notes when a taker that has to wait has come.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn note_coming(&mut self, ask: &TransferSlot<T>) {
        self.came += 1;
        // SAFETY: passed on from the caller.
        unsafe {
            ask.with(|slot| {
                if slot.detail.came == 0 {
                    slot.detail.came = self.came;
                }
            });
        }
    }

    /// Tells a sender that its message was taken.
    #[inline]
    fn complete(lists: &mut WaitLists<TransferSlot<T>>, sender: Sender<T>, wakes: &mut Wakes) {
        // SAFETY: the lock is held, and the sender of a message is alive and in its lane.
        unsafe {
            lists.detach(sender);
            sender.as_ref().ask.with(|slot| slot.set_whereabouts(0));
            lists.answer(sender, WaiterState::Served, wakes);
        }
    }

    /// Takes the next message.
    #[inline]
    pub(super) fn take(
        &mut self,
        lists: &mut WaitLists<TransferSlot<T>>,
        wakes: &mut Wakes,
    ) -> Result<(u64, T), TryTakeError> {
        let Some(Message { number, item, sender }) = self.messages.pop() else {
            return Err(if self.closed { TryTakeError::Closed } else { TryTakeError::Empty });
        };
        if let Some(sender) = sender {
            Self::complete(lists, sender, wakes);
        }
        // SAFETY: a user of the queue takes it.
        Ok((number, unsafe { item.open() }))
    }

    /// Gives messages back that were taken, whose senders have been told.
    pub(super) fn put_back(&mut self, messages: impl IntoIterator<Item = (u64, T)>) {
        for (number, item) in messages {
            self.messages.put_back(Message { number, item: RawItem::of(item), sender: None });
        }
    }

    /// Looks at the next message.
    pub(super) fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: a user of the queue looks at it.
        self.messages.peek().map(|item| look(unsafe { item.look() }))
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Turns all requests away that wait, and newcomers that bring something. False if that was
    /// done before.
    pub(super) fn close(
        &mut self,
        hints: &Hints,
        lists: &mut WaitLists<TransferSlot<T>>,
        wakes: &mut Wakes,
    ) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        // Senders first: a message that was handed to a task that has not come for it is withdrawn,
        // and the task waits again, for what else is left.
        self.turn_away(SENDERS, hints, lists, wakes);
        self.settle(hints, lists, (), wakes);
        self.turn_away(TAKERS, hints, lists, wakes);
        true
    }

    fn turn_away(
        &mut self,
        lane: Lane,
        hints: &Hints,
        lists: &mut WaitLists<TransferSlot<T>>,
        wakes: &mut Wakes,
    ) {
        while let Some(waiter) = lists.first(lane) {
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                lists.detach(waiter);
                self.leave(hints, lists, waiter, Some(lane), wakes);
                if let Some(link) = link_of(waiter) {
                    link.selection.refuse();
                }
                lists.answer(waiter, WaiterState::Refused, wakes);
            }
        }
    }

    /// Everything that is in it, for a queue that is being dropped.
    pub(super) fn empty(&mut self) -> Vec<T> {
        // SAFETY: the queue's owner drops it.
        let open = |message: Message<RawItem<T>, _>| unsafe { message.item.open() };
        std::iter::from_fn(|| self.messages.pop()).map(open).collect()
    }

    /// Lets a taker whose message was withdrawn before it came for it wait again, before all who
    /// came later.
    fn requeue_taker(
        lists: &mut WaitLists<TransferSlot<T>>,
        taker: Pointer<TransferSlot<T>>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the taker of an unclaimed message is alive.
        unsafe {
            lists.detach(taker);
            match taker.as_ref().notes(|notes| notes.late_end()) {
                Some(end) => lists.answer(taker, end, wakes),
                None => {
                    let came = |taker: Pointer<TransferSlot<T>>| {
                        taker.as_ref().ask.with(|slot| slot.detail.came)
                    };
                    let own = came(taker);
                    lists.join_behind(taker, TAKERS, |other| came(other) < own);
                    if let Some(link) = link_of(taker) {
                        link.selection.make_dormant();
                    }
                }
            }
        }
    }
}

impl<T> ObjectRule for TransferRule<T> {
    type Ask = TransferSlot<T>;
    type Refusal = Closed;
    type Outside = Hints;
    type Lock = SpinLock;
    type Change = ();

    const IS_STREAMED: bool = true;
    const NOTES_CLAIMS: bool = true;

    fn arrive(
        &mut self,
        _: &Hints,
        lists: &mut WaitLists<TransferSlot<T>>,
        waiter: Pointer<TransferSlot<T>>,
        _: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<Closed> {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            if !ask.with(|slot| slot.brings()) {
                return match self.take(lists, wakes) {
                    Ok((number, item)) => {
                        let message = Message { number, item: RawItem::of(item), sender: None };
                        ask.with(|slot| slot.fill_with(message));
                        Arrival::Served
                    }
                    Err(TryTakeError::Closed) => Arrival::Refused(Closed),
                    Err(TryTakeError::Empty) => {
                        self.note_coming(ask);
                        Arrival::Waits(TAKERS)
                    }
                };
            }
            if self.closed {
                return Arrival::Refused(Closed);
            }
            let Some(item) = ask.with(Contents::take) else { return Arrival::Served };
            let Some(taker) = self.first_without_message(lists) else {
                let number = self.messages.push(item, Some(waiter));
                ask.with(|slot| slot.lies_in_queue(number));
                return Arrival::Waits(SENDERS);
            };
            let number = self.messages.next_number();
            let message = Message { number, item, sender: Some(waiter) };
            if self.hand(lists, taker, message, wakes) {
                Arrival::Served
            } else {
                Arrival::Waits(SENDERS)
            }
        }
    }

    /// A sender that leaves takes its message along, wherever that is.
    fn leave(
        &mut self,
        _: &Hints,
        lists: &mut WaitLists<TransferSlot<T>>,
        waiter: Pointer<TransferSlot<T>>,
        _: Option<Lane>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the waiter is alive, as are all that wait.
        unsafe {
            let ask = &waiter.as_ref().ask;
            let (whereabouts, number, other) =
                ask.with(|slot| (slot.whereabouts(), slot.detail.number, slot.detail.other));
            let item = match (whereabouts, other) {
                (IN_QUEUE, _) => self.messages.withdraw(number, |sender, number| {
                    sender.as_ref().ask.with(|slot| slot.detail.number = number);
                }),
                (HANDED, Some(taker)) => {
                    let message = taker.as_ref().ask.with(Contents::take_message);
                    Self::requeue_taker(lists, taker, wakes);
                    message.map(|message| message.item)
                }
                _ => None,
            };
            if let Some(item) = item {
                ask.with(|slot| {
                    slot.set_whereabouts(0);
                    slot.fill(item);
                });
            }
        }
    }

    fn claim(
        &mut self,
        lists: &mut WaitLists<TransferSlot<T>>,
        waiter: Pointer<TransferSlot<T>>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            let sender = ask.with(|slot| slot.detail.other.take());
            if let Some(sender) = sender {
                Self::complete(lists, sender, wakes);
            }
        }
    }

    fn take_back(&mut self, _: &Hints, waiter: Pointer<TransferSlot<T>>) {
        // SAFETY: the lock is held, and the waiter is alive, as is the sender of a message.
        unsafe {
            let ask = &waiter.as_ref().ask;
            if ask.with(|slot| slot.brings()) {
                return;
            }
            let Some(message) = ask.with(Contents::take_message) else { return };
            if let Some(sender) = message.sender {
                sender.as_ref().ask.with(|slot| slot.lies_in_queue(message.number));
            }
            self.messages.put_back(message);
            if let Some(link) = link_of(waiter) {
                link.selection.make_dormant();
            }
        }
    }

    /// What came back goes to the first who waits.
    fn settle(
        &mut self,
        _: &Hints,
        lists: &mut WaitLists<TransferSlot<T>>,
        (): (),
        wakes: &mut Wakes,
    ) {
        while self.messages.len() > 0 {
            let Some(taker) = Self::first_taker(lists) else { return };
            let Some(message) = self.messages.pop() else { return };
            let sender = message.sender;
            if self.hand(lists, taker, message, wakes) {
                if let Some(sender) = sender {
                    Self::complete(lists, sender, wakes);
                }
            }
        }
    }

    #[inline]
    fn before_unlocking(&mut self, hints: &Hints, lists: &WaitLists<TransferSlot<T>>) {
        // A request that comes to a closed queue has to learn of it.
        let messages = self.closed || self.messages.len() > 0;
        let takers = self.closed || lists.first(TAKERS).is_some();
        let seen = u32::from(messages) * MESSAGES + u32::from(takers) * WAITING_TAKERS;
        if hints.0.load(Ordering::Relaxed) != seen {
            hints.0.store(seen, Ordering::Release);
        }
    }

    fn expulsion(&self, _: &Hints) -> Option<Closed> {
        self.closed.then_some(Closed)
    }
}

impl<T> Selectable for TransferRule<T> {
    type Item = T;
    type Detail = MessageNote<T>;

    fn visit(
        &mut self,
        _: &Hints,
        lists: &mut WaitLists<TransferSlot<T>>,
        branch: Pointer<TransferSlot<T>>,
        wakes: &mut Wakes,
    ) -> Visited {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &branch.as_ref().ask;
            if self.messages.len() == 0 {
                if self.closed {
                    return Visited::Refused;
                }
                self.note_coming(ask);
                return Visited::Waits(TAKERS);
            }
            if !link_of(branch).is_some_and(|link| link.claim(WaiterState::Served)) {
                return Visited::Gone;
            }
            if let Ok((number, item)) = self.take(lists, wakes) {
                let message = Message { number, item: RawItem::of(item), sender: None };
                ask.with(|slot| slot.fill_with(message));
            }
            Visited::Served
        }
    }
}
