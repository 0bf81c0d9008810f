//! Named sessions: they outlive connections, and end by silence.

use std::time::{Duration, Instant};

use crate::support::{Client, Server, until};

pub(crate) fn open(client: &mut Client, ttl: u64) -> String {
    client
        .done(&format!("OPEN /sessions ttl={ttl} label=test"))
        .header("session")
        .unwrap()
        .to_owned()
}

#[test]
fn a_session_outlives_its_connections() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    let fence = client.done(&format!("ACQUIRE /locks/a session={session}")).fence();
    other.done("CREATE q");
    other.done("PUT q | 1");
    let message = client.done(&format!("TAKE q ack=manual session={session}")).number("message");
    client.reset();
    until("the connection is gone", || other.show("/").unwrap()["connections"] == 1);
    other.done(&format!("CHECK /locks/a fence={fence}"));
    other.ask("ACQUIRE /locks/a timeout=0").is(204);
    other.ask(&format!("ACK q message={message}")).is(410);
    let mut client = server.connect();
    client.done(&format!("ACK q message={message} session={session}"));
    client.done(&format!("RELEASE /locks/a fence={fence} session={session}"));
    client.ask(&format!("RELEASE /locks/a fence={fence} session={session}")).is(410);
    assert_eq!(
        client.done(&format!("KEEPALIVE /sessions session={session}")).number("ttl"),
        60_000
    );
}

#[test]
fn closing_a_session_frees_everything() {
    let server = Server::start();
    let (mut client, mut next, mut other) = (server.connect(), server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    client.done(&format!("ACQUIRE /locks/a session={session}"));
    client.done("CREATE q");
    client.send(&format!("TAKE q session={session} id=take"));
    next.send("ACQUIRE /locks/a");
    other.until_waiting("/locks/a", 1);
    other.until_waiting("/queues/q", 1);
    other.done(&format!("CLOSE /sessions session={session}"));
    assert_eq!(client.answer().is(410).id(), Some("take"), "what waits for a session that ends");
    next.answer().is(200);
    client.ask(&format!("KEEPALIVE /sessions session={session}")).is(410);
    client.ask(&format!("CLOSE /sessions session={session}")).is(410);
}

#[test]
fn silence_ends_a_session_and_wakes_the_next() {
    let server = Server::start();
    let (mut client, mut next, mut other) = (server.connect(), server.connect(), server.connect());
    let started = Instant::now();
    let session = open(&mut client, 200);
    client.done(&format!("ACQUIRE /locks/a session={session}"));
    client.done("CREATE q");
    client.done("PUT q | 1");
    client.done(&format!("TAKE q ack=manual session={session}"));
    client.send(&format!("TAKE q session={session} id=take"));
    next.send("ACQUIRE /locks/a");
    next.answer().is(200);
    assert!(started.elapsed() >= Duration::from_millis(200));
    // Waiting is no sign of life: the connection may be there while the client is not.
    assert_eq!(client.answer().is(410).id(), Some("take"));
    assert_eq!(other.done("TAKE q").payload(), Some("1"), "it has returned");
    client.ask(&format!("KEEPALIVE /sessions session={session}")).is(410);
    client.ask(&format!("ACQUIRE /locks/b session={session}")).is(410);
}

#[test]
fn every_request_keeps_a_session_alive() {
    let server = Server::start();
    let mut client = server.connect();
    let ttl = 150;
    let (idle, kept) = (open(&mut client, ttl), open(&mut client, ttl));
    let fence = client.done(&format!("ACQUIRE /locks/a session={kept}")).fence();
    let start = Instant::now();
    let requests = ["KEEPALIVE /sessions", "PING /", "SHOW /locks/a", "ACQUIRE /locks/a timeout=0"];
    for request in requests.iter().cycle() {
        assert_ne!(client.ask(&format!("{request} session={kept}")).status, 410);
        if start.elapsed() > Duration::from_millis(3 * ttl) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    client.done(&format!("CHECK /locks/a fence={fence}"));
    client.ask(&format!("KEEPALIVE /sessions session={idle}")).is(410);
}

#[test]
fn what_a_session_waits_for_without_a_number_ends_with_the_connection() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let session = open(&mut client, 60_000);
    other.done("ACQUIRE /locks/a");
    client.send(&format!("ACQUIRE /locks/a session={session}"));
    other.until_waiting("/locks/a", 1);
    client.reset();
    other.until_waiting("/locks/a", 0);
}
