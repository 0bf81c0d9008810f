//! A loop on its own thread, with a service that tells the test what it sees.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use semaforo_server::net::{
    self, Closed, ConnectionId, Connections, Limits, Peer, Service, Waker, limits,
};

/// Long enough for a busy machine: only a failing test waits for it.
pub const LONG: Duration = Duration::from_secs(20);

/// What the service was told.
#[derive(Debug)]
pub enum Seen {
    Opened(ConnectionId),
    Ended(ConnectionId),
    Congested(ConnectionId, bool),
    TimedOut(ConnectionId),
    Closed(ConnectionId, Closed),
    AcceptFailed,
}

type Task = Box<dyn FnOnce(&mut Connections) + Send>;
type Received = Box<dyn FnMut(&mut Connections, ConnectionId, &[u8]) -> usize + Send>;

struct Recorder {
    received: Received,
    /// Flushes at the end of a turn, as a service without a journal does.
    flushes: bool,
    tasks: Receiver<Task>,
    seen: Sender<Seen>,
}

impl Recorder {
    fn tell(&self, seen: Seen) {
        // The test may have seen enough.
        let _ = self.seen.send(seen);
    }
}

impl Service for Recorder {
    fn opened(&mut self, _: &mut Connections, id: ConnectionId, _: Peer) {
        self.tell(Seen::Opened(id));
    }
    fn received(&mut self, net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
        (self.received)(net, id, input)
    }
    fn ended(&mut self, _: &mut Connections, id: ConnectionId) {
        self.tell(Seen::Ended(id));
    }
    fn congested(&mut self, _: &mut Connections, id: ConnectionId, congested: bool) {
        self.tell(Seen::Congested(id, congested));
    }
    fn timed_out(&mut self, net: &mut Connections, id: ConnectionId) {
        self.tell(Seen::TimedOut(id));
        net.abort(id);
    }
    fn closed(&mut self, _: &mut Connections, id: ConnectionId, closed: Closed) {
        self.tell(Seen::Closed(id, closed));
    }
    fn woken(&mut self, net: &mut Connections) {
        while let Ok(task) = self.tasks.try_recv() {
            task(net);
        }
    }
    fn accept_failed(&mut self, _: &mut Connections, _: &std::io::Error) {
        self.tell(Seen::AcceptFailed);
    }
    fn turn_ends(&mut self, net: &mut Connections, _: Instant) -> Option<Instant> {
        if self.flushes {
            net.flush_all();
        }
        None
    }
}

pub struct Server {
    pub address: SocketAddr,
    waker: Waker,
    tasks: Sender<Task>,
    seen: Receiver<Seen>,
    thread: Option<JoinHandle<()>>,
}

pub struct Options {
    pub limits: Limits,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub flushes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), tls: None, flushes: true }
    }
}

impl Server {
    pub fn echo() -> Self {
        Self::start(Options::default(), echo)
    }

    pub fn start(
        options: Options,
        received: impl FnMut(&mut Connections, ConnectionId, &[u8]) -> usize + Send + 'static,
    ) -> Self {
        let mut net = Connections::new(options.limits).unwrap();
        let socket = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        net.listen(socket, options.tls).unwrap();
        let waker = net.waker();
        let (tasks, receive_tasks) = channel();
        let (send_seen, seen) = channel();
        let mut service = Recorder {
            received: Box::new(received),
            flushes: options.flushes,
            tasks: receive_tasks,
            seen: send_seen,
        };
        let thread = std::thread::spawn(move || net.run(&mut service).unwrap());
        Self { address, waker, tasks, seen, thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Connects, and says what the loop calls that connection.
    pub fn connect_seen(&self) -> (TcpStream, ConnectionId) {
        let stream = self.connect();
        let id = self.wait(|seen| match seen {
            Seen::Opened(id) => Some(*id),
            _ => None,
        });
        (stream, id)
    }

    /// Runs something in the loop, and waits for what it answers.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connections) -> T + Send + 'static,
    ) -> T {
        let (send, receive) = channel();
        let task: Task = Box::new(move |net| send.send(question(net)).unwrap());
        self.tasks.send(task).unwrap();
        self.waker.wake();
        receive.recv_timeout(LONG).unwrap()
    }

    /// Waits until the service was told something that fits.
    pub fn wait<T>(&self, fits: impl Fn(&Seen) -> Option<T>) -> T {
        loop {
            let seen = self.seen.recv_timeout(LONG).expect("the service is told in time");
            if let Some(result) = fits(&seen) {
                return result;
            }
        }
    }

    pub fn wait_closed(&self, id: ConnectionId) -> Closed {
        self.wait(|seen| match seen {
            Seen::Closed(closed_id, closed) if *closed_id == id => Some(*closed),
            _ => None,
        })
    }

    /// What the service has been told and no test has asked for.
    pub fn seen_so_far(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop: Task = Box::new(|net| net.stop(limits::DRAIN));
        // It may have stopped already, because the test told it to.
        let _ = self.tasks.send(stop);
        self.waker.wake();
        let result = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            result.expect("the loop ends without a panic");
        }
    }
}

pub fn echo(net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
    net.send(id, input);
    input.len()
}

/// Echoes whole lines.
pub fn echo_lines(net: &mut Connections, id: ConnectionId, input: &[u8]) -> usize {
    let end = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    net.send(id, &input[..end]);
    end
}

pub fn read_exactly(stream: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Everything until the other end closes.
pub fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

pub fn exchange(stream: &mut (impl Read + Write), request: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    read_exactly(stream, request.len())
}
