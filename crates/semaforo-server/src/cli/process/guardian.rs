//! The guardian: a process that outlives the client, and ends what the client has started.
//!
//! It reads from a pipe whose other end only the client has. When the pipe ends the client was
//! killed, since a client that ends otherwise ends its guardian first: the guardian ends the
//! children, and then the session, so that the next in line starts when they are gone, and need not
//! wait for the session's time to be over. It knows until when the session lives for sure; if
//! nothing is heard until shortly before that, because the client is stopped, it ends the children
//! in time.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use semaforo_client::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::group::Group;
use super::guardian_messages::{GuardianMessage, GuardianSetup};
use super::lifetime::{self, clock, on_the_clock};
use super::lines::{Lines, Next};
use super::signals;
use crate::cli::connection::TOKEN_VARIABLE;

/// What the program is told to be a guardian.
pub(in crate::cli) const WORD: &str = "guardian";
/// What a guardian says when it is ready.
const READY: &str = "ready";
/// How often it is looked whether a group that was ended is gone.
const GLANCE: Duration = Duration::from_millis(5);
/// The clock is looked at so often at least, since the machine may have slept.
const ROUND: Duration = Duration::from_secs(1);

/// The client's end of it.
#[derive(Debug)]
pub(in crate::cli) struct Guardian {
    process: Child,
    pipe: ChildStdin,
}

impl Guardian {
    /// Starts a guardian, and waits until it is on its guard.
    pub(in crate::cli) fn start(setup: &GuardianSetup) -> Result<Self> {
        Self::begin(setup).context("cannot start the guardian of the child")
    }

    fn begin(setup: &GuardianSetup) -> Result<Self> {
        // The same program, also if another version has been installed meanwhile.
        let own = "/proc/self/exe";
        let program = if std::path::Path::new(own).exists() {
            own.into()
        } else {
            std::env::current_exe().context("where is this program?")?
        };
        let mut process = Command::new(program)
            .arg0("semaforo")
            .arg(WORD)
            .env_remove(TOKEN_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut pipe), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("there is no pipe");
        };
        pipe.write_all(setup.write().as_bytes())?;
        let mut answer = String::new();
        BufReader::new(output).read_line(&mut answer)?;
        if answer.trim_end() != READY {
            bail!("it says {answer:?} instead of {READY:?}");
        }
        // A guardian that hangs must not hold up the client.
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { process, pipe })
    }

    /// For children that announce themselves.
    pub(in crate::cli) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Whether it is still there.
    pub(in crate::cli) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The session lives until then for sure.
    pub(in crate::cli) fn until(&mut self, ends: Instant) {
        self.tell(GuardianMessage::Until(on_the_clock(ends)));
    }

    /// A child is there that it has not heard of.
    pub(in crate::cli) fn began(&mut self, group: Group) {
        self.tell(GuardianMessage::Began(group));
    }

    /// A child has ended. What it has left behind is not the guardian's business.
    pub(in crate::cli) fn ended(&mut self, group: Group) {
        self.tell(GuardianMessage::Ended(group));
    }

    /// There is nothing left to guard.
    pub(in crate::cli) fn stop(mut self) {
        // It has nothing to tidy up, and may be stopped, and not hear a word.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn tell(&mut self, message: GuardianMessage) {
        let told = self.pipe.write_all(message.write().as_bytes());
        if told.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // It has not listened for long, and must not act on old messages: another can do
            // better.
            let _ = self.process.kill();
        }
        // If it is gone, the kernel still watches over the child.
    }
}

/// What the guardian's process does.
pub(in crate::cli) fn guard() -> Result<()> {
    // A session of its own: what happens on the terminal does not concern it. A supervisor that
    // ends a whole service by signals means the client, and the client ends its guardian.
    let _ = rustix::process::setsid();
    signals::watch(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM], |_| {})?;
    let input = io::stdin();
    let mut lines = Lines::new(input.as_fd());
    let setup = lines.wait_for_line().and_then(|line| GuardianSetup::read(&line));
    let setup = setup.context("only semaforo itself uses this")?;
    let mut output = io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush())?;
    Watch::new(setup).run(&mut lines)
}

/// What a guardian knows.
#[derive(Debug)]
struct Watch {
    setup: GuardianSetup,
    groups: HashSet<Group>,
    /// When the session may end.
    until: Option<u64>,
    /// The children have been asked to end, because the session is about to.
    has_asked: bool,
}

impl Watch {
    fn new(setup: GuardianSetup) -> Self {
        Self { setup, groups: HashSet::new(), until: None, has_asked: false }
    }

    fn run(mut self, messages: &mut Lines<impl AsFd>) -> Result<()> {
        while self.look_around(messages) {
            messages.wait(self.next_glance());
        }
        self.end_children_and_session()
    }

    /// Hears what there is to be heard, and does what the time asks for. False if the client is
    /// gone.
    fn look_around(&mut self, messages: &mut Lines<impl AsFd>) -> bool {
        // The clock first: this process may have been stopped, or be stopped here, while the
        // session was renewed. What had been said at that time is known when it is acted upon.
        let now = clock();
        loop {
            match messages.next() {
                Next::Line(line) => self.hear(&line),
                Next::Nothing => break,
                Next::End => return false,
            }
        }
        self.act(now);
        true
    }

    fn hear(&mut self, line: &str) {
        match GuardianMessage::read(line) {
            Some(GuardianMessage::Began(group)) => {
                self.groups.insert(group);
                if self.has_asked {
                    group.terminate();
                }
            }
            Some(GuardianMessage::Ended(group)) => {
                self.groups.remove(&group);
            }
            Some(GuardianMessage::Until(time)) => {
                self.until = Some(time);
                self.has_asked = false;
            }
            None => {}
        }
    }

    /// When the children are asked to end.
    fn asking_time(&self) -> Option<u64> {
        let notice = lifetime::last_notice(self.setup.ttl, self.setup.grace);
        Some(self.until?.saturating_sub(u64::try_from(notice.as_millis()).unwrap_or(0)))
    }

    fn act(&mut self, now: u64) {
        let (Some(ask), Some(end)) = (self.asking_time(), self.until) else { return };
        if now >= end {
            // So it stays: what begins later is late.
            for group in self.groups.drain() {
                group.kill();
            }
        } else if now >= ask && !std::mem::replace(&mut self.has_asked, true) {
            for group in &self.groups {
                group.terminate();
            }
        }
    }

    fn next_glance(&self) -> Duration {
        let now = clock();
        let times = [self.asking_time().filter(|_| !self.has_asked), self.until];
        let next = times.into_iter().flatten().filter(|time| *time > now).min();
        next.map_or(ROUND, |time| Duration::from_millis(time - now).min(ROUND))
    }

    /// The client was killed: ends its children, and then its session.
    fn end_children_and_session(mut self) -> Result<()> {
        for group in &self.groups {
            group.terminate();
        }
        let patience = self.setup.grace.min(self.setup.ttl / 3);
        let patience = clock() + u64::try_from(patience.as_millis()).unwrap_or(0);
        let limit = self.until.map_or(patience, |until| until.min(patience));
        // Afterwards the session is over in any case.
        let end = Instant::now() + self.setup.ttl;
        let mut has_killed = false;
        loop {
            self.groups.retain(|group| !group.is_gone());
            if self.groups.is_empty() {
                break;
            }
            if clock() >= limit && !std::mem::replace(&mut has_killed, true) {
                for group in &self.groups {
                    group.kill();
                }
            }
            if Instant::now() >= end {
                bail!("a child cannot be ended, so the session is left to its time limit");
            }
            thread::sleep(GLANCE);
        }
        self.close_session(end)
    }

    fn close_session(&self, end: Instant) -> Result<()> {
        while Instant::now() < end {
            if let Ok(client) = self.setup.connection.open(self.setup.ttl) {
                let request = client.request("CLOSE", "/sessions");
                match request.header("session", &*self.setup.session).wait() {
                    Ok(_) | Err(Error::Gone(_)) => return Ok(()),
                    Err(_) => {}
                }
            }
            thread::sleep(ROUND / 4);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::connection::Connection;
    use std::os::unix::net::UnixStream;

    /// A guardian, its client's end of the pipe, and a child.
    struct GuardedChild {
        watch: Watch,
        messages: Lines<UnixStream>,
        client: UnixStream,
        child: Group,
    }

    impl GuardedChild {
        fn new() -> Self {
            let setup = GuardianSetup {
                connection: Connection::told("host:1".into(), None, None, false),
                token: None,
                session: "0a".into(),
                // Children are asked to end 100 seconds before the end.
                ttl: Duration::from_secs(1000),
                grace: Duration::from_secs(1000),
            };
            let (reader, client) = UnixStream::pair().unwrap();
            let mut sleep = Command::new("sleep");
            let (child, _) =
                Group::start(sleep.arg("1000").stdin(Stdio::null()), None, None).unwrap();
            Self { watch: Watch::new(setup), messages: Lines::new(reader), client, child }
        }

        fn tell(&mut self, message: GuardianMessage) {
            self.client.write_all(message.write().as_bytes()).unwrap();
        }

        fn look_around(&mut self) {
            assert!(self.watch.look_around(&mut self.messages));
        }

        /// The signal that has ended the child.
        fn ended_by(&self) -> Option<i32> {
            self.child.wait().unwrap().terminating_signal()
        }
    }

    impl Drop for GuardedChild {
        fn drop(&mut self) {
            self.child.kill();
        }
    }

    #[test]
    fn old_messages_are_no_reason_to_act() {
        let mut guarded = GuardedChild::new();
        guarded.tell(GuardianMessage::Began(guarded.child));
        guarded.tell(GuardianMessage::Until(clock() + 600_000));
        guarded.look_around();
        // It is stopped until long after that; meanwhile the session is renewed.
        guarded.watch.until = Some(clock() - 1000);
        guarded.tell(GuardianMessage::Until(clock() - 500));
        guarded.tell(GuardianMessage::Until(clock() + 600_000));
        guarded.look_around();
        assert!(!guarded.watch.has_asked);
        assert!(guarded.watch.groups.contains(&guarded.child), "it is still guarded");
        assert!(!guarded.child.is_gone());
    }

    #[test]
    fn what_begins_too_late_is_ended_at_once() {
        let mut guarded = GuardedChild::new();
        guarded.tell(GuardianMessage::Until(clock() - 1));
        guarded.look_around();
        assert_eq!(guarded.watch.next_glance(), ROUND, "nothing is to be done");
        guarded.tell(GuardianMessage::Began(guarded.child));
        guarded.look_around();
        assert_eq!(guarded.ended_by(), Some(9));

        // Or asked to end, if there is still time for that.
        let mut guarded = GuardedChild::new();
        guarded.tell(GuardianMessage::Until(clock() + 60_000));
        guarded.look_around();
        assert!(guarded.watch.has_asked);
        guarded.tell(GuardianMessage::Began(guarded.child));
        guarded.look_around();
        assert_eq!(guarded.ended_by(), Some(15));
    }
}
