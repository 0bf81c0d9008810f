//! The statuses that the process ends with.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::{Command, ExitCode};

use semaforo_protocol::Kind;

use super::visible::visible;

/// The command line was not understood (`EX_USAGE` of `sysexits.h`).
pub const USAGE: u8 = 64;
/// The server cannot be reached, or is shutting down (`EX_UNAVAILABLE`).
pub const UNAVAILABLE: u8 = 69;
/// The session, and with it what was held, was lost while the command ran (`EX_TEMPFAIL`).
pub const SESSION_LOST: u8 = 75;
/// The server wants a token, or the token does not allow that (`EX_NOPERM`).
pub const NOT_ALLOWED: u8 = 77;
/// Not granted within the time limit, as of `timeout(1)`.
pub const TIMED_OUT: u8 = 124;
/// The command was found, and cannot be executed, as of `env(1)`.
pub const CANNOT_EXECUTE: u8 = 126;
/// There is no such command, as of `env(1)`.
pub const COMMAND_NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended the child, or the wait.
pub const SIGNAL: u8 = 128;
/// The server refused, or something else went wrong.
pub const FAILURE: u8 = 1;

/// What the help says about them.
pub(super) const HELP: &str = "\
Exit status:
  0      done
  1      the server refused (no such object, other settings, not held any more, ...)
  64     the command line makes no sense
  69     cannot connect to the server
  75     the session was lost; `run` and `work` have ended what they had started
  77     not allowed: the token is missing, unknown, or has not that right
  124    not granted within --timeout
  126    `run`, `work`: the command cannot be executed
  127    `run`, `work`: there is no such command
  128+n  ended by signal n: the child of `run`, or a wait (Ctrl-C: 130)
  other  `run`: the status of the child

Durations are written as 200ms, 5s, 1m30s, 2h or 1d.";

/// An error that knows the status to end with.
#[derive(Debug)]
pub(super) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    pub(super) fn with(status: u8, message: impl Into<String>) -> anyhow::Error {
        Self { status, message: message.into() }.into()
    }

    /// What was said makes no sense.
    pub(super) fn usage(message: impl Into<String>) -> anyhow::Error {
        Self::with(USAGE, message)
    }

    /// Ended by a signal; its sender needs no explanation.
    pub(super) fn signalled(signal: i32) -> anyhow::Error {
        Self::with(by_signal(signal), "")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

/// The status for an end by this signal.
pub(super) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| SIGNAL.saturating_add(signal))
}

/// The error of a command that could not be started.
pub(super) fn not_started(command: &Command, error: &io::Error) -> anyhow::Error {
    let status = match error.kind() {
        io::ErrorKind::NotFound => COMMAND_NOT_FOUND,
        _ => CANNOT_EXECUTE,
    };
    let name = command.get_program().to_string_lossy();
    Failure::with(status, format!("cannot run {name:?}: {error}"))
}

/// Writes a line to the standard error. Words of a server may be part of it.
pub(super) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("semaforo: {}\n", visible(text)).as_bytes());
}

/// Says what went wrong, and chooses the status.
pub(super) fn report(error: &anyhow::Error) -> ExitCode {
    let message = format!("{error:#}");
    if !message.is_empty() {
        say(&format!("{message}{}", hint(error)));
    }
    ExitCode::from(status(error))
}

/// What helps, if something is not there that has to be made first.
fn hint(error: &anyhow::Error) -> String {
    let Some(semaforo_client::Error::NotFound(message)) = error.downcast_ref() else {
        return String::new();
    };
    let mut made =
        Kind::ALL.iter().filter(|kind| !kind.exists_by_use()).map(|kind| kind.singular());
    match made.find(|kind| message.starts_with(&format!("there is no {kind} "))) {
        Some(kind) => format!("; `semaforo {kind} create` makes one"),
        None => String::new(),
    }
}

fn status(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.status;
    }
    match error.downcast_ref::<semaforo_client::Error>() {
        Some(semaforo_client::Error::TimedOut) => TIMED_OUT,
        Some(semaforo_client::Error::SessionLost) => SESSION_LOST,
        Some(
            semaforo_client::Error::CannotConnect(_)
            | semaforo_client::Error::Disconnected
            | semaforo_client::Error::ShuttingDown,
        ) => UNAVAILABLE,
        Some(semaforo_client::Error::Refused { status: 401 | 403, .. }) => NOT_ALLOWED,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn an_error_has_its_status_also_under_other_words() {
        for (error, expected) in [
            (semaforo_client::Error::TimedOut, TIMED_OUT),
            (semaforo_client::Error::Disconnected, UNAVAILABLE),
            (semaforo_client::Error::SessionLost, SESSION_LOST),
            (semaforo_client::Error::NotFound(String::new()), FAILURE),
            (semaforo_client::Error::Refused { status: 403, message: String::new() }, NOT_ALLOWED),
            (semaforo_client::Error::Refused { status: 507, message: String::new() }, FAILURE),
        ] {
            let error = Err::<(), _>(error).context("with some words").unwrap_err();
            assert_eq!(status(&error), expected, "{error:#}");
        }
        assert_eq!(status(&Failure::usage("what?")), USAGE);
        let missing = semaforo_client::Error::NotFound("there is no queue \"q\"".into());
        assert_eq!(hint(&missing.into()), "; `semaforo queue create` makes one");
        let missing = semaforo_client::Error::NotFound("there is no lock \"q\"".into());
        assert_eq!(hint(&missing.into()), "");
        assert_eq!(by_signal(15), 143);
    }
}
