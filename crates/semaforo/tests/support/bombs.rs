//! Panics whose payloads panic when they are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::task::Waker;

use super::waker_that;

/// Panics with another when it is dropped, so many times.
pub(crate) struct Bomb(pub(crate) u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Bomb(self.0 - 1));
        }
    }
}

/// Runs what may panic with a bomb, and says whether it did.
pub(crate) fn explodes(run: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(()) => false,
        Err(payload) => {
            std::mem::forget(payload);
            true
        }
    }
}

/// A waker that panics with a bomb when woken.
pub(crate) fn exploding_waker() -> Waker {
    waker_that(|| panic_any(Bomb(3)))
}
