//! Events: manual ones let all requests through while they are set, automatic ones one for each
//! set.

use semaforo_server::kernel::{Details, Kind::Event, Verb};

use crate::support::{World, connection, event};

const NAME: &str = "e";
const RESET: Verb<'static> = Verb::Reset { count: None };

fn world(auto: bool, set: bool) -> World {
    let mut world = World::default();
    world.done(connection(9), Event, NAME, event(auto, set));
    world
}

#[test]
fn e_01_it_is_set_and_reset() {
    for auto in [false, true] {
        let mut world = world(auto, false);
        for _ in 0..50 {
            world.done(connection(1), Event, NAME, Verb::Set);
            assert_eq!(world.details(Event, NAME), Details::Event { set: true, auto });
            world.done(connection(1), Event, NAME, RESET);
            assert_eq!(world.details(Event, NAME), Details::Event { set: false, auto });
        }
    }
}

#[test]
fn e_02_and_e_04_who_finds_it_set_passes_and_who_does_not_waits() {
    let mut world = world(false, true);
    for _ in 0..3 {
        world.done(connection(1), Event, NAME, Verb::Wait);
    }
    world.done(connection(1), Event, NAME, RESET);
    assert_eq!(world.try_(connection(1).now(), Event, NAME, Verb::Wait), 204);
    let timed = world.ask(connection(1).within(100), Event, NAME, Verb::Wait);
    let all = [2, 3, 4].map(|at| world.ask(connection(at), Event, NAME, Verb::Wait));
    world.pass(100);
    assert_eq!(world.status(timed), Some(204));
    world.done(connection(1), Event, NAME, Verb::Set);
    assert_eq!(world.statuses(&all), [200; 3]);
}

#[test]
fn e_06_an_automatic_one_lets_one_through_for_each_set() {
    let mut world = world(true, false);
    world.done(connection(9), Event, NAME, Verb::Set);
    world.done(connection(9), Event, NAME, Verb::Set);
    world.done(connection(1), Event, NAME, Verb::Wait);
    let waiters = [2, 3].map(|at| world.ask(connection(at), Event, NAME, Verb::Wait));
    assert_eq!(world.statuses(&waiters), [0, 0]);
    world.done(connection(9), Event, NAME, Verb::Set);
    assert_eq!(world.statuses(&waiters), [200, 0]);
    world.restart();
    assert_eq!(world.details(Event, NAME), Details::Event { set: false, auto: true });
}

#[test]
fn a_set_is_not_lost_on_one_who_is_dormant() {
    let mut world = world(true, false);
    world.open(1, 60_000);
    world.ask(connection(1).of(1).seq(1), Event, NAME, Verb::Wait);
    let next = world.ask(connection(2), Event, NAME, Verb::Wait);
    world.disconnect(1);
    world.done(connection(9), Event, NAME, Verb::Set);
    assert_eq!(world.status(next), Some(200));
    world.done(connection(9), Event, NAME, Verb::Set);
    let again = world.ask(connection(3).of(1).seq(1), Event, NAME, Verb::Wait);
    assert_eq!(world.status(again), Some(200));
    assert_eq!(world.details(Event, NAME), Details::Event { set: false, auto: true });
}

#[test]
fn settings_are_compared() {
    let mut world = world(true, true);
    world.done(connection(1), Event, NAME, RESET);
    world.restart_from_snapshot();
    assert_eq!(world.try_(connection(1), Event, NAME, event(true, true)), 200);
    assert_eq!(world.try_(connection(1), Event, NAME, event(true, false)), 409);
    assert_eq!(world.try_(connection(1), Event, NAME, event(false, true)), 409);
    assert_eq!(world.details(Event, NAME), Details::Event { set: false, auto: true });
}
