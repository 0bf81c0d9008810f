//! The server as a process that can be killed.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// A server with a directory and addresses that outlive it.
pub(crate) struct Process {
    directory: PathBuf,
    address: SocketAddr,
    http: SocketAddr,
    child: Option<Child>,
}

impl Process {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaforo-crash-{}-{number}", std::process::id());
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Ports that are free now, and likely to be free after each crash.
        let [address, http] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [address, http] = [address, http].map(|listener| listener.local_addr().unwrap());
        let mut process = Self { directory, address, http, child: None };
        process.start();
        process
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where HTTP clients connect.
    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    fn spawn(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_semaforo"))
            .args(["serve", "--log", "error", "--http", &self.http.to_string()])
            .args(["--listen", &self.address.to_string(), "--data"])
            .arg(&self.directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts it, and returns when it is ready.
    pub(crate) fn start(&mut self) {
        let mut child = self.spawn();
        let output = BufReader::new(child.stdout.take().unwrap());
        let ready = output.lines().map_while(Result::ok).any(|line| line.starts_with("listening"));
        assert!(ready, "the server did not start: {:?}", child.wait());
        self.child = Some(child);
    }

    /// Starts it, and kills it with -9 after this time: while it recovers, or a moment later.
    pub(crate) fn start_and_kill(&self, after: Duration) {
        let mut child = self.spawn();
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Nothing happens in it for this time.
    pub(crate) fn pause(&self, time: Duration) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), Signal::STOP).unwrap();
        thread::sleep(time);
        kill_process(Pid::from_child(child), Signal::CONT).unwrap();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            assert!(child.wait().unwrap().success());
        }
    }

    /// Kills it with -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Numbers that differ between two runs: each run tries other moments.
pub(crate) struct Randomness(u64);

impl Randomness {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self(now.as_nanos() as u64 | 1)
    }

    /// Those that follow from a number.
    pub(crate) fn seeded(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(2);
        random
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
