//! From a request's words to what the kernel understands.

use std::borrow::Cow;

use semaforo_protocol::limits::{DEFAULT_LIST, DEFAULT_TTL, MAX_DELAY, MAX_NAME};
use semaforo_protocol::wire::Request;

use super::digest::digest;
use super::http::operations::{
    ACK, ACKED, AFTER, BY, CAPACITY, COUNT, DELAY, DELIVERIES, FENCE, GENERATION, Header, INITIAL,
    LABEL, LIMIT, MESSAGE, MODE, NEW_COUNT, OPEN, PARTIES, PERMITS_GIVEN, PERMITS_MADE,
    PERMITS_WANTED, PRIORITY, RESET, SEQ, SESSION, SET, TIMEOUT, TTL, UNBOUNDED, Value,
};
use crate::kernel::{
    Answer, Charge, Command, Kind, Operation, Retry, Selection, SessionId, Settings, Status, Verb,
    Wish,
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

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// `/`, or nothing.
    Server,
    /// `/sessions`.
    Sessions,
    /// `/KIND`.
    Kind(Kind),
    /// `/KIND/NAME`, or the name of a queue.
    Object(Kind, &'a str),
}

/// Where a path leads, if anywhere.
pub(super) fn target(path: &str) -> Result<Target<'_>, Answer> {
    let Some(rest) = path.strip_prefix('/') else {
        return match path {
            "" => Ok(Target::Server),
            name => Ok(Target::Object(Kind::Queue, checked_name(name)?)),
        };
    };
    if rest.is_empty() {
        return Ok(Target::Server);
    }
    let (kind, name) = match rest.split_once('/') {
        Some((kind, name)) => (kind, Some(name)),
        None => (rest, None),
    };
    if kind == "sessions" && name.is_none() {
        return Ok(Target::Sessions);
    }
    let Some(kind) = Kind::from_plural(kind) else {
        let kinds = Kind::ALL.map(Kind::plural).join(", ");
        let reason =
            format!("nothing is at path {path:?}; there are /sessions and, of {kinds}, /KIND/NAME");
        return Err(Answer::error(Status::NotFound, reason));
    };
    match name {
        None => Ok(Target::Kind(kind)),
        Some(name) => Ok(Target::Object(kind, checked_name(name)?)),
    }
}

fn checked_name(name: &str) -> Result<&str, Answer> {
    let wrong = if name.is_empty() {
        "a name is empty"
    } else if name.len() > MAX_NAME {
        "a name has more than 255 bytes"
    } else if name.chars().any(char::is_control) {
        "a name has a control character"
    } else {
        return Ok(name);
    };
    Err(Answer::error(Status::Senseless, wrong))
}

/// What a request wants. `draw` makes the id of a new session.
pub(super) fn translate<'a>(
    request: &'a Request<'_>,
    draw: impl FnOnce() -> SessionId,
) -> Result<Wanted<'a>, Answer> {
    let mut space = [0; 16];
    let method = upper(&request.method, &mut space);
    if method == "ECHO" || method.starts_with("ECHO-") || method_begins_with_echo(request) {
        return Ok(Wanted::Echo);
    }
    let words = Words { request };
    let operation = match method {
        "PING" => Operation::Ping,
        "AUTH" => return Ok(Wanted::Authenticate),
        "CANCEL" => match request.headers.get("request") {
            Some(id) => return Ok(Wanted::Cancel { request: id }),
            None => Operation::Cancel {
                seq: words.number(&SEQ)?.ok_or_else(|| {
                    missing("request (an id of this connection), or session and seq,")
                })?,
            },
        },
        _ => match target(&request.path)? {
            Target::Server => match method {
                "RELOAD" => return Ok(Wanted::Reload),
                "SHUTDOWN" => return Ok(Wanted::Shutdown),
                "SHOW" => return Ok(Wanted::Show),
                "LIST" => words.list(None)?,
                _ => return Err(unknown_method(request, "the server")),
            },
            Target::Sessions => match method {
                "OPEN" => Operation::Open {
                    id: draw(),
                    ttl: words.number(&TTL)?.unwrap_or(DEFAULT_TTL),
                    label: words.text(&LABEL)?.unwrap_or_default(),
                },
                "KEEPALIVE" => Operation::KeepAlive,
                "CLOSE" => Operation::Close,
                _ => return Err(unknown_method(request, "a session")),
            },
            Target::Kind(kind) => match method {
                "LIST" => words.list(Some(kind))?,
                _ => {
                    let reason =
                        format!("/{0} can only be listed; one of them is /{0}/NAME", kind.plural());
                    return Err(Answer::error(Status::NoSuchMethod, reason));
                }
            },
            Target::Object(kind, name) => {
                let verb = words.verb(kind, method)?;
                Operation::Object { kind, name, verb }
            }
        },
    };
    // CANCEL names the request that is to end by its seq: it has none of its own.
    let numbered = !matches!(operation, Operation::Cancel { .. });
    let seq = words.number(&SEQ)?.filter(|_| numbered);
    Ok(Wanted::Command(Command {
        session: words.session()?,
        retry: seq.map(|seq| Retry { seq, digest: digest(request) }),
        acked: words.number(&ACKED)?,
        timeout: words.timeout()?,
        charge: Charge::default(),
        operation,
    }))
}

/// A method in upper case; one that is longer than all that there are stays as it is.
fn upper<'a>(method: &'a str, space: &'a mut [u8; 16]) -> &'a str {
    match space.get_mut(..method.len()) {
        Some(space) => {
            space.copy_from_slice(method.as_bytes());
            space.make_ascii_uppercase();
            std::str::from_utf8(space).unwrap_or(method)
        }
        None => method,
    }
}

fn method_begins_with_echo(request: &Request<'_>) -> bool {
    request.method.as_bytes().get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case(b"ECHO-"))
}

fn missing(header: &str) -> Answer {
    Answer::error(Status::Senseless, format!("header {header} is missing"))
}

fn unknown_method(request: &Request<'_>, what: &str) -> Answer {
    Answer::error(Status::NoSuchMethod, format!("{what} has no method {:?}", request.method))
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

/// The headers of a request.
struct Words<'a, 'b> {
    request: &'a Request<'b>,
}

impl<'a> Words<'a, '_> {
    fn get(&self, header: &str) -> Option<&'a str> {
        self.request.headers.get(header)
    }

    fn wrong(&self, header: &str, right: impl std::fmt::Display) -> Answer {
        let value: Cow<'_, str> = self.get(header).unwrap_or_default().chars().take(64).collect();
        Answer::error(
            Status::Senseless,
            format!("header {header} is {value:?}; it should be {right}"),
        )
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

    /// A number that has to be there.
    fn needed<T: TryFrom<i64>>(&self, header: &Header) -> Result<T, Answer> {
        self.number(header)?.ok_or_else(|| missing(header.name))
    }

    /// A time in milliseconds; what is longer than anybody lives is for ever.
    fn timeout(&self) -> Result<Option<u64>, Answer> {
        Ok(self.number(&TIMEOUT)?.filter(|time| *time <= MAX_DELAY))
    }

    fn delay(&self) -> Result<u64, Answer> {
        Ok(self.number(&DELAY)?.unwrap_or(0))
    }

    /// Whether it is the other one of two words, and not the usual one, which may be left out.
    fn is_other(&self, header: &Header) -> Result<bool, Answer> {
        let Value::OneOf(words) = header.value else { return Ok(false) };
        let Some(text) = self.get(header.name) else { return Ok(false) };
        match words.iter().position(|word| *word == text) {
            Some(place) => Ok(place > 0),
            None => Err(self.wrong(header.name, words.join(" or "))),
        }
    }

    fn text(&self, header: &Header) -> Result<Option<&'a str>, Answer> {
        match (self.get(header.name), header.value) {
            (Some(text), Value::Plain(most))
                if text.len() > most || text.chars().any(char::is_control) =>
            {
                let right = format!("at most {most} bytes without control characters");
                Err(self.wrong(header.name, right))
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
        let limit = self.number(&LIMIT)?.unwrap_or(DEFAULT_LIST);
        let wrong = || self.wrong(AFTER.name, "the path of an object, /KIND/NAME");
        let after = match self.get(AFTER.name) {
            None => None,
            Some(path) if !path.starts_with('/') => return Err(wrong()),
            Some(path) => match target(path)? {
                Target::Object(kind, name) => Some((kind, name)),
                _ => return Err(wrong()),
            },
        };
        Ok(Operation::List(Selection { kind, prefix, after, limit }))
    }

    /// A message's bytes: no payload is the payload `null`.
    fn payload(&self) -> &'a [u8] {
        self.request.payload.unwrap_or(b"null")
    }

    fn priority(&self) -> Result<i32, Answer> {
        Ok(self.number(&PRIORITY)?.unwrap_or(0))
    }

    fn verb(&self, kind: Kind, method: &str) -> Result<Verb<'a>, Answer> {
        Ok(match method {
            "CREATE" => Verb::Create(self.settings(kind)?),
            "DELETE" => Verb::Delete,
            "SHOW" => Verb::Show,
            "ACQUIRE" => Verb::Acquire(match kind {
                Kind::ReadWriteLock => {
                    if self.is_other(&MODE)? {
                        Wish::Read
                    } else {
                        Wish::Write
                    }
                }
                _ => Wish::Permits(self.number(&PERMITS_WANTED)?.unwrap_or(1)),
            }),
            "RELEASE" => {
                Verb::Release { fence: self.number(&FENCE)?, permits: self.number(&PERMITS_GIVEN)? }
            }
            "RESIZE" if kind == Kind::Semaphore => {
                Verb::Resize { permits: self.needed(&PERMITS_MADE)? }
            }
            "CHECK" => Verb::Check { fence: self.needed(&FENCE)? },
            "DOWNGRADE" => Verb::Downgrade { fence: self.number(&FENCE)? },
            "UPGRADE" => Verb::Upgrade { fence: self.number(&FENCE)? },
            "DOWN" => Verb::Down { by: self.number(&BY)?.unwrap_or(1) },
            "WAIT" => Verb::Wait,
            "SET" => Verb::Set,
            "RESET" => Verb::Reset { count: self.number(&NEW_COUNT)? },
            "ARRIVE" => Verb::Arrive {
                parties: self.needed(&PARTIES)?,
                generation: self.number(&GENERATION)?,
            },
            "PUT" => Verb::Put {
                payload: self.payload(),
                priority: self.priority()?,
                delay: self.delay()?,
            },
            "TRANSFER" => Verb::Transfer { payload: self.payload(), priority: self.priority()? },
            "TAKE" => Verb::Take { manual: self.is_other(&ACK)? },
            "ACK" => {
                Verb::Ack { message: self.needed(&MESSAGE)?, deliveries: self.number(&DELIVERIES)? }
            }
            "RETURN" => Verb::Return {
                message: self.needed(&MESSAGE)?,
                deliveries: self.number(&DELIVERIES)?,
                delay: self.delay()?,
            },
            _ => return Err(unknown_method(self.request, &format!("a {}", kind.singular()))),
        })
    }

    fn semaphore(&self) -> Result<Settings, Answer> {
        let permits = self.needed(&PERMITS_MADE)?;
        let initial = self.number(&INITIAL)?.unwrap_or(permits);
        if initial > permits {
            return Err(self.wrong(INITIAL.name, format!("at most permits, which is {permits}")));
        }
        if self.is_other(&OPEN)? {
            return Ok(Settings::OpenSemaphore { permits, initial });
        }
        if initial < permits {
            let reason = "header initial is less than permits: then it has to be open, \
                          or nobody could add the others";
            return Err(Answer::error(Status::Senseless, reason));
        }
        Ok(Settings::Semaphore { permits })
    }

    fn settings(&self, kind: Kind) -> Result<Settings, Answer> {
        Ok(match kind {
            Kind::Semaphore => self.semaphore()?,
            Kind::Latch => Settings::Latch { count: self.needed(&COUNT)? },
            Kind::Event => {
                Settings::Event { auto: self.is_other(&RESET)?, set: self.is_other(&SET)? }
            }
            Kind::Queue => Settings::Queue { capacity: self.number(&CAPACITY)?.unwrap_or(0) },
            Kind::Lock | Kind::ReadWriteLock | Kind::Barrier => {
                let reason =
                    format!("a {} is not created: it exists by being used", kind.singular());
                return Err(Answer::error(Status::NoSuchMethod, reason));
            }
        })
    }
}
