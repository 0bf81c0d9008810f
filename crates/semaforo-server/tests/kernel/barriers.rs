//! Barriers: parties that wait for each other, round after round.

use semaforo_server::kernel::{Details, Header, Kind::Barrier, Limits, MAX_NUMBERED_PARTIES, Verb};

use crate::support::{Request, World, arrive, connection};

const NAME: &str = "b";
const RESET: Verb<'static> = Verb::Reset { count: None };

fn parties(world: &mut World, from: u64, count: u64, of: u32) -> Vec<Request> {
    (from..from + count).map(|at| world.ask(connection(at), Barrier, NAME, arrive(of))).collect()
}

fn is_broken(world: &mut World) -> bool {
    match world.details(Barrier, NAME) {
        Details::Barrier { broken, .. } => broken,
        other => panic!("{other:?} is no barrier"),
    }
}

#[test]
fn b_01_there_are_one_to_a_million_parties() {
    let mut world = World::default();
    for (parties, status) in [(0, 400), (1, 200), ((1 << 20) + 1, 400), (u32::MAX, 400)] {
        assert_eq!(world.try_(connection(1), Barrier, NAME, arrive(parties)), status);
    }
    world.assert_empty();
}

#[test]
fn b_05_rounds_follow_each_other_with_growing_generations() {
    let mut world = World::default();
    let mut last = 0;
    for _ in 0..3 {
        let round = parties(&mut world, 1, 3, 3);
        assert_eq!(world.statuses(&round), [200; 3]);
        let generation = world.header(round[0], Header::Generation);
        assert!(generation > last);
        last = generation;
        for (index, party) in (0..).zip(&round) {
            assert_eq!(world.header(*party, Header::Index), index);
            assert_eq!(world.header(*party, Header::Generation), generation);
        }
    }
    world.assert_empty();
}

#[test]
fn b_07_a_party_that_times_out_breaks_it() {
    let mut world = World::default();
    let timed = world.ask(connection(1).within(10), Barrier, NAME, arrive(3));
    let other = world.ask(connection(2).within(1000), Barrier, NAME, arrive(3));
    world.pass(10);
    assert_eq!(world.statuses(&[timed, other]), [204, 409]);
    assert!(is_broken(&mut world));
    assert_eq!(world.waiting(Barrier, NAME), 0);
}

#[test]
fn b_08_and_b_09_no_time_matters_only_to_who_would_wait() {
    let mut world = World::default();
    let waits = parties(&mut world, 1, 1, 3);
    assert_eq!(world.try_(connection(2).now(), Barrier, NAME, arrive(3)), 204);
    assert_eq!(world.statuses(&waits), [409]);
    world.done(connection(1), Barrier, NAME, RESET);
    let waits = parties(&mut world, 1, 2, 3);
    assert_eq!(world.try_(connection(3).now(), Barrier, NAME, arrive(3)), 200);
    assert_eq!(world.statuses(&waits), [200, 200]);
}

#[test]
fn b_10_and_b_11_one_that_is_cancelled_learns_it_and_the_others_that_it_broke() {
    let mut world = World::default();
    let waits = parties(&mut world, 1, 5, 6);
    assert!(world.cancel(waits[2]));
    assert!(!world.cancel(waits[1]));
    assert_eq!(world.statuses(&waits), [409, 409, 204, 409, 409]);
    assert!(is_broken(&mut world));
}

#[test]
fn several_parties_of_one_connection_that_goes_break_it_once() {
    let mut world = World::default();
    let stays = world.ask(connection(1), Barrier, NAME, arrive(4));
    let goes = [2, 2].map(|at| world.ask(connection(at), Barrier, NAME, arrive(4)));
    world.half_close(2);
    assert_eq!(world.status(stays), Some(409));
    assert_eq!(world.statuses(&goes), [204, 409]);
}

#[test]
fn b_13_a_broken_one_turns_everybody_away_until_reset() {
    let mut world = World::default();
    assert_eq!(world.try_(connection(1).now(), Barrier, NAME, arrive(2)), 204);
    assert_eq!(world.try_(connection(1), Barrier, NAME, arrive(2)), 409);
    assert_eq!(world.try_(connection(1).within(5), Barrier, NAME, arrive(2)), 409);
    world.restart();
    assert_eq!(world.try_(connection(1), Barrier, NAME, arrive(2)), 409);
    world.done(connection(1), Barrier, NAME, RESET);
    world.assert_empty();
    let both = parties(&mut world, 1, 2, 2);
    assert_eq!(world.statuses(&both), [200, 200]);
}

#[test]
fn b_15_to_b_18_a_reset_turns_away_who_waits_and_breaks_nothing() {
    let mut world = World::default();
    world.done(connection(1), Barrier, NAME, RESET);
    let waits = parties(&mut world, 1, 2, 3);
    world.done(connection(9), Barrier, NAME, RESET);
    assert_eq!(world.statuses(&waits), [409, 409]);
    let again = parties(&mut world, 1, 3, 3);
    assert_eq!(world.statuses(&again), [200; 3]);
    world.assert_empty();
}

#[test]
fn other_parties_than_expected_are_refused() {
    let mut world = World::default();
    let waits = parties(&mut world, 1, 1, 3);
    assert_eq!(world.try_(connection(2), Barrier, NAME, arrive(2)), 409);
    assert_eq!(world.statuses(&waits), [0]);
    assert!(!is_broken(&mut world));
}

#[test]
fn an_older_generation_is_over() {
    let mut world = World::default();
    let round = parties(&mut world, 1, 2, 2);
    let over = world.header(round[0], Header::Generation);
    let meant = |generation| Verb::Arrive { parties: 2, generation: Some(generation) };
    let answer = world.done(connection(1), Barrier, NAME, meant(over));
    assert_eq!(answer.headers.get(Header::Generation), Some(over));
    world.restart();
    assert_eq!(world.try_(connection(1), Barrier, NAME, meant(over)), 200);
    let next = world.ask(connection(1), Barrier, NAME, arrive(2));
    let Details::Barrier { generation, .. } = world.details(Barrier, NAME) else { panic!() };
    assert_eq!(world.try_(connection(2), Barrier, NAME, meant(over)), 200);
    assert_eq!(world.status(next), None);
    assert_eq!(world.try_(connection(2), Barrier, NAME, meant(generation + 1)), 400);
    assert_eq!(world.try_(connection(2), Barrier, NAME, meant(generation)), 200);
    assert_eq!(world.status(next), Some(200));
}

#[test]
fn a_restart_forgets_who_had_arrived_and_breaks_nothing() {
    for snapshot in [false, true] {
        let mut world = World::default();
        parties(&mut world, 1, 2, 3);
        let Details::Barrier { generation, .. } = world.details(Barrier, NAME) else { panic!() };
        if snapshot {
            world.restart_from_snapshot()
        } else {
            world.restart()
        }
        assert!(!is_broken(&mut world));
        let meant = Verb::Arrive { parties: 3, generation: Some(generation) };
        let round = [1, 2, 3].map(|at| world.ask(connection(at), Barrier, NAME, meant));
        assert_eq!(world.statuses(&round), [200; 3]);
        assert_eq!(world.header(round[2], Header::Index), 2);
        world.assert_empty();
    }
}

#[test]
fn other_parties_can_meet_where_nobody_has_come_since_a_restart() {
    for snapshot in [false, true] {
        for alone in [false, true] {
            let mut world = World::default();
            parties(&mut world, 1, 2, 3);
            let Details::Barrier { generation, .. } = world.details(Barrier, NAME) else {
                panic!()
            };
            if snapshot {
                world.restart_from_snapshot()
            } else {
                world.restart()
            }
            let count = if alone { 1 } else { 2 };
            let round = parties(&mut world, 1, count.into(), count);
            assert!(round.iter().all(|party| world.status(*party) == Some(200)));
            assert!(world.header(round[0], Header::Generation) > generation);
            world.assert_empty();
        }
    }
    let mut world = World::default();
    parties(&mut world, 1, 2, 3);
    world.restart();
    parties(&mut world, 1, 1, 3);
    assert_eq!(world.try_(connection(2), Barrier, NAME, arrive(2)), 409, "somebody has come");
}

#[test]
fn a_party_of_a_session_stays_when_its_connection_is_lost() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.ask(connection(1).of(1).seq(1), Barrier, NAME, arrive(2));
    world.disconnect(1);
    assert!(!is_broken(&mut world));
    let other = world.ask(connection(2), Barrier, NAME, arrive(2));
    assert_eq!(world.status(other), Some(200));
    let again = world.ask(connection(3).of(1).seq(1), Barrier, NAME, arrive(2));
    assert_eq!(world.status(again), Some(200));
    assert_eq!(world.header(again, Header::Index), 0);
}

#[test]
fn the_end_of_a_session_breaks_it() {
    let mut world = World::default();
    world.open(1, 100);
    world.ask(connection(1).of(1).seq(1), Barrier, NAME, arrive(2));
    world.disconnect(1);
    world.pass(100);
    assert!(is_broken(&mut world));
}

#[test]
fn who_may_not_wait_leaves_no_barrier_behind() {
    let mut world = World::limited(Limits { waits: 0, ..Limits::default() });
    assert_eq!(world.try_(connection(1), Barrier, NAME, arrive(2)), 429);
    world.assert_empty();
}

/// The outcomes of all parties are kept at once, so there cannot be too many.
#[test]
fn numbered_parties_are_fewer() {
    let mut world = World::default();
    world.open(1, 60_000);
    for (parties, status) in [(MAX_NUMBERED_PARTIES, 0), (MAX_NUMBERED_PARTIES + 1, 400)] {
        let name = &format!("b{parties}");
        let numbered = world.ask(connection(1).of(1).seq(1), Barrier, name, arrive(parties));
        let plain = world.ask(connection(1).of(1), Barrier, name, arrive(parties));
        assert_eq!(world.statuses(&[numbered, plain]), [status, 0]);
        world.disconnect(1);
        world.done(connection(1), Barrier, name, RESET);
    }
}
