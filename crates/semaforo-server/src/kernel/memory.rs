//! What things cost in memory.
//!
//! An estimate, from counts that are known at any time: the sizes of the structs, with what their
//! collections have in reserve and what the allocator adds. `tests/memory.rs` compares it with the
//! truth, kind by kind.

use semaforo_protocol::table::Effect;

use super::answer::{Answer, Status};
use super::command::Operation;
use super::{Kernel, Kind};

/// An object, beside its name.
const OBJECT: u64 = 420;
/// What a queue has besides.
const QUEUE: u64 = 420;
/// A session, beside its label.
const SESSION: u64 = 640;
/// A hold: in the table of all, with its object and with its owner.
const HOLD: u64 = 160;
/// A request that waits, with what the server remembers of it.
const WAIT: u64 = 520;
/// A message, beside its bytes.
const MESSAGE: u64 = 280;
/// An outcome that is kept, beside its message.
const OUTCOME: u64 = 220;

/// Outcomes of requests that give something back may need this part of the memory beside all that
/// there may be.
const BEYOND: u64 = 8;

impl Kernel {
    /// How many bytes of memory there are in use, roughly.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let queues = self.state.objects_of(Kind::Queue).len() as u64;
        self.state.object_count() as u64 * OBJECT
            + queues * QUEUE
            + self.state.session_count() as u64 * SESSION
            + self.state.hold_count() as u64 * HOLD
            + self.waits.len() as u64 * WAIT
            + self.messages as u64 * MESSAGE
            + self.state.outcome_count() as u64 * OUTCOME
            + self.state.name_bytes() as u64
            + self.bytes
    }

    /// The refusal of something that needs more memory than there may be in use.
    pub(super) fn no_memory(&self, more: u64) -> Option<Answer> {
        self.no_memory_within(self.limits.memory, more)
    }

    /// The refusal of a request whose outcome there is no memory for. One that gives something back
    /// may go a little beyond the limit: also when the memory is used up it can be freed.
    pub(super) fn no_memory_to_keep(&self, operation: &Operation<'_>) -> Option<Answer> {
        let limit = self.limits.memory;
        let gives_back = operation.row().is_some_and(|row| row.effect == Effect::Shrinks);
        let beyond = if gives_back { limit / BEYOND } else { 0 };
        self.no_memory_within(limit.saturating_add(beyond), OUTCOME)
    }

    fn no_memory_within(&self, limit: u64, more: u64) -> Option<Answer> {
        (self.memory().saturating_add(more) > limit).then(|| {
            let reason = format!("what there is needs {} bytes of memory", self.limits.memory);
            Answer::error(Status::NoSpace, reason)
        })
    }
}
