//! What an object decides for itself: who is served, who waits, and where.

use super::contended::Attempt;
use super::wait_lists::WaitLists;
use super::waiter::{Lane, Pointer};
use super::wake::Wakes;

/// The rule of a [`ContendedObject`](super::contended::ContendedObject), and its state behind the
/// lock.
///
/// All functions but [`tries_first`](Self::tries_first) and [`may_change_soon`](Self::may_change_soon)
/// are called under the object's lock. Every waiter that they are given is alive and pinned.
pub trait ObjectRule: Sized {
    /// What a waiter brings, and where it finds what it gets.
    type Ask;
    /// Why a request may be turned away.
    type Refusal: Copy;
    /// What can be used without the lock.
    type Outside;
    /// How the object is locked.
    type Lock: Lock;
    /// What [`settle`](Self::settle) is told of the change before it.
    type Change: Default;

    /// Whether one thread often does several things in a row here: then a thread that finds the lock
    /// taken had better let it than fetch the lock's cache line after each of them.
    const IS_STREAMED: bool = false;

    /// Whether a task that claims its grant has to be noted.
    const NOTES_CLAIMS: bool = false;

    /// Whether what a new request is served cannot be taken back, because other requests have their
    /// part of it. Then it is served although a waker panics: its next poll is ready.
    const IS_FINAL: bool = false;

    /// Whether a request changes nothing by waiting, and holds up others only as the first of its
    /// lane: then nothing has to be settled after another one has left.
    const ONLY_HEADS_COUNT: bool = false;

    /// Whether [`joined`](Self::joined) does something.
    const ANSWERS_JOINED: bool = false;

    /// Whether the functions may panic, because a user has written them.
    const MAY_PANIC: bool = false;

    /// Whether a thread tries for a moment before it queues.
    fn tries_first(outside: &Self::Outside) -> bool {
        let _ = outside;
        false
    }

    /// Whether a thread whose attempt came to this looks again for a moment before it queues: no request
    /// waits, so that it overtakes none, and what it asks for may be free soon.
    fn may_change_soon(outside: &Self::Outside, attempt: Attempt) -> bool {
        let _ = (outside, attempt);
        false
    }

    /// Serves a request that comes, or refuses it, or says where it has to wait.
    fn arrive(
        &mut self,
        outside: &Self::Outside,
        lists: &mut WaitLists<Self::Ask>,
        waiter: Pointer<Self::Ask>,
        coming: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<Self::Refusal>;

    /// A request has just joined its lane. It may be answered here.
    #[inline]
    fn joined(
        &mut self,
        outside: &Self::Outside,
        lists: &mut WaitLists<Self::Ask>,
        wakes: &mut Wakes,
    ) {
        let _ = (outside, lists, wakes);
    }

    /// Whether the requests in this lane are certain to be served, so that no limit ends them.
    fn is_decided(&self, lane: Lane) -> bool {
        let _ = lane;
        false
    }

    /// A request leaves unserved. It is on no list any more; it was in this lane, or dormant.
    fn leave(
        &mut self,
        outside: &Self::Outside,
        lists: &mut WaitLists<Self::Ask>,
        waiter: Pointer<Self::Ask>,
        lane: Option<Lane>,
        wakes: &mut Wakes,
    ) {
        let _ = (outside, lists, waiter, lane, wakes);
    }

    /// A task has claimed its grant.
    fn claim(
        &mut self,
        lists: &mut WaitLists<Self::Ask>,
        waiter: Pointer<Self::Ask>,
        wakes: &mut Wakes,
    ) {
        let _ = (lists, waiter, wakes);
    }

    /// Takes back what a request was served, which was dropped or not polled in time.
    fn take_back(&mut self, outside: &Self::Outside, waiter: Pointer<Self::Ask>) -> Self::Change;

    /// Serves the waiting requests that a change allows to be served.
    fn settle(
        &mut self,
        outside: &Self::Outside,
        lists: &mut WaitLists<Self::Ask>,
        change: Self::Change,
        wakes: &mut Wakes,
    ) {
        let _ = (outside, lists, change, wakes);
    }

    /// Called first, when the lock has been taken: what the lock has held meanwhile.
    #[inline]
    fn after_locking(&mut self, held: Held<Self>) {
        let _ = held;
    }

    /// Called last, before the lock is released: what the lock is to hold meanwhile.
    fn before_unlocking(
        &mut self,
        outside: &Self::Outside,
        lists: &WaitLists<Self::Ask>,
    ) -> Held<Self>;

    /// Why the requests that had waited were refused.
    fn expulsion(&self, outside: &Self::Outside) -> Option<Self::Refusal> {
        let _ = outside;
        None
    }
}

/// How a request comes to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// For the first time. `denied`: it has just been seen that it has to wait.
    Newly { denied: bool },
    /// After its grant was taken back, or (`told`) after it was told to try again.
    Again { told: bool },
}

/// What becomes of a request that comes.
pub(crate) enum Arrival<R> {
    Served,
    Refused(R),
    Waits(Lane),
    /// A user's rule panicked over it; the panic is in the wake-ups.
    Faulted,
}

/// What keeps all threads but one away from an object's lists and its rule.
pub trait Lock {
    /// What it holds while it is free.
    type Held: Copy;

    /// Whether the lock is free, as far as can be seen without writing to it.
    fn seems_free(&self) -> bool;

    /// Locks, if the lock is free.
    fn try_lock(&self) -> Option<Self::Held>;

    /// Locks, if the lock is free, after this attempt to do without; also tells whether that was
    /// denied, and nothing has changed since.
    #[inline]
    fn try_lock_after(&self, attempt: Attempt) -> Option<(Self::Held, bool)> {
        let _ = attempt;
        self.try_lock().map(|held| (held, false))
    }

    /// Locks by sleeping until the lock is free, for a caller that has waited for it long enough. A
    /// lock that is never held for long does not.
    fn lock_asleep(&self) -> Option<Self::Held> {
        None
    }

    /// Releases the lock, which the caller holds.
    fn unlock(&self, held: Self::Held);
}

/// What the lock of a rule's object holds while it is free.
pub(crate) type Held<R> = <<R as ObjectRule>::Lock as Lock>::Held;
