//! What is held, until it is released.

use std::fmt;
use std::sync::Arc;

use semaforo::CancelToken;
use semaforo_protocol::table::Method;

use crate::Error;
use crate::call::Call;
use crate::completion::{Completer, Completion, Granted};
use crate::handle::Handle;
use crate::lease::Lease;
use crate::request_spec::{Repeat, RequestSpec};

/// What every guard is: a hold of something on the server, released when it is dropped.
///
/// Dropping does not wait; the release is sent, and sent again if need be, as long as the session
/// lives.
#[must_use = "it is released when this is dropped"]
pub struct Hold {
    handle: Arc<Handle>,
    lease: Arc<Lease>,
    path: String,
    fence: u64,
    is_released: bool,
}

impl Hold {
    pub(super) fn new(handle: &Arc<Handle>, granted: Granted) -> Result<Self, Error> {
        let fence = granted.reply.number("fence")?;
        let lease = granted.lease.ok_or_else(|| Error::Nonsense("a hold of nobody".to_owned()))?;
        let handle = Arc::clone(handle);
        Ok(Self { handle, lease, path: granted.path, fence, is_released: false })
    }

    /// The number of this grant: all later ones of the whole server have higher ones. A resource
    /// that refuses a number lower than the highest it has seen is safe from a holder that was
    /// paused and does not know that its time is over.
    #[must_use]
    pub const fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether the session has ended, and this hold with it. The answer is good for now only: the
    /// time to live may pass before it is used.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Fires when the session has ended.
    #[must_use]
    pub fn lost(&self) -> CancelToken {
        self.lease.lost()
    }

    /// Asks the server whether this hold exists.
    ///
    /// Ends with [`Gone`](Error::Gone) if it does not.
    pub fn check(&self) -> Call<()> {
        let spec = RequestSpec::new(Method::Check, &*self.path, Repeat::Idempotent)
            .header("fence", self.fence);
        Call::new(&self.handle, spec, |_, _| Ok(()))
    }

    /// Releases it, and waits until the server has said so. It is released also if the request is
    /// dropped.
    pub fn release(mut self) -> Call<()> {
        let completion = Arc::new(Completion::default());
        self.send_release(Completer::new(Arc::clone(&completion)));
        Call::begun(&self.handle, completion, |_, _| Ok(()))
    }

    fn send_release(&mut self, completer: Completer) {
        self.is_released = true;
        let spec = RequestSpec::new(Method::Release, &*self.path, Repeat::UntilDone)
            .header("fence", self.fence);
        self.handle.ask(spec.lease(&self.lease), completer, None);
    }

    /// Something that is done once with this hold.
    pub(super) fn spec(&self, method: Method) -> RequestSpec {
        let spec =
            RequestSpec::new(method, &*self.path, Repeat::Numbered).header("fence", self.fence);
        spec.lease(&self.lease)
    }

    pub(super) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The same hold, which has another fence now.
    pub(super) const fn set_fence(&mut self, fence: u64) {
        self.fence = fence;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_released {
            self.send_release(Completer::none());
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("path", &self.path)
            .field("fence", &self.fence)
            .field("is_lost", &self.is_lost())
            .finish()
    }
}
