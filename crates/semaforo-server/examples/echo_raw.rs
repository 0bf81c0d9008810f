//! Answers one request of each connection in upper case, after a service time of 50 to 499 ms, and
//! closes it; at most twenty clients have a place at a time, and further ones wait for one. Says
//! what it reads, what it answers, and how long that took.
//!
//! `echo_raw --listen 127.0.0.1:13007` serves until SIGINT or SIGTERM, and then those clients that
//! are connected already (`echo_raw_client` is a client for it); without arguments it serves a few
//! clients of its own and ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use semaforo_server::net::{self, ConnectionId, Connections, Limits, Peer, Service, limits};

/// A request is not longer than this; what follows is not looked at.
const LONGEST: usize = 1024;

/// A request that is being worked on. The order is that of the ends.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    end: Instant,
    begin: Instant,
    id: ConnectionId,
    answer: Vec<u8>,
}

/// What is being worked on, and where requests and answers are written down.
#[derive(Debug)]
pub struct Shout<L> {
    work: BinaryHeap<Reverse<Work>>,
    log: L,
    /// When clients that have sent nothing are not waited for any more.
    stop_at: Option<Instant>,
}

impl<L: Write> Shout<L> {
    /// Nothing to do yet.
    pub fn new(log: L) -> Self {
        Self { work: BinaryHeap::new(), log, stop_at: None }
    }
}

impl<L: Write> Service for Shout<L> {
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, _: Peer) {
        net.set_deadline(id, Some(net.now() + limits::FIRST_REQUEST));
    }

    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        let request = &input[..input.len().min(LONGEST)];
        // Serving does not depend on whether the log can be written.
        let _ = writeln!(self.log, "-->[{}]", request.escape_ascii());
        let begin = Instant::now();
        let random = getrandom::u32().unwrap_or(0);
        let end = begin + Duration::from_millis(u64::from(50 + random % 450));
        self.work.push(Reverse(Work { end, begin, id, answer: request.to_ascii_uppercase() }));
        net.set_deadline(id, None);
        net.pause(id); // There is one request only; what comes after it is not read.
        input.len()
    }

    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        while let Some(work) = self.work.peek_mut()
            && work.0.end <= now
        {
            let Reverse(Work { begin, id, answer, .. }) = PeekMut::pop(work);
            let time = begin.elapsed().as_millis();
            let _ = writeln!(self.log, "<--[{}({time} ms)]", answer.escape_ascii());
            net.send(id, &answer);
            net.flush(id);
            net.finish(id);
        }
        let next = self.work.peek().map(|work| work.0.end);
        let Some(stop_at) = self.stop_at else { return next };
        let all_served = !net.is_accepting() && net.open().next().is_none();
        if all_served || (stop_at <= now && next.is_none()) {
            net.stop(limits::DRAIN);
            return None;
        }
        next.or(Some(stop_at))
    }

    fn signalled(&mut self, net: &mut Connections, _: i32) {
        self.woken(net);
    }

    fn woken(&mut self, net: &mut Connections) {
        net.stop_accepting(limits::DRAIN);
        self.stop_at.get_or_insert(net.now() + limits::DRAIN);
    }
}

/// Sends a request, and reads until the server closes the connection.
pub fn ask(server: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(request.as_bytes())?;
    io::read_to_string(&mut stream)
}

/// So many clients at once; each says what it was answered, and when.
pub fn ask_all(server: SocketAddr, clients: usize, request: &str) -> io::Result<()> {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let ask = |number| {
            let answer = ask(server, &format!("{request} {number}"))?;
            println!("{answer:?} after {} ms", begin.elapsed().as_millis());
            Ok(())
        };
        let threads: Vec<_> =
            (1..=clients).map(|number| scope.spawn(move || ask(number))).collect();
        let panicked = |_| io::Error::other("a client panicked");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
    })
}

/// Twenty places behind a listening socket.
pub fn connections(socket: TcpListener) -> io::Result<Connections> {
    println!("listening on {}", socket.local_addr()?);
    let mut net = Connections::new(Limits { connections: 20, ..Limits::default() })?;
    net.listen(socket, None)?;
    Ok(net)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--listen", address] => {
            let mut net = connections(net::bind(address.parse()?)?)?;
            net.watch_signal(signal_hook::consts::SIGINT)?;
            net.watch_signal(signal_hook::consts::SIGTERM)?;
            Ok(net.run(&mut Shout::new(io::stdout()))?)
        }
        [] => demonstrate(),
        _ => Err("usage: echo_raw [--listen ADDRESS]".into()),
    }
}

/// Twenty-five clients at once share the twenty places.
pub fn demonstrate() -> Result<(), Box<dyn std::error::Error>> {
    let socket = net::bind("127.0.0.1:0".parse()?)?;
    let address = socket.local_addr()?;
    let mut net = connections(socket)?;
    let waker = net.waker();
    let server = std::thread::spawn(move || net.run(&mut Shout::new(io::stdout())));
    let asked = ask_all(address, 25, "client");
    waker.wake();
    server.join().map_err(|_| "the server panicked")??;
    Ok(asked?)
}
