//! The load generator: all clients of a contestant in one thread, on one poll.
//!
//! Per turn it asks the system which connections are ready, reads each once, and writes to each
//! once; a thread per client would measure the scheduler. The code is the same for every
//! contestant, so that on a machine whose cores both sides share it costs each of them the same.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use rustls::ClientConfig;

use super::dialects::{Dialect, Refusal, Seen, Step};
use super::stream::Stream;

/// As much as is read at once; all that is there, unless it is being flooded.
const BUFFER: usize = 64 * 1024;
const MOST_EVENTS: usize = 1024;

/// A server that says nothing for so long, with requests to answer, hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a load could not go on.
#[derive(Debug)]
pub(super) struct Failure(pub(super) String);

impl From<Refusal> for Failure {
    fn from(Refusal(text): Refusal) -> Failure {
        Failure(text)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

pub(super) struct Load<D> {
    poll: Poll,
    events: Events,
    buffer: Box<[u8]>,
    address: SocketAddr,
    encrypted: Option<Arc<ClientConfig>>,
    connections: Vec<Connection<D>>,
}

impl<D: Dialect> Load<D> {
    pub(super) fn new(address: SocketAddr) -> Result<Load<D>, Failure> {
        Ok(Load {
            poll: Poll::new()?,
            events: Events::with_capacity(MOST_EVENTS),
            buffer: vec![0; BUFFER].into(),
            address,
            encrypted: None,
            connections: Vec::new(),
        })
    }

    /// With connections that are encrypted, if there is a configuration for that.
    pub(super) fn encrypted(self, encrypted: Option<Arc<ClientConfig>>) -> Load<D> {
        Load { encrypted, ..self }
    }

    /// One connection for each of these.
    pub(super) fn connect(&mut self, dialects: impl IntoIterator<Item = D>) -> Result<(), Failure> {
        for dialect in dialects {
            let stream = Stream::connect(self.address, self.encrypted.as_ref())?;
            let mut connection = Connection::new(stream, dialect);
            let token = Token(self.connections.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut connection.stream.socket, token, interest)?;
            connection.flush()?;
            self.connections.push(connection);
        }
        Ok(())
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// How many requests of this connection are not answered yet.
    pub(super) fn outstanding(&self, who: usize) -> usize {
        self.connections[who].expected.len()
    }

    /// Sends so many requests at once.
    pub(super) fn send(&mut self, who: usize, step: Step, times: usize) -> Result<(), Failure> {
        let connection = &mut self.connections[who];
        (0..times).for_each(|_| connection.ask(step));
        connection.flush()
    }

    /// Waits until something has arrived, and handles all that has. `answered` learns who got the
    /// answer to what, and says what to send next.
    pub(super) fn turn(
        &mut self,
        mut answered: impl FnMut(usize, Step) -> Option<Step>,
    ) -> Result<(), Failure> {
        match self.poll.poll(&mut self.events, Some(PATIENCE)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            otherwise => otherwise?,
        }
        if self.events.is_empty() {
            return Err(Failure(format!("no answer within {} s", PATIENCE.as_secs())));
        }
        for event in &self.events {
            let who = event.token().0;
            let connection = &mut self.connections[who];
            connection.ready(event, &mut self.buffer, |step| answered(who, step))?;
        }
        Ok(())
    }

    /// Goes on until this connection has all its answers.
    pub(super) fn settle(&mut self, who: usize) -> Result<(), Failure> {
        while self.outstanding(who) > 0 {
            self.turn(|_, _| None)?;
        }
        Ok(())
    }

    /// A request and its answer.
    pub(super) fn ask(&mut self, who: usize, step: Step) -> Result<(), Failure> {
        self.send(who, step, 1)?;
        self.settle(who)
    }

    /// Everybody asks the same once, and has the answer.
    pub(super) fn all_ask(&mut self, step: Step) -> Result<(), Failure> {
        let everybody = 0..self.connections();
        for who in everybody.clone() {
            self.send(who, step, 1)?;
        }
        everybody.into_iter().try_for_each(|who| self.settle(who))
    }
}

struct Connection<D> {
    stream: Stream,
    dialect: D,
    /// What was asked and is not answered, the oldest first.
    expected: VecDeque<Step>,
    /// The beginning of an answer that has not arrived as a whole.
    input: Vec<u8>,
    output: Vec<u8>,
    /// How much of the output the system has taken.
    written: usize,
}

impl<D: Dialect> Connection<D> {
    fn new(stream: Stream, mut dialect: D) -> Connection<D> {
        let mut output = Vec::new();
        dialect.greet(&mut output);
        let (expected, input) = (VecDeque::new(), Vec::new());
        Connection { stream, dialect, expected, input, output, written: 0 }
    }

    fn ask(&mut self, step: Step) {
        self.dialect.request(step, &mut self.output);
        self.expected.push_back(step);
    }

    fn ready(
        &mut self,
        event: &Event,
        buffer: &mut [u8],
        mut answered: impl FnMut(Step) -> Option<Step>,
    ) -> Result<(), Failure> {
        while event.is_readable() {
            match self.stream.read(buffer) {
                Ok(0) => return Err(Failure("the connection was closed".into())),
                Ok(length) => {
                    self.receive(&buffer[..length], &mut answered)?;
                    // Less than there was room for: what comes later is announced again.
                    if length < buffer.len() && self.stream.ends_short() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.flush()
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        answered: &mut impl FnMut(Step) -> Option<Step>,
    ) -> Result<(), Failure> {
        if self.input.is_empty() {
            let consumed = self.consume(bytes, answered)?;
            self.input.extend(&bytes[consumed..]);
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend(bytes);
            let consumed = self.consume(&input, answered)?;
            input.drain(..consumed);
            self.input = input;
        }
        Ok(())
    }

    fn consume(
        &mut self,
        input: &[u8],
        answered: &mut impl FnMut(Step) -> Option<Step>,
    ) -> Result<usize, Failure> {
        let mut consumed = 0;
        while consumed < input.len() {
            let step = self.expected.front().copied();
            match self.dialect.answer(step, &input[consumed..], &mut self.output)? {
                Seen::Incomplete => break,
                Seen::Aside(length) => consumed += length,
                Seen::Answer(length) => {
                    consumed += length;
                    let step = self.expected.pop_front();
                    let step = step.ok_or_else(|| Failure("nobody asked".into()))?;
                    if let Some(next) = answered(step) {
                        self.ask(next);
                    }
                }
            }
        }
        Ok(consumed)
    }

    /// Hands over as much as the system takes; the rest when it says that it can take more.
    fn flush(&mut self) -> Result<(), Failure> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.written = 0;
        match self.stream.push() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// How long until the first answer, from `begin` on. Refused connections and refusals (a server
/// that is loading) are part of starting; an end is not.
pub(super) fn first_answer<D: Dialect>(
    address: SocketAddr,
    encrypted: Option<&Arc<ClientConfig>>,
    begin: Instant,
    dialect: impl Fn() -> D,
    mut ended: impl FnMut() -> bool,
) -> Result<Duration, Failure> {
    const BETWEEN_ATTEMPTS: Duration = Duration::from_micros(200);
    loop {
        let answer = Load::new(address).and_then(|load| {
            let mut load = load.encrypted(encrypted.cloned());
            load.connect([dialect()])?;
            load.ask(0, Step::Ping)
        });
        let took = begin.elapsed();
        match answer {
            Ok(()) => return Ok(took),
            Err(failure) if took > PATIENCE || ended() => return Err(failure),
            Err(_) => std::thread::sleep(BETWEEN_ATTEMPTS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialects::Echo;
    use super::super::process::free_address;
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// Sends back what arrives on its first connection, in pieces of one byte.
    fn piecemeal(address: SocketAddr) -> thread::JoinHandle<io::Result<()>> {
        let listener = TcpListener::bind(address).expect("the address is free");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut byte = [0];
            while stream.read(&mut byte)? > 0 {
                stream.write_all(&byte)?;
            }
            Ok(())
        })
    }

    #[test]
    fn every_request_is_answered_once() {
        let address = free_address().expect("there is a free port");
        let server = piecemeal(address);
        let mut load = Load::new(address).expect("a poll");
        load.connect([Echo]).expect("a connection");
        load.send(0, Step::Ping, 3).expect("three requests");
        let mut answers = 0;
        while load.outstanding(0) > 0 {
            let again = |_, step| {
                answers += 1;
                (answers <= 2).then_some(step)
            };
            load.turn(again).expect("answers");
        }
        assert_eq!(answers, 5);
        drop(load);
        server.join().expect("the server does not panic").expect("nor fail");
    }

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        let address = free_address().expect("there is a free port");
        let answer = first_answer(address, None, Instant::now(), || Echo, || true);
        assert!(answer.is_err());
    }
}
