//! Whether this thread runs a user's rule, under the lock of an object.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::wake::Panic;
use crate::primitive::constant_thread_local;

constant_thread_local! {
    /// The address of the rule that this thread runs, or 0.
    static RUNNING: Cell<usize> = Cell::new(0);
}

/// Runs a user's code on the rule at this address, and catches its panic.
#[inline]
pub(crate) fn run<T>(rule: usize, code: impl FnOnce() -> T) -> Result<T, Panic> {
    let outer = RUNNING.try_with(|running| running.replace(rule));
    let result = catch(code);
    if let Ok(outer) = outer {
        let _ = RUNNING.try_with(|running| running.set(outer));
    }
    result
}

/// Runs a part of a user's code that is [run](run) already, and catches its panic.
#[inline]
pub(crate) fn catch<T>(code: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(code))
}

/// Whether this thread runs a user's code under a lock.
#[inline]
fn is_running() -> bool {
    RUNNING.try_with(Cell::get).unwrap_or(0) != 0
}

/// # Panics
/// In a user's code that runs under a lock.
#[inline]
pub(crate) fn forbid(what: &str) {
    if is_running() {
        refuse(what);
    }
}

/// Runs code of this crate that a rule may cause without calling it, because it drops another object.
/// Not if that is the object of the rule that this thread runs, which would have to be locked again.
pub(crate) fn suspend<T>(rule: usize, code: impl FnOnce() -> T) -> Option<T> {
    let outer = RUNNING.try_with(|running| running.replace(0)).unwrap_or(0);
    let result = (outer != rule).then(code);
    let _ = RUNNING.try_with(|running| running.set(outer));
    result
}

/// Ends the process if it is dropped, which is to be [forgotten](std::mem::forget): around the locking for
/// a request that is being dropped. A rule's own code may not lock an object of rules, and whatever
/// unwound past this would free a request that such an object still knows.
pub(crate) struct Leaving;

impl Drop for Leaving {
    #[cold]
    fn drop(&mut self) {
        if !is_running() {
            return;
        }
        eprintln!(
            "semaforo: a rule dropped a request that waits for an object of rules, while its own is \
             locked; the process ends, because the request cannot be withdrawn"
        );
        std::process::abort();
    }
}

#[cold]
#[inline(never)]
fn refuse(what: &str) -> ! {
    panic!("{what}");
}
