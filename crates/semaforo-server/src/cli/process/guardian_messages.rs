//! What a client tells its guardian, through a pipe.
//!
//! The first line is an object with everything that has to be known from the beginning. Each of the
//! others is one [`GuardianMessage`]; they are shorter than what a pipe takes in one piece, so that
//! those of different writers do not mix.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use rustix::process::Pid;
use serde_json::{Value, json};

use super::group::Group;
use crate::cli::connection::Connection;

/// What a guardian has to know from the beginning.
#[derive(Clone, Debug)]
pub(in crate::cli) struct GuardianSetup {
    pub(in crate::cli) connection: Connection,
    /// The token, if the server wants one.
    pub(in crate::cli) token: Option<String>,
    /// The session that has to be closed.
    pub(in crate::cli) session: String,
    pub(in crate::cli) ttl: Duration,
    /// How long a child has between being asked to end and being ended, at most.
    pub(in crate::cli) grace: Duration,
}

impl GuardianSetup {
    pub(super) fn write(&self) -> String {
        let object = json!({
            "server": self.connection.server,
            "token": self.token,
            // A path is bytes, and not always text.
            "ca": self.connection.ca.as_ref().map(|file| file.as_os_str().as_bytes()),
            "insecure": self.connection.insecure,
            "session": self.session,
            "ttl": milliseconds(self.ttl),
            "grace": milliseconds(self.grace),
        });
        format!("{object}\n")
    }

    pub(super) fn read(line: &str) -> Option<Self> {
        let object: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
        let time = |name: &str| object.get(name)?.as_u64().map(Duration::from_millis);
        let bytes = |name: &str| -> Option<Vec<u8>> {
            let bytes = object.get(name)?.as_array()?.iter();
            bytes.map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect()
        };
        let token = text("token");
        Some(Self {
            connection: Connection::told(
                text("server")?,
                token.clone(),
                bytes("ca").map(|path| OsString::from_vec(path).into()),
                object.get("insecure").and_then(Value::as_bool)?,
            ),
            token,
            session: text("session")?,
            ttl: time("ttl")?,
            grace: time("grace")?,
        })
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What happens later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardianMessage {
    /// A child begins.
    Began(Group),
    /// A child has ended; what is left of its group may live on.
    Ended(Group),
    /// The session lives until then for sure: milliseconds of the machine's clock.
    Until(u64),
}

const BEGAN: &str = "began ";

impl GuardianMessage {
    pub(super) fn write(self) -> String {
        match self {
            Self::Began(group) => format!("{BEGAN}{}\n", group.leader().as_raw_pid()),
            Self::Ended(group) => format!("ended {}\n", group.leader().as_raw_pid()),
            Self::Until(time) => format!("until {time}\n"),
        }
    }

    pub(super) fn read(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ').unwrap_or((line, ""));
        let group = || number.parse().ok().and_then(Group::of_number);
        match word {
            "began" => group().map(Self::Began),
            "ended" => group().map(Self::Ended),
            "until" => number.parse().ok().map(Self::Until),
            _ => None,
        }
    }
}

/// Tells the guardian that this process is a child that begins. Between fork and exec: it makes one
/// system call.
pub(super) fn announce(guardian: BorrowedFd<'_>, own: Pid) {
    let mut line = [0_u8; BEGAN.len() + 11];
    let mut length = BEGAN.len();
    line[..length].copy_from_slice(BEGAN.as_bytes());
    let mut divisor = 1_000_000_000;
    while divisor > 0 {
        let digit = own.as_raw_pid() / divisor % 10;
        if digit > 0 || length > BEGAN.len() {
            line[length] = b'0' + digit as u8;
            length += 1;
        }
        divisor /= 10;
    }
    line[length] = b'\n';
    // Without a guardian the child dies with its parent, all the same.
    let _ = rustix::io::write(guardian, &line[..=length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_written_can_be_read() {
        let ca = OsString::from_vec(b"/a \xff b.pem".to_vec());
        let connection =
            Connection::told("host:1".into(), Some("secret".into()), Some(ca.into()), true);
        let setup = GuardianSetup {
            connection,
            token: Some("secret".into()),
            session: "0a".into(),
            ttl: Duration::from_secs(10),
            grace: Duration::from_millis(1500),
        };
        let read = GuardianSetup::read(setup.write().trim_end()).unwrap();
        assert_eq!(format!("{setup:?}"), format!("{read:?}"));
        assert!(GuardianSetup::read("{}").is_none());
        let group = Group::of_number(4711).unwrap();
        for message in [
            GuardianMessage::Began(group),
            GuardianMessage::Ended(group),
            GuardianMessage::Until(17),
        ] {
            assert_eq!(GuardianMessage::read(message.write().trim_end()), Some(message));
        }
        for line in ["", "began", "began 0", "began 1", "began -5", "until x", "hello"] {
            assert_eq!(GuardianMessage::read(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_child_announces_itself() {
        for number in [2, 10, 4711, 1_000_000_007] {
            let (mut reader, writer) = UnixStream::pair().unwrap();
            announce(writer.as_fd(), Pid::from_raw(number).unwrap());
            drop(writer);
            let mut line = String::new();
            reader.read_to_string(&mut line).unwrap();
            assert_eq!(line, GuardianMessage::Began(Group::of_number(number).unwrap()).write());
        }
    }
}
