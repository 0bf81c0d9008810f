//! Connections with very many waiting requests that end, or do not read for a while: what follows
//! from that is done in portions, and no request gets anything meanwhile that it would not have
//! got.

use semaforo_server::kernel::{
    HoldMode,
    Kind::{Latch, Lock, Queue, Semaphore},
    Verb,
};

use crate::support::{
    Caller, RELEASE, Request, TAKE, World, acquire, connection, latch, put, queue, semaphore,
    transfer,
};

const MANY: u64 = 10;

/// A world that does three things at a time, with a semaphore whose only permit connection 9 holds.
fn slow_world() -> World {
    let mut world = World::default();
    world.portion = 3;
    world.done(connection(9), Semaphore, "s", semaphore(1));
    world.hold(connection(9), Semaphore, "s", HoldMode::Permits(1));
    world
}

/// So many requests that wait for the permit.
fn waits(world: &mut World, caller: Caller) -> Vec<Request> {
    (0..MANY).map(|_| world.ask(caller, Semaphore, "s", acquire(1))).collect()
}

fn answered(world: &World, requests: &[Request]) -> usize {
    requests.iter().filter(|request| world.status(**request).is_some()).count()
}

#[test]
fn a_connection_that_is_gone() {
    let mut world = slow_world();
    waits(&mut world, connection(1));
    let other = world.ask(connection(2), Semaphore, "s", acquire(1));
    world.disconnect(1);
    for left in [10, 7] {
        assert_eq!(world.waiting(Semaphore, "s"), left + 1);
        world.pass(0);
    }
    world.done(connection(9), Semaphore, "s", RELEASE);
    assert_eq!(world.status(other), Some(200), "who was before it in line is gone");
    world.catch_up();
    world.disconnect(2);
    world.done(connection(9), Semaphore, "s", Verb::Delete);
    world.assert_empty();
}

/// What a session can ask for again keeps its place.
#[test]
fn requests_of_a_session_whose_connection_is_gone() {
    let mut world = slow_world();
    world.open(1, 60_000);
    let session = connection(1).of(1);
    for seq in 1..=MANY {
        world.ask(session.seq(seq), Semaphore, "s", acquire(1));
    }
    let other = world.ask(connection(2), Semaphore, "s", acquire(1));
    world.disconnect(1);
    world.done(connection(9), Semaphore, "s", RELEASE);
    assert_eq!(world.status(other), Some(200), "all others are passed over");
    world.catch_up();
    let again = world.ask(connection(3).of(1).seq(4), Semaphore, "s", acquire(1));
    let behind = world.ask(connection(4), Semaphore, "s", acquire(1));
    world.done(connection(2), Semaphore, "s", RELEASE);
    assert_eq!(world.statuses(&[again, behind]), [200, 0]);
    assert_eq!(world.waiting(Semaphore, "s"), MANY as usize);
}

/// Each request is answered; when all are it is said that there will be no more.
#[test]
fn a_connection_that_half_closes() {
    let mut world = slow_world();
    let fence = world.hold(connection(1), Lock, "l", HoldMode::Permits(1));
    let requests = waits(&mut world, connection(1));
    world.half_close(1);
    assert_eq!(answered(&world, &requests), 0);
    for part in [3, 6, 9] {
        world.pass(0);
        assert_eq!(answered(&world, &requests), part);
        assert!(world.given_up.is_empty());
    }
    world.done(connection(9), Semaphore, "s", RELEASE);
    assert_eq!(world.statuses(&requests), [204; MANY as usize]);
    world.catch_up();
    assert_eq!(world.given_up, [1]);
    // It keeps what it has until it is gone.
    world.done(connection(9), Lock, "l", Verb::Check { fence });
    world.disconnect(1);
    assert_eq!(world.try_(connection(9), Lock, "l", Verb::Check { fence }), 410);
    assert_eq!(world.given_up, [1]);
}

#[test]
fn a_connection_that_half_closes_and_is_gone() {
    let mut world = slow_world();
    world.hold(connection(1), Lock, "l", HoldMode::Permits(1));
    let requests = waits(&mut world, connection(1));
    world.half_close(1);
    world.pass(0);
    world.disconnect(1);
    world.catch_up();
    assert_eq!(answered(&world, &requests), 3);
    assert_eq!((world.kernel.census().waits, world.kernel.census().holds), (0, 1));
    assert!(world.given_up.is_empty());
}

/// A message that was to be transferred by a connection that is gone may be taken until it is
/// withdrawn: no client was told that it was not.
#[test]
fn transfers_of_a_connection_that_is_gone() {
    let mut world = slow_world();
    world.done(connection(9), Queue, "q", queue(0));
    let transfers: Vec<_> =
        (0..MANY).map(|_| world.ask(connection(1), Queue, "q", transfer(b"t"))).collect();
    world.disconnect(1);
    world.pass(0);
    world.done(connection(2), Queue, "q", TAKE);
    world.catch_up();
    assert_eq!(answered(&world, &transfers), 1);
    assert_eq!(world.kernel.census().messages, 0);
    assert_eq!(world.try_(connection(2).now(), Queue, "q", TAKE), 204);
}

#[test]
fn a_connection_that_does_not_read() {
    let mut world = slow_world();
    let requests = waits(&mut world, connection(1));
    let other = world.ask(connection(2), Semaphore, "s", acquire(1));
    world.pause(1);
    world.done(connection(9), Semaphore, "s", RELEASE);
    assert_eq!((world.status(other), answered(&world, &requests)), (Some(200), 0));
    world.pass(0);
    // It reads before it was passed over as a whole, and pauses again before it is back as a whole.
    world.resume(1);
    world.pass(0);
    world.pause(1);
    world.catch_up();
    world.done(connection(2), Semaphore, "s", RELEASE);
    assert_eq!((world.available("s"), answered(&world, &requests)), (1, 0));
    world.resume(1);
    world.catch_up();
    for part in 1..=MANY as usize {
        assert_eq!(answered(&world, &requests), part);
        assert_eq!(world.status(requests[part - 1]), Some(200), "in order");
        world.done(connection(1), Semaphore, "s", RELEASE);
    }
}

/// While it is gone through, some of its requests are withdrawn.
#[test]
fn requests_that_end_while_their_connection_is_passed_over() {
    let mut world = slow_world();
    let requests = waits(&mut world, connection(1));
    world.pause(1);
    world.pass(0);
    for request in &requests[3..] {
        assert!(world.cancel(*request));
    }
    world.catch_up();
    world.resume(1);
    world.catch_up();
    assert_eq!(world.waiting(Semaphore, "s"), 3);
    world.done(connection(9), Semaphore, "s", RELEASE);
    assert_eq!(world.status(requests[0]), Some(200));
}

#[test]
fn a_connection_that_does_not_read_and_is_gone() {
    let mut world = slow_world();
    for number in 0..MANY {
        world.hold(connection(1), Lock, &format!("l{number}"), HoldMode::Permits(1));
    }
    world.pause(1);
    world.disconnect(1);
    for _ in 0..MANY {
        world.pass(0);
    }
    assert!(!world.kernel.has_postponed());
    assert_eq!(world.kernel.census().holds, 1);
}

/// They are answered nowhere, and still not ended all at once.
#[test]
fn time_limits_of_requests_that_nobody_asks_for_any_more() {
    let mut world = slow_world();
    world.open(1, 60_000);
    for seq in 1..=MANY {
        world.ask(connection(1).of(1).seq(seq).within(10), Semaphore, "s", acquire(1));
    }
    world.disconnect(1);
    world.catch_up();
    world.pass(10);
    for left in [7, 4, 1, 0] {
        assert_eq!(world.waiting(Semaphore, "s"), left);
        world.pass(0);
    }
}

/// Sessions that have nothing, and sessions with outcomes that are forgotten with them.
#[test]
fn sessions_that_end_together() {
    let mut world = slow_world();
    for session in 1..=u128::from(MANY) {
        world.open(session, 10);
    }
    world.pass(10);
    for left in [7, 4, 1, 0] {
        assert_eq!(world.kernel.census().sessions, left);
        world.pass(0);
    }
    world.done(connection(9), Latch, "open", latch(0));
    for session in [1, 2] {
        world.open(session, 10);
        for seq in 1..=MANY {
            world.done(connection(1).of(session).seq(seq), Latch, "open", Verb::Wait);
        }
    }
    world.pass(10);
    assert_eq!(world.kernel.census().sessions, 1);
}

/// What is let through and kept needs space in the journal: without it, it is told later.
#[test]
fn requests_that_were_let_through_and_have_to_be_told_when_there_is_space() {
    for deleted in [false, true] {
        let mut world = slow_world();
        world.open(1, 60_000);
        world.done(connection(9), Latch, "l", latch(1));
        let session = connection(1).of(1);
        let ask = |seq| world.ask(session.seq(seq), Latch, "l", Verb::Wait);
        let requests: Vec<_> = (1..=MANY).map(ask).collect();
        world.budget = 0;
        world.done(connection(9), Latch, "l", Verb::Down { by: 1 });
        if deleted {
            world.done(connection(9), Latch, "l", Verb::Delete);
        }
        (world.budget, world.space) = (usize::MAX, 0);
        let journaled = world.journal.len();
        assert!(world.cancel(requests[9]));
        for _ in 0..MANY {
            world.pass(0);
        }
        assert_eq!(world.journal.len(), journaled);
        assert_eq!(answered(&world, &requests), 0);
        world.space = usize::MAX;
        world.catch_up();
        assert_eq!(world.statuses(&requests), [200; MANY as usize]);
    }
}

/// Few enough to be told at once, but there is no space to keep what they are told.
#[test]
fn a_latch_that_is_deleted_when_there_is_little_space() {
    let mut world = slow_world();
    world.portion = usize::MAX;
    world.open(1, 60_000);
    world.done(connection(9), Latch, "l", latch(1));
    let session = connection(1).of(1);
    let ask = |seq| world.ask(session.seq(seq), Latch, "l", Verb::Wait);
    let requests: Vec<_> = (1..=MANY).map(ask).collect();
    world.budget = 0;
    world.done(connection(9), Latch, "l", Verb::Down { by: 1 });
    (world.budget, world.space) = (usize::MAX, 100);
    let journaled = world.journal.len();
    world.done(connection(9), Latch, "l", Verb::Delete);
    assert!(world.journal.len() - journaled < world.space);
    world.space = usize::MAX;
    world.catch_up();
    assert_eq!(world.statuses(&requests), [200; MANY as usize]);
    world.done(connection(9), Queue, "q", queue(0));
    world.done(connection(9), Queue, "q", put(b"m"));
}
