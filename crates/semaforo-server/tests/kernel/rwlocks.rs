//! Reader-writer locks, by Hoare's rule.

use semaforo_server::kernel::{Header, HoldMode, Kind::ReadWriteLock, Verb, Who};

use crate::support::{READ, RELEASE, WRITE, World, acquire, connection, release};

const NAME: &str = "rw";
const DOWNGRADE: Verb<'static> = Verb::Downgrade { fence: None };
const UPGRADE: Verb<'static> = Verb::Upgrade { fence: None };

fn read(world: &mut World, at: u64) -> u64 {
    world.hold(connection(at), ReadWriteLock, NAME, HoldMode::Read)
}

fn write(world: &mut World, at: u64) -> u64 {
    world.hold(connection(at), ReadWriteLock, NAME, HoldMode::Write)
}

#[test]
fn r_01_readers_are_in_together() {
    let mut world = World::default();
    for at in 1..=3 {
        read(&mut world, at);
    }
    assert_eq!(world.show(ReadWriteLock, NAME).map(|view| view.held), Some(3));
}

#[test]
fn r_02_a_writer_is_alone() {
    let mut world = World::default();
    write(&mut world, 1);
    assert_eq!(world.try_(connection(2).now(), ReadWriteLock, NAME, READ), 204);
    assert_eq!(world.try_(connection(2).now(), ReadWriteLock, NAME, WRITE), 204);
    world.done(connection(1), ReadWriteLock, NAME, RELEASE);
    read(&mut world, 1);
    assert_eq!(world.try_(connection(2).now(), ReadWriteLock, NAME, WRITE), 204);
    assert_eq!(world.kernel.census().waits, 0);
}

#[test]
fn r_03_a_writer_waits_for_the_last_reader() {
    let mut world = World::default();
    let (one, two) = (read(&mut world, 1), read(&mut world, 1));
    let writer = world.ask(connection(2), ReadWriteLock, NAME, WRITE);
    world.done(connection(1), ReadWriteLock, NAME, release(one));
    assert_eq!(world.status(writer), None);
    world.done(connection(1), ReadWriteLock, NAME, release(two));
    assert_eq!(world.status(writer), Some(200));
    assert_eq!(world.show(ReadWriteLock, NAME).map(|view| view.held), Some(1));
}

#[test]
fn r_05_a_waiting_writer_stops_new_readers() {
    let mut world = World::default();
    read(&mut world, 1);
    let writer = world.ask(connection(2), ReadWriteLock, NAME, WRITE);
    let reader = world.ask(connection(3), ReadWriteLock, NAME, READ);
    assert_eq!(world.statuses(&[writer, reader]), [0, 0]);
    world.done(connection(1), ReadWriteLock, NAME, RELEASE);
    assert_eq!(world.statuses(&[writer, reader]), [200, 0]);
}

#[test]
fn when_a_write_ends_exactly_the_readers_that_wait_then_go_in() {
    let mut world = World::default();
    write(&mut world, 1);
    let writer = world.ask(connection(2), ReadWriteLock, NAME, WRITE);
    let one = world.ask(connection(3), ReadWriteLock, NAME, READ);
    let two = world.ask(connection(4), ReadWriteLock, NAME, READ);
    world.done(connection(1), ReadWriteLock, NAME, RELEASE);
    assert_eq!(world.statuses(&[writer, one, two]), [0, 200, 200]);
    let late = world.ask(connection(5), ReadWriteLock, NAME, READ);
    assert_eq!(world.status(late), None);
    world.done(connection(3), ReadWriteLock, NAME, RELEASE);
    world.disconnect(4);
    assert_eq!(world.statuses(&[writer, late]), [200, 0]);
    world.disconnect(2);
    assert_eq!(world.status(late), Some(200), "a lost connection ends a write, too");
}

#[test]
fn r_07_and_r_08_a_writer_that_gives_up_lets_the_readers_in() {
    for way in 0..4 {
        let mut world = World::default();
        world.open(1, 50);
        read(&mut world, 1);
        let caller = if way == 3 { connection(2).of(1) } else { connection(2).within(80) };
        let writer = world.ask(caller, ReadWriteLock, NAME, WRITE);
        let readers = [3, 4].map(|at| world.ask(connection(at), ReadWriteLock, NAME, READ));
        assert_eq!(world.statuses(&readers), [0, 0]);
        match way {
            0 => assert!(world.cancel(writer)),
            1 => world.disconnect(2),
            _ => world.pass(80),
        }
        assert_eq!(world.statuses(&readers), [200, 200], "way {way}");
        assert_eq!(world.show(ReadWriteLock, NAME).map(|view| view.held), Some(3));
        assert_eq!(world.status(writer), [Some(204), None, Some(204), Some(410)][way]);
    }
}

#[test]
fn r_13_no_writer_comes_in_between_when_a_writer_becomes_a_reader() {
    let mut world = World::default();
    let fence = write(&mut world, 1);
    let writer = world.ask(connection(2), ReadWriteLock, NAME, WRITE);
    let reader = world.ask(connection(3), ReadWriteLock, NAME, READ);
    let answer = world.done(connection(1), ReadWriteLock, NAME, DOWNGRADE);
    assert_eq!(answer.headers.get(Header::Fence), Some(fence));
    assert_eq!(world.statuses(&[writer, reader]), [0, 200]);
    assert_eq!(world.try_(connection(1), ReadWriteLock, NAME, DOWNGRADE), 409);
    world.done(connection(1), ReadWriteLock, NAME, release(fence));
    world.done(connection(3), ReadWriteLock, NAME, RELEASE);
    assert_eq!(world.status(writer), Some(200));
}

#[test]
fn r_14_only_the_only_reader_becomes_the_writer() {
    let mut world = World::default();
    let one = read(&mut world, 1);
    let two = read(&mut world, 2);
    assert_eq!(world.try_(connection(1), ReadWriteLock, NAME, UPGRADE), 409);
    assert_eq!(world.show(ReadWriteLock, NAME).map(|view| view.held), Some(2));
    world.done(connection(2), ReadWriteLock, NAME, release(two));
    let reader = world.ask(connection(3).now(), ReadWriteLock, NAME, READ);
    assert_eq!(world.status(reader), Some(200));
    world.disconnect(3);
    let answer = world.done(connection(1), ReadWriteLock, NAME, UPGRADE);
    let into = answer.headers.get(Header::Fence).expect("a new fence");
    assert!(into > one);
    assert_eq!(world.try_(connection(1), ReadWriteLock, NAME, release(one)), 410);
    assert_eq!(world.try_(connection(2).now(), ReadWriteLock, NAME, READ), 204);
    assert_eq!(world.try_(connection(1), ReadWriteLock, NAME, UPGRADE), 409);
    let waits = world.ask(connection(2), ReadWriteLock, NAME, READ);
    world.done(connection(1), ReadWriteLock, NAME, release(into));
    assert_eq!(world.status(waits), Some(200));
}

#[test]
fn r_15_nobody_changes_what_is_not_theirs() {
    let mut world = World::default();
    for verb in [RELEASE, DOWNGRADE, UPGRADE, release(1)] {
        assert_eq!(world.try_(connection(1), ReadWriteLock, NAME, verb), 410);
    }
    let fence = write(&mut world, 1);
    let others = [
        RELEASE,
        DOWNGRADE,
        UPGRADE,
        release(fence),
        Verb::Downgrade { fence: Some(fence) },
        Verb::Upgrade { fence: Some(fence) },
    ];
    for verb in others {
        assert_eq!(world.try_(connection(2), ReadWriteLock, NAME, verb), 410);
    }
    assert_eq!(world.show(ReadWriteLock, NAME).map(|view| view.held), Some(1));
}

#[test]
fn r_16_and_r_19_who_waits_is_known_exactly_through_cancellations() {
    let mut world = World::default();
    write(&mut world, 1);
    let asks: Vec<_> = [(2, READ), (3, WRITE), (4, READ), (5, WRITE)]
        .map(|(at, verb)| world.ask(connection(at), ReadWriteLock, NAME, verb))
        .into();
    let who = |world: &mut World| {
        let view = world.show(ReadWriteLock, NAME).expect("it is used");
        assert_eq!(view.waiters.len(), view.waiting);
        let key = |who: &Who| match who {
            Who::Connection(key) => key.0,
            Who::Session(_) => 0,
        };
        view.waiters.iter().map(key).collect::<Vec<_>>()
    };
    assert_eq!(who(&mut world), [2, 4, 3, 5]);
    assert!(world.cancel(asks[1]));
    assert_eq!(who(&mut world), [2, 4, 5]);
    assert!(world.cancel(asks[0]));
    assert_eq!(who(&mut world), [4, 5]);
    assert!(world.cancel(asks[2]));
    assert!(world.cancel(asks[3]));
    assert_eq!(world.statuses(&asks), [204; 4]);
    world.done(connection(1), ReadWriteLock, NAME, RELEASE);
    world.assert_empty();
}

#[test]
fn permits_make_no_sense() {
    let mut world = World::default();
    assert_eq!(world.try_(connection(1), ReadWriteLock, NAME, acquire(1)), 400);
    world.assert_empty();
}

#[test]
fn conversions_of_a_session_outlive_the_server() {
    let mut world = World::default();
    world.open(1, 60_000);
    let session = connection(1).of(1);
    let first = world.hold(session, ReadWriteLock, NAME, HoldMode::Read);
    world.done(session, ReadWriteLock, NAME, UPGRADE);
    world.restart();
    assert_eq!(world.try_(session, ReadWriteLock, NAME, release(first)), 410);
    assert_eq!(world.try_(connection(2).now(), ReadWriteLock, NAME, READ), 204);
    world.done(session, ReadWriteLock, NAME, DOWNGRADE);
    world.restart_from_snapshot();
    assert_eq!(world.try_(connection(2).now(), ReadWriteLock, NAME, READ), 200);
    assert_eq!(world.try_(connection(3).now(), ReadWriteLock, NAME, WRITE), 204);
    world.done(session, ReadWriteLock, NAME, RELEASE);
}
