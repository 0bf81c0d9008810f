//! Locks: one holder at a time, known by its fence.

use semaforo_server::kernel::{
    Header, HoldMode,
    Kind::{Barrier, Lock, ReadWriteLock},
    Verb,
};

use crate::support::{RELEASE, World, acquire, arrive, connection, release, release_some};

const ONE: HoldMode = HoldMode::Permits(1);

#[test]
fn m_04_nobody_can_release_what_nobody_holds() {
    let mut world = World::default();
    assert_eq!(world.try_(connection(1), Lock, "a", RELEASE), 410);
    assert_eq!(world.try_(connection(1), Lock, "a", release(1)), 410);
    assert_eq!(world.try_(connection(1), Lock, "a", Verb::Check { fence: 1 }), 410);
    assert_eq!(world.show(Lock, "a"), None);
    world.assert_empty();
}

#[test]
fn m_05_only_the_holder_releases() {
    let mut world = World::default();
    let fence = world.hold(connection(1), Lock, "a", ONE);
    let second = world.ask(connection(2), Lock, "a", acquire(1));
    for other in [2, 3] {
        assert_eq!(world.try_(connection(other), Lock, "a", release(fence)), 410);
        assert_eq!(world.try_(connection(other), Lock, "a", RELEASE), 410);
    }
    assert_eq!(world.try_(connection(3), Lock, "a", Verb::Check { fence }), 200);
    assert_eq!(world.status(second), None);
}

#[test]
fn m_06_a_fence_of_an_earlier_hold_is_worth_nothing() {
    let mut world = World::default();
    let old = world.hold(connection(1), Lock, "a", ONE);
    world.done(connection(1), Lock, "a", release(old));
    let new = world.hold(connection(1), Lock, "a", ONE);
    assert!(new > old);
    assert_eq!(world.try_(connection(1), Lock, "a", release(old)), 410);
    assert_eq!(world.try_(connection(1), Lock, "a", Verb::Check { fence: old }), 410);
    assert_eq!(world.try_(connection(1), Lock, "a", Verb::Check { fence: new }), 200);
    assert_eq!(world.try_(connection(1), Lock, "b", release(new)), 410);
}

#[test]
fn m_09_the_holder_waits_like_everybody_and_leaves_no_ghost() {
    let mut world = World::default();
    world.hold(connection(1), Lock, "a", ONE);
    assert_eq!(world.try_(connection(1).now(), Lock, "a", acquire(1)), 204);
    let again = world.ask(connection(1).within(5), Lock, "a", acquire(1));
    let ever = world.ask(connection(1), Lock, "a", acquire(1));
    world.pass(5);
    assert_eq!(world.statuses(&[again, ever]), [204, 0]);
    assert!(world.cancel(ever));
    world.done(connection(1), Lock, "a", RELEASE);
    world.assert_empty();
}

#[test]
fn m_11_cancelling_a_waiter_leaves_the_holder_alone() {
    let mut world = World::default();
    let fence = world.hold(connection(1), Lock, "a", ONE);
    let waiter = world.ask(connection(2), Lock, "a", acquire(1));
    assert!(world.cancel(waiter));
    let view = world.show(Lock, "a").expect("it is held");
    assert_eq!((view.held, view.waiting, view.holders[0].fence), (1, 0, fence));
}

#[test]
fn locks_are_handed_on_in_order_with_growing_fences() {
    let mut world = World::default();
    let first = world.hold(connection(1), Lock, "a", ONE);
    let asks: Vec<_> = (2..6).map(|at| world.ask(connection(at), Lock, "a", acquire(1))).collect();
    let mut last = first;
    for (at, ask) in (1..).zip(&asks) {
        assert_eq!(world.status(*ask), None);
        world.done(connection(at), Lock, "a", RELEASE);
        assert!(world.header(*ask, Header::Fence) > last);
        last = world.header(*ask, Header::Fence);
    }
    world.done(connection(5), Lock, "a", RELEASE);
    world.assert_empty();
}

#[test]
fn a_lock_vanishes_with_the_last_who_uses_it() {
    let mut world = World::default();
    world.hold(connection(1), Lock, "a", ONE);
    let waiter = world.ask(connection(2), Lock, "a", acquire(1));
    world.disconnect(1);
    assert_eq!(world.status(waiter), Some(200));
    world.disconnect(2);
    world.assert_empty();
}

#[test]
fn what_was_made_by_use_cannot_be_created_or_deleted() {
    let mut world = World::default();
    world.hold(connection(1), Lock, "a", ONE);
    for name in ["a", "b"] {
        assert_eq!(world.try_(connection(1), Lock, name, Verb::Delete), 405);
        assert_eq!(world.try_(connection(1), Lock, name, crate::support::semaphore(1)), 405);
    }
}

#[test]
fn a_method_that_a_kind_does_not_have_is_refused_whether_or_not_the_object_is_there() {
    let mut world = World::default();
    world.hold(connection(1), Lock, "there", ONE);
    world.ask(connection(1), Barrier, "there", arrive(2));
    world.hold(connection(1), ReadWriteLock, "there", HoldMode::Read);
    let (fence, check) = (None, Verb::Check { fence: 1 });
    for name in ["there", "missing"] {
        for verb in [Verb::Downgrade { fence }, Verb::Upgrade { fence }] {
            assert_eq!(world.try_(connection(2), Lock, name, verb), 405);
            assert_eq!(world.try_(connection(2), Barrier, name, verb), 405);
            assert_eq!(world.try_(connection(2), ReadWriteLock, name, verb), 410);
        }
        for verb in [RELEASE, check, acquire(1)] {
            assert_eq!(world.try_(connection(2), Barrier, name, verb), 405);
        }
    }
}

#[test]
fn only_a_semaphore_knows_permits() {
    let mut world = World::default();
    for permits in [0, 1, 2] {
        for (kind, mode) in
            [(Lock, ONE), (ReadWriteLock, HoldMode::Read), (ReadWriteLock, HoldMode::Write)]
        {
            let fence = world.hold(connection(1), kind, "a", mode);
            world.done(connection(1), kind, "a", release_some(fence, permits));
            assert_eq!(world.kernel.census().holds, 0);
        }
    }
    world.assert_empty();
}

#[test]
fn fences_are_reserved_before_they_are_given_out_and_never_given_twice() {
    let mut world = World::default();
    world.open(1, 60_000);
    let mut last = 0;
    for round in 0..3 {
        let fence = world.hold(connection(1).of(1), Lock, &format!("a{round}"), ONE);
        assert!(world.urgent, "the first grant of a life reserves a block");
        assert!(fence > last);
        let next = world.hold(connection(1), Lock, &format!("b{round}"), ONE);
        assert!(!world.urgent);
        assert!(next > fence);
        last = next;
        if round % 2 == 0 { world.restart() } else { world.restart_from_snapshot() }
    }
    assert_eq!(world.kernel.census().holds, 3);
}

#[test]
fn a_block_of_fences_is_followed_by_the_next() {
    let mut world = World::default();
    let mut urgent = 0;
    let mut last = 0;
    for _ in 0..40_000 {
        let fence = world.hold(connection(1), Lock, "a", ONE);
        urgent += u32::from(world.urgent);
        assert_eq!(fence, last + 1);
        last = fence;
        world.done(connection(1), Lock, "a", RELEASE);
    }
    assert_eq!(urgent, 3);
}
