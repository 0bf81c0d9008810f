//! What goes to the standard output: text for people and shells, or JSON for programs.

use std::io::{self, Write};

use anyhow::Result;
use serde_json::{Map, Value};

use super::exit::{self, Failure};
use crate::client::{Error, Reply};

/// The number of SIGPIPE: a program that others read from ends so, if they stop.
const BROKEN_PIPE: i32 = 13;

/// Where results go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    /// Prints a line. If nobody reads any more the process ends, and says nothing about it.
    pub(super) fn line(self, text: &str) -> Result<()> {
        let mut output = io::stdout().lock();
        let written = output.write_all(format!("{text}\n").as_bytes());
        match written.and_then(|()| output.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(Failure::signalled(BROKEN_PIPE))
            }
            Err(error) => {
                Err(Failure::with(exit::FAILURE, format!("cannot write the output: {error}")))
            }
        }
    }

    /// Prints an answer: `name=value` lines that a shell can evaluate, or one object.
    pub(super) fn answer(self, reply: &Reply) -> Result<()> {
        if self.json {
            return self.line(&object(reply).to_string());
        }
        if reply.headers.is_empty() {
            return Ok(());
        }
        // In one piece, so that those of several processes do not mix.
        let lines = reply.headers.iter().map(|(name, value)| format!("{name}={value}"));
        self.line(&lines.collect::<Vec<_>>().join("\n"))
    }

    /// Prints, for programs only, what the server said instead of granting.
    pub(super) fn refusal(self, error: &Error) -> Result<()> {
        match status_of(error) {
            Some(204) if self.json => self.line(r#"{"status":204}"#),
            Some(status) if self.json => {
                let mut object = Map::new();
                object.insert("status".into(), status.into());
                object.insert("error".into(), error.to_string().into());
                self.line(&Value::Object(object).to_string())
            }
            _ => Ok(()),
        }
    }
}

/// An answer as one object: its status, its headers and its payload.
pub(super) fn object(reply: &Reply) -> Value {
    let mut object = Map::new();
    object.insert("status".into(), reply.status.into());
    for (name, value) in &reply.headers {
        // A session's id may happen to have digits only, and is a word all the same.
        let number = value.parse::<u64>().ok().filter(|_| name != "session");
        let value = number.map_or_else(|| Value::from(value.as_str()), Value::from);
        object.insert(name.clone(), value);
    }
    if let Some(payload) = reply.payload.as_deref().and_then(|text| serde_json::from_str(text).ok())
    {
        object.insert("payload".into(), payload);
    }
    Value::Object(object)
}

/// The status that the server answered with.
fn status_of(error: &Error) -> Option<u16> {
    match error {
        Error::TimedOut => Some(204),
        Error::NotFound(_) => Some(404),
        Error::Conflict(_) => Some(409),
        Error::Gone(_) => Some(410),
        Error::ShuttingDown => Some(503),
        Error::Refused { status, .. } => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_payloads_are_values() {
        let reply = Reply {
            status: 200,
            headers: vec![("fence".into(), "12".into()), ("session".into(), "34".into())],
            payload: Some(r#"{"n":1}"#.into()),
        };
        let expected = r#"{"status":200,"fence":12,"session":"34","payload":{"n":1}}"#;
        assert_eq!(object(&reply).to_string(), expected);
    }
}
