//! The synchronizers, one file each.

mod bad_input;
mod barrier;
mod cancel;
mod event;
mod exchanger;
mod framework;
mod futurelock;
mod latch;
mod markers;
mod monitor;
mod mutex;
mod park;
mod phaser;
mod promise;
mod reentrant;
mod reentrant_rwlock;
mod rwlock;
mod semaphore;
mod semaphore_order;
#[path = "../support/mod.rs"]
mod support;
