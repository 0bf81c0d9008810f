//! While the command runs.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use rustix::process::{Signal, WaitStatus, getppid, getsid, kill_current_process_group};
use semaforo_client::{Client, Error};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP, SIGTTIN, SIGTTOU};
use signal_hook::low_level::emulate_default_handler;

use super::holdings::{self, Held};
use super::{Event, OnLost, Run};
use crate::cli::context::Context;
use crate::cli::exit::{self, not_started, say};
use crate::cli::process::group::Group;
use crate::cli::process::guarded_session::{GuardedSession, command, send_when};
use crate::cli::process::guardian::Guardian;
use crate::cli::process::signals;
use crate::cli::process::terminal::Terminal;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited(u8),
    Signalled(i32),
    /// By Ctrl-C: the parent of this process wants to know that.
    Interrupted,
    /// The session was lost, and the command terminated.
    Lost,
}

impl Ending {
    pub(super) fn exit(self) -> ExitCode {
        match self {
            Self::Exited(status) => ExitCode::from(status),
            Self::Signalled(signal) => ExitCode::from(exit::by_signal(signal)),
            Self::Interrupted => {
                // The terminal would have told all of this process's group if the command were in
                // it. A script stops only if it was told, and if the program that it waits for died
                // of the signal.
                let _ = kill_current_process_group(Signal::INT);
                let _ = emulate_default_handler(SIGINT);
                ExitCode::from(exit::by_signal(SIGINT))
            }
            Self::Lost => ExitCode::from(exit::SESSION_LOST),
        }
    }
}

/// Runs the command, releases what is held when it has ended, and tells how it ended.
pub(super) fn run(
    run: &Run,
    context: &Context,
    client: &Client,
    held: Vec<Held>,
    sender: Sender<Event>,
    events: &Receiver<Event>,
) -> Result<Ending> {
    for held in &held {
        send_when(held.hold().lost(), &sender, Event::Lost);
    }
    let (session, mut guardian) = GuardedSession::start(context, client, run.ttl, run.grace)?;

    let mut command = command(&run.command);
    command
        .env("SEMAFORO_SERVER", &context.connection.server)
        .env("SEMAFORO_HOLDINGS", holdings::list(&held));
    if let Some(fence) = holdings::fence(&held) {
        command.env("SEMAFORO_FENCE", fence.to_string());
    }
    let terminal = Terminal::open();
    // A script that starts something in the background has it ignore interrupts, and may itself
    // need the terminal.
    let is_in_background = signals::is_ignored(SIGINT);
    let turn =
        terminal.as_ref().map(|terminal| (terminal, terminal.is_ours() && !is_in_background));
    if run.on_lost == OnLost::Terminate {
        // If this process is stopped from here on for too long, the guardian ends the command when
        // it begins.
        guardian.until(session.ends());
    }
    if session.is_lost() || held.iter().any(|held| held.hold().is_lost()) {
        guardian.stop();
        return Err(anyhow!(Error::SessionLost).context("before the command was started"));
    }
    let group = match Group::start(&mut command, Some(guardian.pipe()), turn) {
        Ok((group, _)) => group,
        Err(error) => {
            if let Some((terminal, true)) = turn {
                terminal.take_back();
            }
            guardian.stop();
            return Err(not_started(&command, &error));
        }
    };
    thread::spawn(move || {
        loop {
            let status = group.wait();
            let was_stopped = status.as_ref().is_ok_and(|status| status.stopped());
            if sender.send(Event::Child(status)).is_err() || !was_stopped {
                return;
            }
        }
    });
    let mut supervision =
        Supervision { run, session, guardian, group, terminal, is_lost: false, ending: None };
    let ending = supervision.watch(events);
    let guardian = supervision.finish();
    // The next holders go on before the parent of this process learns that it has ended.
    drop(held);
    let _ = client.clone().close().wait();
    guardian.stop();
    ending
}

/// The command while it runs, and all that watches over it.
struct Supervision<'a> {
    run: &'a Run,
    session: GuardedSession,
    guardian: Guardian,
    group: Group,
    terminal: Option<Terminal>,
    is_lost: bool,
    /// The command was told to end; it is killed then.
    ending: Option<Kill>,
}

#[derive(Clone, Copy)]
struct Kill {
    at: Instant,
    is_done: bool,
}

impl Supervision<'_> {
    fn watch(&mut self, events: &Receiver<Event>) -> Result<Ending> {
        loop {
            self.look_at_the_session();
            self.look_at_the_clock();
            let event = match self.next_time() {
                Some(time) => events.recv_timeout(time.saturating_duration_since(Instant::now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Signal(SIGCONT)) => self.go_on(),
                Ok(Event::Signal(signal)) => self.group.send(signal),
                Ok(Event::Child(status)) => {
                    let status = status.context("the command cannot be waited for")?;
                    match status.stopping_signal() {
                        Some(signal) => self.stopped(signal),
                        None => return Ok(self.ended(status)),
                    }
                }
                Ok(Event::Lost) => self.lost(),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(anyhow!("nobody waits for the command any more"));
                }
            }
        }
    }

    fn terminates(&self) -> bool {
        self.run.on_lost == OnLost::Terminate
    }

    /// When the command has to be told to end, if nothing is heard.
    fn asking_time(&self) -> Option<Instant> {
        self.terminates().then(|| self.session.asking_time())
    }

    fn next_time(&self) -> Option<Instant> {
        match self.ending {
            Some(Kill { at, is_done: false }) => Some(at),
            Some(_) => None,
            None => {
                let look = self.session.next_look();
                Some(self.asking_time().map_or(look, |time| time.min(look)))
            }
        }
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        match self.ending {
            Some(Kill { at, is_done: false }) if now >= at => {
                self.ending = Some(Kill { at, is_done: true });
                self.group.kill();
            }
            Some(_) => {}
            None if self.asking_time().is_some_and(|time| time <= now) => {
                say(&format!("{}: terminating the command", self.session.silence()));
                self.terminate(self.session.ends());
            }
            None => {}
        }
    }

    fn terminate(&mut self, kill_at: Instant) {
        self.group.terminate();
        self.ending = Some(Kill { at: kill_at, is_done: false });
    }

    fn look_at_the_session(&mut self) {
        if !self.session.look() {
            return;
        }
        self.session.replace_if_gone(&mut self.guardian, [self.group]);
        // What was told to end is not spared any more.
        if self.terminates() && self.ending.is_none() {
            self.guardian.until(self.session.ends());
        }
    }

    fn lost(&mut self) {
        if std::mem::replace(&mut self.is_lost, true) || self.ending.is_some() {
            return;
        }
        if self.terminates() {
            say("the session is lost: terminating the command");
            self.terminate(Instant::now() + self.run.grace);
        } else {
            say("the session is lost: others may hold now what this command was to hold alone");
        }
    }

    /// The command was stopped: so is this process, and with it whatever a shell takes for one job.
    fn stopped(&mut self, signal: i32) {
        if !matches!(signal, SIGTSTP | SIGTTIN | SIGTTOU) {
            return;
        }
        let Some(terminal) = &self.terminal else { return };
        let shell = getppid().and_then(|parent| getsid(Some(parent)).ok());
        if shell.is_none() || shell != getsid(None).ok() {
            // There is no shell that could continue this process.
            return self.group.send(SIGCONT);
        }
        if terminal.is_of(self.group.leader()) {
            terminal.take_back();
        }
        let _ = kill_current_process_group(Signal::STOP);
    }

    /// This process was continued, and perhaps given the terminal.
    fn go_on(&mut self) {
        if let Some(terminal) = &self.terminal
            && terminal.is_ours()
        {
            terminal.give_to(self.group.leader());
        }
        self.group.send(SIGCONT);
    }

    fn ended(&mut self, status: WaitStatus) -> Ending {
        // While this process was stopped, the guardian may have ended it, or asked it to end.
        let was_guarded = self.terminates() && self.session.is_within_last_notice();
        if self.ending.is_some() || was_guarded {
            self.end_group();
            return Ending::Lost;
        }
        let had_terminal =
            self.terminal.as_ref().is_some_and(|terminal| terminal.is_of(self.group.leader()));
        match (status.terminating_signal(), status.exit_status()) {
            (Some(SIGINT), _) if had_terminal => Ending::Interrupted,
            (Some(signal), _) => Ending::Signalled(signal),
            (None, status) => {
                let status = status.and_then(|status| u8::try_from(status).ok());
                Ending::Exited(status.unwrap_or(exit::FAILURE))
            }
        }
    }

    /// The command has ended because the session is lost: nothing of what it started may go on.
    fn end_group(&mut self) {
        let kill_at = self.ending.map_or_else(Instant::now, |kill| kill.at);
        self.group.outlast(|| {
            if Instant::now() >= kill_at {
                self.group.kill();
            }
        });
    }

    /// Lets go of the terminal and of the command, which has ended.
    fn finish(mut self) -> Guardian {
        self.guardian.ended(self.group);
        if let Some(terminal) = &self.terminal
            && terminal.is_of(self.group.leader())
        {
            terminal.take_back();
        }
        self.guardian
    }
}
