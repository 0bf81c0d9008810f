//! The server as a process that can be killed.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A server with a directory and an address that outlive it.
pub(crate) struct Process {
    directory: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

impl Process {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaforo-crash-{}-{number}", std::process::id());
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A port that is free now, and likely to be free after each crash.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut process = Self { directory, address, child: None };
        process.start();
        process
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts it, and returns when it is ready.
    pub(crate) fn start(&mut self) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_semaforo"))
            .args(["serve", "--http", "127.0.0.1:0", "--listen", &self.address.to_string()])
            .arg("--data")
            .arg(&self.directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let ready = output.lines().map_while(Result::ok).any(|line| line.starts_with("listening"));
        assert!(ready, "the server did not start: {:?}", child.wait());
        self.child = Some(child);
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

/// Numbers that nobody can predict, also between two runs: each run tries other moments.
pub(crate) struct Randomness(u64);

impl Randomness {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self(now.as_nanos() as u64 | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
