//! Events: what is waited for is set, once and for all or one signal at a time.

use std::fmt;

use crate::policy::{Gate, Opening, Signal, SignalPolicy};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Passing, Synchronizer};
use crate::wait::request::Request;

use super::introspection;

/// An event that stays set until it is reset: every request that comes meanwhile passes.
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
    /// Sets the event: every request passes that waits now, or comes until it is reset.
    pub fn set(&self) {
        let Ok(_) = self.synchronizer.release(Opening::Open);
    }

    /// Resets the event: requests that come from now on wait.
    pub fn reset(&self) {
        let Ok(_) = self.synchronizer.release(Opening::Shut);
    }

    /// How many could pass now: as many as come, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        if self.is_set() { u32::MAX } else { 0 }
    }
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
    /// Uses up a stored signal, if there is one and no request waits.
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

    /// How many could pass now: one, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        u32::from(self.is_set())
    }
}

/// What both kinds of event share; they differ in their policy, and in what is said of them.
macro_rules! events {
    ($(
        $event:ident: $policy:ident;
        $(#[$unset:meta])* new;
        $(#[$set:meta])* new_set;
        $(#[$happened:meta])* happened;
        $(#[$pulse:meta])* pulse;
        $(#[$is_set:meta])* is_set;
    )*) => {$(
        impl $event {
            constant_unless_modelled! {
                $(#[$unset])*
                #[must_use]
                pub const fn new() -> Self {
                    Self { synchronizer: Synchronizer::new($policy, 0) }
                }
            }

            constant_unless_modelled! {
                $(#[$set])*
                #[must_use]
                pub const fn new_set() -> Self {
                    Self { synchronizer: Synchronizer::new($policy, 1) }
                }
            }

            $(#[$happened])*
            #[inline]
            #[doc(alias = "WaitOne")]
            #[doc(alias = "Wait")]
            pub fn happened(&self) -> Request<Passing<'_, $policy>> {
                self.synchronizer.pass(())
            }

            $(#[$pulse])*
            pub fn pulse(&self) -> usize {
                self.synchronizer.pass_all()
            }

            $(#[$is_set])*
            #[must_use]
            pub fn is_set(&self) -> bool {
                self.synchronizer.state() == 1
            }

            introspection!();
        }

        impl Default for $event {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Debug for $event {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($event))
                    .field("set", &self.is_set())
                    .field("waiters", &self.waiters())
                    .finish()
            }
        }
    )*};
}

events! {
    Event: Gate;
    /// An event that is not set.
    new;
    /// An event that is set.
    new_set;
    /// Waits until the event is set.
    happened;
    /// Lets the requests pass that wait now, and leaves the event as it is. Returns how many.
    pulse;
    /// Whether it is set.
    is_set;

    AutoEvent: SignalPolicy;
    /// An event without a signal.
    new;
    /// An event with a signal stored.
    new_set;
    /// Waits for a signal, and uses it up. If the request is dropped after it was let through and
    /// before it was polled again, the signal goes to the next one.
    happened;
    /// Lets the requests pass that wait now, and neither uses up nor stores a signal. Returns how
    /// many.
    pulse;
    /// Whether a signal is stored.
    is_set;
}
