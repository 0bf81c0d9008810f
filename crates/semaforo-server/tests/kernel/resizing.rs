//! Semaphores that become larger and smaller.

use semaforo_server::kernel::{
    Details, Header, HoldMode,
    Kind::{Lock, Queue, Semaphore},
    Verb,
};

use crate::support::{
    RELEASE, World, acquire, connection, queue, release, release_some, resize, semaphore,
};

const NAME: &str = "s";

/// A semaphore of which so many permits are held in one hold of connection 9. Gives its fence.
fn world(permits: u32, held: u32) -> (World, u64) {
    let mut world = World::default();
    world.done(connection(9), Semaphore, NAME, semaphore(permits));
    let fence = world.hold(connection(9), Semaphore, NAME, HoldMode::Permits(held));
    (world, fence)
}

fn size(world: &mut World) -> (u32, u32) {
    match world.details(Semaphore, NAME) {
        Details::Semaphore { permits, available, .. } => (permits, available),
        other => panic!("{other:?} is no semaphore"),
    }
}

#[test]
fn growing_lets_in_who_waits() {
    let (mut world, _) = world(2, 2);
    let asks = [1, 2, 1]
        .map(|permits| world.ask(connection(permits.into()), Semaphore, NAME, acquire(permits)));
    world.done(connection(5), Semaphore, NAME, resize(3));
    assert_eq!(world.statuses(&asks), [200, 0, 0]);
    world.done(connection(5), Semaphore, NAME, resize(7));
    assert_eq!(world.statuses(&asks), [200, 200, 200]);
    assert_eq!(size(&mut world), (7, 1));
}

#[test]
fn shrinking_takes_first_what_nobody_holds_and_the_rest_as_it_returns() {
    let (mut world, fence) = world(5, 4);
    world.done(connection(5), Semaphore, NAME, resize(2));
    assert_eq!(size(&mut world), (2, 0));
    let next = world.ask(connection(1), Semaphore, NAME, acquire(1));
    assert_eq!(world.try_(connection(9), Semaphore, NAME, Verb::Check { fence }), 200);
    world.done(connection(9), Semaphore, NAME, release_some(fence, 2));
    assert_eq!((size(&mut world), world.status(next)), ((2, 0), None), "two are owed");
    world.done(connection(9), Semaphore, NAME, release_some(fence, 1));
    assert_eq!(world.status(next), Some(200));
    world.done(connection(9), Semaphore, NAME, release(fence));
    world.done(connection(1), Semaphore, NAME, RELEASE);
    assert_eq!(size(&mut world), (2, 2));
}

#[test]
fn what_was_owed_is_not_when_it_grows_again() {
    let (mut world, fence) = world(5, 5);
    world.done(connection(5), Semaphore, NAME, resize(1));
    world.done(connection(5), Semaphore, NAME, resize(6));
    assert_eq!(size(&mut world), (6, 1));
    world.done(connection(9), Semaphore, NAME, release(fence));
    assert_eq!(size(&mut world), (6, 6));
}

#[test]
fn who_asks_for_more_than_there_can_be_now_is_refused_when_its_turn_comes() {
    let (mut world, fence) = world(5, 5);
    let ask = |world: &mut World, at, permits| {
        world.ask(connection(at), Semaphore, NAME, acquire(permits))
    };
    let asks = [(1, 4), (2, 3), (3, 1), (4, 5)].map(|(at, permits)| ask(&mut world, at, permits));
    world.done(connection(9), Semaphore, NAME, resize(2));
    assert_eq!(world.statuses(&asks), [400, 400, 0, 0]);
    assert_eq!(world.try_(connection(5), Semaphore, NAME, acquire(3)), 400);
    world.done(connection(9), Semaphore, NAME, release(fence));
    assert_eq!(world.statuses(&asks), [400, 400, 200, 400]);
    assert_eq!(size(&mut world), (2, 1));
}

#[test]
fn who_waits_without_a_connection_learns_it_when_it_asks_again() {
    let (mut world, _) = world(5, 5);
    world.open(1, 60_000);
    world.ask(connection(1).of(1).seq(1), Semaphore, NAME, acquire(4));
    world.disconnect(1);
    world.done(connection(9), Semaphore, NAME, resize(2));
    let again = world.ask(connection(2).of(1).seq(1), Semaphore, NAME, acquire(4));
    assert_eq!(world.status(again), Some(400));
    assert_eq!(world.kernel.census().waits, 0);
}

#[test]
fn it_outlives_restarts_also_if_more_is_held() {
    for (held, size_then, left) in [(1, 2, 1), (2, 2, 0), (4, 2, 0), (4, 6, 2)] {
        for snapshot in [false, true] {
            let (mut world, _) = world(5, 0);
            world.open(1, 60_000);
            let caller = connection(1).of(1);
            let fence = world.hold(caller, Semaphore, NAME, HoldMode::Permits(held));
            // A connection's hold does not outlive the server, and may be what it is too small for.
            world.hold(connection(2), Semaphore, NAME, HoldMode::Permits(1));
            world.done(connection(9), Semaphore, NAME, resize(size_then));
            if snapshot {
                world.restart_from_snapshot();
            } else {
                world.restart();
            }
            assert_eq!(size(&mut world), (size_then, left), "{held} held");
            world.done(caller, Semaphore, NAME, release(fence));
            assert_eq!(size(&mut world), (size_then, size_then), "{held} held");
        }
    }
}

#[test]
fn the_end_of_a_session_repays_what_is_owed() {
    let (mut world, _) = world(5, 0);
    world.open(1, 1000);
    world.hold(connection(1).of(1), Semaphore, NAME, HoldMode::Permits(3));
    world.hold(connection(2), Semaphore, NAME, HoldMode::Permits(2));
    world.done(connection(9), Semaphore, NAME, resize(1));
    let next = world.ask(connection(3), Semaphore, NAME, acquire(1));
    world.pass(2000);
    assert_eq!(world.status(next), None);
    world.disconnect(2);
    assert_eq!(world.status(next), Some(200));
    assert_eq!(size(&mut world), (1, 0));
}

#[test]
fn the_new_number_is_what_it_is_created_with() {
    let (mut world, _) = world(5, 0);
    world.done(connection(1), Semaphore, NAME, resize(3));
    assert_eq!(world.try_(connection(1), Semaphore, NAME, semaphore(5)), 409);
    let answer = world.done(connection(1), Semaphore, NAME, semaphore(3));
    assert_eq!(answer.headers.get(Header::Created), Some(0));
}

#[test]
fn a_retry_does_not_undo_what_another_did() {
    let (mut world, _) = world(5, 0);
    world.open(1, 60_000);
    world.done(connection(1).of(1).seq(1), Semaphore, NAME, resize(3));
    world.done(connection(2), Semaphore, NAME, resize(4));
    world.done(connection(1).of(1).seq(1), Semaphore, NAME, resize(3));
    assert_eq!(size(&mut world), (4, 4));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (mut world, _) = world(5, 0);
    for permits in [0, 1 << 30, u32::MAX] {
        assert_eq!(world.try_(connection(1), Semaphore, NAME, resize(permits)), 400);
    }
    assert_eq!(size(&mut world), (5, 5));
    assert_eq!(world.try_(connection(1), Semaphore, "missing", resize(1)), 404);
    world.hold(connection(1), Lock, "l", HoldMode::Permits(1));
    world.done(connection(1), Queue, "q", queue(0));
    for (kind, name) in [(Lock, "l"), (Queue, "q"), (Lock, "missing")] {
        assert_eq!(world.try_(connection(1), kind, name, resize(1)), 405);
    }
    let before = world.journal.len();
    world.done(connection(1), Semaphore, NAME, resize(5));
    assert_eq!(world.journal.len(), before, "nothing has happened");
}

#[test]
fn many_that_are_refused_at_once_are_refused_in_portions() {
    let (mut world, _) = world(5, 5);
    let asks: Vec<_> =
        (0..100).map(|at| world.ask(connection(at), Semaphore, NAME, acquire(5))).collect();
    world.budget = 640;
    world.done(connection(9), Semaphore, NAME, resize(1));
    let refused = asks.iter().filter(|ask| world.status(**ask) == Some(400)).count();
    assert!((1..100).contains(&refused), "{refused}");
    world.catch_up();
    assert!(asks.iter().all(|ask| world.status(*ask) == Some(400)));
}
