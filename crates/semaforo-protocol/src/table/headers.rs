//! What a header of a request can be, and the headers that are not those of a few methods.

use crate::limits::{MAX_FENCE, MAX_ID, MAX_SEQ};

/// A header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub summary: &'static str,
    /// Its type.
    pub value: Value,
    /// Whether it must be there.
    pub is_required: bool,
    /// The number that it is if it is left out, if that is always the same.
    pub default: Option<i64>,
}

/// The type of a header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number within bounds, of which the upper one may be [none](UNBOUNDED).
    Number(i64, i64),
    /// Any text.
    Text,
    /// Text of at most so many bytes without control characters.
    Plain(usize),
    /// The name of a session: 32 hexadecimal digits, in lower case.
    Session,
    /// The path of an object: `/KIND/NAME`.
    Path,
    /// One of these words; the first is what it is when it is left out.
    OneOf(&'static [&'static str]),
}

/// The upper bound of numbers that have none: what is larger means the same.
pub const UNBOUNDED: i64 = i64::MAX;

/// Larger numbers are not the same for every JSON reader.
pub(super) const LARGEST: i64 = 1 << 53;
const _: () = assert!(MAX_FENCE == LARGEST as u64 && MAX_SEQ == LARGEST as u64);

pub(super) const fn text(name: &'static str, value: Value, summary: &'static str) -> Header {
    Header { name, summary, value, is_required: false, default: None }
}

pub(super) const fn number(
    name: &'static str,
    least: i64,
    most: i64,
    summary: &'static str,
) -> Header {
    text(name, Value::Number(least, most), summary)
}

pub(super) const fn one_of(
    name: &'static str,
    words: &'static [&'static str],
    summary: &'static str,
) -> Header {
    text(name, Value::OneOf(words), summary)
}

impl Header {
    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(super) const fn or(self, default: i64) -> Self {
        Self { default: Some(default), ..self }
    }
}

/// Headers that requests may have, if they are for a session.
pub const HEADERS: &[Header] = &[SESSION, SEQ, ACKED];

/// How long a request may wait.
pub const TIMEOUT: Header = number(
    "timeout",
    0,
    UNBOUNDED,
    "milliseconds to wait; 0: now or not at all; left out: for ever",
);
/// Whether a client that greets the server wants to know what it can read.
pub const LIMITS: Header =
    one_of("limits", &["false", "true"], "whether the answer names the limits of requests");
/// The header of an answer with the most bytes of a request.
pub const MAX_FRAME: &str = "max-frame";
/// The header of an answer with the deepest nesting of a request, itself being the first level.
pub const MAX_DEPTH: &str = "max-depth";
/// What the answer is recognized by.
pub const ID: Header = text("id", Value::Plain(MAX_ID), "echoed, at most 128 bytes");
/// The session of a request.
pub const SESSION: Header = text("session", Value::Session, "the named session that it is for");
/// The number of a request in its session.
pub const SEQ: Header = number(
    "seq",
    1,
    LARGEST,
    "with session: a number that it uses once, so that the request can be retried",
);
/// The answers of a session that have arrived.
pub const ACKED: Header =
    number("acked", 0, LARGEST, "with session: all answers up to this number have arrived");
