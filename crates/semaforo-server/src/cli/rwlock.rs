//! `semaforo rwlock`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Subcommand};

use super::context::Context;
use super::holds::{Acquire, Check, Held};
use super::show;

/// Acquires and releases a reader-writer lock by hand; `run --rwlock` does both
#[derive(Debug, Subcommand)]
pub(super) enum ReadWriteLock {
    /// Acquires it; prints session=... and fence=... for a shell to evaluate
    #[command(group(ArgGroup::new("mode").required(true).args(["read", "write"])))]
    Acquire {
        #[command(flatten)]
        acquire: Acquire,
        /// Together with other readers
        #[arg(long)]
        read: bool,
        /// Alone
        #[arg(long)]
        write: bool,
    },
    /// Releases it
    Release(Held),
    /// Goes on as a reader; no writer comes in between
    Downgrade(Held),
    /// Goes on as a writer, with a new fence, if it is the only reader
    Upgrade(Held),
    /// Whether a hold exists: exit status 0 if it does, 1 if it is over
    Check(Check),
    /// Shows who holds it, and who waits
    Show {
        /// Its name
        name: String,
    },
}

fn path(name: &str) -> String {
    format!("/rwlocks/{name}")
}

impl ReadWriteLock {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        let (held, method) = match self {
            Self::Acquire { acquire, write, .. } => {
                let path = path(&acquire.name);
                let mode = if write { "write" } else { "read" };
                acquire.run(context, &path, &[("mode", mode.to_owned())])?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Check(check) => {
                check.run(context, path(&check.name))?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Show { name } => {
                show::object(context, &path(&name))?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Release(held) => (held, "RELEASE"),
            Self::Downgrade(held) => (held, "DOWNGRADE"),
            Self::Upgrade(held) => (held, "UPGRADE"),
        };
        let session = held.session()?;
        context.ask(|client| held.request(client, &session, method, path(&held.name)))?;
        Ok(ExitCode::SUCCESS)
    }
}
