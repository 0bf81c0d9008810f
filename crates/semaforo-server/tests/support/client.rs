//! A client that writes bytes and reads answers, with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;
use serde_json::{Map, Value};

use super::{LONG, until};

/// The bytes of a request: as it is if it begins with `{`; otherwise short for `METHOD PATH
/// header=value... | PAYLOAD`.
pub fn frame(text: &str) -> Vec<u8> {
    if text.starts_with('{') {
        return text.as_bytes().to_vec();
    }
    let (words, payload) = match text.split_once(" | ") {
        Some((words, payload)) => (words, Some(payload)),
        None => (text, None),
    };
    let mut words = words.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap_or_default());
    let headers: Map<_, _> = words
        .map(|word| word.split_once('=').expect("header=value"))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let mut text = format!("{{\"Method\":{},\"Path\":{}", Value::from(method), Value::from(path));
    if !headers.is_empty() {
        text += &format!(",\"Headers\":{}", Value::from(headers));
    }
    if let Some(payload) = payload {
        text += &format!(",\"Payload\":{payload}");
    }
    text.push('}');
    text.into_bytes()
}

/// An answer, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub status: u64,
    headers: Map<String, Value>,
}

impl Answer {
    fn new(text: &str) -> Self {
        // A payload may be a number that no Rust type can hold.
        let (head, payload) = match text.split_once(",\"Payload\":") {
            Some((head, payload)) => (format!("{head}}}"), payload.strip_suffix('}')),
            None => (text.to_owned(), None),
        };
        let value: Value = serde_json::from_str(&head).expect("an answer is JSON");
        let members = value.as_object().unwrap();
        for name in members.keys() {
            assert!(["Status", "Headers"].contains(&name.as_str()), "{text}");
        }
        let headers = match members.get("Headers") {
            Some(Value::Object(headers)) => headers.clone(),
            None => Map::new(),
            Some(_) => panic!("headers are an object: {text}"),
        };
        assert!(headers.values().all(Value::is_string), "header values are strings: {text}");
        let answer =
            Self { text: text.to_owned(), status: value["Status"].as_u64().unwrap(), headers };
        if !matches!(answer.status, 200 | 204) {
            let payload: Value =
                serde_json::from_str(payload.expect("an error has a payload")).unwrap();
            assert!(payload["error"].is_string(), "an error says what is wrong: {text}");
        }
        answer
    }

    /// The bytes of the payload.
    pub fn payload(&self) -> Option<&str> {
        let (_, rest) = self.text.split_once(",\"Payload\":")?;
        rest.strip_suffix('}')
    }

    pub fn value(&self) -> Value {
        serde_json::from_str(self.payload().expect("a payload")).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }

    pub fn number(&self, name: &str) -> u64 {
        let text = self.header(name).unwrap_or_else(|| panic!("no {name}: {}", self.text));
        text.parse().unwrap()
    }

    pub fn id(&self) -> Option<&str> {
        self.header("id")
    }

    pub fn fence(&self) -> u64 {
        self.number("fence")
    }

    /// The same, if it has this status.
    #[track_caller]
    pub fn is(self, status: u64) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self { stream, input: Vec::new() }
    }

    /// One with so small a receive buffer that a server soon notices that the client does not read.
    pub fn connect_narrow(address: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
        connect(&socket, &address).unwrap();
        Self::over(socket.into())
    }

    /// The same connection, for another thread to send on.
    pub fn twin(&self) -> Self {
        Self::over(self.stream.try_clone().unwrap())
    }

    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends a request, or several.
    pub fn send(&mut self, request: &str) {
        self.send_bytes(&frame(request));
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn ask(&mut self, request: &str) -> Answer {
        self.send(request);
        self.answer()
    }

    /// Asks, and expects 200.
    #[track_caller]
    pub fn done(&mut self, request: &str) -> Answer {
        self.ask(request).is(200)
    }

    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer before the end of the connection")
    }

    pub fn answers(&mut self, count: usize) -> Vec<Answer> {
        (0..count).map(|_| self.answer()).collect()
    }

    /// The next answer; none if the connection ended before it began.
    #[track_caller]
    pub fn try_answer(&mut self) -> Option<Answer> {
        let mut buffer = [0; 16 << 10];
        let mut scanned = Finder::default();
        loop {
            if let Some(end) = scanned.end(&self.input) {
                // The newline that follows every answer.
                if self.input.len() > end {
                    let rest = self.input.split_off(end + 1);
                    let answer = std::mem::replace(&mut self.input, rest);
                    assert_eq!(answer.last(), Some(&b'\n'), "a newline follows every answer");
                    let text = std::str::from_utf8(&answer[..end]).expect("an answer is UTF-8");
                    return Some(Answer::new(text));
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) if self.input.is_empty() => return None,
                Ok(0) => panic!("cut off after {:?}", String::from_utf8_lossy(&self.input)),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The next answer of a server that may have been killed while it wrote.
    pub fn try_whole_answer(&mut self) -> Option<Answer> {
        let mut bytes = self.rest();
        let end = Finder::default().end(&bytes).filter(|end| *end < bytes.len())?;
        self.input = bytes.split_off(end + 1);
        Some(Answer::new(std::str::from_utf8(&bytes[..end]).unwrap()))
    }

    /// Whether the connection has ended, without a further answer.
    pub fn ended(&mut self) -> bool {
        self.try_answer().is_none()
    }

    /// Whether nothing arrives for a moment.
    pub fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let read = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(LONG)).unwrap();
        let silence = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
        self.input.is_empty() && read.is_err_and(|error| silence(error.kind()))
    }

    /// Everything that comes until the end.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.input);
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection does not end: {error}"),
        }
        bytes
    }

    /// Says that nothing more will be sent.
    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Goes away without a farewell.
    pub fn reset(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// The state of an object.
    pub fn show(&mut self, path: &str) -> Option<Value> {
        let answer = self.ask(&format!("SHOW {path}"));
        (answer.status == 200).then(|| answer.value())
    }

    /// Asks until so many wait there.
    #[track_caller]
    pub fn until_waiting(&mut self, path: &str, count: u64) {
        self.until_shown(path, "waiting", count);
    }

    /// Asks until a member has this value; what is not there has 0 of everything.
    #[track_caller]
    pub fn until_shown(&mut self, path: &str, member: &str, value: u64) {
        until(&format!("{path} has {member} {value}"), || {
            self.show(path).map_or(0, |state| state[member].as_u64().unwrap()) == value
        });
    }
}

/// Finds the end of an object, looking at each byte once.
#[derive(Default)]
struct Finder {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Finder {
    fn end(&mut self, input: &[u8]) -> Option<usize> {
        while let Some(byte) = input.get(self.at) {
            if self.depth == 0 && self.at > 0 {
                return Some(self.at);
            }
            self.at += 1;
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => self.depth -= 1,
                _ => {}
            }
        }
        (self.depth == 0 && self.at > 0).then_some(self.at)
    }
}
