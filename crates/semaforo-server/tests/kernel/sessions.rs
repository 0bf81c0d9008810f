//! Who holds and waits: sessions that live on, connections that do not, and readers that are slow.

use semaforo_server::kernel::{
    Header, HoldMode,
    Kind::{Barrier, Latch, Lock, Queue, Semaphore},
    Operation, Verb,
};

use crate::support::{
    BORROW, Caller, RELEASE, TAKE, World, acquire, arrive, connection, latch, put, queue,
    semaphore, transfer,
};

const ONE: HoldMode = HoldMode::Permits(1);

#[test]
fn a_silent_session_ends_and_what_it_held_goes_on() {
    let mut world = World::default();
    world.open(1, 1000);
    world.hold(connection(1).of(1), Lock, "a", ONE);
    let own = world.ask(connection(1).of(1), Lock, "a", acquire(1));
    let next = world.ask(connection(2), Lock, "a", acquire(1));
    world.pass(999);
    assert_eq!(world.statuses(&[own, next]), [0, 0]);
    world.pass(1);
    assert_eq!(world.statuses(&[own, next]), [410, 200]);
    assert_eq!(world.try_(connection(1).of(1), Lock, "a", RELEASE), 410);
    world.disconnect(2);
    world.disconnect(1);
    world.assert_empty();
}

#[test]
fn every_request_keeps_a_session_alive() {
    let mut world = World::default();
    world.open(1, 1000);
    for operation in [Operation::KeepAlive, Operation::Ping] {
        world.pass(999);
        let request = world.command(connection(1).of(1), operation);
        assert_eq!(world.status(request), Some(200));
    }
    world.pass(999);
    assert_eq!(world.try_(connection(1).of(1), Lock, "a", RELEASE), 410);
    world.pass(999);
    let request = world.command(connection(1).of(1), Operation::KeepAlive);
    assert_eq!(world.header(request, Header::Ttl), 1000);
    world.pass(1000);
    let request = world.command(connection(1).of(1), Operation::KeepAlive);
    assert_eq!(world.status(request), Some(410));
    world.assert_empty();
}

#[test]
fn closing_releases_in_order_and_answers_who_waits() {
    let mut world = World::default();
    world.open(1, 1000);
    world.done(connection(9), Queue, "q", queue(0));
    world.done(connection(9), Queue, "q", put(b"m"));
    world.done(connection(9), Latch, "l", latch(1));
    let session = connection(1).of(1);
    for name in ["a", "b"] {
        world.hold(session, Lock, name, ONE);
    }
    world.done(session, Queue, "q", BORROW);
    let waits = world.ask(session, Latch, "l", Verb::Wait);
    let next = ["b", "a"].map(|name| world.ask(connection(2), Lock, name, acquire(1)));
    let taker = world.ask(connection(3), Queue, "q", TAKE);
    let close = world.command(session, Operation::Close);
    assert_eq!(world.status(close), Some(200));
    assert_eq!(world.statuses(&[waits, next[0], next[1], taker]), [410, 200, 200, 200]);
    assert!(
        world.header(next[1], Header::Fence) < world.header(next[0], Header::Fence),
        "what was held first is released first"
    );
    let close = world.command(session, Operation::Close);
    assert_eq!(world.status(close), Some(410));
}

#[test]
fn nothing_is_granted_to_a_session_that_ends() {
    for close in [false, true] {
        let mut world = World::default();
        world.open(1, 1000);
        world.done(connection(9), Semaphore, "s", semaphore(3));
        world.hold(connection(9), Semaphore, "s", ONE);
        let session = connection(1).of(1);
        let asks = [3, 1, 1].map(|permits| world.ask(session, Semaphore, "s", acquire(permits)));
        let fence = world.kernel.census().next_fence;
        if close {
            world.command(session, Operation::Close);
        } else {
            world.pass(1000);
        }
        assert_eq!(world.statuses(&asks), [410; 3]);
        assert_eq!(world.kernel.census().next_fence, fence, "no grant was lost on it");
        assert_eq!(world.available("s"), 2);
    }
}

#[test]
fn nothing_is_granted_to_a_connection_that_is_gone() {
    for half in [false, true] {
        let mut world = World::default();
        world.done(connection(9), Semaphore, "s", semaphore(3));
        world.hold(connection(9), Semaphore, "s", ONE);
        let asks = [3, 1].map(|permits| world.ask(connection(1), Semaphore, "s", acquire(permits)));
        if half {
            world.half_close(1);
            assert_eq!(world.statuses(&asks), [204, 204]);
        } else {
            world.disconnect(1);
            assert_eq!(world.statuses(&asks), [0, 0]);
        }
        assert_eq!(world.available("s"), 2);
    }
}

#[test]
fn nothing_is_granted_to_a_session_whose_connection_is_gone() {
    let mut world = World::default();
    world.open(1, 1000);
    world.done(connection(9), Semaphore, "s", semaphore(3));
    world.hold(connection(9), Semaphore, "s", ONE);
    world.ask(connection(1).of(1).seq(1), Semaphore, "s", acquire(3));
    world.ask(connection(1).of(1).seq(2), Semaphore, "s", acquire(1));
    world.disconnect(1);
    assert_eq!(world.available("s"), 2);
    assert_eq!(world.waiting(Semaphore, "s"), 2);
}

#[test]
fn one_that_waits_goes_dormant_with_its_connection_and_keeps_its_place() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    let session = connection(1).of(1).seq(1);
    let first = world.ask(session, Lock, "a", acquire(1));
    let second = world.ask(connection(2), Lock, "a", acquire(1));
    let third = world.ask(connection(3), Lock, "a", acquire(1));
    world.disconnect(1);
    world.done(connection(9), Lock, "a", RELEASE);
    assert_eq!(world.statuses(&[first, second, third]), [0, 200, 0], "it is passed over");
    let again = world.ask(connection(4).of(1).seq(1), Lock, "a", acquire(1));
    world.done(connection(2), Lock, "a", RELEASE);
    assert_eq!(world.statuses(&[first, again, third]), [0, 200, 0], "its place was kept");
}

#[test]
fn one_that_cannot_be_retried_is_withdrawn_with_its_connection() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    let waits = world.ask(connection(1).of(1), Lock, "a", acquire(1));
    world.disconnect(1);
    assert_eq!(world.status(waits), None);
    assert_eq!(world.kernel.census().waits, 0);
}

#[test]
fn one_that_is_dormant_is_bound_by_its_time_limit_and_comes_back_as_a_new_one() {
    for half in [false, true] {
        let mut world = World::default();
        world.open(1, 60_000);
        world.hold(connection(9), Lock, "a", ONE);
        world.ask(connection(1).of(1).seq(1).within(10), Lock, "a", acquire(1));
        let second = world.ask(connection(2), Lock, "a", acquire(1));
        if half {
            world.half_close(1)
        } else {
            world.disconnect(1)
        }
        world.pass(9);
        assert_eq!(world.waiting(Lock, "a"), 2);
        world.pass(1);
        assert_eq!(world.waiting(Lock, "a"), 1);
        let again = world.ask(connection(3).of(1).seq(1).within(20), Lock, "a", acquire(1));
        world.done(connection(9), Lock, "a", RELEASE);
        assert_eq!(world.statuses(&[second, again]), [200, 0], "its place was not kept");
        world.done(connection(2), Lock, "a", RELEASE);
        assert_eq!(world.status(again), Some(200));
        assert_eq!(world.kernel.census().waits, 0);
    }
}

#[test]
fn what_is_dormant_and_can_still_succeed_ends_at_its_time_limit() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.done(connection(9), Queue, "q", queue(0));
    let sender = connection(1).of(1).seq(1).within(10);
    let party = connection(1).of(1).seq(2).within(10);
    world.ask(sender, Queue, "q", transfer(b"a"));
    world.ask(party, Barrier, "b", arrive(2));
    world.disconnect(1);
    world.pass(10);
    assert_eq!(world.kernel.census().waits, 0);
    assert_eq!(world.try_(connection(2).now(), Queue, "q", TAKE), 204, "it was withdrawn");
    assert_eq!(world.try_(connection(2), Barrier, "b", arrive(2)), 409, "a party went away");
    let again = world.ask(Caller { connection: 3, ..sender }, Queue, "q", transfer(b"a"));
    let taker = world.ask(connection(2), Queue, "q", TAKE);
    assert_eq!(world.statuses(&[again, taker]), [200, 200]);
}

#[test]
fn one_that_comes_again_in_time_is_not_bound_by_its_old_time_limit() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    let session = connection(1).of(1).seq(1);
    world.ask(session.within(10), Lock, "a", acquire(1));
    let second = world.ask(connection(2), Lock, "a", acquire(1));
    world.disconnect(1);
    world.pass(9);
    let again = world.ask(session.within(20), Lock, "a", acquire(1));
    world.pass(19);
    assert_eq!(world.status(again), None);
    world.done(connection(9), Lock, "a", RELEASE);
    assert_eq!(world.statuses(&[again, second]), [200, 0]);
}

#[test]
fn one_that_comes_again_has_its_new_time_limit() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    let session = connection(1).of(1).seq(1);
    world.ask(session, Lock, "a", acquire(1));
    world.disconnect(1);
    let again = world.ask(session.within(50), Lock, "a", acquire(1));
    world.pass(50);
    assert_eq!(world.status(again), Some(204));
    world.ask(session, Lock, "a", acquire(1));
    world.disconnect(1);
    let again = world.ask(session.now(), Lock, "a", acquire(1));
    assert_eq!(world.status(again), Some(204));
    assert_eq!(world.kernel.census().waits, 0);
}

#[test]
fn one_that_comes_again_elsewhere_is_answered_there_and_the_older_one_learns_that() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    let old = world.ask(connection(1).of(1).seq(1), Lock, "a", acquire(1));
    let new = world.ask(connection(2).of(1).seq(1), Lock, "a", acquire(1));
    assert_eq!(world.statuses(&[old, new]), [409, 0]);
    world.disconnect(1);
    world.done(connection(9), Lock, "a", RELEASE);
    assert_eq!(world.status(new), Some(200));
}

#[test]
fn holdings_of_sessions_outlive_the_server_and_those_of_connections_do_not() {
    for snapshot in [false, true] {
        let mut world = World::default();
        world.open(1, 1000);
        world.done(connection(9), Semaphore, "s", semaphore(5));
        let fence = world.hold(connection(1).of(1), Semaphore, "s", HoldMode::Permits(3));
        let some = Verb::Release { fence: Some(fence), permits: Some(1) };
        world.done(connection(1).of(1), Semaphore, "s", some);
        world.hold(connection(1), Semaphore, "s", HoldMode::Permits(2));
        world.hold(connection(1), Lock, "mine", ONE);
        world.hold(connection(1).of(1), Lock, "ours", ONE);
        world.pass(900);
        if snapshot {
            world.restart_from_snapshot()
        } else {
            world.restart()
        }
        assert_eq!(world.available("s"), 3);
        assert_eq!(world.kernel.census().holds, 2);
        assert_eq!(world.show(Lock, "mine"), None);
        world.pass(999);
        assert_eq!(world.try_(connection(3).now(), Lock, "ours", acquire(1)), 204);
        world.pass(1);
        assert_eq!(world.try_(connection(3).now(), Lock, "ours", acquire(1)), 200);
        assert_eq!(world.available("s"), 5);
    }
}

#[test]
fn after_a_pause_of_the_server_all_sessions_get_their_whole_time() {
    let mut world = World::default();
    world.open(1, 1000);
    world.hold(connection(1).of(1), Lock, "a", ONE);
    world.time += 50_000;
    world.kernel.renew_sessions(world.time);
    world.pass(999);
    assert_eq!(world.kernel.census().sessions, 1);
    world.pass(1);
    world.assert_empty();
}

#[test]
fn renewing_and_closing_leaves_nothing_to_look_at_later() {
    let mut world = World::default();
    for _ in 0..10 {
        world.open(1, 86_400_000);
        world.pass(10);
        world.command(connection(1).of(1), Operation::KeepAlive);
        world.kernel.renew_sessions(world.time + 5);
        world.command(connection(1).of(1), Operation::Close);
        assert_eq!(world.kernel.next_deadline(), None);
    }
    world.assert_empty();
}

#[test]
fn a_connection_that_goes_gives_back_what_it_had() {
    let mut world = World::default();
    world.done(connection(9), Semaphore, "s", semaphore(4));
    world.done(connection(9), Queue, "q", queue(0));
    world.done(connection(9), Queue, "q", put(b"a"));
    world.hold(connection(1), Semaphore, "s", HoldMode::Permits(3));
    world.hold(connection(1), Semaphore, "s", ONE);
    world.hold(connection(1), Lock, "a", ONE);
    world.done(connection(1), Queue, "q", BORROW);
    let waits = [
        world.ask(connection(2), Semaphore, "s", acquire(4)),
        world.ask(connection(3), Lock, "a", acquire(1)),
        world.ask(connection(4), Queue, "q", TAKE),
    ];
    world.half_close(1);
    assert_eq!(world.statuses(&waits), [0; 3], "half closed, it keeps what it has");
    world.disconnect(1);
    assert_eq!(world.statuses(&waits), [200; 3]);
}

#[test]
fn a_half_closed_connection_learns_that_it_does_not_wait_any_more() {
    let mut world = World::default();
    world.done(connection(9), Queue, "q", queue(1));
    let taker = world.ask(connection(1), Queue, "q", TAKE);
    world.half_close(1);
    assert_eq!(world.status(taker), Some(204));
    let sender = world.ask(connection(1), Queue, "q", transfer(b"a"));
    let putter = world.ask(connection(1), Queue, "q", put(b"b"));
    world.half_close(1);
    assert_eq!(world.statuses(&[sender, putter]), [204, 204]);
    assert_eq!(world.kernel.census().bytes, 0);
}

#[test]
fn a_slow_reader_is_passed_over_until_it_reads() {
    let mut world = World::default();
    world.done(connection(9), Queue, "q", queue(0));
    let slow = [1, 1].map(|at| world.ask(connection(at), Queue, "q", TAKE));
    let quick = world.ask(connection(2), Queue, "q", TAKE);
    world.pause(1);
    world.done(connection(9), Queue, "q", put(b"a"));
    world.done(connection(9), Queue, "q", put(b"b"));
    assert_eq!(world.statuses(&[slow[0], slow[1], quick]), [0, 0, 200]);
    let late = world.ask(connection(1), Queue, "q", TAKE);
    assert_eq!(world.payload(late), b"b", "what is there is not withheld");
    let more = world.ask(connection(1), Queue, "q", TAKE);
    world.done(connection(9), Queue, "q", put(b"c"));
    assert_eq!(world.status(more), None, "it does not begin to wait while it is slow");
    world.resume(1);
    assert_eq!(world.payload(slow[0]), b"c");
    assert_eq!(world.statuses(&[slow[1], more]), [0, 0]);
    world.done(connection(9), Queue, "q", put(b"d"));
    world.done(connection(9), Queue, "q", put(b"e"));
    assert_eq!(world.payload(slow[1]), b"d");
    assert_eq!(world.payload(more), b"e");
}

#[test]
fn a_slow_reader_gets_nothing_at_the_moment_it_is_found_slow() {
    let mut world = World::default();
    world.done(connection(9), Semaphore, "s", semaphore(3));
    world.hold(connection(9), Semaphore, "s", ONE);
    let asks = [3, 1].map(|permits| world.ask(connection(1), Semaphore, "s", acquire(permits)));
    let other = world.ask(connection(2), Semaphore, "s", acquire(2));
    world.pause(1);
    assert_eq!(world.statuses(&[asks[0], asks[1], other]), [0, 0, 200]);
    world.disconnect(2);
    world.resume(1);
    assert_eq!(world.statuses(&asks), [0, 0], "their order is what it was");
    world.disconnect(9);
    assert_eq!(world.statuses(&asks), [200, 0]);
}

#[test]
fn those_of_a_connection_that_reads_again_are_served_by_their_places() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    world.ask(connection(1).of(1).seq(1), Lock, "a", acquire(1));
    let later = world.ask(connection(2).of(1).seq(2), Lock, "a", acquire(1));
    let first = world.ask(connection(2).of(1).seq(1), Lock, "a", acquire(1));
    world.pause(2);
    world.disconnect(9);
    world.resume(2);
    assert_eq!(world.statuses(&[first, later]), [200, 0]);
}

#[test]
fn a_request_that_comes_again_on_a_slow_connection_stays_dormant() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    world.ask(connection(1).of(1).seq(1), Lock, "a", acquire(1));
    world.disconnect(1);
    world.pause(2);
    let again = world.ask(connection(2).of(1).seq(1), Lock, "a", acquire(1));
    world.done(connection(9), Lock, "a", RELEASE);
    assert_eq!(world.status(again), None);
    world.resume(2);
    assert_eq!(world.status(again), Some(200));
}

#[test]
fn a_slow_reader_still_times_out_and_can_go() {
    let mut world = World::default();
    world.hold(connection(9), Lock, "a", ONE);
    let timed = world.ask(connection(1).within(10), Lock, "a", acquire(1));
    world.ask(connection(1), Lock, "a", acquire(1));
    world.pause(1);
    world.pass(10);
    assert_eq!(world.status(timed), Some(204));
    world.disconnect(1);
    world.disconnect(9);
    world.assert_empty();
}

#[test]
fn a_waiting_request_of_a_session_is_cancelled_by_its_number() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.hold(connection(9), Lock, "a", ONE);
    let session = connection(1).of(1);
    let waits = world.ask(session.seq(4), Lock, "a", acquire(1));
    let cancel = world.command(connection(2).of(1), Operation::Cancel { seq: 4 });
    assert_eq!(world.statuses(&[waits, cancel]), [204, 200]);
    let cancel = world.command(connection(2).of(1), Operation::Cancel { seq: 4 });
    assert_eq!(world.status(cancel), Some(404));
    let cancel = world.command(connection(2), Operation::Cancel { seq: 4 });
    assert_eq!(world.status(cancel), Some(400));
}

#[test]
fn when_the_server_stops_all_who_wait_are_told_once() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.done(connection(9), Queue, "q", queue(1));
    world.done(connection(9), Latch, "l", latch(1));
    world.hold(connection(9), Lock, "a", ONE);
    let waits = [
        world.ask(connection(1), Queue, "q", TAKE),
        world.ask(connection(1), Latch, "l", Verb::Wait),
        world.ask(connection(2).of(1).seq(1), Lock, "a", acquire(1)),
        world.ask(connection(2), Barrier, "b", arrive(2)),
    ];
    let lost = world.ask(connection(3).of(1).seq(2), Lock, "a", acquire(1));
    world.disconnect(3);
    world.stop();
    assert_eq!(world.statuses(&waits), [503; 4]);
    assert_eq!(world.status(lost), None);
    world.stop();
    assert_eq!(world.kernel.census().waits, 0);
}
