//! The processes of the contestants: started by this one, and never longer there than it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::dialects::Dialect;
use super::disguise::Program;
use super::load::{Failure, first_answer};
use crate::placement::Placement;

/// The arguments for a port and a directory for the data.
type Arguments = dyn Fn(&str, &Path) -> Vec<OsString>;

/// How to start a server.
pub(super) struct Recipe<D> {
    pub(super) name: &'static str,
    program: Program,
    arguments: Box<Arguments>,
    dialect: fn() -> D,
    /// For a server that wants its clients encrypted.
    encrypted: Option<Arc<ClientConfig>>,
}

impl<D: Dialect> Recipe<D> {
    pub(super) fn new(
        name: &'static str,
        program: Program,
        arguments: impl Fn(&str, &Path) -> Vec<OsString> + 'static,
        dialect: fn() -> D,
    ) -> Recipe<D> {
        Recipe { name, program, arguments: Box::new(arguments), dialect, encrypted: None }
    }

    pub(super) fn encrypted(self, config: Arc<ClientConfig>) -> Recipe<D> {
        Recipe { encrypted: Some(config), ..self }
    }

    /// In a column of another name.
    pub(super) fn called(self, name: &'static str) -> Recipe<D> {
        Recipe { name, ..self }
    }

    /// With nothing in its directory.
    pub(super) fn start(&self) -> Result<Server, Failure> {
        self.start_in(&Directory::new()?)
    }

    /// On a core of its own, if there are two: where a process wakes another, it matters more than
    /// anything else whether they share one, and it stays as it happened to begin.
    pub(super) fn start_apart(&self) -> Result<Server, Failure> {
        Placement::Apart.place_this_thread(SERVER);
        let server = self.start();
        Placement::Free.place_this_thread(SERVER);
        server
    }

    /// Waits for the first answer, too.
    pub(super) fn start_in(&self, directory: &Rc<Directory>) -> Result<Server, Failure> {
        let address = free_address()?;
        let path = &directory.path;
        let log = path.join(LOG);
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = self.program.command();
        command.args((self.arguments)(&address.port().to_string(), path)).current_dir(path);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);

        let begin = Instant::now();
        let process = command.spawn()?;
        let started_within = Duration::ZERO;
        let directory = Rc::clone(directory);
        let encrypted = self.encrypted.clone();
        let mut server = Server { process, address, encrypted, started_within, directory };
        let ended = |server: &mut Server| server.process.try_wait().is_ok_and(|it| it.is_some());
        match first_answer(address, self.encrypted.as_ref(), begin, self.dialect, || {
            ended(&mut server)
        }) {
            Ok(took) => server.started_within = took,
            Err(Failure(reason)) => {
                let log = fs::read_to_string(log).unwrap_or_default();
                return Err(Failure(format!("it did not start: {reason}\n{log}")));
            }
        }
        Ok(server)
    }
}

/// Members of a pair that is placed apart.
const CLIENTS: usize = 0;
const SERVER: usize = 1;

/// Takes a sample of a server that was started apart.
pub(super) fn apart<T>(sample: impl FnOnce() -> T) -> T {
    Placement::Apart.place_this_thread(CLIENTS);
    let sample = sample();
    Placement::Free.place_this_thread(CLIENTS);
    sample
}

/// A running server; dropping it ends it.
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
    /// How its clients are, if they are encrypted.
    pub(super) encrypted: Option<Arc<ClientConfig>>,
    /// From the start to the first answer.
    pub(super) started_within: Duration,
    directory: Rc<Directory>,
}

impl Server {
    /// Where it speaks HTTP, as its log says.
    pub(super) fn http_address(&self) -> Result<SocketAddr, Failure> {
        let log = fs::read_to_string(self.directory.path.join(LOG))?;
        let address = log.lines().find_map(|line| line.strip_prefix("http on ")?.parse().ok());
        address.ok_or_else(|| Failure("its log does not say where it speaks HTTP".into()))
    }

    /// How many bytes of memory it occupies.
    pub(super) fn resident_bytes(&self) -> Result<f64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        resident_bytes(&status).ok_or_else(|| Failure("its status does not say VmRSS".into()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// One that nobody used a moment ago. Not one of those that the system gives to clients: a client
/// that tries often enough would be given the very port that it tries to reach, and find itself.
pub(super) fn free_address() -> io::Result<SocketAddr> {
    const PORTS: Range<u16> = 20_000..30_000;
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Two benchmarks at once should not look at the same ones.
    let first = process::id() as u16;
    loop {
        let offset = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, PORTS.start + offset)) {
            Ok(listener) => return listener.local_addr(),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Where a server keeps its data; removed when nobody needs it any more.
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Beside this program, which is a place on a disk; the usual one for temporary files may be
    /// in memory, where syncing costs nothing.
    pub(super) fn new() -> io::Result<Rc<Directory>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let program = std::env::current_exe()?;
        let parent = program.parent().ok_or(io::ErrorKind::NotFound)?;
        if number == 0 {
            remove_leftovers(parent);
        }
        let path = parent.join(format!("{PREFIX}{}-{number}", process::id()));
        // As a journal wants it.
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Rc::new(Directory { path }))
    }

    /// Whether a finished file has a name that begins so.
    pub(super) fn contains(&self, prefix: &str) -> io::Result<bool> {
        let prefix = self.path.join(prefix);
        let (Some(folder), Some(begin)) = (prefix.parent(), prefix.file_name()) else {
            return Ok(false);
        };
        for file in fs::read_dir(folder)? {
            let name = file?.file_name();
            let is_finished = Path::new(&name).extension().is_none();
            if is_finished && name.as_encoded_bytes().starts_with(begin.as_encoded_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What it has printed.
const LOG: &str = "log";

const PREFIX: &str = "server-bench-";

/// Directories of benchmarks that were killed before they could tidy up.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(process) = name.to_str().and_then(process_of)
            && !Path::new(&format!("/proc/{process}")).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn process_of(directory: &str) -> Option<u32> {
    directory.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_in_its_status() {
        let status = "Name:\tredis\nVmPeak:\t  999 kB\nVmRSS:\t    5120 kB\nThreads:\t1\n";
        assert_eq!(resident_bytes(status), Some(5120.0 * 1024.0));
        assert_eq!(resident_bytes("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn a_directory_is_there_while_it_is_needed() {
        let directory = Directory::new().expect("the target folder can be written to");
        let path = directory.path.clone();
        assert!(path.is_dir());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert_eq!(process_of(name), Some(process::id()));
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn only_our_own_directories_are_left_over() {
        assert_eq!(process_of("server-bench-12-0"), Some(12));
        assert_eq!(process_of("server-bench-x"), None);
        assert_eq!(process_of("deps"), None);
    }
}
