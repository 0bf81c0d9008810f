//! Where a path leads.

use std::fmt;

use super::{OBJECTS, Row, SERVER, SESSIONS};
use crate::Kind;
use crate::limits::MAX_NAME;

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/`, or nothing.
    Server,
    /// `/sessions`.
    Sessions,
    /// `/KIND`.
    Kind(Kind),
    /// `/KIND/NAME`, or the name of a queue.
    Object(Kind, &'a str),
}

/// A path that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// There is no such kind. The path.
    Unknown(String),
    /// A name makes no sense. Why.
    Name(&'static str),
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => {
                let kinds = Kind::ALL.map(Kind::plural).join(", ");
                write!(
                    f,
                    "nothing is at path {path:?}; there are /sessions and, of {kinds}, /KIND/NAME"
                )
            }
            Self::Name(wrong) => f.write_str(wrong),
        }
    }
}

impl std::error::Error for BadPath {}

impl<'a> Target<'a> {
    /// Where this path leads.
    ///
    /// # Errors
    /// If it leads nowhere.
    pub fn of(path: &'a str) -> Result<Self, BadPath> {
        let Some(rest) = path.strip_prefix('/') else {
            return match path {
                "" => Ok(Self::Server),
                name => Ok(Self::Object(Kind::Queue, checked_name(name)?)),
            };
        };
        if rest.is_empty() {
            return Ok(Self::Server);
        }
        let (kind, name) = match rest.split_once('/') {
            Some((kind, name)) => (kind, Some(name)),
            None => (rest, None),
        };
        if kind == SESSIONS.path && name.is_none() {
            return Ok(Self::Sessions);
        }
        let kind = Kind::from_plural(kind).ok_or_else(|| BadPath::Unknown(path.to_owned()))?;
        match name {
            None => Ok(Self::Kind(kind)),
            Some(name) => Ok(Self::Object(kind, checked_name(name)?)),
        }
    }

    /// The methods that are there.
    #[must_use]
    pub fn rows(self) -> &'static [Row] {
        match self {
            Self::Server => SERVER.rows,
            Self::Sessions => SESSIONS.rows,
            Self::Kind(_) => &[super::LIST],
            Self::Object(kind, _) => OBJECTS[kind as usize].rows,
        }
    }
}

fn checked_name(name: &str) -> Result<&str, BadPath> {
    let wrong = if name.is_empty() {
        "a name is empty"
    } else if name.len() > MAX_NAME {
        "a name has more than 255 bytes"
    } else if name.chars().any(char::is_control) {
        "a name has a control character"
    } else {
        return Ok(name);
    };
    Err(BadPath::Name(wrong))
}
