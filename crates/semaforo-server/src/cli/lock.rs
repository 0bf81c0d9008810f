//! `semaforo lock`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use super::context::Context;
use super::holds::{Acquire, Check, Held};
use super::show;

/// Acquires and releases a lock by hand; `run --lock` does both
#[derive(Debug, Subcommand)]
pub(super) enum Lock {
    /// Acquires it; prints session=... and fence=... for a shell to evaluate
    Acquire(Acquire),
    /// Releases it
    Release(Held),
    /// Whether a hold exists: exit status 0 if it does, 1 if it is over
    Check(Check),
    /// Shows who holds it, and who waits
    Show {
        /// Its name
        name: String,
    },
}

fn path(name: &str) -> String {
    format!("/locks/{name}")
}

impl Lock {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Acquire(acquire) => {
                let path = path(&acquire.name);
                acquire.run(context, &path, &[])?;
            }
            Self::Release(held) => {
                let session = held.session()?;
                let path = path(&held.name);
                context.ask(|client| held.request(client, &session, "RELEASE", path))?;
            }
            Self::Check(check) => check.run(context, path(&check.name))?,
            Self::Show { name } => show::object(context, &path(&name))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
