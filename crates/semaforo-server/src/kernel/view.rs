//! What clients can see of objects: lists, and single objects closely.

use std::ops::Bound;
use std::sync::Arc;

use super::command::ConnectionKey;
use super::ids::ObjectId;
use super::messages::Messages;
use super::session::Owner;
use super::state::{Barrier, Body, Object};
use super::verb::HoldMode;
use super::waits::Line;
use super::{Kernel, Kind};

/// The most bytes of a list: as many as a request may have, so that a short request has no long
/// answer.
pub const MAX_LIST_BYTES: usize = 1 << 20;

/// At most so many holders, and so many waiting requests, are shown.
const MOST_SHOWN: usize = 100;

/// What there is to see.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// One object.
    Object(ObjectView),
    /// Many, by kind and name.
    List(Listing),
}

/// Objects, by kind and name, as many as one answer has place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The objects.
    pub entries: Vec<Entry>,
    /// There are others behind the last one.
    pub has_more: bool,
}

/// Which objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Only those whose names begin so.
    pub prefix: &'a str,
    /// Only those behind this one.
    pub after: Option<(Kind, &'a str)>,
    /// At most so many.
    pub limit: usize,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Arc<str>,
    /// How many hold it; of a queue: how many messages it has.
    pub held: usize,
    /// How many wait.
    pub waiting: usize,
}

impl Entry {
    /// How long it can be in a list.
    fn most_bytes(&self) -> usize {
        // With its kind and two numbers; every byte of the name may have to be written as two.
        120 + 2 * self.name.len()
    }
}

/// An object, looked at closely.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectView {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Arc<str>,
    /// What only its kind has.
    pub details: Details,
    /// Its first holders.
    pub holders: Vec<Holder>,
    /// How many hold it.
    pub held: usize,
    /// The owners of the first waiting requests, in the order of their turns (readers before
    /// writers; takers before putters).
    pub waiters: Vec<Who>,
    /// How many wait.
    pub waiting: usize,
}

/// What only a kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Details {
    /// A lock, or a reader-writer lock.
    None,
    /// A semaphore.
    Semaphore {
        /// All permits.
        permits: u32,
        /// Those that are not held.
        available: u32,
        /// Whether they are used up and added, and not held.
        open: bool,
    },
    /// A latch.
    Latch {
        /// What is left.
        count: u64,
        /// Where it began.
        start: u32,
    },
    /// An event.
    Event {
        /// Whether it is set.
        set: bool,
        /// Whether a set lets only one through.
        auto: bool,
    },
    /// A barrier.
    Barrier {
        /// How many parties there are.
        parties: u32,
        /// Its round.
        generation: u64,
        /// Whether a party went away.
        broken: bool,
    },
    /// A queue.
    Queue {
        /// The most messages; 0: no bound.
        capacity: u64,
        /// Messages that can be taken.
        ready: usize,
        /// Messages whose time has not come.
        delayed: usize,
        /// Messages that are out to be acknowledged.
        out: usize,
        /// Bytes of all of them.
        bytes: u64,
    },
}

/// A hold, to see.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Its number.
    pub fence: u64,
    /// What is held.
    pub mode: HoldMode,
    /// Its owner.
    pub who: Who,
}

/// An owner, to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A connection.
    Connection(ConnectionKey),
    /// A session, by its label.
    Session(Box<str>),
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Objects, by kind.
    pub objects: [usize; Kind::ALL.len()],
    /// Named sessions.
    pub sessions: usize,
    /// Holds.
    pub holds: usize,
    /// Waiting requests.
    pub waits: usize,
    /// Messages in all queues.
    pub messages: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The next fence.
    pub next_fence: u64,
}

impl Kernel {
    /// How large the message is that would be taken next from a queue; 0 if there is none.
    #[must_use]
    pub fn first_message(&self, queue: &str) -> usize {
        let id = self.state.find(Kind::Queue, queue);
        let message = id.and_then(|id| self.state.queue(id)).and_then(Messages::first);
        message.map_or(0, |message| message.payload.len())
    }

    /// How many parties wait at a barrier whose answers will be kept; 0 if there is none.
    #[must_use]
    pub fn numbered_parties(&self, name: &str) -> usize {
        let id = self.state.find(Kind::Barrier, name);
        match id.and_then(|id| self.state.object(id)).map(|object| &object.body) {
            Some(Body::Barrier(barrier)) => barrier.numbered as usize,
            _ => 0,
        }
    }

    pub(super) fn view(&self, id: ObjectId) -> Option<ObjectView> {
        let object = self.state.object(id)?;
        let holders = object.holders.iter().take(MOST_SHOWN).filter_map(|fence| {
            let hold = self.state.hold(fence)?;
            Some(Holder { fence, mode: hold.mode, who: self.who(hold.owner) })
        });
        let waiters = object.lines.iter().flat_map(Line::ids);
        let waiters = waiters.filter_map(|wait_id| Some(self.who(self.waits.get(wait_id)?.owner)));
        Some(ObjectView {
            kind: object.kind,
            name: object.name.clone(),
            details: details(object),
            holders: holders.collect(),
            held: object.holders.len(),
            waiters: waiters.take(MOST_SHOWN).collect(),
            waiting: object.waiting as usize,
        })
    }

    fn who(&self, owner: Owner) -> Who {
        match owner {
            Owner::Connection(key) => Who::Connection(key),
            Owner::Session(slot) => {
                Who::Session(self.state.session(slot).map_or("".into(), |it| it.label.clone()))
            }
        }
    }

    /// Looks at what it returns, and at one more.
    pub(super) fn list(&self, selection: Selection<'_>) -> Listing {
        let Selection { kind, prefix, after, limit } = selection;
        let mut listing = Listing { entries: Vec::new(), has_more: false };
        let mut bytes = 0;
        for kind in Kind::ALL.into_iter().filter(|other| kind.is_none_or(|kind| kind == *other)) {
            let from = match after {
                Some((other, _)) if kind < other => continue,
                Some((other, name)) if kind == other && name >= prefix => Bound::Excluded(name),
                _ => Bound::Included(prefix),
            };
            for (name, id) in self.state.objects_from(kind, from) {
                if !name.starts_with(prefix) {
                    break;
                }
                let Some(entry) = self.entry(id) else { continue };
                bytes += entry.most_bytes();
                if listing.entries.len() == limit || bytes > MAX_LIST_BYTES {
                    listing.has_more = true;
                    return listing;
                }
                listing.entries.push(entry);
            }
        }
        listing
    }

    fn entry(&self, id: ObjectId) -> Option<Entry> {
        let object = self.state.object(id)?;
        let held = match &object.body {
            Body::Queue(messages) => messages.len(),
            Body::Policy(_) | Body::Barrier(_) => object.holders.len(),
        };
        let (kind, name, waiting) = (object.kind, object.name.clone(), object.waiting as usize);
        Some(Entry { kind, name, held, waiting })
    }

    /// How much there is of everything.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut census = Census {
            sessions: self.state.session_count(),
            holds: self.state.hold_count(),
            waits: self.waits.len(),
            messages: self.messages,
            bytes: self.bytes,
            next_fence: self.next_fence,
            ..Census::default()
        };
        for kind in Kind::ALL {
            census.objects[kind as usize] = self.state.objects_of(kind).len();
        }
        census
    }
}

fn details(object: &Object) -> Details {
    match &object.body {
        Body::Barrier(Barrier { parties, generation, broken, .. }) => {
            Details::Barrier { parties: *parties, generation: *generation, broken: *broken }
        }
        Body::Queue(messages) => Details::Queue {
            capacity: messages.capacity,
            ready: messages.ready(),
            delayed: messages.delayed(),
            out: messages.out(),
            bytes: messages.bytes(),
        },
        Body::Policy(policy) => match object.kind {
            Kind::Semaphore => Details::Semaphore {
                permits: policy.most_permits(),
                available: policy.available(),
                open: policy.is_open(),
            },
            Kind::Latch => Details::Latch { count: policy.count(), start: policy.start() },
            Kind::Event => {
                Details::Event { set: policy.count() == 1, auto: policy.passing_changes() }
            }
            _ => Details::None,
        },
    }
}
