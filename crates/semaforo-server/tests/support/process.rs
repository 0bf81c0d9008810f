//! A server as a process of its own, to be killed and paused.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Client, until};

pub struct Process {
    pub address: SocketAddr,
    /// Where it speaks HTTP.
    pub http: SocketAddr,
    child: Child,
    /// Kept, so that whatever it prints has somewhere to go.
    _output: BufReader<ChildStdout>,
}

impl Process {
    pub fn start(folder: &Path) -> Self {
        Self::with(folder, &[])
    }

    pub fn with(folder: &Path, arguments: &[&str]) -> Self {
        Self::logging(folder, arguments, Stdio::inherit())
    }

    /// One whose log goes there.
    pub fn logging(folder: &Path, arguments: &[&str], log: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_semaforo"))
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut after = |prefix: &str| loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "it says where it listens");
            if let Some(address) = line.strip_prefix(prefix) {
                let end = address.find([',', ' ', '\n']).unwrap_or(address.len());
                break address[..end].parse().unwrap();
            }
        };
        let (address, http) = (after("listening on "), after("http on "));
        Self { address, http, child, _output: output }
    }

    /// What `semaforo serve` says about its options.
    pub fn help() -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semaforo"));
        let output = command.args(["serve", "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// How many bytes of memory it uses.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// How many it has used at most.
    pub fn most_resident(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// As if the power went off, as far as the process is concerned.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Stops it for a while: nothing happens in it until it is continued.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let status = format!("/proc/{}/stat", self.child.id());
        until("the process is stopped", || {
            let status = std::fs::read_to_string(&status).unwrap();
            status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        });
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether it runs.
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end, which something else has brought about.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
