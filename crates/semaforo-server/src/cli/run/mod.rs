//! `semaforo run`: holds something for exactly as long as a command runs.

mod holdings;
mod progress;
mod supervision;
mod waiting;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use rustix::process::WaitStatus;
use semaforo_client::Error;
use signal_hook::consts::{
    SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

use self::holdings::{Held, Wanted};
use super::context::Context;
use super::duration;
use super::exit::Failure;
use super::process::guarded_session::events_of_signals;

/// What is passed on to the child.
const FORWARDED: [i32; 9] =
    [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP];

/// Runs a command while holding a lock, permits of a semaphore, or a reader-writer lock
///
/// Everything is held before the command starts, for exactly as long as it runs. Several things are
/// acquired in one order, whatever the order here, so that two runs never wait for each other.
/// Signals are passed on to the command, whose status is the exit status. It finds SEMAFORO_FENCE,
/// SEMAFORO_HOLDINGS and SEMAFORO_SERVER in its environment.
///
/// If the session is lost, the command is terminated before another can hold what it held, as far
/// as that can be known on this machine. Only a resource that checks fences is safe from a holder
/// that was paused.
#[derive(Args, Debug)]
pub(super) struct Run {
    /// Holds a lock (may be repeated)
    #[arg(long, value_name = "NAME")]
    lock: Vec<String>,
    /// Holds permits of a semaphore
    #[arg(long, value_name = "NAME")]
    semaphore: Option<String>,
    /// How many permits the semaphore has; it is created if need be
    #[arg(long, value_name = "N", requires = "semaphore")]
    of: Option<u32>,
    /// How many permits to hold
    #[arg(long, value_name = "U", requires = "semaphore", default_value_t = 1)]
    units: u32,
    /// Holds a reader-writer lock; say --read or --write
    #[arg(long, value_name = "NAME")]
    rwlock: Option<String>,
    /// Holds the reader-writer lock together with other readers
    #[arg(long, requires = "rwlock", conflicts_with = "write")]
    read: bool,
    /// Holds the reader-writer lock alone
    #[arg(long, requires = "rwlock")]
    write: bool,
    /// How long to wait for all of it; 0s: now or not at all
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// After so long without a word between this client and the server the session ends
    #[arg(long, value_name = "DURATION", value_parser = duration::time_to_live, default_value = "10s")]
    ttl: Duration,
    /// What to do with the command if the session is lost
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnLost::Terminate)]
    on_lost: OnLost,
    /// How long the command has to end when it is terminated, before it is killed
    #[arg(long, value_name = "DURATION", value_parser = duration::patience, default_value = "10s")]
    grace: Duration,
    /// Says nothing while it waits
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLost {
    /// The command is terminated, and killed if need be
    Terminate,
    /// Only a line on the standard error
    Warn,
}

/// What `run` waits for.
enum Event {
    Signal(i32),
    /// This one is being asked for.
    Asking(usize),
    /// All is held.
    Acquired(Vec<Held>),
    /// Something is not granted.
    Refused(usize, Error),
    /// The child has ended, or was stopped.
    Child(std::io::Result<WaitStatus>),
    /// The client has given up the session.
    Lost,
}

impl Run {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        let wanted = self.wanted()?;
        let (sender, events) = events_of_signals(&FORWARDED, Event::Signal)?;
        let client = context.connection.open(self.ttl)?;
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let result = waiting::acquire(&client, &wanted, deadline, self.quiet, &sender, &events)
            .and_then(|held| supervision::run(&self, context, &client, held, sender, &events));
        // What is held now is released, whatever happened.
        let _ = client.close().wait();
        result.map(supervision::Ending::exit)
    }

    /// What is to be held, in the order in which every `run` asks for it.
    fn wanted(&self) -> Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = self.lock.iter().cloned().map(Wanted::Lock).collect();
        if let Some(name) = self.semaphore.clone() {
            wanted.push(Wanted::Semaphore { name, of: self.of, units: self.units });
        }
        if let Some(name) = self.rwlock.clone() {
            if self.read == self.write {
                return Err(Failure::usage("--rwlock needs either --read or --write"));
            }
            wanted.push(Wanted::ReadWriteLock { name, write: self.write });
        }
        if wanted.is_empty() {
            return Err(Failure::usage(
                "what is to be held? say --lock NAME, --semaphore NAME --of N, or --rwlock NAME --write",
            ));
        }
        wanted.sort_by(|one, other| one.place().cmp(&other.place()));
        for pair in wanted.windows(2) {
            if let [one, other] = pair
                && one.place() == other.place()
            {
                return Err(Failure::usage(format!("{one} twice: it would wait for itself")));
            }
        }
        Ok(wanted)
    }
}
