//! `semaforo work`: a command for each message of a queue.

mod message;
mod workers;

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use semaforo_client::{Client, Error};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::workers::Workers;
use super::context::Context;
use super::duration;
use super::exit::{self, say};
use super::process::guarded_session::{GuardedSession, command, events_of_signals, send_when};

/// The most commands at a time: each waits for a message in a request of its own, and a session has
/// 1024.
const MOST_AT_A_TIME: u64 = 512;

/// Runs a command for each message of a queue
///
/// The command finds the message on its standard input, with a newline behind it, and
/// SEMAFORO_QUEUE, SEMAFORO_MESSAGE (its number) and SEMAFORO_DELIVERIES (1 for the first time) in
/// its environment. The message is acknowledged when the command exits with 0; otherwise it returns
/// to the queue. It returns also if this process dies.
///
/// SIGTERM, SIGINT or SIGHUP: no more messages are taken, and running commands can finish; a second
/// one terminates them.
#[derive(Args, Debug)]
pub(super) struct Work {
    /// The queue
    queue: String,
    /// How many commands run at a time
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_AT_A_TIME))]
    concurrency: u64,
    /// After so long without a word between this client and the server the messages return
    #[arg(long, value_name = "DURATION", value_parser = duration::time_to_live, default_value = "30s")]
    ttl: Duration,
    /// Ends after so many messages
    #[arg(long, value_name = "N")]
    max: Option<u64>,
    /// Ends when there was no message for this time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    idle_exit: Option<Duration>,
    /// How long a message rests after its command has failed
    #[arg(long, value_name = "DURATION", value_parser = duration::patience, default_value = "1s")]
    retry_delay: Duration,
    /// How often a message is tried, before it is given up
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_deliveries: Option<u64>,
    /// Where messages go that are given up; otherwise they are dropped
    #[arg(long, value_name = "QUEUE", requires = "max_deliveries")]
    dead: Option<String>,
    /// How long a command has to end when it is terminated, before it is killed
    #[arg(long, value_name = "DURATION", value_parser = duration::patience, default_value = "10s")]
    grace: Duration,
    /// A message that is a JSON string is passed to the command as its text
    #[arg(long)]
    raw: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What the main thread waits for.
enum Event {
    Signal,
    /// The client has given up the session.
    Lost,
    /// One of the worker threads takes no more messages.
    Left(Result<()>),
}

impl Work {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        let (sender, events) = events_of_signals(&[SIGTERM, SIGINT, SIGHUP], |_| Event::Signal)?;
        let client = context.connection.open(self.ttl)?;
        self.prepare(context, &client)?;
        let (session, mut guardian) =
            GuardedSession::start(context, &client, self.ttl, self.grace)?;
        send_when(session.lost(), &sender, Event::Lost);
        guardian.until(session.ends());

        let concurrency = self.concurrency;
        let workers = Arc::new(Workers::new(self, context, client.clone(), guardian));
        for _ in 0..concurrency {
            let (workers, sender) = (Arc::clone(&workers), sender.clone());
            thread::spawn(move || {
                let result = workers.work();
                let _ = sender.send(Event::Left(result));
            });
        }
        let mut watch =
            Watch { workers, session, left: concurrency, kill_at: None, lost: false, asked: 0 };
        let result = watch.run(&events);
        // Some of the worker threads may have noticed before the main thread.
        let lost = watch.lost || watch.session.is_lost();
        let guardian = watch.workers.take_guardian();
        let _ = client.close().wait();
        if let Some(guardian) = guardian {
            guardian.stop();
        }
        match result {
            _ if lost => Ok(ExitCode::from(exit::SESSION_LOST)),
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
        }
    }

    /// Looks whether the queue is there, and makes the one for what is given up.
    fn prepare(&self, context: &Context, client: &Client) -> Result<()> {
        if let Err(error) = client.queue(&self.queue).show().wait() {
            context.output.refusal(&error)?;
            return Err(error.into());
        }
        match self.dead.as_deref().map(|dead| client.queue(dead).create(0).wait()) {
            // With another capacity it is there all the same.
            None | Some(Ok(_) | Err(Error::Conflict(_))) => Ok(()),
            Some(Err(error)) => Err(anyhow!(error).context("the queue of --dead")),
        }
    }

    fn command(&self) -> Command {
        let mut command = command(&self.command);
        command.stdin(Stdio::piped());
        command
    }
}

/// What the main thread knows.
struct Watch {
    workers: Arc<Workers>,
    session: GuardedSession,
    /// How many of the worker threads still take messages.
    left: u64,
    kill_at: Option<Instant>,
    lost: bool,
    /// How many signals have asked for an end.
    asked: u32,
}

impl Watch {
    /// Until all worker threads have left.
    fn run(&mut self, events: &Receiver<Event>) -> Result<()> {
        let mut result = Ok(());
        while self.left > 0 {
            self.look_at_the_session();
            self.look_at_the_clock();
            let wait = self.next_time().map(|time| time.saturating_duration_since(Instant::now()));
            let event = match wait {
                Some(wait) => events.recv_timeout(wait),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Signal) => self.signalled(),
                Ok(Event::Lost) => {
                    let grace = Instant::now() + self.session.grace();
                    self.lose("the session is lost: terminating the commands", grace);
                }
                Ok(Event::Left(ended)) => {
                    self.left -= 1;
                    if ended.is_err() && result.is_ok() {
                        self.workers.stop();
                        result = ended;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        result
    }

    fn next_time(&self) -> Option<Instant> {
        let coming = self.session.next_look().min(self.session.asking_time());
        [Some(coming).filter(|_| !self.lost), self.kill_at].into_iter().flatten().min()
    }

    fn look_at_the_session(&mut self) {
        if self.session.look() {
            self.workers.renewed(&self.session);
        }
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|time| time <= now) {
            self.kill_at = None;
            self.workers.kill();
        }
        if !self.lost && self.session.asking_time() <= now {
            let text = format!("{}: terminating the commands", self.session.silence());
            self.lose(&text, self.session.ends());
        }
    }

    fn lose(&mut self, text: &str, kill_at: Instant) {
        if !std::mem::replace(&mut self.lost, true) {
            say(text);
            self.workers.terminate();
            self.kill_by(kill_at);
        }
    }

    /// The commands are killed then, or earlier if that was said before.
    fn kill_by(&mut self, time: Instant) {
        self.kill_at = Some(self.kill_at.map_or(time, |before| before.min(time)));
    }

    fn signalled(&mut self) {
        self.asked += 1;
        match self.asked {
            1 => self.workers.stop(),
            2 => {
                self.workers.terminate();
                self.kill_by(Instant::now() + self.session.grace());
            }
            _ => self.workers.kill(),
        }
    }
}
