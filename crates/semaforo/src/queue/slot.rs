//! What a request carries to a queue and back: the item that it brings, or the one that it is
//! given.

use std::fmt;

use super::errors::Rejected;
use super::raw_item::RawItem;
use crate::primitive::TrackedCell;
use crate::wait::waiter::Pointer;

/// What a request carries: the item, and in a detail what the rule of its queue has to know
/// besides.
pub struct ItemSlot<T, D: Detail> {
    /// Belongs to the lock's holder while its owner waits, and to its owner otherwise.
    contents: TrackedCell<Contents<T, D>>,
}

/// What a rule notes in a slot beside the item.
pub trait Detail {
    /// That of a request for an item.
    const TAKING: Self;

    /// Drops what it owns, as the flags beside it say.
    fn release(&mut self, flags: u64);
}

/// What is in a slot. Whole words only: a request is moved a lot, and a word that was written in
/// parts is slow to read.
pub(super) struct Contents<T, D> {
    item: RawItem<T>,
    pub(super) detail: D,
    pub(super) flags: u64,
}

/// There is an item.
const FULL: u64 = 1;
/// The request brings its item.
const BRINGS: u64 = 2;
/// The waiter is one of several of its request, each in a queue of its own.
pub(super) const BRANCH: u64 = 4;
/// The first of the flags that mean what the rule says.
pub(super) const FIRST_OF_RULE: u64 = 8;

impl<T, D> Contents<T, D> {
    /// Whether the request brings its item, and does not take one.
    #[inline]
    pub(super) fn brings(&self) -> bool {
        self.flags & BRINGS != 0
    }

    #[inline]
    pub(super) fn fill(&mut self, item: RawItem<T>) {
        self.item = item;
        self.flags |= FULL;
    }

    /// The item, if there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<RawItem<T>> {
        if self.flags & FULL == 0 {
            return None;
        }
        self.flags &= !FULL;
        // SAFETY: the flag says that nothing is left.
        Some(unsafe { self.item.read() })
    }
}

impl<T, D: Detail> ItemSlot<T, D> {
    /// The slot of a request that brings this item.
    #[inline]
    pub(super) fn bringing(item: T, detail: D, flags: u64) -> Self {
        Self::new(RawItem::of(item), detail, FULL | BRINGS | flags)
    }

    /// The slot of a request for an item.
    #[inline]
    pub(super) fn taking() -> Self {
        Self::new(RawItem::empty(), D::TAKING, 0)
    }

    /// The slot of a branch that takes an item.
    pub(super) fn branch_taking() -> Self {
        Self::new(RawItem::empty(), D::TAKING, BRANCH)
    }

    /// The slot of a branch that brings an item, which lies with its request.
    pub(super) fn branch_bringing(detail: D, flags: u64) -> Self {
        Self::new(RawItem::empty(), detail, BRINGS | BRANCH | flags)
    }

    #[inline]
    fn new(item: RawItem<T>, detail: D, flags: u64) -> Self {
        Self { contents: TrackedCell::new(Contents { item, detail, flags }) }
    }

    /// # Safety
    /// The lock is held, or this is its owner, who does not wait.
    #[inline]
    pub(super) unsafe fn with<R>(&self, change: impl FnOnce(&mut Contents<T, D>) -> R) -> R {
        // SAFETY: the caller's promise makes this the only access.
        self.contents.look_mut(|contents| change(unsafe { &mut *contents }))
    }

    /// What is in it, for an owner who does not wait.
    #[inline]
    pub(super) fn own(&mut self) -> &mut Contents<T, D> {
        // SAFETY: borrowed exclusively.
        self.contents.look_mut(|contents| unsafe { &mut *contents })
    }

    /// Whether it is the slot of a branch.
    ///
    /// # Safety
    /// As [`with`](Self::with).
    #[inline]
    pub(super) unsafe fn is_branch(&self) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { self.with(|contents| contents.flags & BRANCH != 0) }
    }

    /// The item, if there is one, for an owner who does not wait.
    #[inline]
    fn take_own(&mut self) -> Option<T> {
        // SAFETY: the owner's, whose item it is.
        self.own().take().map(|item| unsafe { item.open() })
    }

    /// Whether there is no item, for an owner who does not wait.
    #[inline]
    pub(super) fn is_empty(&mut self) -> bool {
        self.own().flags & FULL == 0
    }

    /// Gives an owner who does not wait its item, or its item back.
    #[inline]
    pub(super) fn fill(&mut self, item: T) {
        self.own().fill(RawItem::of(item));
    }

    /// The item that a request brings and still has, for an owner who does not wait.
    #[inline]
    pub(super) fn take_item(&mut self) -> T {
        self.take_own().expect("a request has its item until that is put")
    }

    /// The item that a request was given.
    #[inline]
    pub(super) fn into_item(mut self) -> T {
        self.take_own().expect("a request that was served has an item")
    }

    /// The item that was not accepted.
    pub(super) fn rejected<E>(mut self, why: E) -> Rejected<T, E> {
        Rejected { item: self.take_item(), why }
    }

    /// The item that a branch was given.
    ///
    /// # Safety
    /// The caller owns the request, which does not wait.
    pub(super) unsafe fn take_given(&self) -> Option<T> {
        // SAFETY: passed on from the caller, whose item it is.
        unsafe { self.with(|contents| contents.take()).map(|item| item.open()) }
    }
}

/// What a request for an item that was leaked has been given, for a queue that is being dropped.
pub(super) fn given_to<T, D: Detail>(taker: Pointer<ItemSlot<T, D>>) -> Option<T> {
    // SAFETY: the lock is held, and the waiter is alive, because it was pinned. The queue's owner
    // drops it.
    unsafe {
        let ask = &taker.as_ref().ask;
        let item = ask.with(|contents| if contents.brings() { None } else { contents.take() });
        item.map(|item| item.open())
    }
}

impl<T, D: Detail> Drop for ItemSlot<T, D> {
    #[inline]
    fn drop(&mut self) {
        // The item goes also if what the detail owns panics as it is dropped.
        let _item = self.take_own();
        let Contents { detail, flags, .. } = self.own();
        detail.release(*flags);
    }
}

impl<T, D: Detail> fmt::Debug for ItemSlot<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ItemSlot")
    }
}
