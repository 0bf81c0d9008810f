//! Does the same with the kernel and with the model, and compares after every step.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use semaforo_server::kernel::{
    Answer, Content, Header, HoldMode, Kind, Millis, Operation, Retry, SessionId, State, Verb,
};

use crate::model::{Expected, Model, Owner, Received};
use crate::support::{
    Caller, Request, World, connection, dump, event, fold, latch, open_semaphore, queue, resize,
    semaphore,
};

pub(crate) const CONNECTIONS: usize = 3;
pub(crate) const SESSIONS: usize = 3;
const PERMITS: u32 = 4;
const COUNT: u32 = 3;
const CAPACITY: u64 = 3;

/// Times to live that never end at the same time, as long as time goes by tens.
const TTL: [Millis; SESSIONS] = [1001, 1502, 2003];

static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Lock,
    Semaphore,
    OpenSemaphore,
    ReadWriteLock,
    Latch,
    Manual,
    Auto,
    Queue,
    Barrier,
}

impl Target {
    pub(crate) const ALL: [Self; 9] = [
        Self::Lock,
        Self::Semaphore,
        Self::OpenSemaphore,
        Self::ReadWriteLock,
        Self::Latch,
        Self::Manual,
        Self::Auto,
        Self::Queue,
        Self::Barrier,
    ];

    fn object(self) -> (Kind, &'static str) {
        match self {
            Self::Lock => (Kind::Lock, "lock"),
            Self::Semaphore => (Kind::Semaphore, "semaphore"),
            Self::OpenSemaphore => (Kind::Semaphore, "open"),
            Self::ReadWriteLock => (Kind::ReadWriteLock, "rwlock"),
            Self::Latch => (Kind::Latch, "latch"),
            Self::Manual => (Kind::Event, "manual"),
            Self::Auto => (Kind::Event, "auto"),
            Self::Queue => (Kind::Queue, "queue"),
            Self::Barrier => (Kind::Barrier, "barrier"),
        }
    }
}

/// Who asks: one of the connections, perhaps for one of the sessions, perhaps with a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) connection: usize,
    pub(crate) session: Option<usize>,
    pub(crate) numbered: bool,
    pub(crate) timeout: Option<Millis>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Something is asked for: which method, and with what, is drawn from two numbers.
    Ask {
        sender: Sender,
        target: Target,
        method: u8,
        pick: u8,
    },
    /// A numbered request comes again, or another one with its number.
    Again {
        connection: usize,
        timeout: Option<Millis>,
        pick: u8,
        other: bool,
    },
    Open {
        session: usize,
    },
    Close {
        connection: usize,
        session: usize,
    },
    /// With the news that all answers but so many have arrived.
    KeepAlive {
        connection: usize,
        session: usize,
        but: Option<u8>,
    },
    Cancel {
        pick: u8,
    },
    HalfClose {
        connection: usize,
    },
    Disconnect {
        connection: usize,
    },
    Pause {
        connection: usize,
        paused: bool,
    },
    Undelivered {
        pick: u8,
    },
    /// Time passes, and the kernel is told, or not yet.
    Pass {
        tens: u64,
        told: bool,
    },
    Restart {
        snapshot: bool,
    },
    /// From now on steps have so large a budget, except for those that do several things one after
    /// the other, and what is postponed follows with the next tick.
    Budget {
        budget: usize,
    },
}

/// A numbered request that was made.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    session: u128,
    retry: Retry,
    target: Target,
    asked: Asked,
}

/// The same for the kernel, which knows fences, and for the model, which knows requests.
#[derive(Clone, Copy, Debug)]
struct Asked {
    kernel: Verb<'static>,
    model: Verb<'static>,
}

pub(crate) struct Runner {
    pub(crate) world: World,
    model: Model,
    /// What each connection is called now: none is called what another was.
    keys: [u64; CONNECTIONS],
    names: u64,
    numbers: [u64; SESSIONS],
    numbered: Vec<Numbered>,
    fences: BTreeMap<Request, u64>,
    rounds: BTreeMap<u64, u64>,
    highest: u64,
    seen: usize,
    budget: usize,
    snapshot: Option<(State, usize)>,
}

impl Runner {
    pub(crate) fn new() -> Self {
        let mut world = World::default();
        let maker = connection(99);
        world.done(maker, Kind::Semaphore, "semaphore", semaphore(PERMITS));
        world.done(maker, Kind::Semaphore, "open", open_semaphore(PERMITS, 0));
        world.done(maker, Kind::Latch, "latch", latch(COUNT));
        world.done(maker, Kind::Event, "manual", event(false, false));
        world.done(maker, Kind::Event, "auto", event(true, false));
        world.done(maker, Kind::Queue, "queue", queue(CAPACITY));
        let model = Model::new(world.time, PERMITS, COUNT.into(), CAPACITY as usize);
        let mut runner = Self {
            seen: world.order.len(),
            world,
            model,
            keys: [1, 2, 3],
            names: 100,
            numbers: [0; SESSIONS],
            numbered: Vec::new(),
            fences: BTreeMap::new(),
            rounds: BTreeMap::new(),
            highest: 0,
            budget: usize::MAX,
            snapshot: None,
        };
        for session in 0..SESSIONS {
            runner.step(&Step::Open { session });
        }
        runner
    }

    /// From here on another state is folded, which begins with a snapshot.
    pub(crate) fn take_snapshot(&mut self) {
        let bytes = dump(self.world.kernel.state());
        self.snapshot = Some((fold(&bytes), self.world.journal.len()));
    }

    fn caller(&self, connection_at: usize, session: Option<usize>) -> Caller {
        let caller = connection(self.keys[connection_at]);
        session.map_or(caller, |session| caller.of(session as u128))
    }

    pub(crate) fn step(&mut self, step: &Step) {
        self.world.budget = match step {
            Step::Disconnect { .. } | Step::Close { .. } | Step::Pass { .. } => usize::MAX,
            _ => self.budget,
        };
        match *step {
            Step::Ask { sender, target, method, pick } => self.ask(sender, target, method, pick),
            Step::Again { connection, timeout, pick, other } => {
                self.again(connection, timeout, pick, other);
            }
            Step::Open { session } => {
                let id = SessionId(session as u128);
                let operation = Operation::Open { id, ttl: TTL[session], label: "a session" };
                let request = self.world.command(connection(0), operation);
                let status = self.model.open(session as u128, TTL[session]);
                assert_eq!(self.world.status(request), Some(status));
                if status == 200 {
                    self.numbers[session] = 0;
                    self.numbered.retain(|other| other.session != session as u128);
                }
                self.seen += 1;
            }
            Step::Close { connection, session } => {
                let caller = self.caller(connection, Some(session));
                let request = self.world.command(caller, Operation::Close);
                let received = self.model.close(&caller, request);
                self.received(request, received);
            }
            Step::KeepAlive { connection, session, but } => {
                let mut caller = self.caller(connection, Some(session));
                caller.acked = but.map(|but| self.numbers[session].saturating_sub(but.into()));
                let request = self.world.command(caller, Operation::KeepAlive);
                let received = self.model.keep_alive(&caller, request);
                self.received(request, received);
            }
            Step::Cancel { pick } => {
                let waits = &self.model.waits;
                let Some(wait) = waits.get(usize::from(pick) % waits.len().max(1)) else { return };
                let request = wait.request;
                assert_eq!(self.world.cancel(request), self.model.cancel(request));
            }
            Step::HalfClose { connection } => {
                self.world.half_close(self.keys[connection]);
                self.model.half_close(self.keys[connection]);
            }
            Step::Disconnect { connection } => self.disconnect(connection),
            Step::Pause { connection, paused } => {
                let key = self.keys[connection];
                if paused {
                    self.world.pause(key)
                } else {
                    self.world.resume(key)
                }
                self.model.pause(key, paused);
            }
            Step::Undelivered { pick } => {
                let all: Vec<_> = self.model.taken.keys().copied().collect();
                let Some(request) = all.get(usize::from(pick) % all.len().max(1)) else { return };
                let parcel = self.world.parcel(*request);
                self.world.undelivered(&parcel);
                if let Some(taken) = self.model.taken.remove(request) {
                    self.model.undelivered(taken);
                }
            }
            Step::Pass { tens, told } => {
                self.model.now += tens * 10;
                if told {
                    self.world.pass(tens * 10);
                    self.model.tick();
                    let next = self.world.kernel.next_deadline();
                    assert!(next.is_none_or(|next| next > self.world.time), "not all was done");
                } else {
                    self.world.time += tens * 10;
                }
            }
            Step::Restart { snapshot } => {
                if snapshot {
                    self.snapshot = None;
                    self.world.restart_from_snapshot();
                } else {
                    self.world.restart();
                }
                self.model.restart();
                self.seen = 0;
                for key in &mut self.keys {
                    self.names += 1;
                    *key = self.names;
                }
            }
            Step::Budget { budget } => self.budget = budget,
        }
        if self.world.kernel.has_postponed() {
            self.world.budget = usize::MAX;
            self.world.pass(0);
            self.model.tick();
        }
        self.compare();
    }

    fn disconnect(&mut self, at: usize) {
        self.world.disconnect(self.keys[at]);
        self.model.disconnect(self.keys[at]);
        self.names += 1;
        self.keys[at] = self.names;
    }

    fn ask(&mut self, sender: Sender, target: Target, method: u8, pick: u8) {
        let mut caller = self.caller(sender.connection, sender.session);
        caller.timeout = sender.timeout;
        let asked = self.verb(&caller, target, method, pick);
        if let (true, Some(session)) = (sender.numbered, sender.session) {
            self.numbers[session] += 1;
            let retry = Retry { seq: self.numbers[session], digest: digest(target, &asked) };
            caller.retry = Some(retry);
            self.numbered.push(Numbered { session: session as u128, retry, target, asked });
        }
        self.make(caller, target, asked);
    }

    fn again(&mut self, at: usize, timeout: Option<Millis>, pick: u8, other: bool) {
        let len = self.numbered.len().max(1);
        let Some(numbered) = self.numbered.iter().nth_back(usize::from(pick) % len) else { return };
        let Numbered { session, mut retry, target, asked } = *numbered;
        let mut caller = connection(self.keys[at]).of(session);
        retry.digest ^= u64::from(other);
        (caller.retry, caller.timeout) = (Some(retry), timeout);
        self.make(caller, target, asked);
    }

    fn make(&mut self, caller: Caller, target: Target, asked: Asked) {
        let (kind, name) = target.object();
        let request = self.world.ask(caller, kind, name, asked.kernel);
        let received = self.model.ask(&caller, request, kind, name, asked.model);
        self.received(request, received);
    }

    fn received(&mut self, request: Request, received: Received) {
        match received {
            Received::Answered(answer) => self.model.answers.push((request, answer)),
            Received::Waits => {
                assert!(!self.world.closed.contains(&request), "{request:?} was not to be closed");
            }
            Received::Closed => assert_eq!(self.world.closed.last(), Some(&request)),
        }
    }

    /// Draws what to ask for. Holds and messages are mostly the caller's own.
    fn verb(&self, caller: &Caller, target: Target, method: u8, pick: u8) -> Asked {
        let (_, name) = target.object();
        let owner = Model::owner(caller);
        let small = u32::from(pick) % 4;
        let payload =
            &BYTES[usize::from(pick)..][..1 + usize::from(pick) % 3 * usize::from(pick < 250)];
        let same = |verb| Asked { kernel: verb, model: verb };
        match target {
            Target::Lock | Target::Semaphore | Target::ReadWriteLock => {
                let is_mine = |other: &Owner| *other == owner || pick.is_multiple_of(8);
                let held = self.model.holds.iter().filter(|hold| hold.name == name);
                let held: Vec<_> = held.filter(|hold| is_mine(&hold.owner)).collect();
                let granted = held.get(usize::from(pick) % held.len().max(1));
                let granted = granted.map_or(Request(0), |hold| hold.granted);
                let fence = self.fences.get(&granted).copied().unwrap_or(0);
                let any = pick.is_multiple_of(5);
                let of = |fence: u64| (!any).then_some(fence);
                let both = |verb: &dyn Fn(u64) -> Verb<'static>| Asked {
                    kernel: verb(fence),
                    model: verb(granted.0),
                };
                let mode = match target {
                    Target::Semaphore => HoldMode::Permits(u32::from(pick) % (PERMITS + 2)),
                    Target::Lock => HoldMode::Permits(1),
                    _ if pick.is_multiple_of(2) => HoldMode::Read,
                    _ => HoldMode::Write,
                };
                match method % 12 {
                    0..=5 => same(Verb::Acquire(mode)),
                    6 => both(&|fence| Verb::Check { fence }),
                    7 if target == Target::Semaphore => {
                        both(&|fence| Verb::Release { fence: of(fence), permits: Some(small) })
                    }
                    8 if target == Target::Semaphore => same(resize(1 + u32::from(pick) % 6)),
                    7 if target == Target::ReadWriteLock => {
                        both(&|fence| Verb::Downgrade { fence: of(fence) })
                    }
                    8 if target == Target::ReadWriteLock => {
                        both(&|fence| Verb::Upgrade { fence: of(fence) })
                    }
                    _ => both(&|fence| Verb::Release { fence: of(fence), permits: None }),
                }
            }
            Target::OpenSemaphore => {
                let permits = (!pick.is_multiple_of(5)).then_some(small);
                let fence = pick.is_multiple_of(7).then_some(1);
                same(match method % 12 {
                    0..=5 => Verb::Acquire(HoldMode::Permits(u32::from(pick) % (PERMITS + 2))),
                    6 => Verb::Check { fence: 1 },
                    7 => resize(1 + u32::from(pick) % 6),
                    _ => Verb::Release { fence, permits },
                })
            }
            Target::Latch => same(match method % 8 {
                0..=3 => Verb::Wait,
                4..=6 => Verb::Down { by: small },
                _ => Verb::Reset { count: pick.is_multiple_of(2).then_some(small) },
            }),
            Target::Manual | Target::Auto => same(match method % 8 {
                0..=4 => Verb::Wait,
                5..=6 => Verb::Set,
                _ => Verb::Reset { count: None },
            }),
            Target::Queue => {
                let priority = i32::from(pick) % 3 - 1;
                let delay = Millis::from(pick % 4 / 3) * 10 * Millis::from(1 + pick % 7);
                let is_out = |owner: Owner| owner == Model::owner(caller) || pick.is_multiple_of(8);
                let out = self.model.messages.iter().filter(|it| it.out.is_some_and(is_out));
                let out: Vec<_> = out.map(|message| message.number).collect();
                let message = out.get(usize::from(pick) % out.len().max(1)).copied().unwrap_or(0);
                let deliveries = pick.is_multiple_of(3).then(|| u64::from(pick / 3 % 3));
                same(match method % 12 {
                    0..=3 => Verb::Put { payload, priority, delay },
                    4..=5 => Verb::Transfer { payload, priority },
                    6..=7 => Verb::Take { manual: false },
                    8..=9 => Verb::Take { manual: true },
                    10 => Verb::Ack { message, deliveries },
                    _ => Verb::Return { message, deliveries, delay },
                })
            }
            Target::Barrier => same(match method % 12 {
                0 => Verb::Reset { count: None },
                1 => Verb::Arrive { parties: 1 + small, generation: None },
                _ => Verb::Arrive { parties: 3, generation: None },
            }),
        }
    }

    /// What was answered in this step is what the model says, and there is as much of everything.
    fn compare(&mut self) {
        let mut actual: Vec<_> = self.world.order[self.seen..].to_vec();
        let mut expected = std::mem::take(&mut self.model.answers);
        expected.sort_by_key(|(request, _)| *request);
        let before = self.highest;
        // In the order of the answers, so that fences are seen to grow.
        for request in &actual {
            let Some((_, expected)) = expected.iter().find(|(other, _)| other == request) else {
                panic!("{request:?} was not to be answered {:?}", self.world.answers[request]);
            };
            let answer = self.world.answers[request].clone();
            self.same(*request, &answer, expected, before);
        }
        actual.sort_unstable();
        let requests: Vec<_> = expected.iter().map(|(request, _)| *request).collect();
        assert_eq!(actual, requests, "those were answered, and these were to be");
        let census = self.world.kernel.census();
        assert_eq!(census.waits, self.model.waits.len(), "waits");
        assert_eq!(census.holds, self.model.holds.len(), "holds");
        assert_eq!(census.messages, self.model.messages.len(), "messages");
        assert_eq!(census.sessions, self.model.sessions.len(), "sessions");
        assert_eq!(self.world.available("semaphore"), self.model.available(), "permits");
        assert_eq!(self.world.available("open"), self.model.count("open"), "permits to be used up");
        assert!(census.next_fence > self.highest);
        self.seen = self.world.order.len();
    }

    fn same(&mut self, request: Request, answer: &Answer, expected: &Expected, before: u64) {
        let text = || format!("{request:?} was answered {answer:?}, not {expected:?}");
        assert_eq!(answer.status.number(), expected.status, "{}", text());
        assert_eq!(answer.payload(), expected.payload.as_deref(), "{}", text());
        for (header, number) in &expected.numbers {
            assert_eq!(answer.headers.get(*header), Some(*number), "{}", text());
        }
        let fence = answer.headers.get(Header::Fence);
        assert_eq!(fence.is_some(), expected.fence.is_some(), "{}", text());
        if let (Some(fence), Some(granted)) = (fence, expected.fence) {
            if let Some(known) = self.fences.get(&granted) {
                assert_eq!(fence, *known, "{}", text());
            } else {
                assert!(fence > before, "{fence} is not above {before}");
                assert!(self.fences.values().all(|other| *other != fence), "{fence} came twice");
                self.fences.insert(granted, fence);
                self.highest = self.highest.max(fence);
            }
        }
        let generation = answer.headers.get(Header::Generation);
        assert_eq!(generation.is_some(), expected.round.is_some(), "{}", text());
        if let (Some(generation), Some(round)) = (generation, expected.round) {
            let known = *self.rounds.entry(round).or_insert(generation);
            assert_eq!(generation, known, "{}", text());
        }
        if let Content::Error(reason) = &answer.content {
            assert!(!reason.is_empty());
        }
    }

    /// A snapshot and what happened since then are worth as much as all events.
    fn compare_snapshot(&mut self) {
        let Some((mut state, from)) = self.snapshot.take() else { return };
        state.apply_all(&self.world.journal[from..]).expect("events fit a snapshot");
        assert_eq!(dump(&state), dump(self.world.kernel.state()));
    }

    /// The server stops: all who wait and can be told are told.
    pub(crate) fn stop(mut self) {
        self.compare_snapshot();
        let expected = self.model.attached();
        self.world.stop();
        let mut told = self.world.order[self.seen..].to_vec();
        told.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(told, expected);
        assert!(told.iter().all(|request| self.world.status(*request) == Some(503)));
    }

    /// All connections and sessions go, and everything is deleted: nothing is left.
    pub(crate) fn leave(mut self) {
        self.compare_snapshot();
        for connection in 0..CONNECTIONS {
            self.step(&Step::Disconnect { connection });
        }
        for session in 0..SESSIONS {
            self.step(&Step::Close { connection: 0, session });
        }
        let maker = connection(99);
        for target in Target::ALL.into_iter().filter(|target| !target.object().0.exists_by_use()) {
            let (kind, name) = target.object();
            self.world.done(maker, kind, name, Verb::Delete);
        }
        self.world.done(maker, Kind::Barrier, "barrier", Verb::Reset { count: None });
        self.world.assert_empty();
    }
}

fn digest(target: Target, asked: &Asked) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{target:?} {:?}", asked.kernel).hash(&mut hasher);
    // The lowest bit is kept for others.
    hasher.finish() & !1
}
