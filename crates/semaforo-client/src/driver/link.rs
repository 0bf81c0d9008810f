//! One connection: bytes in and out, through TLS or not, and the answers among them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use semaforo_protocol::limits::MAX_ANSWER;
use semaforo_protocol::wire::{FrameError, Limits, Scan, Scanner};

/// What is read of an answer.
pub(crate) const LIMITS: Limits = Limits { size: MAX_ANSWER, depth: Limits::DEPTH };

/// What is kept of a buffer that was large once.
const KEPT: usize = 64 << 10;

const CHUNK: usize = 16 << 10;

/// Where to connect to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Finds the addresses of a name, which may take long.
    pub(crate) resolve: Resolve,
}

pub(crate) type Resolve = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// The addresses that the name stands for now, as the system knows them.
pub(crate) fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = address.to_socket_addrs()?.collect();
    if addresses.is_empty() {
        let message = format!("{address:?} has no address");
        return Err(io::Error::new(ErrorKind::NotFound, message));
    }
    Ok(addresses)
}

impl Target {
    fn server_name(&self) -> io::Result<ServerName<'static>> {
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: SocketAddr,
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// The handshake of the sockets is over.
    is_connected: bool,
    input: Vec<u8>,
    /// Whether something has arrived since this was last looked at.
    pub(super) has_heard: bool,
    scanner: Scanner,
    /// What is to be sent, and how much of it was.
    pub(super) output: Vec<u8>,
    sent: usize,
    /// How large and how deep a request may be, once the server has said so.
    pub(super) limits: Limits,
}

impl Link {
    /// Begins to connect.
    pub(super) fn open(
        target: &Target,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let tls = match &target.tls {
            None => None,
            Some(config) => {
                let connection = ClientConnection::new(Arc::clone(config), target.server_name()?);
                Some(Box::new(connection.map_err(invalid)?))
            }
        };
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            address,
            stream,
            tls,
            is_connected: false,
            input: Vec::new(),
            has_heard: false,
            scanner: Scanner::new(),
            output: Vec::new(),
            sent: 0,
            limits: Limits { size: usize::MAX, depth: Limits::DEPTH },
        })
    }

    /// Closes it. What was written still arrives.
    pub(super) fn close(mut self, registry: &Registry) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.stream);
        }
        let _ = registry.deregister(&mut self.stream);
    }

    /// Closes it, and what has not arrived yet never will: it is asked again elsewhere, or its
    /// caller was told that it is not done, and no copy of it may come later.
    pub(super) fn give_up(mut self, registry: &Registry) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        let _ = registry.deregister(&mut self.stream);
    }

    /// Whether the connection stands, after it was said to be writable.
    pub(super) fn connect(&mut self) -> io::Result<bool> {
        if self.is_connected {
            return Ok(true);
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.is_connected = true;
                self.stream.set_nodelay(true)?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the server can read the request that was written last, and begins here. If it
    /// cannot, the request is taken out again.
    pub(super) fn keep(&mut self, begin: usize) -> Result<(), FrameError> {
        let frame = self.output.get(begin..).unwrap_or_default().trim_ascii_end();
        let Limits { size, depth } = self.limits;
        // Every request was looked at before, within the limits that no server can exceed.
        let read = if frame.len() > size {
            Err(FrameError::TooLarge { limit: size })
        } else if depth < Limits::DEPTH {
            Scanner::new().scan(frame, &self.limits).map(drop)
        } else {
            Ok(())
        };
        if read.is_err() {
            self.output.truncate(begin);
        }
        read
    }

    /// Sends what can be sent.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.is_connected {
            return Ok(());
        }
        loop {
            match self.flush_once() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether there may be more to send.
    fn flush_once(&mut self) -> io::Result<bool> {
        let pending = self.output.get(self.sent..).unwrap_or_default();
        if let Some(tls) = &mut self.tls {
            let taken = tls.writer().write(pending)?;
            self.sent += taken;
            if tls.wants_write() {
                tls.write_tls(&mut self.stream)?;
            } else if taken == 0 {
                // During the handshake it takes only so much.
                self.tidy();
                return Ok(false);
            }
        } else if pending.is_empty() {
            self.tidy();
            return Ok(false);
        } else {
            match self.stream.write(pending)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => self.sent += written,
            }
        }
        Ok(true)
    }

    fn tidy(&mut self) {
        self.output.drain(..self.sent.min(self.output.len()));
        self.sent = 0;
        if self.output.is_empty() {
            self.output.shrink_to(KEPT);
        }
    }

    /// Reads what there is. False at the end, which is found for sure only if it `may_end`.
    pub(super) fn read(&mut self, may_end: bool) -> io::Result<bool> {
        if !self.is_connected {
            return Ok(true);
        }
        loop {
            match self.read_once() {
                Ok(0) => return Ok(false),
                // Less than there was room for: what comes later is announced anew. An end that was
                // announced together with these bytes is not.
                Ok(1..CHUNK) if self.tls.is_none() && !may_end => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    fn read_once(&mut self) -> io::Result<usize> {
        let mut chunk = [0; CHUNK];
        let count = if let Some(tls) = &mut self.tls {
            let count = tls.read_tls(&mut self.stream)?;
            tls.process_new_packets().map_err(invalid)?;
            loop {
                match tls.reader().read(&mut chunk) {
                    Ok(0) => break,
                    Ok(length) => {
                        self.input.extend_from_slice(chunk.get(..length).unwrap_or_default());
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            count
        } else {
            let count = self.stream.read(&mut chunk)?;
            self.input.extend_from_slice(chunk.get(..count).unwrap_or_default());
            count
        };
        self.has_heard |= count > 0;
        Ok(count)
    }

    /// Calls `each` with each answer that is complete, until it is false.
    pub(super) fn frames(&mut self, mut each: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut consumed = 0;
        let mut goes_on = true;
        while goes_on {
            let rest = self.input.get(consumed..).unwrap_or_default();
            match self.scanner.scan(rest, &LIMITS).map_err(invalid)? {
                Scan::Incomplete => break,
                Scan::Frame { start, end } => {
                    goes_on = each(rest.get(start..end).unwrap_or_default());
                    consumed += end;
                }
            }
        }
        consumed += self.scanner.take_blank();
        self.input.drain(..consumed.min(self.input.len()));
        if self.input.is_empty() {
            self.input.shrink_to(KEPT);
        }
        Ok(())
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
