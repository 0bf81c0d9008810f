//! Producers and takers over HTTP, on the objects of clients over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::sockopt;
use semaforo_server::server::Options;
use semaforo_server::server::log::{Format, Level, Log};

use crate::delivery::lose_taker_in_flight;
use crate::named::open;
use crate::support::{Held, LONG, Lines, Server};

/// A connection that speaks HTTP.
pub(crate) struct Http(TcpStream);

impl Http {
    pub(crate) fn connect(server: &Server) -> Self {
        Self::at(server.http.unwrap())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(stream)
    }

    /// `METHOD` of what is at this path, which may have a query, with this body.
    pub(crate) fn send(&mut self, path: &str, body: &str) {
        let length = body.len();
        let head = "Host: localhost\r\nContent-Type: application/json";
        let request =
            format!("POST /v1{path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
        self.0.write_all(request.as_bytes()).unwrap();
    }

    /// The status and the body of the next answer; none if the connection has ended.
    pub(crate) fn answer(&mut self) -> Option<(u16, String)> {
        let mut reader = BufReader::with_capacity(1, &self.0);
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().unwrap();
            }
            if let Some(rest) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = rest.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some((status, String::from_utf8(body).unwrap()))
    }

    /// Whether something has arrived.
    fn has_heard(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let heard = self.0.peek(&mut [0]).is_ok();
        self.0.set_nonblocking(false).unwrap();
        heard
    }

    /// Whether nothing arrives for a moment.
    fn is_silent(&self) -> bool {
        self.0.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let read = self.0.peek(&mut [0]);
        self.0.set_read_timeout(Some(LONG)).unwrap();
        read.is_err()
    }

    /// Goes away without a farewell.
    fn reset(self) {
        sockopt::set_socket_linger(&self.0, Some(std::time::Duration::ZERO)).unwrap();
    }
}

fn with_http() -> Options {
    Options { http: Some(([127, 0, 0, 1], 0).into()), ..Options::default() }
}

/// With a journal that completes later, a message that returns has to be durable again before its
/// producer is told, also if that one speaks HTTP.
#[test]
fn an_http_producer_waits_for_the_return_of_its_message_too() {
    let journal = Held::default();
    let server = journal.server(with_http());
    let (mut other, lost) = (server.connect(), server.connect());
    let mut producer = Http::connect(&server);
    other.done("CREATE q");
    lose_taker_in_flight(&journal, &mut other, lost, || producer.send("/queues/q/put", "1"));
    assert!(producer.is_silent(), "its message could be lost now");
    journal.complete();
    assert_eq!(producer.answer().unwrap().0, 200);
    journal.later(false);
    assert_eq!(other.answer().status, 200);
    assert_eq!(other.done("TAKE q timeout=0").payload(), Some("1"));
}

/// As for takers that speak TCP.
#[test]
fn the_producer_is_answered_after_an_http_takers_bytes_were_sent() {
    let server = Server::with(with_http());
    let (mut producer, mut observer) = (server.connect(), server.connect());
    let (mut http_producer, mut taker) = (Http::connect(&server), Http::connect(&server));
    producer.done("CREATE q");
    for method in ["put", "transfer"] {
        for round in 0..300 {
            taker.send("/queues/q/take", "");
            observer.until_waiting("/queues/q", 1);
            if round % 3 == 0 {
                http_producer.send(&format!("/queues/q/{method}"), &round.to_string());
                assert_eq!(http_producer.answer().unwrap().0, 200);
            } else {
                producer.done(&format!("{method} q | {round}"));
            }
            assert!(taker.has_heard(), "{method}, round {round}");
            assert_eq!(taker.answer().unwrap(), (200, round.to_string()));
        }
    }
    // One who transfers waits first, and the taker comes later.
    for round in 0..300 {
        producer.send(&format!("TRANSFER q | {round}"));
        observer.until_waiting("/queues/q", 1);
        taker.send("/queues/q/take", "");
        producer.answer().is(200);
        assert!(taker.has_heard(), "round {round}");
        assert_eq!(taker.answer().unwrap(), (200, round.to_string()));
    }
}

/// An HTTP taker that is lost at the hand-over: its message is back before the producer learns of
/// anything.
#[test]
fn a_message_for_a_lost_http_taker_is_back_before_its_producer_is_told() {
    let journal = Held::default();
    let server = journal.server(with_http());
    let (mut producer, mut other) = (server.connect(), server.connect());
    producer.done("CREATE q");
    for round in 0..30 {
        let mut lost = Http::connect(&server);
        lost.send("/queues/q/take", "");
        other.until_waiting("/queues/q", 1);
        journal.hold();
        producer.send(&format!("PUT q | {round}"));
        journal.await_standstill();
        lost.reset();
        // The thread of HTTP goes on meanwhile; when it answers another client it has noticed.
        let mut witness = Http::connect(&server);
        witness.0.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(witness.answer().unwrap().0, 200);
        journal.release();
        producer.answer().is(200);
        assert_eq!(other.show("/queues/q").unwrap()["ready"], 1, "round {round}");
        assert_eq!(other.done("TAKE q timeout=0").payload(), Some(&*round.to_string()));
    }
}

static PANICS: AtomicBool = AtomicBool::new(false);

fn panic_on_demand() {
    assert!(!PANICS.load(Ordering::SeqCst), "as the test has ordered");
}

/// Half a server is worse than none: a program that watches it would not notice. What was answered
/// is kept, as always.
#[test]
fn a_panic_of_the_http_thread_is_logged_and_ends_the_server() {
    let lines = Lines::default();
    let (log, end) = Log::to(Box::new(lines.clone()), Level::Info, Format::Plain, 100).unwrap();
    let options = Options { log: Some(log), on_http_turn: Some(panic_on_demand), ..with_http() };
    let server = Server::with(options);
    let (mut client, mut waiter) = (server.connect(), server.connect());
    client.done("ACQUIRE /locks/a");
    waiter.send("ACQUIRE /locks/a");
    client.until_waiting("/locks/a", 1);
    PANICS.store(true, Ordering::SeqCst);
    let mut http = Http::connect(&server);
    http.send("/locks/a/show", "");
    assert_eq!(http.answer(), None);
    waiter.answer().is(503);
    assert!(client.ended() && waiter.ended());
    let outcome = server.outcome().unwrap_err();
    assert!(outcome.to_string().contains("HTTP"), "{outcome}");
    drop(end);
    let text = lines.text();
    assert!(text.contains("error") && text.contains("as the test has ordered"), "{text}");
}

/// As over TCP: a request that waits and can be asked for again is not answered, since it is not
/// over.
#[test]
fn a_half_closed_http_connection_ends_what_waits_or_leaves_it_to_its_session() {
    let server = Server::with(with_http());
    let (mut holder, mut other) = (server.connect(), server.connect());
    let session = open(&mut other, 60_000);
    let fence = holder.done("ACQUIRE /locks/a").fence();
    for (seq, expected) in [("", Some((204, String::new()))), ("&seq=1", None)] {
        let mut http = Http::connect(&server);
        http.send(&format!("/locks/a/acquire?session={session}{seq}"), "");
        other.until_waiting("/locks/a", 1);
        http.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(http.answer(), expected, "{seq}");
        other.until_waiting("/locks/a", u64::from(!seq.is_empty()));
    }
    let again = "ACQUIRE /locks/a timeout=20000";
    other.send(&format!("{again} session={session} seq=1"));
    holder.done(&format!("RELEASE /locks/a fence={fence}"));
    // The method and the path have to be as they came over HTTP.
    let answer = other.answer();
    assert_eq!(answer.status, 200, "{}", answer.text);
}
