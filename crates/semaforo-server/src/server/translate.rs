//! From a request's words to what the kernel understands.

use std::borrow::Cow;
use std::str::FromStr;

use super::digest::digest;
use super::limits::{
    DEFAULT_LIST, DEFAULT_TTL, MAX_DELAY, MAX_ID, MAX_LIST, MAX_NAME, MAX_SEQ, MAX_TTL, MIN_TTL,
};
use crate::kernel::{
    Answer, Command, Kind, Operation, Retry, Selection, SessionId, Settings, Status, Verb, Wish,
};
use crate::wire::Request;

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
                seq: words.number("seq", 1..=MAX_SEQ)?.ok_or_else(|| {
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
                    ttl: words.number("ttl", MIN_TTL..=MAX_TTL)?.unwrap_or(DEFAULT_TTL),
                    label: words.short("label")?.unwrap_or_default(),
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
    let seq = words.number("seq", 1..=MAX_SEQ)?.filter(|_| numbered);
    Ok(Wanted::Command(Command {
        session: words.session()?,
        retry: seq.map(|seq| Retry { seq, digest: digest(request) }),
        acked: words.number("acked", 0..=MAX_SEQ)?,
        timeout: words.milliseconds("timeout")?,
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

    fn number<T>(
        &self,
        header: &str,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<Option<T>, Answer>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.get(header) else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let right = format!("a whole number from {} to {}", range.start(), range.end());
                Err(self.wrong(header, right))
            }
        }
    }

    /// A time in milliseconds; what is longer than anybody lives is for ever.
    fn milliseconds(&self, header: &str) -> Result<Option<u64>, Answer> {
        Ok(self.number(header, 0..=u64::MAX)?.filter(|time| *time <= MAX_DELAY))
    }

    fn delay(&self) -> Result<u64, Answer> {
        Ok(self.number("delay", 0..=MAX_DELAY)?.unwrap_or(0))
    }

    fn flag(&self, header: &str) -> Result<bool, Answer> {
        match self.get(header) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(_) => Err(self.wrong(header, "true or false")),
        }
    }

    /// One of two words; the first if it is absent.
    fn either(&self, header: &str, usual: &str, other: &str) -> Result<bool, Answer> {
        match self.get(header) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case(usual) => Ok(false),
            Some(text) if text.eq_ignore_ascii_case(other) => Ok(true),
            Some(_) => Err(self.wrong(header, format!("{usual} or {other}"))),
        }
    }

    fn short(&self, header: &str) -> Result<Option<&'a str>, Answer> {
        match self.get(header) {
            Some(text) if text.len() > MAX_ID || text.chars().any(char::is_control) => {
                Err(self
                    .wrong(header, format!("at most {MAX_ID} bytes without control characters")))
            }
            text => Ok(text),
        }
    }

    fn session(&self) -> Result<Option<SessionId>, Answer> {
        self.get("session")
            .map(|text| text.parse().map_err(|_| self.wrong("session", "32 hexadecimal digits")))
            .transpose()
    }

    fn list(&self, kind: Option<Kind>) -> Result<Operation<'a>, Answer> {
        let prefix = self.get("prefix").unwrap_or_default();
        let limit = self.number("limit", 0..=MAX_LIST)?.unwrap_or(DEFAULT_LIST);
        let after = match self.get("after").map(target).transpose()? {
            None => None,
            Some(Target::Object(kind, name)) => Some((kind, name)),
            Some(_) => return Err(self.wrong("after", "the path of an object, /KIND/NAME")),
        };
        Ok(Operation::List(Selection { kind, prefix, after, limit }))
    }

    fn fence(&self) -> Result<Option<u64>, Answer> {
        self.number("fence", 0..=crate::kernel::MAX_FENCE)
    }

    fn message(&self) -> Result<u64, Answer> {
        self.number("message", 0..=u64::MAX)?.ok_or_else(|| missing("message"))
    }

    /// Which delivery of a message is meant.
    fn deliveries(&self) -> Result<Option<u64>, Answer> {
        self.number("deliveries", 0..=u64::MAX)
    }

    /// A message's bytes: no payload is the payload `null`.
    fn payload(&self) -> &'a [u8] {
        self.request.payload.unwrap_or(b"null")
    }

    fn priority(&self) -> Result<i32, Answer> {
        Ok(self.number("priority", i32::MIN..=i32::MAX)?.unwrap_or(0))
    }

    fn verb(&self, kind: Kind, method: &str) -> Result<Verb<'a>, Answer> {
        Ok(match method {
            "CREATE" => Verb::Create(self.settings(kind)?),
            "DELETE" => Verb::Delete,
            "SHOW" => Verb::Show,
            "ACQUIRE" => Verb::Acquire(match kind {
                Kind::ReadWriteLock => {
                    if self.either("mode", "write", "read")? {
                        Wish::Read
                    } else {
                        Wish::Write
                    }
                }
                _ => Wish::Permits(self.number("permits", 0..=u32::MAX)?.unwrap_or(1)),
            }),
            "RELEASE" => Verb::Release {
                fence: self.fence()?,
                permits: self.number("permits", 0..=u32::MAX)?,
            },
            "RESIZE" if kind == Kind::Semaphore => Verb::Resize { permits: self.permits()? },
            "CHECK" => Verb::Check { fence: self.fence()?.ok_or_else(|| missing("fence"))? },
            "DOWNGRADE" => Verb::Downgrade { fence: self.fence()? },
            "UPGRADE" => Verb::Upgrade { fence: self.fence()? },
            "DOWN" => Verb::Down { by: self.number("by", 0..=u32::MAX)?.unwrap_or(1) },
            "WAIT" => Verb::Wait,
            "SET" => Verb::Set,
            "RESET" => Verb::Reset { count: self.number("count", 0..=u32::MAX)? },
            "ARRIVE" => Verb::Arrive {
                parties: self.number("parties", 0..=u32::MAX)?.ok_or_else(|| missing("parties"))?,
                generation: self.number("generation", 0..=crate::kernel::MAX_FENCE)?,
            },
            "PUT" => Verb::Put {
                payload: self.payload(),
                priority: self.priority()?,
                delay: self.delay()?,
            },
            "TRANSFER" => Verb::Transfer { payload: self.payload(), priority: self.priority()? },
            "TAKE" => Verb::Take { manual: self.either("ack", "auto", "manual")? },
            "ACK" => Verb::Ack { message: self.message()?, deliveries: self.deliveries()? },
            "RETURN" => Verb::Return {
                message: self.message()?,
                deliveries: self.deliveries()?,
                delay: self.delay()?,
            },
            _ => return Err(unknown_method(self.request, &format!("a {}", kind.singular()))),
        })
    }

    /// How many permits a semaphore is to have.
    fn permits(&self) -> Result<u32, Answer> {
        let permits = self.number("permits", 1..=semaforo::policy::Permits::MAX)?;
        permits.ok_or_else(|| missing("permits"))
    }

    fn semaphore(&self) -> Result<Settings, Answer> {
        let permits = self.permits()?;
        let initial = self.number("initial", 0..=permits)?.unwrap_or(permits);
        if self.flag("open")? {
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
            Kind::Latch => Settings::Latch {
                count: self.number("count", 0..=u32::MAX)?.ok_or_else(|| missing("count"))?,
            },
            Kind::Event => Settings::Event {
                auto: self.either("reset", "manual", "auto")?,
                set: self.flag("set")?,
            },
            Kind::Queue => {
                Settings::Queue { capacity: self.number("capacity", 0..=u64::MAX)?.unwrap_or(0) }
            }
            Kind::Lock | Kind::ReadWriteLock | Kind::Barrier => {
                let reason =
                    format!("a {} is not created: it exists by being used", kind.singular());
                return Err(Answer::error(Status::NoSuchMethod, reason));
            }
        })
    }
}
