//! This program as something else: most contestants are started through it, so that they end when
//! it does, and ours is in it.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::ours;

/// Names that this program gives itself when it starts itself as something else.
const GUARD: &str = "bench-guard";
const ECHO: &str = "bench-echo";

/// This program, wherever it is by now.
const MYSELF: &str = "/proc/self/exe";

/// What to do if this process was started by the benchmark, as one of its contestants.
pub(crate) fn disguised() -> Option<ExitCode> {
    let name = std::env::args_os().next()?;
    let role: fn() -> io::Result<ExitCode> = match name.to_str()? {
        GUARD => guard,
        ECHO => echo,
        ours::NAME => || Ok(ours::main()),
        _ => return None,
    };
    // Whatever happens to the benchmark: what it started ends with it.
    let ends_with_parent = set_parent_process_death_signal(Some(Signal::KILL));
    let result = ends_with_parent.map_err(io::Error::from).and_then(|()| role());
    Some(result.unwrap_or_else(|error| {
        eprintln!("{}: {error}", name.display());
        ExitCode::FAILURE
    }))
}

/// Becomes the program of its first argument, which inherits the death signal.
fn guard() -> io::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    Err(Command::new(program).args(arguments).exec())
}

/// Sends back what it reads, connection by connection.
fn echo() -> io::Result<ExitCode> {
    let address = std::env::args().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    for stream in TcpListener::bind(address)?.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(length) if length > 0 => stream.write_all(&buffer[..length])?,
                _ => break,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What to start: a program of this machine, or this one under another name.
pub(super) enum Program {
    Installed(PathBuf),
    Myself(&'static str),
}

impl Program {
    pub(super) fn echo() -> Program {
        Program::Myself(ECHO)
    }

    /// None if it is not installed. Daemons are often not on the path of ordinary users.
    pub(super) fn installed(name: &str) -> Option<Program> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let beside = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"].map(PathBuf::from);
        let mut places = std::env::split_paths(&path).chain(beside).map(|place| place.join(name));
        places.find(|place| place.is_file()).map(Program::Installed)
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(MYSELF);
        match self {
            Program::Installed(path) => command.arg0(GUARD).arg(path),
            Program::Myself(name) => command.arg0(name),
        };
        command
    }
}
