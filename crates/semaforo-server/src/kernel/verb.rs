//! What can be done with objects: the verbs, with their arguments.

use std::fmt;

use semaforo_protocol::table::Method;

use super::Kind;
use super::answer::{Answer, Status};
use super::command::Millis;

/// Where the arguments of a verb come from: the headers of a request, by their names in its row of
/// the table of methods.
pub trait Arguments<'a> {
    /// A number, or what it is if it is left out; none if that is not always the same.
    ///
    /// # Errors
    /// If it is no number, or out of its range.
    fn optional<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>, Answer>;

    /// A number that has to be there, or to have a default.
    ///
    /// # Errors
    /// If it is missing, no number, or out of its range.
    fn needed<T: TryFrom<i64>>(&self, name: &str) -> Result<T, Answer>;

    /// Whether it is the other one of two words, and not the usual one, which may be left out.
    ///
    /// # Errors
    /// If it is another word.
    fn is_other(&self, name: &str) -> Result<bool, Answer>;

    /// A message's bytes: no payload is the payload `null`.
    fn payload(&self) -> &'a [u8];

    /// The refusal of an argument that makes no sense beside the others.
    fn wrong(&self, name: &str, right: impl fmt::Display) -> Answer;
}

/// What can be done with an object, depending on its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb<'a> {
    /// It is to exist.
    Create(Settings),
    /// It is not to exist.
    Delete,
    /// What does it look like?
    Show,
    /// A hold of so many permits (1 of a lock), or for writing or reading.
    Acquire(HoldMode),
    /// A hold, or part of it, is given back.
    Release {
        /// Which; none: the only one.
        fence: Option<u64>,
        /// How many permits of it; none: all. Of an open semaphore: how many are added; none: one.
        permits: Option<u32>,
    },
    /// A semaphore is to have another number of permits.
    Resize {
        /// How many.
        permits: u32,
    },
    /// Does this hold exist?
    Check {
        /// Which.
        fence: u64,
    },
    /// From writer to reader.
    Downgrade {
        /// Which hold; none: the only one.
        fence: Option<u64>,
    },
    /// From only reader to writer.
    Upgrade {
        /// Which hold; none: the only one.
        fence: Option<u64>,
    },
    /// Counts a latch down.
    Down {
        /// By how much.
        by: u32,
    },
    /// Waits for a latch or an event.
    Wait,
    /// Sets an event.
    Set,
    /// Resets an event, a barrier, or a latch.
    Reset {
        /// To this count; none: to what it began with.
        count: Option<u32>,
    },
    /// Waits for the other parties.
    Arrive {
        /// How many there are.
        parties: u32,
        /// Which round is meant.
        generation: Option<u64>,
    },
    /// A message for the next taker.
    Put {
        /// Its bytes.
        payload: &'a [u8],
        /// Smaller ones are taken first.
        priority: i32,
        /// How long until it can be taken.
        delay: Millis,
    },
    /// A message that is to be taken while its sender waits.
    Transfer {
        /// Its bytes.
        payload: &'a [u8],
        /// Smaller ones are taken first.
        priority: i32,
    },
    /// The first message.
    Take {
        /// It stays out until it is acknowledged.
        manual: bool,
    },
    /// A message is done with.
    Ack {
        /// Which.
        message: u64,
        /// Which delivery of it; none: the one that there is.
        deliveries: Option<u64>,
    },
    /// A message goes back.
    Return {
        /// Which.
        message: u64,
        /// Which delivery of it; none: the one that there is.
        deliveries: Option<u64>,
        /// How long until it can be taken again.
        delay: Millis,
    },
}

impl<'a> Verb<'a> {
    /// The method that it is.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::Create(_) => Method::Create,
            Self::Delete => Method::Delete,
            Self::Show => Method::Show,
            Self::Acquire(_) => Method::Acquire,
            Self::Release { .. } => Method::Release,
            Self::Resize { .. } => Method::Resize,
            Self::Check { .. } => Method::Check,
            Self::Downgrade { .. } => Method::Downgrade,
            Self::Upgrade { .. } => Method::Upgrade,
            Self::Down { .. } => Method::Down,
            Self::Wait => Method::Wait,
            Self::Set => Method::Set,
            Self::Reset { .. } => Method::Reset,
            Self::Arrive { .. } => Method::Arrive,
            Self::Put { .. } => Method::Put,
            Self::Transfer { .. } => Method::Transfer,
            Self::Take { .. } => Method::Take,
            Self::Ack { .. } => Method::Ack,
            Self::Return { .. } => Method::Return,
        }
    }

    /// The message that it adds to a queue.
    #[must_use]
    pub const fn payload(&self) -> Option<&'a [u8]> {
        match self {
            Self::Put { payload, .. } | Self::Transfer { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// The verb of a method, with its arguments; none if objects of that kind do not have it.
    ///
    /// # Errors
    /// If an argument is missing, or makes no sense.
    pub fn read(
        kind: Kind,
        method: Method,
        given: &impl Arguments<'a>,
    ) -> Result<Option<Self>, Answer> {
        Ok(Some(match method {
            Method::Create => match Settings::read(kind, given)? {
                Some(settings) => Self::Create(settings),
                None => return Ok(None),
            },
            Method::Delete => Self::Delete,
            Method::Acquire => Self::Acquire(match kind {
                Kind::ReadWriteLock if given.is_other("mode")? => HoldMode::Read,
                Kind::ReadWriteLock => HoldMode::Write,
                _ => HoldMode::Permits(given.optional("permits")?.unwrap_or(1)),
            }),
            Method::Release => Self::Release {
                fence: given.optional("fence")?,
                permits: given.optional("permits")?,
            },
            Method::Resize => Self::Resize { permits: given.needed("permits")? },
            Method::Check => Self::Check { fence: given.needed("fence")? },
            Method::Downgrade => Self::Downgrade { fence: given.optional("fence")? },
            Method::Upgrade => Self::Upgrade { fence: given.optional("fence")? },
            Method::Down => Self::Down { by: given.needed("by")? },
            Method::Wait => Self::Wait,
            Method::Set => Self::Set,
            Method::Reset => Self::Reset { count: given.optional("count")? },
            Method::Arrive => Self::Arrive {
                parties: given.needed("parties")?,
                generation: given.optional("generation")?,
            },
            Method::Put => Self::Put {
                payload: given.payload(),
                priority: given.needed("priority")?,
                delay: given.needed("delay")?,
            },
            Method::Transfer => {
                Self::Transfer { payload: given.payload(), priority: given.needed("priority")? }
            }
            Method::Take => Self::Take { manual: given.is_other("ack")? },
            Method::Ack => Self::Ack {
                message: given.needed("message")?,
                deliveries: given.optional("deliveries")?,
            },
            Method::Return => Self::Return {
                message: given.needed("message")?,
                deliveries: given.optional("deliveries")?,
                delay: given.needed("delay")?,
            },
            Method::Show => Self::Show,
            _ => return Ok(None),
        }))
    }
}

/// What a holder wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldMode {
    /// So many permits of a semaphore; 1 of a lock.
    Permits(u32),
    /// To read beside others.
    Read,
    /// To write alone.
    Write,
}

/// What an object is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// A semaphore.
    Semaphore {
        /// How many permits there are.
        permits: u32,
    },
    /// A semaphore whose permits are not held: to acquire one uses it up, and any client may add
    /// one.
    OpenSemaphore {
        /// The most permits that there can be.
        permits: u32,
        /// How many there are at first.
        initial: u32,
    },
    /// A latch.
    Latch {
        /// Where it begins.
        count: u32,
    },
    /// An event.
    Event {
        /// Whether a set lets only one through.
        auto: bool,
        /// Whether it begins set.
        set: bool,
    },
    /// A queue.
    Queue {
        /// The most messages; 0: no bound.
        capacity: u64,
    },
}

impl Settings {
    fn semaphore<'a>(given: &impl Arguments<'a>) -> Result<Self, Answer> {
        let permits = given.needed("permits")?;
        let initial = given.optional("initial")?.unwrap_or(permits);
        if initial > permits {
            return Err(given.wrong("initial", format!("at most permits, which is {permits}")));
        }
        if given.is_other("open")? {
            return Ok(Self::OpenSemaphore { permits, initial });
        }
        if initial < permits {
            let reason = "header initial is less than permits: then it has to be open, \
                          or nobody could add the others";
            return Err(Answer::error(Status::BadRequest, reason));
        }
        Ok(Self::Semaphore { permits })
    }

    /// What an object of that kind is created with; none if it exists by being used.
    fn read<'a>(kind: Kind, given: &impl Arguments<'a>) -> Result<Option<Self>, Answer> {
        Ok(Some(match kind {
            Kind::Semaphore => Self::semaphore(given)?,
            Kind::Latch => Self::Latch { count: given.needed("count")? },
            Kind::Event => {
                Self::Event { auto: given.is_other("reset")?, set: given.is_other("set")? }
            }
            Kind::Queue => Self::Queue { capacity: given.needed("capacity")? },
            Kind::Lock | Kind::ReadWriteLock | Kind::Barrier => return Ok(None),
        }))
    }
}
