//! The primitives everything else is built from: the standard library's, or those of a model
//! checker (`--cfg loom`, `--cfg shuttle`). This is the only file that tells them apart.

#[cfg(not(any(loom, shuttle)))]
mod chosen {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::{Condvar, Mutex};
    pub(crate) use std::thread::yield_now;
    pub(crate) use std::thread_local;

    /// Time passes, and the timer thread runs.
    pub(crate) const MODELLED: bool = false;

    pub(crate) fn pause() {
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
mod chosen {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex};
    pub(crate) use loom::thread::yield_now;
    pub(crate) use loom::thread_local;

    /// There is no time in a model: the models call what the timer would call.
    pub(crate) const MODELLED: bool = true;

    pub(crate) fn pause() {
        loom::thread::yield_now();
    }
}

#[cfg(shuttle)]
mod chosen {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use shuttle::thread_local;

    /// There is no time in a model: the models call what the timer would call.
    pub(crate) const MODELLED: bool = true;

    pub(crate) fn pause() {
        shuttle::thread::yield_now();
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
