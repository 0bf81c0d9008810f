//! What has happened, as it is written to the journal.
//!
//! An event is a number and its fields, one after another, without a length: a batch of them is
//! read from beginning to end. Numbers of events are never used for anything else again.

use semaforo_protocol::Kind;

use super::answer::Answer;
use super::codec::{BadEvent, Reader, put_bytes, put_number, put_signed};
use super::command::Millis;
use super::ids::{ObjectId, SessionSlot};
use super::session::SessionId;
use super::verb::{HoldMode, Settings};

/// Something that has happened. Folded in their order, events give the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// No fence below this one will be given out after a restart.
    FencesReserved { below: u64 },
    /// An object was created. `next` is the number of a queue's next message.
    Created { object: ObjectId, name: &'a str, settings: Settings, next: u64 },
    /// An object was deleted, and all holds of it.
    Deleted { object: ObjectId },
    /// A session began.
    SessionOpened { session: SessionSlot, id: SessionId, ttl: Millis, label: &'a str },
    /// A session is over for its client. It will end when it has given back what it has.
    SessionLeaves { session: SessionSlot },
    /// All messages of a queue up to this number that were out to a session are back.
    LoansEnded { session: SessionSlot, queue: ObjectId, upto: u64 },
    /// A session ended: its holds are released, and its messages back.
    SessionEnded { session: SessionSlot },
    /// A session holds something. The object exists from now on if it exists by use.
    Granted { session: SessionSlot, fence: u64, kind: Kind, name: &'a str, mode: HoldMode },
    /// A hold is over, or smaller than it was.
    Released { fence: u64, permits: u32 },
    /// A hold for writing became one for reading, or the other way round with a new fence.
    Converted { fence: u64, into: u64, mode: HoldMode },
    /// A semaphore has another number of permits.
    Resized { object: ObjectId, permits: u32 },
    /// A latch, an event or an open semaphore has another state.
    Counted { object: ObjectId, count: u64 },
    /// The first party waits at a barrier, which did not exist before.
    BarrierOpened { name: &'a str, parties: u32, generation: u64 },
    /// All parties have arrived, or it was reset: nothing is left of it.
    BarrierTripped { name: &'a str },
    /// A party went away.
    BarrierBroken { name: &'a str },
    /// A message is in its place, to be taken when it is due.
    Put {
        queue: ObjectId,
        number: u64,
        priority: i32,
        due: Millis,
        deliveries: u32,
        payload: &'a [u8],
    },
    /// A message was taken: for good, or until the session acknowledges it.
    Taken { queue: ObjectId, number: u64, priority: i32, by: Option<SessionSlot> },
    /// A message that was out is back, or will be then.
    Returned { queue: ObjectId, number: u64, due: Option<Millis> },
    /// A message that was out is done with.
    Acknowledged { queue: ObjectId, number: u64 },
    /// A message in its place can be taken only then (0: always), and was taken so often.
    Delayed { queue: ObjectId, number: u64, priority: i32, due: Millis, deliveries: u32 },
    /// After a restart no message of this queue will have a number below this one that has none
    /// now.
    NumbersUsed { queue: ObjectId, below: u64 },
    /// No message of a queue that is created will have a number below this one.
    NumbersRetired { below: u64 },
    /// A session can ask for this answer again.
    OutcomeKept { session: SessionSlot, seq: u64, digest: u64, answer: Answer },
    /// A session knows all answers up to this one.
    OutcomesAcknowledged { session: SessionSlot, upto: u64 },
}

mod tag {
    pub(super) const FENCES_RESERVED: u8 = 1;
    pub(super) const CREATED: u8 = 2;
    pub(super) const DELETED: u8 = 3;
    pub(super) const SESSION_OPENED: u8 = 4;
    pub(super) const SESSION_ENDED: u8 = 5;
    pub(super) const GRANTED: u8 = 6;
    pub(super) const RELEASED: u8 = 7;
    pub(super) const CONVERTED: u8 = 8;
    pub(super) const COUNTED: u8 = 9;
    pub(super) const BARRIER_OPENED: u8 = 10;
    pub(super) const BARRIER_TRIPPED: u8 = 11;
    pub(super) const BARRIER_BROKEN: u8 = 12;
    pub(super) const PUT: u8 = 13;
    pub(super) const TAKEN: u8 = 14;
    pub(super) const TAKEN_BY: u8 = 15;
    pub(super) const RETURNED: u8 = 16;
    pub(super) const ACKNOWLEDGED: u8 = 17;
    pub(super) const OUTCOME_KEPT: u8 = 18;
    pub(super) const OUTCOMES_ACKNOWLEDGED: u8 = 19;
    pub(super) const DELAYED: u8 = 20;
    pub(super) const NUMBERS_USED: u8 = 21;
    pub(super) const NUMBERS_RETIRED: u8 = 22;
    pub(super) const SESSION_LEAVES: u8 = 26;
    pub(super) const LOANS_ENDED: u8 = 27;
    pub(super) const RESIZED: u8 = 30;
}

impl<'a> Event<'a> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::FencesReserved { below } => numbers(out, tag::FENCES_RESERVED, &[*below]),
            Self::Created { object, name, settings, next } => {
                numbers(out, tag::CREATED, &[u64::from(object.0)]);
                put_bytes(out, name.as_bytes());
                put_settings(out, settings);
                put_number(out, *next);
            }
            Self::Deleted { object } => numbers(out, tag::DELETED, &[u64::from(object.0)]),
            Self::SessionOpened { session, id, ttl, label } => {
                numbers(out, tag::SESSION_OPENED, &[u64::from(session.0)]);
                out.extend_from_slice(&id.0.to_le_bytes());
                put_number(out, *ttl);
                put_bytes(out, label.as_bytes());
            }
            Self::SessionLeaves { session } => {
                numbers(out, tag::SESSION_LEAVES, &[u64::from(session.0)]);
            }
            Self::LoansEnded { session, queue, upto } => {
                let loans = [u64::from(session.0), u64::from(queue.0), *upto];
                numbers(out, tag::LOANS_ENDED, &loans);
            }
            Self::SessionEnded { session } => {
                numbers(out, tag::SESSION_ENDED, &[u64::from(session.0)])
            }
            Self::Granted { session, fence, kind, name, mode } => {
                numbers(out, tag::GRANTED, &[u64::from(session.0), *fence]);
                out.push(*kind as u8);
                put_bytes(out, name.as_bytes());
                put_mode(out, *mode);
            }
            Self::Released { fence, permits } => {
                numbers(out, tag::RELEASED, &[*fence, u64::from(*permits)]);
            }
            Self::Converted { fence, into, mode } => {
                numbers(out, tag::CONVERTED, &[*fence, *into]);
                put_mode(out, *mode);
            }
            Self::Resized { object, permits } => {
                numbers(out, tag::RESIZED, &[u64::from(object.0), u64::from(*permits)]);
            }
            Self::Counted { object, count } => {
                numbers(out, tag::COUNTED, &[u64::from(object.0), *count]);
            }
            Self::BarrierOpened { name, parties, generation } => {
                numbers(out, tag::BARRIER_OPENED, &[u64::from(*parties), *generation]);
                put_bytes(out, name.as_bytes());
            }
            Self::BarrierTripped { name } => named(out, tag::BARRIER_TRIPPED, name),
            Self::BarrierBroken { name } => named(out, tag::BARRIER_BROKEN, name),
            Self::Put { queue, number, priority, due, deliveries, payload } => {
                numbers(out, tag::PUT, &[u64::from(queue.0), *number]);
                put_signed(out, i64::from(*priority));
                put_number(out, *due);
                put_number(out, u64::from(*deliveries));
                put_bytes(out, payload);
            }
            Self::Taken { queue, number, priority, by } => {
                let tag = if by.is_some() { tag::TAKEN_BY } else { tag::TAKEN };
                numbers(out, tag, &[u64::from(queue.0), *number]);
                put_signed(out, i64::from(*priority));
                if let Some(session) = by {
                    put_number(out, u64::from(session.0));
                }
            }
            Self::Returned { queue, number, due } => {
                let due = due.unwrap_or(0);
                numbers(out, tag::RETURNED, &[u64::from(queue.0), *number, due]);
            }
            Self::Acknowledged { queue, number } => {
                numbers(out, tag::ACKNOWLEDGED, &[u64::from(queue.0), *number]);
            }
            Self::Delayed { queue, number, priority, due, deliveries } => {
                numbers(out, tag::DELAYED, &[u64::from(queue.0), *number]);
                put_signed(out, i64::from(*priority));
                put_number(out, *due);
                put_number(out, u64::from(*deliveries));
            }
            Self::NumbersUsed { queue, below } => {
                numbers(out, tag::NUMBERS_USED, &[u64::from(queue.0), *below]);
            }
            Self::NumbersRetired { below } => numbers(out, tag::NUMBERS_RETIRED, &[*below]),
            Self::OutcomeKept { session, seq, digest, answer } => {
                numbers(out, tag::OUTCOME_KEPT, &[u64::from(session.0), *seq]);
                out.extend_from_slice(&digest.to_le_bytes());
                answer.encode(out);
            }
            Self::OutcomesAcknowledged { session, upto } => {
                numbers(out, tag::OUTCOMES_ACKNOWLEDGED, &[u64::from(session.0), *upto]);
            }
        }
    }

    /// Reads the next one.
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, BadEvent> {
        Ok(match reader.byte()? {
            tag::FENCES_RESERVED => Self::FencesReserved { below: reader.number()? },
            tag::CREATED => Self::Created {
                object: reader.object()?,
                name: reader.text()?,
                settings: settings(reader)?,
                next: reader.number()?,
            },
            tag::DELETED => Self::Deleted { object: reader.object()? },
            tag::SESSION_OPENED => Self::SessionOpened {
                session: reader.session()?,
                id: SessionId(reader.wide()?),
                ttl: reader.number()?,
                label: reader.text()?,
            },
            tag::SESSION_LEAVES => Self::SessionLeaves { session: reader.session()? },
            tag::LOANS_ENDED => Self::LoansEnded {
                session: reader.session()?,
                queue: reader.object()?,
                upto: reader.number()?,
            },
            tag::SESSION_ENDED => Self::SessionEnded { session: reader.session()? },
            tag::GRANTED => Self::Granted {
                session: reader.session()?,
                fence: reader.number()?,
                kind: kind(reader)?,
                name: reader.text()?,
                mode: mode(reader)?,
            },
            tag::RELEASED => Self::Released { fence: reader.number()?, permits: reader.small()? },
            tag::CONVERTED => Self::Converted {
                fence: reader.number()?,
                into: reader.number()?,
                mode: mode(reader)?,
            },
            tag::RESIZED => Self::Resized { object: reader.object()?, permits: reader.small()? },
            tag::COUNTED => Self::Counted { object: reader.object()?, count: reader.number()? },
            tag::BARRIER_OPENED => Self::BarrierOpened {
                parties: reader.small()?,
                generation: reader.number()?,
                name: reader.text()?,
            },
            tag::BARRIER_TRIPPED => Self::BarrierTripped { name: reader.text()? },
            tag::BARRIER_BROKEN => Self::BarrierBroken { name: reader.text()? },
            tag::PUT => Self::Put {
                queue: reader.object()?,
                number: reader.number()?,
                priority: priority(reader)?,
                due: reader.number()?,
                deliveries: reader.small()?,
                payload: reader.bytes()?,
            },
            tag::TAKEN => Self::Taken {
                queue: reader.object()?,
                number: reader.number()?,
                priority: priority(reader)?,
                by: None,
            },
            tag::TAKEN_BY => Self::Taken {
                queue: reader.object()?,
                number: reader.number()?,
                priority: priority(reader)?,
                by: Some(reader.session()?),
            },
            tag::RETURNED => Self::Returned {
                queue: reader.object()?,
                number: reader.number()?,
                due: Some(reader.number()?).filter(|due| *due != 0),
            },
            tag::ACKNOWLEDGED => {
                Self::Acknowledged { queue: reader.object()?, number: reader.number()? }
            }
            tag::DELAYED => Self::Delayed {
                queue: reader.object()?,
                number: reader.number()?,
                priority: priority(reader)?,
                due: reader.number()?,
                deliveries: reader.small()?,
            },
            tag::NUMBERS_USED => {
                Self::NumbersUsed { queue: reader.object()?, below: reader.number()? }
            }
            tag::NUMBERS_RETIRED => Self::NumbersRetired { below: reader.number()? },
            tag::OUTCOME_KEPT => Self::OutcomeKept {
                session: reader.session()?,
                seq: reader.number()?,
                digest: digest(reader)?,
                answer: Answer::decode(reader)?,
            },
            tag::OUTCOMES_ACKNOWLEDGED => {
                Self::OutcomesAcknowledged { session: reader.session()?, upto: reader.number()? }
            }
            unknown => return Err(BadEvent::new(format!("its number is {unknown}"))),
        })
    }
}

fn numbers(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.push(tag);
    for number in numbers {
        put_number(out, *number);
    }
}

fn named(out: &mut Vec<u8>, tag: u8, name: &str) {
    out.push(tag);
    put_bytes(out, name.as_bytes());
}

fn put_mode(out: &mut Vec<u8>, mode: HoldMode) {
    match mode {
        HoldMode::Permits(permits) => numbers(out, 0, &[u64::from(permits)]),
        HoldMode::Read => out.push(1),
        HoldMode::Write => out.push(2),
    }
}

fn mode(reader: &mut Reader<'_>) -> Result<HoldMode, BadEvent> {
    Ok(match reader.byte()? {
        0 => HoldMode::Permits(reader.small()?),
        1 => HoldMode::Read,
        2 => HoldMode::Write,
        unknown => return Err(BadEvent::new(format!("a hold mode of number {unknown}"))),
    })
}

fn put_settings(out: &mut Vec<u8>, settings: &Settings) {
    match settings {
        Settings::Semaphore { permits } => numbers(out, 0, &[u64::from(*permits)]),
        Settings::Latch { count } => numbers(out, 1, &[u64::from(*count)]),
        Settings::Event { auto, set } => out.extend([2, u8::from(*auto), u8::from(*set)]),
        Settings::Queue { capacity } => numbers(out, 3, &[*capacity]),
        Settings::OpenSemaphore { permits, initial } => {
            numbers(out, 4, &[u64::from(*permits), u64::from(*initial)]);
        }
    }
}

fn settings(reader: &mut Reader<'_>) -> Result<Settings, BadEvent> {
    Ok(match reader.byte()? {
        0 => Settings::Semaphore { permits: reader.small()? },
        1 => Settings::Latch { count: reader.small()? },
        2 => Settings::Event { auto: reader.flag()?, set: reader.flag()? },
        3 => Settings::Queue { capacity: reader.number()? },
        4 => Settings::OpenSemaphore { permits: reader.small()?, initial: reader.small()? },
        unknown => return Err(BadEvent::new(format!("settings of number {unknown}"))),
    })
}

fn kind(reader: &mut Reader<'_>) -> Result<Kind, BadEvent> {
    let number = reader.byte()?;
    Kind::from_number(number).ok_or_else(|| BadEvent::new(format!("a kind of number {number}")))
}

fn priority(reader: &mut Reader<'_>) -> Result<i32, BadEvent> {
    let number = reader.signed()?;
    i32::try_from(number).map_err(|_| BadEvent::new(format!("a priority of {number}")))
}

fn digest(reader: &mut Reader<'_>) -> Result<u64, BadEvent> {
    let mut bytes = [0; 8];
    for byte in &mut bytes {
        *byte = reader.byte()?;
    }
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
pub(super) mod tests;
