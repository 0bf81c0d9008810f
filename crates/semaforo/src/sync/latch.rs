//! A gate that opens when a count reaches zero.

use std::fmt;

use super::introspection;
use crate::policy::{CountDown, CountError, CountdownPolicy};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Passing, Synchronizer};
use crate::wait::request::Request;

/// A latch: requests wait until it has been counted down to zero, and then pass for good.
///
/// ```
/// use semaforo::Latch;
///
/// let ready = Latch::new(3);
/// std::thread::scope(|scope| {
///     for _ in 0..3 {
///         scope.spawn(|| ready.count_down());
///     }
///     ready.opened().wait();
/// });
/// assert_eq!(ready.count(), 0);
/// ```
#[doc(alias = "CountDownLatch")]
#[doc(alias = "CountdownEvent")]
#[doc(alias = "WaitGroup")]
pub struct Latch {
    synchronizer: Synchronizer<CountdownPolicy>,
    initial: u32,
}

impl Latch {
    constant_unless_modelled! {
        /// A latch that opens after so many counts; with zero it is open.
        #[must_use]
        pub const fn new(count: u32) -> Self {
            Self { synchronizer: Synchronizer::new(CountdownPolicy, count as u64), initial: count }
        }
    }

    /// Waits until the latch is open.
    #[inline]
    #[doc(alias = "await")]
    #[doc(alias = "WaitOne")]
    #[doc(alias = "Wait")]
    pub fn opened(&self) -> Request<Passing<'_, CountdownPolicy>> {
        self.synchronizer.pass(())
    }

    /// Counts one down; at zero it has no effect. Returns what is left.
    #[doc(alias = "countDown")]
    #[doc(alias = "Signal")]
    #[doc(alias = "Done")]
    #[doc(alias = "arrive")]
    pub fn count_down(&self) -> u32 {
        let before = self.synchronizer.release(CountDown::One);
        before.map_or(0, |before| (before as u32).saturating_sub(1))
    }

    /// Counts so many down, and returns what is left.
    ///
    /// # Errors
    /// If that is zero, or more than is left; then nothing changes.
    pub fn count_down_by(&self, count: u32) -> Result<u32, CountError> {
        self.synchronizer.release(CountDown::By(count)).map(|before| before as u32 - count)
    }

    /// Adds to the count of a latch that is not open yet, and returns the new count.
    ///
    /// # Errors
    /// If that is zero, if the latch is open, or if the count would exceed `u32::MAX`.
    #[doc(alias = "AddCount")]
    pub fn add(&self, count: u32) -> Result<u32, CountError> {
        self.synchronizer.release(CountDown::Add(count)).map(|before| before as u32 + count)
    }

    /// Sets the count to what it was at first. Waiting requests go on waiting for the new count.
    pub fn reset(&self) {
        // A reset is always possible.
        let _ = self.synchronizer.release(CountDown::Reset(self.initial));
    }

    /// How many counts are left.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.synchronizer.state() as u32
    }

    /// Whether all requests pass.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.count() == 0
    }

    /// Passes now, or not at all.
    #[must_use]
    pub fn try_pass(&self) -> bool {
        self.is_open()
    }

    /// How many could pass now: as many as come, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        if self.is_open() { u32::MAX } else { 0 }
    }

    introspection!();
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch")
            .field("count", &self.count())
            .field("waiters", &self.waiters())
            .finish()
    }
}
