//! What the kernel has to do, said as simply as possible: lists are searched from their beginnings,
//! and nothing is kept that can be counted.

mod holds;
mod places;

use std::collections::{BTreeMap, BTreeSet};

use semaforo_server::kernel::{Header, HoldMode, Kind, Millis, Retry, Verb};

use crate::support::{Caller, Request};

/// Who has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Connection(u64),
    Session(u128),
}

/// An answer as far as it can be foretold. Fences and generations are numbers of the kernel's
/// choice: they are named by the request or the round that they were first given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) fence: Option<Request>,
    pub(crate) round: Option<u64>,
    pub(crate) numbers: Vec<(Header, u64)>,
    pub(crate) payload: Option<Vec<u8>>,
}

impl Expected {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, fence: None, round: None, numbers: Vec::new(), payload: None }
    }

    fn number(mut self, header: Header, number: u64) -> Self {
        self.numbers.push((header, number));
        self
    }
}

/// How a request is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Answered(Expected),
    Waits,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Hold(HoldMode),
    Pass,
    Arrive { index: u64 },
    Put { payload: &'static [u8], priority: i32, delay: Millis },
    Transfer { number: u64 },
    Take { manual: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) request: Request,
    name: &'static str,
    ask: Ask,
    owner: Owner,
    /// Where the answer goes, and when it was decided so.
    connection: Option<u64>,
    attached: u64,
    retry: Option<Retry>,
    deadline: Option<Millis>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    ttl: Millis,
    deadline: Millis,
    check: Millis,
    acked: u64,
    kept: BTreeMap<u64, (u64, Expected)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) granted: Request,
    pub(crate) name: &'static str,
    pub(crate) owner: Owner,
    pub(crate) mode: HoldMode,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    priority: i32,
    due: Option<Millis>,
    deliveries: u64,
    payload: &'static [u8],
    sender: bool,
    pub(crate) out: Option<Owner>,
}

/// A message that may come back.
#[derive(Clone, Debug)]
pub(crate) struct Taken(Message);

#[derive(Clone, Copy, Debug)]
struct Round {
    parties: u32,
    number: u64,
    broken: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: Millis,
    paused: BTreeSet<u64>,
    pub(crate) sessions: BTreeMap<u128, Session>,
    pub(crate) holds: Vec<Hold>,
    /// In the order of their coming.
    pub(crate) waits: Vec<Wait>,
    pub(crate) messages: Vec<Message>,
    next: u64,
    beyond: u64,
    capacity: usize,
    permits: u32,
    counts: BTreeMap<&'static str, u64>,
    auto: BTreeSet<&'static str>,
    round: Option<Round>,
    rounds: u64,
    attachments: u64,
    pub(crate) answers: Vec<(Request, Expected)>,
    pub(crate) taken: BTreeMap<Request, Taken>,
}

impl Model {
    /// What the runner creates: a semaphore, an open one without permits, a latch, a manual and an
    /// automatic event, a queue.
    pub(crate) fn new(now: Millis, permits: u32, count: u64, capacity: usize) -> Self {
        Self {
            now,
            permits,
            capacity,
            next: 1,
            beyond: 1,
            counts: [("latch", count), ("start", count), ("manual", 0), ("auto", 0)]
                .into_iter()
                .chain([("open", 0), ("most", permits.into())])
                .collect(),
            auto: ["auto"].into(),
            ..Self::default()
        }
    }

    pub(crate) fn owner(caller: &Caller) -> Owner {
        caller.session.map_or(Owner::Connection(caller.connection), Owner::Session)
    }

    pub(crate) fn open(&mut self, id: u128, ttl: Millis) -> u16 {
        if self.sessions.contains_key(&id) {
            return 409;
        }
        let deadline = self.now + ttl;
        let session = Session { ttl, deadline, check: deadline, acked: 0, kept: BTreeMap::new() };
        self.sessions.insert(id, session);
        200
    }

    /// What every request of a session does first. None: it is to be done.
    fn recall(&mut self, caller: &Caller, request: Request) -> Option<Received> {
        let id = caller.session?;
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Some(Received::Answered(Expected::status(410)));
        };
        session.deadline = now + session.ttl;
        if let Some(acked) = caller.acked
            && acked > session.acked
        {
            session.acked = acked;
            session.kept.retain(|seq, _| *seq > acked);
        }
        let Retry { seq, digest } = caller.retry?;
        if seq <= session.acked {
            return Some(Received::Closed);
        }
        if let Some((known, answer)) = session.kept.get(&seq) {
            let answer = if *known == digest { answer.clone() } else { Expected::status(409) };
            return Some(Received::Answered(answer));
        }
        let same = |wait: &&mut Wait| {
            wait.owner == Owner::Session(id) && wait.retry.is_some_and(|retry| retry.seq == seq)
        };
        self.attachments += 1;
        let wait = self.waits.iter_mut().find(same)?;
        if wait.retry.is_some_and(|retry| retry.digest != digest) {
            return Some(Received::Answered(Expected::status(409)));
        }
        if wait.connection.is_some() {
            self.answers.push((wait.request, Expected::status(409)));
        }
        wait.request = request;
        wait.connection = Some(caller.connection);
        wait.attached = self.attachments;
        wait.deadline = caller.timeout.map(|timeout| now + timeout);
        let name = wait.name;
        self.settle(name, false);
        if caller.timeout == Some(0) {
            self.withdraw(request, 204);
        }
        Some(Received::Waits)
    }

    /// A request that is only for the session.
    pub(crate) fn keep_alive(&mut self, caller: &Caller, request: Request) -> Received {
        self.recall(caller, request).unwrap_or_else(|| {
            let ttl = caller.session.and_then(|id| Some(self.sessions.get(&id)?.ttl));
            Received::Answered(Expected::status(200).number(Header::Ttl, ttl.unwrap_or(0)))
        })
    }

    pub(crate) fn close(&mut self, caller: &Caller, request: Request) -> Received {
        if let Some(received) = self.recall(caller, request) {
            return received;
        }
        if let Some(id) = caller.session {
            self.end_session(id);
        }
        Received::Answered(Expected::status(200))
    }

    pub(crate) fn ask(
        &mut self,
        caller: &Caller,
        request: Request,
        kind: Kind,
        name: &'static str,
        verb: Verb<'static>,
    ) -> Received {
        if let Some(received) = self.recall(caller, request) {
            return received;
        }
        let received = match kind {
            Kind::Queue => self.ask_queue(caller, request, name, verb),
            Kind::Barrier => self.ask_barrier(caller, request, name, verb),
            _ => self.ask_gate(caller, request, name, verb),
        };
        if let Received::Answered(answer) = &received
            && !matches!(verb, Verb::Check { .. })
        {
            self.keep(Self::owner(caller), caller.retry, answer);
        }
        received
    }

    fn keep(&mut self, owner: Owner, retry: Option<Retry>, answer: &Expected) {
        if let (Owner::Session(id), Some(Retry { seq, digest })) = (owner, retry)
            && let Some(session) = self.sessions.get_mut(&id)
            && answer.status == 200
            && seq > session.acked
        {
            session.kept.insert(seq, (digest, answer.clone()));
        }
    }

    fn wait(
        &mut self,
        caller: &Caller,
        request: Request,
        name: &'static str,
        ask: Ask,
    ) -> Received {
        self.attachments += 1;
        self.waits.push(Wait {
            request,
            name,
            ask,
            owner: Self::owner(caller),
            connection: Some(caller.connection),
            attached: self.attachments,
            retry: caller.retry,
            deadline: caller.timeout.map(|timeout| self.now + timeout),
        });
        Received::Waits
    }

    /// Whether it can be granted something: its connection is there to take it, and reads.
    fn is_awake(&self, wait: &Wait) -> bool {
        matches!(wait.ask, Ask::Arrive { .. } | Ask::Transfer { .. })
            || wait.connection.is_some_and(|connection| !self.paused.contains(&connection))
    }

    /// The first that waits there, is awake, and asks for such a thing.
    fn first(&self, name: &str, wanted: impl Fn(&Ask) -> bool) -> Option<Wait> {
        let there = |wait: &&Wait| wait.name == name && self.is_awake(wait) && wanted(&wait.ask);
        self.waits.iter().find(there).copied()
    }

    fn complete(&mut self, request: Request, answer: Expected) {
        let Some(at) = self.waits.iter().position(|wait| wait.request == request) else { return };
        let wait = self.waits.remove(at);
        self.keep(wait.owner, wait.retry, &answer);
        if wait.connection.is_some() {
            self.answers.push((request, answer));
        }
    }

    /// Lets happen what can happen at an object.
    fn settle(&mut self, name: &'static str, write_ended: bool) {
        match name {
            "queue" => self.settle_queue(),
            "barrier" => {}
            _ => self.settle_gate(name, write_ended),
        }
    }

    fn settle_all(&mut self) {
        for name in ["lock", "semaphore", "open", "rwlock", "latch", "manual", "auto", "queue"] {
            self.settle(name, false);
        }
    }

    /// Takes one out without letting others in yet.
    fn step_aside(&mut self, request: Request, status: Option<u16>) {
        let Some(at) = self.waits.iter().position(|wait| wait.request == request) else { return };
        let wait = self.waits.remove(at);
        if let (Some(_), Some(status)) = (wait.connection, status) {
            self.answers.push((request, Expected::status(status)));
        }
        match wait.ask {
            Ask::Arrive { .. } => self.break_barrier(),
            Ask::Transfer { number } => self.messages.retain(|other| other.number != number),
            _ => {}
        }
    }

    fn withdraw(&mut self, request: Request, status: u16) {
        self.step_aside(request, Some(status));
        self.settle_all();
    }

    /// Whether there was such a request.
    pub(crate) fn cancel(&mut self, request: Request) -> bool {
        let is_there = |wait: &Wait| wait.request == request && wait.connection.is_some();
        let waits = self.waits.iter().any(is_there);
        if waits {
            self.withdraw(request, 204);
        }
        waits
    }

    fn end_waits(&mut self, connection: u64, status: Option<u16>) {
        let mut all: Vec<_> =
            self.waits.iter().filter(|wait| wait.connection == Some(connection)).copied().collect();
        all.sort_by_key(|wait| wait.attached);
        for wait in all {
            if wait.retry.is_none() {
                self.step_aside(wait.request, status);
            } else if let Some(wait) =
                self.waits.iter_mut().find(|other| other.request == wait.request)
            {
                wait.connection = None;
            }
        }
        self.settle_all();
    }

    pub(crate) fn half_close(&mut self, connection: u64) {
        self.end_waits(connection, Some(204));
    }

    pub(crate) fn disconnect(&mut self, connection: u64) {
        self.end_waits(connection, None);
        self.paused.remove(&connection);
        self.give_up(Owner::Connection(connection));
    }

    pub(crate) fn pause(&mut self, connection: u64, paused: bool) {
        if paused {
            self.paused.insert(connection);
        } else {
            self.paused.remove(&connection);
        }
        self.settle_all();
    }

    fn give_up(&mut self, owner: Owner) {
        let wrote = |hold: &Hold| hold.owner == owner && hold.mode == HoldMode::Write;
        let write_ended = self.holds.iter().any(wrote);
        self.holds.retain(|hold| hold.owner != owner);
        for message in &mut self.messages {
            message.out = message.out.filter(|other| *other != owner);
        }
        self.settle("rwlock", write_ended);
        self.settle_all();
    }

    fn end_session(&mut self, id: u128) {
        let owner = Owner::Session(id);
        let all: Vec<_> =
            self.waits.iter().filter(|wait| wait.owner == owner).map(|wait| wait.request).collect();
        for request in all {
            self.step_aside(request, Some(410));
        }
        self.settle_all();
        self.sessions.remove(&id);
        self.give_up(owner);
    }

    pub(crate) fn tick(&mut self) {
        let now = self.now;
        self.promote();
        self.settle_all();
        let expired = |model: &Self| {
            let all = model.waits.iter().filter_map(|wait| Some((wait.deadline?, wait.request)));
            let arrived = all.enumerate().map(|(at, (deadline, request))| (deadline, at, request));
            arrived.min().filter(|(deadline, ..)| *deadline <= now)
        };
        while let Some((_, _, request)) = expired(self) {
            self.withdraw(request, 204);
        }
        loop {
            let first = self.sessions.iter().map(|(id, session)| (session.check, *id)).min();
            let Some((_, id)) = first.filter(|(check, _)| *check <= now) else { return };
            match self.sessions.get_mut(&id) {
                Some(session) if session.deadline > now => session.check = session.deadline,
                _ => self.end_session(id),
            }
        }
    }

    /// The requests that have to hear from a server that stops.
    pub(crate) fn attached(&self) -> Vec<Request> {
        self.waits
            .iter()
            .filter(|wait| wait.connection.is_some())
            .map(|wait| wait.request)
            .collect()
    }

    /// The server is killed and started again.
    pub(crate) fn restart(&mut self) {
        let now = self.now;
        self.waits.clear();
        self.paused.clear();
        self.taken.clear();
        self.holds.retain(|hold| matches!(hold.owner, Owner::Session(_)));
        self.messages.retain(|message| !message.sender);
        for message in &mut self.messages {
            message.due = message.due.filter(|due| *due > now);
            message.out = message.out.filter(|owner| matches!(owner, Owner::Session(_)));
        }
        self.beyond = self.next;
        for session in self.sessions.values_mut() {
            session.deadline = now + session.ttl;
            session.check = session.deadline;
        }
    }
}
