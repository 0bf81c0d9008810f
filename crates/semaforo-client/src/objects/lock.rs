//! A lock.

use std::ops::Deref;
use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::hold::Hold;
use super::{Object, shown};
use crate::call::Call;
use crate::handle::Handle;
use crate::request_spec::Undo;

/// A lock by name, for one holder at a time. It exists by being used.
#[derive(Clone, Debug)]
pub struct Lock {
    object: Object,
}

impl Lock {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, Kind::Lock, name) }
    }

    /// Asks for the lock. It is not re-entrant, not even for the same client.
    pub fn acquire(&self) -> Call<LockGuard> {
        let spec = self.object.numbered(Method::Acquire).undo(Undo::Release);
        Call::new(&self.object.handle, spec, |handle, granted| {
            Hold::new(handle, granted).map(LockGuard)
        })
    }

    shown!();
}

/// A lock that is held, until this is dropped.
#[derive(Debug)]
#[must_use = "it is released when this is dropped"]
pub struct LockGuard(Hold);

impl LockGuard {
    /// Releases it, and waits until the server has said so. It is released also if the request is
    /// dropped.
    pub fn release(self) -> Call<()> {
        self.0.release()
    }
}

impl Deref for LockGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}
