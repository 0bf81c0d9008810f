//! `semaforo work`: a command for each message of a queue.

mod crew;
mod message;

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use semaforo_client::{Client, Error, Session};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::crew::Crew;
use super::context::Context;
use super::duration;
use super::exit::{self, say};
use super::process::guardian::Guardian;
use super::process::lifetime;
use super::process::orders::Orders;
use super::process::signals;

/// The most commands at a time: each waits for a message in a request of its own, and a session has 1024.
const MOST_AT_A_TIME: u64 = 512;

/// Runs a command for each message of a queue
///
/// The command finds the message on its standard input, with a newline behind it, and SEMAFORO_QUEUE, SEMAFORO_MESSAGE
/// (its number) and SEMAFORO_DELIVERIES (1 for the first time) in its environment. The message is acknowledged when
/// the command exits with 0; otherwise it returns to the queue. It returns also if this process dies.
///
/// SIGTERM, SIGINT or SIGHUP: no more messages are taken, and running commands can finish; a second one terminates
/// them.
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
    /// One of the crew takes no more messages.
    Left(Result<()>),
}

impl Work {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode> {
        signals::heed_children();
        let (sender, events) = mpsc::channel();
        let signal_sender = sender.clone();
        signals::watch(&[SIGTERM, SIGINT, SIGHUP], move |_| {
            let _ = signal_sender.send(Event::Signal);
        })?;
        let client = context.connection.open(self.ttl)?;
        self.prepare(context, &client)?;
        let session = client.session().wait()?;
        let (lost, lost_sender) = (session.lost(), sender.clone());
        thread::spawn(move || {
            lost.cancelled().wait();
            let _ = lost_sender.send(Event::Lost);
        });
        let ends = session.ends();
        let orders = Orders {
            connection: context.connection.clone(),
            token: context.connection.token()?,
            session: session.id().to_owned(),
            ttl: self.ttl,
            grace: self.grace,
        };
        let mut guardian = Guardian::start(&orders)?;
        guardian.until(ends);

        let concurrency = self.concurrency;
        let crew = Arc::new(Crew::new(self, context, client.clone(), guardian));
        for _ in 0..concurrency {
            let (crew, sender) = (Arc::clone(&crew), sender.clone());
            thread::spawn(move || {
                let result = crew.work();
                let _ = sender.send(Event::Left(result));
            });
        }
        let mut watch = Watch {
            crew,
            orders,
            session,
            ends,
            left: concurrency,
            kill_at: None,
            lost: false,
            asked: 0,
        };
        let result = watch.run(&events);
        // Some of the crew may have noticed before the main thread.
        let lost = watch.lost || watch.session.is_lost();
        let guardian = watch.crew.dismiss();
        let _ = client.close().wait();
        if let Some(guardian) = guardian {
            guardian.farewell();
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
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().map_or("".as_ref(), |word| word.as_os_str()));
        command.args(words).stdin(Stdio::piped());
        command
    }
}

/// What the main thread knows.
struct Watch {
    crew: Arc<Crew>,
    orders: Orders,
    session: Session,
    /// Until then the session lives for sure, as the guardian was told.
    ends: Instant,
    /// How many of the crew still work.
    left: u64,
    kill_at: Option<Instant>,
    lost: bool,
    /// How many signals have asked for an end.
    asked: u32,
}

impl Watch {
    /// Until all of the crew have left.
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
                    let grace = Instant::now() + self.orders.grace;
                    self.lose("the session is lost: terminating the commands", grace);
                }
                Ok(Event::Left(ended)) => {
                    self.left -= 1;
                    if ended.is_err() && result.is_ok() {
                        self.crew.stop();
                        result = ended;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        result
    }

    fn asking_time(&self) -> Option<Instant> {
        self.ends.checked_sub(lifetime::notice(self.orders.ttl, self.orders.grace))
    }

    fn next_time(&self) -> Option<Instant> {
        let glance = Instant::now() + lifetime::glance(self.orders.ttl);
        let coming = [Some(glance), self.asking_time()].into_iter().flatten().min();
        [coming.filter(|_| !self.lost), self.kill_at].into_iter().flatten().min()
    }

    fn look_at_the_session(&mut self) {
        let ends = self.session.ends();
        if ends > self.ends {
            self.ends = ends;
            self.crew.renewed(&self.orders, ends);
        } else if !self.session.is_lost() {
            // It comes nearer while the machine sleeps.
            self.ends = ends;
        }
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|time| time <= now) {
            self.kill_at = None;
            self.crew.kill();
        }
        if !self.lost && self.asking_time().is_some_and(|time| time <= now) {
            let server = &self.orders.connection.server;
            let text = format!(
                "nothing is heard of {server}, and the session is about to end: terminating the commands"
            );
            self.lose(&text, self.ends);
        }
    }

    fn lose(&mut self, text: &str, kill_at: Instant) {
        if !std::mem::replace(&mut self.lost, true) {
            say(text);
            self.crew.terminate();
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
            1 => self.crew.stop(),
            2 => {
                self.crew.terminate();
                self.kill_by(Instant::now() + self.orders.grace);
            }
            _ => self.crew.kill(),
        }
    }
}
