//! `semaforo completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Arguments;
use super::output::Output;

/// Prints what a shell needs to complete commands and options
#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode> {
        let mut script = Vec::new();
        let mut command = Arguments::command();
        clap_complete::generate(self.shell, &mut command, "semaforo", &mut script);
        output.line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}
