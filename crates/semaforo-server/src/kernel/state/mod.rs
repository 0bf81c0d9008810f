//! What there is: objects, sessions, holds. Folding events gives it.
//!
//! Beside what is journaled it has an overlay of what is not: the holds and loans of connections,
//! and the lines of waiting requests. The overlay is empty after a recovery, and [`State::dump`]
//! leaves it out.

mod dump;
mod holdings;
mod objects;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use semaforo::policy::Permits;
use semaforo_protocol::Kind;

use super::codec::{BadEvent, Reader};
use super::command::{Charge, ConnectionKey};
use super::event::Event;
use super::ids::{ObjectId, SessionSlot, WaitId};
use super::messages::{MAX_NUMBER, Message, Messages};
use super::ordered::OrderedSet;
use super::policy_object::{Give, PolicyObject};
use super::session::{Holdings, Kept, Owner, Session, SessionId};
use super::slots::Slots;
use super::verb::{HoldMode, Settings};
use super::waits::{Chain, Line, Wait};
use super::{MAX_FENCE, MAX_PARTIES};
use objects::Objects;

/// A named object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// Tells apart objects that had the same id one after the other. Not journaled.
    pub(super) incarnation: u64,
    pub(super) body: Body,
    /// It is gone: it has no name, and nothing is let happen here. What hangs on it is taken apart.
    /// Not journaled.
    pub(super) is_retired: bool,
    /// The fences of all holds, in their order.
    pub(super) holders: OrderedSet<u64>,
    /// The requests that wait in line. Not journaled.
    pub(super) lines: [Line; 2],
    /// The requests that wait, but in no line: dormant ones, and transfers. Not journaled.
    pub(super) aside: Line,
    /// What is left to be done here, since the budget did not allow it. Not journaled.
    pub(super) postponed: Option<Postponed>,
    /// How many requests wait, dormant or not. Not journaled.
    pub(super) waiting: u32,
}

impl Object {
    /// One of the requests that wait.
    pub(super) fn any_wait(&self) -> Option<WaitId> {
        let [first, second] = &self.lines;
        first.head().or(second.head()).or(self.aside.head())
    }
}

/// An object at which requests could be let through, but the budget did not allow all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Postponed {
    /// Its turn among all that are postponed.
    pub(super) turn: u64,
    /// What was given back there.
    pub(super) given: Option<Give>,
    /// That is for requests up to this ticket, and not for those that came later; at a queue, the
    /// last ticket when it was postponed.
    pub(super) upto: u64,
}

/// What an object consists of.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A lock, a semaphore, a reader-writer lock, a latch or an event: what a policy over a word
    /// decides.
    Policy(PolicyObject),
    /// A barrier.
    Barrier(Barrier),
    /// A queue.
    Queue(Box<Messages>),
}

/// A barrier at which parties wait, or that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Barrier {
    pub(super) parties: u32,
    pub(super) generation: u64,
    pub(super) broken: bool,
    /// How many parties wait whose answer is kept. Not journaled.
    pub(super) numbered: u32,
}

impl Barrier {
    /// A barrier that no party has come to.
    pub(super) fn new(parties: u32, generation: u64) -> Self {
        Self { parties, generation, broken: false, numbered: 0 }
    }
}

/// Something that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) object: ObjectId,
    pub(super) owner: Owner,
    pub(super) mode: HoldMode,
}

/// A connection that holds something or waits. Not journaled.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    pub(super) holdings: Holdings,
    pub(super) waits: Chain,
    /// It does not read what it is sent: its waits are dormant.
    pub(super) paused: bool,
    /// What it waits for, or has, is gone through in portions.
    pub(super) is_busy: bool,
    /// It waits for nothing any more.
    pub(super) end: Option<End>,
    /// The first of its waits that is still to be told that it is passed over, or not any more.
    pub(super) rest: Option<WaitId>,
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
    objects: Objects,
    /// In order, so that what is listed is what is looked at.
    names: [BTreeMap<Arc<str>, ObjectId>; Kind::ALL.len()],
    incarnations: u64,
    sessions: Slots<SessionSlot, Session>,
    session_ids: HashMap<SessionId, SessionSlot>,
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
            Event::Created { object, name, settings, next } => {
                if object.is_by_use() {
                    return Err(BadEvent::new(format!("nothing is created in place {object}")));
                }
                let (kind, body) = created(settings, *next)?;
                self.add_object(*object, kind, name, body)?;
            }
            Event::Deleted { object } => self.delete(*object)?,
            Event::SessionOpened { session, id, ttl, label } => {
                self.add_session(*session, Session::new(*id, *ttl, label))?;
            }
            Event::SessionLeaves { session } => self.hide_session(*session)?,
            Event::LoansEnded { session, queue, upto } => {
                let loans = self.session_at(*session)?.holdings.messages_of(*queue, *upto);
                self.end_loans(Owner::Session(*session), *queue, &loans)?;
            }
            Event::SessionEnded { session } => self.end_session(*session)?,
            Event::Granted { session, fence, kind, name, mode } => {
                self.reserved(*fence)?;
                let id = self.find_or_make(*kind, name)?;
                self.grant(Owner::Session(*session), *fence, id, *mode)?;
            }
            Event::Released { fence, permits } => {
                self.release(*fence, *permits)?;
            }
            Event::Converted { fence, into, mode } => {
                self.reserved(*into)?;
                self.convert(*fence, *into, *mode)?;
            }
            Event::Resized { object, permits } => self.policy_mut(*object)?.resize(*permits)?,
            Event::Counted { object, count } => self.policy_mut(*object)?.set_count(*count)?,
            Event::BarrierOpened { name, parties, generation } => {
                self.reserved(*generation)?;
                if !(1..=MAX_PARTIES).contains(parties) {
                    return Err(BadEvent::new(format!("a barrier of {parties} parties")));
                }
                let body = Body::Barrier(Barrier::new(*parties, *generation));
                let id = self.free_object_id(Kind::Barrier);
                self.add_object(id, Kind::Barrier, name, body)?;
            }
            Event::BarrierTripped { name } => {
                let id = self.barrier(name)?;
                self.remove_object(id);
            }
            Event::BarrierBroken { name } => {
                let id = self.barrier(name)?;
                if let Some(Object { body: Body::Barrier(barrier), .. }) = self.object_mut(id) {
                    barrier.broken = true;
                }
            }
            Event::Put { queue, number, priority, due, deliveries, payload } => {
                let messages = self.queue_mut(*queue)?;
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
            Event::Taken { queue, number, priority, by: None } => {
                let message = self.queue_mut(*queue)?.remove(*number, *priority);
                message.ok_or_else(|| no_message(*number))?;
            }
            Event::Taken { queue, number, priority, by: Some(session) } => {
                self.lend(*queue, *number, *priority, Owner::Session(*session))?;
            }
            Event::Returned { queue, number, due } => {
                self.take_loan(*queue, *number)?;
                self.queue_mut(*queue)?.give_back(*number, *due);
            }
            Event::Acknowledged { queue, number } => {
                self.take_loan(*queue, *number)?;
                self.queue_mut(*queue)?.settle(*number);
            }
            Event::Delayed { queue, number, priority, due, deliveries } => {
                let messages = self.queue_mut(*queue)?;
                let message = messages.remove(*number, *priority);
                let message = message.ok_or_else(|| no_message(*number))?;
                let (due, deliveries) = (*due, *deliveries);
                messages.insert(Message { due, deliveries, ..message });
            }
            Event::NumbersUsed { queue, below } => {
                let messages = self.queue_mut(*queue)?;
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
        self.objects.len()
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
    pub(super) fn objects(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.objects.iter()
    }

    pub(super) fn objects_of(&self, kind: Kind) -> impl ExactSizeIterator<Item = (&str, ObjectId)> {
        self.names[kind as usize].iter().map(|(name, id)| (&**name, *id))
    }

    /// The objects of a kind whose names are not before `from`, in the order of their names.
    pub(super) fn objects_from(
        &self,
        kind: Kind,
        from: Bound<&str>,
    ) -> impl Iterator<Item = (&str, ObjectId)> {
        let names = &self.names[kind as usize];
        names.range::<str, _>((from, Bound::Unbounded)).map(|(name, id)| (&**name, *id))
    }

    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<ObjectId> {
        self.names[kind as usize].get(name).copied()
    }

    /// Whether there is such an object.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.find(kind, name).is_some()
    }

    pub(super) fn object(&self, id: ObjectId) -> Option<&Object> {
        self.objects.get(id)
    }

    pub(super) fn object_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        self.objects.get_mut(id)
    }

    pub(super) fn policy_mut(&mut self, id: ObjectId) -> Result<&mut PolicyObject, BadEvent> {
        match self.object_mut(id) {
            Some(Object { body: Body::Policy(policy), .. }) => Ok(policy),
            _ => Err(BadEvent::new(format!("in place {id} is nothing of that kind"))),
        }
    }

    pub(super) fn queue_mut(&mut self, id: ObjectId) -> Result<&mut Messages, BadEvent> {
        match self.object_mut(id) {
            Some(Object { body: Body::Queue(messages), .. }) => Ok(messages),
            _ => Err(BadEvent::new(format!("in place {id} is no queue"))),
        }
    }

    /// The list of an object that a waiting request is on.
    pub(super) fn line_of(&mut self, wait: &Wait) -> Option<&mut Line> {
        let object = self.object_mut(wait.object)?;
        Some(if wait.is_in_line() {
            &mut object.lines[usize::from(wait.lane)]
        } else {
            &mut object.aside
        })
    }

    pub(super) fn queue(&self, id: ObjectId) -> Option<&Messages> {
        match self.object(id) {
            Some(Object { body: Body::Queue(messages), .. }) => Some(messages),
            _ => None,
        }
    }

    fn barrier(&self, name: &str) -> Result<ObjectId, BadEvent> {
        self.find(Kind::Barrier, name)
            .ok_or_else(|| BadEvent::new(format!("there is no barrier {name:?}")))
    }

    /// The id of the next object of that kind.
    pub(super) fn free_object_id(&self, kind: Kind) -> ObjectId {
        self.objects.free(kind)
    }

    pub(super) fn add_object(
        &mut self,
        id: ObjectId,
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
        self.objects.occupy(id, object)?;
        self.name_bytes += name.len();
        self.names[kind as usize].insert(name, id);
        Ok(())
    }

    /// The object of that name; one that exists by use comes into being.
    pub(super) fn find_or_make(&mut self, kind: Kind, name: &str) -> Result<ObjectId, BadEvent> {
        if let Some(id) = self.find(kind, name) {
            return Ok(id);
        }
        let policy = match kind {
            Kind::Lock => PolicyObject::lock(),
            Kind::ReadWriteLock => PolicyObject::read_write(),
            _ => {
                return Err(BadEvent::new(format!("there is no {} {name:?}", kind.singular())));
            }
        };
        let id = self.free_object_id(kind);
        self.add_object(id, kind, name, Body::Policy(policy))?;
        Ok(id)
    }

    fn remove_object(&mut self, id: ObjectId) -> Option<Object> {
        let object = self.objects.vacate(id)?;
        if !object.is_retired {
            self.name_bytes -= object.name.len();
            self.names[object.kind as usize].remove(&object.name);
        }
        Some(object)
    }

    /// Frees the name of an object that is gone. The object keeps its id until all that hangs on it
    /// is taken apart.
    pub(super) fn retire(&mut self, id: ObjectId) {
        let Some(object) = self.object_mut(id) else { return };
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
    pub(super) fn forget_retired(&mut self, id: ObjectId) {
        if self.object(id).is_some_and(|object| object.is_retired) {
            self.remove_object(id);
        }
    }

    /// Removes an object that exists by being used, if it is not.
    pub(super) fn vanish(&mut self, id: ObjectId) {
        let unused = self.object(id).is_some_and(|object| {
            matches!(object.body, Body::Policy(_))
                && object.kind.exists_by_use()
                && object.holders.is_empty()
                && object.waiting == 0
        });
        if unused {
            self.remove_object(id);
        }
    }

    fn delete(&mut self, id: ObjectId) -> Result<(), BadEvent> {
        let object = if id.is_by_use() { None } else { self.remove_object(id) };
        let object = object.ok_or_else(|| BadEvent::new(format!("in place {id} is nothing")))?;
        for fence in object.holders.iter() {
            if let Some(hold) = self.holds.remove(&fence) {
                self.holdings_mut(hold.owner)?.remove_hold(id, fence);
            }
        }
        if let Body::Queue(messages) = &object.body {
            self.retired_numbers = self.retired_numbers.max(messages.next);
            for (number, owner) in messages.borrowers() {
                self.holdings_mut(owner)?.remove_message(id, number);
            }
        }
        Ok(())
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = (SessionSlot, &Session)> {
        self.sessions.iter()
    }

    pub(super) fn find_session(&self, id: SessionId) -> Option<SessionSlot> {
        self.session_ids.get(&id).copied()
    }

    pub(super) fn session(&self, slot: SessionSlot) -> Option<&Session> {
        self.sessions.get(slot)
    }

    pub(super) fn session_mut(&mut self, slot: SessionSlot) -> Option<&mut Session> {
        self.sessions.get_mut(slot)
    }

    fn session_at(&mut self, slot: SessionSlot) -> Result<&mut Session, BadEvent> {
        self.session_mut(slot)
            .ok_or_else(|| BadEvent::new(format!("there is no session in place {slot}")))
    }

    pub(super) fn free_session_slot(&self) -> SessionSlot {
        self.sessions.free()
    }

    fn add_session(&mut self, slot: SessionSlot, session: Session) -> Result<(), BadEvent> {
        let id = session.id;
        if self.session_ids.contains_key(&id) {
            return Err(BadEvent::new("a session that exists already"));
        }
        let label = session.label.len();
        self.sessions.occupy(slot, session)?;
        self.name_bytes += label;
        self.session_ids.insert(id, slot);
        Ok(())
    }

    /// A session that is over for its client is not found any more.
    fn hide_session(&mut self, slot: SessionSlot) -> Result<(), BadEvent> {
        let session = self.session_at(slot)?;
        if !std::mem::replace(&mut session.is_leaving, true) {
            let id = session.id;
            self.session_ids.remove(&id);
        }
        Ok(())
    }

    fn end_session(&mut self, slot: SessionSlot) -> Result<(), BadEvent> {
        let holdings = std::mem::take(&mut self.session_at(slot)?.holdings);
        self.give_up(&holdings)?;
        if let Some(session) = self.sessions.vacate(slot) {
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
            let has_nothing = other.holdings.is_empty() && other.waits.is_empty();
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
        Settings::Semaphore { permits } => {
            (Kind::Semaphore, Body::Policy(PolicyObject::semaphore(permits)))
        }
        Settings::OpenSemaphore { permits, initial } => {
            (Kind::Semaphore, Body::Policy(PolicyObject::open_semaphore(permits, initial)))
        }
        Settings::Latch { count } => (Kind::Latch, Body::Policy(PolicyObject::latch(count))),
        Settings::Event { auto, set } => {
            (Kind::Event, Body::Policy(PolicyObject::event(auto, set)))
        }
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
