//! The rule of a queue whose senders may wait until their very message is taken.

use std::fmt;
use std::sync::Arc;

use super::choice::{Ask, first_served, state_of_grant_to, tie_of};
use super::crossing::{Selects, Visited};
use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::messages::{Message, Messages};
use super::parcel::Parcel;
use crate::primitive::{AtomicU32, Ordering, TrackedCell};
use crate::wait::contended::{ContendedObject, SpinLock};
use crate::wait::rule::{Arrival, Coming, ObjectRule};
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Lane, Pointer, WaiterState};
use crate::wait::wake::Wakes;

/// Those who wait for a message. There are some only if there is none, but for branches that cannot be
/// claimed, or are about to look here.
pub(super) const TAKERS: Lane = Lane::First;
/// Those who wait until their message is taken.
pub(super) const SENDERS: Lane = Lane::Second;

/// The state of a queue, behind its lock.
#[derive(Debug)]
pub struct Transferring<T> {
    messages: Messages<Parcel<T>, Sender<T>>,
    /// When a message that is handed to a waiting task counts as taken: at once, or when the task
    /// claims it.
    eager: bool,
    closed: bool,
    /// How many have had to wait for a message.
    came: u64,
}

type Sender<T> = Pointer<Delivery<T>>;

/// What somebody brings to the queue, or wants from it.
pub struct Delivery<T> {
    /// Belongs to the lock's holder while its owner waits, and to its owner otherwise.
    slot: TrackedCell<Slot<T>>,
}

/// Whole words only: a request is moved a lot, and a word that was written in parts is slow to read.
struct Slot<T> {
    item: Parcel<T>,
    /// The message's, once it has one.
    number: u64,
    /// For a sender, the task that was handed its message; for a taker, who sent what it was handed.
    other: Option<Pointer<Delivery<T>>>,
    state: u64,
    /// How many takers had come when this one had to wait; 0 if it has not.
    came: u64,
}

/// Where a sender's message is, or what a taker has.
mod state {
    /// A taker has nothing; a sender's message was taken.
    pub(super) const NOTHING: u64 = 0;
    /// A sender's message lies in the queue, under its number.
    pub(super) const LIES: u64 = 1;
    /// A sender's message was handed to another, a task, which has not claimed it.
    pub(super) const HANDED: u64 = 2;
    /// A sender still has its item, or has it back; a taker has one.
    pub(super) const HAS_ITEM: u64 = 3;
    /// Besides: this is a sender.
    pub(super) const SENDING: u64 = 4;
    /// Besides: the waiter is one of several of its request, each in a queue of its own.
    pub(super) const BRANCH: u64 = 8;
    /// What comes besides.
    pub(super) const BESIDES: u64 = SENDING | BRANCH;
}

impl<T> Slot<T> {
    #[inline]
    fn is_sending(&self) -> bool {
        self.state & state::SENDING != 0
    }

    #[inline]
    fn state(&self) -> u64 {
        self.state & !state::BESIDES
    }

    #[inline]
    fn set_state(&mut self, state: u64) {
        self.state = self.state & state::BESIDES | state;
    }

    #[inline]
    fn fill(&mut self, item: Parcel<T>) {
        self.item = item;
        self.set_state(state::HAS_ITEM);
    }

    /// Makes it the place where a message is found.
    #[inline]
    fn fill_with(&mut self, Message { number, item, sender }: Message<Parcel<T>, Sender<T>>) {
        self.fill(item);
        self.number = number;
        self.other = sender;
    }

    /// The item, if there is one.
    #[inline]
    fn take(&mut self) -> Option<Parcel<T>> {
        if self.state() != state::HAS_ITEM {
            return None;
        }
        self.set_state(state::NOTHING);
        // SAFETY: the state says that nothing is left.
        Some(unsafe { self.item.read() })
    }

    /// The message, if there is one.
    fn take_message(&mut self) -> Option<Message<Parcel<T>, Sender<T>>> {
        let item = self.take()?;
        Some(Message { number: self.number, item, sender: self.other.take() })
    }
}

impl<T> Delivery<T> {
    #[inline]
    pub(super) fn send(item: T) -> Self {
        Self::new(Parcel::of(item), state::HAS_ITEM | state::SENDING)
    }

    #[inline]
    pub(super) fn take() -> Self {
        Self::new(Parcel::empty(), state::NOTHING)
    }

    #[inline]
    fn new(item: Parcel<T>, state: u64) -> Self {
        Self { slot: TrackedCell::new(Slot { item, number: 0, other: None, state, came: 0 }) }
    }

    /// # Safety
    /// The lock is held.
    #[inline]
    unsafe fn slot<R>(&self, change: impl FnOnce(&mut Slot<T>) -> R) -> R {
        // SAFETY: the lock makes this the only access.
        self.slot.look_mut(|slot| change(unsafe { &mut *slot }))
    }

    /// For an owner who does not wait.
    #[inline]
    fn own(&mut self) -> &mut Slot<T> {
        // SAFETY: borrowed exclusively.
        self.slot.look_mut(|slot| unsafe { &mut *slot })
    }

    /// Gives an owner who does not wait its item, or its item back.
    #[inline]
    pub(super) fn fill(&mut self, item: T) {
        self.own().fill(Parcel::of(item));
    }

    /// The item, if there is one, for an owner who does not wait.
    #[inline]
    fn take_own(&mut self) -> Option<T> {
        // SAFETY: the owner's, whose item it is.
        self.own().take().map(|item| unsafe { item.open() })
    }

    /// Whether there is no item, for an owner who does not wait.
    #[inline]
    pub(super) fn is_empty(&mut self) -> bool {
        self.own().state() != state::HAS_ITEM
    }

    /// The item of a sender who does not wait.
    #[inline]
    pub(super) fn goods(&mut self) -> T {
        self.take_own().expect("a sender has its item until it is sent")
    }

    /// The item that was taken.
    #[inline]
    pub(super) fn taken(mut self) -> T {
        self.take_own().expect("whoever is served has an item")
    }

    /// The item that was not accepted.
    pub(super) fn rejected<E>(mut self, why: E) -> Rejected<T, E> {
        Rejected { item: self.goods(), why }
    }
}

impl<T> Ask for Delivery<T> {
    type Item = T;

    #[inline]
    unsafe fn is_branch(&self) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { self.slot(|slot| slot.state & state::BRANCH != 0) }
    }
}

impl<T> Drop for Delivery<T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take_own());
    }
}

impl<T> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delivery")
    }
}

/// What can be seen without the lock: a hint that saves taking it in vain.
#[derive(Debug)]
pub struct Signs(AtomicU32);

const MESSAGES: u32 = 1;
const WAITING_TAKERS: u32 = 2;

impl Signs {
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

impl<T> Transferring<T> {
    pub(super) fn hall(eager: bool) -> Arc<ContendedObject<Self>> {
        let rule = Self { messages: Messages::new(), eager, closed: false, came: 0 };
        ContendedObject::new(rule, SpinLock::new(), Signs::new())
    }

    /// Hands an item to the first who waits for one.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        lists: &mut WaitLists<Delivery<T>>,
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
        self.hand(lists, taker, Message { number, item: Parcel::of(item), sender: None }, wakes);
        Ok(())
    }

    /// Hands an item to the first who waits for one, or leaves it for whoever comes.
    pub(super) fn put(
        &mut self,
        lists: &mut WaitLists<Delivery<T>>,
        item: T,
        wakes: &mut Wakes,
    ) -> Result<(), (T, TryPutError)> {
        self.hand_over(lists, item, wakes).or_else(|(item, why)| match why {
            TryPutError::Closed => Err((item, why)),
            TryPutError::Full => {
                self.messages.push(Parcel::of(item), None);
                Ok(())
            }
        })
    }

    /// The first who waits for a message that comes now, and is going to get it.
    #[inline]
    fn first_without_message(
        &self,
        lists: &WaitLists<Delivery<T>>,
    ) -> Option<Pointer<Delivery<T>>> {
        if self.messages.len() > 0 { None } else { Self::first_taker(lists) }
    }

    /// The first who waits for a message, and is going to get one.
    #[inline]
    fn first_taker(lists: &WaitLists<Delivery<T>>) -> Option<Pointer<Delivery<T>>> {
        // SAFETY: the lock is held.
        first_served(lists, TAKERS, |taker| unsafe { state_of_grant_to(taker) })
    }

    /// Hands a message to a waiting taker. True if that is as good as taken; otherwise its sender
    /// goes on waiting.
    #[inline]
    fn hand(
        &mut self,
        lists: &mut WaitLists<Delivery<T>>,
        taker: Pointer<Delivery<T>>,
        mut message: Message<Parcel<T>, Sender<T>>,
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
                sender.as_ref().ask.slot(|slot| {
                    slot.set_state(state::HANDED);
                    slot.other = Some(taker);
                });
            }
            own.ask.slot(|slot| slot.fill_with(message));
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
    unsafe fn note_coming(&mut self, ask: &Delivery<T>) {
        self.came += 1;
        // SAFETY: passed on from the caller.
        unsafe {
            ask.slot(|slot| {
                if slot.came == 0 {
                    slot.came = self.came;
                }
            });
        }
    }

    /// Tells a sender that its message was taken.
    #[inline]
    fn complete(lists: &mut WaitLists<Delivery<T>>, sender: Sender<T>, wakes: &mut Wakes) {
        // SAFETY: the lock is held, and the sender of a message is alive and in its lane.
        unsafe {
            lists.detach(sender);
            sender.as_ref().ask.slot(|slot| slot.set_state(state::NOTHING));
            lists.answer(sender, WaiterState::Served, wakes);
        }
    }

    /// Takes the next message.
    #[inline]
    pub(super) fn take(
        &mut self,
        lists: &mut WaitLists<Delivery<T>>,
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
            self.messages.put_back(Message { number, item: Parcel::of(item), sender: None });
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

    /// Turns everyone away who waits, and all newcomers who bring something. False if that was done
    /// before.
    pub(super) fn close(
        &mut self,
        signs: &Signs,
        lists: &mut WaitLists<Delivery<T>>,
        wakes: &mut Wakes,
    ) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        // Senders first: a message that was handed to a task that has not come for it is withdrawn,
        // and the task waits again, for what else is left.
        self.turn_away(SENDERS, signs, lists, wakes);
        self.settle(signs, lists, (), wakes);
        self.turn_away(TAKERS, signs, lists, wakes);
        true
    }

    fn turn_away(
        &mut self,
        lane: Lane,
        signs: &Signs,
        lists: &mut WaitLists<Delivery<T>>,
        wakes: &mut Wakes,
    ) {
        while let Some(waiter) = lists.first(lane) {
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                lists.detach(waiter);
                self.leave(signs, lists, waiter, Some(lane), wakes);
                if let Some(tie) = tie_of(waiter) {
                    tie.choice.refuse();
                }
                lists.answer(waiter, WaiterState::Refused, wakes);
            }
        }
    }

    /// Everything that is in it, for a queue that is being dropped.
    pub(super) fn empty(&mut self) -> Vec<T> {
        // SAFETY: the queue's owner drops it.
        let open = |message: Message<Parcel<T>, _>| unsafe { message.item.open() };
        std::iter::from_fn(|| self.messages.pop()).map(open).collect()
    }

    /// What a taker who was leaked has been handed, for a queue that is being dropped.
    pub(super) fn handed_to(taker: Pointer<Delivery<T>>) -> Option<T> {
        // SAFETY: the lock is held, and the waiter is alive, because it was pinned. The queue's owner
        // drops it.
        unsafe {
            let ask = &taker.as_ref().ask;
            let item = ask.slot(|slot| if slot.is_sending() { None } else { slot.take() });
            item.map(|item| item.open())
        }
    }

    /// Lets a taker whose message was withdrawn before it came for it wait again, before all who came
    /// later.
    fn disappoint(
        lists: &mut WaitLists<Delivery<T>>,
        taker: Pointer<Delivery<T>>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the taker of an unclaimed message is alive.
        unsafe {
            lists.detach(taker);
            match taker.as_ref().notes(|notes| notes.late_end()) {
                Some(end) => lists.answer(taker, end, wakes),
                None => {
                    let came =
                        |taker: Pointer<Delivery<T>>| taker.as_ref().ask.slot(|slot| slot.came);
                    let own = came(taker);
                    lists.join_behind(taker, TAKERS, |other| came(other) < own);
                    if let Some(tie) = tie_of(taker) {
                        tie.choice.let_rest();
                    }
                }
            }
        }
    }
}

impl<T> ObjectRule for Transferring<T> {
    type Ask = Delivery<T>;
    type Refusal = Closed;
    type Outside = Signs;
    type Lock = SpinLock;
    type Change = ();

    const IS_STREAMED: bool = true;
    const NOTES_CLAIMS: bool = true;

    fn arrive(
        &mut self,
        _: &Signs,
        lists: &mut WaitLists<Delivery<T>>,
        waiter: Pointer<Delivery<T>>,
        _: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<Closed> {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            if !ask.slot(|slot| slot.is_sending()) {
                return match self.take(lists, wakes) {
                    Ok((number, item)) => {
                        let message = Message { number, item: Parcel::of(item), sender: None };
                        ask.slot(|slot| slot.fill_with(message));
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
            let Some(item) = ask.slot(Slot::take) else { return Arrival::Served };
            let Some(taker) = self.first_without_message(lists) else {
                let number = self.messages.push(item, Some(waiter));
                ask.slot(|slot| {
                    slot.set_state(state::LIES);
                    slot.number = number;
                });
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
        _: &Signs,
        lists: &mut WaitLists<Delivery<T>>,
        waiter: Pointer<Delivery<T>>,
        _: Option<Lane>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the waiter is alive, as is everyone who waits.
        unsafe {
            let ask = &waiter.as_ref().ask;
            let (state, number, other) = ask.slot(|slot| (slot.state(), slot.number, slot.other));
            let item = match (state, other) {
                (state::LIES, _) => self.messages.withdraw(number, |sender, number| {
                    sender.as_ref().ask.slot(|slot| slot.number = number);
                }),
                (state::HANDED, Some(taker)) => {
                    let message = taker.as_ref().ask.slot(Slot::take_message);
                    Self::disappoint(lists, taker, wakes);
                    message.map(|message| message.item)
                }
                _ => None,
            };
            if let Some(item) = item {
                ask.slot(|slot| slot.fill(item));
            }
        }
    }

    fn claim(
        &mut self,
        lists: &mut WaitLists<Delivery<T>>,
        waiter: Pointer<Delivery<T>>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            let ask = &waiter.as_ref().ask;
            let sender = ask.slot(|slot| slot.other.take());
            if let Some(sender) = sender {
                Self::complete(lists, sender, wakes);
            }
        }
    }

    fn take_back(&mut self, _: &Signs, waiter: Pointer<Delivery<T>>) {
        // SAFETY: the lock is held, and the waiter is alive, as is the sender of a message.
        unsafe {
            let ask = &waiter.as_ref().ask;
            if ask.slot(|slot| slot.is_sending()) {
                return;
            }
            let Some(message) = ask.slot(Slot::take_message) else { return };
            if let Some(sender) = message.sender {
                sender.as_ref().ask.slot(|slot| {
                    slot.set_state(state::LIES);
                    slot.number = message.number;
                });
            }
            self.messages.put_back(message);
            if let Some(tie) = tie_of(waiter) {
                tie.choice.let_rest();
            }
        }
    }

    /// What came back goes to the first who waits.
    fn settle(&mut self, _: &Signs, lists: &mut WaitLists<Delivery<T>>, (): (), wakes: &mut Wakes) {
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
    fn before_unlocking(&mut self, signs: &Signs, lists: &WaitLists<Delivery<T>>) {
        // Whoever comes to a closed queue has to learn of it.
        let messages = self.closed || self.messages.len() > 0;
        let takers = self.closed || lists.first(TAKERS).is_some();
        let seen = u32::from(messages) * MESSAGES + u32::from(takers) * WAITING_TAKERS;
        if signs.0.load(Ordering::Relaxed) != seen {
            signs.0.store(seen, Ordering::Release);
        }
    }

    fn expulsion(&self, _: &Signs) -> Option<Closed> {
        self.closed.then_some(Closed)
    }
}

impl<T> Selects for Transferring<T> {
    type Item = T;

    fn branch_taking() -> Delivery<T> {
        Delivery::new(Parcel::empty(), state::NOTHING | state::BRANCH)
    }

    fn visit(
        &mut self,
        _: &Signs,
        lists: &mut WaitLists<Delivery<T>>,
        branch: Pointer<Delivery<T>>,
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
            if !tie_of(branch).is_some_and(|tie| tie.claim(WaiterState::Served)) {
                return Visited::Gone;
            }
            if let Ok((number, item)) = self.take(lists, wakes) {
                let message = Message { number, item: Parcel::of(item), sender: None };
                ask.slot(|slot| slot.fill_with(message));
            }
            Visited::Served
        }
    }

    fn taken(ask: &Delivery<T>) -> Option<T> {
        // SAFETY: the owner's, who does not wait, and whose item it is.
        unsafe { ask.slot(Slot::take).map(|item| item.open()) }
    }
}
