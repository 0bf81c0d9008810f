//! Queues: messages have their places, requests that take and that put have their turns.

use semaforo_server::kernel::{Details, Header, Kind::Queue, Verb};

use crate::support::{BORROW, Caller, Request, TAKE, World, connection, put, queue, transfer};

const NAME: &str = "q";

fn world(capacity: u64) -> World {
    let mut world = World::default();
    world.done(connection(9), Queue, NAME, queue(capacity));
    world.open(1, 60_000);
    world.open(2, 60_000);
    world
}

fn put_all(world: &mut World, messages: &[&[u8]]) -> Vec<Request> {
    messages.iter().map(|message| world.ask(connection(9), Queue, NAME, put(message))).collect()
}

fn prioritized(payload: &[u8], priority: i32) -> Verb<'_> {
    Verb::Put { payload, priority, delay: 0 }
}

fn delayed(payload: &[u8], delay: u64) -> Verb<'_> {
    Verb::Put { payload, priority: 0, delay }
}

/// Takes what there is, one by one.
fn drain(world: &mut World) -> String {
    let mut all = Vec::new();
    loop {
        let request = world.ask(connection(8).now(), Queue, NAME, TAKE);
        if world.status(request) != Some(200) {
            return String::from_utf8(all).expect("letters");
        }
        all.extend_from_slice(world.payload(request));
    }
}

/// How many are ready, delayed and out.
fn counts(world: &mut World) -> [usize; 3] {
    match world.details(Queue, NAME) {
        Details::Queue { ready, delayed, out, .. } => [ready, delayed, out],
        other => panic!("{other:?} is no queue"),
    }
}

/// Takes a message until it is acknowledged. Gives its number.
fn borrow(world: &mut World, caller: Caller) -> u64 {
    let answer = world.done(caller, Queue, NAME, BORROW);
    answer.headers.get(Header::Message).expect("a message has a number")
}

#[test]
fn q_02_first_in_first_out_within_the_capacity() {
    let mut world = world(3);
    assert_eq!(
        {
            let all = put_all(&mut world, &[b"a", b"b", b"c"]);
            world.statuses(&all)
        },
        [200; 3]
    );
    assert_eq!(counts(&mut world), [3, 0, 0]);
    assert_eq!(drain(&mut world), "abc");
    assert_eq!(counts(&mut world), [0, 0, 0]);
    assert_eq!(world.kernel.census().bytes, 0);
}

#[test]
fn q_03_who_does_not_wait_for_space_is_refused() {
    let mut world = world(1);
    put_all(&mut world, &[b"a"]);
    assert_eq!(world.try_(connection(1).now(), Queue, NAME, put(b"b")), 204);
    let timed = world.ask(connection(1).within(10), Queue, NAME, put(b"c"));
    world.pass(10);
    assert_eq!(world.status(timed), Some(204));
    assert_eq!(world.kernel.census().bytes, 1);
    assert_eq!(drain(&mut world), "a");
}

#[test]
fn q_05_and_q_07_those_who_wait_for_space_get_it_in_order() {
    let mut world = world(1);
    let puts = put_all(&mut world, &[b"x", b"a", b"b", b"c", b"d", b"e"]);
    assert!(world.cancel(puts[2]));
    assert!(world.cancel(puts[4]));
    assert_eq!(world.statuses(&puts), [200, 0, 204, 0, 204, 0]);
    for expected in
        [[200, 200, 204, 0, 204, 0], [200, 200, 204, 200, 204, 0], [200, 200, 204, 200, 204, 200]]
    {
        world.done(connection(1), Queue, NAME, TAKE);
        assert_eq!(world.statuses(&puts), expected);
    }
    assert_eq!(drain(&mut world), "e");
}

#[test]
fn q_06_a_taker_that_gave_up_gets_nothing() {
    let mut world = world(0);
    let taker = world.ask(connection(1), Queue, NAME, TAKE);
    assert!(world.cancel(taker));
    put_all(&mut world, &[b"a"]);
    assert_eq!(world.status(taker), Some(204));
    assert_eq!(drain(&mut world), "a");
}

#[test]
fn q_08_space_goes_past_one_who_is_gone() {
    let mut world = world(1);
    put_all(&mut world, &[b"x"]);
    let first = world.ask(connection(1), Queue, NAME, put(b"a"));
    let second = world.ask(connection(2), Queue, NAME, put(b"b"));
    world.disconnect(1);
    assert_eq!(drain(&mut world), "xb");
    assert_eq!(world.statuses(&[first, second]), [0, 200]);
}

#[test]
fn q_09_space_that_was_given_away_is_not_there_for_others() {
    let mut world = world(1);
    put_all(&mut world, &[b"x"]);
    world.ask(connection(1), Queue, NAME, put(b"a"));
    world.done(connection(2), Queue, NAME, TAKE);
    assert_eq!(world.try_(connection(3).now(), Queue, NAME, put(b"b")), 204);
    assert_eq!(drain(&mut world), "a");
}

#[test]
fn takers_are_served_in_order() {
    let mut world = world(0);
    let takers = [1, 2, 3].map(|at| world.ask(connection(at), Queue, NAME, TAKE));
    put_all(&mut world, &[b"a", b"b"]);
    assert_eq!(world.statuses(&takers), [200, 200, 0]);
    assert_eq!(world.payload(takers[0]), b"a");
    assert_eq!(world.payload(takers[1]), b"b");
    assert_eq!(counts(&mut world), [0, 0, 0]);
}

#[test]
fn pr_smaller_priorities_come_first_then_smaller_numbers() {
    let mut world = world(0);
    let all = [(b"d", 1), (b"b", 0), (b"e", i32::MAX), (b"c", 0), (b"a", i32::MIN)];
    for (payload, priority) in all {
        world.done(connection(1), Queue, NAME, prioritized(payload, priority));
    }
    assert_eq!(drain(&mut world), "abcde");
}

#[test]
fn pr_05_a_taker_gets_the_first_that_came_and_the_other_stays() {
    let mut world = world(0);
    let taker = world.ask(connection(1), Queue, NAME, TAKE);
    world.done(connection(2), Queue, NAME, prioritized(b"l", 9));
    world.done(connection(2), Queue, NAME, prioritized(b"h", 0));
    assert_eq!(world.payload(taker), b"l");
    assert_eq!(drain(&mut world), "h");
}

#[test]
fn a_delayed_message_takes_its_place_when_its_time_has_come() {
    let mut world = world(0);
    world.done(connection(1), Queue, NAME, delayed(b"a", 100));
    world.done(connection(1), Queue, NAME, delayed(b"b", 50));
    world.done(connection(1), Queue, NAME, put(b"c"));
    assert_eq!(counts(&mut world), [1, 2, 0]);
    assert_eq!(world.kernel.next_deadline(), Some(world.time + 50));
    world.pass(50);
    assert_eq!(counts(&mut world), [2, 1, 0]);
    let first = world.ask(connection(1), Queue, NAME, TAKE);
    assert_eq!(world.payload(first), b"b", "its number is lower");
    let second = world.ask(connection(1), Queue, NAME, TAKE);
    assert_eq!(world.payload(second), b"c");
    let taker = world.ask(connection(1), Queue, NAME, TAKE);
    world.pass(50);
    assert_eq!(world.payload(taker), b"a");
}

#[test]
fn a_message_that_is_due_can_be_taken_before_the_kernel_was_told() {
    let mut world = world(0);
    world.done(connection(1), Queue, NAME, delayed(b"a", 10));
    world.done(connection(1), Queue, NAME, delayed(b"b", 20));
    world.time += 10;
    assert_eq!(drain(&mut world), "a");
    assert_eq!(world.kernel.next_deadline(), Some(world.time + 10));
    let first = world.ask(connection(2), Queue, NAME, TAKE);
    world.time += 10;
    let second = world.ask(connection(3), Queue, NAME, TAKE);
    assert_eq!(world.statuses(&[first, second]), [200, 0], "it was there first");
    assert_eq!(world.payload(first), b"b");
}

#[test]
fn delays_outlive_the_server() {
    for snapshot in [false, true] {
        let mut world = world(0);
        world.done(connection(1), Queue, NAME, delayed(b"a", 100));
        world.done(connection(1), Queue, NAME, put(b"b"));
        world.pass(60);
        if snapshot {
            world.restart_from_snapshot()
        } else {
            world.restart()
        }
        assert_eq!(counts(&mut world), [1, 1, 0]);
        assert_eq!(drain(&mut world), "b");
        world.pass(40);
        assert_eq!(drain(&mut world), "a");
    }
}

#[test]
fn a_delay_without_end_is_no_mistake() {
    let mut world = world(0);
    world.done(connection(1), Queue, NAME, delayed(b"a", u64::MAX));
    world.pass(1_000_000);
    assert_eq!(counts(&mut world), [0, 1, 0]);
}

#[test]
fn what_is_out_is_gone_when_acknowledged_and_back_in_its_place_when_returned() {
    for caller in [connection(1), connection(1).of(1)] {
        let mut world = world(0);
        put_all(&mut world, &[b"a", b"b", b"c"]);
        let (a, b) = (borrow(&mut world, caller), borrow(&mut world, caller));
        assert_eq!(counts(&mut world), [1, 0, 2]);
        for other in [connection(2), connection(1).of(2)] {
            assert_eq!(
                world.try_(other, Queue, NAME, Verb::Ack { message: a, deliveries: None }),
                410
            );
            let back = Verb::Return { message: a, deliveries: None, delay: 0 };
            assert_eq!(world.try_(other, Queue, NAME, back), 410);
        }
        world.done(caller, Queue, NAME, Verb::Ack { message: b, deliveries: None });
        assert_eq!(
            world.try_(caller, Queue, NAME, Verb::Ack { message: b, deliveries: None }),
            410
        );
        world.done(caller, Queue, NAME, Verb::Return { message: a, deliveries: None, delay: 0 });
        assert_eq!(
            world.try_(
                caller,
                Queue,
                NAME,
                Verb::Return { message: a, deliveries: None, delay: 0 }
            ),
            410
        );
        assert_eq!(world.kernel.census().bytes, 2);
        assert_eq!(drain(&mut world), "ac");
        assert_eq!(world.kernel.census().bytes, 0);
    }
}

#[test]
fn deliveries_are_counted() {
    for (caller, delay) in [(connection(1), 0), (connection(1), 10), (connection(1).of(1), 10)] {
        let mut world = world(0);
        put_all(&mut world, &[b"a"]);
        for round in 1..=3 {
            let answer = world.done(caller, Queue, NAME, BORROW);
            assert_eq!(answer.headers.get(Header::Deliveries), Some(round));
            let message = answer.headers.get(Header::Message).expect("a number");
            world.done(caller, Queue, NAME, Verb::Return { message, deliveries: None, delay });
            world.pass(delay);
        }
    }
}

#[test]
fn a_message_returned_with_a_delay_waits_for_its_time() {
    for caller in [connection(1), connection(1).of(1)] {
        let mut world = world(0);
        put_all(&mut world, &[b"a", b"b"]);
        let message = borrow(&mut world, caller);
        world.done(caller, Queue, NAME, Verb::Return { message, deliveries: None, delay: 100 });
        assert_eq!(counts(&mut world), [1, 1, 0]);
        world.restart();
        assert_eq!(counts(&mut world), [1, 1, 0]);
        world.pass(100);
        assert_eq!(drain(&mut world), "ab");
    }
}

#[test]
fn a_message_that_returns_is_not_written_again() {
    for caller in [connection(1), connection(1).of(1)] {
        let mut world = world(0);
        world.done(connection(9), Queue, NAME, put(&[b'm'; 5000]));
        let message = borrow(&mut world, caller);
        let before = world.journal.len();
        world.done(caller, Queue, NAME, Verb::Return { message, deliveries: None, delay: 100 });
        assert!(world.journal.len() < before + 50);
        let request = world.ask(connection(2), Queue, NAME, TAKE);
        world.pass(100);
        assert_eq!(world.payload(request), [b'm'; 5000]);
        assert_eq!(world.header(request, Header::Deliveries), 2);
    }
}

#[test]
fn what_is_delayed_or_out_counts_towards_the_capacity() {
    let mut world = world(2);
    world.done(connection(1), Queue, NAME, delayed(b"a", 100));
    put_all(&mut world, &[b"b"]);
    let message = borrow(&mut world, connection(1));
    let waits = world.ask(connection(2), Queue, NAME, put(b"c"));
    assert_eq!(world.status(waits), None);
    world.done(connection(1), Queue, NAME, Verb::Ack { message, deliveries: None });
    assert_eq!(world.status(waits), Some(200));
}

#[test]
fn what_was_out_returns_when_its_holder_is_gone() {
    let mut world = world(0);
    put_all(&mut world, &[b"a", b"b", b"c"]);
    borrow(&mut world, connection(1));
    borrow(&mut world, connection(2).of(1));
    let taker = world.ask(connection(3), Queue, NAME, TAKE);
    assert_eq!(world.payload(taker), b"c");
    let waits = [4, 5].map(|at| world.ask(connection(at), Queue, NAME, TAKE));
    world.disconnect(2);
    assert_eq!(world.statuses(&waits), [0, 0], "the session lives on");
    world.disconnect(1);
    assert_eq!(world.payload(waits[0]), b"a");
    world.pass(60_000);
    assert_eq!(world.payload(waits[1]), b"b");
}

#[test]
fn what_is_out_to_a_session_stays_out_across_a_restart_and_what_is_out_to_a_connection_returns() {
    for snapshot in [false, true] {
        let mut world = world(0);
        put_all(&mut world, &[b"a", b"b"]);
        let message = borrow(&mut world, connection(1).of(1));
        borrow(&mut world, connection(1));
        if snapshot {
            world.restart_from_snapshot()
        } else {
            world.restart()
        }
        assert_eq!(counts(&mut world), [1, 0, 1]);
        assert_eq!(drain(&mut world), "b");
        world.done(connection(7).of(1), Queue, NAME, Verb::Ack { message, deliveries: None });
        assert_eq!(counts(&mut world), [0, 0, 0]);
    }
}

#[test]
fn a_message_that_could_not_be_sent_is_back_in_its_place() {
    let mut world = world(0);
    put_all(&mut world, &[b"a", b"b", b"c"]);
    let request = world.ask(connection(1), Queue, NAME, TAKE);
    let parcel = world.parcel(request);
    world.disconnect(1);
    world.undelivered(&parcel);
    assert_eq!(world.kernel.census().bytes, 3);
    world.undelivered(&parcel);
    assert_eq!(world.kernel.census().bytes, 3, "only once");
    world.restart();
    assert_eq!(drain(&mut world), "abc");
}

#[test]
fn a_message_that_could_not_be_sent_goes_to_who_waits() {
    let mut world = world(1);
    put_all(&mut world, &[b"a"]);
    let request = world.ask(connection(1), Queue, NAME, TAKE);
    let parcel = world.parcel(request);
    put_all(&mut world, &[b"b"]);
    world.undelivered(&parcel);
    assert_eq!(counts(&mut world), [2, 0, 0], "even if there is no space any more");
    assert_eq!(world.try_(connection(2).now(), Queue, NAME, put(b"c")), 204);
    assert_eq!(drain(&mut world), "ab");
    let taker = world.ask(connection(3), Queue, NAME, TAKE);
    world.undelivered(&parcel);
    assert_eq!(world.payload(taker), b"a");
}

#[test]
fn a_message_does_not_return_to_another_queue_in_the_same_place() {
    let mut world = world(0);
    put_all(&mut world, &[b"a"]);
    let request = world.ask(connection(1), Queue, NAME, TAKE);
    let parcel = world.parcel(request);
    world.done(connection(1), Queue, NAME, Verb::Delete);
    world.undelivered(&parcel);
    world.done(connection(1), Queue, "other", queue(0));
    world.undelivered(&parcel);
    assert_eq!(world.kernel.census().messages, 0);
}

#[test]
fn deleting_a_queue_forgets_its_messages_and_whatever_was_to_come() {
    let mut world = World::default();
    world.open(1, 60_000);
    world.done(connection(9), Queue, NAME, queue(2));
    world.done(connection(9), Queue, NAME, delayed(b"a", 1_000_000));
    put_all(&mut world, &[b"b"]);
    let message = borrow(&mut world, connection(1).of(1));
    let waits = world.ask(connection(2), Queue, NAME, put(b"c"));
    world.done(connection(9), Queue, NAME, Verb::Delete);
    assert_eq!(world.status(waits), Some(404));
    world.done(connection(9), Queue, NAME, queue(2));
    assert_eq!(
        world.try_(connection(1).of(1), Queue, NAME, Verb::Ack { message, deliveries: None }),
        410
    );
    assert_eq!(counts(&mut world), [0, 0, 0]);
    world.done(connection(9), Queue, NAME, Verb::Delete);
    world.command(connection(1).of(1), semaforo_server::kernel::Operation::Close);
    world.assert_empty();
}

#[test]
fn numbers_of_messages_are_not_used_again_after_a_restart() {
    let mut world = world(0);
    let first = put_all(&mut world, &[b"a", b"b"]);
    assert_eq!(drain(&mut world), "ab");
    let last = world.header(first[1], Header::Message);
    world.restart_from_snapshot();
    let next = put_all(&mut world, &[b"c"]);
    assert!(world.header(next[0], Header::Message) > last);
}

#[test]
fn neither_is_that_of_a_transferred_message_that_was_out_to_a_session() {
    for snapshot in [false, true] {
        let mut world = world(0);
        world.ask(connection(1), Queue, NAME, transfer(b"a"));
        let lost = borrow(&mut world, connection(2).of(1));
        if snapshot {
            world.restart_from_snapshot()
        } else {
            world.restart()
        }
        put_all(&mut world, &[b"b"]);
        borrow(&mut world, connection(3).of(1));
        let ack = Verb::Ack { message: lost, deliveries: None };
        assert_eq!(world.try_(connection(2).of(1), Queue, NAME, ack), 410);
        assert_eq!(counts(&mut world), [0, 0, 1]);
    }
}
