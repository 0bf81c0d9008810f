//! Transfers: a message whose sender waits until it is taken.

use semaforo_server::kernel::{Details, Header, Kind::Queue, Verb};

use crate::support::{BORROW, Request, TAKE, World, connection, put, queue, transfer};

const NAME: &str = "q";

fn world() -> World {
    let mut world = World::default();
    world.done(connection(9), Queue, NAME, queue(0));
    world.open(1, 60_000);
    world
}

fn size(world: &mut World) -> usize {
    match world.details(Queue, NAME) {
        Details::Queue { ready, delayed, out, .. } => ready + delayed + out,
        other => panic!("{other:?} is no queue"),
    }
}

fn take(world: &mut World) -> Option<Vec<u8>> {
    let request = world.ask(connection(8).now(), Queue, NAME, TAKE);
    (world.status(request) == Some(200)).then(|| world.payload(request).to_vec())
}

fn send(world: &mut World, messages: &[&[u8]]) -> Vec<Request> {
    let send =
        |(at, message): (u64, &&[u8])| world.ask(connection(at), Queue, NAME, transfer(message));
    (1..).zip(messages).map(send).collect()
}

#[test]
fn t_01_and_t_02_a_sender_waits_for_its_own_message() {
    let mut world = world();
    let senders = send(&mut world, &[b"4", b"5"]);
    assert_eq!(world.statuses(&senders), [0, 0]);
    assert_eq!(size(&mut world), 2);
    assert_eq!(take(&mut world).as_deref(), Some(&b"4"[..]));
    assert_eq!(world.statuses(&senders), [200, 0]);
    assert_eq!(size(&mut world), 1);
}

#[test]
fn t_05_withdrawn_ones_are_not_received() {
    let mut world = world();
    let senders = send(&mut world, &[b"a", b"b", b"c", b"d", b"e"]);
    assert!(world.cancel(senders[1]));
    world.disconnect(4);
    for (expected, statuses) in [
        (b"a", [200, 204, 0, 0, 0]),
        (b"c", [200, 204, 200, 0, 0]),
        (b"e", [200, 204, 200, 0, 200]),
    ] {
        assert_eq!(take(&mut world).as_deref(), Some(&expected[..]));
        assert_eq!(world.statuses(&senders), statuses);
    }
    assert_eq!(take(&mut world), None);
    assert_eq!(world.kernel.census().bytes, 0);
}

#[test]
fn t_06_and_t_07_who_does_not_wait_needs_a_taker_who_does() {
    let mut world = world();
    assert_eq!(world.try_(connection(1).now(), Queue, NAME, transfer(b"a")), 204);
    assert_eq!(size(&mut world), 0);
    let taker = world.ask(connection(2), Queue, NAME, TAKE);
    let sender = world.ask(connection(1).now(), Queue, NAME, transfer(b"b"));
    assert_eq!(world.statuses(&[taker, sender]), [200, 200]);
    assert_eq!(world.payload(taker), b"b");
    assert_eq!(size(&mut world), 0);
}

#[test]
fn t_10_a_sender_can_take_what_was_put_later() {
    let mut world = world();
    let sender = world.ask(connection(1), Queue, NAME, transfer(b"4"));
    world.done(connection(2), Queue, NAME, put(b"3"));
    assert_eq!(take(&mut world).as_deref(), Some(&b"4"[..]));
    assert_eq!(world.status(sender), Some(200));
    let own = world.ask(connection(1), Queue, NAME, TAKE);
    assert_eq!(world.payload(own), b"3");
}

#[test]
fn transfers_have_priorities() {
    let mut world = world();
    world.done(connection(1), Queue, NAME, put(b"b"));
    world.ask(connection(1), Queue, NAME, Verb::Transfer { payload: b"a", priority: -1 });
    world.ask(connection(1), Queue, NAME, Verb::Transfer { payload: b"c", priority: 1 });
    let all: Vec<_> = (0..3).filter_map(|_| take(&mut world)).flatten().collect();
    assert_eq!(all, b"abc");
}

#[test]
fn one_that_is_out_is_done_when_acknowledged() {
    for taker in [connection(2), connection(2).of(1)] {
        let mut world = world();
        let sender = world.ask(connection(1), Queue, NAME, transfer(b"a"));
        let answer = world.done(taker, Queue, NAME, BORROW);
        let message = answer.headers.get(Header::Message).expect("a number");
        assert_eq!(world.status(sender), None);
        world.done(taker, Queue, NAME, Verb::Return { message, deliveries: None, delay: 50 });
        assert_eq!(take(&mut world), None);
        world.pass(50);
        let answer = world.done(taker, Queue, NAME, BORROW);
        assert_eq!(answer.headers.get(Header::Deliveries), Some(2));
        world.done(taker, Queue, NAME, Verb::Ack { message, deliveries: None });
        assert_eq!(world.status(sender), Some(200));
        assert_eq!(size(&mut world), 0);
        assert_eq!(world.kernel.census().bytes, 0);
    }
}

#[test]
fn one_that_is_out_can_still_be_withdrawn() {
    for taker in [connection(2), connection(2).of(1)] {
        for delay in [None, Some(0), Some(10)] {
            let mut world = world();
            let sender = world.ask(connection(1).within(100), Queue, NAME, transfer(b"a"));
            let answer = world.done(taker, Queue, NAME, BORROW);
            let message = answer.headers.get(Header::Message).expect("a number");
            if let Some(delay) = delay {
                world.done(taker, Queue, NAME, Verb::Return { message, deliveries: None, delay });
            }
            world.pass(100);
            assert_eq!(world.status(sender), Some(204));
            assert_eq!(
                world.try_(taker, Queue, NAME, Verb::Ack { message, deliveries: None }),
                410
            );
            assert_eq!(size(&mut world), 0);
            assert_eq!(world.kernel.census().bytes, 0);
            world.disconnect(2);
        }
    }
}

#[test]
fn one_that_is_out_to_who_is_gone_returns() {
    for session in [false, true] {
        let mut world = world();
        let sender = world.ask(connection(1), Queue, NAME, transfer(b"a"));
        let taker = if session { connection(2).of(1) } else { connection(2) };
        world.done(taker, Queue, NAME, BORROW);
        world.disconnect(2);
        world.pass(60_000);
        assert_eq!(world.status(sender), None);
        assert_eq!(take(&mut world).as_deref(), Some(&b"a"[..]));
        assert_eq!(world.status(sender), Some(200));
    }
}

#[test]
fn a_connection_can_go_that_took_what_it_transferred_itself() {
    let mut world = world();
    world.ask(connection(1), Queue, NAME, transfer(b"a"));
    world.done(connection(1), Queue, NAME, BORROW);
    world.disconnect(1);
    assert_eq!(size(&mut world), 0);
    assert_eq!(world.kernel.census().waits, 0);
}

#[test]
fn t_15_deleting_the_queue_turns_senders_and_takers_away() {
    let mut world = world();
    let senders = send(&mut world, &[b"a", b"b"]);
    world.done(connection(7), Queue, NAME, BORROW);
    world.done(connection(9), Queue, NAME, Verb::Delete);
    assert_eq!(world.statuses(&senders), [404, 404]);
    world.done(connection(9), Queue, NAME, queue(0));
    let takers = [3, 4].map(|at| world.ask(connection(at), Queue, NAME, TAKE));
    world.done(connection(9), Queue, NAME, Verb::Delete);
    assert_eq!(world.statuses(&takers), [404, 404]);
    assert_eq!(world.kernel.census().bytes, 0);
}

#[test]
fn pending_transfers_end_with_the_server() {
    let mut world = world();
    world.ask(connection(1).of(1).seq(1), Queue, NAME, transfer(b"a"));
    world.done(connection(2), Queue, NAME, put(b"b"));
    world.restart();
    assert_eq!(take(&mut world).as_deref(), Some(&b"b"[..]));
    assert_eq!(take(&mut world), None);
}

#[test]
fn a_sender_whose_connection_is_lost_learns_later_that_it_was_taken() {
    let mut world = world();
    let session = connection(1).of(1).seq(1);
    world.ask(session, Queue, NAME, transfer(b"a"));
    world.disconnect(1);
    assert_eq!(take(&mut world).as_deref(), Some(&b"a"[..]));
    world.restart();
    let again = world.ask(session, Queue, NAME, transfer(b"a"));
    assert_eq!(world.status(again), Some(200));
    assert_eq!(take(&mut world), None);
}

#[test]
fn a_transferred_message_that_could_not_be_sent_is_an_ordinary_one() {
    let mut world = world();
    let sender = world.ask(connection(1), Queue, NAME, transfer(b"a"));
    let taker = world.ask(connection(2), Queue, NAME, TAKE);
    let parcel = world.parcel(taker);
    world.undelivered(&parcel);
    assert_eq!(world.status(sender), Some(200));
    world.restart();
    assert_eq!(take(&mut world).as_deref(), Some(&b"a"[..]));
}

/// Whether it is put, transferred, taken, withdrawn, or its queue deleted: no number comes again,
/// and each was reserved for good before it was given out.
#[test]
fn numbers_are_reserved_before_they_are_given_out_and_never_given_twice() {
    let mut world = world();
    let mut last = 0;
    for round in 0..6 {
        let sender = world.ask(connection(1), Queue, NAME, transfer(b"a"));
        assert!(world.urgent, "the first number of a life reserves a block");
        let taken = world.ask(connection(2), Queue, NAME, if round < 3 { TAKE } else { BORROW });
        assert!(!world.urgent);
        let number = world.header(taken, Header::Message);
        assert!(number > last, "{number} after {last}");
        let put = world.ask(connection(2), Queue, NAME, put(b"b"));
        last = world.header(put, Header::Message);
        assert!(last > number && !world.urgent);
        world.ask(connection(2), Queue, NAME, TAKE);
        if round >= 3 {
            assert_eq!(world.status(sender), None);
        }
        match round % 3 {
            0 => world.restart(),
            1 => world.restart_from_snapshot(),
            _ => {
                world.done(connection(9), Queue, NAME, Verb::Delete);
                world.done(connection(9), Queue, NAME, queue(0));
            }
        }
    }
}
