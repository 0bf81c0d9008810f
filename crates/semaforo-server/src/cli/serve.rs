//! `semaforo serve`.

use std::fs::DirBuilder;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::fs::Mode;
use rustls::sign::CertifiedKey;
use semaforo_protocol::wire;

use super::duration;
use crate::journal::Durability;
use crate::net;
use crate::net::tls::Certificates;
use crate::server::access::Tokens;
use crate::server::files::Holds;
use crate::server::log::{self, Format, Level, Log};
use crate::server::{JournalKind, Options, Reload, Server, files, http};

/// How often a journal is synced with `--durability interval`.
const INTERVAL: &str = "1s";

/// So many of the largest requests fit into the buffers of all connections.
const BUFFERED_FRAMES: usize = 8;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:13000")]
    listen: SocketAddr,
    /// Where HTTP clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:13080")]
    http: SocketAddr,
    /// Where the journal is kept [default: $XDG_DATA_HOME/semaforo, or ~/.local/share/semaforo];
    /// with --journal memory, where a small file says which fences were given out
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Whether anything is remembered when the server ends
    #[arg(long, value_enum, default_value_t = Kept::File)]
    journal: Kept,
    /// When an answer may leave: after its journal is on the disk, or before
    #[arg(long, value_enum, default_value_t = Safety::Always)]
    durability: Safety,
    /// How often the journal goes to the disk with --durability interval
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = INTERVAL)]
    sync_interval: Duration,
    /// The most connections; more wait until one ends
    #[arg(long, value_name = "N", default_value_t = net::limits::CONNECTIONS, value_parser = positive)]
    max_connections: usize,
    /// The most bytes of one request
    #[arg(long, value_name = "BYTES", default_value_t = wire::Limits::SIZE, value_parser = positive)]
    max_frame: usize,
    /// The most levels that a request may be nested, up to 64
    #[arg(long, value_name = "N", default_value_t = wire::Limits::DEPTH, value_parser = positive)]
    max_depth: usize,
    /// The most objects of all kinds
    #[arg(long, value_name = "N", default_value_t = crate::kernel::Limits::default().objects, value_parser = places)]
    max_objects: usize,
    /// The most named sessions
    #[arg(long, value_name = "N", default_value_t = crate::kernel::Limits::default().sessions, value_parser = places)]
    max_sessions: usize,
    /// The most holds of locks, semaphores and reader-writer locks
    #[arg(long, value_name = "N", default_value_t = crate::kernel::Limits::default().holds)]
    max_holds: usize,
    /// The most requests that wait
    #[arg(long, value_name = "N", default_value_t = crate::kernel::Limits::default().waits)]
    max_waits: usize,
    /// The most messages in one queue
    #[arg(long, value_name = "N", default_value_t = crate::kernel::Limits::default().messages)]
    max_messages: usize,
    /// The most bytes of messages, in all queues and kept with answers
    #[arg(long, value_name = "BYTES", default_value_t = crate::kernel::Limits::default().bytes)]
    max_bytes: u64,
    /// The most bytes of memory for all of that, roughly; with a journal in files half of it is for
    /// snapshots
    #[arg(long, value_name = "BYTES", default_value_t = crate::kernel::Limits::default().memory)]
    max_memory: u64,
    /// The most bytes of the buffers of all connections together, at least 8 times --max-frame
    #[arg(long, value_name = "BYTES", default_value_t = net::limits::BUFFERS, value_parser = positive)]
    max_buffers: usize,
    /// The certificate chain (PEM), for encrypted connections
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Who may do what: a token in each line, with prefix=..., rights=use,create,admin,observe,
    /// name=..., and quotas objects=..., sessions=..., waits=..., bytes=...
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The most connections of HTTP clients
    #[arg(long, value_name = "N", default_value_t = http::CONNECTIONS, value_parser = positive)]
    max_http_connections: usize,
    /// A name by which HTTP clients may call this server, beside addresses and localhost
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Shows /metrics without a token, also if --tokens are needed for all else
    #[arg(long)]
    open_metrics: bool,
    /// What is logged to the standard error output
    #[arg(long, value_enum, default_value_t = Loudness::Info)]
    log: Loudness,
    /// Logs lines of JSON
    #[arg(long)]
    log_json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kept {
    /// In the files of a directory
    File,
    /// Nothing is but which fences were given out: everything else ends with the server
    Memory,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Loudness {
    /// What is broken
    Error,
    /// And what went wrong
    Warning,
    /// And what happens
    Info,
    /// And everything else
    Debug,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Safety {
    /// Every answer is on the disk before it leaves
    Always,
    /// A crash of the machine can lose what was answered since the last interval
    Interval,
    /// The operating system decides
    Memory,
}

fn places(text: &str) -> Result<usize, String> {
    let most = crate::kernel::MOST_PLACES as usize;
    positive(text)
        .ok()
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("{text:?} is not a number from 1 to {most}"))
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is not a number of 1 or more")),
        Ok(number) => Ok(number),
    }
}

/// Makes the directory of the journal, or looks whether it is in good hands.
fn prepare(directory: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    files::check_directory(directory, Holds::Secrets)
}

/// The same for the directory where fences are reserved. One that cannot be made is warned about
/// when they are.
fn prepare_for_fences(directory: &Path) -> std::io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    if made.is_err() && directory.symlink_metadata().is_err() {
        return Ok(());
    }
    files::check_directory(directory, Holds::NoSecrets)
}

/// The files that say who gets in.
#[derive(Clone, Debug)]
struct Keys {
    tokens: Option<PathBuf>,
    /// Certificate and key.
    tls: Option<(PathBuf, PathBuf)>,
}

impl Keys {
    fn tokens(&self) -> Result<Option<Tokens>> {
        let Some(file) = &self.tokens else { return Ok(None) };
        let text = files::read_secret_text(file).with_context(|| unusable("token file", file))?;
        Ok(Some(Tokens::parse(&text).with_context(|| file.display().to_string())?))
    }

    fn certified(&self) -> Result<Option<CertifiedKey>> {
        let Some((certificate, key)) = &self.tls else { return Ok(None) };
        let chain = files::read_trusted(certificate)
            .with_context(|| unusable("certificate", certificate))?;
        let private = files::read_secret(key).with_context(|| unusable("key", key))?;
        Ok(Some(net::tls::certified((certificate, &chain), (key, &private))?))
    }
}

fn unusable(what: &str, file: &Path) -> String {
    format!("cannot use the {what} {}", file.display())
}

impl Serve {
    pub(super) fn run(self, insecure: bool) -> Result<ExitCode> {
        let exposed = [self.listen, self.http].into_iter().find(|at| !at.ip().is_loopback());
        let open = self.tls_cert.is_none() || self.tokens.is_none();
        if let Some(address) = exposed
            && open
            && !insecure
        {
            bail!(
                "{address} can be reached from other machines: that needs --tls-cert, --tls-key and --tokens, or --insecure"
            );
        }
        let least = self.max_frame.saturating_mul(BUFFERED_FRAMES);
        if self.max_buffers < least {
            let max_buffers = self.max_buffers;
            bail!(
                "--max-buffers {max_buffers} is less than {BUFFERED_FRAMES} times --max-frame: {least}"
            );
        }
        // There are secrets in the journal, sessions for example.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let keys = Keys {
            tokens: self.tokens.clone(),
            tls: self.tls_cert.clone().zip(self.tls_key.clone()),
        };
        let tokens = keys.tokens()?;
        let certificates =
            keys.certified()?.map(|certified| Arc::new(Certificates::new(certified)));
        let tls = match &certificates {
            Some(certificates) => {
                Some(net::tls::server_config_with(Arc::clone(certificates), &[])?)
            }
            None => None,
        };
        let reload = Reload::new(move || {
            let loaded = keys.tokens().and_then(|tokens| Ok((tokens, keys.certified()?)));
            let (tokens, certified) = loaded.map_err(|error| format!("{error:#}"))?;
            if let (Some(certificates), Some(certified)) = (&certificates, certified) {
                certificates.replace(certified);
            }
            Ok(tokens)
        });
        let journal = match self.journal {
            Kept::Memory => JournalKind::Memory,
            Kept::File => JournalKind::File {
                directory: self.directory()?,
                durability: match self.durability {
                    Safety::Always => Durability::Always,
                    Safety::Interval => Durability::Interval(self.sync_interval),
                    Safety::Memory => Durability::Memory,
                },
            },
        };
        let fences = self.directory().ok();
        let data_in = |directory: &Path| format!("data in {}", directory.display());
        let shown = match &journal {
            JournalKind::Memory => {
                if let Some(directory) = &fences {
                    prepare_for_fences(directory).with_context(|| data_in(directory))?;
                }
                "nothing is kept".to_owned()
            }
            JournalKind::File { directory, .. } => {
                prepare(directory).with_context(|| data_in(directory))?;
                data_in(directory)
            }
        };
        let level = match self.log {
            Loudness::Error => Level::Error,
            Loudness::Warning => Level::Warning,
            Loudness::Info => Level::Info,
            Loudness::Debug => Level::Debug,
        };
        let format = if self.log_json { Format::Json } else { Format::Plain };
        let (log, end) = Log::to_stderr(level, format)?;
        let server = Server::start(Options {
            listen: self.listen,
            fences,
            http: Some(self.http),
            journal,
            max_connections: self.max_connections,
            max_buffers: self.max_buffers,
            frames: wire::Limits { size: self.max_frame, depth: self.max_depth },
            limits: crate::kernel::Limits {
                objects: self.max_objects,
                sessions: self.max_sessions,
                holds: self.max_holds,
                waits: self.max_waits,
                messages: self.max_messages,
                bytes: self.max_bytes,
                memory: self.max_memory,
            },
            tokens,
            reload: Some(reload),
            tls,
            signals: true,
            http_connections: self.max_http_connections,
            hosts: self.hosts,
            open_metrics: self.open_metrics,
            log: Some(log),
            ..Options::default()
        })?;
        let mut output = std::io::stdout().lock();
        let _ = writeln!(output, "{shown}");
        if let Some(report) = server.report() {
            let _ = writeln!(output, "{report}");
        }
        let _ = writeln!(output, "listening on {}", server.address());
        if let Some(address) = server.http_address() {
            let _ = writeln!(output, "http on {address}");
        }
        let _ = output.flush();
        drop(output);
        let outcome = server.run();
        log::tell_lost(end.wait());
        outcome?;
        Ok(ExitCode::SUCCESS)
    }

    fn directory(&self) -> Result<PathBuf> {
        if let Some(directory) = &self.data {
            return Ok(directory.clone());
        }
        let base = std::env::var_os("XDG_DATA_HOME").filter(|base| !base.is_empty());
        let base = base.map(PathBuf::from).or_else(|| {
            std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"))
        });
        Ok(base.context("there is no home directory: say --data DIR")?.join("semaforo"))
    }
}
