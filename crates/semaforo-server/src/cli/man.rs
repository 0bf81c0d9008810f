//! `semaforo man`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory};

use super::Arguments;
use super::output::Output;

/// Prints the manual page, or writes the pages of all commands
#[derive(Args, Debug)]
pub(super) struct Man {
    /// Where the pages of all commands are written
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode> {
        let command = Arguments::command();
        if let Some(directory) = &self.dir {
            let explain = || format!("cannot write manual pages into {}", directory.display());
            std::fs::create_dir_all(directory).with_context(explain)?;
            clap_mangen::generate_to(command, directory).with_context(explain)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        output.line(String::from_utf8_lossy(&page).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}
