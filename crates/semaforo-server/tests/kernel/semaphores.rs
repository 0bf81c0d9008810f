//! Semaphores: permits are conserved, and granted in order.

use semaforo_server::kernel::{Details, Header, HoldMode, Kind::Semaphore, Settings, Verb};

use crate::support::{Request, World, acquire, connection, release, release_some, semaphore};

const NAME: &str = "s";

/// A semaphore of which so many permits are held by connection 9, one hold each. Gives their
/// fences.
fn world(permits: u32, held: u32) -> (World, Vec<u64>) {
    let mut world = World::default();
    world.done(connection(9), Semaphore, NAME, semaphore(permits));
    let one = |_| world.hold(connection(9), Semaphore, NAME, HoldMode::Permits(1));
    let fences = (0..held).map(one).collect();
    (world, fences)
}

/// The requests that wait for so many permits each, on connections 1, 2 and so on.
fn line(world: &mut World, asks: &[u32]) -> Vec<Request> {
    let ask = |(at, permits)| world.ask(connection(at), Semaphore, NAME, acquire(permits));
    (1..).zip(asks.iter().copied()).map(ask).collect()
}

fn give(world: &mut World, fences: &mut Vec<u64>, count: usize) {
    for fence in fences.drain(..count) {
        world.done(connection(9), Semaphore, NAME, release(fence));
    }
}

#[test]
fn s_01_permits_are_as_created_within_their_bounds() {
    for (permits, status) in
        [(0, 400), (1, 200), (42, 200), ((1 << 30) - 1, 200), (1 << 30, 400), (u32::MAX, 400)]
    {
        let mut world = World::default();
        assert_eq!(world.try_(connection(1), Semaphore, NAME, semaphore(permits)), status);
        if status == 200 {
            let details = Details::Semaphore { permits, available: permits, open: false };
            assert_eq!(world.details(Semaphore, NAME), details);
            assert_eq!(world.try_(connection(1), Semaphore, NAME, semaphore(permits)), 200);
            assert_eq!(world.try_(connection(1), Semaphore, NAME, semaphore(7)), 409);
        } else {
            assert_eq!(world.show(Semaphore, NAME), None);
        }
    }
}

#[test]
fn s_02_who_does_not_wait_is_refused_and_changes_nothing() {
    let (mut world, _) = world(2, 0);
    let tries: Vec<_> =
        (0..3).map(|_| world.try_(connection(1).now(), Semaphore, NAME, acquire(1))).collect();
    assert_eq!(tries, [200, 200, 204]);
    assert_eq!(world.available(NAME), 0);
    assert_eq!(world.waiting(Semaphore, NAME), 0);
}

#[test]
fn s_05_a_large_request_at_the_head_is_served_first() {
    let (mut world, mut fences) = world(5, 5);
    give(&mut world, &mut fences, 4);
    let asks = line(&mut world, &[5, 3]);
    give(&mut world, &mut fences, 1);
    assert_eq!(world.statuses(&asks), [200, 0]);
    let fence = world.header(asks[0], Header::Fence);
    world.done(connection(1), Semaphore, NAME, release_some(fence, 1));
    assert_eq!(world.statuses(&asks), [200, 0]);
    world.done(connection(1), Semaphore, NAME, release_some(fence, 2));
    assert_eq!(world.statuses(&asks), [200, 200]);
}

#[test]
fn s_07_releasing_nothing_changes_nothing_and_more_than_held_is_refused() {
    let (mut world, fences) = world(3, 2);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_some(fences[0], 0)), 200);
    assert_eq!(world.available(NAME), 1);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_some(fences[0], 2)), 400);
    assert_eq!(world.available(NAME), 1);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_some(fences[0], 1)), 200);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_some(fences[0], 1)), 410);
    assert_eq!(world.available(NAME), 2);
}

#[test]
fn s_09_a_newcomer_stands_in_line_although_a_permit_is_free() {
    let (mut world, mut fences) = world(4, 3);
    let asks = line(&mut world, &[3, 1]);
    assert_eq!(world.available(NAME), 1);
    give(&mut world, &mut fences, 2);
    assert_eq!(world.statuses(&asks), [200, 0]);
    give(&mut world, &mut fences, 1);
    assert_eq!(world.statuses(&asks), [200, 200]);
}

#[test]
fn s_12_who_releases_and_asks_again_goes_to_the_end() {
    let (mut world, _) = world(1, 0);
    let mut asks: Vec<_> = line(&mut world, &[1, 1, 1]);
    for at in [1, 2, 3] {
        world.done(connection(at), Semaphore, NAME, crate::support::RELEASE);
        asks.push(world.ask(connection(at), Semaphore, NAME, acquire(1)));
    }
    for at in [1, 2, 3] {
        world.done(connection(at), Semaphore, NAME, crate::support::RELEASE);
    }
    let fences: Vec<_> = asks.iter().map(|ask| world.header(*ask, Header::Fence)).collect();
    assert!(fences.is_sorted(), "granted in the order a, b, c, a, b, c: {fences:?}");
}

#[test]
fn s_13_what_is_released_together_goes_to_as_many_as_fit() {
    let (mut world, _) = world(3, 0);
    let all = world.hold(connection(9), Semaphore, NAME, HoldMode::Permits(3));
    let asks = line(&mut world, &[1, 2, 2]);
    world.done(connection(9), Semaphore, NAME, release(all));
    assert_eq!(world.statuses(&asks), [200, 200, 0]);
    world.done(connection(1), Semaphore, NAME, crate::support::RELEASE);
    assert_eq!(world.statuses(&asks), [200, 200, 0]);
    world.done(connection(2), Semaphore, NAME, crate::support::RELEASE);
    assert_eq!(world.statuses(&asks), [200, 200, 200]);
}

#[test]
fn s_14_what_was_released_to_a_waiter_is_not_available() {
    let (mut world, mut fences) = world(1, 1);
    let asks = line(&mut world, &[1]);
    give(&mut world, &mut fences, 1);
    assert_eq!(world.available(NAME), 0);
    assert_eq!(world.try_(connection(5).now(), Semaphore, NAME, acquire(1)), 204);
    assert_eq!(world.statuses(&asks), [200]);
}

#[test]
fn s_16_a_head_whose_time_is_up_lets_the_next_in() {
    let (mut world, _) = world(10, 1);
    let head = world.ask(connection(1).within(100), Semaphore, NAME, acquire(10));
    let next = world.ask(connection(2), Semaphore, NAME, acquire(1));
    world.pass(99);
    assert_eq!(world.statuses(&[head, next]), [0, 0]);
    world.pass(1);
    assert_eq!(world.statuses(&[head, next]), [204, 200]);
}

#[test]
fn s_17_a_head_that_is_cancelled_lets_in_as_many_as_fit() {
    let (mut world, _) = world(8, 5);
    let asks = line(&mut world, &[8, 2, 1, 4]);
    assert!(world.cancel(asks[0]));
    assert_eq!(world.statuses(&asks), [204, 200, 200, 0]);
    assert!(world.header(asks[1], Header::Fence) < world.header(asks[2], Header::Fence));
    assert_eq!(world.available(NAME), 0);
    assert_eq!(world.waiting(Semaphore, NAME), 1);
}

#[test]
fn s_18_cancelling_where_nothing_is_free_lets_nobody_in() {
    let (mut world, mut fences) = world(1, 1);
    let asks = line(&mut world, &[1, 1]);
    assert!(world.cancel(asks[1]));
    assert!(world.cancel(asks[0]));
    assert!(!world.cancel(asks[0]));
    assert_eq!(world.statuses(&asks), [204, 204]);
    give(&mut world, &mut fences, 1);
    assert_eq!(world.available(NAME), 1);
}

#[test]
fn s_23_who_was_cancelled_is_not_granted_later() {
    let (mut world, mut fences) = world(2, 1);
    let asks = line(&mut world, &[2]);
    assert!(world.cancel(asks[0]));
    give(&mut world, &mut fences, 1);
    assert_eq!(world.statuses(&asks), [204]);
    assert_eq!(world.try_(connection(3).now(), Semaphore, NAME, acquire(2)), 200);
}

#[test]
fn s_27_more_than_there_can_be_is_refused_and_holds_nobody_up() {
    let (mut world, _) = world(2, 0);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, acquire(3)), 400);
    for _ in 0..6 {
        let fence = world.hold(connection(2), Semaphore, NAME, HoldMode::Permits(1));
        world.done(connection(2), Semaphore, NAME, release(fence));
    }
    for mode in [HoldMode::Read, HoldMode::Write] {
        assert_eq!(world.try_(connection(1), Semaphore, NAME, Verb::Acquire(mode)), 400);
    }
}

#[test]
fn s_28_nothing_is_granted_at_once_and_disturbs_nobody() {
    let (mut world, mut fences) = world(1, 1);
    let asks = line(&mut world, &[1]);
    let nothing = world.hold(connection(5), Semaphore, NAME, HoldMode::Permits(0));
    assert_eq!(world.waiting(Semaphore, NAME), 1);
    assert_eq!(world.try_(connection(5), Semaphore, NAME, Verb::Check { fence: nothing }), 200);
    assert_eq!(world.try_(connection(5), Semaphore, NAME, release_some(nothing, 0)), 200);
    assert_eq!(world.try_(connection(5), Semaphore, NAME, Verb::Check { fence: nothing }), 410);
    assert_eq!(world.statuses(&asks), [0]);
    give(&mut world, &mut fences, 1);
    assert_eq!(world.statuses(&asks), [200]);
}

#[test]
fn deleting_turns_away_who_waits_and_ends_the_holds() {
    let (mut world, fences) = world(1, 1);
    world.open(1, 60_000);
    let asks = line(&mut world, &[1, 1]);
    let dormant = world.ask(connection(5).of(1).seq(1), Semaphore, NAME, acquire(1));
    world.disconnect(5);
    world.done(connection(3), Semaphore, NAME, Verb::Delete);
    assert_eq!(world.statuses(&asks), [404, 404]);
    assert_eq!(world.status(dormant), None);
    assert_eq!(world.kernel.census().waits, 0);
    assert_eq!(world.kernel.census().holds, 0);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release(fences[0])), 404);
    world.done(connection(3), Semaphore, NAME, semaphore(1));
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release(fences[0])), 410);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, Verb::Check { fence: fences[0] }), 410);
    assert_eq!(world.available(NAME), 1);
}

#[test]
fn a_hold_can_only_be_released_by_its_owner() {
    let (mut world, fences) = world(2, 1);
    world.open(1, 60_000);
    assert_eq!(world.try_(connection(1), Semaphore, NAME, release(fences[0])), 410);
    assert_eq!(world.try_(connection(9).of(1), Semaphore, NAME, release(fences[0])), 410);
    let mine = world.hold(connection(9).of(1), Semaphore, NAME, HoldMode::Permits(1));
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release(mine)), 410);
    assert_eq!(world.try_(connection(3).of(1), Semaphore, NAME, release(mine)), 200);
}

#[test]
fn which_hold_is_meant_must_be_said_if_there_are_several() {
    let (mut world, fences) = world(2, 2);
    let release_any = crate::support::RELEASE;
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_any), 400);
    world.done(connection(9), Semaphore, NAME, release(fences[0]));
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_any), 200);
    assert_eq!(world.try_(connection(9), Semaphore, NAME, release_any), 410);
}

#[test]
fn methods_of_other_kinds_are_refused() {
    let (mut world, _) = world(1, 0);
    for verb in [Verb::Set, Verb::Wait, Verb::Down { by: 1 }, crate::support::TAKE] {
        assert_eq!(world.try_(connection(1), Semaphore, NAME, verb), 405);
        assert_eq!(world.try_(connection(1), Semaphore, "missing", verb), 405);
    }
    let latch = Verb::Create(Settings::Latch { count: 1 });
    assert_eq!(world.try_(connection(1), Semaphore, NAME, latch), 405);
    assert_eq!(world.try_(connection(1), Semaphore, "missing", acquire(1)), 404);
}
