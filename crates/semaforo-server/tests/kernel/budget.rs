//! How much one step may do for requests that waited: the rest is postponed, and no request
//! overtakes meanwhile.

use std::collections::BTreeSet;

use proptest::prelude::*;
use semaforo_server::kernel::{
    Header, HoldMode,
    Kind::{Barrier, Event, Latch, Lock, Queue, ReadWriteLock, Semaphore},
    Verb,
};

use crate::support::{
    BORROW, Caller, READ, RELEASE, Request, TAKE, WRITE, World, acquire, arrive, connection, dump,
    event, latch, put, queue, release, semaphore, transfer,
};

const NAME: &str = "q";
const MANY: u64 = 20;
static MESSAGE: [u8; 1000] = [b'm'; 1000];
/// What one who is let through adds at most: the message in an answer, in the outcome that is kept,
/// and a little.
const ONE: usize = 2 * MESSAGE.len() + 200;

fn world(capacity: u64) -> World {
    let mut world = World::default();
    world.done(connection(9), Queue, NAME, queue(capacity));
    world.open(1, 60_000);
    world
}

/// Does something with a small budget, and then what was postponed. Says how often that took
/// another step.
#[track_caller]
fn bounded(world: &mut World, step: impl FnOnce(&mut World)) -> usize {
    world.budget = 2 * ONE;
    let own = ONE + MANY as usize * 8;
    step(world);
    assert!(world.added < world.budget + own, "{} bytes at once", world.added);
    let mut ticks = 0;
    while world.kernel.has_postponed() {
        world.pass(0);
        assert!((1..world.budget + ONE).contains(&world.added), "{} bytes", world.added);
        ticks += 1;
    }
    world.budget = usize::MAX;
    ticks
}

/// Asks for as many messages, with numbers: each answer is kept.
fn takers(world: &mut World, at: u64) -> Vec<Request> {
    let taker = |seq| world.ask(connection(at).of(1).seq(seq), Queue, NAME, TAKE);
    (1..=MANY).map(taker).collect()
}

#[test]
fn messages_that_are_due_together() {
    let mut world = world(0);
    let takers = takers(&mut world, 1);
    for _ in 0..MANY {
        let later = Verb::Put { payload: &MESSAGE, priority: 0, delay: 10 };
        world.done(connection(9), Queue, NAME, later);
    }
    assert!(bounded(&mut world, |world| world.pass(10)) > 2);
    assert!(world.statuses(&takers).iter().all(|status| *status == 200));
}

#[test]
fn messages_that_return_together() {
    for session in [false, true] {
        let mut world = world(0);
        world.open(2, 1000);
        let borrower = if session { connection(2).of(2) } else { connection(2) };
        for _ in 0..MANY {
            world.done(connection(9), Queue, NAME, put(&MESSAGE));
            world.done(borrower, Queue, NAME, BORROW);
        }
        let takers = takers(&mut world, 1);
        let ticks = bounded(&mut world, |world| {
            world.disconnect(2);
            world.pass(if session { 1000 } else { 0 });
        });
        assert!(ticks > 2);
        assert!(world.statuses(&takers).iter().all(|status| *status == 200));
    }
}

#[test]
fn messages_that_find_space_together() {
    let mut world = world(MANY);
    for _ in 0..MANY {
        world.ask(connection(1), Queue, NAME, transfer(b""));
    }
    let puts: Vec<_> =
        (0..MANY).map(|_| world.ask(connection(2), Queue, NAME, put(&MESSAGE))).collect();
    assert!(world.kernel.has_heavy_waits());
    assert!(bounded(&mut world, |world| world.disconnect(1)) > 2);
    let numbers: Vec<_> = puts.iter().map(|put| world.header(*put, Header::Message)).collect();
    assert!(numbers.is_sorted());
    assert!(!world.kernel.has_heavy_waits());
}

#[test]
fn takers_that_are_back_together() {
    let mut world = world(0);
    let takers = takers(&mut world, 1);
    world.pause(1);
    for _ in 0..MANY {
        world.done(connection(9), Queue, NAME, put(&MESSAGE));
    }
    assert!(bounded(&mut world, |world| world.resume(1)) > 2);
    assert!(world.statuses(&takers).iter().all(|status| *status == 200));
}

/// One hold is given back, and many readers are let in: not all at once, and no later reader among
/// them.
#[test]
fn readers_that_go_in_together_when_a_write_ends() {
    let mut world = World::default();
    let first = world.hold(connection(9), ReadWriteLock, "t", HoldMode::Write);
    let readers: Vec<_> =
        (1..=MANY).map(|at| world.ask(connection(at), ReadWriteLock, "t", READ)).collect();
    let writer = world.ask(connection(100), ReadWriteLock, "t", WRITE);
    world.budget = 300;

    world.done(connection(9), ReadWriteLock, "t", release(first));
    let mut steps = 0;
    let mut late = Vec::new();
    while world.kernel.has_postponed() {
        // Also if a reader that went in leaves before the others are in.
        if steps == 1 {
            let fence = world.header(readers[0], Header::Fence);
            world.done(connection(1), ReadWriteLock, "t", release(fence));
        }
        late.push(world.ask(connection(200 + steps), ReadWriteLock, "t", READ));
        world.pass(0);
        assert!(world.added < 2 * world.budget, "{} bytes at once", world.added);
        steps += 1;
    }
    assert!(steps > 1, "{steps}");
    assert!(world.statuses(&readers).iter().all(|status| *status == 200));
    assert!(world.statuses(&late).iter().all(|status| *status == 0));
    for (reader, at) in readers.iter().zip(1..).skip(1) {
        assert_eq!(world.status(writer), None);
        let fence = world.header(*reader, Header::Fence);
        world.done(connection(at), ReadWriteLock, "t", release(fence));
    }
    assert_eq!(world.status(writer), Some(200));
    world.disconnect(100);
    world.catch_up();
    assert!(world.statuses(&late).iter().all(|status| *status == 200));
    for step in 0..steps {
        world.disconnect(200 + step);
    }
    assert_eq!(world.show(ReadWriteLock, "t"), None, "nothing is left of it");
}

/// What lets many through at once, though each of them adds nothing to the journal.
#[test]
fn requests_without_messages_that_are_let_through_together() {
    type Case = (fn(&mut World), fn(&mut World));
    let cases: [(_, _, Case); 3] = [
        (
            Latch,
            Verb::Wait,
            (
                |world| {
                    let one = latch(1);
                    world.done(connection(9), Latch, "x", one);
                },
                |world| {
                    world.done(connection(9), Latch, "x", Verb::Down { by: 1 });
                },
            ),
        ),
        (
            Event,
            Verb::Wait,
            (
                |world| {
                    let unset = event(false, false);
                    world.done(connection(9), Event, "x", unset);
                },
                |world| {
                    world.done(connection(9), Event, "x", Verb::Set);
                },
            ),
        ),
        (
            Semaphore,
            acquire(1),
            (
                |world| {
                    world.done(connection(9), Semaphore, "x", semaphore(100));
                    world.hold(connection(9), Semaphore, "x", HoldMode::Permits(100));
                },
                |world| {
                    world.done(connection(9), Semaphore, "x", RELEASE);
                },
            ),
        ),
    ];
    for (kind, verb, (prepare, let_through)) in cases {
        for deleted in [false, true] {
            let mut world = World::default();
            prepare(&mut world);
            let waits: Vec<_> =
                (1..=MANY).map(|at| world.ask(connection(at), kind, "x", verb)).collect();
            world.budget = 300;
            let_through(&mut world);
            let through = |world: &World| {
                let statuses = world.statuses(&waits);
                statuses.iter().filter(|status| **status == 200).count()
            };
            assert!((1..8).contains(&through(&world)), "{}", through(&world));
            assert!(world.statuses(&waits).is_sorted_by(|one, other| one >= other), "in order");
            // One that does not want to wait is behind all who do, and learns how it went with the
            // next step.
            let impatient = world.ask(connection(50).now(), kind, "x", verb);
            if deleted {
                let before = through(&world);
                world.budget = usize::MAX;
                world.done(connection(9), kind, "x", Verb::Delete);
                assert!(!world.kernel.has_postponed());
                // Who was let through, and only was not told, has got through; who was to hold
                // something has nothing.
                let status = if kind == Semaphore { 404 } else { 200 };
                assert_eq!(world.statuses(&waits)[before..], vec![status; MANY as usize - before]);
                continue;
            }
            if kind == Semaphore {
                world.catch_up();
                assert_eq!(through(&world), MANY as usize);
                continue;
            }
            // All pass: a later request overtakes no other in that.
            assert_eq!(world.status(impatient), Some(200));
            // And one that waited when it was opened passes, although it is shut again; whose time
            // is up, too.
            world.done(connection(9), kind, "x", Verb::Reset { count: Some(1) });
            assert!(world.cancel(waits[MANY as usize - 1]));
            assert_eq!(world.status(waits[MANY as usize - 1]), Some(200));
            let late = world.ask(connection(60), kind, "x", verb);
            world.catch_up();
            assert_eq!(through(&world), MANY as usize);
            assert_eq!(world.status(late), None);
            let_through(&mut world);
            world.catch_up();
            assert_eq!(world.status(late), Some(200));
        }
    }
}

/// Time limits that end together, and sessions: not all at once.
#[test]
fn what_is_due_at_the_same_time() {
    let mut world = World::default();
    world.hold(connection(9), Lock, "a", HoldMode::Permits(1));
    let waits: Vec<_> =
        (1..=MANY).map(|at| world.ask(connection(at).within(10), Lock, "a", acquire(1))).collect();
    for session in 1..=MANY {
        world.open(session.into(), 100);
        world.ask(connection(50).of(session.into()), Lock, "a", acquire(1));
    }
    world.most_handed = 300;
    world.pass(10);
    let ended = |world: &World| {
        world.statuses(&waits).into_iter().take_while(|status| *status == 204).count()
    };
    assert!((1..8).contains(&ended(&world)), "{}", ended(&world));
    let is_due =
        |world: &World| world.kernel.next_deadline().is_some_and(|time| time <= world.time);
    assert!(is_due(&world), "it goes on at once");
    while is_due(&world) {
        world.pass(0);
        assert!(world.added < 2 * world.most_handed, "{} bytes at once", world.added);
    }
    assert_eq!(ended(&world), MANY as usize);
    world.pass(100);
    let sessions = world.kernel.census().sessions;
    assert!((1..MANY as usize).contains(&sessions), "{sessions}");
    while is_due(&world) {
        world.pass(0);
    }
    let census = world.kernel.census();
    assert_eq!((census.sessions, census.waits), (0, 0));
}

#[test]
fn queues_take_turns() {
    let mut world = World::default();
    let mut takers = Vec::new();
    world.budget = 0;
    for name in ["a", "b", "c"] {
        world.done(connection(9), Queue, name, queue(0));
        takers.extend([1, 2].map(|at| world.ask(connection(at), Queue, name, TAKE)));
        for _ in 0..2 {
            world.done(connection(9), Queue, name, put(b"m"));
        }
    }
    world.budget = 1;
    let mut served = Vec::new();
    while world.kernel.has_postponed() {
        world.pass(0);
        served.extend(takers.iter().position(|taker| world.order.last() == Some(taker)));
    }
    assert_eq!(served, [0, 2, 4, 1, 3, 5]);
}

#[test]
fn who_comes_later_stands_behind_those_who_are_postponed() {
    let mut world = world(2);
    world.budget = 0;
    let first = world.ask(connection(1), Queue, NAME, TAKE);
    world.done(connection(9), Queue, NAME, put(b"a"));
    let second = world.ask(connection(2), Queue, NAME, TAKE);
    let impatient = world.ask(connection(3).now(), Queue, NAME, TAKE);
    world.done(connection(9), Queue, NAME, put(b"b"));
    let third = world.ask(connection(9), Queue, NAME, put(b"c"));
    let late = world.ask(connection(9).now(), Queue, NAME, put(b"d"));
    let sender = world.ask(connection(9).now(), Queue, NAME, transfer(b"e"));
    let all = [first, second, impatient, third, late, sender];
    assert_eq!(world.statuses(&all), [0; 6]);
    world.budget = usize::MAX;
    world.pass(0);
    assert_eq!(world.statuses(&all), [200; 6]);
    let payloads = [first, second, impatient].map(|taker| world.payload(taker)[0]);
    assert_eq!(payloads, *b"abe", "c and d had to wait for space");
}

#[test]
fn who_does_not_wait_is_refused_at_the_next_step_if_there_is_no_room_then() {
    let mut world = world(0);
    world.budget = 0;
    let first = world.ask(connection(1), Queue, NAME, TAKE);
    for message in [b"a", b"b"] {
        world.done(connection(9), Queue, NAME, put(message));
    }
    let impatient = world.ask(connection(2).now(), Queue, NAME, TAKE);
    let again = connection(3).of(1).seq(1);
    world.ask(again, Queue, NAME, TAKE);
    let again = world.ask(again.now(), Queue, NAME, TAKE);
    let all = [first, impatient, again];
    assert_eq!(world.statuses(&all), [0; 3]);
    assert_eq!(world.kernel.next_deadline(), Some(world.time));
    world.pass(0);
    assert_eq!(world.statuses(&all), [0, 204, 204]);
    world.budget = usize::MAX;
    world.pass(0);
    assert_eq!(world.payload(first), b"a");
}

#[test]
fn a_queue_that_is_deleted_is_not_postponed_and_neither_is_the_next_in_its_place() {
    let mut world = world(0);
    world.budget = 0;
    let postpone = |world: &mut World| {
        let taker = world.ask(connection(1), Queue, NAME, TAKE);
        world.done(connection(9), Queue, NAME, put(b"a"));
        assert!(world.kernel.has_postponed());
        taker
    };
    let taker = postpone(&mut world);
    world.done(connection(9), Queue, NAME, Verb::Delete);
    assert_eq!(world.status(taker), Some(404));
    assert!(!world.kernel.has_postponed());
    world.done(connection(9), Queue, NAME, queue(0));
    let taker = postpone(&mut world);
    assert!(world.cancel(taker));
    assert!(!world.kernel.has_postponed(), "nobody is there to go on with");
    world.done(connection(2), Queue, NAME, TAKE);
    postpone(&mut world);
    world.stop();
    assert!(!world.kernel.has_postponed());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put { at: u64, delay: bool },
    Take { at: u64, verb: Verb<'static>, numbered: bool },
    Transfer { at: u64 },
    Ack { at: u64, pick: u8 },
    Return { at: u64, pick: u8 },
    Pause { at: u64, paused: bool },
    Disconnect { at: u64 },
    Pass,
    CatchUp,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 1..4_u64;
    prop_oneof![
        8 => (at(), prop::bool::weighted(0.2)).prop_map(|(at, delay)| Step::Put { at, delay }),
        6 => (at(), prop::bool::weighted(0.2), any::<bool>()).prop_map(|(at, manual, numbered)| {
            Step::Take { at, verb: Verb::Take { manual }, numbered }
        }),
        1 => at().prop_map(|at| Step::Transfer { at }),
        2 => (at(), any::<u8>()).prop_map(|(at, pick)| Step::Ack { at, pick }),
        1 => (at(), any::<u8>()).prop_map(|(at, pick)| Step::Return { at, pick }),
        3 => (at(), any::<bool>()).prop_map(|(at, paused)| Step::Pause { at, paused }),
        1 => at().prop_map(|at| Step::Disconnect { at }),
        2 => Just(Step::Pass),
        2 => Just(Step::CatchUp),
    ]
}

/// Does the steps, and goes on with what was postponed before each step whose meaning depends on
/// how far that is (one who does not read gets what is there, and is passed over otherwise), and at
/// the end. Gives the takers in the order of their answers.
fn run(steps: &[Step], budget: usize) -> (World, Vec<Request>) {
    let mut world = world(3);
    let (mut takers, mut names, mut paused) = (Vec::new(), [0, 1, 2, 3], BTreeSet::new());
    for (seq, step) in (1..).zip(steps) {
        let whenever = matches!(step, Step::Put { .. } | Step::Take { .. });
        if !whenever || !paused.is_empty() {
            world.budget = budget.max(1);
            world.catch_up();
        }
        // Who goes gives up first what it waits for, then what it has: others may get those the
        // other way round.
        world.budget = if matches!(step, Step::Disconnect { .. }) { usize::MAX } else { budget };
        let caller = |at: u64| connection(names[at as usize]);
        let out = |world: &World, at: u64, pick: u8| {
            let taken: Vec<_> = takers
                .iter()
                .filter(|(name, manual, taker)| {
                    *manual && *name == names[at as usize] && world.status(*taker) == Some(200)
                })
                .map(|(_, _, taker)| world.header(*taker, Header::Message))
                .collect();
            taken.get(usize::from(pick) % taken.len().max(1)).copied().unwrap_or(0)
        };
        match *step {
            Step::Put { at, delay } => {
                let payload = &MESSAGE[..usize::try_from(seq).unwrap_or(0)];
                let delay = if delay { 10 } else { 0 };
                world.ask(caller(at), Queue, NAME, Verb::Put { payload, priority: 0, delay });
            }
            Step::Take { at, verb, numbered } => {
                let caller = if numbered { caller(at).of(1).seq(seq) } else { caller(at) };
                let Caller { session, connection, .. } = caller;
                let taker = world.ask(caller, Queue, NAME, verb);
                takers.push((connection, verb == BORROW && session.is_none(), taker));
            }
            Step::Transfer { at } => {
                world.ask(caller(at), Queue, NAME, transfer(b"t"));
            }
            Step::Ack { at, pick } => {
                let message = out(&world, at, pick);
                world.ask(caller(at), Queue, NAME, Verb::Ack { message, deliveries: None });
            }
            Step::Return { at, pick } => {
                let message = out(&world, at, pick);
                world.ask(
                    caller(at),
                    Queue,
                    NAME,
                    Verb::Return { message, deliveries: None, delay: 0 },
                );
            }
            Step::Pause { at, paused: true } => {
                paused.insert(at);
                world.pause(names[at as usize]);
            }
            Step::Pause { at, paused: false } => {
                paused.remove(&at);
                world.resume(names[at as usize]);
            }
            Step::Disconnect { at } => {
                paused.remove(&at);
                world.disconnect(names[at as usize]);
                names[at as usize] += 10;
            }
            Step::Pass => world.pass(10),
            Step::CatchUp => {}
        }
    }
    world.budget = budget.max(1);
    world.catch_up();
    let is_taker = |request: &&Request| takers.iter().any(|(_, _, taker)| taker == *request);
    let order = world.order.iter().filter(is_taker).copied().collect();
    (world, order)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// The same messages reach the same takers in the same order, however small the budget is.
    #[test]
    fn postponing_changes_nothing_in_the_end(
        steps in prop::collection::vec(step(), 1..60),
        budget in 0..200_usize,
    ) {
        let (large, expected) = run(&steps, usize::MAX);
        let (small, order) = run(&steps, budget);
        prop_assert_eq!(order, expected);
        prop_assert_eq!(&small.answers, &large.answers);
        prop_assert_eq!(dump(small.kernel.state()), dump(large.kernel.state()));
    }
}

/// A journal without space holds up only the requests that would add a message to it.
#[test]
fn who_adds_nothing_is_not_held_up_by_a_full_disk() {
    let mut world = World::default();
    world.open(1, 60_000);
    for name in ["a", "b"] {
        world.done(connection(9), Queue, name, queue(1));
    }
    world.is_starved = true;
    let kept = world.ask(connection(1).of(1).seq(1), Queue, "a", TAKE);
    let plain = [2, 3].map(|at| world.ask(connection(at), Queue, "b", TAKE));
    for name in ["a", "b"] {
        world.done(connection(9), Queue, name, put(b"m"));
    }
    assert!(world.kernel.has_postponed());
    assert_eq!(world.statuses(&plain[..1]), [200]);
    world.done(connection(9), Queue, "b", put(b"n"));
    assert_eq!(world.statuses(&plain), [200, 200]);
    let late = world.ask(connection(4), Queue, "a", TAKE);
    world.pass(0);
    assert_eq!(world.statuses(&[kept, late]), [0, 0], "nobody overtakes");
    world.is_starved = false;
    world.pass(0);
    assert_eq!(world.statuses(&[kept, late]), [200, 0]);
    assert!(!world.kernel.has_postponed());
}

/// One party goes away, and the others are told in portions; one of those may go away, too.
#[test]
fn parties_of_a_barrier_that_breaks() {
    let mut world = World::default();
    let all: Vec<_> =
        [1, 1, 2, 3, 4].map(|at| world.ask(connection(at), Barrier, "b", arrive(10))).into();
    world.budget = 0;
    world.half_close(1);
    assert_eq!(world.statuses(&all), [204, 409, 0, 0, 0]);
    assert!(world.kernel.has_postponed());
    // It is broken for all who come, and for who leaves.
    assert_eq!(world.try_(connection(5), Barrier, "b", arrive(10)), 409);
    assert!(world.cancel(all[2]));
    assert_eq!(world.status(all[2]), Some(409));
    world.disconnect(3);
    world.budget = usize::MAX;
    world.catch_up();
    assert_eq!(world.statuses(&all), [204, 409, 409, 0, 409]);
    world.done(connection(5), Barrier, "b", Verb::Reset { count: None });
    assert_eq!(world.show(Barrier, "b"), None);
}
