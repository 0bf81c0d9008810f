//! Many at once take no longer than one by one.

use semaforo_server::kernel::{
    Answer, Charge, Command, ConnectionKey, Content, Header, Kernel,
    Kind::{self, Lock, Queue, Semaphore},
    Limits, Operation, Origin, Output, Reply, Retry, SessionId, State, Verb,
};

use crate::support::{BORROW, RELEASE, TAKE, acquire, put, queue, semaphore, transfer};

/// So many that each must not have to walk past, or move, all others.
const MANY: u64 = 100_000;
const SESSION: SessionId = SessionId(1);

/// A kernel that is not looked at after every step.
struct Crowd {
    kernel: Kernel,
    out: Output,
    tickets: u64,
}

impl Crowd {
    fn new() -> Self {
        let kernel = Kernel::new(State::default(), Limits::default(), 0, 0);
        let out = Output { unrecorded: true, ..Output::default() };
        let mut crowd = Self { kernel, out, tickets: 0 };
        let open = Operation::Open { id: SESSION, ttl: 1000, label: "" };
        crowd.command(9, None, open);
        crowd.ask(9, None, Semaphore, semaphore(1 << 20));
        crowd.ask(9, None, Queue, queue(0));
        crowd
    }

    fn command(&mut self, at: u64, session: Option<SessionId>, operation: Operation<'_>) -> Reply {
        self.numbered(at, session, None, operation)
    }

    fn numbered(
        &mut self,
        at: u64,
        session: Option<SessionId>,
        seq: Option<u64>,
        operation: Operation<'_>,
    ) -> Reply {
        self.tickets += 1;
        let origin = Origin { connection: ConnectionKey(at), ticket: self.tickets };
        let retry = seq.map(|seq| Retry { seq, digest: seq });
        let command = Command {
            session,
            retry,
            acked: None,
            timeout: None,
            charge: Charge::default(),
            operation,
        };
        self.kernel.decide(0, origin, &command, &mut self.out)
    }

    fn ask(&mut self, at: u64, session: Option<SessionId>, kind: Kind, verb: Verb<'_>) -> Reply {
        self.command(at, session, Operation::Object { kind, name: "a", verb })
    }

    fn take(&mut self) -> Option<u64> {
        match self.ask(8, None, Queue, TAKE) {
            Reply::Answer(Answer { headers, .. }) => headers.get(Header::Message),
            _ => None,
        }
    }

    /// Everything that one of two, who took turns, has is given up.
    fn give_up(&mut self, at: u64, session: Option<SessionId>) {
        if session.is_some() {
            self.command(at, session, Operation::Close);
        } else {
            self.kernel.disconnected(0, ConnectionKey(at), &mut self.out);
        }
    }
}

#[test]
fn holds_that_end_together() {
    for session in [None, Some(SESSION)] {
        let mut crowd = Crowd::new();
        for _ in 0..MANY {
            crowd.ask(1, session, Semaphore, acquire(1));
        }
        crowd.ask(2, None, Semaphore, acquire(1));
        crowd.give_up(1, session);
        assert_eq!(crowd.kernel.census().holds, 1);
    }
    let mut crowd = Crowd::new();
    for _ in 0..MANY {
        crowd.ask(1, None, Semaphore, acquire(1));
    }
    crowd.ask(1, None, Lock, acquire(1));
    crowd.ask(1, None, Semaphore, Verb::Delete);
    assert_eq!(crowd.kernel.census().holds, 1);
}

#[test]
fn messages_that_return_together() {
    for order in [[1, 2], [2, 1]] {
        let mut crowd = Crowd::new();
        let session = |at| (at == 2).then_some(SESSION);
        for at in [1, 2].into_iter().cycle().take(MANY as usize) {
            crowd.ask(9, None, Queue, put(b"m"));
            crowd.ask(at, session(at), Queue, BORROW);
        }
        for at in order {
            crowd.give_up(at, session(at));
        }
        let numbers: Vec<_> = std::iter::from_fn(|| crowd.take()).collect();
        assert!(numbers.into_iter().eq(1..=MANY));
    }
}

/// Each of them is in the middle of the queue.
#[test]
fn transfers_that_are_withdrawn_together() {
    let mut crowd = Crowd::new();
    for verb in [put(b"m"), transfer(b"t"), put(b"m")] {
        for _ in 0..MANY {
            crowd.ask(1, None, Queue, verb);
        }
    }
    crowd.give_up(1, None);
    let census = crowd.kernel.census();
    assert_eq!((census.waits, census.messages), (0, 2 * MANY as usize));
    assert_eq!(crowd.take(), Some(1));
}

/// Each has a priority of its own, and it is looked for among all of them.
#[test]
fn messages_of_many_priorities_that_come_back() {
    let mut crowd = Crowd::new();
    let mut parcels = Vec::new();
    for at in 0..MANY {
        let priority = i32::try_from(at).unwrap_or(0);
        crowd.ask(9, None, Queue, Verb::Put { payload: b"m", priority, delay: 0 });
    }
    for _ in 0..MANY / 2 {
        let Reply::Answer(answer) = crowd.ask(8, None, Queue, TAKE) else { panic!("it waits") };
        let Content::Fragile(parcel) = answer.content else { panic!("it is no message") };
        parcels.push(parcel);
    }
    for parcel in &parcels {
        crowd.kernel.undelivered(0, parcel, &mut crowd.out);
        // It does not come back twice.
        crowd.kernel.undelivered(0, parcel, &mut crowd.out);
    }
    let numbers: Vec<_> = std::iter::from_fn(|| crowd.take()).collect();
    assert!(numbers.into_iter().eq(1..=MANY));
}

#[test]
fn messages_that_are_out_when_their_queue_is_deleted() {
    let mut crowd = Crowd::new();
    for _ in 0..MANY {
        crowd.ask(9, None, Queue, put(b"m"));
        crowd.ask(1, None, Queue, BORROW);
    }
    crowd.out.portion = 1000;
    crowd.ask(9, None, Queue, Verb::Delete);
    while crowd.kernel.has_postponed() {
        crowd.out.moved = 0;
        crowd.kernel.tick(0, &mut crowd.out);
    }
    assert_eq!(crowd.kernel.census().messages, 0);
}

#[test]
fn messages_that_are_due_together() {
    let mut crowd = Crowd::new();
    for at in 0..MANY {
        let delay = (at % 2) * 10;
        crowd.ask(9, None, Queue, Verb::Put { payload: b"m", priority: 0, delay });
    }
    crowd.kernel.tick(10, &mut crowd.out);
    let numbers: Vec<_> = std::iter::from_fn(|| crowd.take()).collect();
    assert!(numbers.into_iter().eq(1..=MANY));
}

/// There is no space in the journal for any of them: they are not all looked at in vain.
#[test]
fn objects_that_are_postponed() {
    let mut crowd = Crowd::new();
    crowd.out.budget = 0;
    for at in 0..MANY {
        let name = &format!("l{at}");
        let lock = |verb| Operation::Object { kind: Lock, name, verb };
        crowd.command(1, None, lock(acquire(1)));
        crowd.command(2, None, lock(acquire(1)));
        crowd.command(1, None, lock(RELEASE));
    }
    crowd.out.budget = usize::MAX;
    for space in [0, usize::MAX] {
        crowd.out.space = space;
        for _ in 0..MANY / 10 {
            crowd.kernel.tick(0, &mut crowd.out);
        }
    }
    assert!(!crowd.kernel.has_postponed());
}

#[test]
fn requests_that_are_back_together() {
    let mut crowd = Crowd::new();
    crowd.ask(9, None, Lock, acquire(1));
    for at in [1, 2].into_iter().cycle().take(MANY as usize) {
        crowd.ask(at, None, Lock, acquire(1));
    }
    for at in [1, 2] {
        crowd.kernel.pause(0, ConnectionKey(at), &mut crowd.out);
    }
    for at in [2, 1] {
        crowd.kernel.resume(0, ConnectionKey(at), &mut crowd.out);
    }
    let mut holder = 9;
    for next in [1, 2].into_iter().cycle().take(100) {
        crowd.ask(holder, None, Lock, RELEASE);
        let granted = crowd.out.answers.last().map(|(origin, _)| origin.connection);
        assert_eq!(granted, Some(ConnectionKey(next)));
        holder = next;
    }
    for at in [1, 2] {
        crowd.give_up(at, None);
    }
    assert_eq!(crowd.kernel.census().waits, 0);
}

/// Its place is in the middle of a long line.
#[test]
fn a_request_that_comes_again_and_again() {
    let mut crowd = Crowd::new();
    let again = || Operation::Object { kind: Lock, name: "a", verb: acquire(1) };
    crowd.ask(9, None, Lock, acquire(1));
    for at in 0..MANY {
        crowd.ask(100 + at, None, Lock, acquire(1));
        if at == MANY / 2 {
            crowd.numbered(1, Some(SESSION), Some(1), again());
        }
    }
    for round in 0..MANY {
        let at = 1 + round % 2;
        crowd.numbered(at, Some(SESSION), Some(1), again());
        crowd.give_up(at, None);
    }
    assert_eq!(crowd.kernel.census().waits, MANY as usize + 1);
}
