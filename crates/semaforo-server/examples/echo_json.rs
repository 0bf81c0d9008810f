//! Sends JSON objects back, however they arrive: each as the payload of an answer on a line of its
//! own, as `semaforo serve` answers `ECHO`.
//!
//! `echo_json --listen 127.0.0.1:13008` serves until SIGINT or SIGTERM; without arguments it serves
//! a client of its own and ends.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use semaforo_protocol::wire::{self, Request, Scan, Scanner};
use semaforo_server::net::{self, ConnectionId, Connections, Limits, Peer, Service, limits};

/// How far each connection was looked at, by its index.
#[derive(Debug, Default)]
pub struct Echo {
    scanners: Vec<Scanner>,
}

impl Service for Echo {
    fn opened(&mut self, net: &mut Connections, id: ConnectionId, _: Peer) {
        if self.scanners.len() <= id.index() {
            self.scanners.resize_with(id.index() + 1, Scanner::new);
        }
        self.scanners[id.index()] = Scanner::new();
        net.set_deadline(id, Some(net.now() + limits::FIRST_REQUEST));
    }

    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        let scanner = &mut self.scanners[id.index()];
        let mut rest = input;
        while net.wants_input(id) {
            match scanner.scan(rest, &wire::Limits::default()) {
                Ok(Scan::Frame { start, end }) => {
                    net.set_deadline(id, None);
                    let object = &rest[start..end];
                    let request = Request::parse(object).ok();
                    let name = request.as_ref().and_then(|request| request.headers.get("id"));
                    wire::write_answer(net.output(id), 200, name, [], Some(object));
                    rest = &rest[end..];
                }
                Ok(Scan::Incomplete) => {
                    rest = &rest[scanner.take_blank()..];
                    break;
                }
                Err(error) => {
                    let reason = serde_json::json!({ "error": error.to_string() }).to_string();
                    let output = net.output(id);
                    wire::write_answer(output, error.status(), None, [], Some(reason.as_bytes()));
                    net.finish(id);
                    return input.len();
                }
            }
        }
        input.len() - rest.len()
    }

    fn signalled(&mut self, net: &mut Connections, _: i32) {
        net.stop(limits::DRAIN);
    }

    fn woken(&mut self, net: &mut Connections) {
        net.stop(limits::DRAIN);
    }
}

/// The connections behind a listening socket.
pub fn connections(socket: TcpListener) -> io::Result<Connections> {
    println!("listening on {}", socket.local_addr()?);
    let mut net = Connections::new(Limits::default())?;
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
            Ok(net.run(&mut Echo::default())?)
        }
        [] => demonstrate(),
        _ => Err("usage: echo_json [--listen ADDRESS]".into()),
    }
}

/// Objects without a separator, cut in the middle, and one that is wrong.
fn demonstrate() -> Result<(), Box<dyn std::error::Error>> {
    let socket = net::bind("127.0.0.1:0".parse()?)?;
    let mut stream = TcpStream::connect(socket.local_addr()?)?;
    let mut net = connections(socket)?;
    let waker = net.waker();
    let server = std::thread::spawn(move || net.run(&mut Echo::default()));
    for piece in [r#"{"n":1}{"n":"#, r#"2} {"text":"{\"n\":3}"}"#, r#"{"n":4]"#] {
        stream.write_all(piece.as_bytes())?;
    }
    stream.shutdown(Shutdown::Write)?;
    for line in BufReader::new(stream).lines() {
        println!("{}", line?);
    }
    waker.wake();
    Ok(server.join().map_err(|_| "the server panicked")??)
}
