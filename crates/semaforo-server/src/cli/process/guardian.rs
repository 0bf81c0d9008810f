//! The guardian: a process that outlives the client, and ends what the client has started.
//!
//! It reads from a pipe whose other end only the client has. When the pipe ends without a farewell the client was
//! killed: the guardian ends the children, and then the session, so that the next in line starts when they are gone,
//! and need not wait for the session's time to be over. It knows until when the session lives for sure; if nothing is
//! heard until shortly before that, because the client is stopped, it ends the children in time.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::group::Group;
use super::lifetime::{self, clock, on_the_clock};
use super::orders::{News, Orders};
use super::signals;
use crate::client::Error;

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
    pub(in crate::cli) fn start(orders: &Orders) -> Result<Self> {
        Self::begin(orders).context("cannot start the guardian of the child")
    }

    fn begin(orders: &Orders) -> Result<Self> {
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
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut pipe), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("there is no pipe");
        };
        pipe.write_all(orders.write().as_bytes())?;
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
    pub(in crate::cli) fn is_on_guard(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The session lives until then for sure.
    pub(in crate::cli) fn until(&mut self, ends: Instant) {
        self.tell(News::Until(on_the_clock(ends)));
    }

    /// A child is there that it has not heard of.
    pub(in crate::cli) fn began(&mut self, group: Group) {
        self.tell(News::Began(group));
    }

    /// A child has ended. What it has left behind is not the guardian's business.
    pub(in crate::cli) fn ended(&mut self, group: Group) {
        self.tell(News::Ended(group));
    }

    /// There is nothing left to guard.
    pub(in crate::cli) fn farewell(mut self) {
        self.tell(News::Farewell);
        drop(self.pipe);
        let _ = self.process.wait();
    }

    fn tell(&mut self, news: News) {
        // If it is gone, the kernel still watches over the child.
        let _ = self.pipe.write_all(news.write().as_bytes());
    }
}

/// What the guardian's process does.
pub(in crate::cli) fn guard() -> Result<()> {
    // A session of its own: what happens on the terminal does not concern it. Whoever ends a whole service by signals
    // means the client, and the client says farewell.
    let _ = rustix::process::setsid();
    signals::watch(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM], |_| {})?;
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    drop(input);
    let orders = Orders::read(line.trim_end()).context("only semaforo itself uses this")?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("news".to_owned()).spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(news) = News::read(&line)
                && sender.send(news).is_err()
            {
                return;
            }
        }
    })?;
    let mut output = io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush())?;
    Watch::new(orders).run(&receiver)
}

/// What a guardian knows.
#[derive(Debug)]
struct Watch {
    orders: Orders,
    groups: HashSet<Group>,
    /// When the session may end.
    until: Option<u64>,
    /// The children have been asked to end, because the session is about to.
    has_asked: bool,
}

impl Watch {
    fn new(orders: Orders) -> Self {
        Self { orders, groups: HashSet::new(), until: None, has_asked: false }
    }

    fn run(mut self, news: &Receiver<News>) -> Result<()> {
        loop {
            self.look_at_the_clock();
            match news.recv_timeout(self.next_glance()) {
                Ok(News::Began(group)) => {
                    self.groups.insert(group);
                }
                Ok(News::Ended(group)) => {
                    self.groups.remove(&group);
                }
                Ok(News::Until(time)) => {
                    self.until = Some(time);
                    self.has_asked = false;
                }
                Ok(News::Farewell) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.avenge(),
            }
        }
    }

    /// When the children are asked to end. The client does so, too, and a little earlier: if it can, it has done it.
    fn asking_time(&self) -> Option<u64> {
        let notice = lifetime::notice(self.orders.ttl, self.orders.grace) / 2;
        Some(self.until?.saturating_sub(u64::try_from(notice.as_millis()).unwrap_or(0)))
    }

    fn look_at_the_clock(&mut self) {
        let (Some(ask), Some(end)) = (self.asking_time(), self.until) else { return };
        let now = clock();
        if now >= end {
            for group in std::mem::take(&mut self.groups) {
                group.kill();
            }
            self.until = None;
        } else if now >= ask && !std::mem::replace(&mut self.has_asked, true) {
            for group in &self.groups {
                group.terminate();
            }
        }
    }

    fn next_glance(&self) -> Duration {
        let time = if self.has_asked { self.until } else { self.asking_time() };
        let left = time.map(|time| Duration::from_millis(time.saturating_sub(clock())));
        left.map_or(ROUND, |left| left.clamp(Duration::from_millis(1), ROUND))
    }

    /// The client was killed: ends its children, and then its session.
    fn avenge(mut self) -> Result<()> {
        for group in &self.groups {
            group.terminate();
        }
        let patience = self.orders.grace.min(self.orders.ttl / 3);
        let patience = clock() + u64::try_from(patience.as_millis()).unwrap_or(0);
        let limit = self.until.map_or(patience, |until| until.min(patience));
        // Afterwards the session is over in any case.
        let end = Instant::now() + self.orders.ttl;
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
            if let Ok(client) = self.orders.connection.open(self.orders.ttl) {
                let request = client.request("CLOSE", "/sessions");
                match request.header("session", &*self.orders.session).wait() {
                    Ok(_) | Err(Error::Gone(_)) => return Ok(()),
                    Err(_) => {}
                }
            }
            thread::sleep(ROUND / 4);
        }
        Ok(())
    }
}
