//! The same request again: done once, and answered as before.

use crate::named::open;
use crate::support::{Client, Random, Server, frame, until};

#[test]
fn after_a_lost_answer() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    client.done("CREATE q");
    let acquire = format!("ACQUIRE /locks/a session={session} seq=1");
    let put = format!("PUT q session={session} seq=2 | {{\"n\":1}}");
    let take = format!("TAKE q session={session} seq=3");
    client.send_bytes(&[frame(&acquire), frame(&put), frame(&take)].concat());
    other.until_shown("/locks/a", "held", 1);
    client.reset();
    let mut again = server.connect();
    let answers: Vec<_> = [&acquire, &put, &take].map(|request| again.done(request).text).into();
    assert_eq!(answers[1], r#"{"Status":200,"Headers":{"message":"1"}}"#);
    assert_eq!(
        answers[2],
        r#"{"Status":200,"Headers":{"message":"1","deliveries":"1"},"Payload":{"n":1}}"#
    );
    // Again and again, in any order, with other ids and time limits, on any connection.
    for (request, answer) in [(&take, &answers[2]), (&put, &answers[1]), (&acquire, &answers[0])] {
        assert_eq!(again.ask(request).text, *answer);
        let (words, payload) = request
            .split_once(" | ")
            .map_or((&**request, ""), |(words, _)| (words, " | {\"n\":1}"));
        let other_words = format!("{words} id=x timeout=5{payload}");
        assert_eq!(other.ask(&other_words).text.replace("\"id\":\"x\",", ""), *answer);
    }
    assert_eq!(other.show("/queues/q").unwrap()["ready"], 0);
    assert_eq!(other.show("/locks/a").unwrap()["held"], 1);
}

#[test]
fn another_request_with_the_same_number() {
    let server = Server::start();
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    client.done("CREATE q");
    client.done(&format!("PUT q session={session} seq=1 | 1"));
    for other in ["PUT q", "PUT q | 2", "PUT r | 1", "TAKE q", "PUT q priority=1 | 1"] {
        let (words, payload) = other
            .split_once(" | ")
            .map_or((other, String::new()), |(words, payload)| (words, format!(" | {payload}")));
        client.ask(&format!("{words} session={session} seq=1{payload}")).is(409);
    }
    // Also while the first one waits.
    let mut waiter = server.connect();
    client.done("ACQUIRE /locks/a");
    waiter.send(&format!("ACQUIRE /locks/a session={session} seq=2"));
    client.until_waiting("/locks/a", 1);
    client.ask(&format!("ACQUIRE /locks/b session={session} seq=2")).is(409);
    client.done("RELEASE /locks/a");
    waiter.answer().is(200);
}

#[test]
fn what_changed_nothing_is_tried_again() {
    let server = Server::start();
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    let take = format!("TAKE q session={session} seq=1 timeout=0");
    client.ask(&take).is(404);
    client.done("CREATE q");
    client.ask(&take).is(204);
    client.done("PUT q | 1");
    assert_eq!(client.done(&take).payload(), Some("1"));
    assert_eq!(client.done(&take).payload(), Some("1"));
}

#[test]
fn after_it_was_acknowledged_nobody_knows() {
    let server = Server::start();
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    client.done("CREATE q");
    client.done(&format!("PUT q session={session} seq=1 | 1"));
    client.done(&format!("PUT q session={session} seq=2 acked=1 | 2"));
    // What was asked before it is answered; it is not, and nothing after it is done.
    let again = format!("PUT q session={session} seq=1 | 1");
    client.send_bytes(
        &[frame("PING / id=1"), frame("PUT q id=2 | 3"), frame(&again), frame("PUT q | 4")]
            .concat(),
    );
    assert_eq!(client.answer().id(), Some("1"));
    assert_eq!(client.answer().id(), Some("2"));
    assert!(client.ended());
    let mut client = server.connect();
    assert_eq!(client.show("/queues/q").unwrap()["ready"], 3);
    client.done(&format!("PUT q session={session} seq=2 | 2"));
    assert_eq!(client.show("/queues/q").unwrap()["ready"], 3);
}

#[test]
fn so_many_numbers_and_no_more() {
    let server = Server::start();
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    client.ask(&format!("PING / session={session} seq=0")).is(400);
    client.done(&format!("PING / session={session} seq=1024"));
    client.ask(&format!("PING / session={session} seq=1025")).is(429);
    client.done(&format!("PING / session={session} seq=1025 acked=1"));
    client.ask(&format!("PING / session={session} seq=9007199254740993")).is(400);
}

#[test]
fn a_numbered_request_keeps_its_place_without_a_connection() {
    let server = Server::start();
    let (mut client, mut other, mut last) = (server.connect(), server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    let holder = open(&mut other, 60_000);
    other.done(&format!("ACQUIRE /locks/a session={holder}"));
    let acquire = format!("ACQUIRE /locks/a session={session} seq=1");
    client.send(&acquire);
    other.until_waiting("/locks/a", 1);
    last.send("ACQUIRE /locks/a");
    other.until_waiting("/locks/a", 2);
    client.reset();
    until("the connection is gone", || other.show("/").unwrap()["connections"] == 2);
    assert_eq!(other.show("/locks/a").unwrap()["waiting"], 2, "it keeps its place");

    // It is first again when it comes again.
    let mut again = server.connect();
    again.send(&acquire);
    until("it stands in line", || {
        other.show("/locks/a").unwrap()["waiters"].as_array().unwrap().len() == 2
    });
    other.done(&format!("RELEASE /locks/a session={holder}"));
    let fence = again.answer().is(200).fence();
    assert!(last.is_silent());
    again.done(&format!("RELEASE /locks/a session={session}"));
    assert!(last.answer().is(200).fence() > fence);
}

#[test]
fn without_a_connection_it_is_passed_over() {
    let server = Server::start();
    let (mut client, mut other, mut last) = (server.connect(), server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    other.done("ACQUIRE /locks/a");
    let acquire = format!("ACQUIRE /locks/a session={session} seq=1");
    client.send(&acquire);
    other.until_waiting("/locks/a", 1);
    last.send("ACQUIRE /locks/a");
    other.until_waiting("/locks/a", 2);
    client.reset();
    until("the connection is gone", || other.show("/").unwrap()["connections"] == 2);
    other.done("RELEASE /locks/a");
    last.answer().is(200);
    // With the time limit of the new request.
    let mut again = server.connect();
    again.ask(&format!("{acquire} timeout=1")).is(204);
    last.done("RELEASE /locks/a");
    again.done(&acquire);
}

#[test]
fn the_newest_connection_is_answered_and_the_one_before_it_does_not_hang() {
    let server = Server::start();
    let (mut first, mut second, mut other) = (server.connect(), server.connect(), server.connect());
    let session = open(&mut first, 60_000);
    other.done("ACQUIRE /locks/a");
    let acquire = format!("ACQUIRE /locks/a session={session} seq=1");
    first.send(&acquire);
    other.until_waiting("/locks/a", 1);
    second.send(&format!("{acquire} id=1"));
    first.answer().is(409);
    first.done("PING");
    second.send(&format!("{acquire} id=2"));
    assert_eq!(second.answer().is(409).id(), Some("1"));
    other.done("RELEASE /locks/a");
    assert_eq!(second.answer().is(200).id(), Some("2"));
    assert_eq!(other.show("/locks/a").unwrap()["held"], 1);
}

#[test]
fn a_numbered_wait_can_be_cancelled_from_anywhere() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    other.done("ACQUIRE /locks/a");
    client.send(&format!("ACQUIRE /locks/a session={session} seq=7"));
    other.until_waiting("/locks/a", 1);
    other.ask("CANCEL / seq=7").is(400);
    other.ask(&format!("CANCEL / session={session} seq=8")).is(404);
    other.done(&format!("CANCEL / session={session} seq=7"));
    client.answer().is(204);
    other.until_waiting("/locks/a", 0);
}

/// A consumer that is lost at any moment and asks again gets everything, once, in order.
#[test]
fn every_message_once_whatever_happens_to_the_connection() {
    const MESSAGES: u64 = 200;
    let server = Server::start();
    let (mut producer, mut consumer) = (server.connect(), server.connect());
    producer.done("CREATE q");
    let session = open(&mut consumer, 60_000);
    let address = server.address;
    let consuming = std::thread::spawn(move || {
        let mut random = Random(3);
        for seq in 1..=MESSAGES {
            let take = format!("TAKE q session={session} seq={seq} acked={}", seq - 1);
            loop {
                consumer.send(&take);
                if random.below(2) == 0 {
                    break;
                }
                (0..random.below(5000)).for_each(|_| std::hint::spin_loop());
                consumer.reset();
                consumer = Client::connect(address);
            }
            let number: u64 = consumer.answer().is(200).payload().unwrap().parse().unwrap();
            assert_eq!(number, seq, "in order, and once");
        }
    });
    for number in 1..=MESSAGES {
        producer.done(&format!("PUT q | {number}"));
    }
    consuming.join().unwrap();
    assert_eq!(producer.show("/queues/q").unwrap()["ready"], 0);
}
