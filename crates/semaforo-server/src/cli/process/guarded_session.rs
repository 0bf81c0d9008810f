//! What `run` and `work` begin with: signals as events, a client, and a session with a guardian.

use std::ffi::OsString;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use semaforo::CancelToken;
use semaforo_client::{Client, Session};

use super::group::Group;
use super::guardian::Guardian;
use super::guardian_messages::GuardianSetup;
use super::{lifetime, signals};
use crate::cli::context::Context;

/// The events of a process that supervises children, and the way to cause some.
pub(in crate::cli) type Events<E> = (Sender<E>, Receiver<E>);

/// Makes events of signals, from now on.
pub(in crate::cli) fn events_of_signals<E: Send + 'static>(
    watched: &[i32],
    event: impl Fn(i32) -> E + Send + 'static,
) -> Result<Events<E>> {
    signals::heed_children();
    let (sender, events) = mpsc::channel();
    let signal_sender = sender.clone();
    signals::watch(watched, move |signal| {
        let _ = signal_sender.send(event(signal));
    })?;
    Ok((sender, events))
}

/// Causes this event when the token fires.
pub(in crate::cli) fn send_when<E: Send + 'static>(
    token: CancelToken,
    sender: &Sender<E>,
    event: E,
) {
    let sender = sender.clone();
    thread::spawn(move || {
        token.cancelled().wait();
        let _ = sender.send(event);
    });
}

/// The command that stands behind `--`.
pub(in crate::cli) fn command(words: &[OsString]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or("".as_ref(), |word| word.as_os_str()));
    command.args(words);
    command
}

/// A session under which children run.
#[derive(Debug)]
pub(in crate::cli) struct GuardedSession {
    session: Session,
    setup: GuardianSetup,
    /// Until then the session lives for sure, as the guardian was told.
    ends: Instant,
}

impl GuardedSession {
    /// The client's session, with a guardian that has still to be told until when it lives.
    pub(in crate::cli) fn start(
        context: &Context,
        client: &Client,
        ttl: Duration,
        grace: Duration,
    ) -> Result<(Self, Guardian)> {
        let session = client.session().wait()?;
        let setup = GuardianSetup {
            connection: context.connection.clone(),
            token: context.connection.token()?,
            session: session.id().to_owned(),
            ttl,
            grace,
        };
        let guardian = Guardian::start(&setup)?;
        let ends = session.ends();
        Ok((Self { session, setup, ends }, guardian))
    }

    /// How long a child has between being asked to end and being killed.
    pub(in crate::cli) const fn grace(&self) -> Duration {
        self.setup.grace
    }

    pub(in crate::cli) const fn ends(&self) -> Instant {
        self.ends
    }

    pub(in crate::cli) fn is_lost(&self) -> bool {
        self.session.is_lost()
    }

    pub(in crate::cli) fn lost(&self) -> CancelToken {
        self.session.lost()
    }

    /// When the children have to be asked to end, if nothing is heard from the server.
    pub(in crate::cli) fn asking_time(&self) -> Instant {
        let notice = lifetime::notice(self.setup.ttl, self.setup.grace);
        self.ends.checked_sub(notice).unwrap_or(self.ends)
    }

    /// Whether the guardian may have asked the children to end, because this process was stopped.
    pub(in crate::cli) fn is_within_last_notice(&self) -> bool {
        let notice = lifetime::last_notice(self.setup.ttl, self.setup.grace);
        Instant::now() + notice >= self.ends
    }

    /// When to [look](Self::look) the next time.
    pub(in crate::cli) fn next_look(&self) -> Instant {
        Instant::now() + lifetime::glance(self.setup.ttl)
    }

    /// Looks until when the session lives, and whether that is later than the guardian knows.
    pub(in crate::cli) fn look(&mut self) -> bool {
        let ends = self.session.ends();
        let is_renewed = ends > self.ends;
        // It comes nearer while the machine sleeps.
        if is_renewed || !self.session.is_lost() {
            self.ends = ends;
        }
        is_renewed
    }

    /// Starts another guardian of these children if this one is gone.
    pub(in crate::cli) fn replace_if_gone(
        &self,
        guardian: &mut Guardian,
        children: impl IntoIterator<Item = Group>,
    ) {
        if !guardian.is_running()
            && let Ok(mut another) = Guardian::start(&self.setup)
        {
            for group in children {
                another.began(group);
            }
            *guardian = another;
        }
    }

    /// What people are told when the children have to be asked to end.
    pub(in crate::cli) fn silence(&self) -> String {
        let server = &self.setup.connection.server;
        format!("nothing is heard of {server}, and the session is about to end")
    }
}
