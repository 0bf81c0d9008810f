//! Time: limits and sessions last as long as they should, whatever the clock and the loop do.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use semaforo_server::journal::MemoryJournal;
use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server};

use crate::watched::Watched;

const HOUR: u64 = 3_600_000;

fn call(stream: &TcpStream, request: &str) -> String {
    (&*stream).write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// The wall clock was moved by an hour, either way, while the server was down.
#[test]
fn limits_and_sessions_last_as_long_as_they_should() {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    for journaled in [wall + HOUR, wall - HOUR] {
        let journal = Box::new(MemoryJournal::default());
        let server =
            Server::with_journal(Options::default(), State::default(), journal, journaled).unwrap();
        let (one, two) = (
            TcpStream::connect(server.address()).unwrap(),
            TcpStream::connect(server.address()).unwrap(),
        );
        let running = thread::spawn(move || server.run());
        let opened = call(&one, r#"{"Method":"OPEN","Path":"/sessions","Headers":{"ttl":400}}"#);
        let session = opened.split(r#""session":""#).nth(1).unwrap()[..32].to_owned();
        let begin = Instant::now();
        let acquire = format!(
            r#"{{"Method":"ACQUIRE","Path":"/locks/a","Headers":{{"session":"{session}"}}}}"#
        );
        assert!(call(&one, &acquire).contains(r#""Status":200"#));
        let limited = r#"{"Method":"ACQUIRE","Path":"/locks/a","Headers":{"timeout":100}}"#;
        assert!(call(&two, limited).contains(r#""Status":204"#));
        assert!(begin.elapsed() >= Duration::from_millis(100));
        // The session is silent, and ends.
        assert!(call(&two, r#"{"Method":"ACQUIRE","Path":"/locks/a"}"#).contains("200"));
        assert!(begin.elapsed() >= Duration::from_millis(400));
        assert!(call(&two, r#"{"Method":"SHUTDOWN"}"#).contains("200"));
        running.join().unwrap().unwrap();
    }
}

const LARGE: usize = 200_000;

/// A turn of the loop may take long. What arrives while it lasts, and is still read in it, was sent
/// after it began.
#[test]
fn a_session_lives_on_from_when_its_keep_alive_was_sent() {
    const TTL: Duration = Duration::from_millis(400);
    let (stopped, has_stopped) = channel();
    let (goes_on, go_on) = channel();
    // What comes behind a large message, in the same turn, stops the loop until it is told to go
    // on.
    let (mut least, mut was_large) = (usize::MAX, false);
    let asked_for = Box::new(move |bytes| {
        least = least.min(bytes);
        let is_large = bytes > least + LARGE;
        if is_large && !std::mem::replace(&mut was_large, is_large) {
            stopped.send(()).unwrap();
            go_on.recv().unwrap();
        }
        was_large = is_large;
    });
    let journal = Box::new(Watched { asked_for, ..Watched::default() });
    let (options, state) = (Options::default(), State::default());
    let server =
        crate::support::Server::run(Server::with_journal(options, state, journal, 0).unwrap());
    let (mut producer, mut holder, mut other) =
        (server.connect(), server.connect(), server.connect());
    producer.done("CREATE q");
    let opened = holder.done(&format!("OPEN /sessions ttl={}", TTL.as_millis()));
    let session = opened.header("session").unwrap().to_owned();
    holder.done(&format!("ACQUIRE /locks/x session={session}"));
    other.send("ACQUIRE /locks/x");

    let mut put = crate::support::frame(&format!("PUT q | \"{}\"", "x".repeat(LARGE)));
    put.extend(crate::support::frame("SHOW q"));
    producer.send_bytes(&put);
    has_stopped.recv().unwrap();
    // In the next turn there is something to read from both of them.
    producer.send_bytes(&put);
    let keep_alive = crate::support::frame(&format!("KEEPALIVE /sessions session={session}"));
    let (first, rest) = keep_alive.split_at(10);
    holder.send_bytes(first);
    goes_on.send(()).unwrap();
    has_stopped.recv().unwrap();
    // The turn lasts.
    thread::sleep(TTL / 4);
    let sent = Instant::now();
    holder.send_bytes(rest);
    goes_on.send(()).unwrap();
    assert_eq!(holder.answer().status, 200);
    assert_eq!(other.answer().status, 200);
    assert!(sent.elapsed() >= TTL, "{:?}", sent.elapsed());
}
