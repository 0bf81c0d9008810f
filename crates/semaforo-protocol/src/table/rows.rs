//! The rows: the names of the methods, their headers, and what can be asked of what.

use super::headers::{
    Header, LARGEST, LIMITS, MAX_DEPTH, MAX_FRAME, SEQ, TIMEOUT, Value, number, one_of, text,
};
use super::method::methods;
use super::{Effect, Resource, Right, Row, Session};
use crate::Kind;
use crate::limits::{
    DEFAULT_LIST, DEFAULT_TTL, MAX_DELAY, MAX_ID, MAX_LIST, MAX_PARTIES, MAX_PERMITS, MAX_TTL,
    MIN_TTL,
};

methods! {
    // Of the server.
    Ping "PING" Echo "ECHO" Auth "AUTH" Cancel "CANCEL" List "LIST" Reload "RELOAD"
    Shutdown "SHUTDOWN"
    // Of sessions.
    Open "OPEN" KeepAlive "KEEPALIVE" Close "CLOSE"
    // Of objects.
    Create "CREATE" Delete "DELETE" Show "SHOW"
    Acquire "ACQUIRE" Release "RELEASE" Check "CHECK" Resize "RESIZE"
    Downgrade "DOWNGRADE" Upgrade "UPGRADE"
    Down "DOWN" Wait "WAIT" Set "SET" Reset "RESET" Arrive "ARRIVE"
    Put "PUT" Transfer "TRANSFER" Take "TAKE" Ack "ACK" Return "RETURN"
}

const COUNTED: i64 = u32::MAX as i64;
const PERMITS: i64 = MAX_PERMITS as i64;

// The headers of methods, by their meaning: one name may have several.
const FENCE: Header = number("fence", 1, LARGEST, "the hold that is meant");
const MESSAGE: Header = number("message", 1, LARGEST, "the number of the message").required();
const DELIVERIES: Header = number("deliveries", 1, LARGEST, "the delivery of it that is meant");
const DELAY: Header =
    number("delay", 0, MAX_DELAY as i64, "milliseconds until it can be taken").or(0);
const PRIORITY: Header =
    number("priority", i32::MIN as i64, i32::MAX as i64, "smaller goes first").or(0);
const PERMITS_MADE: Header = number("permits", 1, PERMITS, "how many there are").required();
const INITIAL: Header = number("initial", 0, PERMITS, "if it is open: at first; default: all");
const OPEN: Header = one_of("open", &["false", "true"], "whether anybody may add permits");
const PERMITS_WANTED: Header = number("permits", 0, PERMITS, "default 1").or(1);
const PERMITS_GIVEN: Header = number("permits", 1, PERMITS, "default: all of the hold");
const MODE: Header = one_of("mode", &["write", "read"], "how it is held");
const COUNT: Header = number("count", 0, COUNTED, "what it begins with").required();
const NEW_COUNT: Header = number("count", 0, COUNTED, "default: what it began with");
const BY: Header = number("by", 1, COUNTED, "default 1").or(1);
const RESET: Header = one_of("reset", &["manual", "auto"], "whether a passage resets it");
const SET: Header = one_of("set", &["false", "true"], "whether it begins set");
const PARTIES: Header = number("parties", 1, MAX_PARTIES as i64, "how many meet").required();
const GENERATION: Header =
    number("generation", 0, LARGEST, "if that one is over, it is not waited for");
const CAPACITY: Header =
    number("capacity", 0, LARGEST, "messages it may hold; 0: no bound of its own").or(0);
const ACK: Header =
    one_of("ack", &["auto", "manual"], "whether it has to be acknowledged, by its session");
const TTL: Header =
    number("ttl", MIN_TTL as i64, MAX_TTL as i64, "milliseconds of silence until it ends")
        .or(DEFAULT_TTL as i64);
const LABEL: Header = text("label", Value::Plain(MAX_ID), "shown to people, at most 128 bytes");
const PREFIX: Header = text("prefix", Value::Text, "only names that begin so");
const LIMIT: Header = number("limit", 1, MAX_LIST as i64, "default 1000").or(DEFAULT_LIST as i64);
const AFTER: Header = text("after", Value::Path, "only what comes behind this object");

// A row begins as one of these two, and the methods after it say what is different.

/// A method that only reads, or of which nothing is kept.
const fn reads(method: Method, summary: &'static str) -> Row {
    Row {
        method,
        summary,
        headers: &[],
        answers: &[],
        statuses: &[],
        takes_payload: false,
        gives_payload: false,
        session: Session::May,
        is_pathless: false,
        right: Some(Right::Use),
        effect: Effect::Nothing,
        keeps_outcome: false,
        renews: false,
        names_a_hold: false,
    }
}

/// A method that changes an object.
const fn changes(method: Method, summary: &'static str) -> Row {
    Row { effect: Effect::Grows, keeps_outcome: true, renews: true, ..reads(method, summary) }
}

impl Row {
    const fn headers(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }

    const fn answers(self, answers: &'static [&'static str]) -> Self {
        Self { answers, ..self }
    }

    const fn or(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }

    const fn takes_payload(self) -> Self {
        Self { takes_payload: true, ..self }
    }

    const fn gives_payload(self) -> Self {
        Self { gives_payload: true, ..self }
    }

    /// The server answers it by itself.
    const fn without_session(self) -> Self {
        Self { session: Session::Never, ..self }
    }

    /// What it is about belongs to a session.
    const fn in_session(self) -> Self {
        Self { session: Session::Must, ..self }
    }

    /// It does not matter where it is asked for.
    const fn anywhere(self) -> Self {
        Self { is_pathless: true, ..self }
    }

    const fn needs(self, right: Right) -> Self {
        Self { right: Some(right), ..self }
    }

    const fn grows(self) -> Self {
        Self { effect: Effect::Grows, ..self }
    }

    const fn shrinks(self) -> Self {
        Self { effect: Effect::Shrinks, ..self }
    }

    const fn names_a_hold(self) -> Self {
        Self { names_a_hold: true, ..self }
    }
}

const SHOW: Row = reads(Method::Show, "Its state.").gives_payload().or(&[404]);
const CREATE: Row = changes(Method::Create, "Makes it.").answers(&["created"]).needs(Right::Create);
const DELETE: Row = changes(Method::Delete, "Ends it; requests that wait there get 404.")
    .or(&[404])
    .needs(Right::Create)
    .shrinks();
const ACQUIRE: Row =
    changes(Method::Acquire, "Waits for it.").answers(&["fence"]).or(&[204]).in_session();
const RELEASE: Row = changes(Method::Release, "Gives a hold back.")
    .headers(&[FENCE])
    .or(&[404])
    .shrinks()
    .names_a_hold();
const CHECK: Row = reads(Method::Check, "Whether that hold exists.")
    .headers(&[FENCE.required()])
    .or(&[404])
    .names_a_hold();

/// What there is: of the server, and of each kind.
pub const LIST: Row = reads(Method::List, "What there is.")
    .headers(&[PREFIX, LIMIT, AFTER])
    .answers(&["after"])
    .gives_payload();

const fn object(kind: Kind, summary: &'static str, rows: &'static [Row]) -> Resource {
    Resource { path: kind.plural(), kind: Some(kind), summary, rows }
}

/// The kinds of objects, by their numbers.
pub static OBJECTS: [Resource; Kind::ALL.len()] = [
    object(
        Kind::Lock,
        "A lock: one holder at a time, first come, first served.",
        &[ACQUIRE.headers(&[TIMEOUT]), RELEASE, CHECK, SHOW],
    ),
    object(
        Kind::Semaphore,
        "A semaphore: so many permits, first come, first served.",
        &[
            CREATE.headers(&[PERMITS_MADE, INITIAL, OPEN]),
            Row { summary: "Waits for permits.", ..ACQUIRE }
                .headers(&[PERMITS_WANTED, TIMEOUT])
                .or(&[204, 404]),
            Row { summary: "Gives permits back; adds them to an open semaphore.", ..RELEASE }
                .headers(&[FENCE, PERMITS_GIVEN]),
            changes(Method::Resize, "Changes how many permits there are.")
                .headers(&[PERMITS_MADE])
                .or(&[404])
                .needs(Right::Create),
            CHECK,
            SHOW,
            DELETE,
        ],
    ),
    object(
        Kind::ReadWriteLock,
        "A reader-writer lock, by Hoare's rule.",
        &[
            ACQUIRE.headers(&[MODE, TIMEOUT]),
            RELEASE,
            CHECK,
            changes(
                Method::Downgrade,
                "The write hold becomes a read hold; no writer comes in between.",
            )
            .headers(&[FENCE])
            .answers(&["fence"])
            .or(&[404])
            .names_a_hold(),
            changes(Method::Upgrade, "The read hold becomes a write hold, if it is the only one.")
                .headers(&[FENCE])
                .answers(&["fence"])
                .or(&[404])
                .names_a_hold(),
            SHOW,
        ],
    ),
    object(
        Kind::Latch,
        "A latch: opens when it was counted down to zero.",
        &[
            CREATE.headers(&[COUNT]),
            changes(Method::Down, "Counts down.").headers(&[BY]).answers(&["count"]).or(&[404]),
            changes(Method::Wait, "Waits for zero.").headers(&[TIMEOUT]).or(&[204, 404]),
            changes(Method::Reset, "Starts again.")
                .headers(&[NEW_COUNT])
                .answers(&["count"])
                .or(&[404]),
            SHOW,
            DELETE,
        ],
    ),
    object(
        Kind::Event,
        "An event: lets everyone pass while it is set, or one for each set.",
        &[
            CREATE.headers(&[RESET, SET]),
            changes(Method::Set, "Sets it.").or(&[404]),
            changes(Method::Reset, "Resets it.").or(&[404]),
            changes(Method::Wait, "Waits until it is set.").headers(&[TIMEOUT]).or(&[204, 404]),
            SHOW,
            DELETE,
        ],
    ),
    object(
        Kind::Barrier,
        "A barrier: all parties wait for each other.",
        &[
            changes(Method::Arrive, "Waits for all others.")
                .headers(&[PARTIES, TIMEOUT, GENERATION])
                .answers(&["generation", "index"])
                .or(&[204]),
            changes(Method::Reset, "Not broken any more; those who wait get 409."),
            SHOW,
        ],
    ),
    object(
        Kind::Queue,
        "A queue of messages.",
        &[
            CREATE.headers(&[CAPACITY]),
            changes(Method::Put, "Adds a message; waits for space.")
                .headers(&[PRIORITY, DELAY, TIMEOUT])
                .answers(&["message"])
                .or(&[204, 404])
                .takes_payload(),
            changes(Method::Transfer, "Adds a message and waits until it is taken.")
                .headers(&[PRIORITY, TIMEOUT])
                .or(&[204, 404])
                .takes_payload(),
            changes(Method::Take, "Waits for a message.")
                .headers(&[TIMEOUT, ACK])
                .answers(&["message", "deliveries"])
                .or(&[204, 404])
                .gives_payload()
                .shrinks(),
            changes(Method::Ack, "The message is done with.")
                .headers(&[MESSAGE, DELIVERIES])
                .or(&[404])
                .shrinks()
                .names_a_hold(),
            // It frees its taker, and the message is there already.
            changes(Method::Return, "The message goes back to its place.")
                .headers(&[MESSAGE, DELIVERIES, DELAY])
                .or(&[404])
                .shrinks()
                .names_a_hold(),
            SHOW,
            DELETE,
        ],
    ),
];

/// The named sessions.
pub static SESSIONS: Resource = Resource {
    path: "sessions",
    kind: None,
    summary: "Named sessions, which own holds and outlive connections.",
    rows: &[
        reads(Method::Open, "Begins one.")
            .headers(&[TTL, LABEL])
            .answers(&["session", "ttl"])
            .without_session()
            .grows(),
        Row { renews: true, ..reads(Method::KeepAlive, "Still here.") }
            .answers(&["ttl"])
            .in_session(),
        reads(Method::Close, "Ends it; what it held is released.").in_session().shrinks(),
    ],
};

/// The server itself.
pub static SERVER: Resource = Resource {
    path: "",
    kind: None,
    summary: "The server itself.",
    rows: &[
        reads(Method::Ping, "Nothing.")
            .headers(&[LIMITS])
            .answers(&[MAX_FRAME, MAX_DEPTH])
            .anywhere(),
        reads(Method::Echo, "The whole request comes back.")
            .takes_payload()
            .gives_payload()
            .without_session()
            .anywhere(),
        Row { right: None, ..reads(Method::Auth, "Whether the token of the request is known.") }
            .headers(&[LIMITS])
            .answers(&[MAX_FRAME, MAX_DEPTH])
            .without_session()
            .anywhere(),
        reads(
            Method::Cancel,
            "The request of this session with this seq does not wait any more; it is answered 204.",
        )
        .headers(&[SEQ.required()])
        .or(&[404])
        .in_session()
        .anywhere()
        .shrinks(),
        LIST,
        SHOW.without_session(),
        reads(Method::Reload, "Tokens and certificates are read again.")
            .without_session()
            .needs(Right::Administer),
        reads(Method::Shutdown, "It stops.").without_session().needs(Right::Administer),
    ],
};
