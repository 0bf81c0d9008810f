//! The command line: one file, or folder, for each subcommand.
//!
//! [`exit`] has the statuses, `connection` and `context` how a request is made, `output` what is
//! printed, `process` what watches over children.

mod barrier;
mod completions;
mod connection;
mod context;
mod duration;
mod event;
pub mod exit;
mod held_session;
mod holds;
mod kind;
mod latch;
mod lock;
mod ls;
mod man;
mod output;
mod process;
mod queue;
mod reload;
mod run;
mod rwlock;
mod semaphore;
mod serve;
mod session;
mod show;
mod visible;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use self::connection::Connection;
use self::context::Context;
use self::output::Output;

/// Semaphores, locks, barriers, queues and other synchronizers by name, across processes and
/// machines
#[derive(Debug, Parser)]
#[command(name = "semaforo", version, max_term_width = 100, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Prints one JSON object per line instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server
    Serve(serve::Serve),
    Run(run::Run),
    Work(work::Work),
    #[command(subcommand)]
    Queue(queue::Queue),
    #[command(subcommand)]
    Lock(lock::Lock),
    #[command(subcommand)]
    Rwlock(rwlock::ReadWriteLock),
    #[command(subcommand)]
    Semaphore(semaphore::Semaphore),
    #[command(subcommand)]
    Session(session::Session),
    #[command(subcommand)]
    Latch(latch::Latch),
    #[command(subcommand)]
    Barrier(barrier::Barrier),
    #[command(subcommand)]
    Event(event::Event),
    Ls(ls::Ls),
    Show(show::Show),
    Reload(reload::Reload),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Does what the arguments, beginning with the program's name, say. The result is the process's
/// exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    if arguments.get(1..).is_some_and(|words| words == [process::guardian::WORD]) {
        // What only this program itself uses is not an option, not even a hidden one.
        let guarded = process::guardian::guard().map(|()| ExitCode::SUCCESS);
        return guarded.unwrap_or_else(|error| exit::report(&error));
    }
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(exit::USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    arguments.run().unwrap_or_else(|error| exit::report(&error))
}

impl Arguments {
    fn run(self) -> Result<ExitCode> {
        let output = Output { json: self.json };
        let context = Context { connection: self.connection, output };
        match self.command {
            Command::Serve(serve) => serve.run(context.connection.insecure),
            Command::Run(run) => run.run(&context),
            Command::Work(work) => work.run(&context),
            Command::Queue(queue) => queue.run(&context),
            Command::Lock(lock) => lock.run(&context),
            Command::Rwlock(rwlock) => rwlock.run(&context),
            Command::Semaphore(semaphore) => semaphore.run(&context),
            Command::Session(session) => session.run(&context),
            Command::Latch(latch) => latch.run(&context),
            Command::Barrier(barrier) => barrier.run(&context),
            Command::Event(event) => event.run(&context),
            Command::Ls(ls) => ls.run(&context),
            Command::Show(show) => show.run(&context),
            Command::Reload(reload) => reload.run(&context),
            Command::Completions(completions) => completions.run(output),
            Command::Man(man) => man.run(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }
}
