//! What may be used after a panic: all of it, as with the standard library's own. A guard that a panic
//! drops releases its lock, and the objects' own state is whole whenever it can be looked at.

use std::panic::{RefUnwindSafe, UnwindSafe};

use super::barrier::Barrier;
use super::condition::Condition;
use super::event::{AutoEvent, Event};
use super::exchanger::Exchanger;
use super::latch::Latch;
use super::monitor::{Monitor, ReentrantMonitor};
use super::mutex::Mutex;
use super::park::Parker;
use super::phaser::Phaser;
use super::promise::Promise;
use super::reentrant::ReentrantLock;
use super::reentrant_rwlock::ReentrantRwLock;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use crate::policy::Policy;
use crate::synchronizer::Synchronizer;
#[cfg(feature = "tasks")]
use crate::tasks::{AbortHandle, CurrentThread, Handle, Pool, ScopedHandle};
use crate::wait::cancel::{CancelSource, CancelToken};

macro_rules! unwind_safe {
    ($([$($generics:tt)*] $object:ty),* $(,)?) => {$(
        impl<$($generics)*> UnwindSafe for $object {}
        impl<$($generics)*> RefUnwindSafe for $object {}
    )*};
}

unwind_safe! {
    [] Barrier,
    [P: Policy] Condition<P>,
    [] Event,
    [] AutoEvent,
    [T] Exchanger<T>,
    [] Latch,
    [T: ?Sized] Monitor<T>,
    [T: ?Sized] Mutex<T>,
    [] Parker,
    [] Phaser,
    [T: ?Sized] RwLock<T>,
    [] Semaphore,
    [P: Policy] Synchronizer<P>,
    [] CancelSource,
    [] CancelToken,
}

#[cfg(feature = "tasks")]
unwind_safe! {
    [] Pool,
    [] CurrentThread,
    [T] Handle<T>,
    [T] ScopedHandle<'_, T>,
    [] AbortHandle,
}

/// Declares it for what lends its value to several at a time, or for good: if the value may be.
macro_rules! unwind_safe_if {
    ($([$($parameter:ident),*] $object:ty),* $(,)?) => {$(
        impl<$($parameter: UnwindSafe),*> UnwindSafe for $object {}
        impl<$($parameter: RefUnwindSafe),*> RefUnwindSafe for $object {}
    )*};
}

unwind_safe_if! {
    [T, E] Promise<T, E>,
    [T] ReentrantLock<T>,
    [T] ReentrantRwLock<T>,
    [T] ReentrantMonitor<T>,
}
