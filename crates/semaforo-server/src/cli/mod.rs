//! The command line.

mod duration;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The command line was not understood (`EX_USAGE` of `sysexits.h`).
pub const USAGE: u8 = 64;

/// Semaphores, locks, barriers, queues and other synchronizers by name, across processes and machines.
#[derive(Debug, Parser)]
#[command(name = "semaforo", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server
    Serve(serve::Serve),
}

/// Does what the arguments, beginning with the program's name, say. The result is the process's exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let result = match arguments.command {
        Command::Serve(serve) => serve.run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("semaforo: {error:#}");
        ExitCode::FAILURE
    })
}
