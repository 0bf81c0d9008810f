//! How the command line reaches the server: the options that every subcommand has.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use semaforo_client::{Client, Connect, Error};
use semaforo_protocol::limits::MAX_ID;

use super::duration;
use super::exit::{self, Failure};
use crate::server::files;

/// Where the token may be said. Children of `run` and `work` are not told.
pub(super) const TOKEN_VARIABLE: &str = "SEMAFORO_TOKEN";

/// How the server is reached.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// The server, host:port
    #[arg(
        long,
        global = true,
        value_name = "ADDR",
        env = "SEMAFORO_SERVER",
        default_value = "127.0.0.1:13000"
    )]
    pub(super) server: String,
    /// The token that the server wants
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = TOKEN_VARIABLE,
        hide_env_values = true
    )]
    token: Option<String>,
    /// A file that has the token, and nothing else; before --token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that sign the server's: the connection is encrypted
    #[arg(long, global = true, value_name = "FILE", env = "SEMAFORO_CA")]
    pub(super) ca: Option<PathBuf>,
    /// Sends the token to other machines also without encryption; `serve`: listens for other
    /// machines also without encryption or tokens
    #[arg(long, global = true)]
    pub(super) insecure: bool,
    /// How long connecting may take
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, default_value = "5s")]
    connect_timeout: Duration,
}

impl Connection {
    /// For a process that was told everything by another.
    pub(super) fn told(
        server: String,
        token: Option<String>,
        ca: Option<PathBuf>,
        insecure: bool,
    ) -> Self {
        let connect_timeout = Duration::from_secs(5);
        Self { server, token, token_file: None, ca, insecure, connect_timeout }
    }

    /// The token, wherever it is said.
    pub(super) fn token(&self) -> Result<Option<String>> {
        let Some(file) = &self.token_file else { return Ok(self.token.clone()) };
        let text = files::read_secret_text(file)
            .with_context(|| format!("cannot use the token file {}", file.display()))?;
        Ok(Some(text.trim().to_owned()))
    }

    /// Connects, with a session of this time to live when one is needed.
    pub(super) fn open(&self, ttl: Duration) -> Result<Client> {
        let mut connect = Client::connect(&*self.server).ttl(ttl).label(label());
        if let Some(token) = self.token()? {
            connect = connect.token(token);
        }
        if let Some(file) = &self.ca {
            connect = connect.certificate_authority(file);
        }
        if self.insecure {
            connect = connect.insecure();
        }
        match self.within_time(connect) {
            Ok(client) => Ok(client),
            Err(error) if error.is_unencrypted() => {
                let text = format!("{error}: --ca FILE encrypts, --insecure sends it all the same");
                Err(Failure::with(exit::NOT_ALLOWED, text))
            }
            Err(Error::CannotConnect(error)) => Err(Failure::with(
                exit::UNAVAILABLE,
                format!(
                    "cannot connect to {}: {error}; `semaforo serve` starts a server, --server or SEMAFORO_SERVER says where it is",
                    self.server
                ),
            )),
            Err(error) => Err(error.into()),
        }
    }

    fn within_time(&self, connect: Connect) -> Result<Client, Error> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(connect.wait()));
        receiver.recv_timeout(self.connect_timeout).unwrap_or_else(|_| {
            let message = format!("no answer within {:?}", self.connect_timeout);
            Err(Error::CannotConnect(std::io::Error::new(std::io::ErrorKind::TimedOut, message)))
        })
    }
}

/// What others see of this process: `user@host:pid`.
pub(super) fn label() -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let label = format!("{user}@{host}:{}", std::process::id());
    let mut label: String = label.chars().filter(|c| !c.is_control()).collect();
    while label.len() > MAX_ID {
        label.remove(0);
    }
    label
}
