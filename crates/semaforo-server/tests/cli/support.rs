//! A server of one's own, and programs that are waited for.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The program.
pub(crate) const SEMAFORO: &str = env!("CARGO_BIN_EXE_semaforo");

/// What should happen does so long before this.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < limit, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(3));
    }
}

/// A directory that vanishes.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("semaforo-cli-{}-{number}", std::process::id()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file that no other user can read.
    pub(crate) fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
        options.open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }

    /// A certificate and its key.
    pub(crate) fn certificate(&self) -> [PathBuf; 2] {
        ["certificate.pem", "key.pem"].map(|name| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/net_support");
            self.secret(name, &fs::read_to_string(format!("{folder}/{name}")).unwrap())
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server, killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    pub(crate) address: String,
    /// Where it speaks HTTP.
    pub(crate) http: String,
    pub(crate) directory: Directory,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// On a port of its own, with nothing to remember.
    pub(crate) fn start() -> Self {
        Self::with(&["--journal", "memory"])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::by(&mut Command::new(SEMAFORO), arguments)
    }

    /// One that a command starts which was not told any arguments yet.
    pub(crate) fn by(command: &mut Command, arguments: &[&str]) -> Self {
        let log = Arc::default();
        let (process, [address, http]) = Self::serve(command, "127.0.0.1:0", arguments, &log);
        Self { process, address, http, directory: Directory::new(), log }
    }

    fn serve(
        command: &mut Command,
        listen: &str,
        arguments: &[&str],
        log: &Arc<Mutex<String>>,
    ) -> (Child, [String; 2]) {
        let mut process = command
            .args(["serve", "--listen", listen, "--http", "127.0.0.1:0"])
            .args(arguments)
            .env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (errors, log) = (process.stderr.take().unwrap(), Arc::clone(log));
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                eprintln!("{line}");
                log.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut after = |prefix: &str| loop {
            let line = lines.next().expect("the server has ended").unwrap();
            if let Some(address) = line.strip_prefix(prefix) {
                break address.to_owned();
            }
        };
        let addresses = [after("listening on "), after("http on ")];
        // What else it says must not fill the pipe, nor find it closed.
        thread::spawn(move || lines.for_each(drop));
        (process, addresses)
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Until a line of its log has both of them.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, one: &str, other: &str) {
        wait_until(&format!("{one:?} and {other:?} are in a line of the log"), || {
            self.log().lines().any(|line| line.contains(one) && line.contains(other))
        });
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Kills it, and starts it again where it was.
    pub(crate) fn restart(&mut self, arguments: &[&str]) {
        self.kill();
        let (process, [address, http]) =
            Self::serve(&mut Command::new(SEMAFORO), &self.address, arguments, &self.log);
        self.http = http;
        assert_eq!(address, self.address);
        self.process = process;
    }

    /// The program, told where the server is.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = attentive(SEMAFORO);
        command
            .args(arguments)
            .env("SEMAFORO_SERVER", &self.address)
            .env_remove("SEMAFORO_TOKEN")
            .env_remove("SEMAFORO_SESSION")
            .env("USER", "tester")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    #[track_caller]
    pub(crate) fn semaforo(&self, arguments: &[&str]) -> Ended {
        self.start_program(arguments).wait()
    }

    /// Starts the program.
    #[track_caller]
    pub(crate) fn start_program(&self, arguments: &[&str]) -> Program {
        Program::start(&mut self.command(arguments))
    }

    /// Runs the program, which has to succeed, and returns what it prints.
    #[track_caller]
    pub(crate) fn print(&self, arguments: &[&str]) -> String {
        let ended = self.semaforo(arguments);
        assert_eq!(ended.code(), 0, "{arguments:?}: {}", ended.stderr);
        ended.stdout
    }

    /// Runs the program with `--json`, and returns the object that it prints.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.semaforo(&[arguments, &["--json"]].concat());
        assert_eq!(ended.stdout.lines().count(), 1, "{}{}", ended.stdout, ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// A member of an object's state; none if the object is not there.
    pub(crate) fn state(&self, kind: &str, name: &str, member: &str) -> Option<Value> {
        let ended = self.semaforo(&["show", kind, name, "--json"]);
        let state: Value = serde_json::from_str(&ended.stdout).ok()?;
        state.get(member).cloned()
    }

    /// Until so many wait.
    #[track_caller]
    pub(crate) fn wait_for_waiting(&self, kind: &str, name: &str, count: u64) {
        wait_until("somebody waits", || {
            self.state(kind, name, "waiting").and_then(|waiting| waiting.as_u64()) == Some(count)
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program that runs, killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    process: Child,
    is_over: bool,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        match self.status.code() {
            Some(code) => code,
            None => panic!("died of {:?}: {}", self.status.signal(), self.stderr),
        }
    }
}

impl Program {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().unwrap();
        Self { process, is_over: false }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Writes to a program that was started with a pipe.
    pub(crate) fn feed(&mut self, text: &str) {
        self.process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Until it has ended.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ended {
        let output = self.process.stdout.take().map(collect);
        let errors = self.process.stderr.take().map(collect);
        let mut status = None;
        wait_until("a program ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        self.is_over = true;
        let [stdout, stderr] = [output, errors].map(|text| text.unwrap().join().unwrap());
        Ended { status: status.unwrap(), stdout, stderr }
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// A program that ignores no signal, however the tests were started: in the background of a script,
/// interrupts are ignored, and that is inherited.
pub(crate) fn attentive(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// Whether no process of a process group runs any more.
pub(crate) fn is_gone(group: &str) -> bool {
    !fs::read_dir("/proc").unwrap().any(|entry| {
        let status = fs::read_to_string(entry.unwrap().path().join("stat")).unwrap_or_default();
        let mut words = status.rsplit(')').next().unwrap_or_default().split_whitespace();
        words.next().is_some_and(|state| state != "Z") && words.nth(1) == Some(group)
    })
}
