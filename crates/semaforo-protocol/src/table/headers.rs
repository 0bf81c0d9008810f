//! The headers of requests: their names, and what they can be.

use crate::limits::{
    DEFAULT_LIST, DEFAULT_TTL, MAX_DELAY, MAX_FENCE, MAX_ID, MAX_LIST, MAX_PARTIES, MAX_PERMITS,
    MAX_SEQ, MAX_TTL, MIN_TTL,
};

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
const LARGEST: i64 = 1 << 53;
const _: () = assert!(MAX_FENCE == LARGEST as u64 && MAX_SEQ == LARGEST as u64);
const COUNTED: i64 = u32::MAX as i64;
const PERMITS: i64 = MAX_PERMITS as i64;

const fn text(name: &'static str, value: Value, summary: &'static str) -> Header {
    Header { name, summary, value, is_required: false, default: None }
}

const fn number(name: &'static str, least: i64, most: i64, summary: &'static str) -> Header {
    text(name, Value::Number(least, most), summary)
}

const fn one_of(
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

    const fn or(self, default: i64) -> Self {
        Self { default: Some(default), ..self }
    }
}

/// Headers that requests may have, if they are for a session.
pub const HEADERS: &[Header] = &[SESSION, SEQ, ACKED];

// By their meaning: one name may have several.

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

pub(super) const FENCE: Header = number("fence", 1, LARGEST, "the hold that is meant");
pub(super) const MESSAGE: Header =
    number("message", 1, LARGEST, "the number of the message").required();
pub(super) const DELIVERIES: Header =
    number("deliveries", 1, LARGEST, "the delivery of it that is meant");
pub(super) const DELAY: Header =
    number("delay", 0, MAX_DELAY as i64, "milliseconds until it can be taken").or(0);
pub(super) const PRIORITY: Header =
    number("priority", i32::MIN as i64, i32::MAX as i64, "smaller goes first").or(0);
pub(super) const PERMITS_MADE: Header =
    number("permits", 1, PERMITS, "how many there are").required();
pub(super) const INITIAL: Header =
    number("initial", 0, PERMITS, "if it is open: at first; default: all");
pub(super) const OPEN: Header =
    one_of("open", &["false", "true"], "whether anybody may add permits");
pub(super) const PERMITS_WANTED: Header = number("permits", 0, PERMITS, "default 1").or(1);
pub(super) const PERMITS_GIVEN: Header = number("permits", 1, PERMITS, "default: all of the hold");
pub(super) const MODE: Header = one_of("mode", &["write", "read"], "how it is held");
pub(super) const COUNT: Header = number("count", 0, COUNTED, "what it begins with").required();
pub(super) const NEW_COUNT: Header = number("count", 0, COUNTED, "default: what it began with");
pub(super) const BY: Header = number("by", 1, COUNTED, "default 1").or(1);
pub(super) const RESET: Header =
    one_of("reset", &["manual", "auto"], "whether a passage resets it");
pub(super) const SET: Header = one_of("set", &["false", "true"], "whether it begins set");
pub(super) const PARTIES: Header =
    number("parties", 1, MAX_PARTIES as i64, "how many meet").required();
pub(super) const GENERATION: Header =
    number("generation", 0, LARGEST, "if that one is over, it is not waited for");
pub(super) const CAPACITY: Header =
    number("capacity", 0, LARGEST, "messages it may hold; 0: no bound of its own").or(0);
pub(super) const ACK: Header =
    one_of("ack", &["auto", "manual"], "whether it has to be acknowledged, by its session");
pub(super) const TTL: Header =
    number("ttl", MIN_TTL as i64, MAX_TTL as i64, "milliseconds of silence until it ends")
        .or(DEFAULT_TTL as i64);
pub(super) const LABEL: Header =
    text("label", Value::Plain(MAX_ID), "shown to people, at most 128 bytes");
pub(super) const PREFIX: Header = text("prefix", Value::Text, "only names that begin so");
pub(super) const LIMIT: Header =
    number("limit", 1, MAX_LIST as i64, "default 1000").or(DEFAULT_LIST as i64);
pub(super) const AFTER: Header = text("after", Value::Path, "only what comes behind this object");
