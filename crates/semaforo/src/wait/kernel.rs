//! What the rest of the kernel needs to know of an object that requests queue on.

use std::fmt;
use std::ptr::NonNull;

use super::bounds::Bounds;
use super::timer::Watch;
use super::waiter::Waiter;
use super::wake::Wakes;

/// What tokens, the timer and the watchdog can do to an object, whatever its policy.
pub(crate) trait Kernel: Send + Sync + fmt::Debug {
    /// Ends the request that has these bounds, if it still waits, and lets its followers through.
    ///
    /// # Safety
    /// The bounds are alive, and stay so until this returns. They are beside a waiter that
    /// was queued on this object, or is going to be.
    unsafe fn end(&self, bounds: NonNull<Bounds>, standing: u8, wakes: &mut Wakes);

    /// Looks for grants left unclaimed; false if there is nothing left to watch.
    fn tick(&self, wakes: &mut Wakes) -> bool;

    /// Wakes whom an operation on this object answered. No lock may be held. The panic of a waker is
    /// kept for [`Wakes::resume_panic`].
    fn finish(&self, wakes: &mut Wakes);

    /// The object's place in the timer.
    fn watch(&self) -> &Watch;

    /// Nanoseconds between two ticks.
    fn interval(&self) -> u64;
}

/// A waiter beside the bounds of its request, so that each can be found from the other.
#[repr(C)]
pub(crate) struct Seat<A, B> {
    pub(crate) bounds: B,
    pub(crate) waiter: Waiter<A>,
}
