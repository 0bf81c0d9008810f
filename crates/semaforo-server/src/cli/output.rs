//! What goes to the standard output: text for people and shells, or JSON for programs.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use semaforo_client::{Error, Reply};
use serde_json::{Map, Value};

use super::exit::{self, Failure};
use super::visible::{visible, visible_lines};

/// The number of SIGPIPE: a program that others read from ends so, if they stop.
const BROKEN_PIPE: i32 = 13;

/// Where results go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    /// Prints a line. If its reader is gone the process ends, and says nothing about it.
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

    /// Prints a line of what a server said, for people.
    pub(super) fn shown(self, text: &str) -> Result<()> {
        self.line(&visible(text))
    }

    /// Prints what a server said, for programs.
    pub(super) fn json(self, value: &Value) -> Result<()> {
        self.line(&visible(&value.to_string()))
    }

    /// Prints a message: a program gets it as it is, a terminal without anything that it would
    /// obey.
    pub(super) fn message(self, text: &str) -> Result<()> {
        if io::stdout().is_terminal() { self.line(&visible_lines(text)) } else { self.line(text) }
    }

    /// Prints an answer: `name=value` lines that a shell can evaluate, or one object.
    pub(super) fn answer(self, reply: &Reply) -> Result<()> {
        let headers = known(reply)?;
        if self.json {
            return self.json(&object(reply, &headers));
        }
        if headers.is_empty() {
            return Ok(());
        }
        // In one piece, so that those of several processes do not mix.
        let lines = headers.iter().map(|(name, value)| format!("{name}={}", shell_word(value)));
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
                self.json(&Value::Object(object))
            }
            _ => Ok(()),
        }
    }
}

/// What a header of an answer has to be.
#[derive(Clone, Copy, Debug)]
enum Type {
    /// Decimal digits.
    Number,
    /// 32 hexadecimal digits, which may happen to be decimal ones.
    Session,
    Flag,
}

/// The headers that are printed. Others are for programs that speak the protocol: what is printed
/// is evaluated by shells, where the name of a header becomes the name of a variable.
const PRINTED: [(&str, Type); 9] = [
    ("session", Type::Session),
    ("ttl", Type::Number),
    ("fence", Type::Number),
    ("message", Type::Number),
    ("deliveries", Type::Number),
    ("count", Type::Number),
    ("generation", Type::Number),
    ("index", Type::Number),
    ("created", Type::Flag),
];

impl Type {
    fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Number => {
                let number = text.parse::<u64>().ok()?;
                text.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.into())
            }
            Self::Session => is_session(text).then(|| text.into()),
            Self::Flag => text.parse::<bool>().ok().map(Value::from),
        }
    }
}

/// Whether a text is what servers call sessions.
pub(super) fn is_session(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The headers of an answer that are printed, with their values.
fn known(reply: &Reply) -> Result<Vec<(&'static str, Value)>> {
    let mut known = Vec::new();
    for (name, text) in &reply.headers {
        let Some((name, kind)) = PRINTED.iter().find(|(other, _)| other == name) else { continue };
        let value =
            kind.read(text).ok_or_else(|| Error::Nonsense(format!("header {name} is {text:?}")))?;
        known.push((*name, value));
    }
    Ok(known)
}

/// A value as one word of a shell. Those of today need no quotes.
fn shell_word(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// An answer as one object: its status, its headers and its payload.
fn object(reply: &Reply, headers: &[(&'static str, Value)]) -> Value {
    let mut object = Map::new();
    object.insert("status".into(), reply.status.into());
    for (name, value) in headers {
        object.insert((*name).into(), value.clone());
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
            headers: vec![
                ("fence".into(), "12".into()),
                ("session".into(), "34".repeat(16)),
                ("created".into(), "true".into()),
                ("HOME".into(), "/".into()),
            ],
            payload: Some(r#"{"n":1}"#.into()),
        };
        let session = "34".repeat(16);
        let headers = format!(r#""fence":12,"session":"{session}","created":true"#);
        let expected = format!(r#"{{"status":200,{headers},"payload":{{"n":1}}}}"#);
        assert_eq!(object(&reply, &known(&reply).unwrap()).to_string(), expected);
    }

    #[test]
    fn words_of_a_shell() {
        assert_eq!(shell_word(&12.into()), "12");
        assert_eq!(shell_word(&"0af".into()), "0af");
        assert_eq!(shell_word(&"".into()), "''");
        assert_eq!(shell_word(&"it's $(x)".into()), r"'it'\''s $(x)'");
    }
}
