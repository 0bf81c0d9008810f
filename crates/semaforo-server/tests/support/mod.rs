//! What the tests over real sockets share: servers in this process and as processes of their own,
//! and a client that knows nothing but bytes.
//!
//! Rules: nothing sleeps to wait for something, it asks until it is so; whatever is waited for has
//! [`LONG`] to happen; every server is stopped and its failure fails the test; folders are removed.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses its part")]

mod client;
mod journal;
mod process;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use semaforo_server::server::{self, Options};

pub use client::{Answer, Client, frame};
pub use journal::Held;
pub use process::Process;

/// Long enough for a busy machine: only a failing test waits for it.
pub const LONG: Duration = Duration::from_secs(20);

/// A server in this process.
pub struct Server {
    pub address: SocketAddr,
    /// Where HTTP clients connect, if they can.
    pub http: Option<SocketAddr>,
    /// What has to be said to stop it.
    farewell: String,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    /// In memory, on a free port.
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let server = server::Server::start(options).unwrap();
        Self::run(server)
    }

    pub fn run(server: server::Server) -> Self {
        let (address, http) = (server.address(), server.http_address());
        let thread = thread::spawn(move || server.run());
        Self { address, http, farewell: "SHUTDOWN /".into(), thread: Some(thread) }
    }

    /// One that was started already, and is stopped with this token.
    pub fn run_with_token(server: server::Server, token: &str) -> Self {
        let mut server = Self::run(server);
        server.farewell = format!("SHUTDOWN / token={token}");
        server
    }

    /// One that is stopped with this token.
    pub fn with_token(options: Options, token: &str) -> Self {
        let mut server = Self::with(options);
        server.farewell = format!("SHUTDOWN / token={token}");
        server
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops it, and waits for its end.
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits for its end, which something else has brought about.
    pub fn join(self) {
        self.outcome().unwrap();
    }

    /// Waits for its end, and says how it was.
    pub fn outcome(mut self) -> std::io::Result<()> {
        self.thread.take().unwrap().join().unwrap()
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !thread.is_finished() {
            let mut client = self.connect();
            client.send(&self.farewell);
            let answer = client.try_answer();
            if !thread::panicking() {
                assert_eq!(answer.map(|answer| answer.status), Some(200), "SHUTDOWN");
            }
        }
        let ended = thread.join();
        if !thread::panicking() {
            ended.expect("the server does not panic").expect("the server ends well");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A folder that is removed at the end of a test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaforo-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where a log goes that a test reads.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Asks until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "not in time: {what}");
        // Not to wait for it, but to leave the processor to the threads that make it so.
        thread::sleep(Duration::from_micros(300));
    }
}

/// Numbers that look random, the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
