//! The connection layer under random pieces, pauses, releases and resets: each connection gets
//! exactly what is theirs, in order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::net_support::LONG;
use semaforo_server::net::{
    self, Closed, ConnectionId, Connections, Limits, Peer, Reason, Service, limits,
};

/// A generator that is good enough to be unpredictable, and the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Echoes lines, in whatever portions the dice say; releases output up to wherever they say.
struct Whimsical {
    dice: Dice,
    open: Vec<ConnectionId>,
    paused: Vec<ConnectionId>,
    /// What was appended, by the index of the connection.
    appended: Vec<u64>,
    opened: usize,
    reset: usize,
}

impl Service for Whimsical {
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, _: Peer) {
        assert_eq!((net.queued(id), net.accepted(id)), (Some(0), Some(0)));
        self.opened += 1;
        self.open.push(id);
        self.appended.resize(self.appended.len().max(id.index() + 1), 0);
        self.appended[id.index()] = 0;
    }

    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        assert!(net.wants_input(id) && !input.is_empty());
        let mut consumed = 0;
        for line in input.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") || !net.wants_input(id) {
                break;
            }
            net.send(id, line);
            consumed += line.len();
            self.appended[id.index()] += line.len() as u64;
            assert_eq!(net.queued(id), Some(self.appended[id.index()]));
            if self.dice.roll(8) == 0 {
                net.pause(id);
                self.paused.push(id);
            }
        }
        consumed
    }

    fn closed(&mut self, net: &mut Connections, id: ConnectionId, closed: Closed) {
        assert!(closed.accepted <= self.appended[id.index()]);
        assert!(net.queued(id).is_none());
        match closed.reason {
            Reason::Finished => assert_eq!(closed.accepted, self.appended[id.index()]),
            Reason::Failed(_) => self.reset += 1,
            reason => panic!("{id} is gone: {reason}"),
        }
        self.open.retain(|open| *open != id);
    }

    fn woken(&mut self, net: &mut Connections) {
        net.stop(limits::DRAIN);
    }

    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        for id in std::mem::take(&mut self.paused) {
            if self.dice.roll(3) == 0 { net.resume(id) } else { self.paused.push(id) }
        }
        let mut unreleased = false;
        for &id in &self.open {
            if let (Some(queued), Some(accepted)) = (net.queued(id), net.accepted(id))
                && queued > accepted
            {
                unreleased = true;
                let offset = accepted + self.dice.roll(queued - accepted + 1);
                if self.dice.roll(2) == 0 { net.flush_to(id, offset) } else { net.flush(id) }
            }
        }
        (unreleased || !self.paused.is_empty()).then(|| now + Duration::from_millis(1))
    }
}

/// Sends lines in random pieces and reads in random pieces; perhaps gives up in the middle.
fn client(mut stream: TcpStream, seed: u64) {
    let mut dice = Dice(seed);
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut sent = Vec::new();
    for number in 0..100 {
        let filler = "x".repeat(dice.roll(if number % 20 == 0 { 50_000 } else { 200 }) as usize);
        sent.extend_from_slice(format!("{seed} {number} {filler}\n").as_bytes());
    }
    if seed.is_multiple_of(5) {
        // With the first line begun, or with some of the answers under way.
        let count = if seed.is_multiple_of(2) { 1000 } else { sent.len() / 2 };
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let _ = stream.write_all(&sent[..count.min(sent.len())]);
        let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
        return;
    }
    let mut writing = stream.try_clone().unwrap();
    let expected = sent.clone();
    let writer = std::thread::spawn(move || {
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((1 + dice.roll(3000) as usize).min(rest.len()));
            writing.write_all(piece).unwrap();
            rest = after;
        }
        writing.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writer.join().unwrap();
    assert!(received == expected, "client {seed} got {} bytes", received.len());
}

fn run(limits: Limits) {
    let socket: TcpListener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let mut net = Connections::new(limits).unwrap();
    net.listen(socket, None).unwrap();
    let waker = net.waker();
    let mut service = Whimsical {
        dice: Dice(0x5eed),
        open: Vec::new(),
        paused: Vec::new(),
        appended: Vec::new(),
        opened: 0,
        reset: 0,
    };
    let server = std::thread::spawn(move || {
        net.run(&mut service).unwrap();
        assert!(service.open.is_empty(), "every connection was closed");
        assert!(service.reset <= 6, "{} were reset", service.reset);
        service.opened
    });
    let clients: Vec<_> = (1..=30)
        .map(|seed| std::thread::spawn(move || client(TcpStream::connect(address).unwrap(), seed)))
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    waker.wake();
    // Those that gave up while they waited in the backlog may never have been accepted.
    assert!(server.join().unwrap() >= 24);
}

#[test]
fn everyone_gets_what_is_theirs() {
    run(Limits::default());
}

#[test]
fn everyone_gets_what_is_theirs_with_few_places_and_little_room() {
    run(Limits { connections: 4, output: 10_000, ..Limits::default() });
}
