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
use semaforo_server::net::{self, Connections, Limits, Service, Waker};

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
        Self::start(echo_raw::connections, echo_raw::Shout::new(std::io::sink()))
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

/// As the client of the literature does: one request, and then all until the end of the stream.
#[test]
fn raw_closes_after_one_answer_so_that_all_finish_at_twenty_places() {
    let example = Example::raw();
    let mut clients: Vec<TcpStream> = (0..25).map(|_| example.connect()).collect();
    for (number, stream) in clients.iter_mut().enumerate() {
        stream.write_all(format!("client {number}").as_bytes()).unwrap();
    }
    for (number, stream) in clients.iter_mut().enumerate() {
        assert_eq!(read_all(stream), format!("CLIENT {number}").as_bytes());
    }
}

#[test]
fn raw_serves_twenty_at_a_time() {
    let example = Example::raw();
    let mut inside: Vec<TcpStream> = (0..20).map(|_| example.connect()).collect();
    let mut outside = example.connect();
    outside.write_all(b"out").unwrap();
    outside.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
    outside.read(&mut [0; 3]).expect_err("there are only twenty places");
    outside.set_read_timeout(Some(LONG)).unwrap();
    inside.pop();
    assert_eq!(read_all(&mut outside), b"OUT");
}

#[test]
fn raw_stops_after_what_it_has_begun() {
    let example = Example::raw();
    let mut stream = example.connect();
    stream.write_all(b"begun").unwrap();
    assert_eq!(example.exchange(b"x"), "X", "by now the first one was read, too");
    drop(example);
    assert_eq!(read_all(&mut stream), b"BEGUN");
}

/// Twenty have places, and the others were accepted by the system only.
#[test]
fn raw_stops_after_serving_all_that_wait_for_a_place() {
    let example = Example::raw();
    let mut clients: Vec<TcpStream> = (0..30).map(|_| example.connect()).collect();
    for (number, stream) in clients.iter_mut().enumerate() {
        stream.write_all(format!("client {number}").as_bytes()).unwrap();
    }
    let address = example.address;
    drop(example);
    for (number, stream) in clients.iter_mut().enumerate() {
        assert_eq!(read_all(stream), format!("CLIENT {number}").as_bytes());
    }
    TcpStream::connect(address).expect_err("nothing listens any more");
}

#[test]
fn raw_says_what_it_reads_what_it_answers_and_how_long_it_took() {
    let (reader, writer) = std::io::pipe().unwrap();
    let example = Example::start(echo_raw::connections, echo_raw::Shout::new(writer));
    assert_eq!(example.exchange(b"one\n"), "ONE\n");
    drop(example);
    let log = std::io::read_to_string(reader).unwrap();
    let time = log.strip_prefix("-->[one\\n]\n<--[ONE\\n(").expect(&log);
    let time: u64 = time.strip_suffix(" ms)]\n").expect(&log).parse().unwrap();
    assert!(time >= 50, "{time} ms");
}

#[test]
fn json_stops_after_answering_all_that_wait_for_a_place() {
    let places = Limits { connections: 2, ..Limits::default() };
    let connections = |socket| {
        let mut net = Connections::new(places)?;
        net.listen(socket, None)?;
        Ok(net)
    };
    let example = Example::start(connections, echo_json::Echo::default());
    let mut inside: Vec<TcpStream> = (0..2).map(|_| example.connect()).collect();
    for stream in &mut inside {
        stream.write_all(b"{}").unwrap();
        assert_eq!(read_exactly(stream, answer("{}").len()), answer("{}").as_bytes());
    }
    let mut outside: Vec<TcpStream> = (0..10).map(|_| example.connect()).collect();
    for stream in &mut outside {
        stream.write_all(b"{}").unwrap();
    }
    drop(example);
    for stream in &mut outside {
        assert_eq!(read_all(stream), answer("{}").as_bytes());
    }
    for stream in &mut inside {
        assert_eq!(read_all(stream), b"");
    }
}

/// As `semaforo serve` answers ECHO.
fn answer(payload: &str) -> String {
    format!("{{\"Status\":200,\"Payload\":{payload}}}\n")
}

#[test]
fn json_answers_with_the_id_of_a_request() {
    let example = Example::json();
    let request = r#"{"Method":"ECHO","Path":"/","Headers":{"id":"7"},"Payload":[null]}"#;
    let expected =
        format!("{{\"Status\":200,\"Headers\":{{\"id\":\"7\"}},\"Payload\":{request}}}\n");
    assert_eq!(example.exchange(request.as_bytes()), expected);
}

#[test]
fn json_echoes_split_and_glued_objects() {
    let example = Example::json();
    let answers = example.exchange(br#"{"a":[1,2]}{"b":"}{"}   {"c":{"d":null}}"#);
    let payloads = [r#"{"a":[1,2]}"#, r#"{"b":"}{"}"#, r#"{"c":{"d":null}}"#];
    assert_eq!(answers, payloads.map(answer).concat());
    let mut stream = example.connect();
    stream.set_nodelay(true).unwrap();
    for byte in r#"{"a":"é"}{"#.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    let expected = answer(r#"{"a":"é"}"#);
    assert_eq!(read_exactly(&mut stream, expected.len()), expected.as_bytes());
}

#[test]
fn json_refuses_what_is_not_json_and_closes() {
    let example = Example::json();
    let answers = example.exchange(b"{\"a\":1} {]");
    let (first, second) = answers.split_once('\n').unwrap();
    assert_eq!(format!("{first}\n"), answer("{\"a\":1}"));
    assert!(second.starts_with("{\"Status\":400,\"Payload\":{\"error\":"), "{second}");
}

#[test]
fn json_answers_a_reader_that_never_stops_sending() {
    let example = Example::json();
    let mut stream = example.connect();
    let mut writing = stream.try_clone().unwrap();
    let object = format!("{{\"text\":\"{}\"}}", "x".repeat(1000));
    let (count, length) = (5000, answer(&object).len());
    let writer = std::thread::spawn(move || {
        for _ in 0..count {
            writing.write_all(object.as_bytes()).unwrap();
        }
    });
    let echoed = read_exactly(&mut stream, count * length);
    writer.join().unwrap();
    assert_eq!(echoed.iter().filter(|byte| **byte == b'\n').count(), count);
}
