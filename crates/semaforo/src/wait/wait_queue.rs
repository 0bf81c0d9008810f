//! What requests, tokens and the timer know of the object that a request is queued on.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use super::bounds::Bounds;
use super::contended::Attempt;
use super::timer::Watch;
use super::waiter::{Pointer, Waiter, WaiterState};
use super::wake::Wakes;

/// What tokens, the timer and the watchdog can do to an object, whatever its policy.
pub trait TimedObject: Send + Sync + fmt::Debug {
    /// Ends the request that has these bounds, if it still waits, and lets its followers through.
    /// False if the object stays locked for longer than a moment: nothing has happened, and the
    /// caller comes again later. It keeps others waiting meanwhile, who have nothing to do with this
    /// object.
    ///
    /// Calls `let_go` once the request is out of reach, and before any policy is asked: it releases the
    /// lock through which the caller came.
    ///
    /// # Safety
    /// The bounds are alive, and stay so until this calls `let_go` or returns. They are beside a
    /// waiter that was queued on this object, or is going to be.
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool;

    /// Looks for grants left unclaimed.
    fn tick(&self, wakes: &mut Wakes) -> Tick;

    /// Wakes whom an operation on this object answered. No lock may be held. The panic of a waker is
    /// kept for [`Wakes::resume_panic`].
    fn finish(&self, wakes: &mut Wakes);

    /// The object's entry in the timer.
    fn watch(&self) -> &Watch;

    /// Nanoseconds between two ticks.
    fn interval(&self) -> u64;
}

/// Whether the watchdog looks again at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// After the object's interval.
    Again,
    /// Soon, because the object was locked for longer than a moment.
    Soon,
    /// No: there is nothing left to watch.
    Enough,
}

impl Tick {
    /// What came of a look, if there was one: whether there is more to watch.
    pub(super) fn of(watches: Option<bool>) -> Self {
        match watches {
            Some(true) => Self::Again,
            Some(false) => Self::Enough,
            None => Self::Soon,
        }
    }
}

/// What a request needs to know of the object that it stands in line for.
pub trait WaitQueue: TimedObject {
    /// What the object's waiters carry.
    type Ask;
    /// Why it may turn a request down.
    type Refusal;

    /// A counted reference, for tokens and the timer, which may outlive the borrow.
    fn counted(&self) -> Option<Arc<dyn TimedObject>>;

    /// Whether a thread tries for a moment before it queues.
    fn tries_first(&self) -> bool;

    /// Attempts again for a moment, before a thread queues, if what the attempt came to may change soon
    /// and no request waits; returns what the last attempt came to.
    #[inline]
    fn look_again(&self, attempt: Attempt, attempt_again: impl FnMut() -> Attempt) -> Attempt {
        let _ = attempt_again;
        attempt
    }

    /// Grants the waiter's ask, refuses it, ends it as `give_up` says, or queues it, and returns its
    /// state. `attempt` is what came of asking without the lock.
    ///
    /// # Safety
    /// The waiter is pinned, in no list, prepared for its task or thread, and is
    /// [withdrawn](Self::withdraw) before its memory is used otherwise.
    unsafe fn enter(
        &self,
        waiter: Pointer<Self::Ask>,
        attempt: Attempt,
        refusal: &mut Option<Self::Refusal>,
        give_up: impl FnOnce() -> Option<WaiterState>,
    ) -> WaiterState;

    /// Claims what a task was granted, if it was, and that was not taken back.
    ///
    /// # Safety
    /// The waiter was queued here, and this is its owner.
    unsafe fn claim(&self, waiter: Pointer<Self::Ask>) -> bool;

    /// Looks after a queued task that is being polled: claims what it was granted, wakes it from
    /// dormancy, or remembers its new waker. `Waiting` means that it goes on waiting.
    ///
    /// # Safety
    /// The waiter was queued here, and this is its owner.
    unsafe fn revisit(&self, waiter: Pointer<Self::Ask>, waker: &Waker) -> WaiterState;

    /// For a thread that was told to try again.
    ///
    /// # Safety
    /// The waiter is pinned, belongs to this thread, and its state is `Retry`.
    unsafe fn retry(&self, waiter: Pointer<Self::Ask>) -> WaiterState;

    /// Takes back a request whose owner no longer wants it: gives up its place, or passes on what
    /// it was granted. Afterwards the waiter is on no list here.
    ///
    /// # Safety
    /// The waiter is alive and was queued here, and this is its owner.
    unsafe fn withdraw(&self, waiter: Pointer<Self::Ask>);

    /// Ends a waiter for an outside reason, if it still waits.
    ///
    /// # Safety
    /// The waiter is alive and was queued here.
    unsafe fn end_waiter(&self, waiter: Pointer<Self::Ask>, state: WaiterState, wakes: &mut Wakes);

    /// Why the requests that waited were refused.
    fn expulsion(&self) -> Option<Self::Refusal>;
}

/// The waiter beside these bounds.
///
/// # Safety
/// The bounds are the first field of a queued request with such a waiter.
pub(crate) unsafe fn waiter_of<A>(bounds: NonNull<Bounds>) -> Pointer<A> {
    let seat: NonNull<QueuedRequest<A, Bounds>> = bounds.cast();
    // SAFETY: only the address is computed.
    unsafe { NonNull::new_unchecked(&raw mut (*seat.as_ptr()).waiter) }
}

/// A waiter between the bounds of its request and what else the object has to find from there.
#[repr(C)]
pub(crate) struct QueuedRequest<A, B, X = ()> {
    pub(crate) bounds: B,
    pub(crate) waiter: Waiter<A>,
    pub(crate) extra: X,
}

/// The extra of a queued request, by its waiter, whatever the bounds.
///
/// # Safety
/// The waiter is in a queued request with such an extra, by a pointer that may reach all of it.
pub(crate) unsafe fn extra_of<A, X>(waiter: Pointer<A>) -> NonNull<X> {
    const { assert!(align_of::<X>() <= align_of::<Waiter<A>>(), "the distance is always the same") };
    let distance = std::mem::offset_of!(QueuedRequest<A, (), X>, extra)
        - std::mem::offset_of!(QueuedRequest<A, (), X>, waiter);
    // SAFETY: both are in the same queued request, which is aligned like its waiter.
    unsafe { waiter.byte_add(distance).cast() }
}
