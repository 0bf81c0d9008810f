//! There is only so much of everything.

use semaforo_server::kernel::{
    HoldMode,
    Kind::{Barrier, Event, Latch, Lock, Queue, ReadWriteLock, Semaphore},
    Limits, Operation, Selection, SessionId, Verb,
};

use crate::support::{
    BORROW, READ, RELEASE, TAKE, World, acquire, arrive, connection, event, latch, put, queue,
    release, semaphore, transfer,
};

#[test]
fn objects() {
    let mut world = World::limited(Limits { objects: 2, ..Limits::default() });
    world.done(connection(1), Semaphore, "s", semaphore(1));
    world.hold(connection(1), Lock, "a", HoldMode::Permits(1));
    assert_eq!(world.try_(connection(1), Lock, "b", acquire(1)), 429);
    assert_eq!(world.try_(connection(1), ReadWriteLock, "b", READ), 429);
    assert_eq!(world.try_(connection(1), Barrier, "b", arrive(2)), 429);
    assert_eq!(world.try_(connection(1), Queue, "b", queue(0)), 429);
    assert_eq!(world.try_(connection(1), Semaphore, "s", semaphore(1)), 200);
    assert_eq!(world.try_(connection(2).now(), Lock, "a", acquire(1)), 204);
    world.done(connection(1), Lock, "a", RELEASE);
    assert_eq!(world.try_(connection(1), Lock, "b", acquire(1)), 200);
}

#[test]
fn sessions() {
    let mut world = World::limited(Limits { sessions: 1, ..Limits::default() });
    world.open(1, 1000);
    let open = |id| Operation::Open { id: SessionId(id), ttl: 1000, label: "" };
    let again = world.command(connection(1), open(2));
    assert_eq!(world.status(again), Some(429));
    world.pass(1000);
    let again = world.command(connection(1), open(2));
    assert_eq!(world.status(again), Some(200));
}

#[test]
fn a_session_of_the_same_secret_is_refused() {
    let mut world = World::default();
    world.open(1, 1000);
    let open = Operation::Open { id: SessionId(1), ttl: 1000, label: "" };
    let again = world.command(connection(1), open);
    assert_eq!(world.status(again), Some(409));
}

#[test]
fn waiting_requests() {
    let mut world = World::limited(Limits { waits: 1, ..Limits::default() });
    world.done(connection(9), Queue, "q", queue(1));
    let waits = world.ask(connection(1), Queue, "q", TAKE);
    assert_eq!(world.try_(connection(2), Queue, "q", TAKE), 429);
    assert_eq!(world.try_(connection(2), Barrier, "b", arrive(2)), 429);
    assert!(world.cancel(waits));
    world.done(connection(9), Queue, "q", put(b"a"));
    world.ask(connection(1), Queue, "q", put(b"b"));
    assert_eq!(world.try_(connection(2), Queue, "q", put(b"c")), 429);
    assert_eq!(world.try_(connection(2), Queue, "q", transfer(b"c")), 429);
    assert_eq!(world.kernel.census().bytes, 2);
    world.disconnect(1);
    world.done(connection(9), Queue, "q", Verb::Delete);
    world.assert_empty();
}

#[test]
fn messages_and_bytes() {
    let limits = Limits { messages: 2, bytes: 10, ..Limits::default() };
    let mut world = World::limited(limits);
    world.done(connection(9), Queue, "q", queue(0));
    world.done(connection(9), Queue, "r", queue(1));
    assert_eq!(world.try_(connection(1), Queue, "q", put(&[0; 11])), 507);
    world.done(connection(1), Queue, "q", put(&[0; 4]));
    world.done(connection(1), Queue, "r", put(&[0; 4]));
    let waits = world.ask(connection(1), Queue, "r", put(&[0; 2]));
    assert_eq!(world.try_(connection(1), Queue, "q", put(&[0; 1])), 507);
    assert_eq!(world.try_(connection(1), Queue, "q", transfer(&[0; 1])), 507);
    assert!(world.cancel(waits));
    world.done(connection(1), Queue, "q", put(&[0; 1]));
    assert_eq!(world.try_(connection(1), Queue, "q", put(b"")), 507);
    assert_eq!(world.kernel.census().bytes, 9);
}

#[test]
fn bytes_of_messages_that_are_out_and_kept_with_an_answer() {
    let mut world = World::limited(Limits { bytes: 10, ..Limits::default() });
    world.open(1, 60_000);
    world.done(connection(9), Queue, "q", queue(0));
    let session = connection(1).of(1);
    world.done(connection(9), Queue, "q", put(&[0; 6]));
    world.done(connection(9), Queue, "q", put(&[1; 4]));
    // The server is full, and can be emptied.
    assert_eq!(world.try_(connection(9), Queue, "q", put(&[2; 1])), 507);
    world.done(session.seq(1), Queue, "q", BORROW);
    assert_eq!(world.kernel.census().bytes, 16, "it is out, and kept");
    // But not for ever without a word about what has arrived.
    world.done(session, Queue, "q", Verb::Return { message: 1, deliveries: None, delay: 0 });
    assert_eq!(world.try_(session.seq(2), Queue, "q", BORROW), 507);
    world.command(session.acked(1), Operation::Ping);
    world.done(session.seq(2), Queue, "q", BORROW);
    world.done(session.seq(3), Queue, "q", BORROW);
    assert_eq!(world.kernel.census().bytes, 20);
    let waits = world.ask(session.seq(4), Queue, "q", BORROW);
    let next = world.ask(connection(2), Queue, "q", TAKE);
    world.done(session, Queue, "q", Verb::Return { message: 2, deliveries: None, delay: 0 });
    assert_eq!(world.statuses(&[waits, next]), [507, 200]);
    world.command(session.acked(3), Operation::Ping);
    assert_eq!(world.kernel.census().bytes, 6);
}

/// What is kept with numbers needs memory, whatever was asked for; what gives something back may go
/// on for a while.
#[test]
fn outcomes() {
    let limits = Limits { memory: 40_000, ..Limits::default() };
    let verbs: [(_, _, Verb<'static>); 7] = [
        (Event, "e", Verb::Set),
        (Event, "e", Verb::Reset { count: None }),
        (Event, "e", event(false, false)),
        (Latch, "l", Verb::Down { by: 1 }),
        (Latch, "l", Verb::Wait),
        (Latch, "l", Verb::Reset { count: Some(0) }),
        (Barrier, "b", Verb::Reset { count: None }),
    ];
    for (kind, name, verb) in verbs {
        let mut world = World::limited(limits);
        world.open(1, 60_000);
        let session = connection(1).of(1);
        world.done(connection(9), Event, "e", event(false, false));
        world.done(connection(9), Latch, "l", latch(0));
        world.done(connection(9), Queue, "q", queue(0));
        world.done(connection(9), Queue, "q", put(b"m"));
        let mut hold = world.hold(session, Lock, "a", HoldMode::Permits(1));
        let mut seq = 1;
        while world.try_(session.seq(seq), kind, name, verb) == 200 {
            assert!(world.kernel.memory() <= limits.memory, "{verb:?}");
            seq += 1;
        }
        assert_eq!(world.try_(session.seq(seq), kind, name, verb), 507);
        // What came before is known, and what is not numbered goes on, as far as it adds nothing.
        assert_eq!(world.try_(session.seq(1), kind, name, verb), 200);
        assert_eq!(world.try_(session, Event, "e", Verb::Set), 200);
        world.done(session.seq(seq), Lock, "a", release(hold));
        hold = world.hold(session.acked(1), Lock, "a", HoldMode::Permits(1));
        world.done(session.seq(seq + 1), Lock, "a", release(hold));
        // One and the same message, again and again, is not for ever.
        let mut statuses = Vec::new();
        while !statuses.contains(&507) {
            seq += 2;
            statuses.push(world.try_(session.seq(seq), Queue, "q", BORROW));
            let back = Verb::Return { message: 1, deliveries: None, delay: 0 };
            statuses.push(world.try_(session.seq(seq + 1), Queue, "q", back));
        }
        assert!(world.kernel.memory() <= limits.memory + limits.memory / 8);
        world.command(session.acked(seq + 1), Operation::Ping);
        assert_eq!(world.try_(session.seq(seq + 2), kind, name, verb), 200);
    }
}

#[test]
fn lists_are_in_order_and_cut_at_the_limit() {
    let mut world = World::default();
    for name in ["b", "ab", "a", "c"] {
        world.done(connection(1), Semaphore, name, semaphore(1));
    }
    world.hold(connection(1), Lock, "a", HoldMode::Permits(1));
    let mut list = |kind, prefix, after, limit| {
        let list = Operation::List(Selection { kind, prefix, after, limit });
        let request = world.command(connection(1), list);
        let semaforo_server::kernel::Content::View(view) = &world.answers[&request].content else {
            panic!("a list was asked for");
        };
        let semaforo_server::kernel::View::List(all) = &**view else { panic!() };
        let names = all.entries.iter();
        let mut names: Vec<_> =
            names.map(|entry| format!("{}/{}", entry.kind.singular(), entry.name)).collect();
        names.extend(all.has_more.then(|| "...".into()));
        names
    };
    assert_eq!(list(None, "a", None, 9), ["lock/a", "semaphore/a", "semaphore/ab"]);
    assert_eq!(list(None, "a", None, 3), ["lock/a", "semaphore/a", "semaphore/ab"]);
    assert_eq!(list(Some(Semaphore), "", None, 2), ["semaphore/a", "semaphore/ab", "..."]);
    assert_eq!(list(Some(Queue), "", None, 2), [] as [&str; 0]);
    // It goes on behind anything, also what is not there (any more), or does not begin so.
    let after = |kind, name| Some((kind, name));
    assert_eq!(list(None, "", after(Lock, "a"), 2), ["semaphore/a", "semaphore/ab", "..."]);
    assert_eq!(
        list(None, "", after(Semaphore, "aa"), 9),
        ["semaphore/ab", "semaphore/b", "semaphore/c"]
    );
    assert_eq!(list(None, "a", after(Semaphore, "a"), 9), ["semaphore/ab"]);
    assert_eq!(list(None, "b", after(Semaphore, "a"), 9), ["semaphore/b"]);
    assert_eq!(list(Some(Lock), "", after(Semaphore, "a"), 9), [] as [&str; 0]);
    assert_eq!(list(None, "", None, 0), ["..."]);
}
