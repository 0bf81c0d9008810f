//! HTTP on its own thread, in front of a backend that does what the test tells it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use semaforo_protocol::wire::{self, Request, Value};
use semaforo_server::net::{self, Connections, Waker};
use semaforo_server::server::http::{
    Answered, Backend, Busy, Health, Http, Metrics, Options, Submission, Ticket,
};

/// Long enough for a busy machine: only a failing test waits for it.
pub const LONG: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct State {
    pub submitted: Vec<(Ticket, Submission)>,
    pub cancelled: Vec<Ticket>,
    pub settled: Vec<(Ticket, bool)>,
    pub health: Option<Health>,
    pub busy: bool,
    answers: VecDeque<Answered>,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Echoes everything but methods `WAIT`, which wait for the test, and `CONFIRM`, whose fate is
/// asked for.
struct Fake {
    shared: Arc<Shared>,
    waker: Waker,
}

impl Backend for Fake {
    fn submit(&mut self, ticket: Ticket, request: Submission) -> Result<(), Busy> {
        let mut state = self.shared.state.lock().unwrap();
        if state.busy {
            return Err(Busy);
        }
        let parsed = Request::parse(request.frame.trim_ascii()).unwrap();
        if parsed.method != "WAIT" {
            let mut frame = Vec::new();
            let id = parsed.headers.get("id");
            let fence = [("fence", Value::Number(12))];
            wire::write_answer(&mut frame, 200, id, fence, Some(parsed.raw));
            let confirm = parsed.method == "CONFIRM";
            state.answers.push_back(Answered { ticket, frame, confirm, known: true });
            self.waker.wake();
        }
        state.submitted.push((ticket, request));
        self.shared.changed.notify_all();
        Ok(())
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.shared.state.lock().unwrap().cancelled.push(ticket);
        self.shared.changed.notify_all();
    }

    fn next_answer(&mut self) -> Option<Answered> {
        self.shared.state.lock().unwrap().answers.pop_front()
    }

    fn settled(&mut self, ticket: Ticket, accepted: bool) {
        self.shared.state.lock().unwrap().settled.push((ticket, accepted));
        self.shared.changed.notify_all();
    }

    fn health(&self) -> Health {
        self.shared.state.lock().unwrap().health.unwrap_or(Health::Ready)
    }

    fn is_stopping(&self) -> bool {
        self.shared.state.lock().unwrap().stopping
    }

    fn metrics(&mut self) -> Metrics {
        let mut metrics = Metrics::new();
        metrics.counter("semaforo_test_total", "A figure of the backend.").value(3.0);
        metrics
    }
}

pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(options: Options) -> Self {
        let mut net = Connections::new(options.connection_limits()).unwrap();
        let socket = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        net.listen(socket, None).unwrap();
        let (shared, waker) = (Arc::<Shared>::default(), net.waker());
        let fake = Fake { shared: Arc::clone(&shared), waker: waker.clone() };
        let mut http = Http::new(options, fake);
        let thread = Some(std::thread::spawn(move || net.run(&mut http).unwrap()));
        Self { address, shared, waker, thread }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Waits until the backend has seen something.
    pub fn wait<T>(&self, find: impl Fn(&State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(found) = find(&state) {
                return found;
            }
            let (guard, timeout) = self.shared.changed.wait_timeout(state, LONG).unwrap();
            assert!(!timeout.timed_out(), "the backend sees it in time");
            state = guard;
        }
    }

    /// Waits until so many requests were submitted, and names the last of them.
    pub fn wait_submitted(&self, count: usize) -> Ticket {
        self.wait(|state| Some(state.submitted.get(count - 1)?.0))
    }

    /// Answers a request that waits.
    pub fn answer(&self, ticket: Ticket, status: u16, payload: &str, confirm: bool) {
        let mut frame = Vec::new();
        let payload = Some(payload.as_bytes()).filter(|payload| !payload.is_empty());
        wire::write_answer(&mut frame, status, None, [], payload);
        self.state().answers.push_back(Answered { ticket, frame, confirm, known: true });
        self.waker.wake();
    }

    pub fn begin_stop(&self) {
        self.state().stopping = true;
        self.waker.wake();
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    /// One request on a connection of its own.
    pub fn request(&self, line: &str, body: &str) -> Response {
        let mut client = self.connect();
        client.send(line, body);
        client.response()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let waiting: Vec<Ticket> = self.state().submitted.iter().map(|(at, _)| *at).collect();
            for ticket in waiting {
                self.answer(ticket, 503, "", false);
            }
            self.begin_stop();
            self.thread.take().unwrap().join().expect("HTTP ends without a panic");
        }
    }
}

pub struct Client {
    pub reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub fn send(&mut self, line: &str, body: &str) {
        let body = if body.is_empty() {
            "\r\n".to_owned()
        } else {
            let length = body.len();
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        self.write(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{body}").as_bytes());
    }

    /// The next line, without its end; empty also at the end of the connection.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn response(&mut self) -> Response {
        let status = self.line();
        let status = status.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("'{status}'"));
        let status = status.split(' ').next().unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut response = Response { status, headers, body: String::new() };
        let length = response.header("Content-Length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        response.body = String::from_utf8(body).unwrap();
        response
    }

    pub fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0))
    }
}
