//! Latches: all requests pass once the count is zero.

use semaforo_server::kernel::{Details, Header, Kind::Latch, Verb};

use crate::support::{World, connection, latch};

const NAME: &str = "l";

fn world(count: u32) -> World {
    let mut world = World::default();
    world.done(connection(9), Latch, NAME, latch(count));
    world
}

fn down(world: &mut World, by: u32) -> Result<u64, u16> {
    let request = world.ask(connection(9), Latch, NAME, Verb::Down { by });
    match world.status(request) {
        Some(200) => Ok(world.header(request, Header::Count)),
        status => Err(status.unwrap_or(0)),
    }
}

#[test]
fn l_01_and_l_02_it_counts_to_zero_and_stays_there() {
    let mut world = world(2);
    let counts: Vec<_> = (0..4).map(|_| down(&mut world, 1)).collect();
    assert_eq!(counts, [Ok(1), Ok(0), Ok(0), Ok(0)]);
    world.done(connection(1), Latch, NAME, Verb::Wait);
}

#[test]
fn l_04_and_l_07_all_are_released_by_the_last_count_and_none_before() {
    let mut world = world(3);
    let mut waiters = Vec::new();
    for left in [2, 1, 0] {
        waiters.extend((0..4).map(|at| world.ask(connection(at), Latch, NAME, Verb::Wait)));
        assert_eq!(world.statuses(&waiters), vec![0; waiters.len()]);
        assert_eq!(down(&mut world, 1), Ok(left));
    }
    assert_eq!(world.statuses(&waiters), [200; 12]);
}

#[test]
fn l_05_and_l_06_who_gives_up_changes_nothing_for_others() {
    let mut world = world(1);
    let stays = world.ask(connection(1), Latch, NAME, Verb::Wait);
    let timed = world.ask(connection(2).within(10), Latch, NAME, Verb::Wait);
    let cancelled = world.ask(connection(3), Latch, NAME, Verb::Wait);
    assert_eq!(world.try_(connection(4).now(), Latch, NAME, Verb::Wait), 204);
    world.pass(10);
    assert!(world.cancel(cancelled));
    assert_eq!(world.statuses(&[stays, timed, cancelled]), [0, 204, 204]);
    assert_eq!(world.details(Latch, NAME), Details::Latch { count: 1, start: 1 });
    assert_eq!(down(&mut world, 1), Ok(0));
    assert_eq!(world.status(stays), Some(200));
}

#[test]
fn l_09_more_than_is_left_is_refused_and_releases_nobody() {
    let mut world = world(2);
    let waiter = world.ask(connection(1), Latch, NAME, Verb::Wait);
    assert_eq!(down(&mut world, 3), Err(400));
    assert_eq!(down(&mut world, u32::MAX), Err(400));
    assert_eq!(down(&mut world, 0), Ok(2));
    assert_eq!(world.status(waiter), None);
    assert_eq!(down(&mut world, 2), Ok(0));
    assert_eq!(world.status(waiter), Some(200));
}

#[test]
fn l_10_a_reset_shuts_it_again() {
    let mut world = world(1);
    assert_eq!(down(&mut world, 1), Ok(0));
    world.done(connection(9), Latch, NAME, Verb::Reset { count: None });
    let waiter = world.ask(connection(1), Latch, NAME, Verb::Wait);
    world.done(connection(9), Latch, NAME, Verb::Reset { count: Some(u32::MAX) });
    assert_eq!(world.details(Latch, NAME), Details::Latch { count: u32::MAX.into(), start: 1 });
    assert_eq!(world.status(waiter), None);
    world.done(connection(9), Latch, NAME, Verb::Reset { count: Some(0) });
    assert_eq!(world.status(waiter), Some(200));
}

#[test]
fn the_count_and_the_settings_outlive_the_server() {
    let mut world = world(3);
    assert_eq!(down(&mut world, 1), Ok(2));
    world.restart();
    assert_eq!(world.try_(connection(1), Latch, NAME, latch(3)), 200);
    assert_eq!(world.try_(connection(1), Latch, NAME, latch(2)), 409);
    world.restart_from_snapshot();
    assert_eq!(world.details(Latch, NAME), Details::Latch { count: 2, start: 3 });
}

#[test]
fn one_who_was_dormant_passes_when_the_latch_was_opened_meanwhile() {
    let mut world = world(1);
    world.open(1, 60_000);
    let first = world.ask(connection(1).of(1).seq(1), Latch, NAME, Verb::Wait);
    world.disconnect(1);
    assert_eq!(down(&mut world, 1), Ok(0));
    assert_eq!(world.status(first), None);
    let again = world.ask(connection(2).of(1).seq(1), Latch, NAME, Verb::Wait);
    assert_eq!(world.status(again), Some(200));
}
