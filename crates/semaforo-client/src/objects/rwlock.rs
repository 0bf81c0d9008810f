//! A reader-writer lock.

use std::ops::Deref;
use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::hold::Hold;
use super::{Object, shown};
use crate::Error;
use crate::call::Call;
use crate::handle::Handle;
use crate::request_spec::{RequestSpec, Undo};

/// A lock by name, for one writer or any number of readers. It exists by being used.
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    object: Object,
}

impl ReadWriteLock {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { object: Object::new(handle, Kind::ReadWriteLock, name) }
    }

    fn acquire(&self, mode: &str) -> RequestSpec {
        self.object.numbered(Method::Acquire).header("mode", mode).undo(Undo::Release)
    }

    /// Asks to read. A writer that waits comes first.
    pub fn read(&self) -> Call<ReadGuard> {
        Call::new(&self.object.handle, self.acquire("read"), |handle, granted| {
            Hold::new(handle, granted).map(ReadGuard)
        })
    }

    /// Asks to write.
    pub fn write(&self) -> Call<WriteGuard> {
        Call::new(&self.object.handle, self.acquire("write"), |handle, granted| {
            Hold::new(handle, granted).map(WriteGuard)
        })
    }

    shown!();
}

/// A hold to read, until this is dropped.
#[derive(Debug)]
#[must_use = "it is released when this is dropped"]
pub struct ReadGuard(Hold);

/// A hold to write, until this is dropped.
#[derive(Debug)]
#[must_use = "it is released when this is dropped"]
pub struct WriteGuard(Hold);

impl ReadGuard {
    /// Asks to write instead, without letting go in between.
    ///
    /// Yields the read guard again, as the inner error, if there are other readers: two that both
    /// waited for the other to go would wait for ever. If the request fails otherwise, or is
    /// dropped, the hold is released.
    pub fn upgrade(self) -> Call<Result<WriteGuard, Self>> {
        let handle = Arc::clone(self.0.handle());
        let spec = self.0.spec(Method::Upgrade).undo(Undo::Release);
        let mut hold = self.0;
        Call::with_any_status(&handle, spec, move |_, granted| match granted.reply.status {
            200 => {
                hold.set_fence(granted.reply.number("fence")?);
                Ok(Ok(WriteGuard(hold)))
            }
            409 => Ok(Err(Self(hold))),
            _ => Err(Error::of(&granted.reply)),
        })
    }

    /// Releases it, and waits until the server has said so. It is released also if the request is
    /// dropped.
    pub fn release(self) -> Call<()> {
        self.0.release()
    }
}

impl WriteGuard {
    /// Goes on as a reader; no writer comes in between. If the request fails, or is dropped, the
    /// hold is released.
    pub fn downgrade(self) -> Call<ReadGuard> {
        let handle = Arc::clone(self.0.handle());
        let spec = self.0.spec(Method::Downgrade);
        Call::new(&handle, spec, move |_, _| Ok(ReadGuard(self.0)))
    }

    /// Releases it, and waits until the server has said so. It is released also if the request is
    /// dropped.
    pub fn release(self) -> Call<()> {
        self.0.release()
    }
}

impl Deref for ReadGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

impl Deref for WriteGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}
