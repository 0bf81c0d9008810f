//! `semaforo semaphore`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use super::context::Context;
use super::holds::{Acquire, Check, Held};
use super::show;

/// Makes a semaphore, acquires and releases its permits by hand; `run --semaphore` does all of that
#[derive(Debug, Subcommand)]
pub(super) enum Semaphore {
    /// Makes a semaphore; prints created=..., false if it was there already
    Create {
        /// Its name
        name: String,
        /// How many permits it has
        #[arg(long, value_name = "N")]
        permits: u32,
        /// It only counts: to acquire permits uses them up, and any client may add some, with
        /// `semaphore add`
        #[arg(long)]
        open: bool,
        /// How many there are at first [default: all]
        #[arg(long, value_name = "N", requires = "open")]
        initial: Option<u32>,
    },
    /// Acquires permits; prints session=... and fence=... for a shell to evaluate, and nothing if
    /// it is open
    Acquire {
        #[command(flatten)]
        acquire: Acquire,
        /// How many
        #[arg(long, value_name = "U", default_value_t = 1)]
        units: u32,
    },
    /// Gives permits back
    Release {
        #[command(flatten)]
        held: Held,
        /// How many [default: all of the hold]
        #[arg(long, value_name = "U")]
        units: Option<u32>,
    },
    /// Adds permits to an open semaphore
    Add {
        /// Its name
        name: String,
        /// How many
        #[arg(long, value_name = "U", default_value_t = 1)]
        units: u32,
    },
    /// Lets it have more permits, or fewer: what is held beyond that is kept back when it is
    /// released
    Resize {
        /// Its name
        name: String,
        /// How many it has from now on; of an open one: the most that it can have
        #[arg(long, value_name = "N")]
        permits: u32,
    },
    /// Whether a hold exists: exit status 0 if it does, 1 if it is over
    Check(Check),
    /// Shows who holds permits, and who waits
    Show {
        /// Its name
        name: String,
    },
    /// Deletes it; holds of it end
    Delete {
        /// Its name
        name: String,
    },
}

fn path(name: &str) -> String {
    format!("/semaphores/{name}")
}

impl Semaphore {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Create { name, permits, open, initial } => context.wait(None, |client| {
                let request = client.request("CREATE", path(&name)).header("permits", permits);
                let request = request.header("open", open);
                match initial {
                    Some(initial) => request.header("initial", initial),
                    None => request,
                }
            })?,
            // In a session, so that it is done once, also if the connection is lost.
            Self::Add { name, units } => context.wait(None, |client| {
                client.request("RELEASE", path(&name)).header("permits", units)
            })?,
            Self::Resize { name, permits } => context.wait(None, |client| {
                client.request("RESIZE", path(&name)).header("permits", permits)
            })?,
            Self::Acquire { acquire, units } => {
                let path = path(&acquire.name);
                acquire.run(context, &path, &[("permits", units.to_string())])?;
            }
            Self::Release { held, units } => {
                let session = held.session()?;
                context.ask(|client| {
                    let request = held.request(client, &session, "RELEASE", path(&held.name));
                    match units {
                        Some(units) => request.header("permits", units),
                        None => request,
                    }
                })?;
            }
            Self::Check(check) => check.run(context, path(&check.name))?,
            Self::Show { name } => show::object(context, &path(&name))?,
            Self::Delete { name } => {
                context.ask(|client| client.request("DELETE", path(&name)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
