//! What has ended gives back what it had in portions: no request is kept waiting by it, and in the
//! end all is as if it had been at once.

use proptest::prelude::*;
use semaforo_server::kernel::{
    Details, Header, HoldMode,
    Kind::{self, Barrier, Event, Latch, Lock, Queue, ReadWriteLock, Semaphore},
    Operation, Verb,
};

use crate::support::{
    BORROW, Caller, READ, Request, TAKE, WRITE, World, acquire, arrive, connection, dump, latch,
    put, queue, semaphore, transfer,
};

const MANY: u64 = 10;

/// A world that gives back three things at a time.
fn slow_world() -> World {
    let mut world = World::default();
    world.portion = 3;
    world
}

/// So many locks, each held by this caller and wanted by another connection.
fn locks(world: &mut World, holder: Caller) -> Vec<Request> {
    let one = |number| {
        let name = format!("l{number}");
        world.hold(holder, Lock, &name, HoldMode::Permits(1));
        world.ask(connection(50 + number), Lock, &name, acquire(1))
    };
    (0..MANY).map(one).collect()
}

fn answered(world: &World, requests: &[Request]) -> usize {
    requests.iter().filter(|request| world.status(**request).is_some()).count()
}

/// CLOSE is answered when all is given back. Until then nothing can be done for the session, and
/// each portion is for the requests that wait.
#[test]
fn a_session_that_is_closed() {
    let mut world = slow_world();
    world.open(1, 60_000);
    let waiters = locks(&mut world, connection(1).of(1));
    let close = world.command(connection(1).of(1), Operation::Close);
    assert_eq!((world.status(close), answered(&world, &waiters)), (None, 0));
    assert_eq!(world.try_(connection(1).of(1), Lock, "other", acquire(1)), 410);
    let again = world.command(connection(2).of(1), Operation::Close);
    assert_eq!(world.status(again), Some(410));
    for part in [3, 6, 9] {
        world.pass(0);
        assert_eq!((world.status(close), answered(&world, &waiters)), (None, part));
    }
    world.pass(0);
    assert_eq!((world.status(close), answered(&world, &waiters)), (Some(200), 10));
    assert!(!world.kernel.has_postponed());
    assert_eq!(world.kernel.census().sessions, 0);
}

/// Its waiting requests end, and none of them gets what is given back.
#[test]
fn a_session_that_waits() {
    let mut world = slow_world();
    world.open(1, 60_000);
    let session = connection(1).of(1);
    world.done(connection(9), Semaphore, "s", semaphore(1));
    let fence = world.hold(connection(9), Semaphore, "s", HoldMode::Permits(1));
    let waits: Vec<_> = (0..MANY).map(|_| world.ask(session, Semaphore, "s", acquire(1))).collect();
    let other = world.ask(connection(2), Semaphore, "s", acquire(1));
    let close = world.command(session, Operation::Close);
    world.pass(0);
    assert_eq!(answered(&world, &waits), 3);
    world.done(connection(9), Semaphore, "s", crate::support::release(fence));
    assert_eq!(world.status(other), Some(200), "the session is over, and was before it in line");
    world.catch_up();
    assert!(world.statuses(&waits).iter().all(|status| *status == 410));
    assert_eq!(world.status(close), Some(200));
}

/// A crash in the middle: the session is over all the same, and what it had comes back.
#[test]
fn a_session_that_is_closed_by_half_when_the_server_ends() {
    for snapshot in [false, true] {
        let mut world = slow_world();
        world.open(1, 60_000);
        locks(&mut world, connection(1).of(1));
        world.done(connection(9), Queue, "q", queue(0));
        for _ in 0..MANY {
            world.done(connection(9), Queue, "q", put(b"m"));
            world.done(connection(1).of(1), Queue, "q", BORROW);
        }
        world.command(connection(1).of(1), Operation::Close);
        world.pass(0);
        if snapshot {
            world.restart_from_snapshot();
        } else {
            world.restart();
        }
        assert_eq!(world.try_(connection(1).of(1), Lock, "other", acquire(1)), 410);
        assert_eq!(world.kernel.census().holds, 7);
        world.open(1, 60_000);
        world.catch_up();
        assert_eq!((world.kernel.census().holds, world.kernel.census().sessions), (0, 1));
        for number in 1..=MANY {
            let message = world.done(connection(2).of(1), Queue, "q", TAKE);
            assert_eq!(message.headers.get(Header::Message), Some(number));
        }
    }
}

#[test]
fn a_session_that_expires() {
    let mut world = slow_world();
    world.open(1, 1_000);
    let waiters = locks(&mut world, connection(1).of(1));
    world.pass(1_000);
    assert_eq!(answered(&world, &waiters), 3);
    world.catch_up();
    assert_eq!(answered(&world, &waiters), 10);
}

/// Who closes a session and half closes gets its answer; who is gone needs none.
#[test]
fn who_closes_and_leaves() {
    for (half, answer) in [(true, Some(200)), (false, None)] {
        let mut world = slow_world();
        world.open(1, 60_000);
        locks(&mut world, connection(1).of(1));
        let close = world.command(connection(1).of(1), Operation::Close);
        assert!(!world.cancel(close));
        if half {
            world.half_close(1);
            assert_eq!(world.status(close), answer);
        }
        world.disconnect(1);
        world.catch_up();
        assert_eq!((world.status(close), world.kernel.census().sessions), (answer, 0));
    }
    let mut world = slow_world();
    world.open(1, 60_000);
    locks(&mut world, connection(1).of(1));
    let close = world.command(connection(1).of(1), Operation::Close);
    world.stop();
    assert_eq!(world.status(close), Some(503));
}

#[test]
fn a_connection_that_is_gone() {
    let mut world = slow_world();
    let waiters = locks(&mut world, connection(1));
    world.done(connection(9), Queue, "q", queue(0));
    for _ in 0..MANY {
        world.done(connection(9), Queue, "q", put(b"m"));
        world.done(connection(1), Queue, "q", BORROW);
    }
    world.disconnect(1);
    for part in [3, 6, 9, 10] {
        world.pass(0);
        assert_eq!(answered(&world, &waiters), part);
    }
    world.catch_up();
    for number in 1..=MANY {
        let message = world.done(connection(2), Queue, "q", TAKE);
        assert_eq!(message.headers.get(Header::Message), Some(number));
    }
}

/// The name is free at once: what is made under it has nothing of what was.
#[test]
fn an_object_that_is_deleted() {
    let mut world = slow_world();
    world.open(1, 60_000);
    world.done(connection(9), Semaphore, "s", semaphore(20));
    for _ in 0..MANY {
        world.hold(connection(1).of(1), Semaphore, "s", HoldMode::Permits(2));
    }
    let waits: Vec<_> =
        (0..MANY).map(|at| world.ask(connection(at), Semaphore, "s", acquire(1))).collect();
    world.done(connection(9), Semaphore, "s", Verb::Delete);
    assert_eq!(world.try_(connection(9), Semaphore, "s", acquire(1)), 404);
    world.done(connection(9), Semaphore, "s", semaphore(1));
    world.hold(connection(8), Semaphore, "s", HoldMode::Permits(1));
    // One gives up before it is told, and one is gone.
    assert!(world.cancel(waits[9]));
    world.disconnect(8);
    assert_eq!(world.status(waits[9]), Some(404));
    world.catch_up();
    let statuses = world.statuses(&waits);
    assert!(
        statuses.iter().enumerate().all(|(at, status)| *status == if at == 8 { 0 } else { 404 })
    );
    assert_eq!(world.available("s"), 1);
    assert_eq!(world.kernel.census().holds, 0);
    let close = world.command(connection(1).of(1), Operation::Close);
    assert_eq!(world.status(close), Some(200), "it has nothing any more");
}

/// Sessions that end meanwhile have nothing of it to give back.
#[test]
fn a_queue_that_is_deleted_while_messages_are_out() {
    let mut world = slow_world();
    world.open(1, 60_000);
    world.done(connection(9), Queue, "q", queue(0));
    let later = Verb::Put { payload: b"later", priority: 1, delay: 10 };
    for _ in 0..MANY {
        world.done(connection(9), Queue, "q", put(b"out"));
        world.done(connection(1).of(1), Queue, "q", BORROW);
        world.done(connection(9), Queue, "q", later);
    }
    for _ in 0..MANY {
        world.done(connection(9), Queue, "q", put(b"there"));
        world.done(connection(9), Queue, "q", later);
    }
    let waiters = locks(&mut world, connection(1).of(1));
    world.done(connection(9), Queue, "q", Verb::Delete);
    let close = world.command(connection(1).of(1), Operation::Close);
    world.pass(0);
    world.restart_from_snapshot();
    assert_eq!(world.kernel.census().messages, 0);
    world.catch_up();
    assert_eq!((world.status(close), answered(&world, &waiters)), (None, 0));
    assert_eq!(world.kernel.census().holds, 0);
}

/// Transfers, puts and takers of a queue that is deleted.
#[test]
fn a_queue_where_many_wait_is_deleted() {
    let mut world = slow_world();
    world.done(connection(9), Queue, "q", queue(1));
    let mut waits = Vec::new();
    for at in 1..=MANY {
        waits.push(world.ask(connection(at), Queue, "q", transfer(b"t")));
    }
    world.done(connection(9), Queue, "q", Verb::Delete);
    world.done(connection(9), Queue, "q", queue(0));
    let taker = world.ask(connection(1), Queue, "q", TAKE);
    world.disconnect(5);
    world.catch_up();
    waits.remove(4);
    assert!(world.statuses(&waits).iter().all(|status| *status == 404));
    assert_eq!((world.status(taker), world.kernel.census().messages), (None, 0));
    assert_eq!(world.kernel.census().bytes, 0);
}

/// What a latch has let through is let through, also if it is deleted before all of them were told.
#[test]
fn a_latch_that_is_deleted_when_it_has_opened() {
    let mut world = slow_world();
    world.done(connection(9), Latch, "l", latch(1));
    let waits: Vec<_> =
        (0..MANY).map(|at| world.ask(connection(at), Latch, "l", Verb::Wait)).collect();
    world.budget = 0;
    world.done(connection(9), Latch, "l", Verb::Down { by: 1 });
    assert_eq!(answered(&world, &waits), 0);
    world.done(connection(9), Latch, "l", Verb::Delete);
    world.budget = usize::MAX;
    world.catch_up();
    assert!(world.statuses(&waits).iter().all(|status| *status == 200));
}

/// All have arrived: none of them can break the barrier any more, and the next round begins at
/// once.
#[test]
fn a_barrier_that_trips() {
    let mut world = slow_world();
    world.open(1, 60_000);
    let numbered = world.ask(connection(20).of(1).seq(1), Barrier, "b", arrive(12));
    let waits: Vec<_> =
        (1..=MANY).map(|at| world.ask(connection(at), Barrier, "b", arrive(12))).collect();
    let last = world.ask(connection(30), Barrier, "b", arrive(12));
    assert_eq!(world.statuses(&[numbered, last]), [200, 200]);
    assert_eq!(answered(&world, &waits), 0);
    let next = world.ask(connection(30), Barrier, "b", arrive(2));
    assert!(world.cancel(waits[9]));
    assert_eq!(world.status(waits[9]), Some(200));
    world.half_close(9);
    assert_eq!(world.status(waits[8]), Some(200));
    world.disconnect(8);
    world.catch_up();
    let statuses = world.statuses(&waits);
    assert!(
        statuses.iter().enumerate().all(|(at, status)| *status == if at == 7 { 0 } else { 200 })
    );
    assert_eq!(world.header(waits[0], Header::Index), 1);
    assert_eq!(world.status(next), None);
    assert_eq!(world.waiting(Barrier, "b"), 1);
}

#[test]
fn a_barrier_that_is_reset() {
    let mut world = slow_world();
    let waits: Vec<_> =
        (1..=MANY).map(|at| world.ask(connection(at), Barrier, "b", arrive(12))).collect();
    world.done(connection(30), Barrier, "b", Verb::Reset { count: None });
    assert_eq!(answered(&world, &waits), 0);
    assert!(world.cancel(waits[9]));
    assert_eq!(world.try_(connection(30), Barrier, "b", arrive(1)), 200);
    world.catch_up();
    assert!(world.statuses(&waits).iter().all(|status| *status == 409));
    world.disconnect(1);
    world.assert_empty();
}

/// Messages that are due together take their places in portions, too.
#[test]
fn messages_that_are_due() {
    let mut world = slow_world();
    world.done(connection(9), Queue, "q", queue(0));
    for _ in 0..MANY {
        let later = Verb::Put { payload: b"later", priority: 0, delay: 10 };
        world.done(connection(9), Queue, "q", later);
    }
    let ready = |world: &mut World| match world.details(Queue, "q") {
        Details::Queue { ready, delayed, .. } => (ready, delayed),
        other => panic!("{other:?} is no queue"),
    };
    world.pass(10);
    assert_eq!(ready(&mut world), (3, 7));
    assert!(world.kernel.next_deadline().is_some_and(|due| due <= world.time));
    world.pass(0);
    assert_eq!(ready(&mut world), (6, 4));
    for number in 1..=MANY {
        let message = world.done(connection(2), Queue, "q", TAKE);
        assert_eq!(message.headers.get(Header::Message), Some(number));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request for something.
    Ask {
        at: u64,
        object: usize,
        write: bool,
    },
    /// A message is put.
    Put,
    /// A session ends, or a connection.
    End {
        at: u64,
    },
    /// A connection waits for nothing any more.
    HalfClose {
        at: u64,
    },
    /// A connection does not read, or reads again.
    Pause {
        at: u64,
        paused: bool,
    },
    /// An object is deleted and made again.
    Replace {
        object: usize,
    },
    Arrive {
        at: u64,
    },
    Restart,
}

const OBJECTS: [(Kind, &str); 6] = [
    (Lock, "lock"),
    (Semaphore, "semaphore"),
    (ReadWriteLock, "table"),
    (Latch, "latch"),
    (Event, "event"),
    (Queue, "queue"),
];

fn create(world: &mut World, (kind, name): (Kind, &str)) {
    let verb = match kind {
        Semaphore => semaphore(5),
        Latch => latch(1),
        Event => crate::support::event(true, false),
        Queue => queue(0),
        _ => return,
    };
    world.done(connection(99), kind, name, verb);
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..4_u64;
    prop_oneof![
        20 => (at(), 0..OBJECTS.len(), any::<bool>())
            .prop_map(|(at, object, write)| Step::Ask { at, object, write }),
        6 => Just(Step::Put),
        3 => at().prop_map(|at| Step::End { at }),
        2 => at().prop_map(|at| Step::HalfClose { at }),
        3 => (at(), any::<bool>()).prop_map(|(at, paused)| Step::Pause { at, paused }),
        2 => (0..OBJECTS.len()).prop_map(|object| Step::Replace { object }),
        4 => at().prop_map(|at| Step::Arrive { at }),
        1 => Just(Step::Restart),
    ]
}

/// Two sessions and two connections; each end is given all the time that it needs.
fn run(steps: &[Step], portion: usize) -> (World, Vec<u16>) {
    let mut world = World::default();
    (world.portion, world.catches_up) = (portion, true);
    for object in OBJECTS {
        create(&mut world, object);
    }
    let mut names = [1, 2, 3, 4];
    let mut asked = Vec::new();
    for session in [0, 1] {
        world.open(session, 60_000);
    }
    for step in steps {
        let caller = |at: u64, names: &[u64; 4]| {
            let caller = connection(names[at as usize]);
            if at < 2 { caller.of(at.into()) } else { caller }
        };
        match *step {
            Step::Ask { at, object, write } => {
                let (kind, name) = OBJECTS[object];
                let verb = match kind {
                    ReadWriteLock => {
                        if write {
                            WRITE
                        } else {
                            READ
                        }
                    }
                    Latch | Event => Verb::Wait,
                    Queue => BORROW,
                    _ => acquire(1),
                };
                asked.push(world.ask(caller(at, &names), kind, name, verb));
            }
            Step::Put => drop(world.done(connection(99), Queue, "queue", put(b"m"))),
            Step::Arrive { at } => {
                asked.push(world.ask(caller(at, &names), Barrier, "b", arrive(3)));
            }
            Step::End { at } if at < 2 => {
                let session = caller(at, &names);
                asked.push(world.command(session, Operation::Close));
                world.open(at.into(), 60_000);
            }
            Step::End { at } => {
                world.disconnect(names[at as usize]);
                names[at as usize] += 10;
            }
            Step::HalfClose { at } => world.half_close(names[at as usize]),
            Step::Pause { at, paused: true } => world.pause(names[at as usize]),
            Step::Pause { at, paused: false } => world.resume(names[at as usize]),
            Step::Replace { object } => {
                let (kind, name) = OBJECTS[object];
                if !matches!(kind, Lock | ReadWriteLock) {
                    asked.push(world.ask(connection(99), kind, name, Verb::Delete));
                    create(&mut world, OBJECTS[object]);
                }
            }
            Step::Restart => {
                world.restart();
                asked.clear();
            }
        }
        assert!(!world.kernel.has_postponed());
    }
    let statuses = world.statuses(&asked);
    (world, statuses)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// However small the portions are, in the end all is as if there were none.
    #[test]
    fn portions_change_nothing_in_the_end(
        steps in prop::collection::vec(step(), 1..80),
        portion in 1..4_usize,
    ) {
        let (whole, expected) = run(&steps, usize::MAX);
        let (parts, statuses) = run(&steps, portion);
        prop_assert_eq!(statuses, expected);
        prop_assert_eq!(whole.kernel.census().waits, parts.kernel.census().waits);
        prop_assert_eq!(dump(whole.kernel.state()), dump(parts.kernel.state()));
    }
}
