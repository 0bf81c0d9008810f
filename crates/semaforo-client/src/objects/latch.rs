//! A latch.

use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::{Object, deleted, shown};
use crate::call::Call;
use crate::handle::Handle;

/// A count by name, which goes down to zero and lets everyone through there.
#[derive(Clone, Debug)]
pub struct Latch {
    object: Object,
}

impl Latch {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, Kind::Latch, name) }
    }

    /// Makes it, with this count, unless it is there already.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](crate::Error::Conflict) if it began with another count.
    pub fn create(&self, count: u32) -> Call<bool> {
        self.object.create(self.object.numbered(Method::Create).header("count", count))
    }

    /// Counts down, and yields what is left. At zero it has no effect.
    pub fn down(&self, by: u32) -> Call<u64> {
        let spec = self.object.numbered(Method::Down).header("by", by);
        Call::new(&self.object.handle, spec, |_, granted| granted.reply.number("count"))
    }

    /// Waits until the count is zero.
    pub fn wait(&self) -> Call<()> {
        self.object.call(self.object.idempotent(Method::Wait))
    }

    /// Sets the count anew, to what it began with if it is not said.
    pub fn reset(&self, count: Option<u32>) -> Call<()> {
        let spec = self.object.numbered(Method::Reset);
        self.object.call(match count {
            Some(count) => spec.header("count", count),
            None => spec,
        })
    }

    shown!();
    deleted!();
}
