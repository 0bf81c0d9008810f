//! Parking, with at most one permit to go on.

use std::fmt;

use super::introspection;
use crate::policy::{Signal, SignalPolicy};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Passing, Synchronizer};
use crate::wait::request::Request;

/// A place to park, for a thread or a task, until somebody unparks it.
///
/// An unpark that comes first is stored: the next park returns at once. At most one is stored,
/// however many come. It has nothing to do with `std::thread::park`, whose permit stays untouched.
///
/// ```
/// use semaforo::Parker;
/// use std::sync::Arc;
///
/// let parker = Arc::new(Parker::new());
/// let unparker = Arc::clone(&parker);
/// std::thread::spawn(move || unparker.unpark());
/// parker.park().wait();
/// ```
#[doc(alias = "LockSupport")]
#[doc(alias = "thread::park")]
pub struct Parker {
    synchronizer: Synchronizer<SignalPolicy>,
}

impl Parker {
    constant_unless_modelled! {
        /// A parker without a permit stored.
        #[must_use]
        pub const fn new() -> Self {
            Self { synchronizer: Synchronizer::new(SignalPolicy, 0) }
        }
    }

    /// Waits for a permit, and uses it up. With a token, cancelling returns too, and the token stays
    /// cancelled.
    #[inline]
    #[doc(alias = "LockSupport.park")]
    #[doc(alias = "parkNanos")]
    pub fn park(&self) -> Request<Passing<'_, SignalPolicy>> {
        self.synchronizer.pass(())
    }

    /// Lets the one that is parked go on, or stores the permit.
    #[doc(alias = "LockSupport.unpark")]
    pub fn unpark(&self) {
        let Ok(_) = self.synchronizer.release(Signal::Set);
    }

    /// Whether somebody is parked here.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.waiters() > 0
    }

    /// How many permits are stored: one, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.synchronizer.state() as u32
    }

    introspection!();
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker")
            .field("permit", &(self.available() == 1))
            .field("parked", &self.is_parked())
            .finish()
    }
}
