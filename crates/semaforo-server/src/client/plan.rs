//! What is to be asked of the server, and how often it may be asked.

use std::borrow::Cow;
use std::sync::Arc;

use super::lease::Lease;

/// What is to be asked.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) method: Cow<'static, str>,
    pub(super) path: String,
    pub(super) headers: Vec<(Cow<'static, str>, String)>,
    pub(super) payload: Option<String>,
    pub(super) mode: Mode,
    /// The server takes a time limit for it.
    pub(super) waits: bool,
    pub(super) undo: Undo,
    /// The session of the hold that this is about; none: whichever is used now.
    pub(super) lease: Option<Arc<Lease>>,
}

/// How a request is repeated when its connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is not, since it was perhaps done. Without a session.
    Once,
    /// As it is: asking twice does no harm. Without a session.
    Free,
    /// With its session, as it is: the second time finds nothing to do. It stays to be done when
    /// nobody waits for the answer any more.
    Again,
    /// With its session and its number, by which the server knows whether it was done.
    Safe,
}

/// What gives back that which was granted and nobody claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    Nothing,
    /// `RELEASE` with the fence.
    Release,
    /// `RETURN` with the message.
    Return,
}

impl Undo {
    /// The method, and the header of the grant that it needs.
    pub(super) const fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nothing => None,
            Self::Release => Some(("RELEASE", "fence")),
            Self::Return => Some(("RETURN", "message")),
        }
    }
}

impl Plan {
    pub(super) fn new(
        method: impl Into<Cow<'static, str>>,
        path: impl Into<String>,
        mode: Mode,
    ) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            payload: None,
            mode,
            waits: false,
            undo: Undo::Nothing,
            lease: None,
        }
    }

    pub(super) fn header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl ToString,
    ) -> Self {
        self.headers.push((name.into(), value.to_string()));
        self
    }

    pub(super) fn payload(mut self, payload: impl Into<String>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    pub(super) fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    pub(super) fn undo(mut self, undo: Undo) -> Self {
        self.undo = undo;
        self
    }

    pub(super) fn lease(mut self, lease: &Arc<Lease>) -> Self {
        self.lease = Some(Arc::clone(lease));
        self
    }
}
