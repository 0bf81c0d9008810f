//! A semaphore.

use std::ops::Deref;
use std::sync::Arc;

use super::hold::Hold;
use super::{Object, deleted, shown};
use crate::client::call::Call;
use crate::client::handle::Handle;
use crate::client::plan::Undo;

/// A counting semaphore by name.
#[derive(Clone, Debug)]
pub struct Semaphore {
    object: Object,
}

impl Semaphore {
    pub(in crate::client) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, "semaphores", name) }
    }

    /// Makes it, with so many permits, unless it is there already.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](crate::client::Error::Conflict) if it is there with another number.
    pub fn create(&self, permits: u32) -> Call<bool> {
        self.object.create(self.object.safe("CREATE").header("permits", permits))
    }

    /// Asks for so many permits.
    pub fn acquire(&self, permits: u32) -> Call<Permit> {
        let plan = self.object.safe("ACQUIRE").header("permits", permits);
        let plan = plan.waits().undo(Undo::Release);
        Call::new(&self.object.handle, plan, move |handle, granted| {
            Ok(Permit { hold: Hold::new(handle, granted)?, permits })
        })
    }

    shown!();
    deleted!();
}

/// Permits that are held, until this is dropped.
#[derive(Debug)]
#[must_use = "permits are given back when this is dropped"]
pub struct Permit {
    hold: Hold,
    permits: u32,
}

impl Permit {
    /// How many these are.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// Gives them back, and waits until the server has said so. They are given back also if the request
    /// is dropped.
    pub fn release(self) -> Call<()> {
        self.hold.release()
    }
}

impl Deref for Permit {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
