//! The guardian: a process that outlives the client, and ends what the client has started.
//!
//! It reads from a pipe whose other end only the client has. When the pipe ends the client was killed, since a client
//! that ends otherwise ends its guardian first: the guardian ends the children, and then the session, so that the next
//! in line starts when they are gone, and need not wait for the session's time to be over. It knows until when the
//! session lives for sure; if nothing is heard until shortly before that, because the client is stopped, it ends the
//! children in time.

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
use super::lifetime::{self, clock, on_the_clock};
use super::lines::{Lines, Next};
use super::orders::{News, Orders};
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
            .env_remove(TOKEN_VARIABLE)
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
        // It has nothing to tidy up, and may be stopped, and not hear a word.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn tell(&mut self, news: News) {
        let told = self.pipe.write_all(news.write().as_bytes());
        if told.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // It has not listened for long, and must not act on old news: another can do better.
            let _ = self.process.kill();
        }
        // If it is gone, the kernel still watches over the child.
    }
}

/// What the guardian's process does.
pub(in crate::cli) fn guard() -> Result<()> {
    // A session of its own: what happens on the terminal does not concern it. Whoever ends a whole service by signals
    // means the client, and the client ends its guardian.
    let _ = rustix::process::setsid();
    signals::watch(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM], |_| {})?;
    let input = io::stdin();
    let mut lines = Lines::new(input.as_fd());
    let orders = lines.wait_for_line().and_then(|line| Orders::read(&line));
    let orders = orders.context("only semaforo itself uses this")?;
    let mut output = io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush())?;
    Watch::new(orders).run(&mut lines)
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

    fn run(mut self, news: &mut Lines<impl AsFd>) -> Result<()> {
        while self.look_around(news) {
            news.wait(self.next_glance());
        }
        self.avenge()
    }

    /// Hears what there is to be heard, and does what the time asks for. False if the client is gone.
    fn look_around(&mut self, news: &mut Lines<impl AsFd>) -> bool {
        // The clock first: this process may have been stopped, or be stopped here, while the session was renewed. What
        // had been said at that time is known when it is acted upon.
        let now = clock();
        loop {
            match news.next() {
                Next::Line(line) => self.hear(&line),
                Next::Nothing => break,
                Next::End => return false,
            }
        }
        self.act(now);
        true
    }

    fn hear(&mut self, line: &str) {
        match News::read(line) {
            Some(News::Began(group)) => {
                self.groups.insert(group);
                if self.has_asked {
                    group.terminate();
                }
            }
            Some(News::Ended(group)) => {
                self.groups.remove(&group);
            }
            Some(News::Until(time)) => {
                self.until = Some(time);
                self.has_asked = false;
            }
            None => {}
        }
    }

    /// When the children are asked to end.
    fn asking_time(&self) -> Option<u64> {
        let notice = lifetime::last_notice(self.orders.ttl, self.orders.grace);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::connection::Connection;
    use std::os::unix::net::UnixStream;

    /// A guardian, its client's end of the pipe, and a child.
    struct Scene {
        watch: Watch,
        news: Lines<UnixStream>,
        client: UnixStream,
        child: Group,
    }

    impl Scene {
        fn new() -> Self {
            let orders = Orders {
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
            Self { watch: Watch::new(orders), news: Lines::new(reader), client, child }
        }

        fn tell(&mut self, news: News) {
            self.client.write_all(news.write().as_bytes()).unwrap();
        }

        fn look_around(&mut self) {
            assert!(self.watch.look_around(&mut self.news));
        }

        /// The signal that has ended the child.
        fn ended_by(&self) -> Option<i32> {
            self.child.wait().unwrap().terminating_signal()
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            self.child.kill();
        }
    }

    #[test]
    fn old_news_are_no_reason_to_act() {
        let mut scene = Scene::new();
        scene.tell(News::Began(scene.child));
        scene.tell(News::Until(clock() + 600_000));
        scene.look_around();
        // It is stopped until long after that; meanwhile the session is renewed.
        scene.watch.until = Some(clock() - 1000);
        scene.tell(News::Until(clock() - 500));
        scene.tell(News::Until(clock() + 600_000));
        scene.look_around();
        assert!(!scene.watch.has_asked);
        assert!(scene.watch.groups.contains(&scene.child), "it is still guarded");
        assert!(!scene.child.is_gone());
    }

    #[test]
    fn what_begins_too_late_is_ended_at_once() {
        let mut scene = Scene::new();
        scene.tell(News::Until(clock() - 1));
        scene.look_around();
        assert_eq!(scene.watch.next_glance(), ROUND, "nothing is to be done");
        scene.tell(News::Began(scene.child));
        scene.look_around();
        assert_eq!(scene.ended_by(), Some(9));

        // Or asked to end, if there is still time for that.
        let mut scene = Scene::new();
        scene.tell(News::Until(clock() + 60_000));
        scene.look_around();
        assert!(scene.watch.has_asked);
        scene.tell(News::Began(scene.child));
        scene.look_around();
        assert_eq!(scene.ended_by(), Some(15));
    }
}
