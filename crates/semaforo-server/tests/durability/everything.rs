//! A client that asks for everything there is, many requests at a time, and knows from the answers
//! what has to be there.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Answer, Client, Random, frame};

/// So many requests are sent before their answers are read.
const WINDOW: usize = 24;

/// So long a request waits at most, in milliseconds.
const WAIT: u64 = 2;

/// What an answer of 200 means.
#[derive(Clone, Debug)]
enum Effect {
    /// Nothing that has to be there later.
    None,
    Put(u64),
    /// The request before it, once more.
    PutAgain(u64),
    Take,
    TakeManual,
    Ack(u64),
    Return(u64),
    Acquire(String),
    /// The hold with this fence is gone.
    Release(String, u64),
    /// It has another fence now, or the same.
    Change(String),
    /// All holds of it are gone.
    Delete(String),
    Count,
    Set(bool),
    /// A message that a `TAKE` right after it takes.
    Transfer,
    TakeTransfer,
    Open,
    /// A hold of a session that ends.
    Borrow,
}

impl Effect {
    /// Whether there is a message more in the queue.
    fn brings(&self) -> bool {
        matches!(self, Self::Put(_) | Self::PutAgain(_) | Self::Return(_))
    }
}

struct Asked {
    text: String,
    effect: Effect,
    /// Statuses that it may have, beside 200, 204 and 507.
    others: &'static [u64],
}

/// A client with objects of its own, and what it knows of them.
pub(crate) struct Worker {
    name: String,
    random: Random,
    session: String,
    step: u64,
    seq: u64,
    acked: u64,
    /// Messages that are in the queue: their numbers within their payloads.
    queued: BTreeSet<u64>,
    /// Messages that are out to the session, by their numbers in the queue: those in their
    /// payloads, and the deliveries.
    out: BTreeMap<u64, (u64, u64)>,
    /// What the session holds, and the fences.
    held: BTreeMap<String, u64>,
    latch: u64,
    is_set: bool,
    /// Sessions that were opened, and end soon.
    short: Vec<String>,
    /// What was asked about in this window.
    used: BTreeSet<String>,
    pub(crate) tally: Tally,
}

/// How it went so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    pub(crate) done: u64,
}

fn number(answer: &Answer) -> u64 {
    let payload: String = answer.value().as_str().unwrap().into();
    payload.trim_end_matches('x').parse().unwrap()
}

impl Worker {
    /// Makes its objects, and opens its session.
    pub(crate) fn new(number: u64, client: &mut Client) -> Self {
        let opened = client.done("OPEN /sessions ttl=86400000");
        let name = format!("w{number}");
        client.done(&format!("CREATE {name}"));
        client.done(&format!("CREATE {name}-transfers"));
        client.done(&format!("CREATE /latches/{name} count=3"));
        client.done(&format!("CREATE /events/{name}"));
        Self {
            name,
            random: Random(number),
            session: opened.header("session").unwrap().to_owned(),
            step: 0,
            seq: 0,
            acked: 0,
            queued: BTreeSet::new(),
            out: BTreeMap::new(),
            held: BTreeMap::new(),
            latch: 3,
            is_set: false,
            short: Vec::new(),
            used: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    /// Sends many requests at once, and learns from the answers.
    pub(crate) fn window(&mut self, client: &mut Client) {
        self.used.clear();
        let acked = self.seq;
        let mut asked = Vec::new();
        while asked.len() < WINDOW {
            self.step += 1;
            self.ask(&mut asked);
        }
        self.acked = acked;
        let bytes: Vec<u8> = asked
            .iter()
            .enumerate()
            .flat_map(|(id, asked)| {
                let (head, payload) = asked.text.split_once(" | ").unwrap_or((&asked.text, ""));
                let bar = if payload.is_empty() { "" } else { " | " };
                frame(&format!("{head} id={id}{bar}{payload}"))
            })
            .collect();
        let mut twin = client.twin();
        let mut answers: Vec<Option<Answer>> = asked.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            scope.spawn(move || twin.send_bytes(&bytes));
            for _ in 0..asked.len() {
                let answer = client.answer();
                let id: usize = answer.id().unwrap().parse().unwrap();
                assert!(answers[id].replace(answer).is_none(), "answered twice");
            }
        });
        let answers: Vec<Answer> = answers.into_iter().flatten().collect();
        let before = std::iter::once(None).chain(answers.iter().map(Some));
        let (first, then): (Vec<_>, Vec<_>) = asked
            .iter()
            .zip(answers.iter().zip(before))
            // A request may have waited for a message that came after it.
            .partition(|(asked, _)| asked.effect.brings());
        for (asked, (answer, before)) in first.into_iter().chain(then) {
            self.learn(asked, answer, before);
        }
    }

    /// This object, if nothing else was asked about it in this window.
    fn fresh(&mut self, path: String) -> Option<String> {
        self.used.insert(path.clone()).then_some(path)
    }

    /// The next number of a request, sometimes.
    fn numbered(&mut self) -> String {
        let session = &self.session;
        if self.random.below(3) > 0 {
            return format!("session={session}");
        }
        self.seq += 1;
        format!("session={session} seq={} acked={}", self.seq, self.acked)
    }

    /// One request, whichever, or two that belong together.
    fn ask(&mut self, asked: &mut Vec<Asked>) {
        let (name, session, step) = (self.name.clone(), self.session.clone(), self.step);
        let some = self.random.below(8);
        let mut push = |text: String, effect, others| asked.push(Asked { text, effect, others });
        match self.random.below(30) {
            0..4 => {
                let payload = "x".repeat(1 + self.random.below(40_000));
                let numbers = self.numbered();
                let delay = if some == 0 { " delay=20" } else { "" };
                let text = format!("PUT {name} {numbers}{delay} | \"{step}{payload}\"");
                push(text.clone(), Effect::Put(step), &[]);
                if numbers.contains("seq") {
                    push(text, Effect::PutAgain(step), &[]);
                }
            }
            4..8 => {
                let numbers = self.numbered();
                push(format!("TAKE {name} timeout=0 {numbers}"), Effect::Take, &[]);
            }
            8 => {
                let text = format!("TAKE {name} timeout={WAIT} ack=manual session={session}");
                push(text, Effect::TakeManual, &[]);
            }
            9..11 => {
                let some = self.random.below(self.out.len().max(1));
                let Some((message, (_, deliveries))) = self.out.iter().nth(some) else { return };
                let (message, deliveries) = (*message, *deliveries);
                if self.fresh(format!("message {message}")).is_none() {
                    return;
                }
                let numbers = self.numbered();
                let what = format!("{name} message={message} deliveries={deliveries} {numbers}");
                match step % 3 {
                    0 => push(format!("ACK {what}"), Effect::Ack(message), &[]),
                    1 => push(format!("RETURN {what}"), Effect::Return(message), &[]),
                    _ => push(format!("RETURN {what} delay=10"), Effect::Return(message), &[]),
                }
            }
            11..15 => self.ask_for_hold(asked, some),
            15 => push(format!("DOWN /latches/{name}"), Effect::Count, &[]),
            16 => push(format!("RESET /latches/{name}"), Effect::Count, &[]),
            17 => push(format!("WAIT /latches/{name} timeout={WAIT}"), Effect::None, &[]),
            18 => {
                let (verb, is_set) = if some < 4 { ("SET", true) } else { ("RESET", false) };
                push(format!("{verb} /events/{name}"), Effect::Set(is_set), &[]);
            }
            19 => push(format!("WAIT /events/{name} timeout={WAIT}"), Effect::None, &[]),
            20 => {
                for _ in 0..2 {
                    let text = format!("ARRIVE /barriers/{name} parties=2 timeout={WAIT}");
                    push(text, Effect::None, &[409]);
                }
            }
            21 => push(format!("RESET /barriers/{name}"), Effect::None, &[]),
            22 => {
                let queue = format!("{name}-transfers");
                push(format!("TRANSFER {queue} timeout=50 | \"{step}\""), Effect::Transfer, &[]);
                push(format!("TAKE {queue} timeout=50"), Effect::TakeTransfer, &[]);
            }
            23 => {
                // The second does not get it, and is told not to wait.
                let Some(path) = self.fresh(format!("/locks/{name}-contended")) else { return };
                push(format!("ACQUIRE {path} timeout={WAIT}"), Effect::None, &[]);
                let waiting = asked.len();
                let mut push =
                    |text, others| asked.push(Asked { text, effect: Effect::None, others });
                push(format!("ACQUIRE {path} session={session} timeout=100"), &[]);
                push(format!("CANCEL / request={waiting}"), &[404]);
                push(format!("RELEASE {path} session={session}"), &[410]);
                push(format!("RELEASE {path}"), &[410]);
            }
            24 => push("OPEN /sessions ttl=150".into(), Effect::Open, &[]),
            25 => {
                let Some(short) = self.short.pop() else { return };
                let path = format!("/locks/{name}-short-{some}");
                let text = format!("ACQUIRE {path} session={short} timeout=0");
                push(text, Effect::Borrow, &[410]);
                if step % 2 == 0 {
                    push(format!("CLOSE /sessions session={short}"), Effect::None, &[410]);
                }
            }
            26 => push(format!("KEEPALIVE /sessions session={session}"), Effect::None, &[]),
            27 => {
                let queue = format!("{name}-deleted");
                push(format!("CREATE {queue}"), Effect::None, &[]);
                push(format!("PUT {queue} | {step}"), Effect::None, &[404]);
                push(format!("DELETE {queue}"), Effect::None, &[404]);
            }
            28 => match self.held.iter().nth(some) {
                Some((path, fence)) => {
                    push(format!("CHECK {path} fence={fence}"), Effect::None, &[404, 410]);
                }
                None => push(format!("SHOW {name}"), Effect::None, &[]),
            },
            _ => {
                let text = ["PING /", "ECHO /", "LIST / limit=3", "SHOW /"][some % 4];
                push(text.into(), Effect::None, &[]);
            }
        }
    }

    /// Something that is acquired and released.
    fn ask_for_hold(&mut self, asked: &mut Vec<Asked>, some: usize) {
        let (name, session) = (self.name.clone(), self.session.clone());
        let kind = ["locks", "semaphores", "rwlocks"][self.random.below(3)];
        let Some(path) = self.fresh(format!("/{kind}/{name}-{some}")) else { return };
        let numbers = self.numbered();
        let mut push = |text: String, effect, others| asked.push(Asked { text, effect, others });
        let choice = self.random.below(4);
        match (kind, self.held.get(&path).copied()) {
            ("semaphores", _) if choice == 0 => {
                push(format!("CREATE {path} permits=3"), Effect::None, &[]);
            }
            ("semaphores", _) if choice == 1 && some == 0 => {
                push(format!("DELETE {path}"), Effect::Delete(path), &[404]);
            }
            ("rwlocks", Some(fence)) if choice == 0 => {
                let text = format!("UPGRADE {path} fence={fence} session={session}");
                push(text, Effect::Change(path), &[409]);
            }
            ("rwlocks", Some(fence)) if choice == 1 => {
                let text = format!("DOWNGRADE {path} fence={fence} session={session}");
                push(text, Effect::Change(path), &[409]);
            }
            (_, Some(fence)) => {
                let text = format!("RELEASE {path} fence={fence} {numbers}");
                push(text, Effect::Release(path, fence), &[]);
            }
            (_, None) => {
                let mode = if kind == "rwlocks" && choice > 1 { " mode=read" } else { "" };
                let text = format!("ACQUIRE {path} timeout=0 {numbers}{mode}");
                push(text, Effect::Acquire(path), &[404]);
            }
        }
    }

    fn learn(&mut self, asked: &Asked, answer: &Answer, before: Option<&Answer>) {
        let status = answer.status;
        let what = format!("{:.120}: {:.200}", asked.text, answer.text);
        self.tally.asked += 1;
        match status {
            200 => self.tally.done += 1,
            507 => self.tally.refused += 1,
            204 => {}
            other => assert!(asked.others.contains(&other), "{what}"),
        }
        if let Effect::TakeTransfer = asked.effect {
            assert_eq!(before.map(|before| before.status == 200), Some(status == 200), "{what}");
        }
        if status != 200 {
            return;
        }
        match asked.effect.clone() {
            Effect::None | Effect::Transfer | Effect::TakeTransfer | Effect::Borrow => {}
            Effect::Put(step) => assert!(self.queued.insert(step), "{what}"),
            Effect::PutAgain(step) => match before.filter(|before| before.status == 200) {
                Some(before) => {
                    assert_eq!(before.number("message"), answer.number("message"), "{what}");
                }
                None => assert!(self.queued.insert(step), "{what}"),
            },
            Effect::Take => assert!(self.queued.remove(&number(answer)), "{what}"),
            Effect::TakeManual => {
                let taken = number(answer);
                assert!(self.queued.remove(&taken), "{what}");
                let delivery = (taken, answer.number("deliveries"));
                assert_eq!(self.out.insert(answer.number("message"), delivery), None, "{what}");
            }
            Effect::Ack(message) => assert!(self.out.remove(&message).is_some(), "{what}"),
            Effect::Return(message) => {
                let (back, _) = self.out.remove(&message).unwrap();
                assert!(self.queued.insert(back), "{what}");
            }
            Effect::Acquire(path) => {
                assert_eq!(self.held.insert(path, answer.fence()), None, "{what}");
            }
            Effect::Release(path, fence) => {
                assert_eq!(self.held.remove(&path), Some(fence), "{what}");
            }
            Effect::Change(path) => {
                assert!(self.held.insert(path, answer.fence()).is_some(), "{what}");
            }
            Effect::Delete(path) => drop(self.held.remove(&path)),
            Effect::Count => self.latch = answer.number("count"),
            Effect::Set(is_set) => self.is_set = is_set,
            Effect::Open => self.short.push(answer.header("session").unwrap().to_owned()),
        }
    }

    /// Everything is as the answers said. There has to be space.
    pub(crate) fn check(&self, client: &mut Client) {
        let Self { name, session, .. } = self;
        client.done(&format!("KEEPALIVE /sessions session={session}"));
        for (path, fence) in &self.held {
            client.done(&format!("CHECK {path} fence={fence}"));
        }
        assert_eq!(client.show(&format!("/latches/{name}")).unwrap()["count"], self.latch);
        assert_eq!(client.show(&format!("/events/{name}")).unwrap()["set"], self.is_set);
        // Sessions that were silent have ended, and what they held is free.
        for some in 0..8 {
            client.done(&format!("ACQUIRE /locks/{name}-short-{some}"));
        }
        for (message, (_, deliveries)) in &self.out {
            let delivery = format!("message={message} deliveries={deliveries}");
            client.done(&format!("ACK {name} {delivery} session={session}"));
        }
        let mut queued = BTreeSet::new();
        while queued.len() < self.queued.len() {
            let answer = client.done(&format!("TAKE {name} timeout=5000"));
            assert!(queued.insert(number(&answer)), "{:.100} twice", answer.text);
        }
        assert_eq!(queued, self.queued);
        client.ask(&format!("TAKE {name} timeout=0")).is(204);
        client.ask(&format!("TAKE {name}-transfers timeout=0")).is(204);
    }
}
