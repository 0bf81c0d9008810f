//! All operations in one table: what there is to know about them without running one. The ranges
//! and words of headers are those that requests are read by, over TCP, too.

use semaforo_protocol::limits::{MAX_DELAY, MAX_ID, MAX_LIST, MAX_SEQ, MAX_TTL, MIN_TTL};

use crate::kernel::{MAX_FENCE, MAX_PARTIES};

/// A kind of object, as it stands in a path.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// `locks`, as in `/locks/NAME`; empty for the server itself.
    pub path: &'static str,
    /// Whether a name follows.
    pub is_named: bool,
    /// What it is.
    pub summary: &'static str,
    /// What can be asked of it.
    pub operations: &'static [Operation],
}

/// One method of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// As it is written in a request.
    pub method: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Headers of the request that mean something to it, in addition to those of all.
    pub headers: &'static [Header],
    /// Headers of the answer.
    pub answers: &'static [&'static str],
    /// Statuses, in addition to those of all.
    pub statuses: &'static [u16],
    /// Whether the request has a payload.
    pub takes_payload: bool,
    /// Whether the answer has a payload.
    pub gives_payload: bool,
    /// Whether it is for a named session.
    pub session: Session,
    /// Whether it is the same at every path.
    pub is_pathless: bool,
}

/// Whether a request is for a named session, over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// The server answers it by itself.
    Never,
    /// If it says one.
    May,
    /// It has to say one: there is nothing else that could hold something.
    Must,
}

/// A header of a request.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub summary: &'static str,
    /// Its type.
    pub value: Value,
    /// Whether it must be there.
    pub is_required: bool,
}

/// The type of a header's value.
#[derive(Clone, Copy, Debug)]
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
const PERMITS: i64 = semaforo::policy::Permits::MAX as i64;

const fn number(name: &'static str, least: i64, most: i64, summary: &'static str) -> Header {
    Header { name, summary, value: Value::Number(least, most), is_required: false }
}

const fn text(name: &'static str, value: Value, summary: &'static str) -> Header {
    Header { name, summary, value, is_required: false }
}

const fn one_of(
    name: &'static str,
    words: &'static [&'static str],
    summary: &'static str,
) -> Header {
    Header { name, summary, value: Value::OneOf(words), is_required: false }
}

const fn required(header: Header) -> Header {
    Header { is_required: true, ..header }
}

// The headers, by their meaning: one name may have several.
pub(in crate::server) const TIMEOUT: Header = number(
    "timeout",
    0,
    UNBOUNDED,
    "milliseconds to wait; 0: now or not at all; left out: for ever",
);
pub(in crate::server) const FENCE: Header = number("fence", 1, LARGEST, "the hold that is meant");
pub(in crate::server) const MESSAGE: Header =
    required(number("message", 1, LARGEST, "the number of the message"));
pub(in crate::server) const DELIVERIES: Header =
    number("deliveries", 1, LARGEST, "the delivery of it that is meant");
pub(in crate::server) const DELAY: Header =
    number("delay", 0, MAX_DELAY as i64, "milliseconds until it can be taken");
pub(in crate::server) const PRIORITY: Header =
    number("priority", i32::MIN as i64, i32::MAX as i64, "smaller goes first");
pub(in crate::server) const PERMITS_MADE: Header =
    required(number("permits", 1, PERMITS, "how many there are"));
pub(in crate::server) const INITIAL: Header =
    number("initial", 0, PERMITS, "if it is open: at first; default: all");
pub(in crate::server) const OPEN: Header =
    one_of("open", &["false", "true"], "whether anybody may add permits");
pub(in crate::server) const PERMITS_WANTED: Header = number("permits", 0, PERMITS, "default 1");
pub(in crate::server) const PERMITS_GIVEN: Header =
    number("permits", 1, PERMITS, "default: all of the hold");
pub(in crate::server) const MODE: Header = one_of("mode", &["write", "read"], "how it is held");
pub(in crate::server) const COUNT: Header =
    required(number("count", 0, COUNTED, "what it begins with"));
pub(in crate::server) const NEW_COUNT: Header =
    number("count", 0, COUNTED, "default: what it began with");
pub(in crate::server) const BY: Header = number("by", 1, COUNTED, "default 1");
pub(in crate::server) const RESET: Header =
    one_of("reset", &["manual", "auto"], "whether a passage resets it");
pub(in crate::server) const SET: Header =
    one_of("set", &["false", "true"], "whether it begins set");
pub(in crate::server) const PARTIES: Header =
    required(number("parties", 1, MAX_PARTIES as i64, "how many meet"));
pub(in crate::server) const GENERATION: Header =
    number("generation", 0, LARGEST, "if that one is over, it is not waited for");
pub(in crate::server) const CAPACITY: Header =
    number("capacity", 0, LARGEST, "messages it may hold; 0: no bound of its own");
pub(in crate::server) const ACK: Header =
    one_of("ack", &["auto", "manual"], "whether it has to be acknowledged, by its session");
pub(in crate::server) const TTL: Header =
    number("ttl", MIN_TTL as i64, MAX_TTL as i64, "milliseconds of silence until it ends");
pub(in crate::server) const LABEL: Header =
    text("label", Value::Plain(MAX_ID), "shown to people, at most 128 bytes");
const PREFIX: Header = text("prefix", Value::Text, "only names that begin so");
pub(in crate::server) const LIMIT: Header = number("limit", 1, MAX_LIST as i64, "default 1000");
pub(in crate::server) const AFTER: Header =
    text("after", Value::Path, "only what comes behind this object");
pub(in crate::server) const ID: Header =
    text("id", Value::Plain(MAX_ID), "echoed, at most 128 bytes");
pub(in crate::server) const SESSION: Header =
    text("session", Value::Session, "the named session that it is for");
pub(in crate::server) const SEQ: Header = number(
    "seq",
    1,
    LARGEST,
    "with session: a number that it uses once, so that the request can be retried",
);
pub(in crate::server) const ACKED: Header =
    number("acked", 0, LARGEST, "with session: all answers up to this number have arrived");

const fn operation(
    method: &'static str,
    summary: &'static str,
    headers: &'static [Header],
    answers: &'static [&'static str],
    statuses: &'static [u16],
) -> Operation {
    Operation {
        method,
        summary,
        headers,
        answers,
        statuses,
        takes_payload: false,
        gives_payload: false,
        session: Session::May,
        is_pathless: false,
    }
}

const fn takes(operation: Operation) -> Operation {
    Operation { takes_payload: true, ..operation }
}

const fn gives(operation: Operation) -> Operation {
    Operation { gives_payload: true, ..operation }
}

/// The server answers it by itself.
const fn own(operation: Operation) -> Operation {
    Operation { session: Session::Never, ..operation }
}

/// What it is about belongs to a session.
const fn held(operation: Operation) -> Operation {
    Operation { session: Session::Must, ..operation }
}

/// It does not matter where it is asked for.
const fn anywhere(operation: Operation) -> Operation {
    Operation { is_pathless: true, ..operation }
}

const SHOW: Operation = gives(operation("SHOW", "Its state.", &[], &[], &[404]));
const DELETE: Operation =
    operation("DELETE", "Ends it; requests that wait there get 404.", &[], &[], &[404]);
const CHECK: Operation =
    operation("CHECK", "Whether that hold exists.", &[required(FENCE)], &[], &[404]);
const RELEASE: Operation = operation("RELEASE", "Gives a hold back.", &[FENCE], &[], &[404]);

/// What there is: of the server, and of each kind.
pub const LIST: Operation =
    gives(operation("LIST", "What there is.", &[PREFIX, LIMIT, AFTER], &["after"], &[]));

/// Headers that requests may have, if they are for a session.
pub const HEADERS: &[Header] = &[SESSION, SEQ, ACKED];

impl Operation {
    /// All headers that a request may have.
    pub fn all_headers(&self) -> impl Iterator<Item = Header> {
        let of_sessions: &[Header] = if self.session == Session::Never { &[] } else { HEADERS };
        let own = |header: &Header| self.headers.iter().any(|own| own.name == header.name);
        let must = self.session == Session::Must;
        let others = of_sessions.iter().filter(move |header| !own(header)).map(move |header| {
            let is_required = must && header.name == SESSION.name;
            Header { is_required, ..*header }
        });
        self.headers.iter().copied().chain(others).chain([ID])
    }
}

/// Whether the answer of a method has a payload, if it is done.
pub(super) fn gives_payload(method: &str) -> bool {
    let operations = KINDS.iter().flat_map(|kind| kind.operations);
    let mut giving = operations.filter(|operation| operation.gives_payload);
    giving.any(|operation| operation.method.eq_ignore_ascii_case(method))
}

/// All kinds, with all their operations.
pub const KINDS: &[Kind] = &[
    Kind {
        path: "locks",
        is_named: true,
        summary: "A lock: one holder at a time, first come, first served.",
        operations: &[
            held(operation("ACQUIRE", "Waits for it.", &[TIMEOUT], &["fence"], &[204])),
            RELEASE,
            CHECK,
            SHOW,
        ],
    },
    Kind {
        path: "semaphores",
        is_named: true,
        summary: "A semaphore: so many permits, first come, first served.",
        operations: &[
            operation("CREATE", "Makes it.", &[PERMITS_MADE, INITIAL, OPEN], &["created"], &[]),
            held(operation(
                "ACQUIRE",
                "Waits for permits.",
                &[PERMITS_WANTED, TIMEOUT],
                &["fence"],
                &[204, 404],
            )),
            operation(
                "RELEASE",
                "Gives permits back; adds them to an open semaphore.",
                &[FENCE, PERMITS_GIVEN],
                &[],
                &[404],
            ),
            operation(
                "RESIZE",
                "Changes how many permits there are.",
                &[PERMITS_MADE],
                &[],
                &[404],
            ),
            CHECK,
            SHOW,
            DELETE,
        ],
    },
    Kind {
        path: "rwlocks",
        is_named: true,
        summary: "A reader-writer lock, by Hoare's rule.",
        operations: &[
            held(operation("ACQUIRE", "Waits for it.", &[MODE, TIMEOUT], &["fence"], &[204])),
            RELEASE,
            CHECK,
            operation(
                "DOWNGRADE",
                "The write hold becomes a read hold; no writer comes in between.",
                &[FENCE],
                &["fence"],
                &[404],
            ),
            operation(
                "UPGRADE",
                "The read hold becomes a write hold, if it is the only one.",
                &[FENCE],
                &["fence"],
                &[404],
            ),
            SHOW,
        ],
    },
    Kind {
        path: "latches",
        is_named: true,
        summary: "A latch: opens when it was counted down to zero.",
        operations: &[
            operation("CREATE", "Makes it.", &[COUNT], &["created"], &[]),
            operation("DOWN", "Counts down.", &[BY], &["count"], &[404]),
            operation("WAIT", "Waits for zero.", &[TIMEOUT], &[], &[204, 404]),
            operation("RESET", "Starts again.", &[NEW_COUNT], &["count"], &[404]),
            SHOW,
            DELETE,
        ],
    },
    Kind {
        path: "events",
        is_named: true,
        summary: "An event: lets everyone pass while it is set, or one for each set.",
        operations: &[
            operation("CREATE", "Makes it.", &[RESET, SET], &["created"], &[]),
            operation("SET", "Sets it.", &[], &[], &[404]),
            operation("RESET", "Resets it.", &[], &[], &[404]),
            operation("WAIT", "Waits until it is set.", &[TIMEOUT], &[], &[204, 404]),
            SHOW,
            DELETE,
        ],
    },
    Kind {
        path: "barriers",
        is_named: true,
        summary: "A barrier: all parties wait for each other.",
        operations: &[
            operation(
                "ARRIVE",
                "Waits for all others.",
                &[PARTIES, TIMEOUT, GENERATION],
                &["generation", "index"],
                &[204],
            ),
            operation("RESET", "Not broken any more; those who wait get 409.", &[], &[], &[]),
            SHOW,
        ],
    },
    Kind {
        path: "queues",
        is_named: true,
        summary: "A queue of messages.",
        operations: &[
            operation("CREATE", "Makes it.", &[CAPACITY], &["created"], &[]),
            takes(operation(
                "PUT",
                "Adds a message; waits for space.",
                &[PRIORITY, DELAY, TIMEOUT],
                &["message"],
                &[204, 404],
            )),
            takes(operation(
                "TRANSFER",
                "Adds a message and waits until it is taken.",
                &[PRIORITY, TIMEOUT],
                &[],
                &[204, 404],
            )),
            gives(operation(
                "TAKE",
                "Waits for a message.",
                &[TIMEOUT, ACK],
                &["message", "deliveries"],
                &[204, 404],
            )),
            operation("ACK", "The message is done with.", &[MESSAGE, DELIVERIES], &[], &[404]),
            operation(
                "RETURN",
                "The message goes back to its place.",
                &[MESSAGE, DELIVERIES, DELAY],
                &[],
                &[404],
            ),
            SHOW,
            DELETE,
        ],
    },
    Kind {
        path: "sessions",
        is_named: false,
        summary: "Named sessions, which own holds and outlive connections.",
        operations: &[
            own(operation("OPEN", "Begins one.", &[TTL, LABEL], &["session", "ttl"], &[])),
            held(operation("KEEPALIVE", "Still here.", &[], &["ttl"], &[])),
            held(operation("CLOSE", "Ends it; what it held is released.", &[], &[], &[])),
        ],
    },
    Kind {
        path: "",
        is_named: false,
        summary: "The server itself.",
        operations: &[
            anywhere(operation("PING", "Nothing.", &[], &[], &[])),
            anywhere(own(gives(takes(operation(
                "ECHO",
                "The whole request comes back.",
                &[],
                &[],
                &[],
            ))))),
            anywhere(own(operation(
                "AUTH",
                "Whether the token of the request is known.",
                &[],
                &[],
                &[],
            ))),
            anywhere(held(operation(
                "CANCEL",
                "The request of this session with this seq does not wait any more; it is answered 204.",
                &[required(SEQ)],
                &[],
                &[404],
            ))),
            LIST,
            own(SHOW),
            own(operation("RELOAD", "Tokens and certificates are read again.", &[], &[], &[])),
            own(operation("SHUTDOWN", "It stops.", &[], &[], &[])),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The words in back-quotes in the first column of a table, in capitals.
    fn methods(section: &str) -> BTreeSet<&str> {
        section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('|').next())
            .flat_map(|column| column.split('`'))
            .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase()))
            .collect()
    }

    #[test]
    fn the_table_says_what_the_protocol_says() {
        let protocol = include_str!("../../../../../docs/protocol.md");
        for kind in KINDS.iter().filter(|kind| !kind.path.is_empty()) {
            let title = if kind.is_named {
                format!("### `/{}/NAME`", kind.path)
            } else {
                format!("`Path` is `/{}`:", kind.path)
            };
            let (_, section) = protocol.split_once(&title).unwrap_or_else(|| panic!("{title}"));
            let section = section.split("\n#").next().unwrap();
            let described = methods(section);
            let always = ["SHOW", "DELETE"];
            let ours: BTreeSet<&str> = kind
                .operations
                .iter()
                .map(|operation| operation.method)
                .filter(|method| !always.contains(method) || described.contains(method))
                .collect();
            assert_eq!(ours, described, "the methods of {}", kind.path);
            for operation in kind.operations {
                let headers = operation.headers.iter().map(|header| header.name);
                for name in headers.chain(operation.answers.iter().copied()) {
                    assert!(
                        section.contains(&format!("`{name}")),
                        "{} {} has a header '{name}' that the protocol does not describe",
                        kind.path,
                        operation.method
                    );
                }
            }
        }
    }
}
