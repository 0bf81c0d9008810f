//! Why a request was not granted.

use std::error::Error as StandardError;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::Reply;

/// Why a request ended without being granted.
#[derive(Debug)]
pub enum Error {
    /// Its time was up.
    TimedOut,
    /// One of its tokens was cancelled.
    Cancelled,
    /// The session that it belonged to has ended, and with it everything that it held.
    SessionLost,
    /// There is no such object, or it was deleted meanwhile.
    NotFound(String),
    /// It exists with other settings, it is a broken barrier, or it is not the right kind of hold.
    Conflict(String),
    /// The hold, or the message, is not this session's any more.
    Gone(String),
    /// The server refused, for one of the other reasons of the protocol. Also if it was not even
    /// asked, since it could only have refused: a payload that is not JSON (400), or too large or
    /// too deep (413).
    Refused {
        /// The status of the answer.
        status: u16,
        /// What the server said, or would have.
        message: String,
    },
    /// The server is stopping, and the request cannot be repeated safely.
    ShuttingDown,
    /// No server could be reached.
    CannotConnect(io::Error),
    /// The connection was lost, for longer than the client's patience or with a request that cannot
    /// be repeated safely; or the client was closed.
    Disconnected,
    /// The server said something that is not an answer to this.
    Nonsense(String),
}

/// A token is not sent to another machine where it could be read on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unencrypted(pub(crate) SocketAddr);

impl fmt::Display for Unencrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token would travel unencrypted to {}, which is another machine", self.0)
    }
}

impl StandardError for Unencrypted {}

impl Error {
    /// Whether nothing was sent because the token would have travelled unencrypted.
    #[must_use]
    pub fn is_unencrypted(&self) -> bool {
        let Self::CannotConnect(error) = self else { return false };
        error.get_ref().is_some_and(|inner| inner.is::<Unencrypted>())
    }

    /// What an answer other than 200 means.
    pub(super) fn of(reply: &Reply) -> Self {
        let message = reply.error().unwrap_or_default();
        match reply.status {
            204 => Self::TimedOut,
            404 => Self::NotFound(message),
            409 => Self::Conflict(message),
            410 => Self::Gone(message),
            503 => Self::ShuttingDown,
            status => Self::Refused { status, message },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => write!(f, "timed out while waiting"),
            Self::Cancelled => write!(f, "cancelled while waiting"),
            Self::SessionLost => write!(f, "the session has ended, and everything it held is lost"),
            Self::NotFound(message) => write!(f, "not found: {message}"),
            Self::Conflict(message) => write!(f, "conflict: {message}"),
            Self::Gone(message) => write!(f, "gone: {message}"),
            Self::Refused { status, message } => write!(f, "refused ({status}): {message}"),
            Self::ShuttingDown => write!(f, "the server is shutting down"),
            Self::CannotConnect(error) => write!(f, "cannot connect: {error}"),
            Self::Disconnected => write!(f, "disconnected from the server"),
            Self::Nonsense(what) => write!(f, "the server's answer makes no sense: {what}"),
        }
    }
}

impl StandardError for Error {
    fn source(&self) -> Option<&(dyn StandardError + 'static)> {
        match self {
            Self::CannotConnect(error) => Some(error),
            _ => None,
        }
    }
}
