//! The connection layer over real sockets: input, output and the end of a connection.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crate::net_support::{
    LONG, Options, Seen, Server, echo_lines, exchange, read_all, read_exactly,
};
use semaforo_server::net::{Budget, Limits, Reason};

#[test]
fn echoes_what_is_sent_split_and_glued() {
    let server = Server::start(Options::default(), echo_lines);
    let mut stream = server.connect();
    stream.write_all(b"one\ntwo\nthr").unwrap();
    assert_eq!(read_exactly(&mut stream, 8), b"one\ntwo\n");
    for byte in b"ee\nfour" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_exactly(&mut stream, 6), b"three\n");
    stream.write_all(b"\n").unwrap();
    assert_eq!(read_exactly(&mut stream, 5), b"four\n");
}

#[test]
fn large_input_is_offered_whole_and_comes_back_whole() {
    let server = Server::start(Options::default(), echo_lines);
    let mut stream = server.connect();
    let mut line: Vec<u8> = (0..3_000_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    line.push(b'\n');
    let mut writing = stream.try_clone().unwrap();
    let sent = line.clone();
    let writer = std::thread::spawn(move || writing.write_all(&sent).unwrap());
    assert!(read_exactly(&mut stream, line.len()) == line);
    writer.join().unwrap();
}

#[test]
fn a_half_closed_connection_gets_its_answer_and_is_closed() {
    let server = Server::echo();
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"last words").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream), b"last words");
    let closed = server.wait_closed(id);
    assert_eq!((closed.accepted, closed.reason), (10, Reason::Finished));
}

#[test]
fn a_half_closed_connection_stays_while_it_is_paused() {
    let server = Server::start(Options::default(), |net, id, input| {
        if net.has_ended(id) {
            net.send(id, b"ended ");
        }
        net.send(id, &input[..1]);
        net.pause(id);
        1
    });
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"ab").unwrap();
    assert_eq!(read_exactly(&mut stream, 1), b"a");
    stream.shutdown(Shutdown::Write).unwrap();
    server.wait(|seen| matches!(seen, Seen::Ended(ended) if *ended == id).then_some(()));
    server.ask(move |net| net.resume(id));
    assert_eq!(read_exactly(&mut stream, 7), b"ended b");
    assert!(server.ask(move |net| net.queued(id)).is_some(), "paused, and so still there");
    server.ask(move |net| net.resume(id));
    assert_eq!(read_all(&mut stream), b"");
    assert_eq!(server.wait_closed(id).reason, Reason::Finished);
}

#[test]
fn a_reset_is_noticed_also_when_paused() {
    for paused in [false, true] {
        let server = Server::echo();
        let (mut stream, id) = server.connect_seen();
        assert_eq!(exchange(&mut stream, b"hello"), b"hello");
        if paused {
            server.ask(move |net| net.pause(id));
        }
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        let closed = server.wait_closed(id);
        assert_eq!(closed.reason, Reason::Failed(std::io::ErrorKind::ConnectionReset));
        assert_eq!(closed.accepted, 5);
    }
}

#[test]
fn a_paused_connection_is_offered_nothing_and_loses_nothing() {
    let server = Server::start(Options::default(), |net, id, input| {
        net.send(id, &input[..1]);
        net.pause(id);
        1
    });
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"abc").unwrap();
    for expected in [b"a", b"b", b"c"] {
        assert_eq!(&read_exactly(&mut stream, 1), expected);
        assert_eq!(server.ask(move |net| net.queued(id)), server.ask(move |net| net.accepted(id)));
        server.ask(move |net| net.resume(id));
    }
    stream.write_all(b"d").unwrap();
    assert_eq!(read_exactly(&mut stream, 1), b"d");
}

#[test]
fn output_waits_until_it_is_released() {
    let options = Options { flushes: false, ..Options::default() };
    let server = Server::start(options, crate::net_support::echo);
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"abcdef").unwrap();
    while server.ask(move |net| net.queued(id)) != Some(6) {}
    assert_eq!(server.ask(move |net| net.accepted(id)), Some(0));
    server.ask(move |net| net.flush_to(id, 2));
    assert_eq!(read_exactly(&mut stream, 2), b"ab");
    server.ask(move |net| net.finish(id));
    assert_eq!(server.ask(move |net| net.accepted(id)), Some(2), "finishing releases nothing");
    server.ask(move |net| net.flush_to(id, 4));
    assert_eq!(read_exactly(&mut stream, 2), b"cd");
    server.ask(move |net| net.flush(id));
    assert_eq!(read_all(&mut stream), b"ef");
    assert_eq!(server.wait_closed(id).accepted, 6);
}

#[test]
fn unreleased_output_of_an_aborted_connection_counts_as_not_sent() {
    let options = Options { flushes: false, ..Options::default() };
    let server = Server::start(options, crate::net_support::echo);
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"abcdef").unwrap();
    while server.ask(move |net| net.queued(id)) != Some(6) {}
    server.ask(move |net| {
        net.flush_to(id, 3);
        net.abort(id);
    });
    let closed = server.wait_closed(id);
    assert_eq!((closed.accepted, closed.reason), (3, Reason::Aborted));
    assert_eq!(server.ask(move |net| net.queued(id)), None);
    server.ask(move |net| net.send(id, b"to nobody"));
}

#[test]
fn the_last_answer_survives_unread_input() {
    // A service that refuses what it reads, while the peer goes on sending: closing at once would
    // reset the connection, and the reset would overtake the answer.
    let server = Server::start(Options::default(), |net, id, input| {
        net.send(id, b"refused");
        net.finish(id);
        input.len()
    });
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"x").unwrap();
    server.wait_closed(id);
    for _ in 0..100 {
        stream.write_all(&[b'x'; 4096]).unwrap();
    }
    assert_eq!(read_all(&mut stream), b"refused");
}

#[test]
fn a_slow_reader_is_not_read_from_and_catches_up() {
    let server = Server::echo();
    let (mut stream, id) = server.connect_seen();
    let mut writing = stream.try_clone().unwrap();
    const PIECES: usize = 2048;
    let writer = std::thread::spawn(move || {
        for number in 0..PIECES {
            writing.write_all(&[number as u8; 8192]).unwrap();
        }
    });
    server.wait(|seen| matches!(seen, Seen::Congested(_, true)).then_some(()));
    let unsent = server.ask(move |net| net.queued(id).unwrap() - net.accepted(id).unwrap());
    assert!(unsent < (1 << 20) + 2 * (64 << 10), "{unsent} bytes were kept for a slow reader");
    for number in 0..PIECES {
        assert_eq!(read_exactly(&mut stream, 8192), [number as u8; 8192]);
    }
    writer.join().unwrap();
    server.wait(|seen| matches!(seen, Seen::Congested(_, false)).then_some(()));
    assert_eq!(exchange(&mut stream, b"still here"), b"still here");
}

#[test]
fn a_reader_that_takes_nothing_is_closed_in_time() {
    let limits = Limits { stuck: Duration::from_millis(200), ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }, |net, id, input| {
        net.output(id).resize(16 << 20, b'x');
        input.len()
    });
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"more than you can take").unwrap();
    let closed = server.wait_closed(id);
    assert_eq!(closed.reason, Reason::Stuck);
    assert!(closed.accepted < 16 << 20);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() as u64 <= closed.accepted);
}

#[test]
fn a_deadline_ends_a_silent_connection_and_can_be_lifted() {
    let server = Server::echo();
    let (mut silent, silent_id) = server.connect_seen();
    let (mut busy, busy_id) = server.connect_seen();
    server.ask(move |net| {
        let soon = net.now() + Duration::from_millis(100);
        net.set_deadline(silent_id, Some(soon));
        net.set_deadline(busy_id, Some(soon));
        net.set_deadline(busy_id, None);
    });
    assert_eq!(read_all(&mut silent), b"");
    assert_eq!(server.wait_closed(silent_id).reason, Reason::Aborted);
    assert_eq!(exchange(&mut busy, b"alive"), b"alive");
}

#[test]
fn input_beyond_the_limit_ends_the_connection() {
    let limits = Limits { input: 100_000, ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }, |_, _, _| 0);
    let (mut stream, id) = server.connect_seen();
    let _ = stream.write_all(&vec![b'x'; 1 << 20]);
    assert_eq!(server.wait_closed(id).reason, Reason::TooMuchInput);
}

#[test]
fn a_flood_does_not_keep_others_waiting() {
    let server = Server::start(Options::default(), |net, id, input| {
        if input.first() != Some(&b'x') {
            net.send(id, input);
        }
        input.len()
    });
    let mut flood = server.connect();
    let flooding = std::thread::spawn(move || {
        let block = vec![b'x'; 1 << 20];
        while flood.write_all(&block).is_ok() {}
    });
    let mut stream = server.connect();
    for _ in 0..50 {
        assert_eq!(exchange(&mut stream, b"ping"), b"ping");
    }
    drop(stream);
    drop(server);
    flooding.join().unwrap();
}

/// What buffers have together is counted, and given back, whatever becomes of a connection.
#[test]
fn the_bytes_of_all_buffers_are_known_exactly() {
    let buffers = Budget::new(1 << 30);
    let limits = Limits { buffers: buffers.clone(), ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }, echo_lines);
    let settles = |what: &str, is_so: &dyn Fn(usize) -> bool| {
        let limit = std::time::Instant::now() + LONG;
        while !is_so(buffers.used()) {
            assert!(std::time::Instant::now() < limit, "{what}: {}", buffers.used());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut idle = server.connect();
    assert_eq!(exchange(&mut idle, b"hello\n"), b"hello\n");
    settles("an idle connection has none", &|used| used == 0);
    let mut half = server.connect();
    half.write_all(&[b'x'; 300_000]).unwrap();
    settles("half a line", &|used| (300_000..1_000_000).contains(&used));
    let mut unread = server.connect();
    let mut line = vec![b'x'; 800_000];
    line.push(b'\n');
    let mut writing = unread.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..20 {
            writing.write_all(&line).unwrap();
        }
    });
    settles("lines that are not read", &|used| used > 1_000_000);
    let mut rest = vec![0; 20 * 800_001];
    unread.read_exact(&mut rest).unwrap();
    writer.join().unwrap();
    settles("they were read", &|used| used < 1_000_000);
    half.write_all(b"\n").unwrap();
    read_exactly(&mut half, 300_001);
    settles("the line has ended, and was read", &|used| used == 0);
    half.write_all(&[b'x'; 300_000]).unwrap();
    settles("half a line", &|used| used > 0);
    drop(half);
    settles("its connection is gone", &|used| used == 0);
}

/// Above the budget those that do not move go; a client that asks little is served throughout.
#[test]
fn connections_that_do_not_move_make_room_for_others() {
    let buffers = Budget::new(4 << 20);
    let limits = Limits { buffers: buffers.clone(), ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }, echo_lines);
    let mut modest = server.connect();
    let crowd: Vec<_> = (0..40)
        .map(|_| {
            let (mut stream, id) = server.connect_seen();
            stream.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
            // What is not read any more is not sent.
            let _ = stream.write_all(&[b'x'; 500_000]);
            assert_eq!(exchange(&mut modest, b"hello\n"), b"hello\n");
            (stream, id)
        })
        .collect();
    let gone = server.wait(|seen| match seen {
        Seen::Closed(id, closed) => Some((*id, closed.reason)),
        _ => None,
    });
    assert_eq!(gone.1, Reason::NoBuffers);
    assert!(crowd.iter().any(|(_, id)| *id == gone.0));
    assert!(buffers.used() < 5 << 20, "{}", buffers.used());
    assert_eq!(exchange(&mut modest, b"hello\n"), b"hello\n");
}
