//! The Java peers: one long-lived process that takes samples on request.
//!
//! A process of its own, asked for one sample at a time, lets Java alternate with
//! the others like any contestant. Without a JDK these peers are left out.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::placement::Placement;
use crate::row::{Contestant, Work};

const SOURCES: [(&str, &str); 4] = [
    ("Peers.java", include_str!("../java/Peers.java")),
    ("SyncPeers.java", include_str!("../java/SyncPeers.java")),
    ("QueuePeers.java", include_str!("../java/QueuePeers.java")),
    ("TasksPeers.java", include_str!("../java/TasksPeers.java")),
];
const CLASS: &str = "Peers";

/// The names `Peers` gives the two threads of its fights.
const FIGHTERS: [&str; 2] = ["peer-0", "peer-1"];

/// Long enough for the second compiler of the Java machine to have done its work.
/// In pieces with a rest after each: it needs a core that the two sides do not occupy.
const WARM_UP: Duration = Duration::from_millis(15);
const WARM_UP_REST: Duration = Duration::from_millis(5);
const WARM_UPS: usize = 12;
const WARM_UP_OPERATIONS: u64 = 400_000;
const WARM_UPS_OF_A_WHOLE: usize = 4;

/// Started by the first row that has a Java peer.
static JAVA: OnceLock<Result<Mutex<Java>, String>> = OnceLock::new();

/// A peer whose operations are counted; none without Java.
pub(crate) fn counted(name: &'static str, row: &'static str) -> Option<Contestant> {
    let java = started()?;
    let sample = move |operations: u64| lock(java).sample(row, operations);
    sample(WARM_UP_OPERATIONS);
    Some(Contestant::peer(name, Work::counted(sample)))
}

/// A peer that does so many operations at a time, no fewer; none without Java.
pub(crate) fn whole(name: &'static str, row: &'static str, operations: u64) -> Option<Contestant> {
    let java = started()?;
    let sample = move || lock(java).sample(row, operations);
    for _ in 0..WARM_UPS_OF_A_WHOLE {
        sample();
    }
    let samples =
        move |repetitions| (0..repetitions).map(|_| sample()).sum::<f64>() / repetitions as f64;
    Some(Contestant::peer(name, Work::counted(samples)))
}

/// A peer with two threads that work for a given time; none without Java.
pub(crate) fn timed(
    name: &'static str,
    row: &'static str,
    placement: Placement,
) -> Option<Contestant> {
    let java = started()?;
    let sample = move |length: Duration| {
        let mut java = lock(java);
        java.place(placement);
        java.sample(row, length.as_micros() as u64)
    };
    for _ in 0..WARM_UPS {
        sample(WARM_UP);
        thread::sleep(WARM_UP_REST);
    }
    Some(Contestant::peer(name, Work::timed(sample)))
}

/// Why there are no Java peers, if a row asked for them in vain.
pub(crate) fn absence() -> Option<&'static str> {
    JAVA.get()?.as_ref().err().map(String::as_str)
}

/// Ends the Java process and removes its classes.
pub(crate) fn stop() {
    if let Some(Ok(java)) = JAVA.get() {
        lock(java).stop();
    }
}

fn started() -> Option<&'static Mutex<Java>> {
    JAVA.get_or_init(|| Java::start().map(Mutex::new)).as_ref().ok()
}

fn lock(java: &'static Mutex<Java>) -> MutexGuard<'static, Java> {
    java.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Java {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    classes: PathBuf,
}

impl Java {
    fn start() -> Result<Java, String> {
        let classes = std::env::temp_dir().join(format!("semaforo-bench-{}", std::process::id()));
        compile(&classes)?;
        // A single collector thread: a parallel one would take the other peers' cores.
        let mut process = Command::new("java")
            .args(["-XX:+UseSerialGC", "-Xshare:auto", "-cp"])
            .arg(&classes)
            .arg(CLASS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("java does not start: {error}"))?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("stdout is piped"));
        Ok(Java { process, requests, answers, classes })
    }

    /// `amount` is what the row counts: operations, or microseconds.
    fn sample(&mut self, row: &str, amount: u64) -> f64 {
        let answer = self.ask(row, amount).and_then(|line| {
            line.trim().parse().map_err(|_| io::Error::other(format!("it answered {line:?}")))
        });
        answer.unwrap_or_else(|error| panic!("{CLASS} failed at {row} {amount}: {error}"))
    }

    fn ask(&mut self, row: &str, amount: u64) -> io::Result<String> {
        let requests = self.requests.as_mut().ok_or_else(|| io::Error::other("it has ended"))?;
        writeln!(requests, "{row} {amount}")?;
        requests.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer)
    }

    fn place(&self, placement: Placement) {
        for (member, name) in FIGHTERS.into_iter().enumerate() {
            placement.place_thread_of(self.process.id(), name, member);
        }
    }

    /// The end of its input is the end of the process.
    fn stop(&mut self) {
        drop(self.requests.take());
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.classes);
    }
}

fn compile(classes: &Path) -> Result<(), String> {
    let written = write_sources(classes);
    let sources = written.map_err(|error| format!("{}: {error}", classes.display()))?;
    let compiled = Command::new("javac").arg("-d").arg(classes).args(&sources).output();
    let failure = match compiled {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => format!("javac failed: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => format!("javac does not start: {error}"),
    };
    let _ = std::fs::remove_dir_all(classes);
    Err(failure)
}

fn write_sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let written = SOURCES.iter().map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).map(|()| path)
    });
    written.collect()
}
