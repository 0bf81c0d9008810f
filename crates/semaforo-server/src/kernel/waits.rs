//! Those who wait: each stands in a line of its object, and is on the list of its connection.
//!
//! A line is in the order in which they came: one that was passed over comes back to its place in it. The lists only
//! have to be gone through.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::command::{Charge, Millis, Origin, Retry};
use super::gate::Entry;
use super::ordered::OrderedSet;
use super::session::Owner;
use super::slots::Slots;

/// What somebody waits for.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// To be let in.
    Enter(Entry),
    /// For the other parties of a barrier.
    Arrive { index: u32 },
    /// For space in a queue.
    Put { payload: Arc<[u8]>, priority: i32, delay: Millis, charge: Charge },
    /// Until this message is taken.
    Transfer { number: u64, priority: i32 },
    /// For a message.
    Take { manual: bool },
}

impl Ask {
    /// How many bytes of a message it brings along.
    pub(super) fn payload_len(&self) -> usize {
        match self {
            Self::Put { payload, .. } => payload.len(),
            _ => 0,
        }
    }
}

/// A request that waits.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) place: u32,
    pub(super) lane: u8,
    /// It is passed over: nobody is there to take a grant.
    pub(super) dormant: bool,
    /// When it came, among all.
    ticket: u64,
    pub(super) ask: Ask,
    pub(super) owner: Owner,
    /// Where the answer goes; nowhere after the connection is lost.
    pub(super) origin: Option<Origin>,
    pub(super) retry: Option<Retry>,
    deadline: Option<Millis>,
    links: [Links; 2],
}

impl Wait {
    /// One that is on no list yet, and whose answer goes nowhere.
    pub(super) fn new(place: u32, lane: usize, ask: Ask, owner: Owner) -> Self {
        Self {
            place,
            lane: lane as u8,
            dormant: false,
            ticket: 0,
            ask,
            owner,
            origin: None,
            retry: None,
            deadline: None,
            links: Default::default(),
        }
    }

    /// When it came, among all.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Whether it stands in a line of its object, and not aside.
    pub(super) fn is_in_line(&self) -> bool {
        !self.dormant && !matches!(self.ask, Ask::Transfer { .. })
    }

    /// Whether letting it through adds a message to the journal.
    pub(super) fn is_heavy(&self) -> bool {
        match self.ask {
            Ask::Put { .. } => true,
            Ask::Take { .. } => self.retry.is_some(),
            Ask::Enter(_) | Ask::Arrive { .. } | Ask::Transfer { .. } => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Links {
    previous: Option<u32>,
    next: Option<u32>,
}

/// Those who wait at an object, in the order in which they came, by their tickets and keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(OrderedSet<(u64, u32)>);

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who came first.
    pub(super) fn head(&self) -> Option<u32> {
        self.keys().next()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(_, key)| key)
    }

    /// Adds one in its place.
    pub(super) fn join(&mut self, wait: &Wait, key: u32) {
        self.0.insert((wait.ticket, key));
    }

    /// Takes one out, wherever it stands.
    pub(super) fn leave(&mut self, wait: &Wait, key: u32) {
        self.0.remove(&(wait.ticket, key));
    }
}

/// A list through those who wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    head: Option<u32>,
    tail: Option<u32>,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(super) fn head(&self) -> Option<u32> {
        self.head
    }
}

/// Which of the lists that one who waits can be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// All that its connection waits for.
    Connection = 0,
    /// All that its named session waits for.
    Session = 1,
}

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    slots: Slots<Wait>,
    tickets: u64,
    /// When their time is up; of those whose time is up together, who came first is first.
    deadlines: BTreeSet<(Millis, u64, u32)>,
}

impl Waits {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, key: u32) -> Option<&Wait> {
        self.slots.get(key)
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Wait> {
        self.slots.get_mut(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|(key, _)| key)
    }

    /// Gives somebody a number, which is higher than those of all who came before.
    pub(super) fn insert(&mut self, mut wait: Wait) -> u32 {
        self.tickets += 1;
        wait.ticket = self.tickets;
        self.slots.insert(wait)
    }

    /// Takes somebody out, who is on no list any more.
    pub(super) fn remove(&mut self, key: u32) -> Option<Wait> {
        self.set_deadline(key, None);
        self.slots.vacate(key)
    }

    pub(super) fn set_deadline(&mut self, key: u32, deadline: Option<Millis>) {
        let Some(wait) = self.slots.get_mut(key) else { return };
        if let Some(old) = wait.deadline.take() {
            self.deadlines.remove(&(old, wait.ticket, key));
        }
        wait.deadline = deadline;
        if let Some(new) = deadline {
            self.deadlines.insert((new, wait.ticket, key));
        }
    }

    /// The one whose time is up first, and when.
    pub(super) fn next_deadline(&self) -> Option<(Millis, u32)> {
        self.deadlines.first().map(|(deadline, _, key)| (*deadline, *key))
    }

    /// The ticket of the request that came last.
    pub(super) fn last_ticket(&self) -> u64 {
        self.tickets
    }

    pub(super) fn next(&self, key: u32, list: List) -> Option<u32> {
        self.get(key)?.links[list as usize].next
    }

    /// When somebody came, among all.
    pub(super) fn ticket(&self, key: u32) -> Option<u64> {
        self.get(key).map(|wait| wait.ticket)
    }

    /// The first keys on a list that begins there.
    pub(super) fn first_of(&self, head: Option<u32>, list: List, most: usize) -> Vec<u32> {
        std::iter::successors(head, |key| self.next(*key, list)).take(most).collect()
    }

    fn links(&mut self, key: u32, list: List) -> Option<&mut Links> {
        self.slots.get_mut(key).map(|wait| &mut wait.links[list as usize])
    }

    /// Adds one at the end.
    pub(super) fn push(&mut self, chain: &mut Chain, list: List, key: u32) {
        let previous = chain.tail.replace(key);
        if let Some(links) = self.links(key, list) {
            *links = Links { previous, next: None };
        }
        match previous.and_then(|other| self.links(other, list)) {
            Some(links) => links.next = Some(key),
            None => chain.head = Some(key),
        }
    }

    /// Takes one off, wherever it stands.
    pub(super) fn unlink(&mut self, chain: &mut Chain, list: List, key: u32) {
        let Some(links) = self.links(key, list) else { return };
        let Links { previous, next } = std::mem::take(links);
        match previous.and_then(|other| self.links(other, list)) {
            Some(links) => links.next = next,
            None => chain.head = next,
        }
        match next.and_then(|other| self.links(other, list)) {
            Some(links) => links.previous = previous,
            None => chain.tail = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::ConnectionKey;

    fn wait() -> Wait {
        let owner = Owner::Connection(ConnectionKey(1));
        Wait::new(0, 0, Ask::Enter(Entry::Pass), owner)
    }

    fn backwards(waits: &Waits, chain: Chain, list: List) -> Vec<u32> {
        let previous = |key: &u32| waits.get(*key)?.links[list as usize].previous;
        let mut all: Vec<_> = std::iter::successors(chain.tail, previous).collect();
        all.reverse();
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        /// Lines and lists are what plain ones would be, whoever leaves and comes back, and do not disturb each other.
        #[test]
        fn lines_are_lists(steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..60)) {
            let mut waits = Waits::default();
            let (mut line, mut some, mut other) = (Line::default(), Chain::default(), Chain::default());
            let (mut there, mut away, mut all) = (Vec::new(), Vec::new(), Vec::new());
            for (step, index) in steps {
                match step {
                    0 => {
                        let key = waits.insert(wait());
                        line.join(&waits.get(key).cloned().unwrap(), key);
                        waits.push(&mut some, List::Connection, key);
                        waits.push(&mut other, List::Session, key);
                        there.push(key);
                        all.push(key);
                    }
                    1 if !there.is_empty() => {
                        let key = there.remove(index.index(there.len()));
                        line.leave(waits.get(key).unwrap(), key);
                        away.push(key);
                    }
                    2 if !away.is_empty() => {
                        let key = away.remove(index.index(away.len()));
                        let ticket = |key: &u32| waits.ticket(*key);
                        let place = there.partition_point(|other| ticket(other) < ticket(&key));
                        line.join(waits.get(key).unwrap(), key);
                        there.insert(place, key);
                    }
                    3 if !there.is_empty() => {
                        let key = there.remove(index.index(there.len()));
                        line.leave(waits.get(key).unwrap(), key);
                        waits.unlink(&mut some, List::Connection, key);
                        waits.unlink(&mut other, List::Session, key);
                        all.retain(|other| *other != key);
                        prop_assert!(waits.remove(key).is_some());
                    }
                    _ => {}
                }
                prop_assert!(line.keys().eq(there.iter().copied()));
                prop_assert_eq!(line.head(), there.first().copied());
                for (chain, list) in [(some, List::Connection), (other, List::Session)] {
                    prop_assert_eq!(&waits.first_of(chain.head(), list, usize::MAX), &all);
                    prop_assert_eq!(&backwards(&waits, chain, list), &all);
                }
                prop_assert_eq!((line.is_empty(), some.is_empty()), (there.is_empty(), all.is_empty()));
            }
        }
    }

    #[test]
    fn of_those_whose_time_is_up_together_who_came_first_is_first() {
        let mut waits = Waits::default();
        let keys = [0; 3].map(|_| waits.insert(wait()));
        waits.remove(keys[0]);
        let last = waits.insert(wait());
        assert_eq!(last, keys[0], "the place is used again");
        for key in [last, keys[1], keys[2]] {
            waits.set_deadline(key, Some(10));
        }
        waits.set_deadline(keys[1], Some(20));
        assert_eq!(waits.next_deadline(), Some((10, keys[2])));
        waits.set_deadline(keys[2], None);
        assert_eq!(waits.next_deadline(), Some((10, last)));
        waits.remove(last);
        assert_eq!(waits.next_deadline(), Some((20, keys[1])));
    }
}
