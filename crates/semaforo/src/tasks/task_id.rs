//! The numbers by which tasks are told apart.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::primitive::constant_thread_local;

constant_thread_local! {
    /// The next number for a task of this thread, and how many are left.
    static NUMBERS: Cell<(u64, u64)> = Cell::new((0, 0));
}

/// How many numbers a thread takes at a time.
const NUMBERS_AT_ONCE: u64 = 1024;

/// A number that no other task of this process has.
#[inline]
pub(crate) fn next_id() -> u64 {
    // Not modelled: nothing depends on them.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NUMBERS.with(|numbers| {
        let (mut next, mut left) = numbers.get();
        if left == 0 {
            next = NEXT.fetch_add(NUMBERS_AT_ONCE, Ordering::Relaxed);
            left = NUMBERS_AT_ONCE;
        }
        numbers.set((next + 1, left - 1));
        next
    })
}
