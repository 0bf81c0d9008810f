//! A lock for what takes a few nanoseconds.

use crate::primitive::{AtomicBool, Ordering, TrackedCell};
use crate::wait::parker::Backoff;

/// A value that one thread at a time looks at, very briefly. Nothing of the user's may run
/// meanwhile.
pub(crate) struct SpinLock<T> {
    locked: AtomicBool,
    value: TrackedCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Releases the lock when dropped.
struct Unlocking<'l>(&'l AtomicBool);

impl Drop for Unlocking<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), value: TrackedCell::new(value) }
    }

    #[inline]
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        if !self.take() {
            self.take_contended();
        }
        self.locked(look)
    }

    /// [`with`](Self::with), unless another thread holds the lock.
    #[inline]
    pub(crate) fn try_with<R>(&self, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.take().then(|| self.locked(look))
    }

    #[inline]
    fn locked<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        let _unlocks = Unlocking(&self.locked);
        // SAFETY: the lock is held, and `look` cannot reach this cell another way.
        self.value.look_mut(|value| look(unsafe { &mut *value }))
    }

    #[inline]
    fn take(&self) -> bool {
        self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take_contended(&self) {
        let mut backoff = Backoff::new();
        while self.locked.load(Ordering::Relaxed) || !self.take() {
            backoff.wait();
        }
    }
}
