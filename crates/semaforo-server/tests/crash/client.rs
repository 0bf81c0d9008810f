//! Clients that speak bytes: one that retries until it knows, and one that asks once.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use semaforo_server::wire;

/// Longer than any start of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer, owned.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) payload: String,
}

impl Answer {
    fn parse(line: &str) -> Self {
        let answer = wire::Answer::parse(line.trim_end().as_bytes()).unwrap();
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
}

impl Link {
    fn connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let answers = BufReader::new(stream.try_clone().ok()?);
        Some(Self { stream, answers })
    }

    fn call(&mut self, request: &str) -> Option<Answer> {
        self.stream.write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => Some(Answer::parse(&line)),
            _ => None,
        }
    }
}

fn request(method: &str, path: &str, headers: &str, payload: &str) -> String {
    let payload = if payload.is_empty() { "null" } else { payload };
    format!(
        r#"{{"Method":"{method}","Path":"{path}","Headers":{{{headers}}},"Payload":{payload}}}"#
    )
}

/// Asks once, on a connection of its own. Nothing: nobody knows how it went. A server that cannot be reached was not asked.
pub(crate) fn once(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    payload: &str,
) -> Option<Answer> {
    let begin = Instant::now();
    let mut link = loop {
        match Link::connect(address) {
            Some(link) => break link,
            None => assert!(begin.elapsed() < PATIENCE, "the server does not come back"),
        }
        thread::sleep(Duration::from_millis(2));
    };
    link.call(&request(method, path, headers, payload))
}

/// A named session, whose requests are numbered and retried until they are answered.
pub(crate) struct Session {
    address: SocketAddr,
    link: Option<Link>,
    id: String,
    seq: u64,
}

impl Session {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let begin = Instant::now();
        loop {
            if let Some(answer) = once(address, "OPEN", "/sessions", r#""ttl":60000"#, "") {
                let id = answer.text("session").into();
                return Self { address, link: None, id, seq: 0 };
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
                self.link = Link::connect(self.address);
            }
            match self.link.as_mut().and_then(|link| link.call(&request)) {
                Some(answer) => return answer,
                None => self.link = None,
            }
            assert!(begin.elapsed() < PATIENCE, "no answer to {request}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
