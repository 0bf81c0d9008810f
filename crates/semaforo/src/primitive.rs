//! The primitives everything else is built from: the standard library's, or those of a model
//! checker (`--cfg loom`, `--cfg shuttle`). This is the only file that tells them apart.

// Some are for tasks alone.
#![cfg_attr(not(feature = "tasks"), allow(unused_imports))]

#[cfg(not(any(loom, shuttle)))]
mod chosen {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::{Builder as ThreadBuilder, ThreadId, current, yield_now};
    pub(crate) use std::thread_local;
    use std::time::{Duration, Instant};

    /// Time passes, and the timer thread runs.
    pub(crate) const MODELLED: bool = false;

    #[inline]
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
    pub(crate) use super::loom_atomics::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, yield_now};
    pub(crate) use super::modelled::{MODELLED, now, pause, time_left};
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::{Builder as ThreadBuilder, ThreadId, current};
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
    pub(crate) use super::modelled::{MODELLED, now, pause, time_left};
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::{Builder as ThreadBuilder, ThreadId, current, yield_now};
    pub(crate) use shuttle::thread_local;

    macro_rules! global {
        ($(#[$attribute:meta])* pub(crate) static $name:ident: $type:ty = $value:expr;) => {
            shuttle::lazy_static! { $(#[$attribute])* pub(crate) static ref $name: $type = $value; }
        };
    }
    pub(crate) use global;
}

/// Loom's atomics, with a choice.
///
/// Loom takes it that a load changes no order of events, and in consequence overlooks orders in
/// which a thread loads a value and then changes it (tokio-rs/loom issues 166 and 392): all that we
/// do. So a load is an exchange here, one that fails, and loom tries every order; but a load then
/// never yields an old value, as it may on a real machine. Models are run both ways.
///
/// Loom also takes `SeqCst` for `AcqRel`, except in fences. So a change that is `SeqCst` is followed by
/// a fence here, which is how processors that order stores and loads have it (a load that is `SeqCst`
/// needs nothing then): whoever relies on a fence where only loads are `SeqCst` still fails.
#[cfg(loom)]
pub(crate) mod loom_atomics {
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    use loom::sync::atomic::{self, Ordering, fence};
    use loom::thread::{self, Thread, ThreadId};

    std::thread_local! {
        static OLD_VALUES: Cell<bool> = const { Cell::new(false) };
        /// Whether the last exchange has failed: something has changed since its thread looked.
        static FAILED: Cell<bool> = const { Cell::new(false) };
        /// How often something has changed.
        static CHANGES: Cell<u64> = const { Cell::new(0) };
        /// By thread of the model, what that was when it began to look at what it may wait for.
        static LOOKING: RefCell<HashMap<ThreadId, u64>> = RefCell::default();
        /// The threads of the model that wait for some atomic to change.
        static SPINNING: RefCell<Vec<Thread>> = const { RefCell::new(Vec::new()) };
    }

    /// Begins a run of a model. Says whether loads may yield old values in it; if not, all orders are
    /// tried.
    #[cfg(test)]
    pub(crate) fn begin(old_values: bool) {
        OLD_VALUES.set(old_values);
        FAILED.set(false);
        CHANGES.set(0);
        LOOKING.take();
        SPINNING.take();
    }

    /// For a thread that has just looked at some atomics, and will look again and again until one is
    /// different: it need not until something has changed.
    pub(crate) fn yield_now() {
        if OLD_VALUES.get() {
            return thread::yield_now();
        }
        let looked = LOOKING.with_borrow_mut(|looking| looking.remove(&thread::current().id()));
        if !FAILED.get() && looked == Some(CHANGES.get()) {
            SPINNING.with_borrow_mut(|spinning| spinning.push(thread::current()));
            thread::park();
        }
    }

    fn look() {
        FAILED.set(false);
        LOOKING.with_borrow_mut(|looking| {
            looking.entry(thread::current().id()).or_insert(CHANGES.get());
        });
    }

    fn look_and_fail() {
        FAILED.set(true);
        LOOKING.with_borrow_mut(|looking| {
            looking.insert(thread::current().id(), CHANGES.get());
        });
    }

    fn change(order: Ordering) {
        if order == Ordering::SeqCst && OLD_VALUES.get() {
            fence(order);
        }
        FAILED.set(false);
        CHANGES.set(CHANGES.get() + 1);
        LOOKING.with_borrow_mut(|looking| looking.remove(&thread::current().id()));
        SPINNING.take().iter().for_each(Thread::unpark);
    }

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name(atomic::$name);

            #[allow(dead_code, reason = "not every type is used in every way")]
            impl $name {
                pub(crate) fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    let value = if OLD_VALUES.get() {
                        self.0.load(order)
                    } else {
                        // No word is ever this. An exchange that writes what was there will not do:
                        // loom takes it for newer than what was stored meanwhile.
                        let never = <$value>::MAX / 3 * 2;
                        match self.0.compare_exchange(never, never, Ordering::AcqRel, order) {
                            Ok(value) | Err(value) => value,
                        }
                    };
                    look();
                    value
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, order);
                    change(order);
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    let before = self.0.swap(value, order);
                    change(order);
                    before
                }

                pub(crate) fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    let exchanged = self.0.compare_exchange(current, new, success, failure);
                    if exchanged.is_ok() {
                        change(success)
                    } else {
                        look_and_fail()
                    }
                    exchanged
                }
            }
        };
    }

    /// What integers can do besides.
    macro_rules! counting {
        ($name:ident, $value:ty) => {
            counting!($name, $value, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
        };
        ($name:ident, $value:ty, $($change:ident),*) => {
            #[allow(dead_code, reason = "not every type is used in every way")]
            impl $name {
                $(pub(crate) fn $change(&self, value: $value, order: Ordering) -> $value {
                    let before = self.0.$change(value, order);
                    change(order);
                    before
                })*
            }
        };
    }

    counting!(AtomicU32, u32);
    counting!(AtomicU64, u64);
    atomic!(AtomicU8, u8);
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);

    #[derive(Debug)]
    pub(crate) struct AtomicBool(AtomicU8);

    impl AtomicBool {
        pub(crate) fn new(value: bool) -> Self {
            Self(AtomicU8::new(value.into()))
        }

        pub(crate) fn load(&self, order: Ordering) -> bool {
            self.0.load(order) != 0
        }

        pub(crate) fn store(&self, value: bool, order: Ordering) {
            self.0.store(value.into(), order);
        }

        pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
            self.0.swap(value.into(), order) != 0
        }

        pub(crate) fn compare_exchange(
            &self,
            current: bool,
            new: bool,
            success: Ordering,
            failure: Ordering,
        ) -> Result<bool, bool> {
            let exchanged = self.0.compare_exchange(current.into(), new.into(), success, failure);
            exchanged.map(|value| value != 0).map_err(|value| value != 0)
        }
    }
}

#[cfg(any(loom, shuttle))]
mod modelled {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// No time passes in a model, and no timer thread runs: the models say when the timer acts.
    pub(crate) const MODELLED: bool = true;

    /// The checker lets others run.
    pub(crate) fn pause() {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(shuttle)]
        shuttle::thread::yield_now();
    }

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

/// A `OnceLock` for a value that is made when it is first needed. Under loom it is made at once, because
/// loom does not see that those who find it come after the one who made it.
macro_rules! made_when_needed {
    ($value:expr) => {{
        #[cfg(not(loom))]
        let value = std::sync::OnceLock::new();
        #[cfg(loom)]
        let value = std::sync::OnceLock::from($value);
        value
    }};
}
pub(crate) use made_when_needed;

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
