//! The messages of a queue: each has its place, and finds it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::{Charge, Millis};
use super::ids::{SessionSlot, WaitId};
use super::session::Owner;

/// The priority of most messages: for them alone there is no other index.
const USUAL: i32 = 0;

/// Numbers of messages stay below this, so that every JSON reader can represent them.
pub(super) const MAX_NUMBER: u64 = 1 << 53;

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) priority: i32,
    /// When it can be taken; 0: always could.
    pub(super) due: Millis,
    /// How often it was taken. What is on its way to a taker that may be lost does not count.
    pub(super) deliveries: u32,
    pub(super) payload: Arc<[u8]>,
    /// The request that transfers it, and waits. Such a message is not journaled.
    pub(super) sender: Option<WaitId>,
    /// What it counts for while it is there. Not journaled.
    pub(super) charge: Charge,
}

/// The messages of one queue.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    pub(super) capacity: u64,
    /// Numbers below this are used, or reserved: after a restart they are not given out again.
    pub(super) next: u64,
    /// Above the numbers of all messages in this life of the server. Not journaled.
    beyond: u64,
    /// Above the numbers of all messages that were put here. Not journaled.
    above: u64,
    /// What can be taken: by priority, then by number. A tree, since messages leave from anywhere
    /// when they are withdrawn, and come back to anywhere.
    ready: BTreeMap<(i32, u64), Message>,
    /// The numbers of those among them that have not the usual priority: a number is found without
    /// its priority.
    unusual: BTreeSet<u64>,
    /// What cannot be taken yet, by number; and in the order of time.
    delayed: BTreeMap<u64, Message>,
    due: BTreeSet<(Millis, u64)>,
    /// What is out to be acknowledged, by number.
    out: BTreeMap<u64, (Message, Owner)>,
    /// How many bytes all of them have.
    bytes: u64,
    /// When the kernel will look for messages that are due. Not journaled.
    pub(super) alarm: Option<Millis>,
}

impl Messages {
    pub(super) fn new(capacity: u64, next: u64) -> Self {
        Self {
            capacity,
            next,
            beyond: next,
            above: 0,
            ready: BTreeMap::new(),
            unusual: BTreeSet::new(),
            delayed: BTreeMap::new(),
            due: BTreeSet::new(),
            out: BTreeMap::new(),
            bytes: 0,
            alarm: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.delayed.len() + self.out.len()
    }

    /// The number that the next message gets.
    pub(super) fn next_number(&self) -> u64 {
        self.beyond
    }

    /// A life of the server begins: what the one before had reserved counts as used.
    pub(super) fn begin(&mut self) {
        self.beyond = self.beyond.max(self.next);
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn delayed(&self) -> usize {
        self.delayed.len()
    }

    pub(super) fn out(&self) -> usize {
        self.out.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_full(&self) -> bool {
        self.capacity != 0 && self.len() as u64 >= self.capacity
    }

    /// Puts a message in its place: among the ready ones, or among those that wait for their time.
    pub(super) fn insert(&mut self, message: Message) {
        if message.sender.is_none() {
            self.next = self.next.max(message.number + 1);
        }
        self.beyond = self.beyond.max(message.number + 1);
        self.above = self.above.max(message.number + 1);
        self.bytes += message.payload.len() as u64;
        self.place(message);
    }

    /// Lets a message that can be taken, now or later, count for something.
    pub(super) fn charge(&mut self, number: u64, priority: i32, charge: Charge) {
        let ready = self.ready.get_mut(&(priority, number));
        if let Some(message) = ready.or_else(|| self.delayed.get_mut(&number)) {
            message.charge = charge;
        }
    }

    /// Whether a message of that number is here, in its place or out, whatever its priority.
    pub(super) fn contains(&self, number: u64) -> bool {
        if number >= self.above {
            // As good as always: messages come in the order of their numbers.
            return false;
        }
        self.ready.contains_key(&(USUAL, number))
            || self.unusual.contains(&number)
            || self.delayed.contains_key(&number)
            || self.out.contains_key(&number)
    }

    fn place(&mut self, message: Message) {
        if message.due == 0 {
            self.make_ready(message);
        } else {
            self.due.insert((message.due, message.number));
            self.delayed.insert(message.number, message);
        }
    }

    fn make_ready(&mut self, message: Message) {
        if message.priority != USUAL {
            self.unusual.insert(message.number);
        }
        self.ready.insert((message.priority, message.number), message);
    }

    /// The first message that can be taken.
    pub(super) fn first(&self) -> Option<&Message> {
        self.ready.first_key_value().map(|(_, first)| first)
    }

    /// Takes a message out of its place.
    pub(super) fn remove(&mut self, number: u64, priority: i32) -> Option<Message> {
        let message = match self.remove_ready(number, priority) {
            Some(message) => message,
            None => {
                let message = self.delayed.remove(&number)?;
                self.due.remove(&(message.due, number));
                message
            }
        };
        self.bytes -= message.payload.len() as u64;
        Some(message)
    }

    fn remove_ready(&mut self, number: u64, priority: i32) -> Option<Message> {
        let message = self.ready.remove(&(priority, number))?;
        if priority != USUAL {
            self.unusual.remove(&number);
        }
        Some(message)
    }

    /// Gives a message to an owner until it is acknowledged or returned.
    pub(super) fn lend(&mut self, number: u64, priority: i32, owner: Owner) -> Option<&Message> {
        if self.out.contains_key(&number) {
            return None;
        }
        let mut message = self.remove(number, priority)?;
        // A connection's delivery of a journaled message was counted before, by an event of its
        // own.
        if matches!(owner, Owner::Session(_)) || message.sender.is_some() {
            message.deliveries = message.deliveries.saturating_add(1);
        }
        self.bytes += message.payload.len() as u64;
        self.out.insert(number, (message, owner));
        self.out.get(&number).map(|(message, _)| message)
    }

    pub(super) fn lent(&self, number: u64) -> Option<&Message> {
        self.out.get(&number).map(|(message, _)| message)
    }

    pub(super) fn borrower(&self, number: u64) -> Option<Owner> {
        self.out.get(&number).map(|(_, owner)| *owner)
    }

    /// The numbers of all messages that are out, and their borrowers.
    pub(super) fn borrowers(&self) -> impl Iterator<Item = (u64, Owner)> {
        self.out.iter().map(|(number, (_, owner))| (*number, *owner))
    }

    /// Ends a loan: the message is gone.
    pub(super) fn settle(&mut self, number: u64) -> Option<Message> {
        let (message, _) = self.out.remove(&number)?;
        self.bytes -= message.payload.len() as u64;
        Some(message)
    }

    /// Ends a loan: the message is back in its place, or will be at a new time.
    pub(super) fn give_back(&mut self, number: u64, due: Option<Millis>) {
        let Some((mut message, _)) = self.out.remove(&number) else { return };
        match due {
            None => self.make_ready(message),
            Some(due) => {
                message.due = due;
                self.place(message);
            }
        }
    }

    /// Ends loans: these messages are back in their places.
    pub(super) fn give_back_all(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            self.give_back(number, None);
        }
    }

    /// Takes out any message, wherever it is, and says which owner had borrowed it.
    pub(super) fn drop_any(&mut self) -> Option<(Message, Option<Owner>)> {
        let dropped = if let Some((_, message)) = self.ready.pop_last() {
            self.unusual.remove(&message.number);
            (message, None)
        } else if let Some((_, message)) = self.delayed.pop_first() {
            self.due.remove(&(message.due, message.number));
            (message, None)
        } else {
            let (_, (message, owner)) = self.out.pop_first()?;
            (message, Some(owner))
        };
        self.bytes -= dropped.0.payload.len() as u64;
        Some(dropped)
    }

    /// Lets those whose time has come take their places, so many at the most. How many did.
    pub(super) fn promote(&mut self, now: Millis, most: usize) -> usize {
        let mut count = 0;
        while count < most
            && let Some((due, number)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            if let Some(message) = self.delayed.remove(&number) {
                self.make_ready(message);
                count += 1;
            }
        }
        count
    }

    /// When the next one's time will have come.
    pub(super) fn next_due(&self) -> Option<Millis> {
        self.due.first().map(|(due, _)| *due)
    }

    /// All messages that the journal knows, in the order of their numbers, with the session that
    /// they are out to.
    pub(super) fn journaled(&self) -> Vec<(&Message, Option<SessionSlot>)> {
        let inside = self.ready.values().chain(self.delayed.values());
        let inside = inside.map(|message| (message, None));
        let out = self.out.values().map(|(message, owner)| match owner {
            Owner::Session(session) => (message, Some(*session)),
            Owner::Connection(_) => (message, None),
        });
        let mut all: Vec<_> =
            inside.chain(out).filter(|(message, _)| message.sender.is_none()).collect();
        all.sort_unstable_by_key(|(message, _)| message.number);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::ConnectionKey;

    const OWNER: Owner = Owner::Connection(ConnectionKey(1));

    fn message(number: u64, priority: i32, due: Millis) -> Message {
        let payload = Arc::from(vec![0; number as usize % 5]);
        Message {
            number,
            priority,
            due,
            deliveries: 0,
            payload,
            sender: None,
            charge: Charge::default(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        /// The first is always the one of the lowest priority, then number, whatever comes, goes
        /// and returns.
        #[test]
        fn everything_finds_its_place(
            steps in prop::collection::vec((0..7_u8, -1..2_i32, any::<prop::sample::Index>()), 0..80),
        ) {
            let mut messages = Messages::new(0, 1);
            let (mut ready, mut delayed, mut out) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
            let mut now = 0;
            for (step, priority, index) in steps {
                let number = messages.next_number();
                match step {
                    0 => {
                        messages.insert(message(number, priority, 0));
                        ready.insert((priority, number));
                    }
                    1 => {
                        let due = now + 1 + index.index(9) as u64;
                        messages.insert(message(number, priority, due));
                        delayed.insert((due, priority, number));
                    }
                    2 => {
                        let first = messages.first().map(|first| (first.priority, first.number));
                        prop_assert_eq!(first, ready.pop_first());
                        if let Some((priority, number)) = first {
                            prop_assert!(messages.lend(number, priority, OWNER).is_some());
                            out.push((priority, number));
                        }
                    }
                    3 if !out.is_empty() => {
                        let (priority, number) = out.remove(index.index(out.len()));
                        if index.index(2) == 0 {
                            messages.give_back(number, None);
                            ready.insert((priority, number));
                        } else {
                            messages.give_back(number, Some(now + 5));
                            delayed.insert((now + 5, priority, number));
                        }
                    }
                    4 if !out.is_empty() => {
                        let (_, number) = out.remove(index.index(out.len()));
                        prop_assert!(messages.settle(number).is_some());
                        prop_assert!(messages.settle(number).is_none());
                    }
                    5 => {
                        // Some of them, in the order of their numbers.
                        let from = index.index(out.len() + 1);
                        let mut back: Vec<(i32, u64)> = out.split_off(from);
                        back.sort_unstable_by_key(|(_, number)| *number);
                        messages.give_back_all(back.iter().map(|(_, number)| *number));
                        ready.extend(back);
                    }
                    _ => {
                        now += 3;
                        messages.promote(now, usize::MAX);
                        let later = delayed.split_off(&(now + 1, i32::MIN, 0));
                        let due = std::mem::replace(&mut delayed, later);
                        ready.extend(due.into_iter().map(|(_, priority, number)| (priority, number)));
                    }
                }
                let counts = (messages.ready(), messages.delayed(), messages.out());
                prop_assert_eq!(counts, (ready.len(), delayed.len(), out.len()));
                prop_assert_eq!(messages.next_due(), delayed.first().map(|(due, ..)| *due));
                let numbers = ready.iter().chain(&out).map(|(_, number)| *number);
                let numbers = numbers.chain(delayed.iter().map(|(_, _, number)| *number));
                prop_assert_eq!(messages.bytes(), numbers.map(|number| number % 5).sum::<u64>());
                let all: Vec<_> = ready.iter().chain(&out).copied().collect();
                for (_, number) in all {
                    prop_assert!(messages.contains(number));
                }
            }
        }
    }

    #[test]
    fn one_that_is_removed_from_the_middle_leaves_the_others_in_order() {
        let mut messages = Messages::new(0, 1);
        for number in 1..=4 {
            messages.insert(message(number, 0, 0));
        }
        assert!(messages.remove(2, 1).is_none(), "of another priority");
        assert!(messages.remove(2, 0).is_some());
        assert!(messages.remove(2, 0).is_none());
        let rest: Vec<_> = messages.journaled().iter().map(|(message, _)| message.number).collect();
        assert_eq!(rest, [1, 3, 4]);
        assert_eq!(messages.next_number(), 5);
    }
}
