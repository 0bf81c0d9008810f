//! What the server said.

use semaforo_protocol::wire::{Answer, error_in};

use super::Error;

/// What the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 200 done, 204 not within the time limit, the others as in the protocol.
    pub status: u16,
    /// The details, without `id`.
    pub headers: Vec<(String, String)>,
    /// JSON, as it came.
    pub payload: Option<String>,
}

impl Reply {
    pub(super) fn new(answer: &Answer<'_>) -> Self {
        let headers = answer.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("id"));
        Self {
            status: answer.status,
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            payload: answer.payload.map(|payload| String::from_utf8_lossy(payload).into_owned()),
        }
    }

    /// The value of a header, whatever the case of its name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// The error that the payload tells.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        error_in(self.payload.as_deref()?.as_bytes())
    }

    /// A header that has to be there, and `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Error> {
        let value = self.header(name).unwrap_or_default();
        let nonsense = || Error::Nonsense(format!("{name} {value:?} is neither true nor false"));
        value.parse().map_err(|_| nonsense())
    }

    /// A header that has to be there, and a number.
    pub(super) fn number(&self, name: &str) -> Result<u64, Error> {
        let value = self.header(name).unwrap_or_default();
        let nonsense = || Error::Nonsense(format!("{name} {value:?} is not a number"));
        value.parse().map_err(|_| nonsense())
    }
}
