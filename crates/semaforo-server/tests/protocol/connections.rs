//! Connections that end, that are silent, and that do not read.

use std::io::Read;
use std::time::{Duration, Instant};

use semaforo_server::net::limits;
use semaforo_server::server::Options;

use crate::support::{Client, Held, LONG, Server, frame, until};

fn statuses(client: &mut Client) -> Vec<u64> {
    std::iter::from_fn(|| client.try_answer()).map(|answer| answer.status).collect()
}

#[test]
fn a_half_closed_connection_gives_up_waiting_and_gets_its_answers() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    other.done("CREATE q");
    other.done("ACQUIRE /locks/a");
    client.send_bytes(
        &[frame("ACQUIRE /locks/b id=1"), frame("ACQUIRE /locks/a id=2"), frame("TAKE q id=3")]
            .concat(),
    );
    other.until_waiting("/queues/q", 1);
    assert_eq!(other.show("/locks/b").unwrap()["held"], 1);
    client.half_close();
    assert_eq!(client.answer().is(200).id(), Some("1"));
    assert_eq!(client.answer().is(204).id(), Some("2"));
    assert_eq!(client.answer().is(204).id(), Some("3"));
    assert!(client.ended());
    other.until_shown("/locks/b", "held", 0);
    other.until_waiting("/locks/a", 0);
    other.until_waiting("/queues/q", 0);
}

#[test]
fn what_was_sent_before_the_end_is_done() {
    let server = Server::start();
    let mut other = server.connect();
    other.done("CREATE q");
    // Each waits for the one before it, and the first waits for nothing that will happen.
    let requests = [
        frame("TAKE q"),
        frame("PUT q | 1"),
        frame("PUT q | 2"),
        frame("TAKE q"),
        frame("TAKE /queues/none"),
    ];
    let mut client = server.connect();
    client.send_bytes(&requests.concat());
    client.half_close();
    assert_eq!(statuses(&mut client), [204, 200, 200, 200, 404]);
    assert_eq!(other.done("TAKE q").payload(), Some("2"));

    let mut client = server.connect();
    client.send_bytes(&requests.concat());
    other.until_waiting("/queues/q", 1);
    client.half_close();
    assert_eq!(statuses(&mut client), [204, 200, 200, 200, 404]);
}

#[test]
fn a_half_closed_connection_ends_although_a_session_waits_on() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let session = other.done("OPEN /sessions").header("session").unwrap().to_owned();
    other.done("ACQUIRE /locks/a");
    for id in ["", " id=1"] {
        client.send(&format!("ACQUIRE /locks/a session={session} seq=1{id}"));
        client.send("PING");
        other.until_waiting("/locks/a", 1);
        client.half_close();
        assert_eq!(
            client.try_answer().map(|answer| (answer.status, answer.id().is_none())),
            Some((200, true)),
            "of PING only"
        );
        assert!(client.ended());
        assert_eq!(other.show("/locks/a").unwrap()["waiting"], 1, "it keeps its place");
        client = server.connect();
    }
    other.done("RELEASE /locks/a");
    client.done(&format!("ACQUIRE /locks/a session={session} seq=1"));
}

/// A connection that is about to be closed is not handed anything any more.
#[test]
fn a_connection_that_is_closed_gives_up_waiting_first() {
    let server = Server::start();
    let mut other = server.connect();
    other.done("CREATE q");
    let session = other.done("OPEN /sessions").header("session").unwrap().to_owned();
    other.done(&format!("PING / session={session} acked=1"));
    let unknown = format!("PING / session={session} seq=1 id=2");
    for (last, statuses) in [("{]", &[204, 400][..]), (&*unknown, &[204])] {
        let mut client = server.connect();
        client.send("TAKE q id=1");
        other.until_waiting("/queues/q", 1);
        client.send(last);
        assert_eq!(self::statuses(&mut client), statuses, "{last}");
    }
    other.done("PUT q | 1");
    assert_eq!(other.done("TAKE q timeout=0").payload(), Some("1"));
}

#[test]
fn a_connection_that_makes_no_request_gives_up_its_place() {
    assert_eq!(Options::default().first_request, limits::FIRST_REQUEST);
    assert_eq!(limits::FIRST_REQUEST, Duration::from_secs(10));
    let limit = Duration::from_millis(150);
    let server = Server::with(Options { first_request: limit, ..Options::default() });
    let mut known = server.connect();
    known.done("PING");
    let start = Instant::now();
    let (mut silent, mut slow) = (server.connect(), server.connect());
    slow.send_bytes(b"{\"Method\":");
    assert!(silent.ended() && slow.ended());
    assert!(start.elapsed() >= limit);
    known.done("PING");
    until("they are gone", || known.show("/").unwrap()["connections"] == 1);
}

#[test]
fn more_connections_than_allowed_wait_for_a_place() {
    let server = Server::with(Options { max_connections: 2, ..Options::default() });
    let (mut one, mut two) = (server.connect(), server.connect());
    one.done("PING");
    two.done("PING");
    let mut three = server.connect();
    three.send("PING / id=3");
    assert!(three.is_silent());
    drop(one);
    assert_eq!(three.answer().id(), Some("3"));
    // There has to be a place for who stops it.
    drop(two);
}

/// They were accepted by the system, and not yet by the server, when it was told to stop.
#[test]
fn connections_that_wait_for_a_place_are_answered_when_the_server_stops() {
    let server = Server::with(Options { max_connections: 2, ..Options::default() });
    let (mut one, mut two) = (server.connect(), server.connect());
    one.done("PING");
    two.done("PING");
    let mut outside: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for (number, client) in outside.iter_mut().enumerate() {
        client.send(&format!("PING / id={number}"));
    }
    let mut silent = server.connect();
    let mut half = server.connect();
    half.send_bytes(b"{\"Method\":");
    one.done("SHUTDOWN /");
    for (number, client) in outside.iter_mut().enumerate() {
        assert_eq!(client.answer().is(503).id(), Some(&*number.to_string()));
        assert!(client.ended());
    }
    assert!(two.ended() && silent.ended() && half.ended());
    server.join();
}

/// Sends large messages to a client that does not read, until the server holds some of them back;
/// says how many were put.
fn congest(server: &Server, slow: &mut Client, other: &mut Client) -> usize {
    other.done("CREATE q");
    let takes: Vec<u8> = (0..1000).flat_map(|id| frame(&format!("TAKE q id={id}"))).collect();
    slow.send_bytes(&takes);
    other.until_waiting("/queues/q", 1000);
    let padding = "x".repeat(100_000);
    for number in 0..1000 {
        other.done(&format!("PUT q | [{number},\"{padding}\"]"));
        if other.show("/queues/q").unwrap()["ready"] == 3 {
            return number + 1;
        }
    }
    let _ = server;
    panic!("1000 messages of 100 kB went to a client that does not read");
}

fn number(payload: &str) -> usize {
    payload[1..].split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_slow_reader_is_passed_over_until_it_reads() {
    let server = Server::start();
    let mut slow = Client::connect_narrow(server.address);
    let (mut other, mut taker) = (server.connect(), server.connect());
    let put = congest(&server, &mut slow, &mut other);
    // It is not read from either.
    slow.send("PUT /queues/q id=put | \"never before\"");
    // Others get what it does not take.
    assert_eq!(number(taker.done("TAKE q timeout=0").payload().unwrap()), put - 3);
    assert_eq!(other.show("/queues/q").unwrap()["ready"], 2);

    let mut got: Vec<usize> = Vec::new();
    while got.len() < put - 1 {
        got.push(number(slow.answer().is(200).payload().unwrap()));
    }
    let expected: Vec<usize> = (0..put).filter(|number| *number != put - 3).collect();
    assert_eq!(got, expected, "in order, once each");
    // And it goes on as if nothing had been.
    let answers = [slow.answer().is(200), slow.answer().is(200)];
    assert!(answers.iter().any(|answer| answer.id() == Some("put")));
    assert!(answers.iter().any(|answer| answer.payload() == Some("\"never before\"")));
    slow.done("PING / id=more");
}

#[test]
fn a_reader_that_is_stuck_is_closed_and_its_messages_return() {
    let server = Server::with(Options { stuck: Duration::from_millis(300), ..Options::default() });
    let mut slow = Client::connect_narrow(server.address);
    let mut other = server.connect();
    let put = congest(&server, &mut slow, &mut other);
    other.until_waiting("/queues/q", 0);

    // What the socket had taken still comes; the last message perhaps in part.
    let mut bytes = Vec::new();
    slow.stream.set_read_timeout(Some(LONG)).unwrap();
    let _ = slow.stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let mut got: Vec<usize> = Vec::new();
    for line in text.split_inclusive('\n') {
        let payload = line.split("\"Payload\":").nth(1);
        got.extend(payload.filter(|_| line.ends_with('\n')).map(number));
    }
    let cut_off = usize::from(!text.ends_with('\n') && !text.is_empty());
    let left = other.show("/queues/q").unwrap()["ready"].as_u64().unwrap() as usize;
    assert!(left > 3, "the server held back {left}");
    let mut returned = Vec::new();
    while let Some(payload) = other.ask("TAKE q timeout=0").payload() {
        returned.push(number(payload));
    }
    assert!(returned.is_sorted() && got.is_sorted());
    assert_eq!(got.len() + cut_off + returned.len(), put, "each is here or there");
    assert!(got.last() < returned.first());
}

#[test]
fn large_answers_are_finished_before_a_half_closed_connection_is() {
    let server = Server::start();
    let mut client = Client::connect_narrow(server.address);
    let request = format!("ECHO / | \"{}\"", "x".repeat(500_000));
    let mut sender = client.twin();
    let sending = std::thread::spawn(move || {
        for _ in 0..20 {
            sender.send(&request);
        }
        sender.half_close();
    });
    let mut count = 0;
    while let Some(answer) = client.try_answer() {
        assert!(answer.text.len() > 500_000);
        count += 1;
    }
    sending.join().unwrap();
    assert_eq!(count, 20);
}

#[test]
fn a_client_that_reads_nothing_does_not_make_the_server_grow() {
    let server = Server::with(Options { stuck: Duration::from_millis(300), ..Options::default() });
    let mut client = Client::connect_narrow(server.address);
    client.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // Far more than all buffers between them have room for: the server has to stop reading.
    let requests = frame(&format!("ECHO / | \"{}\"", "x".repeat(60_000))).repeat(10);
    let sent = (0..1000)
        .take_while(|_| std::io::Write::write_all(&mut client.stream, &requests).is_ok())
        .count();
    assert!(sent < 1000, "600 MB went into a server that could not answer");
    let mut other = server.connect();
    until("it is closed", || other.show("/").unwrap()["connections"] == 1);
}

/// In one turn a client is sent more than may wait for it, and its own request arrives: that is
/// left for later, and not forgotten when everything was sent at once.
#[test]
fn a_request_that_arrives_with_a_flood_of_messages_is_answered() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let (mut client, mut other) = (server.connect(), server.connect());
    client.done("CREATE q");
    let takes: Vec<u8> = (0..25).flat_map(|id| frame(&format!("TAKE q id={id}"))).collect();
    client.send_bytes(&takes);
    other.until_waiting("/queues/q", 25);
    let mut producers: Vec<Client> = (0..25).map(|_| server.connect()).collect();
    producers.iter_mut().for_each(|producer| drop(producer.done("PING")));
    journal.hold();
    other.send("CREATE r");
    journal.await_standstill();
    let put = format!("PUT q | \"{}\"", "x".repeat(60_000));
    producers.iter_mut().for_each(|producer| producer.send(&put));
    client.send("PING / id=ping");
    journal.release();
    let answers = client.answers(26);
    assert_eq!(answers.iter().filter(|answer| answer.payload().is_some()).count(), 25);
    assert_eq!(answers[25].id(), Some("ping"));
}

/// The answers to what it gave up are more than a slow reader may have unsent, and there is no
/// further event.
#[test]
fn a_half_closed_connection_that_waited_for_very_much_is_closed() {
    const WAITS: usize = 30_000;
    let server = Server::start();
    let mut client = server.connect();
    client.done("CREATE q");
    let requests: Vec<u8> = (0..WAITS).flat_map(|id| frame(&format!("TAKE q id={id}"))).collect();
    client.send_bytes(&requests);
    client.half_close();
    let answers = client.rest();
    assert!(answers.len() > limits::OUTPUT, "{}", answers.len());
    assert_eq!(answers.iter().filter(|byte| **byte == b'\n').count(), WAITS);
}
