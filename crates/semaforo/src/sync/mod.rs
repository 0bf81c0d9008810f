//! The synchronizers, one to a file. Each is a policy, guards, and methods that forward.

pub mod barrier;
pub mod condition;
pub mod event;
pub mod exchanger;
pub mod latch;
pub mod mapped;
pub mod monitor;
pub mod mutex;
pub mod park;
pub mod phaser;
pub mod promise;
pub mod reentrant;
pub mod reentrant_rwlock;
pub mod rwlock;
pub mod semaphore;
mod unwind;
mod wait_while;

pub use crate::wait::limits::WaitLimits;
pub use wait_while::{WaitWhile, WaitWhileLimits};

/// The methods that every synchronizer has, forwarded to its framework.
macro_rules! introspection {
    () => {
        /// How many requests wait, counting those that were granted, left unclaimed, and passed
        /// over.
        #[must_use]
        pub fn waiters(&self) -> usize {
            self.synchronizer.waiters()
        }

        /// How long a task may leave a grant unclaimed while others wait, before it is passed on:
        /// 50 ms unless set, and at least 2 ms.
        pub fn set_patience(&self, patience: std::time::Duration) {
            self.synchronizer.set_patience(patience);
        }
    };
}
use introspection;

/// Names the type of a guarded value without being one.
pub(crate) type Of<T> = std::marker::PhantomData<fn(&T)>;
