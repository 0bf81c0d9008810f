//! What the kernel answers.

use std::borrow::Cow;
use std::sync::Arc;

use semaforo_protocol::table::{MAX_DEPTH, MAX_FRAME};

use super::codec::{BadEvent, Reader, put_bytes, put_number};
use super::command::Charge;
use super::ids::ObjectId;
use super::session::SessionId;
use super::view::View;

/// The number that says how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Status {
    /// Done, granted, handed over.
    Done = 200,
    /// Not within the time limit; nothing happened.
    TimedOut = 204,
    /// It makes no sense.
    BadRequest = 400,
    /// A token is needed.
    Unauthorized = 401,
    /// The token does not allow it.
    Forbidden = 403,
    /// There is no such object.
    NotFound = 404,
    /// The object has no such method.
    NoSuchMethod = 405,
    /// It contradicts what is there.
    Conflict = 409,
    /// The session or the hold has ended.
    Gone = 410,
    /// Larger or deeper than allowed.
    TooLarge = 413,
    /// More of something than allowed.
    OverLimit = 429,
    /// The server stops.
    Stopping = 503,
    /// There is no space for it.
    NoSpace = 507,
}

impl Status {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }
}

/// What a number in an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Header {
    /// The number of a grant.
    Fence = 0,
    /// A session's time to live, in milliseconds.
    Ttl = 1,
    /// A message's number in its queue.
    Message = 2,
    /// How often a message was taken, this time included.
    Deliveries = 3,
    /// What is left of a latch's count.
    Count = 4,
    /// A barrier's round.
    Generation = 5,
    /// In which order a party arrived.
    Index = 6,
    /// Whether an object was made by this request: 1, or 0 if it was there.
    Created = 7,
    /// The most bytes of a request.
    MaxFrame = 8,
    /// The deepest nesting of a request.
    MaxDepth = 9,
}

impl Header {
    /// Those of answers that can be kept, by their numbers in the journal.
    pub(super) const ALL: [Self; 8] = [
        Self::Fence,
        Self::Ttl,
        Self::Message,
        Self::Deliveries,
        Self::Count,
        Self::Generation,
        Self::Index,
        Self::Created,
    ];

    /// What it is called in an answer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Ttl => "ttl",
            Self::Message => "message",
            Self::Deliveries => "deliveries",
            Self::Count => "count",
            Self::Generation => "generation",
            Self::Index => "index",
            Self::Created => "created",
            Self::MaxFrame => MAX_FRAME,
            Self::MaxDepth => MAX_DEPTH,
        }
    }
}

/// The numbers of an answer, two at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers([Option<(Header, u64)>; 2]);

impl Headers {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Header, u64)> {
        self.0.iter().flatten().copied()
    }

    /// The one of that meaning.
    #[must_use]
    pub fn get(&self, header: Header) -> Option<u64> {
        self.iter().find_map(|(name, value)| (name == header).then_some(value))
    }
}

/// What comes with an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Nothing.
    Nothing,
    /// A message.
    Message(Arc<[u8]>),
    /// A message that was taken for good by this answer. If no byte of it could be sent it is given
    /// to [`Kernel::undelivered`](super::Kernel::undelivered), and returns to its place.
    Fragile(Parcel),
    /// The id of a new session.
    Session(SessionId),
    /// What was wrong.
    Error(Cow<'static, str>),
    /// What something looks like.
    View(Box<View>),
}

/// A message on its way to a taker, with what it needs to find its place again.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub(super) queue: ObjectId,
    pub(super) incarnation: u64,
    pub(super) number: u64,
    pub(super) priority: i32,
    pub(super) deliveries: u32,
    pub(super) payload: Arc<[u8]>,
    pub(super) charge: Charge,
}

impl PartialEq for Parcel {
    /// Whether it is the same message, whatever it is charged to.
    fn eq(&self, other: &Self) -> bool {
        let of =
            |parcel: &Self| (parcel.queue, parcel.incarnation, parcel.number, parcel.deliveries);
        of(self) == of(other) && self.payload == other.payload
    }
}

impl Parcel {
    /// The message's bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    /// The numbers that belong to it.
    pub headers: Headers,
    /// What comes with it.
    pub content: Content,
}

impl Answer {
    /// Only a status.
    #[must_use]
    pub const fn plain(status: Status) -> Self {
        Self { status, headers: Headers([None, None]), content: Content::Nothing }
    }

    /// Done, and nothing else to say.
    #[must_use]
    pub const fn done() -> Self {
        Self::plain(Status::Done)
    }

    /// Why it was not done.
    #[must_use]
    pub fn error(status: Status, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { content: Content::Error(reason.into()), ..Self::plain(status) }
    }

    /// The same with one more number. An answer has two at most.
    #[must_use]
    pub fn with(mut self, header: Header, value: u64) -> Self {
        let place = usize::from(self.headers.0[0].is_some());
        self.headers.0[place] = Some((header, value));
        self
    }

    pub(super) fn containing(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// The bytes of a message, if it has any.
    #[must_use]
    pub fn payload(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Message(payload) => Some(payload),
            Content::Fragile(parcel) => Some(parcel.payload()),
            _ => None,
        }
    }

    /// For the journal: only answers that were successful are kept, and those have no other content
    /// than a message.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.headers.iter().count() as u64);
        for (header, value) in self.headers.iter() {
            out.push(header as u8);
            put_number(out, value);
        }
        match self.payload() {
            None => out.push(0),
            Some(payload) => {
                out.push(1);
                put_bytes(out, payload);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, BadEvent> {
        let mut answer = Self::done();
        let headers = reader.number()?;
        if headers > 2 {
            return Err(BadEvent::new("an answer with more than two headers"));
        }
        for _ in 0..headers {
            let number = reader.byte()?;
            let header = Header::ALL.get(usize::from(number)).copied();
            let header = header.ok_or_else(|| BadEvent::new("a header of an unknown number"))?;
            answer = answer.with(header, reader.number()?);
        }
        if reader.flag()? {
            answer.content = Content::Message(reader.bytes()?.into());
        }
        Ok(answer)
    }
}
