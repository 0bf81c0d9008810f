//! The connection layer with many connections, at its limit, and when it stops.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::net_support::{
    LONG, Options, Server, echo, echo_lines, exchange, read_all, read_exactly,
};
use semaforo_server::net::{Limits, Reason, raise_open_files};

#[test]
fn a_thousand_connections_each_get_their_own() {
    assert_eq!(raise_open_files(2_500), 2_500, "the test needs two descriptors a connection");
    let server = Server::echo();
    let mut streams: Vec<TcpStream> = (0..1000).map(|_| server.connect()).collect();
    for round in 0..3 {
        for (number, stream) in streams.iter_mut().enumerate() {
            write!(stream, "{round:04}{number:04}").unwrap();
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            assert_eq!(read_exactly(stream, 8), format!("{round:04}{number:04}").into_bytes());
        }
    }
    let statistics = server.ask(|net| net.statistics());
    assert_eq!((statistics.open, statistics.accepted), (1000, 1000));
    assert_eq!((statistics.read, statistics.written), (24_000, 24_000));
}

#[test]
fn at_the_limit_newcomers_wait_and_are_served_when_one_leaves() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }, echo);
    let mut inside: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut inside {
        assert_eq!(exchange(stream, b"in"), b"in");
    }
    let mut outside: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    for stream in &mut outside {
        stream.write_all(b"wait").unwrap();
    }
    for stream in &mut inside {
        assert_eq!(exchange(stream, b"still in"), b"still in");
    }
    assert_eq!(server.ask(|net| net.statistics().accepted), 3);
    let nothing = outside[0].set_read_timeout(Some(Duration::from_millis(1)));
    nothing.and_then(|()| outside[0].read(&mut [0])).unwrap_err();
    outside[0].set_read_timeout(Some(LONG)).unwrap();
    for mut stream in outside {
        drop(inside.pop());
        assert_eq!(read_exactly(&mut stream, 4), b"wait");
        inside.push(stream);
        assert!(server.ask(|net| net.statistics().open) <= 3);
    }
}

#[test]
fn stopping_sends_what_was_accepted_and_refuses_newcomers() {
    let server = Server::start(Options::default(), |net, id, input| {
        net.output(id).resize(8 << 20, b'x');
        input.len()
    });
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"give").unwrap();
    assert_eq!(read_exactly(&mut stream, 1), b"x");
    server.ask(|net| net.stop(LONG));
    assert_eq!(read_all(&mut stream).len(), (8 << 20) - 1);
    drop(stream);
    assert_eq!(server.wait_closed(id).reason, Reason::Finished);
    let begun = Instant::now();
    while TcpStream::connect(server.address).is_ok() {
        assert!(begun.elapsed() < LONG, "nobody listens any more");
    }
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let server = Server::start(Options::default(), |net, id, input| {
        net.output(id).resize(64 << 20, b'x');
        input.len()
    });
    let (mut stream, id) = server.connect_seen();
    let (idle, idle_id) = server.connect_seen();
    stream.write_all(b"give").unwrap();
    assert_eq!(read_exactly(&mut stream, 1), b"x");
    let begun = Instant::now();
    server.ask(|net| net.stop(Duration::from_millis(200)));
    assert_eq!(server.wait_closed(idle_id).reason, Reason::Finished);
    assert_eq!(server.wait_closed(id).reason, Reason::Aborted);
    assert!(begun.elapsed() >= Duration::from_millis(190));
    drop(server);
    drop(idle);
}

/// One place, which its connection keeps.
fn one_place() -> Options {
    Options { limits: Limits { connections: 1, ..Limits::default() }, ..Options::default() }
}

#[test]
fn stopping_does_not_wait_for_ever_for_a_place_for_the_next_connection() {
    let server = Server::start(one_place(), |net, id, input| {
        net.output(id).resize(64 << 20, b'x');
        input.len()
    });
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"give").unwrap();
    assert_eq!(read_exactly(&mut stream, 1), b"x");
    let mut outside = server.connect();
    let begun = Instant::now();
    server.ask(|net| net.stop(Duration::from_millis(200)));
    assert_eq!(server.wait_closed(id).reason, Reason::Aborted);
    assert!(begun.elapsed() >= Duration::from_millis(190));
    drop(server);
    assert!(!outside.read(&mut [0]).is_ok_and(|count| count > 0));
}

#[test]
fn accepting_stops_after_its_time_and_open_connections_stay() {
    let server = Server::start(one_place(), echo);
    let (mut inside, _) = server.connect_seen();
    let mut outside = server.connect();
    let begun = Instant::now();
    assert!(server.ask(|net| {
        net.stop_accepting(Duration::from_millis(200));
        net.is_accepting()
    }));
    assert!(!outside.read(&mut [0]).is_ok_and(|count| count > 0), "there was no place for it");
    assert!(begun.elapsed() >= Duration::from_millis(190));
    assert!(!server.ask(|net| net.is_accepting()));
    assert_eq!(exchange(&mut inside, b"still in"), b"still in");
}

#[test]
fn late_connections_are_answered_and_silent_ones_have_a_moment() {
    let server = Server::start(one_place(), echo_lines);
    let (inside, _) = server.connect_seen();
    let (mut asking, mut silent) = (server.connect(), server.connect());
    asking.write_all(b"one\ntwo\n").unwrap();
    assert!(server.ask(|net| {
        net.stop_accepting(LONG);
        net.is_accepting()
    }));
    drop(inside);
    assert_eq!(read_all(&mut asking), b"one\ntwo\n");
    drop(asking);
    assert_eq!(read_all(&mut silent), b"");
    assert!(!server.ask(|net| net.is_accepting()));
}
