//! One table of all methods: what there is to know about them without performing one.
//!
//! A [`Row`] is a method of a [`Resource`]: of a kind of object, of the sessions, of the server.
//! Requests are read by it, classified and authorized by it, the client knows from it which may
//! wait and which renew their session, and the OpenAPI document and the tables of
//! `docs/protocol.md` are compared with it or made from it.
//!
//! ```
//! use semaforo_protocol::table::{Method, Right, find};
//!
//! let row = find("/queues/jobs", "put").unwrap();
//! assert_eq!((row.method, row.right), (Method::Put, Some(Right::Use)));
//! assert!(row.waits() && row.keeps_outcome && row.takes_payload);
//! assert_eq!(row.header("priority").unwrap().default, Some(0));
//! assert!(find("/locks/door", "PUT").is_none());
//! ```

mod headers;
mod method;
mod path;
mod rows;

pub use headers::{
    ACKED, HEADERS, Header, ID, LIMITS, MAX_DEPTH, MAX_FRAME, SEQ, SESSION, TIMEOUT, UNBOUNDED,
    Value,
};
pub use path::{BadPath, Target};
pub use rows::{LIST, Method, OBJECTS, SERVER, SESSIONS};

use crate::Kind;

/// What a path can lead to, with the methods that are there.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// `locks`, as in `/locks/NAME`; empty for the server itself.
    pub path: &'static str,
    /// Of which kind of object it is; then a name follows.
    pub kind: Option<Kind>,
    /// What it is.
    pub summary: &'static str,
    /// What can be asked of it.
    pub rows: &'static [Row],
}

/// One method of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The method.
    pub method: Method,
    /// What it does.
    pub summary: &'static str,
    /// Headers of the request that mean something to it, in addition to those of all.
    pub headers: &'static [Header],
    /// Headers of the answer.
    pub answers: &'static [&'static str],
    /// Statuses, in addition to those of all.
    pub statuses: &'static [u16],
    /// The request has a payload.
    pub takes_payload: bool,
    /// The answer has a payload.
    pub gives_payload: bool,
    /// Whether it is for a named session.
    pub session: Session,
    /// It is the same at every path.
    pub is_pathless: bool,
    /// The right that its token has to have; none: every known token may.
    pub right: Option<Right>,
    /// What it does to the state, and so to the journal.
    pub effect: Effect,
    /// Done twice it is not the same as once: with a `seq` its outcome is kept.
    pub keeps_outcome: bool,
    /// It cannot be answered 200 or 204 without having got to its session, which renews it.
    pub renews: bool,
    /// It names a hold, or a delivery: 410 may mean that only this has ended, and not the session.
    pub names_a_hold: bool,
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

/// What a token may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To use objects.
    Use,
    /// To create and delete them.
    Create,
    /// To stop the server, or to let it read its tokens and certificates again.
    Administer,
    /// To see its figures, which are no method.
    Observe,
}

impl Right {
    /// What it is called in a token file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Create => "create",
            Self::Administer => "admin",
            Self::Observe => "observe",
        }
    }
}

/// What a request does to the state, and so to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// It makes the state larger, or at least the journal.
    Grows,
    /// It makes the state smaller, and so the next snapshot: it goes on when there is little space.
    Shrinks,
}

/// The kinds of objects, the sessions and the server.
pub fn resources() -> impl Iterator<Item = &'static Resource> {
    OBJECTS.iter().chain([&SESSIONS, &SERVER])
}

/// The row of a method that is asked for at a path, if that has it.
#[must_use]
pub fn find(path: &str, method: &str) -> Option<&'static Row> {
    anywhere(method).or_else(|| Row::called(method, Target::of(path).ok()?.rows()))
}

/// The row of a method that is the same at every path, if it is one of these.
#[must_use]
pub fn anywhere(method: &str) -> Option<&'static Row> {
    Row::called(method, SERVER.rows).filter(|row| row.is_pathless)
}

impl Row {
    /// The one of these rows whose method a request calls so.
    #[must_use]
    pub fn called(method: &str, rows: &'static [Self]) -> Option<&'static Self> {
        rows.iter().find(|row| row.method.is_called(method))
    }

    /// The row of a method of objects of a kind, if they have it.
    #[must_use]
    pub fn of(kind: Kind, method: Method) -> Option<&'static Self> {
        OBJECTS[kind as usize].rows.iter().find(|row| row.method == method)
    }

    /// Whether it may wait: then it takes a time limit.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.header(TIMEOUT.name).is_some()
    }

    /// Its own header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'static Header> {
        self.headers.iter().find(|header| header.name == name)
    }

    /// All headers that a request may have.
    pub fn all_headers(&self) -> impl Iterator<Item = Header> {
        let of_sessions: &[Header] = if self.session == Session::Never { &[] } else { HEADERS };
        let must = self.session == Session::Must;
        let others = of_sessions.iter().filter(|header| self.header(header.name).is_none());
        let others = others.map(move |header| {
            let is_required = must && header.name == SESSION.name;
            Header { is_required, ..*header }
        });
        self.headers.iter().copied().chain(others).chain([ID])
    }
}

#[cfg(test)]
mod tests;
