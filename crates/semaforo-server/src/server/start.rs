//! Putting it together.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::clock::{Clock, wall};
use super::dispatcher::{Dispatcher, Patience};
use super::engine::{self, Engine};
use super::fences::Fences;
use super::http::{self, Http};
use super::http_channels::{HttpSide, http_channels};
use super::http_clients::HttpClients;
use super::log::Log;
use super::options::{JournalKind, Options};
use super::refusals::Refusals;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::journal::{self, FileJournal, Fold, Journal, MemoryJournal, OpenError, Report};
use crate::kernel::{BadEvent, Kernel, State};
use crate::net::{self, Budget, Connections};

/// A server that can be run.
pub struct Server {
    net: Connections,
    dispatcher: Dispatcher,
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
                let fences = match Fences::begin(options.fences.as_deref(), wall()) {
                    Err(error) => {
                        if let (Some(log), Some(directory)) = (&options.log, &options.fences) {
                            let directory = directory.display();
                            log.warning(format_args!(
                                "fences cannot be reserved in {directory}: {error}; \
                                 they may come again if the clock steps back"
                            ));
                        }
                        Fences::begin(None, wall()).map_err(StartError::System)?
                    }
                    Ok(fences) => fences,
                };
                let journal = Box::new(MemoryJournal::default());
                Self::assemble(options, State::default(), journal, clock, Some(fences))
            }
            JournalKind::File { directory, durability } => {
                let usual = journal::Options::default();
                let batches = engine::batches(options.frames.size);
                let file_options = journal::Options {
                    durability,
                    segment_size: usual.segment_size.max(batches.end().next_power_of_two()),
                    least_segment: usual.least_segment.max(batches.start().next_power_of_two()),
                    ..usual
                };
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

    /// `unrecorded`: the journal is never read, and fences are from here, beginning with
    /// this one.
    fn assemble(
        options: Options,
        state: State,
        journal: Box<dyn Journal>,
        clock: Clock,
        unrecorded: Option<(Fences, u64)>,
    ) -> Result<Self, StartError> {
        let for_http = options.http.map_or(0, |_| options.http_connections + http::RESERVED);
        let wanted = options.max_connections.saturating_add(for_http);
        let allowed = net::raise_open_files(wanted);
        let for_http = if allowed < wanted { for_http.min(allowed / 4) } else { for_http };
        let connections = (allowed - for_http).max(1);
        let log = options.log.unwrap_or_else(Log::silent);
        if allowed < wanted {
            let needed = wanted as u64 + net::limits::OTHER_DESCRIPTORS;
            let http = match options.http {
                Some(_) => format!(
                    " and {} over HTTP instead of {}",
                    for_http.saturating_sub(http::RESERVED),
                    options.http_connections
                ),
                None => String::new(),
            };
            log.warning(format_args!(
                "the limit of open files ({}) allows {connections} connections \
                 instead of {}{http}: `ulimit -n {needed}`, or LimitNOFILE of a service, raises it",
                net::open_files(),
                options.max_connections
            ));
        }
        let buffers = Budget::new(options.max_buffers);
        let limits = net::Limits {
            connections,
            stuck: options.stuck,
            buffers: buffers.clone(),
            ..net::Limits::default()
        };
        let (mut net, address) = listen(limits, options.listen, options.tls.clone())?;
        if options.signals {
            for signal in [SIGTERM, SIGINT, SIGHUP] {
                net.watch_signal(signal).map_err(StartError::System)?;
            }
        }
        let now = clock.after(Instant::now());
        let (fences, first_fence) = unrecorded.unzip();
        let mut kernel_limits = options.limits;
        if fences.is_none() {
            // For a moment there is all of it twice: a snapshot is folded beside it.
            kernel_limits.memory /= 2;
        }
        let kernel = Kernel::new(state, kernel_limits, now, first_fence.unwrap_or(1));
        let largest = options.frames.size;
        let engine = Engine::new(kernel, journal, clock, fences, largest);
        let patience =
            Patience { first_request: options.first_request, unfinished: options.unfinished };
        let refusals = Arc::new(Refusals::new(log.clone()));
        let shared = Arc::clone(&refusals);
        let mut dispatcher =
            Dispatcher::new(engine, options.frames, options.tokens, patience, shared, log.clone());
        dispatcher.reload = options.reload;
        let Some(http_address) = options.http else {
            return Ok(Self {
                net,
                dispatcher,
                http: None,
                address,
                http_address: None,
                report: None,
            });
        };
        let http_options = http::Options {
            connections: for_http.saturating_sub(http::RESERVED),
            body: options.frames.size,
            depth: options.frames.depth,
            hosts: options.hosts,
            times: http::Times { first: options.first_request, ..http::Times::default() },
        };
        let limits = net::Limits { buffers, ..http_options.connection_limits() };
        let (http_net, http_address) = listen(limits, http_address, options.tls)?;
        let (main_side, http_side) = http_channels(
            net.waker(),
            http_net.waker(),
            options.open_metrics,
            refusals,
            log,
            options.on_http_turn,
        );
        dispatcher.set_http(HttpClients::new(main_side));
        let http = Some((http_net, Http::new(http_options, http_side)));
        Ok(Self { net, dispatcher, http, address, http_address: Some(http_address), report: None })
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
    /// # Errors If the operating system does not say any more which sockets are ready, the journal
    /// cannot be closed, or the thread of HTTP has ended by itself.
    pub fn run(mut self) -> io::Result<()> {
        let http = self.http.take().map(|(mut net, mut http)| {
            let thread = thread::Builder::new().name("http".into());
            let obituary = http.backend().obituary();
            thread.spawn(move || {
                // Nothing of what it was about is looked at after a panic.
                let ended = catch_unwind(AssertUnwindSafe(|| net.run(&mut http)));
                let reason = match ended {
                    Ok(Ok(())) => return None,
                    Ok(Err(error)) => error.to_string(),
                    Err(panic) => format!("it panicked: {}", words(&*panic)),
                };
                obituary.publish(reason.clone());
                Some(reason)
            })
        });
        let http = http.transpose()?;
        self.net.run(&mut self.dispatcher)?;
        let mut failure = None;
        if let Some(thread) = http {
            self.dispatcher.hear_out_http(&mut self.net);
            failure = thread.join().ok().flatten();
        }
        self.dispatcher.engine.close()?;
        // Half a server is worse than none: the program that watches it has to notice.
        match failure {
            Some(reason) => Err(io::Error::other(format!("the thread of HTTP ended: {reason}"))),
            None => Ok(()),
        }
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
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
