//! Requests that wait: each stands in a line of its object, and is on the list of its connection.
//!
//! A line is in the order in which its requests came: one that was passed over comes back to its
//! place in it. The lists only have to be gone through.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::command::{Charge, Millis, Origin, Retry};
use super::ids::{ObjectId, WaitId};
use super::ordered::OrderedSet;
use super::policy_object::Entry;
use super::session::Owner;
use super::slots::Slots;

/// What a request waits for.
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
    pub(super) object: ObjectId,
    pub(super) lane: u8,
    /// It is passed over: its connection is gone, or does not read.
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
    pub(super) fn new(object: ObjectId, lane: usize, ask: Ask, owner: Owner) -> Self {
        Self {
            object,
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
    previous: Option<WaitId>,
    next: Option<WaitId>,
}

/// Requests that wait at an object, in the order in which they came, by their tickets and ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(OrderedSet<(u64, WaitId)>);

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The request that came first.
    pub(super) fn head(&self) -> Option<WaitId> {
        self.ids().next()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = WaitId> {
        self.0.iter().map(|(_, id)| id)
    }

    /// Adds a request in its place.
    pub(super) fn join(&mut self, wait: &Wait, id: WaitId) {
        self.0.insert((wait.ticket, id));
    }

    /// Takes a request out, wherever it stands.
    pub(super) fn leave(&mut self, wait: &Wait, id: WaitId) {
        self.0.remove(&(wait.ticket, id));
    }
}

/// A list through waiting requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    head: Option<WaitId>,
    tail: Option<WaitId>,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(super) fn head(&self) -> Option<WaitId> {
        self.head
    }
}

/// Which of the lists that a waiting request can be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// All that its connection waits for.
    Connection = 0,
    /// All that its named session waits for.
    Session = 1,
}

/// All waiting requests.
#[derive(Debug, Default)]
pub(super) struct Waits {
    slots: Slots<WaitId, Wait>,
    tickets: u64,
    /// When their time is up; of those whose time is up together, the one that came first is first.
    deadlines: BTreeSet<(Millis, u64, WaitId)>,
}

impl Waits {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, id: WaitId) -> Option<&Wait> {
        self.slots.get(id)
    }

    pub(super) fn get_mut(&mut self, id: WaitId) -> Option<&mut Wait> {
        self.slots.get_mut(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = WaitId> {
        self.slots.iter().map(|(id, _)| id)
    }

    /// Adds a request, with a ticket that is higher than those of all that came before.
    pub(super) fn insert(&mut self, mut wait: Wait) -> WaitId {
        self.tickets += 1;
        wait.ticket = self.tickets;
        self.slots.insert(wait)
    }

    /// Takes a request out that is on no list any more.
    pub(super) fn remove(&mut self, id: WaitId) -> Option<Wait> {
        self.set_deadline(id, None);
        self.slots.vacate(id)
    }

    pub(super) fn set_deadline(&mut self, id: WaitId, deadline: Option<Millis>) {
        let Some(wait) = self.slots.get_mut(id) else { return };
        if let Some(old) = wait.deadline.take() {
            self.deadlines.remove(&(old, wait.ticket, id));
        }
        wait.deadline = deadline;
        if let Some(new) = deadline {
            self.deadlines.insert((new, wait.ticket, id));
        }
    }

    /// The request whose time is up first, and when.
    pub(super) fn next_deadline(&self) -> Option<(Millis, WaitId)> {
        self.deadlines.first().map(|(deadline, _, id)| (*deadline, *id))
    }

    /// The ticket of the request that came last.
    pub(super) fn last_ticket(&self) -> u64 {
        self.tickets
    }

    pub(super) fn next(&self, id: WaitId, list: List) -> Option<WaitId> {
        self.get(id)?.links[list as usize].next
    }

    /// When a request came, among all.
    pub(super) fn ticket(&self, id: WaitId) -> Option<u64> {
        self.get(id).map(|wait| wait.ticket)
    }

    /// The first requests on a list that begins there.
    pub(super) fn first_of(&self, head: Option<WaitId>, list: List, most: usize) -> Vec<WaitId> {
        std::iter::successors(head, |id| self.next(*id, list)).take(most).collect()
    }

    fn links(&mut self, id: WaitId, list: List) -> Option<&mut Links> {
        self.slots.get_mut(id).map(|wait| &mut wait.links[list as usize])
    }

    /// Adds a request at the end.
    pub(super) fn push(&mut self, chain: &mut Chain, list: List, id: WaitId) {
        let previous = chain.tail.replace(id);
        if let Some(links) = self.links(id, list) {
            *links = Links { previous, next: None };
        }
        match previous.and_then(|other| self.links(other, list)) {
            Some(links) => links.next = Some(id),
            None => chain.head = Some(id),
        }
    }

    /// Takes a request off, wherever it stands.
    pub(super) fn unlink(&mut self, chain: &mut Chain, list: List, id: WaitId) {
        let Some(links) = self.links(id, list) else { return };
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
        Wait::new(ObjectId::created(0), 0, Ask::Enter(Entry::Pass), owner)
    }

    fn backwards(waits: &Waits, chain: Chain, list: List) -> Vec<WaitId> {
        let previous = |id: &WaitId| waits.get(*id)?.links[list as usize].previous;
        let mut all: Vec<_> = std::iter::successors(chain.tail, previous).collect();
        all.reverse();
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        /// Lines and lists are what plain ones would be, whichever request leaves and comes back,
        /// and do not disturb each other.
        #[test]
        fn lines_are_lists(steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..60)) {
            let mut waits = Waits::default();
            let (mut line, mut some, mut other) = (Line::default(), Chain::default(), Chain::default());
            let (mut there, mut away, mut all) = (Vec::new(), Vec::new(), Vec::new());
            for (step, index) in steps {
                match step {
                    0 => {
                        let id = waits.insert(wait());
                        line.join(&waits.get(id).cloned().unwrap(), id);
                        waits.push(&mut some, List::Connection, id);
                        waits.push(&mut other, List::Session, id);
                        there.push(id);
                        all.push(id);
                    }
                    1 if !there.is_empty() => {
                        let id = there.remove(index.index(there.len()));
                        line.leave(waits.get(id).unwrap(), id);
                        away.push(id);
                    }
                    2 if !away.is_empty() => {
                        let id = away.remove(index.index(away.len()));
                        let ticket = |id: &WaitId| waits.ticket(*id);
                        let place = there.partition_point(|other| ticket(other) < ticket(&id));
                        line.join(waits.get(id).unwrap(), id);
                        there.insert(place, id);
                    }
                    3 if !there.is_empty() => {
                        let id = there.remove(index.index(there.len()));
                        line.leave(waits.get(id).unwrap(), id);
                        waits.unlink(&mut some, List::Connection, id);
                        waits.unlink(&mut other, List::Session, id);
                        all.retain(|other| *other != id);
                        prop_assert!(waits.remove(id).is_some());
                    }
                    _ => {}
                }
                prop_assert!(line.ids().eq(there.iter().copied()));
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
        let ids = [0; 3].map(|_| waits.insert(wait()));
        waits.remove(ids[0]);
        let last = waits.insert(wait());
        assert_eq!(last, ids[0], "the id is used again");
        for id in [last, ids[1], ids[2]] {
            waits.set_deadline(id, Some(10));
        }
        waits.set_deadline(ids[1], Some(20));
        assert_eq!(waits.next_deadline(), Some((10, ids[2])));
        waits.set_deadline(ids[2], None);
        assert_eq!(waits.next_deadline(), Some((10, last)));
        waits.remove(last);
        assert_eq!(waits.next_deadline(), Some((20, ids[1])));
    }
}
