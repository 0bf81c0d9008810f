//! A request as the program wants it: method, path, headers, and how it may be repeated.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use semaforo_protocol::table::{Method, Row, find};
use semaforo_protocol::wire::{FrameError, Limits, Request, Scan, Scanner, Value, write_request};

use super::driver::LIMITS;
use super::lease::Lease;
use super::{Error, Reply};

/// What an answer may have besides what was in the request: that has to be read, too.
const ANSWER_OVERHEAD: usize = 1 << 10;

/// What is to be asked of the server.
#[derive(Clone)]
pub(super) struct RequestSpec {
    pub(super) method: Cow<'static, str>,
    pub(super) path: String,
    /// What the table of methods says of it, if it has such a method.
    pub(super) row: Option<&'static Row>,
    pub(super) headers: Vec<(Cow<'static, str>, String)>,
    pub(super) payload: Option<String>,
    pub(super) repeat: Repeat,
    /// The server takes a time limit for it.
    pub(super) waits: bool,
    pub(super) undo: Undo,
    /// The session of the hold that this is about; none: the one that is used now.
    pub(super) lease: Option<Arc<Lease>>,
    /// Has a number of its session also with [`Repeat::UntilDone`], if one is left.
    pub(super) wants_number: bool,
}

/// How a request is repeated when its connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is not, since it was perhaps done. Without a session.
    Never,
    /// As it is: asking twice does no harm. Without a session.
    Idempotent,
    /// With its session, as it is: the second time finds nothing to do. It stays to be done when
    /// no caller waits for the answer any more. It does not wait for a number of its session.
    UntilDone,
    /// With its session and its number, by which the server knows whether it was done.
    Numbered,
}

/// What gives back a grant that was not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    Nothing,
    /// `RELEASE` with the fence.
    Release,
    /// `RELEASE` of so many permits, which an open semaphore has granted without a fence.
    Add(u32),
    /// `RETURN` with the message.
    Return,
}

impl Undo {
    /// The request that gives back what was granted by this answer.
    pub(super) fn spec(self, path: &str, repeat: Repeat, reply: &Reply) -> Option<RequestSpec> {
        Some(match self {
            Self::Nothing => return None,
            Self::Release => RequestSpec::new(Method::Release, path, repeat)
                .header("fence", reply.header("fence")?),
            Self::Add(permits) => {
                // To add twice is not the same as once: with a number, or not again.
                let repeat =
                    if repeat == Repeat::UntilDone { Repeat::Numbered } else { Repeat::Never };
                RequestSpec::new(Method::Release, path, repeat).header("permits", permits)
            }
            Self::Return => RequestSpec::new(Method::Return, path, repeat)
                .settles(reply.header("message")?, reply.header("deliveries")?),
        })
    }
}

/// The headers that the client itself adds to a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientHeaders<'a> {
    pub(super) id: u64,
    /// Milliseconds.
    pub(super) timeout: Option<u64>,
    pub(super) seq: Option<u64>,
    pub(super) acked: Option<u64>,
    pub(super) session: Option<&'a str>,
}

impl<'a> ClientHeaders<'a> {
    pub(super) fn headers(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let number = |name, value: Option<u64>| Some((name, Value::Number(value?)));
        let headers = [
            number("id", Some(self.id)),
            number("timeout", self.timeout),
            number("seq", self.seq),
            number("acked", self.acked),
            self.session.map(|session| ("session", Value::Text(session))),
        ];
        headers.into_iter().flatten()
    }
}

impl RequestSpec {
    pub(super) fn new(method: Method, path: impl Into<String>, repeat: Repeat) -> Self {
        let spec = Self::raw(method.name(), path, repeat);
        let waits = spec.row.is_some_and(Row::waits);
        Self { waits, ..spec }
    }

    /// Of a method that the caller names. Whether it may wait is for the caller to say, too.
    pub(super) fn raw(
        method: impl Into<Cow<'static, str>>,
        path: impl Into<String>,
        repeat: Repeat,
    ) -> Self {
        let (method, path) = (method.into(), path.into());
        Self {
            row: find(&path, &method),
            method,
            path,
            headers: Vec::new(),
            payload: None,
            repeat,
            waits: false,
            undo: Undo::Nothing,
            lease: None,
            wants_number: false,
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

    pub(super) fn is(&self, method: Method) -> bool {
        self.row.is_some_and(|row| row.method == method)
    }

    /// The value of a header, if it has one of its own.
    pub(super) fn get(&self, header: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(name, _)| name.eq_ignore_ascii_case(header)).map(|(_, value)| &**value)
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

    /// Ends this delivery of a message, and no other: the message may be out again when this
    /// arrives late, or a second time.
    pub(super) fn settles(mut self, message: impl ToString, deliveries: impl ToString) -> Self {
        self.wants_number = true;
        self.header("message", message).header("deliveries", deliveries)
    }

    /// What gives back that which this answer grants: a hold has a fence, and permits of an open
    /// semaphore have none.
    pub(super) fn undo_of(&self, reply: &Reply) -> Undo {
        match self.undo {
            Undo::Release if reply.header("fence").is_none() => {
                let permits = self.get("permits").map_or(Ok(1), str::parse);
                let is_open = self.path.starts_with("/semaphores/");
                permits.ok().filter(|_| is_open).map_or(Undo::Nothing, Undo::Add)
            }
            undo => undo,
        }
    }

    /// Appends the request.
    pub(super) fn write(&self, output: &mut Vec<u8>, own: ClientHeaders<'_>) {
        let headers = self.headers.iter().map(|(name, value)| (&**name, Value::Text(value)));
        let payload = self.payload.as_deref().map(str::as_bytes);
        write_request(output, &self.method, &self.path, own.headers().chain(headers), payload);
    }

    /// Whether some server can read it. One that cannot does not know whose request it is, and
    /// closes the connection, on which all the others depend. How much this one takes is known when
    /// the request is sent.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.repeat == Repeat::UntilDone {
            // It ends what was granted, and has nothing in it that was not in the request for that.
            return Ok(());
        }
        let is_numbered = self.repeat == Repeat::Numbered;
        let widest = ClientHeaders {
            id: u64::MAX,
            timeout: self.waits.then_some(u64::MAX),
            seq: is_numbered.then_some(u64::MAX),
            acked: is_numbered.then_some(u64::MAX),
            session: is_numbered.then_some("0123456789abcdef0123456789abcdef"),
        };
        let mut frame = Vec::new();
        self.write(&mut frame, widest);
        let mut limits = Limits { size: LIMITS.size - ANSWER_OVERHEAD, ..LIMITS };
        if self.is(Method::Echo) {
            // The answer is one level deeper, and has to be read, too.
            limits.depth -= 1;
        }
        let payload = self.payload.as_deref().unwrap_or_default();
        // After it come a brace and a newline.
        let begin = frame.len().saturating_sub(payload.len() + 2);
        let refused = |status, message| Err(Error::Refused { status, message });
        let end = match Scanner::new().scan(&frame, &limits) {
            Ok(Scan::Frame { end, .. }) => end,
            Ok(Scan::Incomplete) => return refused(400, "the payload does not end".to_owned()),
            Err(FrameError::Malformed { at, expected }) => {
                let wrong = FrameError::Malformed { at: at.saturating_sub(begin), expected };
                return refused(400, format!("the payload: {wrong}"));
            }
            Err(wrong) => return refused(wrong.status(), format!("the request: {wrong}")),
        };
        match Request::parse(frame.get(..end).unwrap_or_default()) {
            Err(wrong) => refused(400, wrong.to_string()),
            Ok(request) => {
                let payload = payload.trim_matches([' ', '\n', '\r', '\t']);
                let is_whole = end + 1 == frame.len();
                let read = request.payload.unwrap_or(b"null");
                if is_whole && (self.payload.is_none() || read == payload.as_bytes()) {
                    return Ok(());
                }
                refused(400, "the payload is not one JSON value".to_owned())
            }
        }
    }
}

impl fmt::Debug for RequestSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A session and a token are secrets, and others may be in a payload.
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("RequestSpec")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &headers)
            .field("repeat", &self.repeat)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let spec = RequestSpec::raw("X", "/y", Repeat::Never).header("session", "secret");
        let shown = format!("{:?}", spec.payload("\"secret\""));
        assert!(shown.contains("session") && !shown.contains("secret"), "{shown}");
    }

    fn refusal(spec: &RequestSpec) -> (u16, String) {
        match spec.check() {
            Err(Error::Refused { status, message }) => (status, message),
            other => panic!("{other:?}"),
        }
    }

    fn put(payload: &str) -> RequestSpec {
        RequestSpec::new(Method::Put, "/queues/x", Repeat::Numbered).payload(payload)
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn what_can_be_read_is_fine() {
        for payload in ["1", " [1, {}] \r\n", "null", "\"}\"", &nested(63)] {
            assert!(put(payload).check().is_ok(), "{payload}");
        }
        let odd = RequestSpec::raw("\0\"", "/locks/\n\"}", Repeat::Never).header("\u{7}\"", "\\\"");
        assert!(odd.check().is_ok());
        let at_most = LIMITS.size - ANSWER_OVERHEAD - 400;
        assert!(put(&format!("\"{}\"", "x".repeat(at_most))).check().is_ok());
        assert!(
            RequestSpec::new(Method::Echo, "", Repeat::Idempotent)
                .payload(nested(62))
                .check()
                .is_ok()
        );
    }

    #[test]
    fn a_payload_is_one_value() {
        for payload in [
            "",
            "hello",
            "{",
            "{\"a\":1",
            "[1}",
            "\"x",
            "\"x\\",
            "1 2",
            "1,\"x\":2",
            "1}{\"Method\":\"X\"",
        ] {
            let (status, message) = refusal(&put(payload));
            assert_eq!(status, 400, "{payload}");
            assert!(message.contains("the payload"), "{payload}: {message}");
        }
        let (_, message) = refusal(&put("[1, x]"));
        assert_eq!(message, "the payload: malformed JSON at byte 4: expected a value");
        // What would be read as something else.
        assert_eq!(refusal(&put("1,\"Path\":\"y\"")).0, 400);
        assert_eq!(refusal(&put("1}\n{\"Method\":\"SHUTDOWN\",\"Path\":\"/\"")).0, 400);
    }

    #[test]
    fn sizes_and_depths() {
        assert_eq!(refusal(&put(&nested(64))).0, 413);
        assert_eq!(
            refusal(&put(&format!("\"{}\"", "x".repeat(LIMITS.size - ANSWER_OVERHEAD)))).0,
            413
        );
        assert_eq!(
            refusal(&RequestSpec::raw("echo-x", "", Repeat::Idempotent).payload(nested(63))).0,
            413
        );
        assert_eq!(
            refusal(&RequestSpec::new(Method::Show, "x".repeat(LIMITS.size), Repeat::Idempotent)).0,
            413
        );
    }

    #[test]
    fn headers_twice_or_without_end() {
        let raw = || RequestSpec::raw("X", "", Repeat::Never);
        assert_eq!(refusal(&raw().header("ID", 1)).0, 400);
        assert_eq!(refusal(&raw().header("a", 1).header("A", 2)).0, 400);
        assert!(raw().header("session", "s").check().is_ok());
        let many = (0..65).fold(raw(), |spec, number| spec.header(format!("h{number}"), 0));
        assert_eq!(refusal(&many).0, 400);
    }
}
