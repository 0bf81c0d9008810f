//! A value that one thread or task at a time can use.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::condition::guard;
use super::{Of, introspection};
use crate::policy::Exclusive;
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::Synchronizer;
use crate::wait::operation::{Asking, Handle};
use crate::wait::request::Request;

/// A lock around a value: strictly first come first served.
///
/// A guard can be held across an `.await`, and a panic while it is held frees the lock without
/// poisoning it. Locking again while holding waits for oneself: try fails, and a bounded request
/// times out or can be cancelled ([`ReentrantLock`](crate::ReentrantLock) is for that).
///
/// ```
/// use semaforo::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// # async fn from_a_task() {
/// *TOTAL.lock().await += 1;
/// # }
/// *TOTAL.lock().wait() += 1;
/// assert_eq!(*TOTAL.lock().wait(), 1);
/// ```
pub struct Mutex<T: ?Sized> {
    synchronizer: Synchronizer<Exclusive>,
    value: UnsafeCell<T>,
}

// SAFETY: moving the lock moves the value, and nothing else depends on the thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: the lock lets one thread at a time have the value, so it is sent, never shared.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    constant_unless_modelled! {
        /// An unlocked lock around this value.
        pub const fn new(value: T) -> Self {
            Self::with_state(value, Exclusive::initial(false))
        }
    }

    constant_unless_modelled! {
        /// A lock in barging mode: a newcomer may overtake those who wait, as described for
        /// [`Semaphore::barging`](crate::Semaphore::barging).
        pub const fn barging(value: T) -> Self {
            Self::with_state(value, Exclusive::initial(true))
        }
    }

    constant_unless_modelled! {
        const fn with_state(value: T, state: u64) -> Self {
            Self { synchronizer: Synchronizer::new(Exclusive, state), value: UnsafeCell::new(value) }
        }
    }

    /// The value; nobody can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Asks for the lock.
    #[inline]
    pub fn lock(&self) -> Request<Lock<T, &Self>> {
        Request::new(Lock(self, PhantomData), ())
    }

    /// [`lock`](Self::lock), for a guard that can go anywhere.
    #[inline]
    pub fn lock_owned(self: &Arc<Self>) -> Request<Lock<T, Arc<Self>>> {
        Request::new(Lock(Arc::clone(self), PhantomData), ())
    }

    /// Locks now, or not at all. Fails while others wait, unless barging.
    #[inline]
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.synchronizer.acquire_or_not(()).then(|| Guard::of(self))
    }

    /// [`try_lock`](Self::try_lock), for a guard that can go anywhere.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_lock_owned(self: &Arc<Self>) -> Option<OwnedMutexGuard<T>> {
        self.synchronizer.acquire_or_not(()).then(|| Guard::of(Arc::clone(self)))
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Whether somebody holds it now.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        Exclusive::is_held(self.synchronizer.state())
    }

    /// How often it could be locked now: once, or not.
    #[must_use]
    pub fn available(&self) -> u32 {
        u32::from(!self.is_locked())
    }

    introspection!();
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => output.field("value", &&*guard),
            None => output.field("value", &format_args!("<locked>")),
        };
        output.field("waiters", &self.waiters()).finish()
    }
}

/// The operation of [`Mutex::lock`].
#[derive(Debug)]
pub struct Lock<T: ?Sized, H: Handle<Mutex<T>>>(H, Of<T>);

impl<T: ?Sized, H: Handle<Mutex<T>>> Asking for Lock<T, H> {
    type Policy = Exclusive;
    type Granted = Guard<T, H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Exclusive> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, (): ()) -> Guard<T, H> {
        Guard::of(self.0)
    }
}

/// The value of a borrowed [`Mutex`], unlocked when dropped.
pub type MutexGuard<'a, T> = Guard<T, &'a Mutex<T>>;

/// The value of a shared [`Mutex`], unlocked when dropped.
pub type OwnedMutexGuard<T> = Guard<T, Arc<Mutex<T>>>;

/// The value of a [`Mutex`], unlocked when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Guard<T: ?Sized, H: Handle<Mutex<T>>> {
    mutex: H,
    _value: Of<T>,
}

// SAFETY: a shared guard gives out `&T` only.
unsafe impl<T: ?Sized + Sync, H: Handle<Mutex<T>> + Sync> Sync for Guard<T, H> {}

impl<T: ?Sized, H: Handle<Mutex<T>>> Guard<T, H> {
    #[inline]
    fn of(mutex: H) -> Self {
        Self { mutex, _value: PhantomData }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn mutex(this: &Self) -> &Mutex<T> {
        &this.mutex
    }
}

impl<T: ?Sized, H: Handle<Mutex<T>>> guard::LockGuard for Guard<T, H> {
    type Policy = Exclusive;

    fn synchronizer(&self) -> &Synchronizer<Exclusive> {
        &self.mutex.synchronizer
    }

    fn ask(&self) {}

    fn forget(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used again.
        drop(unsafe { std::ptr::read(&raw const this.mutex) });
    }
}

impl<T: ?Sized, H: Handle<Mutex<T>>> Deref for Guard<T, H> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized, H: Handle<Mutex<T>>> DerefMut for Guard<T, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized, H: Handle<Mutex<T>>> Drop for Guard<T, H> {
    #[inline]
    fn drop(&mut self) {
        // What is held can be given back.
        let _ = self.mutex.synchronizer.release(());
    }
}

impl<T: ?Sized + fmt::Debug, H: Handle<Mutex<T>>> fmt::Debug for Guard<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, H: Handle<Mutex<T>>> fmt::Display for Guard<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
