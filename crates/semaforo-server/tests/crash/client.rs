//! Clients that speak bytes, over TCP or HTTP: one that retries until it knows, and one that asks
//! once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_protocol::wire;

use crate::process::{Process, Randomness};

/// Longer than any start of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of so many requests is the last of its connection: nothing more is sent there after it.
const HALF_CLOSED: u64 = 16;

/// The server is stopping, or another connection has the request: it has to be asked again.
const AGAIN: [u16; 2] = [503, 409];

/// Where a server is reached, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Tcp(SocketAddr),
    Http(SocketAddr),
}

impl Way {
    /// Every other client speaks HTTP.
    pub(crate) fn of(server: &Process, number: u64) -> Self {
        match number % 2 {
            0 => Self::Tcp(server.address()),
            _ => Self::Http(server.http()),
        }
    }

    const fn address(self) -> SocketAddr {
        match self {
            Self::Tcp(address) | Self::Http(address) => address,
        }
    }
}

/// An answer, owned.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) payload: String,
}

impl Answer {
    fn parse(line: &[u8]) -> Self {
        let answer = wire::Answer::parse(line.trim_ascii_end()).unwrap();
        let headers = answer.headers.iter().map(|(name, value)| (name.into(), value.into()));
        let payload = answer.payload.unwrap_or_default();
        Self {
            status: answer.status,
            headers: headers.collect(),
            payload: String::from_utf8(payload.to_vec()).unwrap(),
        }
    }

    pub(crate) fn text(&self, header: &str) -> &str {
        let found = self.headers.iter().find(|(name, _)| name == header);
        &found.unwrap_or_else(|| panic!("no {header} in {self:?}")).1
    }

    pub(crate) fn header(&self, header: &str) -> u64 {
        self.text(header).parse().unwrap()
    }
}

/// A connection, until it breaks.
struct Link {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    is_http: bool,
}

impl Link {
    fn connect(way: Way) -> Option<Self> {
        let stream = TcpStream::connect(way.address()).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let answers = BufReader::new(stream.try_clone().ok()?);
        Some(Self { stream, answers, is_http: matches!(way, Way::Http(_)) })
    }

    /// Nothing: the outcome is unknown.
    fn call(&mut self, request: &str, is_last: bool) -> Option<Answer> {
        if self.is_http {
            let head = "POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
            let length = request.len();
            let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{request}");
            self.stream.write_all(request.as_bytes()).ok()?;
        } else {
            self.stream.write_all(request.as_bytes()).ok()?;
        }
        if is_last {
            self.stream.shutdown(Shutdown::Write).ok()?;
        }
        if self.is_http { self.http_answer() } else { self.line().map(|line| Answer::parse(&line)) }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.answers.read_until(b'\n', &mut line).ok()?;
        line.ends_with(b"\n").then_some(line)
    }

    fn http_answer(&mut self) -> Option<Answer> {
        let mut length = 0;
        loop {
            let line = String::from_utf8(self.line()?).unwrap().to_ascii_lowercase();
            if line.trim_end().is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.answers.read_exact(&mut body).ok()?;
        Some(Answer::parse(&body))
    }
}

fn request(method: &str, path: &str, headers: &str, payload: &str) -> String {
    let payload = if payload.is_empty() { "null" } else { payload };
    format!(
        r#"{{"Method":"{method}","Path":"{path}","Headers":{{{headers}}},"Payload":{payload}}}"#
    )
}

/// Asks once, on a connection of its own. Nothing: the outcome is unknown. A server that cannot
/// be reached, or is about to stop, was not asked.
pub(crate) fn once(
    way: Way,
    method: &str,
    path: &str,
    headers: &str,
    payload: &str,
) -> Option<Answer> {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "the server does not come back");
        if let Some(mut link) = Link::connect(way) {
            match link.call(&request(method, path, headers, payload), false) {
                Some(answer) if answer.status == 503 => {}
                outcome => return outcome,
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A named session, whose requests are numbered and retried until they are answered.
pub(crate) struct Session {
    way: Way,
    link: Option<Link>,
    id: String,
    seq: u64,
    random: Randomness,
}

impl Session {
    pub(crate) fn open(way: Way) -> Self {
        Self::living(way, 60_000)
    }

    /// One that ends after so many milliseconds of silence.
    pub(crate) fn living(way: Way, ttl: u64) -> Self {
        let begin = Instant::now();
        loop {
            let headers = format!(r#""ttl":{ttl}"#);
            if let Some(answer) = once(way, "OPEN", "/sessions", &headers, "") {
                let id = answer.text("session").into();
                return Self { way, link: None, id, seq: 0, random: Randomness::new() };
            }
            assert!(begin.elapsed() < PATIENCE);
        }
    }

    /// Does something exactly once, however often the server dies meanwhile.
    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        payload: &str,
    ) -> Answer {
        self.seq += 1;
        let comma = if headers.is_empty() { "" } else { "," };
        let headers = format!(
            r#""session":"{}","seq":{},"acked":{}{comma}{headers}"#,
            self.id,
            self.seq,
            self.seq - 1
        );
        let request = request(method, path, &headers, payload);
        let begin = Instant::now();
        loop {
            if self.link.is_none() {
                self.link = Link::connect(self.way);
            }
            let is_last = self.random.below(HALF_CLOSED) == 0;
            let answer = self.link.as_mut().and_then(|link| link.call(&request, is_last));
            if is_last || answer.is_none() {
                self.link = None;
            }
            match answer {
                Some(answer) if !AGAIN.contains(&answer.status) => return answer,
                _ => {}
            }
            assert!(begin.elapsed() < PATIENCE, "no answer to {request}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
