//! What the server decides, without sockets, clocks or files.
//!
//! [`Kernel::decide`] takes a command and the time, and says what happens: events, which are
//! journaled and of which the [`State`] is the fold, and answers, each with where it goes. The same
//! commands at the same times give the same events.
//!
//! The command that creates the conditions for a waiting request completes it: a release grants to
//! the first in line, a message goes to the first taker, a time-out lets through the requests it
//! was holding up. What may be granted is decided by the [policies](semaforo::policy) of the
//! library. Waiting is not journaled: a place in a line lasts for one life of the server.

mod answer;
mod barriers;
mod codec;
mod command;
mod connections;
mod decide;
mod event;
mod holds;
mod ids;
mod leaving;
mod memory;
mod messages;
mod ordered;
mod policy_object;
mod postponing;
mod queues;
mod semaphores;
mod session;
mod slots;
mod state;
mod verb;
mod view;
mod waits;
mod withdrawal;

pub use answer::{Answer, Content, Header, Headers, Parcel, Status};
pub use barriers::MAX_NUMBERED_PARTIES;
pub use codec::BadEvent;
pub use command::{Charge, Command, ConnectionKey, Millis, Operation, Origin, Retry};
pub use event::Event;
pub use ids::{ObjectId, SessionSlot, WaitId};
pub use semaforo_protocol::Kind;
pub use semaforo_protocol::limits::{MAX_FENCE, MAX_PARTIES};
pub use session::{NotASession, SessionId};
pub use slots::MOST_PLACES;
pub use state::State;
pub use verb::{Arguments, HoldMode, Settings, Verb};
pub use view::{
    Census, Details, Entry, Holder, Listing, MAX_LIST_BYTES, ObjectView, Selection, View, Who,
};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leaving::Leaving;
use session::Owner;
use state::Body;
use waits::{Ask, List, Wait, Waits};

/// How many fences are reserved at a time.
const FENCE_BLOCK: u64 = 1 << 14;

/// What an answer to a waiting request counts towards the budget of an [output](Output), beside its
/// message: so that the time that goes by is bounded, too. It is more than the answer has, so that
/// a budget of a MiB is used up by as many as are let through within some milliseconds.
pub const ANSWER: usize = 256;

/// More bytes than what one waiting request, or one session, adds to the journal when it ends,
/// without messages: a grant with a name, a block of fences, an outcome that is kept.
const SMALL: usize = 1024;

/// How much there may be of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects of all kinds; 2^22 is the most.
    pub objects: usize,
    /// Named sessions; 2^22 is the most.
    pub sessions: usize,
    /// Holds, of all objects.
    pub holds: usize,
    /// Waiting requests.
    pub waits: usize,
    /// Messages in one queue.
    pub messages: usize,
    /// Bytes of messages: in all queues, waiting for space there, and kept with answers; and once
    /// more so many that are kept although they are in a queue as well.
    pub bytes: u64,
    /// Bytes of memory that everything together needs, roughly.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            sessions: 100_000,
            holds: 1_000_000,
            waits: 1_000_000,
            messages: 10_000_000,
            bytes: 4 << 30,
            memory: 4 << 30,
        }
    }
}

/// What one or more decisions led to.
#[derive(Debug)]
pub struct Output {
    /// The events, encoded one after the other.
    pub events: Vec<u8>,
    /// The answers to requests that had been waiting, in the order of their completion.
    pub answers: Vec<(Origin, Answer)>,
    /// Among the events is one that has to be durable before any answer leaves, whatever the
    /// durability: fences are never given out twice.
    pub urgent: bool,
    /// The sessions that have ended, if [they are to be told](Self::tells).
    pub ended: Vec<EndedSession>,
    /// The connections that had half closed, [in portions](Kernel::is_giving_up), and wait for
    /// nothing any more.
    pub given_up: Vec<ConnectionKey>,
    /// Whether it is to be told which sessions have ended.
    pub tells: bool,
    /// The events are not written down: there is no journal.
    pub unrecorded: bool,
    /// So many bytes of events and of answers may be added by requests that are let through: the
    /// rest is [postponed](Kernel::has_postponed). The last of them may go beyond it.
    pub budget: usize,
    /// What the answers cost, in bytes: the messages among them, and a little for each.
    pub handed: usize,
    /// When they cost so much, a [tick](Kernel::tick) has done enough: what else is due follows
    /// with the next one.
    pub most_handed: usize,
    /// How many holds, messages and waiting requests were moved because something has ended or is
    /// due.
    pub moved: usize,
    /// So many are moved at once: what is more of them follows with the next [ticks](Kernel::tick).
    pub portion: usize,
    /// The journal has space for so many bytes of events, and for no more: what does not fit is
    /// postponed, and nothing goes beyond it.
    pub space: usize,
    /// The journal has no space for messages: only requests that [add
    /// none](Kernel::has_heavy_waits) are let through, the others are postponed.
    pub is_starved: bool,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            answers: Vec::new(),
            urgent: false,
            ended: Vec::new(),
            given_up: Vec::new(),
            tells: false,
            unrecorded: false,
            budget: usize::MAX,
            handed: 0,
            most_handed: usize::MAX,
            moved: 0,
            portion: usize::MAX,
            space: usize::MAX,
            is_starved: false,
        }
    }
}

impl Output {
    /// Answers a request that had been waiting.
    fn answer(&mut self, origin: Origin, answer: Answer) {
        self.handed += ANSWER + answer.payload().map_or(0, <[u8]>::len);
        self.answers.push((origin, answer));
    }

    /// The rest is for the next tick.
    fn is_busy(&self) -> bool {
        self.handed >= self.most_handed || self.has_moved_enough()
    }

    /// What else has ended or is due is for the next tick.
    fn has_moved_enough(&self) -> bool {
        self.moved >= self.portion
    }

    /// No other request may be let through.
    fn is_full(&self) -> bool {
        self.events.len().saturating_add(self.handed) >= self.budget
    }

    /// This request may not be let through, with a message of so many bytes.
    fn is_full_for(&self, wait: &Wait, message: usize) -> bool {
        self.is_full() || self.lacks_space_for(wait, message)
    }

    /// The journal has no space to let this request through, with a message of so many bytes.
    fn lacks_space_for(&self, wait: &Wait, message: usize) -> bool {
        (self.is_starved && wait.is_heavy()) || !self.has_space(message.saturating_add(SMALL))
    }

    /// How many bytes of events the journal has space for.
    fn space_left(&self) -> usize {
        self.space.saturating_sub(self.events.len())
    }

    /// The journal has space for so many bytes of events more.
    fn has_space(&self, bytes: usize) -> bool {
        self.events.len().saturating_add(bytes) <= self.space
    }
}

/// A session that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Which it was.
    pub id: SessionId,
    /// What people know of it.
    pub label: Box<str>,
    /// Why it has ended.
    pub why: SessionEnd,
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its client wanted it.
    Closed,
    /// Nothing was heard of it for its time to live.
    Expired,
}

/// How a command was received.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It is answered at once.
    Answer(Answer),
    /// Its answer comes among the [answers](Output::answers), perhaps of this very output. Its id
    /// and its origin name it for [`Kernel::cancel`].
    Waits(WaitId),
    /// How it went is not known any more: the connection has to be closed without an answer.
    Close,
}

/// The state, and the requests that wait for it to change.
#[derive(Debug)]
pub struct Kernel {
    state: State,
    waits: Waits,
    limits: Limits,
    next_fence: u64,
    /// When to look at each session: not after its deadline, which moves.
    session_checks: BTreeSet<(Millis, SessionSlot)>,
    /// When the next message of each queue is due.
    due: BTreeSet<(Millis, ObjectId)>,
    /// The objects where requests could be let through, but the budget did not allow it, in the
    /// order of their turns.
    postponed: BTreeMap<u64, ObjectId>,
    /// How often that has happened.
    postponements: u64,
    /// Sessions and connections that have ended, and have not given back everything.
    leaving: VecDeque<Leaving>,
    /// Objects that are gone, and have not been taken apart.
    retired: VecDeque<ObjectId>,
    /// How many messages all queues have.
    messages: usize,
    /// How many bytes these have, with what waits for space there and what is kept with answers.
    bytes: u64,
    /// How many of these bytes are kept with answers.
    kept: u64,
    /// How many requests wait that are journaled with a message.
    heavy: usize,
}

/// A request beside what it wants: for which owner it is, when it came and where its answer goes.
#[derive(Clone, Debug)]
struct RequestContext {
    now: Millis,
    owner: Owner,
    origin: Origin,
    retry: Option<Retry>,
    timeout: Option<Millis>,
    /// What its message counts for.
    charge: Charge,
}

impl RequestContext {
    /// It does not want to wait.
    fn is_impatient(&self) -> bool {
        self.timeout == Some(0)
    }
}

impl Kernel {
    /// A kernel for what was recovered. Every session gets its whole time to live. No fence will be
    /// below `first_fence`.
    #[must_use]
    pub fn new(state: State, limits: Limits, now: Millis, first_fence: u64) -> Self {
        let next_fence = state.reserved_fences.max(first_fence).max(1);
        let most = MOST_PLACES as usize;
        let (objects, sessions) = (limits.objects.min(most), limits.sessions.min(most));
        let limits = Limits { objects, sessions, ..limits };
        let mut kernel = Self {
            state,
            waits: Waits::default(),
            limits,
            next_fence,
            session_checks: BTreeSet::new(),
            due: BTreeSet::new(),
            postponed: BTreeMap::new(),
            postponements: 0,
            leaving: VecDeque::new(),
            retired: VecDeque::new(),
            messages: 0,
            bytes: 0,
            kept: 0,
            heavy: 0,
        };
        kernel.renew_sessions(now);
        kernel.find_leaving();
        let kept = kernel.state.sessions().map(|(_, session)| session.kept_bytes(u64::MAX));
        kernel.kept = kept.sum();
        kernel.bytes = kernel.kept;
        let queues: Vec<_> = kernel.state.objects_of(Kind::Queue).map(|(_, id)| id).collect();
        for id in queues {
            if let Ok(messages) = kernel.state.queue_mut(id) {
                messages.begin();
                messages.promote(now, usize::MAX);
                kernel.bytes += messages.bytes();
                kernel.messages += messages.len();
                kernel.schedule(id);
            }
        }
        kernel
    }

    /// What there is.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Gives every session its whole time to live again: after a pause of the server no client can
    /// be blamed for silence.
    pub fn renew_sessions(&mut self, now: Millis) {
        let sessions = self.state.sessions().filter(|(_, session)| !session.is_leaving);
        let slots: Vec<_> = sessions.map(|(slot, _)| slot).collect();
        for slot in slots {
            self.renew(slot, now);
            if self.state.session(slot).is_some_and(|session| session.check.is_none()) {
                self.check_later(slot);
            }
        }
    }

    /// Lets a session be looked at when its time is up as far as is known now.
    fn check_later(&mut self, slot: SessionSlot) {
        if let Some(session) = self.state.session_mut(slot) {
            session.check = Some(session.deadline);
            self.session_checks.insert((session.deadline, slot));
        }
    }

    fn renew(&mut self, slot: SessionSlot, now: Millis) {
        if let Some(session) = self.state.session_mut(slot) {
            session.deadline = now.saturating_add(session.ttl);
        }
    }

    /// Whether a request waits that adds a message to the journal when it is let through: one that
    /// puts a message, or takes one that is kept with the answer.
    #[must_use]
    pub fn has_heavy_waits(&self) -> bool {
        self.heavy > 0
    }

    /// When [`tick`](Self::tick) has something to do at the latest, except for what is
    /// [postponed](Self::has_postponed).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        let waits = self.waits.next_deadline().map(|(deadline, _)| deadline);
        let sessions = self.session_checks.first().map(|(deadline, _)| *deadline);
        let due = self.due.first().map(|(due, _)| *due);
        [waits, sessions, due].into_iter().flatten().min()
    }

    /// Goes on with what was postponed, and lets pass what is due: delayed messages, time limits,
    /// sessions. Not much more [at once](Output::most_handed) than is quickly done: the rest stays
    /// due.
    pub fn tick(&mut self, now: Millis, out: &mut Output) {
        self.resume_postponed(now, out);
        while let Some((due, id)) = self.due.first().copied()
            && due <= now
            && !out.is_busy()
            && out.has_space(SMALL)
        {
            self.due.pop_first();
            self.promote(id, now, out);
        }
        while let Some((deadline, wait_id)) = self.waits.next_deadline()
            && deadline <= now
            && !out.is_busy()
            && out.has_space(SMALL)
        {
            // Some are answered nowhere, and cost time all the same.
            out.moved += 1;
            self.withdraw(wait_id, Some(Answer::plain(Status::TimedOut)), now, out);
        }
        while let Some((check, slot)) = self.session_checks.first().copied()
            && check <= now
            && !out.is_busy()
            && out.has_space(SMALL)
        {
            self.session_checks.pop_first();
            match self.state.session(slot).map(|session| session.deadline) {
                Some(deadline) if deadline <= now => {
                    self.end_session(slot, SessionEnd::Expired, None, now, out);
                }
                _ => {
                    out.moved += 1;
                    self.check_later(slot);
                }
            }
        }
        self.go_on_giving_back(now, out);
    }

    /// Writes down that something has happened, and lets it happen.
    fn emit(&mut self, event: &Event<'_>, out: &mut Output) {
        if !out.unrecorded {
            event.encode(&mut out.events);
        }
        if let Err(bad) = self.state.apply(event) {
            // To go on would be to guess.
            panic!("the kernel decided what its own state does not allow: {bad}");
        }
    }

    /// The next fence.
    fn fence(&mut self, out: &mut Output) -> u64 {
        if self.next_fence >= self.state.reserved_fences {
            self.emit(&Event::FencesReserved { below: self.next_fence + FENCE_BLOCK }, out);
            out.urgent = true;
        }
        let fence = self.next_fence;
        self.next_fence += 1;
        fence
    }

    /// The lowest fence that was not given out.
    #[must_use]
    pub fn next_fence(&self) -> u64 {
        self.next_fence
    }

    /// No fence will be below this one.
    pub fn skip_fences(&mut self, below: u64) {
        self.next_fence = self.next_fence.max(below);
    }

    fn no_more_waits(&self) -> Option<Answer> {
        if self.waits.len() >= self.limits.waits {
            let reason = format!("more than {} requests would wait", self.limits.waits);
            return Some(Answer::error(Status::OverLimit, reason));
        }
        self.no_memory(0)
    }

    /// A request has to wait.
    fn wait(&mut self, context: &RequestContext, id: ObjectId, lane: usize, ask: Ask) -> Reply {
        if let Some(refusal) = self.no_more_waits() {
            return Reply::Answer(refusal);
        }
        let mut wait = Wait::new(id, lane, ask, context.owner);
        wait.retry = context.retry;
        self.heavy += usize::from(wait.is_heavy());
        let wait_id = self.waits.insert(wait);
        if let Some(timeout) = context.timeout {
            self.waits.set_deadline(wait_id, Some(context.now.saturating_add(timeout)));
        }
        self.count_waiting(id, context.retry.is_some(), 1);
        if let Some(wait) = self.waits.get(wait_id)
            && let Some(line) = self.state.line_of(wait)
        {
            line.join(wait, wait_id);
        }
        self.attach(wait_id, context.origin);
        if let Owner::Session(slot) = context.owner
            && let Some(session) = self.state.session_mut(slot)
        {
            self.waits.push(&mut session.waits, List::Session, wait_id);
            if let Some(retry) = context.retry {
                session.waiting.insert(retry.seq, wait_id);
            }
        }
        if self.state.is_paused(context.origin.connection) {
            // It is the last in line: no request moves up.
            self.fall_asleep(wait_id);
        }
        Reply::Waits(wait_id)
    }

    /// A request waits at an object, or does not any more.
    fn count_waiting(&mut self, id: ObjectId, is_numbered: bool, more: i32) {
        let Some(object) = self.state.object_mut(id) else { return };
        object.waiting = object.waiting.wrapping_add_signed(more);
        if let Body::Barrier(barrier) = &mut object.body
            && is_numbered
        {
            barrier.numbered = barrier.numbered.wrapping_add_signed(more);
        }
    }

    /// Lets the answer to a waiting request go to this origin.
    fn attach(&mut self, wait_id: WaitId, origin: Origin) {
        self.detach(wait_id);
        if let Some(wait) = self.waits.get_mut(wait_id) {
            wait.origin = Some(origin);
        }
        let connection = self.state.connection_mut(origin.connection);
        self.waits.push(&mut connection.waits, List::Connection, wait_id);
    }

    /// Lets the answer to a waiting request go nowhere.
    fn detach(&mut self, wait_id: WaitId) {
        let Some(origin) = self.waits.get_mut(wait_id).and_then(|wait| wait.origin.take()) else {
            return;
        };
        let connection = self.state.connection_mut(origin.connection);
        if connection.rest == Some(wait_id) {
            connection.rest = self.waits.next(wait_id, List::Connection);
        }
        self.waits.unlink(&mut connection.waits, List::Connection, wait_id);
        self.state.tidy_connection(origin.connection);
    }

    /// Takes a request, which does not wait any more, out of all lists.
    fn leave(&mut self, wait_id: WaitId) -> Option<(Wait, Option<Origin>)> {
        let origin = self.waits.get(wait_id)?.origin;
        self.detach(wait_id);
        let Wait { object, owner, retry, .. } = *self.waits.get(wait_id)?;
        self.count_waiting(object, retry.is_some(), -1);
        if let Some(wait) = self.waits.get(wait_id)
            && let Some(line) = self.state.line_of(wait)
        {
            line.leave(wait, wait_id);
        }
        if let Owner::Session(slot) = owner
            && let Some(session) = self.state.session_mut(slot)
        {
            self.waits.unlink(&mut session.waits, List::Session, wait_id);
            if let Some(retry) = retry {
                session.waiting.remove(&retry.seq);
            }
        }
        let wait = self.waits.remove(wait_id)?;
        self.heavy -= usize::from(wait.is_heavy());
        if let Ask::Put { payload, .. } = &wait.ask {
            self.bytes -= payload.len() as u64;
        }
        Some((wait, origin))
    }

    /// Ends a wait with an answer.
    fn complete(&mut self, wait_id: WaitId, answer: Answer, out: &mut Output) {
        let Some((wait, origin)) = self.leave(wait_id) else { return };
        self.keep(wait.owner, wait.retry, &answer, out);
        if let Some(origin) = origin {
            out.answer(origin, answer);
        }
    }

    /// Remembers an answer that may be asked for again.
    fn keep(&mut self, owner: Owner, retry: Option<Retry>, answer: &Answer, out: &mut Output) {
        if answer.status == Status::Done
            && let (Owner::Session(session), Some(Retry { seq, digest })) = (owner, retry)
            && self.state.session(session).is_some_and(|session| seq > session.acked)
        {
            self.emit(&Event::OutcomeKept { session, seq, digest, answer: answer.clone() }, out);
            let bytes = answer.payload().map_or(0, |payload| payload.len() as u64);
            self.bytes += bytes;
            self.kept += bytes;
        }
    }
}
