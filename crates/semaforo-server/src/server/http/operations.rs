//! All operations in one table: what there is to know about them without running one.

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
    /// A whole number within bounds.
    Number(i64, i64),
    /// Any text.
    Text,
    /// One of these words; the first is what it is when it is left out.
    OneOf(&'static [&'static str]),
}

const LARGEST: i64 = (1 << 53) - 1;

const fn number(name: &'static str, least: i64, most: i64, summary: &'static str) -> Header {
    Header { name, summary, value: Value::Number(least, most), is_required: false }
}

const fn text(name: &'static str, summary: &'static str) -> Header {
    Header { name, summary, value: Value::Text, is_required: false }
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

const TIMEOUT: Header =
    number("timeout", 0, LARGEST, "milliseconds to wait; 0: now or not at all; left out: for ever");
const FENCE: Header = number("fence", 1, LARGEST, "the hold that is meant");
const MESSAGE: Header = required(number("message", 1, LARGEST, "the number of the message"));
const DELIVERIES: Header = number("deliveries", 1, LARGEST, "the delivery of it that is meant");
const DELAY: Header = number("delay", 0, LARGEST, "milliseconds until it can be taken");
const PRIORITY: Header = number("priority", -(1 << 31), (1 << 31) - 1, "smaller goes first");

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
    }
}

const fn takes(operation: Operation) -> Operation {
    Operation { takes_payload: true, ..operation }
}

const fn gives(operation: Operation) -> Operation {
    Operation { gives_payload: true, ..operation }
}

const SHOW: Operation = gives(operation("SHOW", "Its state.", &[], &[], &[404]));
const DELETE: Operation =
    operation("DELETE", "Ends it; requests that wait there get 404.", &[], &[], &[404]);
const CHECK: Operation =
    operation("CHECK", "Whether that hold exists.", &[required(FENCE)], &[], &[410]);
const RELEASE: Operation = operation("RELEASE", "Gives a hold back.", &[FENCE], &[], &[410]);
const LIST: Operation = gives(operation(
    "LIST",
    "What there is.",
    &[text("prefix", "only names that begin so"), number("limit", 1, LARGEST, "default 1000")],
    &[],
    &[],
));

/// Headers that every request may have.
pub const HEADERS: &[Header] = &[
    text("id", "echoed, at most 128 bytes"),
    text("session", "the named session that it is for"),
    number("seq", 1, LARGEST, "a number that the session uses once: the request can be retried"),
    number("acked", 0, LARGEST, "all answers up to this number have arrived"),
    text("token", "credentials for this request"),
];

/// All kinds, with all their operations.
pub const KINDS: &[Kind] = &[
    Kind {
        path: "locks",
        is_named: true,
        summary: "A lock: one holder at a time, first come, first served.",
        operations: &[
            operation("ACQUIRE", "Waits for it.", &[TIMEOUT], &["fence"], &[204]),
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
            operation(
                "CREATE",
                "Makes it.",
                &[
                    required(number("permits", 1, (1 << 30) - 1, "how many there are")),
                    number("initial", 0, (1 << 30) - 1, "if it is open: at first; default: all"),
                    one_of("open", &["false", "true"], "whether anybody may add permits"),
                ],
                &["created"],
                &[409],
            ),
            operation(
                "ACQUIRE",
                "Waits for permits.",
                &[number("permits", 0, (1 << 30) - 1, "default 1"), TIMEOUT],
                &["fence"],
                &[204, 404],
            ),
            operation(
                "RELEASE",
                "Gives permits back; adds them to an open semaphore.",
                &[FENCE, number("permits", 1, (1 << 30) - 1, "default: all of the hold")],
                &[],
                &[404, 409, 410],
            ),
            operation(
                "RESIZE",
                "Changes how many permits there are.",
                &[required(number("permits", 1, (1 << 30) - 1, "how many there are from now on"))],
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
            operation(
                "ACQUIRE",
                "Waits for it.",
                &[one_of("mode", &["write", "read"], "how it is held"), TIMEOUT],
                &["fence"],
                &[204],
            ),
            RELEASE,
            CHECK,
            operation(
                "DOWNGRADE",
                "The write hold becomes a read hold; no writer comes in between.",
                &[required(FENCE)],
                &[],
                &[409, 410],
            ),
            operation(
                "UPGRADE",
                "The read hold becomes a write hold, if it is the only one.",
                &[required(FENCE)],
                &["fence"],
                &[409, 410],
            ),
            SHOW,
        ],
    },
    Kind {
        path: "latches",
        is_named: true,
        summary: "A latch: opens when it was counted down to zero.",
        operations: &[
            operation(
                "CREATE",
                "Makes it.",
                &[required(number("count", 0, (1 << 32) - 1, "what it begins with"))],
                &["created"],
                &[409],
            ),
            operation(
                "DOWN",
                "Counts down.",
                &[number("by", 1, (1 << 32) - 1, "default 1")],
                &["count"],
                &[404],
            ),
            operation("WAIT", "Waits for zero.", &[TIMEOUT], &[], &[204, 404]),
            operation(
                "RESET",
                "Starts again.",
                &[number("count", 0, (1 << 32) - 1, "default: what it began with")],
                &[],
                &[404],
            ),
            SHOW,
            DELETE,
        ],
    },
    Kind {
        path: "events",
        is_named: true,
        summary: "An event: lets everyone pass while it is set, or one for each set.",
        operations: &[
            operation(
                "CREATE",
                "Makes it.",
                &[
                    one_of("reset", &["manual", "auto"], "whether a passage resets it"),
                    one_of("set", &["false", "true"], "whether it begins set"),
                ],
                &["created"],
                &[409],
            ),
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
                &[
                    required(number("parties", 1, 1 << 20, "how many meet")),
                    TIMEOUT,
                    number("generation", 0, LARGEST, "if that one is over, it is not waited for"),
                ],
                &["generation", "index"],
                &[204, 409],
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
            operation(
                "CREATE",
                "Makes it.",
                &[number("capacity", 0, LARGEST, "messages it may hold; 0: no bound of its own")],
                &["created"],
                &[409],
            ),
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
                &["message"],
                &[204, 404],
            )),
            gives(operation(
                "TAKE",
                "Waits for a message.",
                &[TIMEOUT, one_of("ack", &["auto", "manual"], "whether it has to be acknowledged")],
                &["message", "deliveries"],
                &[204, 404],
            )),
            operation("ACK", "The message is done with.", &[MESSAGE, DELIVERIES], &[], &[404, 410]),
            operation(
                "RETURN",
                "The message goes back to its place.",
                &[MESSAGE, DELIVERIES, DELAY],
                &[],
                &[404, 410],
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
            operation(
                "OPEN",
                "Begins one.",
                &[
                    number("ttl", 100, 86_400_000, "milliseconds of silence until it ends"),
                    text("label", "shown to people, at most 128 bytes"),
                ],
                &["session", "ttl"],
                &[],
            ),
            operation("KEEPALIVE", "Still here.", &[], &["ttl"], &[410]),
            operation("CLOSE", "Ends it; what it held is released.", &[], &[], &[410]),
        ],
    },
    Kind {
        path: "",
        is_named: false,
        summary: "The server itself.",
        operations: &[
            operation("PING", "Nothing.", &[], &[], &[]),
            gives(takes(operation("ECHO", "The whole request comes back.", &[], &[], &[]))),
            operation(
                "CANCEL",
                "A request does not wait any more; it is answered 204.",
                &[text("request", "the id of a request of this connection")],
                &[],
                &[404],
            ),
            LIST,
            SHOW,
            operation("RELOAD", "Tokens and certificates are read again.", &[], &[], &[409]),
            operation("SHUTDOWN", "It stops.", &[], &[], &[]),
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
