//! `semaforo session`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::connection::label;
use super::context::Context;
use super::duration;

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
    },
    /// Gives it its whole time to live again
    Keepalive {
        /// The session
        #[arg(value_name = "S", env = "SEMAFORO_SESSION", hide_env_values = true)]
        session: String,
    },
    /// Ends it: everything that it holds is released
    Close {
        /// The session
        #[arg(value_name = "S", env = "SEMAFORO_SESSION", hide_env_values = true)]
        session: String,
    },
}

const PATH: &str = "/sessions";

impl Session {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Open { ttl, label: shown } => context.ask(|client| {
                let shown = shown.unwrap_or_else(label);
                let request = client.request("OPEN", PATH).header("ttl", ttl.as_millis());
                request.header("label", shown)
            })?,
            Self::Keepalive { session } => {
                context
                    .ask(|client| client.request("KEEPALIVE", PATH).header("session", session))?;
            }
            Self::Close { session } => {
                context.ask(|client| client.request("CLOSE", PATH).header("session", session))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
