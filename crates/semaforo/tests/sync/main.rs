//! The synchronizers, one file each.

mod aliases;
mod bad_input;
mod barrier;
mod cancel;
#[cfg(feature = "query")]
mod errors;
mod event;
mod exchanger;
mod framework;
mod futurelock;
mod latch;
mod mapped;
#[cfg(feature = "query")]
mod markers;
mod monitor;
mod mutex;
#[cfg(feature = "query")]
mod optional_limits;
mod park;
mod phaser;
mod promise;
mod reentrant;
mod reentrant_rwlock;
mod rwlock;
mod self_wait;
mod semaphore;
mod semaphore_order;
#[cfg(feature = "query")]
mod spawned;
#[path = "../support/mod.rs"]
mod support;
