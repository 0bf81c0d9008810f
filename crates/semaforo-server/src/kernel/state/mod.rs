//! What there is: objects, sessions, holds. Folding events gives it.
//!
//! Beside what is journaled it has an overlay of what is not: the holds and loans of connections, and
//! the lines of those who wait. The overlay is empty after a recovery, and [`State::dump`] leaves it out.

mod dump;
mod holdings;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use semaforo::policy::Permits;
use semaforo_protocol::Kind;

use super::codec::{BadEvent, Reader};
use super::command::{Charge, ConnectionKey};
use super::event::Event;
use super::gate::{Gate, Give};
use super::messages::{MAX_NUMBER, Message, Messages};
use super::ordered::OrderedSet;
use super::session::{Belongings, Kept, Owner, Session, SessionId};
use super::slots::Slots;
use super::verb::{Settings, Wish};
use super::waits::{Chain, Line, Wait};
use super::{MAX_FENCE, MAX_PARTIES};

/// The bit of a place that says that the object exists by being used.
const BY_USE: u32 = 1 << 31;

/// A named object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// Tells apart objects that had the same place one after the other. Not journaled.
    pub(super) incarnation: u64,
    pub(super) body: Body,
    /// It is gone: it has no name, and nothing is let happen here. What hangs on it is taken apart. Not journaled.
    pub(super) is_retired: bool,
    /// The fences of all holds, in their order.
    pub(super) holders: OrderedSet<u64>,
    /// The requests that wait in line. Not journaled.
    pub(super) lines: [Line; 2],
    /// The requests that wait, but in no line: dormant ones, and transfers. Not journaled.
    pub(super) aside: Line,
    /// What is left to be done here, since there was no room for it. Not journaled.
    pub(super) postponed: Option<Postponed>,
    /// All who wait, dormant or not. Not journaled.
    pub(super) waiting: u32,
}

impl Object {
    /// One of the requests that wait.
    pub(super) fn any_wait(&self) -> Option<u32> {
        let [first, second] = &self.lines;
        first.head().or(second.head()).or(self.aside.head())
    }
}

/// An object at which requests could be let through, but there was no room for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Postponed {
    /// Its place among all that are postponed.
    pub(super) turn: u64,
    /// What was given back there.
    pub(super) given: Option<Give>,
    /// That is for requests up to this ticket, and not for those that came later; at a queue, the last ticket when it
    /// was postponed.
    pub(super) upto: u64,
}

/// What an object consists of.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Whatever a policy over a word decides.
    Gate(Gate),
    /// A barrier.
    Barrier(Barrier),
    /// A queue.
    Queue(Box<Messages>),
}

/// A barrier that somebody waits at, or that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Barrier {
    pub(super) parties: u32,
    pub(super) generation: u64,
    pub(super) broken: bool,
    /// How many parties wait whose answer is kept. Not journaled.
    pub(super) numbered: u32,
}

impl Barrier {
    /// A barrier that nobody has come to.
    pub(super) fn new(parties: u32, generation: u64) -> Self {
        Self { parties, generation, broken: false, numbered: 0 }
    }
}

/// Something that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) place: u32,
    pub(super) owner: Owner,
    pub(super) wish: Wish,
}

/// A connection that holds something or waits. Not journaled.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    pub(super) belongings: Belongings,
    pub(super) waits: Chain,
    /// It does not read what it is sent: its waits are dormant.
    pub(super) paused: bool,
    /// What it waits for, or has, is gone through in portions.
    pub(super) is_busy: bool,
    /// It waits for nothing any more.
    pub(super) end: Option<End>,
    /// The first of its waits that is still to be told that it is passed over, or not any more.
    pub(super) rest: Option<u32>,
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It sends nothing more, but reads, and keeps what it has.
    HalfClosed,
    Gone,
}

/// What there is.
#[derive(Debug, Default)]
pub struct State {
    /// Objects that were created: events say in which place.
    created: Slots<Object>,
    /// Objects that exist by being used: their places differ from one life of the server to the next.
    used: Slots<Object>,
    /// In order, so that what is listed is what is looked at.
    names: [BTreeMap<Arc<str>, u32>; Kind::ALL.len()],
    incarnations: u64,
    sessions: Slots<Session>,
    session_ids: HashMap<SessionId, u32>,
    holds: HashMap<u64, Hold>,
    connections: HashMap<ConnectionKey, Connection>,
    /// How many answers are kept by all sessions.
    outcomes: usize,
    /// How many bytes the names of all objects and the labels of all sessions have.
    name_bytes: usize,
    /// No fence from here on has been promised not to be given out again.
    pub(super) reserved_fences: u64,
    /// Messages of queues that were deleted had numbers below this.
    pub(super) retired_numbers: u64,
}

impl State {
    /// Applies the events of a batch, in their order.
    ///
    /// # Errors
    /// If they cannot be read, or contradict what there is.
    pub fn apply_all(&mut self, events: &[u8]) -> Result<(), BadEvent> {
        let mut reader = Reader::new(events);
        while !reader.is_empty() {
            self.apply(&Event::decode(&mut reader)?)?;
        }
        Ok(())
    }

    /// What there is after `event`.
    ///
    /// # Errors
    /// If it contradicts what there is.
    pub fn apply(&mut self, event: &Event<'_>) -> Result<(), BadEvent> {
        match event {
            Event::FencesReserved { below } => {
                if !(self.reserved_fences..=MAX_FENCE).contains(below) {
                    return Err(BadEvent::new(format!("fences are reserved below {below}")));
                }
                self.reserved_fences = *below;
            }
            Event::Created { place, name, settings, next } => {
                if place & BY_USE != 0 {
                    return Err(BadEvent::new(format!("nothing is created in place {place}")));
                }
                let (kind, body) = created(settings, *next)?;
                self.place_object(*place, kind, name, body)?;
            }
            Event::Deleted { place } => self.delete(*place)?,
            Event::SessionOpened { place, id, ttl, label } => {
                self.place_session(*place, Session::new(SessionId(*id), *ttl, label))?;
            }
            Event::SessionLeaves { place } => self.hide_session(*place)?,
            Event::LoansEnded { session, queue, upto } => {
                let loans = self.session_at(*session)?.belongings.messages_of(*queue, *upto);
                self.end_loans(Owner::Session(*session), *queue, &loans)?;
            }
            Event::SessionEnded { place } => self.end_session(*place)?,
            Event::Granted { session, fence, kind, name, wish } => {
                self.reserved(*fence)?;
                let place = self.find_or_make(*kind, name)?;
                self.grant(Owner::Session(*session), *fence, place, *wish)?;
            }
            Event::Released { fence, permits } => {
                self.release(*fence, *permits)?;
            }
            Event::Converted { fence, into, wish } => {
                self.reserved(*into)?;
                self.convert(*fence, *into, *wish)?;
            }
            Event::Resized { place, permits } => self.gate_mut(*place)?.resize(*permits)?,
            Event::Counted { place, count } => self.gate_mut(*place)?.set_count(*count)?,
            Event::BarrierOpened { name, parties, generation } => {
                self.reserved(*generation)?;
                if !(1..=MAX_PARTIES).contains(parties) {
                    return Err(BadEvent::new(format!("a barrier of {parties} parties")));
                }
                let body = Body::Barrier(Barrier::new(*parties, *generation));
                let place = self.free_place(Kind::Barrier);
                self.place_object(place, Kind::Barrier, name, body)?;
            }
            Event::BarrierTripped { name } => {
                let place = self.barrier(name)?;
                self.remove_object(place);
            }
            Event::BarrierBroken { name } => {
                let place = self.barrier(name)?;
                if let Some(Object { body: Body::Barrier(barrier), .. }) = self.object_mut(place) {
                    barrier.broken = true;
                }
            }
            Event::Put { place, number, priority, due, deliveries, payload } => {
                let messages = self.queue_mut(*place)?;
                if *number >= MAX_NUMBER || messages.contains(*number) {
                    return Err(BadEvent::new(format!("message {number} cannot be put")));
                }
                messages.insert(Message {
                    number: *number,
                    priority: *priority,
                    due: *due,
                    deliveries: *deliveries,
                    payload: Arc::from(*payload),
                    sender: None,
                    charge: Charge::default(),
                });
            }
            Event::Taken { place, number, priority, by: None } => {
                let message = self.queue_mut(*place)?.remove(*number, *priority);
                message.ok_or_else(|| no_message(*number))?;
            }
            Event::Taken { place, number, priority, by: Some(session) } => {
                self.lend(*place, *number, *priority, Owner::Session(*session))?;
            }
            Event::Returned { place, number, due } => {
                self.take_loan(*place, *number)?;
                self.queue_mut(*place)?.give_back(*number, *due);
            }
            Event::Acknowledged { place, number } => {
                self.take_loan(*place, *number)?;
                self.queue_mut(*place)?.settle(*number);
            }
            Event::Delayed { place, number, priority, due, deliveries } => {
                let messages = self.queue_mut(*place)?;
                let message = messages.remove(*number, *priority);
                let message = message.ok_or_else(|| no_message(*number))?;
                let (due, deliveries) = (*due, *deliveries);
                messages.insert(Message { due, deliveries, ..message });
            }
            Event::NumbersUsed { place, below } => {
                let messages = self.queue_mut(*place)?;
                if !(messages.next..=MAX_NUMBER).contains(below) {
                    return Err(BadEvent::new(format!("numbers are used below {below}")));
                }
                messages.next = *below;
            }
            Event::NumbersRetired { below } => {
                if !(self.retired_numbers..=MAX_NUMBER).contains(below) {
                    return Err(BadEvent::new(format!("numbers are retired below {below}")));
                }
                self.retired_numbers = *below;
            }
            Event::OutcomeKept { session, seq, digest, answer } => {
                let session = self.session_at(*session)?;
                if *seq <= session.acked || session.kept.contains_key(seq) {
                    return Err(BadEvent::new(format!("the answer to {seq} was known already")));
                }
                let kept = Kept { digest: *digest, answer: answer.clone() };
                session.kept.insert(*seq, kept);
                self.outcomes += 1;
            }
            Event::OutcomesAcknowledged { session, upto } => {
                let session = self.session_at(*session)?;
                if *upto <= session.acked {
                    return Err(BadEvent::new(format!("up to {upto} all was known already")));
                }
                session.acked = *upto;
                let before = session.kept.len();
                session.kept = session.kept.split_off(&upto.saturating_add(1));
                let forgotten = before - session.kept.len();
                self.outcomes -= forgotten;
            }
        }
        Ok(())
    }

    /// How many objects there are.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.created.len() + self.used.len()
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// How many answers are kept.
    pub(super) fn outcome_count(&self) -> usize {
        self.outcomes
    }

    /// How many bytes all names and labels have.
    pub(super) fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    /// All objects, the created ones first.
    pub(super) fn objects(&self) -> impl Iterator<Item = (u32, &Object)> {
        let used = self.used.iter().map(|(place, object)| (place | BY_USE, object));
        self.created.iter().chain(used)
    }

    pub(super) fn objects_of(&self, kind: Kind) -> impl ExactSizeIterator<Item = (&str, u32)> {
        self.names[kind as usize].iter().map(|(name, place)| (&**name, *place))
    }

    /// The places of the objects of a kind whose names are not before `from`, in the order of their names.
    pub(super) fn objects_from(
        &self,
        kind: Kind,
        from: Bound<&str>,
    ) -> impl Iterator<Item = (&str, u32)> {
        let names = &self.names[kind as usize];
        names.range::<str, _>((from, Bound::Unbounded)).map(|(name, place)| (&**name, *place))
    }

    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<u32> {
        self.names[kind as usize].get(name).copied()
    }

    /// Whether there is such an object.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.find(kind, name).is_some()
    }

    pub(super) fn object(&self, place: u32) -> Option<&Object> {
        if place & BY_USE == 0 { self.created.get(place) } else { self.used.get(place & !BY_USE) }
    }

    pub(super) fn object_mut(&mut self, place: u32) -> Option<&mut Object> {
        self.slots(place).get_mut(place & !BY_USE)
    }

    fn slots(&mut self, place: u32) -> &mut Slots<Object> {
        if place & BY_USE == 0 { &mut self.created } else { &mut self.used }
    }

    pub(super) fn gate_mut(&mut self, place: u32) -> Result<&mut Gate, BadEvent> {
        match self.object_mut(place) {
            Some(Object { body: Body::Gate(gate), .. }) => Ok(gate),
            _ => Err(BadEvent::new(format!("in place {place} is nothing of that kind"))),
        }
    }

    pub(super) fn queue_mut(&mut self, place: u32) -> Result<&mut Messages, BadEvent> {
        match self.object_mut(place) {
            Some(Object { body: Body::Queue(messages), .. }) => Ok(messages),
            _ => Err(BadEvent::new(format!("in place {place} is no queue"))),
        }
    }

    /// The list of an object that a waiting request is on.
    pub(super) fn line_of(&mut self, wait: &Wait) -> Option<&mut Line> {
        let object = self.object_mut(wait.place)?;
        Some(if wait.is_in_line() {
            &mut object.lines[usize::from(wait.lane)]
        } else {
            &mut object.aside
        })
    }

    pub(super) fn queue(&self, place: u32) -> Option<&Messages> {
        match self.object(place) {
            Some(Object { body: Body::Queue(messages), .. }) => Some(messages),
            _ => None,
        }
    }

    fn barrier(&self, name: &str) -> Result<u32, BadEvent> {
        self.find(Kind::Barrier, name)
            .ok_or_else(|| BadEvent::new(format!("there is no barrier {name:?}")))
    }

    /// Where the next object of that kind goes.
    pub(super) fn free_place(&self, kind: Kind) -> u32 {
        if kind.exists_by_use() { self.used.free() | BY_USE } else { self.created.free() }
    }

    pub(super) fn place_object(
        &mut self,
        place: u32,
        kind: Kind,
        name: &str,
        body: Body,
    ) -> Result<(), BadEvent> {
        if self.find(kind, name).is_some() {
            return Err(BadEvent::new(format!("{} {name:?} exists already", kind.singular())));
        }
        self.incarnations += 1;
        let name: Arc<str> = name.into();
        let object = Object {
            kind,
            name: Arc::clone(&name),
            incarnation: self.incarnations,
            body,
            is_retired: false,
            holders: OrderedSet::default(),
            lines: Default::default(),
            aside: Line::default(),
            postponed: None,
            waiting: 0,
        };
        self.slots(place).occupy(place & !BY_USE, object)?;
        self.name_bytes += name.len();
        self.names[kind as usize].insert(name, place);
        Ok(())
    }

    /// The object of that name; one that exists by use comes into being.
    pub(super) fn find_or_make(&mut self, kind: Kind, name: &str) -> Result<u32, BadEvent> {
        if let Some(place) = self.find(kind, name) {
            return Ok(place);
        }
        let gate = match kind {
            Kind::Lock => Gate::lock(),
            Kind::ReadWriteLock => Gate::read_write(),
            _ => {
                return Err(BadEvent::new(format!("there is no {} {name:?}", kind.singular())));
            }
        };
        let place = self.free_place(kind);
        self.place_object(place, kind, name, Body::Gate(gate))?;
        Ok(place)
    }

    fn remove_object(&mut self, place: u32) -> Option<Object> {
        let object = self.slots(place).vacate(place & !BY_USE)?;
        if !object.is_retired {
            self.name_bytes -= object.name.len();
            self.names[object.kind as usize].remove(&object.name);
        }
        Some(object)
    }

    /// Frees the name of an object that is gone. The object stays in its place until all that hangs on it is taken apart.
    pub(super) fn retire(&mut self, place: u32) {
        let Some(object) = self.object_mut(place) else { return };
        object.is_retired = true;
        let (kind, name) = (object.kind, Arc::clone(&object.name));
        if let Body::Queue(messages) = &object.body {
            let next = messages.next;
            self.retired_numbers = self.retired_numbers.max(next);
        }
        self.name_bytes -= name.len();
        self.names[kind as usize].remove(&name);
    }

    /// Forgets an object that was taken apart.
    pub(super) fn forget_retired(&mut self, place: u32) {
        if self.object(place).is_some_and(|object| object.is_retired) {
            self.remove_object(place);
        }
    }

    /// Removes an object that exists by being used, if it is not.
    pub(super) fn vanish(&mut self, place: u32) {
        let unused = self.object(place).is_some_and(|object| {
            matches!(object.body, Body::Gate(_))
                && object.kind.exists_by_use()
                && object.holders.is_empty()
                && object.waiting == 0
        });
        if unused {
            self.remove_object(place);
        }
    }

    fn delete(&mut self, place: u32) -> Result<(), BadEvent> {
        let object = if place & BY_USE == 0 { self.remove_object(place) } else { None };
        let object = object.ok_or_else(|| BadEvent::new(format!("in place {place} is nothing")))?;
        for fence in object.holders.iter() {
            if let Some(hold) = self.holds.remove(&fence) {
                self.belongings_mut(hold.owner)?.remove_hold(place, fence);
            }
        }
        if let Body::Queue(messages) = &object.body {
            self.retired_numbers = self.retired_numbers.max(messages.next);
            for (number, owner) in messages.borrowers() {
                self.belongings_mut(owner)?.remove_message(place, number);
            }
        }
        Ok(())
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = (u32, &Session)> {
        self.sessions.iter()
    }

    pub(super) fn find_session(&self, id: SessionId) -> Option<u32> {
        self.session_ids.get(&id).copied()
    }

    pub(super) fn session(&self, place: u32) -> Option<&Session> {
        self.sessions.get(place)
    }

    pub(super) fn session_mut(&mut self, place: u32) -> Option<&mut Session> {
        self.sessions.get_mut(place)
    }

    fn session_at(&mut self, place: u32) -> Result<&mut Session, BadEvent> {
        self.session_mut(place)
            .ok_or_else(|| BadEvent::new(format!("there is no session in place {place}")))
    }

    pub(super) fn free_session_place(&self) -> u32 {
        self.sessions.free()
    }

    fn place_session(&mut self, place: u32, session: Session) -> Result<(), BadEvent> {
        let id = session.id;
        if self.session_ids.contains_key(&id) {
            return Err(BadEvent::new("a session that exists already"));
        }
        let label = session.label.len();
        self.sessions.occupy(place, session)?;
        self.name_bytes += label;
        self.session_ids.insert(id, place);
        Ok(())
    }

    /// Nobody finds a session any more that is over for its client.
    fn hide_session(&mut self, place: u32) -> Result<(), BadEvent> {
        let session = self.session_at(place)?;
        if !std::mem::replace(&mut session.is_leaving, true) {
            let id = session.id;
            self.session_ids.remove(&id);
        }
        Ok(())
    }

    fn end_session(&mut self, place: u32) -> Result<(), BadEvent> {
        let belongings = std::mem::take(&mut self.session_at(place)?.belongings);
        self.give_up(&belongings)?;
        if let Some(session) = self.sessions.vacate(place) {
            self.outcomes -= session.kept.len();
            self.name_bytes -= session.label.len();
            if !session.is_leaving {
                self.session_ids.remove(&session.id);
            }
        }
        Ok(())
    }

    pub(super) fn connection(&self, key: ConnectionKey) -> Option<&Connection> {
        self.connections.get(&key)
    }

    pub(super) fn connection_mut(&mut self, key: ConnectionKey) -> &mut Connection {
        self.connections.entry(key).or_default()
    }

    /// A connection, if it has or waits for anything.
    pub(super) fn find_connection(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        self.connections.get_mut(&key)
    }

    /// Whether a connection does not read what it is sent.
    pub(super) fn is_paused(&self, key: ConnectionKey) -> bool {
        self.connections.get(&key).is_some_and(|connection| connection.paused)
    }

    pub(super) fn remove_connection(&mut self, key: ConnectionKey) {
        self.connections.remove(&key);
    }

    /// Forgets a connection that neither has nor waits for anything.
    pub(super) fn tidy_connection(&mut self, key: ConnectionKey) {
        let idle = |other: &Connection| {
            let has_nothing = other.belongings.is_empty() && other.waits.is_empty();
            has_nothing && !other.paused && !other.is_busy
        };
        if self.connections.get(&key).is_some_and(idle) {
            self.connections.remove(&key);
        }
    }

    /// A fence must have been reserved before it is given out.
    fn reserved(&self, fence: u64) -> Result<(), BadEvent> {
        if fence < self.reserved_fences {
            return Ok(());
        }
        Err(BadEvent::new(format!("{fence} was not reserved")))
    }
}

fn no_message(number: u64) -> BadEvent {
    BadEvent::new(format!("there is no message {number}"))
}

fn created(settings: &Settings, next: u64) -> Result<(Kind, Body), BadEvent> {
    Ok(match *settings {
        Settings::Semaphore { permits } | Settings::OpenSemaphore { permits, .. }
            if !(1..=Permits::MAX).contains(&permits) =>
        {
            return Err(BadEvent::new(format!("a semaphore of {permits} permits")));
        }
        Settings::OpenSemaphore { permits, initial } if initial > permits => {
            return Err(BadEvent::new(format!("{initial} permits of {permits}")));
        }
        Settings::Semaphore { permits } => (Kind::Semaphore, Body::Gate(Gate::semaphore(permits))),
        Settings::OpenSemaphore { permits, initial } => {
            (Kind::Semaphore, Body::Gate(Gate::open_semaphore(permits, initial)))
        }
        Settings::Latch { count } => (Kind::Latch, Body::Gate(Gate::latch(count))),
        Settings::Event { auto, set } => (Kind::Event, Body::Gate(Gate::event(auto, set))),
        Settings::Queue { .. } if next > MAX_NUMBER => {
            return Err(BadEvent::new(format!("the next message is {next}")));
        }
        Settings::Queue { capacity } => {
            (Kind::Queue, Body::Queue(Box::new(Messages::new(capacity, next.max(1)))))
        }
    })
}

#[cfg(test)]
mod tests;
