//! The two examples of the connection layer, spoken to over a socket.

#[allow(dead_code, unreachable_pub, reason = "its main function is not ours")]
#[path = "../../examples/echo_raw.rs"]
mod echo_raw;

#[allow(dead_code, unreachable_pub, reason = "its main function is not ours")]
#[path = "../../examples/echo_json.rs"]
mod echo_json;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::net_support::{LONG, read_all, read_exactly};
use semaforo_server::net::{self, Connections, Service, Waker};

struct Example {
    address: SocketAddr,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Example {
    fn start<S: Service + Send + 'static>(
        connections: impl FnOnce(TcpListener) -> std::io::Result<Connections>,
        mut service: S,
    ) -> Self {
        let socket = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let mut net = connections(socket).unwrap();
        let waker = net.waker();
        let thread = Some(std::thread::spawn(move || net.run(&mut service).unwrap()));
        Self { address, waker, thread }
    }

    fn raw() -> Self {
        Self::start(echo_raw::connections, echo_raw::Shout::default())
    }

    fn json() -> Self {
        Self::start(echo_json::connections, echo_json::Echo::default())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        String::from_utf8(read_all(&mut stream)).unwrap()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        self.waker.wake();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn raw_takes_its_time_and_shouts() {
    let example = Example::raw();
    let begun = Instant::now();
    assert_eq!(example.exchange(b"semaforo, 1!"), "SEMAFORO, 1!");
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn raw_serves_twenty_at_a_time_and_everyone_in_the_end() {
    let example = Example::raw();
    let mut inside: Vec<TcpStream> = (0..20).map(|_| example.connect()).collect();
    for stream in &mut inside {
        stream.write_all(b"in").unwrap();
    }
    for stream in &mut inside {
        assert_eq!(read_exactly(stream, 2), b"IN");
    }
    let mut outside = example.connect();
    outside.write_all(b"out").unwrap();
    outside.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
    outside.read(&mut [0; 3]).expect_err("there are only twenty places");
    outside.set_read_timeout(Some(LONG)).unwrap();
    inside.pop();
    assert_eq!(read_exactly(&mut outside, 3), b"OUT");
}

#[test]
fn raw_stops_after_what_it_has_begun() {
    let example = Example::raw();
    let mut stream = example.connect();
    stream.write_all(b"begun").unwrap();
    let mut other = example.connect();
    other.write_all(b"x").unwrap();
    assert_eq!(read_exactly(&mut other, 1), b"X", "by now the first one was read, too");
    drop(example);
    let rest = read_all(&mut stream);
    assert_eq!(rest, b"BEGUN");
}

#[test]
fn json_echoes_split_and_glued_objects() {
    let example = Example::json();
    let answers = example.exchange(br#"{"a":[1,2]}{"b":"}{"}   {"c":{"d":null}}"#);
    assert_eq!(answers, "{\"a\":[1,2]}\n{\"b\":\"}{\"}\n{\"c\":{\"d\":null}}\n");
    let mut stream = example.connect();
    stream.set_nodelay(true).unwrap();
    for byte in r#"{"a":"é"}{"#.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(read_exactly(&mut stream, 11), "{\"a\":\"é\"}\n".as_bytes());
}

#[test]
fn json_refuses_what_is_not_json_and_closes() {
    let example = Example::json();
    let answers = example.exchange(b"{\"a\":1} {]");
    let (first, second) = answers.split_once('\n').unwrap();
    assert_eq!(first, "{\"a\":1}");
    assert!(second.starts_with("{\"Status\":400,\"Payload\":{\"error\":"), "{second}");
}

#[test]
fn json_answers_a_reader_that_never_stops_sending() {
    let example = Example::json();
    let mut stream = example.connect();
    let mut writing = stream.try_clone().unwrap();
    let object = format!("{{\"text\":\"{}\"}}", "x".repeat(1000));
    let (count, length) = (5000, object.len());
    let writer = std::thread::spawn(move || {
        for _ in 0..count {
            writing.write_all(object.as_bytes()).unwrap();
        }
    });
    let echoed = read_exactly(&mut stream, count * (length + 1));
    writer.join().unwrap();
    assert_eq!(echoed.iter().filter(|byte| **byte == b'\n').count(), count);
}
