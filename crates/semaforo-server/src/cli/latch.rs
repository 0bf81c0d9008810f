//! `semaforo latch`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::context::Context;
use super::{duration, show};

/// Waits until something has happened a number of times
#[derive(Debug, Subcommand)]
pub(super) enum Latch {
    /// Makes a latch; prints created=..., false if it was there already
    Create {
        /// Its name
        name: String,
        /// What it counts down from
        #[arg(long, value_name = "N")]
        count: u32,
    },
    /// Counts down; prints count=..., what is left
    Down {
        /// Its name
        name: String,
        /// By how much
        #[arg(long, value_name = "N", default_value_t = 1)]
        by: u32,
    },
    /// Waits until the count is zero
    Wait {
        /// Its name
        name: String,
        /// How long to wait; 0s: now or not at all
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        timeout: Option<Duration>,
    },
    /// Sets the count anew
    Reset {
        /// Its name
        name: String,
        /// To what [default: what it began with]
        #[arg(long, value_name = "N")]
        count: Option<u32>,
    },
    /// Shows the count, and who waits
    Show {
        /// Its name
        name: String,
    },
    /// Deletes it
    Delete {
        /// Its name
        name: String,
    },
}

fn path(name: &str) -> String {
    format!("/latches/{name}")
}

impl Latch {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Create { name, count } => {
                context.wait(None, |client| {
                    client.request("CREATE", path(&name)).header("count", count)
                })?;
            }
            Self::Down { name, by } => {
                // In a session, so that it counts once, also if the connection is lost.
                context
                    .wait(None, |client| client.request("DOWN", path(&name)).header("by", by))?;
            }
            Self::Wait { name, timeout } => {
                context.wait(timeout, |client| client.request("WAIT", path(&name)))?;
            }
            Self::Reset { name, count } => context.ask(|client| {
                let request = client.request("RESET", path(&name));
                match count {
                    Some(count) => request.header("count", count),
                    None => request,
                }
            })?,
            Self::Show { name } => show::object(context, &path(&name))?,
            Self::Delete { name } => {
                context.ask(|client| client.request("DELETE", path(&name)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
