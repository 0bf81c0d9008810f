//! What a server has, by name.

pub(super) mod barrier;
pub(super) mod event;
pub(super) mod hold;
pub(super) mod latch;
pub(super) mod lock;
pub(super) mod queue;
pub(super) mod raw;
pub(super) mod rwlock;
pub(super) mod semaphore;
pub(super) mod session;

use std::sync::Arc;

use semaforo_protocol::Kind;
use semaforo_protocol::table::Method;

use super::call::Call;
use super::handle::Handle;
use super::request_spec::{Repeat, RequestSpec};

/// An object of the server: where it is, and the way there.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) handle: Arc<Handle>,
    pub(super) path: String,
}

impl Object {
    pub(super) fn new(handle: &Arc<Handle>, kind: Kind, name: &str) -> Self {
        Self { handle: Arc::clone(handle), path: format!("/{}/{name}", kind.plural()) }
    }

    /// Something that is done once, however often it has to be asked.
    pub(super) fn numbered(&self, method: Method) -> RequestSpec {
        RequestSpec::new(method, &*self.path, Repeat::Numbered)
    }

    /// Something that can be asked as often as one likes.
    pub(super) fn idempotent(&self, method: Method) -> RequestSpec {
        RequestSpec::new(method, &*self.path, Repeat::Idempotent)
    }

    /// A request that yields nothing.
    pub(super) fn call(&self, spec: RequestSpec) -> Call<()> {
        Call::new(&self.handle, spec, |_, _| Ok(()))
    }

    /// A request that makes it, and yields whether it was not there before.
    pub(super) fn create(&self, spec: RequestSpec) -> Call<bool> {
        Call::new(&self.handle, spec, |_, granted| granted.reply.flag("created"))
    }

    pub(super) fn show(&self) -> Call<String> {
        Call::new(&self.handle, self.idempotent(Method::Show), |_, granted| {
            Ok(granted.reply.payload.unwrap_or_default())
        })
    }
}

/// What every kind has.
macro_rules! shown {
    () => {
        /// Its state, as JSON.
        pub fn show(&self) -> $crate::Call<String> {
            self.object.show()
        }
    };
}

/// What every kind has that is created.
macro_rules! deleted {
    () => {
        /// Deletes it. Requests that wait there end with [`NotFound`](crate::Error::NotFound).
        pub fn delete(&self) -> $crate::Call<()> {
            self.object.call(self.object.numbered(Method::Delete))
        }
    };
}

use {deleted, shown};
