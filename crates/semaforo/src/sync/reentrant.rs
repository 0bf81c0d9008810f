//! A lock that its owner can take again.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::condition::guard;
use super::{Of, introspection};
use crate::policy::{Owned, Owner};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::Synchronizer;
use crate::wait::operation::{Asking, Handle};
use crate::wait::request::Request;

/// A lock around a value that its owner can take again, at once, whoever waits.
///
/// The owner is a thread, for [`lock`](Self::lock), or a key that one makes, for
/// [`lock_as`](Self::lock_as): a task moves between threads, so it needs a key. Because the owner
/// may hold several guards at a time, a guard gives `&T` only; put a `Cell` inside, or an atomic if
/// keys are used.
///
/// A request that waits is not re-entered: if an owner has two of them in the queue, with another's
/// in between, the second is served in its turn.
///
/// ```
/// use semaforo::ReentrantLock;
/// use std::cell::Cell;
///
/// let depth = ReentrantLock::new(Cell::new(0));
/// let outer = depth.lock().wait()?;
/// let inner = depth.lock().wait()?;
/// inner.set(inner.get() + 1);
/// assert_eq!((outer.get(), depth.holds()), (1, 2));
/// # Ok::<(), semaforo::TooManyHolds>(())
/// ```
pub struct ReentrantLock<T: ?Sized> {
    synchronizer: Synchronizer<Owned>,
    value: T,
}

// SAFETY: `&T` is given out only to the owner: one thread at a time, or, through keys, which need
// `T: Sync`, several threads.
unsafe impl<T: ?Sized + Send> Sync for ReentrantLock<T> {}

/// An owner of [`ReentrantLock`]s that is not a thread: whoever presents the key is the owner.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct OwnerKey(Owner);

/// Numbers for threads and keys.
static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);

fn new_owner() -> Owner {
    Owner::new(NEXT_OWNER.fetch_add(1, Ordering::Relaxed))
        .expect("the process has made 2^41 threads and keys")
}

pub(super) fn this_thread() -> Owner {
    std::thread_local! {
        static THREAD: Owner = new_owner();
    }
    THREAD.with(|owner| *owner)
}

impl OwnerKey {
    /// A key like no other.
    #[must_use]
    pub fn new() -> Self {
        Self(new_owner())
    }

    pub(super) fn owner(&self) -> Owner {
        self.0
    }
}

impl Default for OwnerKey {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> ReentrantLock<T> {
    constant_unless_modelled! {
        /// An unlocked lock around this value.
        pub const fn new(value: T) -> Self {
            Self { synchronizer: Synchronizer::new(Owned, 0), value }
        }
    }

    /// The value; nobody can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: ?Sized> ReentrantLock<T> {
    /// How often an owner can hold the lock at the same time.
    pub const MAX_HOLDS: u32 = Owned::MAX_HOLDS;

    /// Asks for the lock on behalf of this thread. The request, and the guard, stay on it.
    ///
    /// Refused with [`TooManyHolds`](crate::TooManyHolds) if the thread holds it
    /// [`MAX_HOLDS`](Self::MAX_HOLDS) times already.
    #[inline]
    pub fn lock(&self) -> Request<Reenter<T, &Self, OnThisThread>> {
        self.request(self, OnThisThread::new(), this_thread())
    }

    /// Asks for the lock on behalf of the key's owner.
    ///
    /// ```
    /// use semaforo::{OwnerKey, ReentrantLock};
    ///
    /// # futures::executor::block_on(async {
    /// let (lock, me) = (ReentrantLock::new(()), OwnerKey::new());
    /// let outer = lock.lock_as(&me).await?;
    /// let inner = lock.lock_as(&me).await?;
    /// assert!(lock.try_lock_as(&OwnerKey::new()).is_none());
    /// # Ok::<(), semaforo::TooManyHolds>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn lock_as(&self, key: &OwnerKey) -> Request<Reenter<T, &Self, Anywhere>>
    where
        T: Sync,
    {
        self.request(self, Anywhere, key.0)
    }

    /// [`lock_as`](Self::lock_as), for a guard that can go anywhere.
    #[inline]
    pub fn lock_owned_as(
        self: &Arc<Self>,
        key: &OwnerKey,
    ) -> Request<Reenter<T, Arc<Self>, Anywhere>>
    where
        T: Sync,
    {
        self.request(Arc::clone(self), Anywhere, key.0)
    }

    #[inline]
    fn request<H: Handle<Self>, M>(
        &self,
        lock: H,
        marker: M,
        owner: Owner,
    ) -> Request<Reenter<T, H, M>> {
        Request::new(Reenter { lock, marker, _value: PhantomData }, owner)
    }

    /// Locks now for this thread, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_lock(&self) -> Option<ReentrantGuard<'_, T>> {
        self.try_for(this_thread(), OnThisThread::new())
    }

    /// Locks now for the key's owner, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_lock_as(&self, key: &OwnerKey) -> Option<KeyGuard<'_, T>>
    where
        T: Sync,
    {
        self.try_for(key.0, Anywhere)
    }

    fn try_for<M>(&self, owner: Owner, marker: M) -> Option<Guard<T, &Self, M>> {
        let granted = self.synchronizer.acquire_or_not(owner);
        granted.then(|| Guard { lock: self, owner, _marker: marker, _value: PhantomData })
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Whether somebody holds it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.synchronizer.state() != 0
    }

    /// How often its owner holds it.
    #[must_use]
    pub fn holds(&self) -> u32 {
        Owned::holds(self.synchronizer.state())
    }

    /// Whether this thread holds it.
    #[must_use]
    pub fn is_held_by_this_thread(&self) -> bool {
        Owned::owner(self.synchronizer.state()) == Some(this_thread())
    }

    /// Whether the key's owner holds it.
    #[must_use]
    pub fn is_held_by(&self, key: &OwnerKey) -> bool {
        Owned::owner(self.synchronizer.state()) == Some(key.0)
    }

    /// How many others could have it now: one, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        u32::from(!self.is_locked())
    }

    introspection!();
}

impl<T: Default> Default for ReentrantLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for ReentrantLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("ReentrantLock");
        match self.try_lock() {
            Some(guard) => output.field("value", &&*guard),
            None => output.field("value", &format_args!("<locked>")),
        };
        output.field("waiters", &self.waiters()).finish()
    }
}

/// Marks what a thread owns, and must not leave it.
#[derive(Clone, Debug)]
pub struct OnThisThread(PhantomData<*const ()>);

impl OnThisThread {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

/// Marks what a key owns, and may go anywhere.
#[derive(Clone, Debug)]
pub struct Anywhere;

/// The operation of [`ReentrantLock::lock`] and [`ReentrantLock::lock_as`].
#[derive(Debug)]
pub struct Reenter<T: ?Sized, H: Handle<ReentrantLock<T>>, M> {
    lock: H,
    marker: M,
    _value: Of<T>,
}

impl<T: ?Sized, H: Handle<ReentrantLock<T>>, M> Asking for Reenter<T, H, M> {
    type Policy = Owned;
    type Granted = Guard<T, H, M>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Owned> {
        &self.lock.synchronizer
    }

    #[inline]
    fn granted(self, owner: Owner) -> Guard<T, H, M> {
        Guard { lock: self.lock, owner, _marker: self.marker, _value: PhantomData }
    }
}

/// The value of a [`ReentrantLock`] that this thread holds.
pub type ReentrantGuard<'a, T> = Guard<T, &'a ReentrantLock<T>, OnThisThread>;

/// The value of a borrowed [`ReentrantLock`] that a key's owner holds.
pub type KeyGuard<'a, T> = Guard<T, &'a ReentrantLock<T>, Anywhere>;

/// The value of a shared [`ReentrantLock`] that a key's owner holds.
pub type OwnedKeyGuard<T> = Guard<T, Arc<ReentrantLock<T>>, Anywhere>;

/// One of its owner's holds of a [`ReentrantLock`], given up when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Guard<T: ?Sized, H: Handle<ReentrantLock<T>>, M> {
    lock: H,
    owner: Owner,
    _marker: M,
    _value: Of<T>,
}

impl<T: ?Sized, H: Handle<ReentrantLock<T>>, M> Guard<T, H, M> {
    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn reentrant_lock(this: &Self) -> &ReentrantLock<T> {
        &this.lock
    }
}

/// Only if the value may be shared: whoever waits gives away all its holds, but its other guards go
/// on giving out references.
impl<T: ?Sized + Sync, H: Handle<ReentrantLock<T>>, M> guard::LockGuard for Guard<T, H, M> {
    type Policy = Owned;

    fn synchronizer(&self) -> &Synchronizer<Owned> {
        &self.lock.synchronizer
    }

    fn ask(&self) -> Owner {
        self.owner
    }

    fn forget(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used again.
        drop(unsafe { std::ptr::read(&raw const this.lock) });
    }
}

impl<T: ?Sized, H: Handle<ReentrantLock<T>>, M> Deref for Guard<T, H, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.lock.value
    }
}

impl<T: ?Sized, H: Handle<ReentrantLock<T>>, M> Drop for Guard<T, H, M> {
    #[inline]
    fn drop(&mut self) {
        // What is held can be given back.
        let _ = self.lock.synchronizer.release(self.owner);
    }
}

impl<T: ?Sized + fmt::Debug, H: Handle<ReentrantLock<T>>, M> fmt::Debug for Guard<T, H, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
