//! Waking a loop from other threads.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Registry, Token};

/// Wakes a loop from another thread: [`Service::woken`](super::Service::woken) is called in its
/// next turn.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

struct Shared {
    waker: mio::Waker,
    /// Woken and not yet noticed: further wakes need no system call.
    pending: AtomicBool,
}

impl Waker {
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(Self { shared: Arc::new(Shared { waker, pending: AtomicBool::new(false) }) })
    }

    /// Whether it was used since the last call.
    pub(super) fn was_used(&self) -> bool {
        self.shared.pending.swap(false, Ordering::AcqRel)
    }

    /// Wakes the loop; many wakes before it notices are one.
    pub fn wake(&self) {
        if !self.shared.pending.swap(true, Ordering::AcqRel) {
            // An eventfd that cannot be written to is full, and so the loop is awake.
            let _ = self.shared.waker.wake();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}
