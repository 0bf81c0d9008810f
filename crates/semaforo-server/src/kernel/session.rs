//! Owners of holds and waiting requests: connections, and named sessions, which outlive them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use hashbrown::HashMap;

use super::answer::Answer;
use super::command::{ConnectionKey, Millis};
use super::ids::{ObjectId, SessionSlot, WaitId};
use super::ordered::OrderedSet;
use super::waits::Chain;

/// A session's secret: a client that knows it acts for the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId(secret)")
    }
}

/// Not the 32 hexadecimal digits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASession;

impl FromStr for SessionId {
    type Err = NotASession;

    fn from_str(text: &str) -> Result<Self, NotASession> {
        if text.len() != 32 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(NotASession);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| NotASession)
    }
}

/// The owner of a hold, a message that is out, or a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A connection, for as long as it lasts.
    Connection(ConnectionKey),
    /// A named session, by its slot.
    Session(SessionSlot),
}

/// A named session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) ttl: Millis,
    pub(super) label: Box<str>,
    /// What the session was answered, by its own numbers, until it says that it knows.
    pub(super) kept: BTreeMap<u64, Kept>,
    /// All answers up to this number have arrived there.
    pub(super) acked: u64,
    pub(super) holdings: Holdings,
    /// It is over for its client, and gives back what it has.
    pub(super) is_leaving: bool,
    /// When it ends unless something is heard of it. Not journaled.
    pub(super) deadline: Millis,
    /// When the kernel will look whether it has ended. Not journaled.
    pub(super) check: Option<Millis>,
    /// Its requests that wait, by their numbers. Not journaled.
    pub(super) waiting: HashMap<u64, WaitId>,
    /// All that it waits for. Not journaled.
    pub(super) waits: Chain,
}

impl Session {
    pub(super) fn new(id: SessionId, ttl: Millis, label: &str) -> Self {
        Self {
            id,
            ttl,
            label: label.into(),
            kept: BTreeMap::new(),
            acked: 0,
            holdings: Holdings::default(),
            is_leaving: false,
            deadline: 0,
            check: None,
            waiting: HashMap::new(),
            waits: Chain::default(),
        }
    }
}

impl Session {
    /// How many bytes of messages are kept with answers up to a number.
    pub(super) fn kept_bytes(&self, upto: u64) -> u64 {
        let payloads = self.kept.range(..=upto).filter_map(|(_, kept)| kept.answer.payload());
        payloads.map(|payload| payload.len() as u64).sum()
    }
}

/// An answer that may be asked for again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) digest: u64,
    pub(super) answer: Answer,
}

/// A part of what an owner has.
#[derive(Clone, Debug)]
pub(super) struct Portion {
    /// Holds: object and fence.
    pub(super) holds: Vec<(ObjectId, u64)>,
    /// Messages that are out to it: queue and number.
    pub(super) messages: Vec<(ObjectId, u64)>,
}

impl Portion {
    pub(super) fn len(&self) -> usize {
        self.holds.len() + self.messages.len()
    }

    /// The messages by queue, each with their numbers.
    pub(super) fn loans(&self) -> impl Iterator<Item = (ObjectId, Vec<u64>)> {
        let queues = self.messages.chunk_by(|(one, _), (other, _)| one == other);
        queues.map(|loans| (loans[0].0, loans.iter().map(|(_, number)| *number).collect()))
    }
}

/// What an owner has.
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings {
    /// Its holds: object and fence.
    holds: OrderedSet<(ObjectId, u64)>,
    /// The messages that are out to it: queue and number.
    messages: OrderedSet<(ObjectId, u64)>,
}

impl Holdings {
    /// The fences of all its holds, in their order.
    pub(super) fn holds(&self) -> Vec<u64> {
        let mut fences: Vec<_> = self.holds.iter().map(|(_, fence)| fence).collect();
        fences.sort_unstable();
        fences
    }

    /// The fences of its holds of one object, in their order.
    pub(super) fn holds_of(&self, id: ObjectId) -> impl Iterator<Item = u64> {
        self.holds.range((id, 0)..=(id, u64::MAX)).map(|(_, fence)| fence)
    }

    /// The messages that are out to it, by queue and number.
    pub(super) fn messages(&self) -> Vec<(ObjectId, u64)> {
        self.messages.iter().collect()
    }

    /// The first holds and behind them messages, so many together.
    pub(super) fn first(&self, most: usize) -> Portion {
        let holds: Vec<_> = self.holds.iter().take(most).collect();
        let messages = self.messages.iter().take(most - holds.len()).collect();
        Portion { holds, messages }
    }

    /// The numbers of the messages of a queue that are out to it, up to this one.
    pub(super) fn messages_of(&self, queue: ObjectId, upto: u64) -> Vec<u64> {
        self.messages.range((queue, 0)..=(queue, upto)).map(|(_, number)| number).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.holds.len() + self.messages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn add_hold(&mut self, id: ObjectId, fence: u64) {
        self.holds.insert((id, fence));
    }

    pub(super) fn remove_hold(&mut self, id: ObjectId, fence: u64) {
        self.holds.remove(&(id, fence));
    }

    pub(super) fn add_message(&mut self, queue: ObjectId, number: u64) {
        self.messages.insert((queue, number));
    }

    pub(super) fn remove_message(&mut self, queue: ObjectId, number: u64) {
        self.messages.remove(&(queue, number));
    }

    pub(super) fn has_message(&self, queue: ObjectId, number: u64) -> bool {
        self.messages.contains(&(queue, number))
    }
}
