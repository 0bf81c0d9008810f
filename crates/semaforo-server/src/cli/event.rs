//! `semaforo event`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::context::Context;
use super::{duration, show};

/// Waits until something has happened
#[derive(Debug, Subcommand)]
pub(super) enum Event {
    /// Makes an event; prints created=..., false if it was there already
    Create {
        /// Its name
        name: String,
        /// Each set lets one request through; otherwise all pass while it is set
        #[arg(long)]
        auto: bool,
        /// It is set from the beginning
        #[arg(long)]
        set: bool,
    },
    /// Sets it
    Set {
        /// Its name
        name: String,
    },
    /// Makes it unset
    Reset {
        /// Its name
        name: String,
    },
    /// Waits until it is set
    Wait {
        /// Its name
        name: String,
        /// How long to wait; 0s: now or not at all
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        timeout: Option<Duration>,
    },
    /// Shows whether it is set, and who waits
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
    format!("/events/{name}")
}

impl Event {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        let (method, name) = match self {
            Self::Create { name, auto, set } => {
                let reset = if auto { "auto" } else { "manual" };
                context.wait(None, |client| {
                    let request = client.request("CREATE", path(&name)).header("reset", reset);
                    request.header("set", set)
                })?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Wait { name, timeout } => {
                context.wait(timeout, |client| client.request("WAIT", path(&name)))?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Show { name } => {
                show::object(context, &path(&name))?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Set { name } => ("SET", name),
            Self::Reset { name } => ("RESET", name),
            Self::Delete { name } => ("DELETE", name),
        };
        context.ask(|client| client.request(method, path(&name)))?;
        Ok(ExitCode::SUCCESS)
    }
}
