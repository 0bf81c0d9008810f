//! A barrier.

use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::{Object, shown};
use crate::call::Call;
use crate::handle::Handle;

/// A barrier by name, where a number of parties wait for each other. It exists by being used.
#[derive(Clone, Debug)]
pub struct Barrier {
    object: Object,
    parties: u32,
}

/// All have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// How often that has happened before.
    pub generation: u64,
    /// How many had arrived before this one.
    pub index: u64,
}

impl Barrier {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str, parties: u32) -> Self {
        Self { object: Object::new(handle, Kind::Barrier, name), parties }
    }

    /// Arrives, and waits for the others.
    ///
    /// If one of them times out, is cancelled or goes away, the barrier is broken: that one learns
    /// its own reason, the others end with [`Conflict`](crate::Error::Conflict), and so do
    /// all later arrivals, until it is [reset](Self::reset).
    pub fn arrive(&self) -> Call<Arrival> {
        let spec = self.object.numbered(Method::Arrive).header("parties", self.parties);
        Call::new(&self.object.handle, spec, |_, granted| {
            let reply = granted.reply;
            // One that comes after its generation is over learns only that.
            let index = reply.header("index").map_or(Ok(0), |_| reply.number("index"))?;
            Ok(Arrival { generation: reply.number("generation")?, index })
        })
    }

    /// Makes a broken barrier whole. Parties that wait end with
    /// [`Conflict`](crate::Error::Conflict).
    pub fn reset(&self) -> Call<()> {
        self.object.call(self.object.numbered(Method::Reset))
    }

    shown!();
}
