//! How a server is to run.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semaforo_protocol::wire;

use super::access::Tokens;
use super::http;
use super::log::Log;
use crate::journal::Durability;
use crate::{kernel, net};

/// Where what happens is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// In the files of a directory.
    File {
        /// The directory.
        directory: PathBuf,
        /// When a batch is synced.
        durability: Durability,
    },
    /// Nowhere.
    Memory,
}

/// Reads tokens again, and lets new connections see new certificates.
#[derive(Clone)]
pub struct Reload(Arc<dyn Fn() -> Result<Option<Tokens>, String> + Send + Sync>);

impl Reload {
    /// Does this, on the thread that serves. If it fails nothing may have changed.
    pub fn new(
        reload: impl Fn() -> Result<Option<Tokens>, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(reload))
    }

    pub(super) fn run(&self) -> Result<Option<Tokens>, String> {
        (self.0)()
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").finish_non_exhaustive()
    }
}

/// How a server is to run. The default is what `semaforo serve` does, without HTTP and in memory,
/// on a free port.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where HTTP clients connect.
    pub http: Option<SocketAddr>,
    /// Where what happens is remembered.
    pub journal: JournalKind,
    /// With [`JournalKind::Memory`]: the directory of the file that fences are reserved in, so that
    /// none comes twice. Without one that is promised within this process; beyond it, fences are as
    /// good as the clock.
    pub fences: Option<PathBuf>,
    /// The most connections.
    pub max_connections: usize,
    /// The most bytes of the buffers of all connections together.
    pub max_buffers: usize,
    /// The size and depth of a request.
    pub frames: wire::Limits,
    /// How much there may be of everything.
    pub limits: kernel::Limits,
    /// The tokens and their rights; none: every client may do everything.
    pub tokens: Option<Tokens>,
    /// What is done on SIGHUP and `RELOAD`.
    pub reload: Option<Reload>,
    /// For connections that are to be encrypted.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// A slow reader is cut off after so long.
    pub stuck: Duration,
    /// A new connection has so long for a first request.
    pub first_request: Duration,
    /// A request has so long from its first byte to its last, for each MiB that it may have.
    pub unfinished: Duration,
    /// Connections of HTTP clients at a time.
    pub http_connections: usize,
    /// Names by which HTTP clients may call this server, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Statistics are shown to every client that can reach the server, also if it wants tokens.
    pub open_metrics: bool,
    /// Where it says what happens; none: nowhere.
    pub log: Option<Log>,
    /// Stops on SIGTERM and SIGINT, reloads on SIGHUP.
    pub signals: bool,
    /// Called by the thread of HTTP whenever it is woken: for tests of what happens if that thread
    /// panics.
    #[doc(hidden)]
    pub on_http_turn: Option<fn()>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            http: None,
            journal: JournalKind::Memory,
            fences: None,
            max_connections: net::limits::CONNECTIONS,
            max_buffers: net::limits::BUFFERS,
            frames: wire::Limits::default(),
            limits: kernel::Limits::default(),
            tokens: None,
            reload: None,
            tls: None,
            stuck: net::limits::STUCK,
            first_request: net::limits::FIRST_REQUEST,
            unfinished: net::limits::UNFINISHED,
            http_connections: http::CONNECTIONS,
            hosts: Vec::new(),
            open_metrics: false,
            log: None,
            signals: false,
            on_http_turn: None,
        }
    }
}
