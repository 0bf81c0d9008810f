//! The synchronizers, one file each.

mod aliases;
mod bad_input;
mod barrier;
mod cancel;
mod errors;
mod event;
mod exchanger;
mod framework;
mod futurelock;
mod latch;
mod mapped;
mod markers;
mod monitor;
mod mutex;
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
mod spawned;
#[path = "../support/mod.rs"]
mod support;
