//! Open semaphores, whose permits are used up by one and added by another.

use semaforo_server::kernel::{Details, Header, HoldMode, Kind::Semaphore, Limits, Verb};

use crate::support::{World, acquire, add, connection, open_semaphore, release, resize, semaphore};

const NAME: &str = "s";

fn world(permits: u32, initial: u32) -> World {
    let mut world = World::default();
    world.done(connection(9), Semaphore, NAME, open_semaphore(permits, initial));
    world
}

#[test]
fn it_begins_with_as_many_as_were_said() {
    for (permits, initial) in [(1, 0), (1, 1), (5, 0), (5, 3), ((1 << 30) - 1, (1 << 30) - 1)] {
        let mut world = world(permits, initial);
        let details = Details::Semaphore { permits, available: initial, open: true };
        assert_eq!(world.details(Semaphore, NAME), details);
        let again = open_semaphore(permits, initial);
        let answer = world.done(connection(1), Semaphore, NAME, again);
        assert_eq!(answer.headers.get(Header::Created), Some(0));
        // What it began with is one of its settings, whatever there is now.
        let _ = world.try_(connection(1).now(), Semaphore, NAME, acquire(1));
        assert_eq!(world.try_(connection(1), Semaphore, NAME, again), 200);
        for other in [open_semaphore(permits, initial / 2 + 1), semaphore(permits)] {
            let status = world.try_(connection(1), Semaphore, NAME, other);
            assert_eq!(status, if other == again { 200 } else { 409 }, "{other:?}");
        }
    }
    let mut world = World::default();
    for wrong in [open_semaphore(0, 0), open_semaphore(2, 3), open_semaphore(1 << 30, 0)] {
        assert_eq!(world.try_(connection(1), Semaphore, NAME, wrong), 400, "{wrong:?}");
    }
    assert_eq!(world.show(Semaphore, NAME), None);
}

#[test]
fn what_one_adds_another_gets() {
    let mut world = world(3, 0);
    let asks: Vec<_> =
        (1..=3).map(|at| world.ask(connection(at), Semaphore, NAME, acquire(1))).collect();
    assert_eq!(world.statuses(&asks), [0, 0, 0]);
    world.done(connection(7), Semaphore, NAME, Verb::Release { fence: None, permits: None });
    assert_eq!(world.statuses(&asks), [200, 0, 0]);
    world.done(connection(8), Semaphore, NAME, add(3));
    assert_eq!(world.statuses(&asks), [200, 200, 200]);
    assert_eq!(world.available(NAME), 1);
    // A grant is no hold.
    assert_eq!(world.answers[&asks[0]].headers.get(Header::Fence), None);
    assert_eq!(world.kernel.census().holds, 0);
}

#[test]
fn several_at_a_time_in_order() {
    let mut world = world(5, 0);
    let large = world.ask(connection(1), Semaphore, NAME, acquire(4));
    let small = world.ask(connection(2), Semaphore, NAME, acquire(1));
    assert_eq!(world.try_(connection(3).now(), Semaphore, NAME, acquire(0)), 200);
    world.done(connection(9), Semaphore, NAME, add(3));
    assert_eq!(world.statuses(&[large, small]), [0, 0], "nobody overtakes");
    world.done(connection(9), Semaphore, NAME, add(1));
    assert_eq!(world.statuses(&[large, small]), [200, 0]);
    world.done(connection(9), Semaphore, NAME, add(2));
    assert_eq!(world.statuses(&[large, small]), [200, 200]);
    assert_eq!(world.available(NAME), 1);
}

#[test]
fn more_than_there_can_be_are_not_added_and_nothing_changes() {
    let mut world = world(3, 2);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, add(2)), 409);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, add(u32::MAX)), 409);
    assert_eq!(world.available(NAME), 2);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, add(0)), 200);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, add(1)), 200);
    assert_eq!(world.available(NAME), 3);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, acquire(4)), 400);
}

#[test]
fn there_are_no_holds() {
    let mut world = world(3, 3);
    world.open(1, 1000);
    world.done(connection(1).of(1), Semaphore, NAME, acquire(1));
    assert_eq!(world.try_(connection(1).of(1), Semaphore, NAME, release(1)), 410);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, Verb::Check { fence: 1 }), 410);
    for mode in [HoldMode::Read, HoldMode::Write] {
        assert_eq!(world.try_(connection(1), Semaphore, NAME, Verb::Acquire(mode)), 400);
    }
    // So they do not count as holds.
    let mut world = World::limited(Limits { holds: 0, ..Limits::default() });
    world.done(connection(9), Semaphore, NAME, open_semaphore(1, 1));
    assert_eq!(world.try_(connection(1), Semaphore, NAME, acquire(1)), 200);
}

#[test]
fn nothing_comes_back_when_who_got_it_is_gone() {
    let mut world = world(5, 5);
    world.open(1, 1000);
    world.done(connection(1).of(1), Semaphore, NAME, acquire(1));
    world.done(connection(2), Semaphore, NAME, acquire(2));
    world.disconnect(2);
    world.pass(5000);
    assert_eq!(world.kernel.census().sessions, 0);
    assert_eq!(world.available(NAME), 2);
}

#[test]
fn the_count_outlives_restarts() {
    let mut world = world(5, 1);
    world.done(connection(1), Semaphore, NAME, add(3));
    world.done(connection(2), Semaphore, NAME, acquire(1));
    for _ in 0..2 {
        world.restart();
        assert_eq!(world.available(NAME), 3);
        world.restart_from_snapshot();
        assert_eq!(world.available(NAME), 3);
    }
    let again = open_semaphore(5, 1);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, again), 200, "the settings do, too");
}

#[test]
fn both_are_done_once_however_often_they_are_asked() {
    let mut world = world(9, 0);
    world.open(1, 60_000);
    let caller = connection(1).of(1);
    for way in 0..3 {
        let restart = |world: &mut World| match way {
            0 => {}
            1 => world.restart(),
            _ => world.restart_from_snapshot(),
        };
        let seq = 2 * way + 1;
        world.done(caller.seq(seq), Semaphore, NAME, add(3));
        restart(&mut world);
        world.done(caller.seq(seq), Semaphore, NAME, add(3));
        world.done(caller.seq(seq + 1), Semaphore, NAME, acquire(2));
        restart(&mut world);
        world.done(caller.seq(seq + 1), Semaphore, NAME, acquire(2));
        assert_eq!(world.available(NAME), u32::try_from(way).unwrap() + 1);
    }
}

#[test]
fn who_lost_the_connection_keeps_its_place_and_is_passed_over() {
    let mut world = world(2, 0);
    world.open(1, 60_000);
    world.ask(connection(1).of(1).seq(1), Semaphore, NAME, acquire(1));
    let second = world.ask(connection(2), Semaphore, NAME, acquire(1));
    let third = world.ask(connection(3), Semaphore, NAME, acquire(1));
    world.disconnect(1);
    world.done(connection(9), Semaphore, NAME, add(1));
    assert_eq!(world.status(second), Some(200));
    let first = world.ask(connection(4).of(1).seq(1), Semaphore, NAME, acquire(1));
    world.done(connection(9), Semaphore, NAME, add(1));
    assert_eq!(world.statuses(&[first, third]), [200, 0]);
}

#[test]
fn its_size_is_the_most_that_there_can_be() {
    let mut world = world(5, 3);
    world.done(connection(1), Semaphore, NAME, resize(8));
    assert_eq!(world.available(NAME), 3, "nothing is added");
    world.done(connection(1), Semaphore, NAME, add(5));
    world.done(connection(1), Semaphore, NAME, resize(2));
    assert_eq!(world.available(NAME), 2, "what is above it is gone");
    assert_eq!(world.try_(connection(1), Semaphore, NAME, add(1)), 409);
    world.restart();
    assert_eq!(world.available(NAME), 2);
    world.restart_from_snapshot();
    let details = Details::Semaphore { permits: 2, available: 2, open: true };
    assert_eq!(world.details(Semaphore, NAME), details);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, open_semaphore(2, 2)), 200);
}
