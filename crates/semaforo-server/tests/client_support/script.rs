//! A server that does what the test says, one request at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use semaforo_client::Error;
use semaforo_protocol::wire::{Limits, Request, Scan, Scanner, Value, write_answer};

use super::LONG;

/// Where a client can connect to; nothing happens until the test accepts.
pub struct Script {
    listener: TcpListener,
    pub address: SocketAddr,
}

/// One connection of a client.
pub struct Conversation {
    stream: TcpStream,
    scanner: Scanner,
    input: Vec<u8>,
    /// The client has hung up, and taken back what had not arrived.
    pub is_reset: bool,
}

/// A request of the client.
#[derive(Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
    pub payload: Option<String>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    pub fn number(&self, name: &str) -> u64 {
        self.header(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).parse().unwrap()
    }
}

impl Script {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub fn accept(&self) -> Conversation {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Conversation { stream, scanner: Scanner::new(), input: Vec::new(), is_reset: false }
    }

    /// Accepts, and answers the greeting, as a server did that knew nothing of limits.
    pub fn greet(&self) -> Conversation {
        self.greet_with(&[])
    }

    /// Accepts, and answers the greeting with these headers.
    pub fn greet_with(&self, headers: &[(&str, &str)]) -> Conversation {
        let mut conversation = self.accept();
        let asked = conversation.expect("PING");
        assert_eq!(asked.header("limits"), Some("true"));
        conversation.answer(&asked, 200, headers, None);
        conversation
    }

    /// [`greet`](Self::greet), and opens the session `s1` with this time to live.
    pub fn greet_and_open(&self, ttl: u64) -> Conversation {
        let mut conversation = self.greet();
        conversation.open("s1", ttl);
        conversation
    }
}

impl Conversation {
    /// The next request; none if the client hangs up.
    pub fn next(&mut self) -> Option<Asked> {
        self.next_of(Limits::SIZE)
    }

    /// The next request, of at most so many bytes.
    pub fn next_of(&mut self, size: usize) -> Option<Asked> {
        let limits = Limits { size, ..Limits::default() };
        loop {
            if let Scan::Frame { start, end } = self.scanner.scan(&self.input, &limits).unwrap() {
                let request = Request::parse(&self.input[start..end]).unwrap();
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                let asked = Asked {
                    method: request.method.to_string(),
                    path: request.path.to_string(),
                    headers: request.headers.iter().map(owned).collect(),
                    payload: request.payload.map(|json| String::from_utf8(json.to_vec()).unwrap()),
                };
                self.input.drain(..end);
                return Some(asked);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.is_reset = true;
                    return None;
                }
                Err(error) => panic!("the client is silent: {error}"),
            }
        }
    }

    /// The next request, which has this method. Keep-alives and the like are answered by the way.
    pub fn expect(&mut self, method: &str) -> Asked {
        loop {
            let asked = self.next().unwrap_or_else(|| panic!("hung up instead of {method}"));
            if asked.method == method {
                return asked;
            }
            let is_alive = matches!(&*asked.method, "KEEPALIVE" | "PING");
            assert!(is_alive, "instead of {method}: {asked:?}");
            self.answer(&asked, 200, &[], None);
        }
    }

    /// Answers 200 to a request that this asks and waits for, and says what it was.
    pub fn serve<T: Send + 'static>(
        &mut self,
        method: &str,
        ask: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Asked {
        let asking = thread::spawn(ask);
        let asked = self.expect(method);
        self.answer(&asked, 200, &[], None);
        asking.join().unwrap().unwrap();
        asked
    }

    pub fn open(&mut self, id: &str, ttl: u64) -> Asked {
        let asked = self.expect("OPEN");
        self.answer(&asked, 200, &[("session", id), ("ttl", &ttl.to_string())], None);
        asked
    }

    pub fn answer(
        &mut self,
        asked: &Asked,
        status: u16,
        headers: &[(&str, &str)],
        payload: Option<&str>,
    ) {
        let mut output = Vec::new();
        let headers = headers.iter().map(|(name, value)| (*name, Value::Text(value)));
        let payload = payload.map(str::as_bytes);
        write_answer(&mut output, status, asked.header("id"), headers, payload);
        match self.stream.write_all(&output) {
            // It is seen when there is nothing more to read, either.
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            written => written.unwrap(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
}
