#![doc = include_str!("lib.md")]
#![deny(missing_docs)]
// What is not built cannot be linked to.
#![cfg_attr(not(feature = "query"), allow(rustdoc::broken_intra_doc_links))]
#![deny(clippy::undocumented_unsafe_blocks)]
#![allow(
    private_interfaces,
    private_bounds,
    reason = "sealed traits lead to the kernel; no other crate can name or call what is private there"
)]

#[cfg(all(test, feature = "query", any(loom, shuttle)))]
mod models;
pub mod policy;
mod primitive;
#[cfg(feature = "query")]
pub mod query;
pub mod queue;
pub mod rule;
pub mod sync;
mod synchronizer;
// Some of it is for queries alone.
#[cfg(feature = "tasks")]
#[cfg_attr(not(feature = "query"), allow(dead_code))]
pub mod tasks;
mod wait;

pub use policy::{Policy, Refusal};
pub use queue::{
    BlockingQueue, Closed, Rejected, SynchronousQueue, TransferQueue, TryPutError, TryTakeError,
};
pub use rule::{Contended, Rule};
pub use sync::barrier::{Arrival, Barrier, Broken, PartiesError};
pub use sync::condition::{Condition, Interrupted, ReentrantCondition, WriteCondition};
pub use sync::event::{AutoEvent, Event};
pub use sync::exchanger::Exchanger;
pub use sync::latch::Latch;
pub use sync::mapped::{MappedGuard, MappedReadGuard};
pub use sync::monitor::{Monitor, ReentrantMonitor};
pub use sync::mutex::{Mutex, MutexGuard, OwnedMutexGuard};
pub use sync::park::Parker;
pub use sync::phaser::Phaser;
pub use sync::promise::{Promise, PromiseError};
pub use sync::reentrant::{KeyGuard, OwnedKeyGuard, OwnerKey, ReentrantGuard, ReentrantLock};
pub use sync::reentrant_rwlock::ReentrantRwLock;
pub use sync::rwlock::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use sync::semaphore::{OwnedPermit, Permit, Semaphore};
pub use synchronizer::{Held, Synchronizer};
pub use wait::cancel::{CancelSource, CancelToken};
pub use wait::limits::{TryError, WaitError};
pub use wait::request::Request;

pub use policy::{AcquireError, CountError, PhaserError, ReleaseError, TooManyHolds};

/// The parts of a request's type, for code that has to name it.
pub mod request {
    pub use crate::synchronizer::{Acquiring, Passing};
    pub use crate::wait::limits::{Limited, Limits, Unlimited};
    pub use crate::wait::operation::{Handle, Operation};
    pub use crate::wait::request::Output;
}

/// The examples of the project's front page compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
