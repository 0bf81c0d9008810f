//! `semaforo barrier`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::context::Context;
use super::{duration, show};

/// Waits until a number of parties have arrived
#[derive(Debug, Subcommand)]
pub(super) enum Barrier {
    /// Arrives, and waits for the others; prints generation=... and index=...
    ///
    /// A party that times out or goes away breaks the barrier: the others, and all who come, fail
    /// until `reset`.
    Wait {
        /// Its name
        name: String,
        /// How many have to arrive
        #[arg(long, value_name = "N")]
        parties: u32,
        /// How long to wait
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        timeout: Option<Duration>,
    },
    /// Makes a broken barrier whole; parties that wait fail
    Reset {
        /// Its name
        name: String,
    },
    /// Shows who has arrived
    Show {
        /// Its name
        name: String,
    },
}

fn path(name: &str) -> String {
    format!("/barriers/{name}")
}

impl Barrier {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Wait { name, parties, timeout } => context.wait(timeout, |client| {
                client.request("ARRIVE", path(&name)).header("parties", parties)
            })?,
            Self::Reset { name } => {
                context.ask(|client| client.request("RESET", path(&name)))?;
            }
            Self::Show { name } => show::object(context, &path(&name))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
