//! A value that one thread or task at a time can use.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::introspection;
use crate::policy::Exclusive;
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Asking, Synchronizer, guard};
use crate::wait::operation::{ContentOf, Handle, objects};
use crate::wait::request::Request;
use crate::wait::self_wait::{CallSite, Record};

/// A lock around a value: strictly first come first served.
///
/// A guard can be held across an `.await`, and a panic while it is held frees the lock without
/// poisoning it.
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
///
/// # Locking twice
///
/// A thread or task that locks again while it has the guard waits for itself: `try_lock` fails, and
/// a bounded request times out or can be cancelled. [`ReentrantLock`](crate::ReentrantLock) is for
/// that.
///
/// In a build with debug assertions, a thread that has waited for a second without a limit, for a
/// lock that it was the last to take, says so on stderr, with both places in the source. It is a
/// report and no panic: guards can be sent, which is what lets a task hold one across an `.await`; so
/// a lock knows by which thread it was taken, and not who has the guard now. (Of tasks it does not even
/// know that.) This program locks twice on one thread, and is right:
///
/// ```
/// use semaforo::Mutex;
///
/// let total = Mutex::new(0);
/// std::thread::scope(|scope| {
///     let mut guard = total.lock().wait();
///     scope.spawn(move || *guard += 1);
///     assert_eq!(*total.lock().wait(), 1); // waits for the other thread
/// });
/// ```
///
/// (Where locks do detect it, their guards stay on their thread, as the standard library's do and
/// those of a `ReentrantLock` that a thread owns.) To find such a place among tasks, bound the request
/// while you look: `lock().timeout(limit).await.unwrap()` panics there.
#[doc(alias = "AsyncMutex")]
#[doc(alias = "pthread_mutex_t")]
#[doc(alias = "NSLock")]
#[doc(alias = "lock_guard")]
pub struct Mutex<T: ?Sized> {
    synchronizer: Synchronizer<Exclusive>,
    record: Record,
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
            Self::of_kind("Mutex", value, Exclusive::initial(false))
        }
    }

    constant_unless_modelled! {
        /// A lock in barging mode: a newcomer may overtake those who wait, as described for
        /// [`Semaphore::barging`](crate::Semaphore::barging).
        pub const fn barging(value: T) -> Self {
            Self::of_kind("Mutex", value, Exclusive::initial(true))
        }
    }

    constant_unless_modelled! {
        /// The lock of a monitor around this value.
        pub(super) const fn of_monitor(value: T) -> Self {
            Self::of_kind("Monitor", value, Exclusive::initial(false))
        }
    }

    constant_unless_modelled! {
        const fn of_kind(kind: &'static str, value: T, state: u64) -> Self {
            Self {
                synchronizer: Synchronizer::new(Exclusive, state),
                record: Record::new(kind),
                value: UnsafeCell::new(value),
            }
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
    #[doc(alias = "pthread_mutex_lock")]
    #[doc(alias = "EnterScope")]
    pub fn lock(&self) -> Request<Lock<&Self>> {
        Request::new(Lock(self), ())
    }

    /// [`lock`](Self::lock), for a guard that can go anywhere.
    #[inline]
    pub fn lock_owned(self: &Arc<Self>) -> Request<Lock<Arc<Self>>> {
        Request::new(Lock(Arc::clone(self)), ())
    }

    /// Locks now, or not at all. Fails while others wait, unless barging.
    #[inline]
    #[must_use = "the lock is released when the guard is dropped"]
    #[doc(alias = "tryLock")]
    #[doc(alias = "TryEnter")]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.acquire_at(CallSite::here()).then(|| Guard::of(self))
    }

    /// [`try_lock`](Self::try_lock), for a guard that can go anywhere.
    #[must_use = "the lock is released when the guard is dropped"]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock_owned(self: &Arc<Self>) -> Option<OwnedMutexGuard<T>> {
        self.acquire_at(CallSite::here()).then(|| Guard::of(Arc::clone(self)))
    }

    #[inline]
    fn acquire_at(&self, at: CallSite) -> bool {
        let acquired = self.synchronizer.acquire_or_not(());
        if acquired {
            self.record.note(at);
        }
        acquired
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

    pub(super) fn synchronizer(&self) -> &Synchronizer<Exclusive> {
        &self.synchronizer
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

objects!([T: ?Sized] Mutex<T> => T);

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
pub struct Lock<H>(H);

impl<H: Handle<Target = Mutex<ContentOf<H>>>> Asking for Lock<H> {
    type Policy = Exclusive;
    type Granted = Guard<H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Exclusive> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, (): ()) -> Guard<H> {
        Guard::of(self.0)
    }

    #[inline]
    fn awaits(&self) -> Option<&Record> {
        Some(&self.0.record)
    }

    #[inline]
    fn locked_at(&self, at: CallSite) {
        self.0.record.note(at);
    }
}

/// The value of a borrowed [`Mutex`], unlocked when dropped.
pub type MutexGuard<'a, T> = Guard<&'a Mutex<T>>;

/// The value of a shared [`Mutex`], unlocked when dropped.
pub type OwnedMutexGuard<T> = Guard<Arc<Mutex<T>>>;

/// The value of a [`Mutex`], unlocked when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Guard<H: Handle<Target = Mutex<ContentOf<H>>>> {
    mutex: H,
}

// SAFETY: a shared guard gives out `&T` only.
unsafe impl<H: Handle<Content: Sync, Target = Mutex<ContentOf<H>>> + Sync> Sync for Guard<H> {}

impl<H: Handle<Target = Mutex<ContentOf<H>>>> Guard<H> {
    #[inline]
    fn of(mutex: H) -> Self {
        Self { mutex }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn mutex(this: &Self) -> &Mutex<ContentOf<H>> {
        &this.mutex
    }
}

impl<H: Handle<Target = Mutex<ContentOf<H>>>> guard::LockGuard for Guard<H> {
    type Policy = Exclusive;
    type Leaving = ();

    fn synchronizer(&self) -> &Synchronizer<Exclusive> {
        &self.mutex.synchronizer
    }

    fn ask(&self) {}

    fn leaving(&self) {}

    fn record(&self) -> Option<&Record> {
        Some(&self.mutex.record)
    }

    fn forget(self, _: u64, _: u32) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used again.
        drop(unsafe { std::ptr::read(&raw const this.mutex) });
    }
}

impl<H: Handle<Target = Mutex<ContentOf<H>>>> Deref for Guard<H> {
    type Target = ContentOf<H>;

    #[inline]
    fn deref(&self) -> &ContentOf<H> {
        // SAFETY: the lock is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<H: Handle<Target = Mutex<ContentOf<H>>>> DerefMut for Guard<H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut ContentOf<H> {
        // SAFETY: the lock is held, and the guard is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<H: Handle<Target = Mutex<ContentOf<H>>>> Drop for Guard<H> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.record.clear();
        // What is held can be given back.
        let _ = self.mutex.synchronizer.release(());
    }
}

impl<H: Handle<Content: fmt::Debug, Target = Mutex<ContentOf<H>>>> fmt::Debug for Guard<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H: Handle<Content: fmt::Display, Target = Mutex<ContentOf<H>>>> fmt::Display for Guard<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
