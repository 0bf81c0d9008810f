//! The primitives everything else is built from: the standard library's, or those of a model
//! checker (`--cfg loom`, `--cfg shuttle`). This is the only file that tells them apart.

#[cfg(not(any(loom, shuttle)))]
mod chosen {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;
    pub(crate) use std::thread_local;
    use std::time::{Duration, Instant};

    /// Time passes, and the timer thread runs.
    pub(crate) const MODELLED: bool = false;

    pub(crate) fn pause() {
        std::hint::spin_loop();
    }

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn time_left(deadline: Instant) -> Duration {
        deadline.saturating_duration_since(now())
    }

    /// Declares a static that each run of a model makes anew.
    macro_rules! global {
        ($(#[$attribute:meta])* pub(crate) static $name:ident: $type:ty = $value:expr;) => {
            $(#[$attribute])* pub(crate) static $name: $type = $value;
        };
    }
    pub(crate) use global;
}

#[cfg(loom)]
mod chosen {
    pub(crate) use super::stopped_clock::{MODELLED, now, time_left};
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;
    pub(crate) use loom::thread::yield_now as pause;
    pub(crate) use loom::thread_local;

    macro_rules! global {
        ($(#[$attribute:meta])* pub(crate) static $name:ident: $type:ty = $value:expr;) => {
            loom::lazy_static! { $(#[$attribute])* pub(crate) static ref $name: $type = $value; }
        };
    }
    pub(crate) use global;
}

#[cfg(shuttle)]
mod chosen {
    pub(crate) use super::stopped_clock::{MODELLED, now, time_left};
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use shuttle::thread::yield_now as pause;
    pub(crate) use shuttle::thread_local;

    macro_rules! global {
        ($(#[$attribute:meta])* pub(crate) static $name:ident: $type:ty = $value:expr;) => {
            shuttle::lazy_static! { $(#[$attribute])* pub(crate) static ref $name: $type = $value; }
        };
    }
    pub(crate) use global;
}

#[cfg(any(loom, shuttle))]
mod stopped_clock {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// No time passes in a model, and no timer thread runs: the models say when the timer acts.
    pub(crate) const MODELLED: bool = true;

    pub(crate) fn now() -> Instant {
        static NOW: OnceLock<Instant> = OnceLock::new();
        *NOW.get_or_init(Instant::now)
    }

    /// A thread that would sleep until a deadline finds that it has come. Whatever may happen
    /// before, others can do in between.
    pub(crate) fn time_left(_: Instant) -> Duration {
        Duration::ZERO
    }
}

pub(crate) use chosen::*;

/// A cell whose accesses loom can follow. Outside loom it costs nothing.
#[derive(Debug)]
pub(crate) struct TrackedCell<T> {
    #[cfg(not(loom))]
    value: std::cell::UnsafeCell<T>,
    #[cfg(loom)]
    value: loom::cell::UnsafeCell<T>,
}

impl<T> TrackedCell<T> {
    constant_unless_modelled! {
        pub(crate) const fn new(value: T) -> Self {
            #[cfg(not(loom))]
            let value = std::cell::UnsafeCell::new(value);
            #[cfg(loom)]
            let value = loom::cell::UnsafeCell::new(value);
            Self { value }
        }
    }

    /// Gives the contents to `look`, which must not be running while another `look` or
    /// `look_mut` on this cell could change them.
    #[inline(always)]
    pub(crate) fn look<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        #[cfg(not(loom))]
        return look(self.value.get());
        #[cfg(loom)]
        return self.value.with(look);
    }

    /// Gives the contents to `change`, which must be the only access to this cell meanwhile.
    #[inline(always)]
    pub(crate) fn look_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(not(loom))]
        return change(self.value.get());
        #[cfg(loom)]
        return self.value.with_mut(change);
    }
}

/// Loom sees that nobody uses a cell that is gone.
#[cfg(loom)]
impl<T> Drop for TrackedCell<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.value.with_mut(|_| ());
        }
    }
}

/// Declares a `const fn` that is an ordinary one under loom, whose atomics cannot be constants.
macro_rules! constant_unless_modelled {
    ($(#[$attribute:meta])* $visibility:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])* $visibility const fn $($rest)*
        #[cfg(loom)]
        $(#[$attribute])* $visibility fn $($rest)*
    };
}
pub(crate) use constant_unless_modelled;

/// Declares a thread-local whose initial value is a constant, where the primitives know the
/// difference.
macro_rules! constant_thread_local {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;) => {
        #[cfg(not(any(loom, shuttle)))]
        std::thread_local! { $(#[$attribute])* static $name: $type = const { $value }; }
        #[cfg(any(loom, shuttle))]
        crate::primitive::thread_local! { $(#[$attribute])* static $name: $type = $value; }
    };
}
pub(crate) use constant_thread_local;
