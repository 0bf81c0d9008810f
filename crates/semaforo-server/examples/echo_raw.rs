//! Sends back in upper case what it reads, after a service time of 50 to 500 ms, to at most twenty
//! clients at a time. Further ones wait until one leaves.
//!
//! `echo_raw --listen 127.0.0.1:13007` serves until SIGINT or SIGTERM; without arguments it serves
//! a few clients of its own and ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use semaforo_server::net::{self, ConnectionId, Connections, Limits, Service, limits};

/// What is being worked on, and when it is done.
#[derive(Debug, Default)]
pub struct Shout {
    work: BinaryHeap<Reverse<(Instant, ConnectionId, Vec<u8>)>>,
    stopping: bool,
}

impl Service for Shout {
    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        let random = getrandom::u32().unwrap_or(0);
        let service_time = Duration::from_millis(u64::from(50 + random % 451));
        self.work.push(Reverse((net.now() + service_time, id, input.to_ascii_uppercase())));
        net.pause(id); // One piece of work at a time; TCP holds the rest back.
        input.len()
    }

    fn turn_ends(&mut self, net: &mut Connections, now: Instant) -> Option<Instant> {
        while let Some(work) = self.work.peek_mut()
            && work.0.0 <= now
        {
            let Reverse((_, id, output)) = PeekMut::pop(work);
            net.send(id, &output);
            net.resume(id);
        }
        net.flush_all();
        if self.stopping && self.work.is_empty() {
            net.stop(limits::DRAIN);
        }
        self.work.peek().map(|work| work.0.0)
    }

    fn signalled(&mut self, net: &mut Connections, _: i32) {
        self.woken(net);
    }

    fn woken(&mut self, net: &mut Connections) {
        net.stop_accepting();
        self.stopping = true;
    }
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
            Ok(net.run(&mut Shout::default())?)
        }
        [] => demonstrate(),
        _ => Err("usage: echo_raw [--listen ADDRESS]".into()),
    }
}

/// Thirty clients at once share the twenty places.
fn demonstrate() -> Result<(), Box<dyn std::error::Error>> {
    let socket = net::bind("127.0.0.1:0".parse()?)?;
    let address = socket.local_addr()?;
    let mut net = connections(socket)?;
    let waker = net.waker();
    let server = std::thread::spawn(move || net.run(&mut Shout::default()));
    let begun = Instant::now();
    let clients: Vec<_> = (0..30)
        .map(|number| {
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address)?;
                write!(stream, "client {number}")?;
                stream.shutdown(Shutdown::Write)?;
                io::read_to_string(&mut stream)
            })
        })
        .collect();
    for client in clients {
        let answer = client.join().map_err(|_| "a client panicked")??;
        println!("{answer} after at most {} ms", begun.elapsed().as_millis());
    }
    waker.wake();
    Ok(server.join().map_err(|_| "the server panicked")??)
}
