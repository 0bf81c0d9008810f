//! Requests with a number can be made again: they are done once, and answered as before.

use semaforo_server::kernel::{
    Details, Header,
    Kind::{Latch, Lock, Queue, Semaphore},
    Operation, Verb,
};

use crate::support::{
    Caller, RELEASE, TAKE, World, acquire, connection, latch, put, queue, semaphore,
};

const SESSION: Caller = connection(1).of(1);

fn world() -> World {
    let mut world = World::default();
    world.open(1, 60_000);
    world.done(connection(9), Semaphore, "s", semaphore(5));
    world.done(connection(9), Queue, "q", queue(0));
    world.done(connection(9), Latch, "l", latch(9));
    world
}

#[test]
fn the_same_request_is_done_once_and_answered_the_same_also_after_a_restart() {
    for way in 0..3 {
        let mut world = world();
        let again = |world: &mut World| match way {
            0 => {}
            1 => world.restart(),
            _ => world.restart_from_snapshot(),
        };
        let verbs = [acquire(2), RELEASE];
        for (seq, verb) in (1..).zip(verbs) {
            let first = world.done(SESSION.seq(seq), Semaphore, "s", verb);
            again(&mut world);
            assert_eq!(world.done(SESSION.seq(seq), Semaphore, "s", verb), first);
        }
        assert_eq!(world.available("s"), 5);
        let down = world.done(SESSION.seq(3), Latch, "l", Verb::Down { by: 2 });
        let message = world.done(SESSION.seq(4), Queue, "q", put(b"a"));
        let taken = world.done(SESSION.seq(5), Queue, "q", TAKE);
        again(&mut world);
        assert_eq!(world.done(SESSION.seq(3), Latch, "l", Verb::Down { by: 2 }), down);
        assert_eq!(world.done(SESSION.seq(4), Queue, "q", put(b"a")), message);
        assert_eq!(world.done(connection(7).of(1).seq(5), Queue, "q", TAKE), taken);
        assert_eq!(taken.payload(), Some(&b"a"[..]));
        assert_eq!(world.details(Latch, "l"), Details::Latch { count: 7, start: 9 });
        assert_eq!(world.kernel.census().messages, 0);
    }
}

#[test]
fn the_same_number_with_another_request_is_refused() {
    let mut world = world();
    world.done(SESSION.digest(1, 10), Lock, "a", acquire(1));
    assert_eq!(world.try_(SESSION.digest(1, 11), Lock, "a", RELEASE), 409);
    world.ask(SESSION.digest(2, 20), Lock, "a", acquire(1));
    assert_eq!(world.try_(SESSION.digest(2, 21), Lock, "a", acquire(1)), 409);
    assert_eq!(world.waiting(Lock, "a"), 1);
    world.restart();
    assert_eq!(world.try_(SESSION.digest(1, 11), Lock, "a", RELEASE), 409);
}

#[test]
fn what_was_acknowledged_is_forgotten_and_asking_for_it_ends_the_connection() {
    let mut world = world();
    for seq in 1..=3 {
        world.done(SESSION.seq(seq), Latch, "l", Verb::Down { by: 1 });
    }
    let ping = world.command(SESSION.acked(2), Operation::Ping);
    assert_eq!(world.status(ping), Some(200));
    for seq in [1, 2] {
        let request = world.ask(SESSION.seq(seq), Latch, "l", Verb::Down { by: 1 });
        assert_eq!((world.status(request), world.closed.last()), (None, Some(&request)));
    }
    world.done(SESSION.seq(3).acked(1), Latch, "l", Verb::Down { by: 1 });
    world.restart();
    let request = world.ask(SESSION.seq(2), Latch, "l", Verb::Down { by: 1 });
    assert_eq!(world.closed, [request]);
    let request = world.ask(SESSION.seq(4).acked(4), Latch, "l", Verb::Down { by: 1 });
    assert_eq!(world.closed.last(), Some(&request));
    assert_eq!(world.details(Latch, "l"), Details::Latch { count: 6, start: 9 });
}

#[test]
fn at_most_1024_numbers_are_in_use() {
    let mut world = world();
    assert_eq!(world.try_(SESSION.seq(1024), Latch, "l", Verb::Down { by: 1 }), 200);
    assert_eq!(world.try_(SESSION.seq(1025), Latch, "l", Verb::Down { by: 1 }), 429);
    assert_eq!(world.try_(SESSION.seq(1025).acked(1), Latch, "l", Verb::Down { by: 1 }), 200);
    assert_eq!(world.try_(SESSION.seq(u64::MAX), Latch, "l", Verb::Down { by: 1 }), 429);
}

#[test]
fn what_changed_nothing_is_tried_again() {
    let mut world = world();
    let fence = world.hold(connection(2), Lock, "a", semaforo_server::kernel::HoldMode::Permits(1));
    assert_eq!(world.try_(SESSION.seq(1).now(), Lock, "a", acquire(1)), 204);
    assert_eq!(world.try_(SESSION.seq(2), Latch, "l", Verb::Down { by: 99 }), 400);
    world.done(connection(2), Lock, "a", crate::support::release(fence));
    assert_eq!(world.try_(SESSION.seq(1), Lock, "a", acquire(1)), 200);
    assert_eq!(world.try_(SESSION.seq(2), Latch, "l", Verb::Down { by: 1 }), 200);
}

#[test]
fn what_was_granted_while_the_answer_was_lost_is_answered_later() {
    let mut world = world();
    world.hold(connection(2), Lock, "a", semaforo_server::kernel::HoldMode::Permits(1));
    let first = world.ask(SESSION.seq(1), Lock, "a", acquire(1));
    world.done(connection(2), Lock, "a", RELEASE);
    let fence = world.header(first, Header::Fence);
    world.disconnect(1);
    world.restart();
    let again = world.done(connection(3).of(1).seq(1), Lock, "a", acquire(1));
    assert_eq!(again.headers.get(Header::Fence), Some(fence));
    assert_eq!(world.kernel.census().holds, 1);
}

#[test]
fn a_message_that_was_taken_with_a_number_does_not_return_and_is_not_lost() {
    let mut world = world();
    let first = world.ask(SESSION.seq(1), Queue, "q", TAKE);
    world.disconnect(1);
    world.done(connection(2), Queue, "q", put(b"a"));
    assert_eq!(world.status(first), None, "it is dormant");
    assert_eq!(world.kernel.census().messages, 1);
    let again = world.ask(connection(3).of(1).seq(1), Queue, "q", TAKE);
    assert_eq!(world.payload(again), b"a");
    world.restart();
    let third = world.ask(connection(4).of(1).seq(1), Queue, "q", TAKE);
    assert_eq!(world.payload(third), b"a");
    assert_eq!(world.header(third, Header::Deliveries), 1);
}

#[test]
fn numbers_need_a_session() {
    let mut world = world();
    assert_eq!(world.try_(connection(1).seq(1), Lock, "a", acquire(1)), 400);
    assert_eq!(world.try_(connection(1).acked(1), Lock, "a", acquire(1)), 400);
    assert_eq!(world.try_(connection(1).of(99).seq(1), Lock, "a", acquire(1)), 410);
}

#[test]
fn an_answer_that_was_acknowledged_before_it_was_given_is_not_kept() {
    let mut world = world();
    world.hold(connection(2), Lock, "a", semaforo_server::kernel::HoldMode::Permits(1));
    let waits = world.ask(SESSION.seq(1), Lock, "a", acquire(1));
    world.command(SESSION.acked(7), Operation::Ping);
    world.done(connection(2), Lock, "a", RELEASE);
    assert_eq!(world.status(waits), Some(200));
    let snapshot = crate::support::dump(world.kernel.state());
    world.done(SESSION, Lock, "a", RELEASE);
    world.done(SESSION, Lock, "a", acquire(1));
    world.restart();
    assert_eq!(crate::support::dump(world.kernel.state()).len(), snapshot.len());
    let kept = [18, 0, 1];
    assert!(!snapshot.windows(3).any(|bytes| bytes == kept), "an outcome is kept: {snapshot:?}");
}

#[test]
fn who_has_made_something_is_told_so_as_often_as_it_asks() {
    let mut world = World::default();
    world.open(1, 60_000);
    let made = |world: &mut World, caller: Caller| {
        let answer = world.done(caller, Latch, "made", latch(1));
        answer.headers.get(Header::Created)
    };
    assert_eq!(made(&mut world, SESSION.seq(1)), Some(1));
    assert_eq!(made(&mut world, connection(2)), Some(0));
    assert_eq!(made(&mut world, SESSION.seq(1)), Some(1));
    assert_eq!(made(&mut world, SESSION.seq(2)), Some(0));
    world.restart();
    assert_eq!(made(&mut world, SESSION.seq(1)), Some(1));
    world.restart_from_snapshot();
    assert_eq!(made(&mut world, SESSION.seq(1)), Some(1));
    assert_eq!(made(&mut world, connection(2)), Some(0));
}
