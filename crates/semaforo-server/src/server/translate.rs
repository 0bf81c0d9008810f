//! From a request's words to what the kernel understands.

use std::borrow::Cow;
use std::fmt;

use semaforo_protocol::limits::MAX_DELAY;
use semaforo_protocol::table::{
    ACKED, BadPath, Header, LIMITS, Method, Row, SEQ, SESSION, TIMEOUT, Target, UNBOUNDED, Value,
    anywhere,
};
use semaforo_protocol::wire::Request;

use super::request_digest::request_digest;
use crate::kernel::{
    Answer, Arguments, Charge, Command, Kind, Operation, Retry, Selection, SessionId, Status, Verb,
};

/// What a request wants, of the kernel or of the server.
#[derive(Debug)]
pub(super) enum Wanted<'a> {
    /// Of the kernel.
    Command(Command<'a>),
    /// The request itself.
    Echo,
    /// That a waiting request of this connection ends.
    Cancel {
        /// Its id.
        request: &'a str,
    },
    /// To be who the token says.
    Authenticate,
    /// What the server looks like.
    Show,
    /// That tokens and certificates are read again.
    Reload,
    /// The end.
    Shutdown,
}

/// What was understood of a request.
#[derive(Debug)]
pub(super) struct Understood<'a> {
    /// What the table of methods says of it.
    pub(super) row: &'static Row,
    /// Its answer is to name the limits of requests.
    pub(super) names_limits: bool,
    /// What it wants.
    pub(super) wanted: Wanted<'a>,
}

/// What a request wants. `draw` makes the id of a new session.
pub(super) fn translate<'a>(
    request: &'a Request<'_>,
    draw: impl FnOnce() -> SessionId,
) -> Result<Understood<'a>, Answer> {
    let (target, row) = match anywhere(&request.method) {
        Some(row) => (Target::Server, row),
        None => {
            let target = target(&request.path)?;
            let row = Row::called(&request.method, target.rows());
            (target, row.ok_or_else(|| no_such_method(request, target))?)
        }
    };
    let words = Words { request, row };
    let names_limits = words.is_other(LIMITS.name)?;
    let understood = |wanted| Understood { row, names_limits, wanted };
    let operation = match (row.method, target) {
        (Method::Echo, _) => return Ok(understood(Wanted::Echo)),
        (Method::Auth, _) => return Ok(understood(Wanted::Authenticate)),
        (Method::Reload, _) => return Ok(understood(Wanted::Reload)),
        (Method::Shutdown, _) => return Ok(understood(Wanted::Shutdown)),
        (Method::Show, Target::Server) => return Ok(understood(Wanted::Show)),
        (Method::Cancel, _) => match request.headers.get("request") {
            Some(id) => return Ok(understood(Wanted::Cancel { request: id })),
            None => {
                let seq = words.number(&SEQ)?;
                let wanted = "request (an id of this connection), or session and seq,";
                Operation::Cancel { seq: seq.ok_or_else(|| missing(wanted))? }
            }
        },
        (Method::Open, _) => {
            let (id, ttl) = (draw(), words.needed("ttl")?);
            Operation::Open { id, ttl, label: words.text("label")?.unwrap_or_default() }
        }
        (Method::KeepAlive, _) => Operation::KeepAlive,
        (Method::Close, _) => Operation::Close,
        (Method::List, Target::Kind(kind)) => words.list(Some(kind))?,
        (Method::List, _) => words.list(None)?,
        (_, Target::Object(kind, name)) => {
            let verb = Verb::read(kind, row.method, &words)?;
            let verb = verb.ok_or_else(|| no_such_method(request, target))?;
            Operation::Object { kind, name, verb }
        }
        (Method::Ping, _) => Operation::Ping,
        _ => return Err(no_such_method(request, target)),
    };
    // CANCEL names the request that is to end by its seq: it has none of its own.
    let is_own = row.header(SEQ.name).is_none();
    let seq = words.number(&SEQ)?.filter(|_| is_own);
    let command = Command {
        session: words.session()?,
        retry: seq.map(|seq| Retry { seq, digest: request_digest(request) }),
        acked: words.number(&ACKED)?,
        timeout: words.timeout()?,
        charge: Charge::default(),
        operation,
    };
    Ok(understood(Wanted::Command(command)))
}

/// Where a path leads, if anywhere.
fn target(path: &str) -> Result<Target<'_>, Answer> {
    Target::of(path).map_err(|wrong| {
        let status = match wrong {
            BadPath::Unknown(_) => Status::NotFound,
            BadPath::Name(_) => Status::BadRequest,
        };
        Answer::error(status, wrong.to_string())
    })
}

fn no_such_method(request: &Request<'_>, target: Target<'_>) -> Answer {
    let method = &request.method;
    let reason = match target {
        Target::Server => format!("the server has no method {method:?}"),
        Target::Sessions => format!("a session has no method {method:?}"),
        Target::Kind(kind) => {
            format!("/{0} can only be listed; one of them is /{0}/NAME", kind.plural())
        }
        Target::Object(kind, _) if kind.exists_by_use() && Method::Create.is_called(method) => {
            format!("a {} is not created: it exists by being used", kind.singular())
        }
        Target::Object(kind, _) => format!("a {} has no method {method:?}", kind.singular()),
    };
    Answer::error(Status::NoSuchMethod, reason)
}

fn missing(header: &str) -> Answer {
    Answer::error(Status::BadRequest, format!("header {header} is missing"))
}

/// A whole number in decimal digits; one that is beyond all bounds is as large as one can be.
fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let beyond = if digits.len() < text.len() { i64::MIN } else { UNBOUNDED };
    Some(text.parse().unwrap_or(beyond))
}

/// The headers of a request, as its row describes them. A header that the row does not have is
/// ignored.
struct Words<'a, 'b> {
    request: &'a Request<'b>,
    row: &'static Row,
}

impl<'a> Words<'a, '_> {
    fn get(&self, header: &str) -> Option<&'a str> {
        self.request.headers.get(header)
    }

    /// A whole number, in digits.
    fn number<T: TryFrom<i64>>(&self, header: &Header) -> Result<Option<T>, Answer> {
        let (Some(text), Value::Number(least, most)) = (self.get(header.name), header.value) else {
            return Ok(None);
        };
        let number = whole(text).filter(|number| (least..=most).contains(number));
        number.and_then(|number| T::try_from(number).ok()).map(Some).ok_or_else(|| {
            let right = match most {
                UNBOUNDED => format!("a whole number from {least}"),
                _ => format!("a whole number from {least} to {most}"),
            };
            self.wrong(header.name, right)
        })
    }

    /// A time in milliseconds; what is longer than [`MAX_DELAY`] is for ever.
    fn timeout(&self) -> Result<Option<u64>, Answer> {
        Ok(self.number(&TIMEOUT)?.filter(|time| *time <= MAX_DELAY))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Answer> {
        match (self.get(name), self.row.header(name).map(|header| header.value)) {
            (Some(text), Some(Value::Plain(most)))
                if text.len() > most || text.chars().any(char::is_control) =>
            {
                let right = format!("at most {most} bytes without control characters");
                Err(self.wrong(name, right))
            }
            (text, _) => Ok(text),
        }
    }

    fn session(&self) -> Result<Option<SessionId>, Answer> {
        let right = "32 hexadecimal digits, in lower case";
        self.get(SESSION.name)
            .map(|text| text.parse().map_err(|_| self.wrong(SESSION.name, right)))
            .transpose()
    }

    fn list(&self, kind: Option<Kind>) -> Result<Operation<'a>, Answer> {
        let prefix = self.get("prefix").unwrap_or_default();
        let limit = self.needed("limit")?;
        let wrong = || self.wrong("after", "the path of an object, /KIND/NAME");
        let after = match self.get("after") {
            None => None,
            Some(path) if !path.starts_with('/') => return Err(wrong()),
            Some(path) => match target(path)? {
                Target::Object(kind, name) => Some((kind, name)),
                _ => return Err(wrong()),
            },
        };
        Ok(Operation::List(Selection { kind, prefix, after, limit }))
    }
}

impl<'a> Arguments<'a> for Words<'a, '_> {
    fn optional<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>, Answer> {
        let Some(header) = self.row.header(name) else { return Ok(None) };
        let number = self.number(header)?;
        Ok(number.or_else(|| T::try_from(header.default?).ok()))
    }

    fn needed<T: TryFrom<i64>>(&self, name: &str) -> Result<T, Answer> {
        self.optional(name)?.ok_or_else(|| missing(name))
    }

    fn is_other(&self, name: &str) -> Result<bool, Answer> {
        let Some(Value::OneOf(words)) = self.row.header(name).map(|header| header.value) else {
            return Ok(false);
        };
        let Some(text) = self.get(name) else { return Ok(false) };
        match words.iter().position(|word| *word == text) {
            Some(place) => Ok(place > 0),
            None => Err(self.wrong(name, words.join(" or "))),
        }
    }

    fn payload(&self) -> &'a [u8] {
        self.request.payload.unwrap_or(b"null")
    }

    fn wrong(&self, header: &str, right: impl fmt::Display) -> Answer {
        let value: Cow<'_, str> = self.get(header).unwrap_or_default().chars().take(64).collect();
        Answer::error(
            Status::BadRequest,
            format!("header {header} is {value:?}; it should be {right}"),
        )
    }
}
