//! Messages on their way to takers that are lost.

use std::io::ErrorKind;

use semaforo_server::journal::Journal;
use semaforo_server::server::Options;

use crate::named::open;
use crate::support::{Client, Held, Random, Server, frame};

/// The server has decided who gets a message, and before a byte of it could be sent that one is
/// gone.
#[test]
fn a_message_of_which_no_byte_was_sent_returns_to_its_place() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut producer, mut other) = (server.connect(), server.connect());
    producer.done("CREATE q");
    for round in 0..30 {
        let mut lost = server.connect();
        lost.send("TAKE q");
        other.until_waiting("/queues/q", 1);
        journal.hold();
        producer.send(&format!("PUT q | {round}"));
        journal.await_standstill();
        lost.reset();
        journal.release();
        producer.answer().is(200);
        assert_eq!(other.show("/queues/q").unwrap()["ready"], 1, "before its producer is told");
        let answer = other.done("TAKE q timeout=0");
        assert_eq!(answer.payload(), Some(&*round.to_string()));
        assert_eq!(answer.number("deliveries"), 1, "no client has seen it");
    }
}

/// Two takers are lost at once, and the first one's message has no better place to go than to the
/// second.
#[test]
fn messages_of_two_lost_takers_return_both() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut producer, mut other) = (server.connect(), server.connect());
    producer.done("CREATE q");
    for round in 0..20 {
        let (mut first, mut second) = (server.connect(), server.connect());
        first.send("TAKE q id=1");
        other.until_waiting("/queues/q", 1);
        for id in 1..=3 {
            second.send(&format!("TAKE q id={id}"));
        }
        other.until_waiting("/queues/q", 4);
        journal.hold();
        producer.send_bytes(&[frame("PUT q | 1"), frame("PUT q | 2")].concat());
        journal.await_standstill();
        first.reset();
        second.reset();
        journal.release();
        producer.answer().is(200);
        producer.answer().is(200);
        for expected in ["1", "2"] {
            let answer = other.ask("TAKE q timeout=0");
            assert_eq!(answer.payload(), Some(expected), "round {round}: in its place");
        }
        other.ask("TAKE q timeout=0").is(204);
    }
}

#[test]
fn a_message_that_returns_goes_to_the_next_taker() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut producer, mut lost, mut next) = (server.connect(), server.connect(), server.connect());
    producer.done("CREATE q");
    lost.send("TAKE q");
    producer.until_waiting("/queues/q", 1);
    next.send("TAKE q");
    producer.until_waiting("/queues/q", 2);
    journal.hold();
    producer.send("PUT q | 1");
    journal.await_standstill();
    lost.reset();
    journal.release();
    producer.answer().is(200);
    assert_eq!(next.answer().payload(), Some("1"));
}

/// Puts a message that is handed to a taker, which is lost while that is in flight. In the end it was
/// put and taken, durably, and that it is back is not durable yet.
pub(crate) fn lose_taker_in_flight(
    journal: &Held,
    other: &mut Client,
    mut lost: Client,
    put: impl FnOnce(),
) {
    lost.send("TAKE q id=1");
    other.until_waiting("/queues/q", 1);
    journal.later(true);
    // Something is in flight, and the taker has an answer that waits for it.
    other.send("CREATE r");
    let first = journal.await_submitted(1);
    lost.send("PING / id=2");
    journal.await_turn();
    put();
    // Now the message is in flight, and its taker goes away.
    journal.complete();
    let second = journal.await_submitted(first);
    assert_eq!(lost.answer().id(), Some("2"));
    lost.reset();
    journal.await_turn();
    assert_eq!(journal.submitted(), second);
    journal.complete();
    journal.await_submitted(second);
    journal.await_turn();
}

/// With a journal that completes later, a message that returns has to be durable again before its
/// producer is told.
#[test]
fn a_producer_waits_for_the_return_of_its_message_too() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut producer, mut other, lost) = (server.connect(), server.connect(), server.connect());
    producer.done("CREATE q");
    lose_taker_in_flight(&journal, &mut other, lost, || {
        producer.send_bytes(&[frame("PING"), frame("PUT q | 1")].concat());
        journal.await_turn();
    });
    assert!(producer.is_silent(), "its message could be lost now");
    journal.complete();
    producer.answer().is(200);
    producer.answer().is(200);
    journal.later(false);
    assert_eq!(other.answer().status, 200);
    assert_eq!(other.done("TAKE q timeout=0").payload(), Some("1"));
}

#[test]
fn the_producer_is_answered_after_the_takers_bytes_were_sent() {
    let server = Server::start();
    let (mut producer, mut taker) = (server.connect(), server.connect());
    producer.done("CREATE q");
    for method in ["PUT", "TRANSFER"] {
        for round in 0..100 {
            taker.send("TAKE q");
            producer.until_waiting("/queues/q", 1);
            producer.done(&format!("{method} q | {round}"));
            taker.stream.set_nonblocking(true).unwrap();
            let peeked = taker.stream.peek(&mut [0]);
            taker.stream.set_nonblocking(false).unwrap();
            assert_eq!(
                peeked.map_err(|error| error.kind()),
                Ok::<_, ErrorKind>(1),
                "round {round}"
            );
            assert_eq!(taker.answer().payload(), Some(&*round.to_string()));
        }
    }
}

#[test]
fn what_is_not_acknowledged_returns_in_its_place() {
    let server = Server::start();
    for with_a_reset in [false, true] {
        let (mut lost, mut other) = (server.connect(), server.connect());
        other.done("CREATE q");
        for number in 0..4 {
            other.done(&format!("PUT q priority={} | {number}", number % 2));
        }
        // Taken: 0 and 2, then 1. 2 is acknowledged.
        for expected in ["0", "2", "1"] {
            let answer = lost.done("TAKE q ack=manual");
            assert_eq!(answer.payload(), Some(expected));
            if expected == "2" {
                let message = answer.header("message").unwrap().to_owned();
                other.ask(&format!("ACK q message={message}")).is(410);
                lost.done(&format!("ACK q message={message}"));
                lost.ask(&format!("ACK q message={message}")).is(410);
            }
        }
        assert_eq!(other.show("/queues/q").unwrap()["out"], 2);
        if with_a_reset {
            lost.reset();
        } else {
            drop(lost);
        }
        other.until_shown("/queues/q", "out", 0);
        for (expected, deliveries) in [("0", 2), ("1", 2), ("3", 1)] {
            let answer = other.done("TAKE q timeout=0");
            assert_eq!(
                (answer.payload(), answer.number("deliveries")),
                (Some(expected), deliveries)
            );
        }
        other.done("DELETE q");
    }
}

/// Takers come and are lost at any moment: what was acknowledged is gone, what was not is there.
#[test]
fn nothing_that_was_not_acknowledged_is_lost() {
    const MESSAGES: usize = 300;
    let server = Server::start();
    let mut producer = server.connect();
    producer.done("CREATE q");
    let address = server.address;
    let takers: Vec<_> = (0..3)
        .map(|seed| {
            std::thread::spawn(move || {
                let (mut random, mut acknowledged) = (Random(seed), Vec::new());
                let mut client = Client::connect(address);
                for _ in 0..120 {
                    client.send("TAKE q ack=manual timeout=20");
                    if random.below(3) == 0 {
                        (0..random.below(3000)).for_each(|_| std::hint::spin_loop());
                        client.reset();
                        client = Client::connect(address);
                        continue;
                    }
                    let answer = client.answer();
                    if answer.status == 200 {
                        client.done(&format!("ACK q message={}", answer.number("message")));
                        acknowledged.push(answer.payload().unwrap().parse::<usize>().unwrap());
                    }
                }
                acknowledged
            })
        })
        .collect();
    for number in 0..MESSAGES {
        producer.done(&format!("PUT q | {number}"));
    }
    let mut all: Vec<usize> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    producer.until_shown("/queues/q", "out", 0);
    let mut last = None;
    while let Some(payload) = producer.ask("TAKE q timeout=0").payload() {
        let number: usize = payload.parse().unwrap();
        assert!(last < Some(number), "in order");
        last = Some(number);
        all.push(number);
    }
    all.sort_unstable();
    assert_eq!(all, (0..MESSAGES).collect::<Vec<_>>(), "each exactly once");
}

/// Takers are lost while they are handed messages: at most one each is lost with them, and none
/// comes twice.
#[test]
fn no_message_is_taken_twice() {
    const MESSAGES: usize = 300;
    let server = Server::start();
    let mut producer = server.connect();
    producer.done("CREATE q");
    let address = server.address;
    let takers: Vec<_> = (0..3)
        .map(|seed| {
            std::thread::spawn(move || {
                let (mut random, mut taken, mut resets) = (Random(seed), Vec::new(), 0);
                let mut client = Client::connect(address);
                for _ in 0..120 {
                    client.send("TAKE q timeout=20");
                    if random.below(3) == 0 {
                        (0..random.below(3000)).for_each(|_| std::hint::spin_loop());
                        client.reset();
                        resets += 1;
                        client = Client::connect(address);
                        continue;
                    }
                    let answer = client.answer();
                    if answer.status == 200 {
                        assert_eq!(answer.number("deliveries"), 1);
                        taken.push(answer.payload().unwrap().parse::<usize>().unwrap());
                    }
                }
                (taken, resets)
            })
        })
        .collect();
    for number in 0..MESSAGES {
        producer.done(&format!("PUT q | {number}"));
    }
    let (mut all, mut resets) = (Vec::new(), 0);
    for taker in takers {
        let (taken, count) = taker.join().unwrap();
        all.extend(taken);
        resets += count;
    }
    while let Some(payload) = producer.ask("TAKE q timeout=0").payload() {
        all.push(payload.parse().unwrap());
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "none twice");
    assert!(count + resets >= MESSAGES, "{count} of {MESSAGES}, after {resets} resets");
    assert_eq!(producer.show("/").unwrap()["bytes"], 0, "the accounts are even");
}

/// A RETURN or an ACK that comes late, or again, names the delivery that it is about: a later one
/// stays out.
#[test]
fn what_is_said_of_one_delivery_does_not_end_the_next() {
    let server = Server::start();
    let (mut taker, mut other) = (server.connect(), server.connect());
    let session = open(&mut other, 60_000);
    other.done("CREATE q");
    for owner in [String::new(), format!(" session={session}")] {
        let number = other.done("PUT q | 1").number("message");
        let take = format!("TAKE q ack=manual{owner}");
        assert_eq!(taker.done(&take).number("deliveries"), 1);
        let early = format!("RETURN q message={number} deliveries=1{owner}");
        taker.done(&early);
        assert_eq!(taker.done(&take).number("deliveries"), 2);
        for late in [early, format!("ACK q message={number} deliveries=1{owner}")] {
            taker.ask(&late).is(410);
            assert_eq!(other.show("/queues/q").unwrap()["out"], 1, "{late}");
        }
        taker.ask(&format!("ACK q message={number} deliveries=3{owner}")).is(410);
        taker.ask(&format!("ACK q message={number} deliveries=x{owner}")).is(400);
        taker.done(&format!("ACK q message={number} deliveries=2{owner}"));
        other.until_shown("/queues/q", "out", 0);
        other.ask("TAKE q timeout=0").is(204);
    }
}

/// Section 5: a message that comes back from a taker that was lost at the hand-over may find its
/// place in the queue used by another.
#[test]
fn a_message_that_comes_back_from_a_lost_taker_may_exceed_the_capacity() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut first, mut second, mut other) = (server.connect(), server.connect(), server.connect());
    first.done("CREATE q capacity=1");
    first.done("PUT q | 1");
    second.send("PUT q | 2");
    other.until_waiting("/queues/q", 1);
    // The taker makes space for the one who waits, and is lost before a byte of its message was
    // sent.
    let mut lost = server.connect();
    journal.hold();
    lost.send("TAKE q");
    journal.await_standstill();
    lost.reset();
    journal.release();
    second.answer().is(200);
    other.until_shown("/queues/q", "ready", 2);
    other.ask("PUT q timeout=0 | 3").is(204);
    assert_eq!(other.done("TAKE q timeout=0").payload(), Some("1"));
    other.ask("PUT q timeout=0 | 3").is(204);
    assert_eq!(other.done("TAKE q timeout=0").payload(), Some("2"));
    other.done("PUT q timeout=0 | 3");
}

/// Section 5: while a message is out, or on its way to a taker that is lost, it is passed by those
/// that are taken meanwhile, and by no other: who asks when it is back gets it first.
#[test]
fn a_message_is_passed_only_by_those_that_are_taken_while_it_is_away() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut producer, mut other, mut lost) =
        (server.connect(), server.connect(), server.connect());
    producer.done("CREATE q");
    lost.send("TAKE q");
    other.until_waiting("/queues/q", 1);
    // The urgent one is its taker's, and cannot be sent yet; meanwhile three others are taken. Then
    // the taker is lost.
    journal.later(true);
    let mut puts = frame("PUT q priority=-1 | 1");
    (2..=5).for_each(|number| puts.extend(frame(&format!("PUT q | {number}"))));
    producer.send_bytes(&puts);
    journal.await_turn();
    other.send_bytes(&frame("TAKE q").repeat(3));
    journal.await_turn();
    lost.reset();
    journal.await_turn();
    journal.later(false);
    for answer in producer.answers(5) {
        answer.is(200);
    }
    for (answer, expected) in other.answers(3).iter().zip(["2", "3", "4"]) {
        assert_eq!(answer.payload(), Some(expected));
    }
    for expected in ["1", "5"] {
        let answer = other.done("TAKE q timeout=0");
        assert_eq!((answer.payload(), answer.number("deliveries")), (Some(expected), 1));
    }

    // One that is out to be acknowledged is passed, too, and counts towards the capacity all the
    // time.
    producer.done("CREATE r capacity=3");
    for (number, priority) in [(1, -1), (2, 0), (3, 0)] {
        producer.done(&format!("PUT r priority={priority} | {number}"));
    }
    let mut holder = server.connect();
    assert_eq!(holder.done("TAKE r ack=manual").payload(), Some("1"));
    producer.ask("PUT r timeout=0 | 4").is(204);
    assert_eq!(other.done("TAKE r").payload(), Some("2"));
    holder.reset();
    other.until_shown("/queues/r", "out", 0);
    for expected in ["1", "3"] {
        assert_eq!(other.done("TAKE r timeout=0").payload(), Some(expected));
    }
}
