//! How a server is to run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::access::Tokens;
use super::http;
use super::log::Log;
use crate::journal::Durability;
use crate::{kernel, net, wire};

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

/// How a server is to run. The default is what `semaforo serve` does, without HTTP and in memory, on a free port.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where HTTP clients connect.
    pub http: Option<SocketAddr>,
    /// Where what happens is remembered.
    pub journal: JournalKind,
    /// The most connections.
    pub max_connections: usize,
    /// The size and depth of a request.
    pub frames: wire::Limits,
    /// How much there may be of everything.
    pub limits: kernel::Limits,
    /// Who may do what; none: everybody everything.
    pub tokens: Option<Tokens>,
    /// For connections that are to be encrypted.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// A slow reader is cut off after so long.
    pub stuck: Duration,
    /// Who connects has so long for a first request.
    pub first_request: Duration,
    /// Connections of HTTP clients at a time.
    pub http_connections: usize,
    /// Names by which HTTP clients may call this server, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Where it says what happens; none: nowhere.
    pub log: Option<Log>,
    /// Stops on SIGTERM and SIGINT.
    pub signals: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            http: None,
            journal: JournalKind::Memory,
            max_connections: net::limits::CONNECTIONS,
            frames: wire::Limits::default(),
            limits: kernel::Limits::default(),
            tokens: None,
            tls: None,
            stuck: net::limits::STUCK,
            first_request: net::limits::FIRST_REQUEST,
            http_connections: http::CONNECTIONS,
            hosts: Vec::new(),
            log: None,
            signals: false,
        }
    }
}
