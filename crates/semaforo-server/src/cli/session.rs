//! `semaforo session`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use semaforo_client::Error;

use super::connection::label;
use super::context::Context;
use super::duration;
use super::held_session::{self, NewFile, SESSION_VARIABLE};

/// Opens a session that holds what several commands acquire
#[derive(Debug, Subcommand)]
pub(super) enum Session {
    /// Opens one; prints session=... and ttl=... (in milliseconds) for a shell to evaluate
    Open {
        /// How long it lives, unless it is kept alive
        #[arg(long, value_name = "DURATION", value_parser = duration::time_to_live, default_value = "60s")]
        ttl: Duration,
        /// What others see of it [default: user@host:pid]
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
        /// Writes the session to this file, which must not be there yet, instead of printing it
        #[arg(long, value_name = "FILE")]
        session_file: Option<PathBuf>,
    },
    /// Gives it its whole time to live again
    Keepalive(Said),
    /// Ends it: everything that it holds is released
    Close(Said),
}

/// Which session.
#[derive(Args, Debug)]
pub(super) struct Said {
    /// The session; other users can see it in the arguments of a process
    #[arg(
        value_name = "S",
        env = SESSION_VARIABLE,
        hide_env_values = true,
        required_unless_present = "session_file"
    )]
    session: Option<String>,
    /// A file that has the session; `close` removes it
    #[arg(long, value_name = "FILE")]
    session_file: Option<PathBuf>,
}

const PATH: &str = "/sessions";

impl Said {
    fn session(&self) -> Result<String> {
        held_session::of(self.session.as_deref(), self.session_file.as_deref())
    }
}

impl Session {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Open { ttl, label: shown, session_file } => {
                let file = session_file.as_deref().map(NewFile::create).transpose()?;
                let mut reply = context.answer(|client| {
                    let shown = shown.unwrap_or_else(label);
                    let request = client.request("OPEN", PATH).header("ttl", ttl.as_millis());
                    request.header("label", shown)
                })?;
                if let Some(file) = file {
                    file.write(reply.header("session").unwrap_or_default())?;
                    reply.headers.retain(|(name, _)| name != "session");
                }
                context.output.answer(&reply)?;
            }
            Self::Keepalive(said) => {
                let session = said.session()?;
                context
                    .ask(|client| client.request("KEEPALIVE", PATH).header("session", session))?;
            }
            Self::Close(said) => {
                let session = said.session()?;
                let closed =
                    context.ask(|client| client.request("CLOSE", PATH).header("session", session));
                let is_over = match &closed {
                    Ok(()) => true,
                    Err(error) => matches!(error.downcast_ref(), Some(Error::Gone(_))),
                };
                if let Some(file) = said.session_file.filter(|_| is_over) {
                    let removed = std::fs::remove_file(&file);
                    removed.with_context(|| format!("cannot remove {}", file.display()))?;
                }
                closed?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
