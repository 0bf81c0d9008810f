//! `semaforo reload`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::context::Context;

/// Lets the server read its tokens and certificates again, as SIGHUP does
///
/// If a file cannot be used nothing changes. Connections whose token is not known any more are
/// closed; others go on with what theirs allows now.
#[derive(Args, Debug)]
pub(super) struct Reload {}

impl Reload {
    pub(super) fn run(&self, context: &Context) -> Result<ExitCode> {
        context.ask(|client| client.request("RELOAD", "/"))?;
        Ok(ExitCode::SUCCESS)
    }
}
