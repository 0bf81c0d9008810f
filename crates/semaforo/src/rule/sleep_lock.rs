//! The lock of a rule's object: it may be held for as long as a user's code takes.

use crate::primitive::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering};
use crate::wait::rule::Lock;
use crate::wait::user_code;

/// A lock whose waiters sleep once they have tried for a while.
///
/// | state | set by |
/// |---|---|
/// | `FREE` | the holder, when it releases the lock |
/// | `LOCKED` | compare-and-swap from `FREE` |
/// | `SLEPT_ON` | a thread that is about to sleep, or wakes and takes the lock: others may be asleep |
#[derive(Debug)]
pub struct SleepLock {
    state: AtomicU32,
    /// Held by a thread from before it says that it is about to sleep until it does, and while it is
    /// woken: so no wake-up comes in between.
    bed: Mutex<()>,
    freed: Condvar,
}

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const SLEPT_ON: u32 = 2;

impl SleepLock {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(FREE), bed: Mutex::new(()), freed: Condvar::new() }
    }

    /// It protects nothing, so a panic has left nothing half done.
    fn bed(&self) -> MutexGuard<'_, ()> {
        self.bed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Lock for SleepLock {
    type Held = ();

    #[inline]
    fn seems_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
    }

    /// # Panics
    /// In a rule's own code: it would wait for itself, or for another rule that waits for it.
    #[inline]
    fn try_lock(&self) -> Option<()> {
        user_code::forbid("a rule used an object of rules, while its own is locked");
        let locked =
            self.state.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed);
        locked.ok().map(drop)
    }

    fn lock_asleep(&self) -> Option<()> {
        let mut bed = self.bed();
        while self.state.swap(SLEPT_ON, Ordering::Acquire) != FREE {
            bed = self.freed.wait(bed).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        Some(())
    }

    #[inline]
    fn unlock(&self, (): ()) {
        if self.state.swap(FREE, Ordering::Release) == SLEPT_ON {
            let _bed = self.bed();
            self.freed.notify_one();
        }
    }
}
