//! Something that happens, and lets those who wait for it go on.

use std::fmt;

use crate::policy::{Gate, Opening, Signal, SignalPolicy};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Passing, Synchronizer};
use crate::wait::request::Request;

use super::introspection;

/// An event that stays set until it is reset: everyone who comes meanwhile passes.
///
/// [`AutoEvent`] is the other kind, where each signal lets one through.
///
/// ```
/// use semaforo::Event;
///
/// let started = Event::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| started.happened().wait());
///     started.set();
/// });
/// assert!(started.is_set());
/// started.reset();
/// assert!(!started.is_set());
/// ```
#[doc(alias = "ManualResetEvent")]
#[doc(alias = "ManualResetEventSlim")]
#[doc(alias = "BooleanLatch")]
#[doc(alias = "CreateEvent")]
pub struct Event {
    synchronizer: Synchronizer<Gate>,
}

impl Event {
    constant_unless_modelled! {
        /// An event that is not set.
        #[must_use]
        pub const fn new() -> Self {
            Self { synchronizer: Synchronizer::new(Gate, 0) }
        }
    }

    constant_unless_modelled! {
        /// An event that is set.
        #[must_use]
        pub const fn new_set() -> Self {
            Self { synchronizer: Synchronizer::new(Gate, 1) }
        }
    }

    /// Waits until the event is set.
    #[inline]
    #[doc(alias = "WaitOne")]
    #[doc(alias = "Wait")]
    pub fn happened(&self) -> Request<Passing<'_, Gate>> {
        self.synchronizer.pass(())
    }

    /// Sets the event: everyone who waits now passes, and everyone who comes until it is reset.
    pub fn set(&self) {
        let Ok(_) = self.synchronizer.release(Opening::Open);
    }

    /// Resets the event: whoever comes from now on waits.
    pub fn reset(&self) {
        let Ok(_) = self.synchronizer.release(Opening::Shut);
    }

    /// Lets those pass who wait now, and leaves the event as it is. Returns how many.
    pub fn pulse(&self) -> usize {
        self.synchronizer.pass_all()
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.synchronizer.state() == 1
    }

    /// How many could pass now: as many as come, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        if self.is_set() { u32::MAX } else { 0 }
    }

    introspection!();
}

/// An event that resets itself: each signal lets one waiter through, or is stored for the next one.
/// At most one is stored.
///
/// ```
/// use semaforo::AutoEvent;
///
/// let work = AutoEvent::new();
/// work.set();
/// work.happened().wait();
/// assert!(!work.try_pass());
/// ```
#[doc(alias = "AutoResetEvent")]
#[doc(alias = "Notify")]
#[doc(alias = "BinarySemaphore")]
pub struct AutoEvent {
    synchronizer: Synchronizer<SignalPolicy>,
}

impl AutoEvent {
    constant_unless_modelled! {
        /// An event without a signal.
        #[must_use]
        pub const fn new() -> Self {
            Self { synchronizer: Synchronizer::new(SignalPolicy, 0) }
        }
    }

    constant_unless_modelled! {
        /// An event with a signal stored.
        #[must_use]
        pub const fn new_set() -> Self {
            Self { synchronizer: Synchronizer::new(SignalPolicy, 1) }
        }
    }

    /// Waits for a signal, and uses it up. If the request is dropped after it was let through and
    /// before it was polled again, the signal goes to the next one.
    #[inline]
    #[doc(alias = "WaitOne")]
    #[doc(alias = "Wait")]
    pub fn happened(&self) -> Request<Passing<'_, SignalPolicy>> {
        self.synchronizer.pass(())
    }

    /// Uses up a stored signal, if there is one and nobody waits.
    #[must_use]
    pub fn try_pass(&self) -> bool {
        self.synchronizer.acquire_or_not(())
    }

    /// Lets one waiter through, or stores the signal.
    pub fn set(&self) {
        let Ok(_) = self.synchronizer.release(Signal::Set);
    }

    /// Takes a stored signal away.
    pub fn reset(&self) {
        let Ok(_) = self.synchronizer.release(Signal::Reset);
    }

    /// Lets those pass who wait now, and neither uses up nor stores a signal. Returns how many.
    pub fn pulse(&self) -> usize {
        self.synchronizer.pass_all()
    }

    /// Whether a signal is stored.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.synchronizer.state() == 1
    }

    /// How many could pass now: one, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        u32::from(self.is_set())
    }

    introspection!();
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for AutoEvent {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .field("waiters", &self.waiters())
            .finish()
    }
}

impl fmt::Debug for AutoEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutoEvent")
            .field("set", &self.is_set())
            .field("waiters", &self.waiters())
            .finish()
    }
}
