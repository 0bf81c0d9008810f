//! An item on its way from one request to another.

use std::fmt;
use std::mem::MaybeUninit;

/// An item as the rules of the queues move it: a `T` that need not be a valid one at the moment.
///
/// Tokens, the timer and the watchdog reach a queue through a counted object, also after the queue
/// and its requests were leaked (`mem::forget`), and then what the items borrow may be gone. Moving
/// a dangling reference as a reference is undefined behaviour even if no code looks through it;
/// moving the bytes of a `MaybeUninit` is not. So whatever these three can move stays a raw item:
/// in the slot of a waiter, among the items that came back, and in the line of messages. It is
/// opened by the owner of a request, or by a user of the queue, whose borrows show that the item is
/// still valid.
///
/// A raw item that is dropped leaks its item: code that takes one out of its place opens it or puts
/// it into another.
pub(super) struct RawItem<T>(MaybeUninit<T>);

impl<T> RawItem<T> {
    #[inline]
    pub(super) fn of(item: T) -> Self {
        Self(MaybeUninit::new(item))
    }

    /// No item: for a place that holds none yet, and says so beside it.
    #[inline]
    pub(super) const fn empty() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// # Safety
    /// It holds an item, and what that borrows is alive: the caller is the owner of a request for
    /// such items, or uses their queue.
    #[inline]
    pub(super) unsafe fn open(self) -> T {
        // SAFETY: passed on from the caller.
        unsafe { self.0.assume_init() }
    }

    /// # Safety
    /// As [`open`](Self::open), for as long as the reference is used.
    #[inline]
    pub(super) unsafe fn look(&self) -> &T {
        // SAFETY: passed on from the caller.
        unsafe { self.0.assume_init_ref() }
    }

    /// What is in it, for a caller that leaves nothing behind.
    ///
    /// # Safety
    /// The place holds nothing from then on, and says so beside it.
    #[inline]
    pub(super) unsafe fn read(&self) -> Self {
        // SAFETY: bytes may be copied; the caller uses only one of the copies.
        unsafe { std::ptr::read(self) }
    }
}

impl<T> fmt::Debug for RawItem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawItem")
    }
}
