//! Putting it together.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::bridge::{HttpSide, bridge};
use super::clock::{Clock, wall};
use super::desk::Desk;
use super::engine::Engine;
use super::http::{self, Http};
use super::http_clients::HttpClients;
use super::log::Log;
use super::options::{JournalKind, Options};

use crate::journal::{self, FileJournal, Fold, Journal, MemoryJournal, OpenError, Report};
use crate::kernel::{BadEvent, Kernel, State};
use crate::net::{self, Connections};

/// Without a journal fences begin at the seconds of the wall clock, shifted by this: two million a second until a
/// later start could repeat one.
const SECONDS_SHIFT: u32 = 21;

/// A server that can be run.
pub struct Server {
    net: Connections,
    desk: Desk,
    http: Option<(Connections, Http<HttpSide>)>,
    address: SocketAddr,
    http_address: Option<SocketAddr>,
    report: Option<Report>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a server could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address is taken, or is not one of this machine.
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The journal cannot be used.
    Journal(OpenError),
    /// The system denied something else.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Journal(error) => write!(f, "{error}"),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Listen { error, .. } | Self::System(error) => Some(error),
            Self::Journal(error) => Some(error),
        }
    }
}

impl Fold for State {
    fn apply(&mut self, events: &[u8]) -> Result<(), journal::BadEvent> {
        self.apply_all(events).map_err(|bad: BadEvent| journal::BadEvent::new(0, bad.to_string()))
    }

    fn dump(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        Self::dump(self, sink)
    }
}

impl Server {
    /// Recovers what was journaled, and begins to listen.
    ///
    /// # Errors
    /// If an address cannot be listened on, or the journal cannot be used.
    pub fn start(options: Options) -> Result<Self, StartError> {
        match options.journal.clone() {
            JournalKind::Memory => {
                let clock = Clock::starting(wall(), 0);
                let first_fence = (clock.at(Instant::now()) / 1000) << SECONDS_SHIFT;
                let journal = Box::new(MemoryJournal::default());
                Self::assemble(options, State::default(), journal, clock, Some(first_fence))
            }
            JournalKind::File { directory, durability } => {
                let file_options = journal::Options { durability, ..journal::Options::default() };
                let recovered =
                    FileJournal::open(&directory, file_options).map_err(StartError::Journal)?;
                let (state, journal) = (recovered.state, Box::new(recovered.journal));
                let mut server = Self::with_journal(options, state, journal, recovered.time)?;
                server.report = Some(recovered.report);
                Ok(server)
            }
        }
    }

    /// A server whose journal, and what it remembered up to which time, is the caller's.
    ///
    /// # Errors
    /// If an address cannot be listened on.
    pub fn with_journal(
        options: Options,
        state: State,
        journal: Box<dyn Journal>,
        journaled_time: u64,
    ) -> Result<Self, StartError> {
        let clock = Clock::starting(wall(), journaled_time);
        Self::assemble(options, state, journal, clock, None)
    }

    /// `unrecorded`: nobody will ever read the journal, and fences begin there.
    fn assemble(
        options: Options,
        state: State,
        journal: Box<dyn Journal>,
        clock: Clock,
        unrecorded: Option<u64>,
    ) -> Result<Self, StartError> {
        let for_http = options.http.map_or(0, |_| options.http_connections + http::RESERVED);
        let wanted = options.max_connections.saturating_add(for_http);
        let allowed = net::raise_open_files(wanted);
        let for_http = if allowed < wanted { for_http.min(allowed / 4) } else { for_http };
        let connections = (allowed - for_http).max(1);
        let limits = net::Limits { connections, stuck: options.stuck, ..net::Limits::default() };
        let (mut net, address) = listen(limits, options.listen, options.tls.clone())?;
        let log = options.log.unwrap_or_else(Log::silent);
        if options.signals {
            for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
                net.watch_signal(signal).map_err(StartError::System)?;
            }
        }
        let now = clock.after(Instant::now());
        let kernel = Kernel::new(state, options.limits, now, unrecorded.unwrap_or(1));
        let largest = options.frames.size;
        let engine = Engine::new(kernel, journal, clock, unrecorded.is_some(), largest);
        let first_request = options.first_request;
        let mut desk =
            Desk::new(engine, options.frames, options.tokens, first_request, log.clone());
        let Some(http_address) = options.http else {
            return Ok(Self { net, desk, http: None, address, http_address: None, report: None });
        };
        let http_options = http::Options {
            connections: for_http.saturating_sub(http::RESERVED),
            body: options.frames.size,
            depth: options.frames.depth,
            hosts: options.hosts,
            ..http::Options::default()
        };
        let limits = http_options.connection_limits();
        let (http_net, http_address) = listen(limits, http_address, options.tls)?;
        let (main_side, http_side) = bridge(net.waker(), http_net.waker(), log);
        desk.http = Some(HttpClients::new(main_side));
        let http = Some((http_net, Http::new(http_options, http_side)));
        Ok(Self { net, desk, http, address, http_address: Some(http_address), report: None })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where HTTP clients connect.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// What the journal remembered.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// If the operating system does not say any more which sockets are ready, or the journal cannot be closed.
    pub fn run(mut self) -> io::Result<()> {
        let http = self.http.take().map(|(mut net, mut http)| {
            let thread = thread::Builder::new().name("http".into());
            thread.spawn(move || net.run(&mut http))
        });
        let http = http.transpose()?;
        self.net.run(&mut self.desk)?;
        if let Some(thread) = http {
            self.desk.hear_out_http(&mut self.net);
            // A panic there has been reported, and the journal is what matters now.
            let _ = thread.join();
        }
        self.desk.engine.close()
    }
}

/// Connections that listen.
fn listen(
    limits: net::Limits,
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> Result<(Connections, SocketAddr), StartError> {
    let mut net = Connections::new(limits).map_err(StartError::System)?;
    let listener = net::bind(address).map_err(|error| StartError::Listen { address, error })?;
    let address = listener.local_addr().map_err(StartError::System)?;
    net.listen(listener, tls).map_err(StartError::System)?;
    Ok((net, address))
}
