//! A semaphore.

use std::ops::Deref;
use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::hold::Hold;
use super::{Object, deleted, shown};
use crate::Error;
use crate::call::Call;
use crate::handle::Handle;
use crate::request_spec::{RequestSpec, Undo};

/// A counting semaphore by name.
#[derive(Clone, Debug)]
pub struct Semaphore {
    object: Object,
}

impl Semaphore {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, Kind::Semaphore, name) }
    }

    /// Makes it, with so many permits, unless it is there already.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](Error::Conflict) if it is there with another number, or open.
    pub fn create(&self, permits: u32) -> Call<bool> {
        self.object.create(self.object.numbered(Method::Create).header("permits", permits))
    }

    /// Makes it an open one, unless it is there already: its permits are [taken](Self::take) for
    /// good and [added](Self::add) by any client, and nothing comes back when a client dies. There
    /// are so many at first, also none, and never more than the maximum.
    ///
    /// Yields whether this request has made it: of several that make the same, one has.
    ///
    /// Ends with [`Conflict`](Error::Conflict) if it is there with other numbers, or not open.
    #[doc(alias = "sem_open")]
    pub fn create_open(&self, initial: u32, maximum: u32) -> Call<bool> {
        let spec = self.object.numbered(Method::Create).header("permits", maximum);
        self.object.create(spec.header("initial", initial).header("open", true))
    }

    /// Asks for so many permits, to be held.
    ///
    /// Ends with [`Conflict`](Error::Conflict) if it is open: its permits have no holder.
    pub fn acquire(&self, permits: u32) -> Call<Permit> {
        Call::new(&self.object.handle, self.acquiring(permits), move |handle, granted| {
            if granted.reply.header("fence").is_none() {
                handle.give_back(&granted);
                return Err(Error::Conflict("it is open: its permits are not held".to_owned()));
            }
            Ok(Permit { hold: Hold::new(handle, granted)?, permits })
        })
    }

    /// Takes so many permits of an open one, for good. If they were granted to a request that is
    /// dropped, or bounded, they are added again.
    ///
    /// Ends with [`Conflict`](Error::Conflict) if it is not open: its permits are
    /// [held](Self::acquire).
    #[doc(alias = "sem_wait")]
    #[doc(alias = "WaitOne")]
    pub fn take(&self, permits: u32) -> Call<()> {
        Call::new(&self.object.handle, self.acquiring(permits), |handle, granted| {
            if granted.reply.header("fence").is_some() {
                handle.give_back(&granted);
                return Err(Error::Conflict("it is not open: its permits are held".to_owned()));
            }
            Ok(())
        })
    }

    fn acquiring(&self, permits: u32) -> RequestSpec {
        let spec = self.object.numbered(Method::Acquire).header("permits", permits);
        spec.undo(Undo::Release)
    }

    /// Adds so many permits to an open one, also if other clients have taken them.
    ///
    /// Ends with [`Conflict`](Error::Conflict) if there would be more than the maximum, and with
    /// [`Gone`](Error::Gone) if it is not open: permits are given back by the hold that has them.
    #[doc(alias = "sem_post")]
    pub fn add(&self, permits: u32) -> Call<()> {
        self.object.call(self.object.numbered(Method::Release).header("permits", permits))
    }

    /// Lets it have so many permits from now on. Those that are held beyond that are kept back when
    /// they are released; a request for more than there can be is refused when its turn comes. Of
    /// an open one it is the maximum.
    pub fn resize(&self, permits: u32) -> Call<()> {
        self.object.call(self.object.numbered(Method::Resize).header("permits", permits))
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

    /// Gives them back, and waits until the server has said so. They are given back also if the
    /// request is dropped.
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
