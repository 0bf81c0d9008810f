//! An event.

use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::{Object, deleted, shown};
use crate::call::Call;
use crate::handle::Handle;

/// An event by name, which is set or not.
#[derive(Clone, Debug)]
pub struct Event {
    object: Object,
}

impl Event {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, Kind::Event, name) }
    }

    /// Makes it, unless it is there already: while it is set, everyone passes.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](crate::Error::Conflict) if it is there and of the other sort.
    pub fn create(&self) -> Call<bool> {
        self.object.create(self.object.numbered(Method::Create).header("reset", "manual"))
    }

    /// Makes it, unless it is there already: each set lets one through, the first that waits or the
    /// next to come.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](crate::Error::Conflict) if it is there and of the other sort.
    pub fn create_auto(&self) -> Call<bool> {
        self.object.create(self.object.numbered(Method::Create).header("reset", "auto"))
    }

    /// Sets it.
    pub fn set(&self) -> Call<()> {
        self.object.call(self.object.numbered(Method::Set))
    }

    /// Makes it unset.
    pub fn reset(&self) -> Call<()> {
        self.object.call(self.object.numbered(Method::Reset))
    }

    /// Waits until it is set, or one is let through.
    ///
    /// If a request for an event that lets one through is dropped, cancelled or timed out at the
    /// very moment in which it is let through, that set is used up: unlike a hold it cannot be
    /// given back (setting it again could let two through). Where that matters, use a semaphore or
    /// a queue.
    pub fn wait(&self) -> Call<()> {
        self.object.call(self.object.numbered(Method::Wait))
    }

    shown!();
    deleted!();
}
