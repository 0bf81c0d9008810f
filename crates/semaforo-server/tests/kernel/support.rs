//! A kernel with a clock that the test moves, and a journal that is folded along: after every step
//! the fold of all events has to look like the kernel's own state.

use std::collections::BTreeMap;

use semaforo_server::kernel::{
    ANSWER, Answer, Charge, Command, ConnectionKey, Content, Details, Header, HoldMode, Kernel,
    Kind, Limits, Millis, ObjectView, Operation, Origin, Output, Parcel, Reply, Retry, SessionId,
    Settings, State, Verb, View, WaitId,
};

/// Who asks, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) connection: u64,
    pub(crate) session: Option<u128>,
    pub(crate) retry: Option<Retry>,
    pub(crate) acked: Option<u64>,
    pub(crate) timeout: Option<Millis>,
}

/// A connection that waits for ever.
pub(crate) const fn connection(connection: u64) -> Caller {
    Caller { connection, session: None, retry: None, acked: None, timeout: None }
}

impl Caller {
    /// For a named session.
    pub(crate) const fn of(self, session: u128) -> Self {
        Self { session: Some(session), ..self }
    }

    /// With a number, so that it can be retried; requests with the same number are the same.
    pub(crate) const fn seq(self, seq: u64) -> Self {
        Self { retry: Some(Retry { seq, digest: seq }), ..self }
    }

    pub(crate) const fn digest(self, seq: u64, digest: u64) -> Self {
        Self { retry: Some(Retry { seq, digest }), ..self }
    }

    pub(crate) const fn acked(self, acked: u64) -> Self {
        Self { acked: Some(acked), ..self }
    }

    pub(crate) const fn within(self, timeout: Millis) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Now or not at all.
    pub(crate) const fn now(self) -> Self {
        self.within(0)
    }
}

/// A request that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) time: Millis,
    pub(crate) urgent: bool,
    /// All events.
    pub(crate) journal: Vec<u8>,
    /// The answers to requests, in the order in which they came.
    pub(crate) answers: BTreeMap<Request, Answer>,
    pub(crate) order: Vec<Request>,
    /// Requests after which the connection has to be closed.
    pub(crate) closed: Vec<Request>,
    /// How much each step may add by letting others through.
    pub(crate) budget: usize,
    pub(crate) most_handed: usize,
    /// How much of what has ended each step may give back.
    pub(crate) portion: usize,
    /// Each step is followed by what is postponed.
    pub(crate) catches_up: bool,
    /// Whether the journal has no space for messages.
    pub(crate) is_starved: bool,
    /// How many bytes of events each step may add.
    pub(crate) space: usize,
    /// The connections that had half closed, and were told in portions that they wait for nothing
    /// any more.
    pub(crate) given_up: Vec<u64>,
    /// How much the last step added: bytes of events, and of messages handed over.
    pub(crate) added: usize,
    keys: BTreeMap<Request, (WaitId, Origin)>,
    fold: State,
    tickets: u64,
    /// What messages are charged to from now on.
    pub(crate) charge: Charge,
}

impl Default for World {
    fn default() -> Self {
        Self::limited(Limits::default())
    }
}

impl World {
    pub(crate) fn limited(limits: Limits) -> Self {
        Self::from_state(State::default(), State::default(), limits, 1_000)
    }

    fn from_state(state: State, fold: State, limits: Limits, time: Millis) -> Self {
        Self {
            kernel: Kernel::new(state, limits, time, 0),
            time,
            urgent: false,
            journal: Vec::new(),
            answers: BTreeMap::new(),
            order: Vec::new(),
            closed: Vec::new(),
            budget: usize::MAX,
            most_handed: usize::MAX,
            portion: usize::MAX,
            catches_up: false,
            is_starved: false,
            space: usize::MAX,
            given_up: Vec::new(),
            added: 0,
            keys: BTreeMap::new(),
            fold,
            tickets: 0,
            charge: Charge::default(),
        }
    }

    /// The server was killed and started again: a new kernel on what the journal says.
    pub(crate) fn restart(&mut self) {
        let journal = std::mem::take(&mut self.journal);
        let next = Self::from_state(fold(&journal), fold(&journal), Limits::default(), self.time);
        let Self { tickets, budget, portion, catches_up, .. } = *self;
        *self = Self { journal, tickets, budget, portion, catches_up, ..next };
    }

    /// As [`restart`](Self::restart), but from a snapshot.
    pub(crate) fn restart_from_snapshot(&mut self) {
        self.journal = dump(self.kernel.state());
        self.restart();
    }

    /// Makes a request.
    pub(crate) fn command(&mut self, caller: Caller, operation: Operation<'_>) -> Request {
        self.tickets += 1;
        let request = Request(self.tickets);
        let origin = Origin { connection: ConnectionKey(caller.connection), ticket: request.0 };
        let command = Command {
            session: caller.session.map(SessionId),
            retry: caller.retry,
            acked: caller.acked,
            timeout: caller.timeout,
            charge: self.charge.clone(),
            operation,
        };
        let mut out = self.output();
        match self.kernel.decide(self.time, origin, &command, &mut out) {
            Reply::Answer(answer) => self.answered(request, answer),
            Reply::Waits(key) => drop(self.keys.insert(request, (key, origin))),
            Reply::Close => self.closed.push(request),
        }
        self.take(out);
        request
    }

    /// Makes a request about an object.
    pub(crate) fn ask(
        &mut self,
        caller: Caller,
        kind: Kind,
        name: &str,
        verb: Verb<'_>,
    ) -> Request {
        self.command(caller, Operation::Object { kind, name, verb })
    }

    /// Makes a request that has to be answered 200 at once.
    #[track_caller]
    pub(crate) fn done(
        &mut self,
        caller: Caller,
        kind: Kind,
        name: &str,
        verb: Verb<'_>,
    ) -> Answer {
        let request = self.ask(caller, kind, name, verb);
        assert_eq!(self.status(request), Some(200), "{:?}", self.answers.get(&request));
        self.answers[&request].clone()
    }

    /// The status of the answer to a request that must not wait.
    #[track_caller]
    pub(crate) fn try_(&mut self, caller: Caller, kind: Kind, name: &str, verb: Verb<'_>) -> u16 {
        let request = self.ask(caller, kind, name, verb);
        self.status(request).expect("it is answered at once")
    }

    /// A hold that is granted at once, by its fence.
    #[track_caller]
    pub(crate) fn hold(&mut self, caller: Caller, kind: Kind, name: &str, mode: HoldMode) -> u64 {
        let answer = self.done(caller, kind, name, Verb::Acquire(mode));
        answer.headers.get(Header::Fence).expect("a grant has a fence")
    }

    /// Opens a session.
    #[track_caller]
    pub(crate) fn open(&mut self, session: u128, ttl: Millis) {
        let id = SessionId(session);
        let label = "a session";
        let request = self.command(connection(0), Operation::Open { id, ttl, label });
        assert_eq!(self.status(request), Some(200));
    }

    fn answered(&mut self, request: Request, answer: Answer) {
        let before = self.answers.insert(request, answer);
        assert_eq!(before, None, "{request:?} was answered twice");
        self.order.push(request);
        self.keys.remove(&request);
    }

    fn take(&mut self, out: Output) {
        self.journal.extend_from_slice(&out.events);
        self.urgent = out.urgent;
        self.added = out.events.len() + out.handed + out.moved;
        let payloads = out.answers.iter().filter_map(|(_, answer)| answer.payload());
        let payloads = payloads.map(<[u8]>::len).sum::<usize>();
        assert_eq!(out.handed, payloads + ANSWER * out.answers.len());
        self.given_up.extend(out.given_up.iter().map(|key| key.0));
        for (origin, answer) in out.answers {
            self.answered(Request(origin.ticket), answer);
        }
        self.fold.apply_all(&out.events).expect("the kernel's own events can be folded");
        let (live, folded) = (dump(self.kernel.state()), dump(&self.fold));
        assert_eq!(live, folded, "the fold differs from the kernel's state");
        if self.catches_up && self.kernel.has_postponed() {
            self.pass(0);
        }
    }

    fn output(&self) -> Output {
        Output {
            budget: self.budget,
            most_handed: self.most_handed,
            portion: self.portion,
            is_starved: self.is_starved,
            space: self.space,
            ..Output::default()
        }
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Kernel, Millis, &mut Output) -> T) -> T {
        let mut out = self.output();
        let result = step(&mut self.kernel, self.time, &mut out);
        self.take(out);
        result
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Millis) {
        self.time += time;
        self.step(|kernel, now, out| kernel.tick(now, out));
    }

    /// Lets go on what was postponed, with the same budget each time.
    pub(crate) fn catch_up(&mut self) {
        while self.kernel.has_postponed() {
            self.pass(0);
            assert!(self.added > 0, "each time somebody is let through");
        }
    }

    pub(crate) fn cancel(&mut self, request: Request) -> bool {
        let Some((key, origin)) = self.keys.get(&request).copied() else { return false };
        self.step(|kernel, now, out| kernel.cancel(now, key, origin, out))
    }

    pub(crate) fn disconnect(&mut self, connection: u64) {
        self.step(|kernel, now, out| kernel.disconnected(now, ConnectionKey(connection), out));
    }

    pub(crate) fn half_close(&mut self, connection: u64) {
        self.step(|kernel, now, out| kernel.half_closed(now, ConnectionKey(connection), out));
    }

    pub(crate) fn pause(&mut self, connection: u64) {
        self.step(|kernel, now, out| kernel.pause(now, ConnectionKey(connection), out));
    }

    pub(crate) fn resume(&mut self, connection: u64) {
        self.step(|kernel, now, out| kernel.resume(now, ConnectionKey(connection), out));
    }

    pub(crate) fn undelivered(&mut self, parcel: &Parcel) {
        self.step(|kernel, now, out| kernel.undelivered(now, parcel, out));
    }

    pub(crate) fn stop(&mut self) {
        self.step(|kernel, _, out| kernel.stop(out));
    }

    /// How a request was answered; none: it waits.
    pub(crate) fn status(&self, request: Request) -> Option<u16> {
        self.answers.get(&request).map(|answer| answer.status.number())
    }

    /// A number in the answer to a request.
    #[track_caller]
    pub(crate) fn header(&self, request: Request, header: Header) -> u64 {
        self.answers[&request].headers.get(header).expect("the header is there")
    }

    /// The message in the answer to a request.
    #[track_caller]
    pub(crate) fn payload(&self, request: Request) -> &[u8] {
        self.answers[&request].payload().expect("a message is there")
    }

    /// The message in an answer, which may have to come back.
    #[track_caller]
    pub(crate) fn parcel(&self, request: Request) -> Parcel {
        match &self.answers[&request].content {
            Content::Fragile(parcel) => parcel.clone(),
            other => panic!("{other:?} is no parcel"),
        }
    }

    /// Statuses of several; 0: it waits.
    pub(crate) fn statuses(&self, requests: &[Request]) -> Vec<u16> {
        requests.iter().map(|request| self.status(*request).unwrap_or(0)).collect()
    }

    /// What an object looks like.
    pub(crate) fn show(&mut self, kind: Kind, name: &str) -> Option<ObjectView> {
        let request = self.ask(connection(0), kind, name, Verb::Show);
        match self.answers.remove(&request)?.content {
            Content::View(view) => match *view {
                View::Object(view) => Some(view),
                View::List(_) => None,
            },
            _ => None,
        }
    }

    #[track_caller]
    pub(crate) fn details(&mut self, kind: Kind, name: &str) -> Details {
        self.show(kind, name).expect("it exists").details
    }

    /// How many wait there.
    pub(crate) fn waiting(&mut self, kind: Kind, name: &str) -> usize {
        self.show(kind, name).map_or(0, |view| view.waiting)
    }

    /// How many permits of a semaphore are free.
    #[track_caller]
    pub(crate) fn available(&mut self, name: &str) -> u32 {
        match self.details(Kind::Semaphore, name) {
            Details::Semaphore { available, .. } => available,
            other => panic!("{other:?} is no semaphore"),
        }
    }

    /// All connections and sessions have gone: nothing may be left.
    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        let census = self.kernel.census();
        let nothing =
            semaforo_server::kernel::Census { next_fence: census.next_fence, ..Default::default() };
        assert_eq!(census, nothing);
        assert_eq!(self.kernel.next_deadline(), None);
        assert!(!self.kernel.has_postponed() && !self.kernel.has_heavy_waits());
        let mut empty = State::default();
        let below = census.next_fence;
        let reserved = dump(self.kernel.state());
        if below > 1 {
            empty.apply_all(&reserved).expect("a dump can be folded");
        }
        assert_eq!(empty.object_count() + empty.session_count(), 0);
        // Only the reservation of fences is left: a number of one byte, and a number.
        assert!(reserved.len() <= 1 + 10, "{reserved:?}");
    }
}

/// A state as the bytes of a snapshot.
pub(crate) fn dump(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state
        .dump(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .expect("memory takes everything");
    bytes
}

/// The state that events lead to.
pub(crate) fn fold(events: &[u8]) -> State {
    let mut state = State::default();
    state.apply_all(events).expect("the kernel's own events can be folded");
    state
}

pub(crate) const RELEASE: Verb<'static> = Verb::Release { fence: None, permits: None };

pub(crate) const fn release(fence: u64) -> Verb<'static> {
    Verb::Release { fence: Some(fence), permits: None }
}

pub(crate) const fn release_some(fence: u64, permits: u32) -> Verb<'static> {
    Verb::Release { fence: Some(fence), permits: Some(permits) }
}

pub(crate) const fn acquire(permits: u32) -> Verb<'static> {
    Verb::Acquire(HoldMode::Permits(permits))
}

pub(crate) const READ: Verb<'static> = Verb::Acquire(HoldMode::Read);
pub(crate) const WRITE: Verb<'static> = Verb::Acquire(HoldMode::Write);

pub(crate) const fn semaphore(permits: u32) -> Verb<'static> {
    Verb::Create(Settings::Semaphore { permits })
}

pub(crate) const fn open_semaphore(permits: u32, initial: u32) -> Verb<'static> {
    Verb::Create(Settings::OpenSemaphore { permits, initial })
}

/// Permits for an open semaphore.
pub(crate) const fn add(permits: u32) -> Verb<'static> {
    Verb::Release { fence: None, permits: Some(permits) }
}

pub(crate) const fn resize(permits: u32) -> Verb<'static> {
    Verb::Resize { permits }
}

pub(crate) const fn latch(count: u32) -> Verb<'static> {
    Verb::Create(Settings::Latch { count })
}

pub(crate) const fn event(auto: bool, set: bool) -> Verb<'static> {
    Verb::Create(Settings::Event { auto, set })
}

pub(crate) const fn queue(capacity: u64) -> Verb<'static> {
    Verb::Create(Settings::Queue { capacity })
}

pub(crate) const fn arrive(parties: u32) -> Verb<'static> {
    Verb::Arrive { parties, generation: None }
}

pub(crate) const fn put(payload: &[u8]) -> Verb<'_> {
    Verb::Put { payload, priority: 0, delay: 0 }
}

pub(crate) const fn transfer(payload: &[u8]) -> Verb<'_> {
    Verb::Transfer { payload, priority: 0 }
}

pub(crate) const TAKE: Verb<'static> = Verb::Take { manual: false };
pub(crate) const BORROW: Verb<'static> = Verb::Take { manual: true };
