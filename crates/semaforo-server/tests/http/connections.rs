//! HTTP over real sockets: order, waiting, clients that leave or dawdle, and a full server.

use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::http_support::{LONG, Server};
use semaforo_server::server::http::{Options, RESERVED, Times};

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.write(
        b"POST /v1/latches/a/WAIT HTTP/1.1\r\nHost: localhost\r\n\r\n\
          POST /v1/PING HTTP/1.1\r\nHost: localhost\r\n\r\n\
          GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    let ticket = server.wait_submitted(1);
    let mut other = server.connect();
    other.send("POST /v1/PING", "");
    assert_eq!(other.response().status, 200, "others do not wait");
    assert_eq!(server.state().submitted.len(), 2, "the second of the first has not begun");
    server.answer(ticket, 200, "\"first\"", false);
    assert_eq!(client.response().body, "\"first\"");
    assert_eq!(client.response().body, r#"{"Method":"PING","Path":"/"}"#);
    assert_eq!(client.response().body, "ok\n");
}

#[test]
fn a_client_that_goes_away_does_not_wait_any_more() {
    for reset in [false, true] {
        let server = Server::start(Options::default());
        let mut client = server.connect();
        client.send("POST /v1/queues/q/WAIT", "");
        let ticket = server.wait_submitted(1);
        if reset {
            let linger = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(client.stream(), linger).unwrap();
        }
        drop(client);
        server.wait(|state| state.cancelled.contains(&ticket).then_some(()));
        if reset {
            // What was meant for it has not arrived, and the backend learns it.
            server.answer(ticket, 200, "\"a message\"", true);
            let settled = server.wait(|state| state.settled.first().copied());
            assert_eq!(settled, (ticket, false));
        }
    }
}

#[test]
fn a_half_closed_client_is_cancelled_and_still_answered() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.send("POST /v1/queues/q/WAIT", "");
    let ticket = server.wait_submitted(1);
    client.stream().shutdown(Shutdown::Write).unwrap();
    server.wait(|state| state.cancelled.contains(&ticket).then_some(()));
    server.answer(ticket, 204, "", false);
    assert_eq!(client.response().status, 204);
    assert!(client.is_closed());

    let mut client = server.connect();
    client.send("POST /v1/PING", "");
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.response().status, 200);
    assert!(client.is_closed());
}

#[test]
fn the_fate_of_an_answer_is_reported() {
    let server = Server::start(Options::default());
    let mut client = server.connect();
    client.send("POST /v1/queues/q/CONFIRM", "");
    assert_eq!(client.response().status, 200);
    let ticket = server.wait_submitted(1);
    assert_eq!(server.wait(|state| state.settled.first().copied()), (ticket, true));
}

#[test]
fn a_busy_backend_is_no_reason_to_close() {
    let server = Server::start(Options::default());
    server.state().busy = true;
    let mut client = server.connect();
    client.send("POST /v1/PING", "");
    let response = client.response();
    assert_eq!((response.status, response.header("Retry-After")), (503, Some("1")));
    server.state().busy = false;
    client.send("POST /v1/PING", "");
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_head_that_comes_too_slowly_is_cut_off() {
    let times = Times { head: Duration::from_millis(300), ..Times::default() };
    let server = Server::start(Options { times, ..Options::default() });
    let mut client = server.connect();
    client.write(b"GET /healthz HTTP/1.1\r\n");
    client.stream().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A byte now and then does not move the deadline.
    let begun = Instant::now();
    let mut answer = [0; 12];
    while client.stream().peek(&mut answer).is_err() {
        assert!(begun.elapsed() < LONG, "it is cut off in time");
        client.write(b"X");
    }
    assert!(begun.elapsed() >= Duration::from_millis(250));
    client.stream().set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(client.response().status, 408);
    assert!(client.is_closed());
}

#[test]
fn silent_and_idle_connections_are_closed() {
    let short = Duration::from_millis(150);
    let times = Times { first: short, idle: short, body: short, ..Times::default() };
    let server = Server::start(Options { times, ..Options::default() });
    assert!(server.connect().is_closed(), "nothing was asked");
    let mut client = server.connect();
    client.send("GET /healthz", "");
    assert_eq!(client.response().status, 200);
    assert!(client.is_closed(), "nothing more was asked");
    let mut client = server.connect();
    client.write(
        b"POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Content-Length: 9\r\n\r\n{",
    );
    assert_eq!(client.response().status, 408);
}

#[test]
fn a_request_that_waits_is_not_cut_off() {
    let short = Duration::from_millis(50);
    let times = Times { first: short, head: short, body: short, idle: LONG, reserved: short };
    let server = Server::start(Options { times, ..Options::default() });
    let mut client = server.connect();
    client.send("POST /v1/queues/q/WAIT", "");
    let ticket = server.wait_submitted(1);
    // Another connection shows that the time has passed for all of them.
    assert!(server.connect().is_closed());
    server.answer(ticket, 200, "1", false);
    assert_eq!(client.response().status, 200);
    client.send("GET /healthz", "");
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_full_server_still_answers_who_looks_after_it() {
    let times = Times { reserved: Duration::from_millis(300), ..Times::default() };
    let server = Server::start(Options { connections: 3, times, ..Options::default() });
    let mut inside: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for (number, client) in inside.iter_mut().enumerate() {
        client.send("POST /v1/queues/q/WAIT", "");
        server.wait_submitted(number + 1);
    }
    for target in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        let response = server.request(&format!("GET {target}"), "");
        assert_eq!((response.status, response.header("Connection")), (200, Some("close")));
    }
    assert_eq!(server.request("POST /v1/SHUTDOWN", "").status, 200, "administration");
    let response = server.request("POST /v1/queues/q/TAKE", "");
    assert_eq!(response.status, 503);
    assert!(response.body.contains("all 3 connections"), "{}", response.body);
    assert_eq!(server.request("POST /v1", "{\"Method\":\"PING\"}").status, 503);

    // A client that takes all the reserved places and says nothing has them for a moment only.
    let silent: Vec<TcpStream> =
        (0..RESERVED + 5).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert_eq!(server.request("GET /healthz", "").status, 200);
    drop(silent);

    server.answer(server.wait_submitted(1), 200, "1", false);
    assert_eq!(inside[0].response().status, 200);
    inside[0].send("POST /v1/PING", "");
    assert_eq!(inside[0].response().status, 200);
}

#[test]
fn stopping_answers_who_waits_and_ends() {
    let server = Server::start(Options::default());
    let (mut waiting, mut idle) = (server.connect(), server.connect());
    idle.send("GET /healthz", "");
    assert_eq!(idle.response().status, 200);
    waiting.send("POST /v1/queues/q/WAIT", "");
    let ticket = server.wait_submitted(1);
    server.begin_stop();
    let begun = Instant::now();
    while TcpStream::connect(server.address).is_ok() {
        assert!(begun.elapsed() < LONG, "nobody is accepted any more");
    }
    server.answer(ticket, 503, "{\"error\":\"shutting down\"}", false);
    let response = waiting.response();
    assert_eq!((response.status, response.header("Connection")), (503, Some("close")));
    assert!(waiting.is_closed() && idle.is_closed());
    drop(server);
}
