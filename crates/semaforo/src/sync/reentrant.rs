//! A lock that its owner can take again.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::introspection;
use crate::policy::{Owned, Owner};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Asking, Synchronizer, guard};
use crate::wait::ledger::{Holds, Leaving, Ledger};
use crate::wait::operation::{ContentOf, Handle, objects};
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
#[doc(alias = "ReentrantMutex")]
#[doc(alias = "recursive_mutex")]
#[doc(alias = "RecursiveMutex")]
#[doc(alias = "NSRecursiveLock")]
pub struct ReentrantLock<T: ?Sized> {
    synchronizer: Synchronizer<Owned>,
    ledger: Ledger,
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
            Self { synchronizer: Synchronizer::new(Owned, 0), ledger: Ledger::new(), value }
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
    pub fn lock(&self) -> Request<Reenter<&Self, OnThisThread>> {
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
    pub fn lock_as(&self, key: &OwnerKey) -> Request<Reenter<&Self, Anywhere>>
    where
        T: Sync,
    {
        self.request(self, Anywhere, key.0)
    }

    /// [`lock_as`](Self::lock_as), for a guard that can go anywhere.
    #[inline]
    pub fn lock_owned_as(self: &Arc<Self>, key: &OwnerKey) -> Request<Reenter<Arc<Self>, Anywhere>>
    where
        T: Sync,
    {
        self.request(Arc::clone(self), Anywhere, key.0)
    }

    #[inline]
    fn request<H: Handle<Content = T, Target = Self>, M>(
        &self,
        lock: H,
        marker: M,
        owner: Owner,
    ) -> Request<Reenter<H, M>> {
        Request::new(Reenter { lock, marker }, owner)
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

    fn try_for<M>(&self, owner: Owner, marker: M) -> Option<Guard<&Self, M>> {
        let granted = self.synchronizer.acquire_or_not(owner);
        granted.then(|| Guard::of(self, owner, marker))
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
    #[doc(alias = "getHoldCount")]
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

    pub(super) fn synchronizer(&self) -> &Synchronizer<Owned> {
        &self.synchronizer
    }

    /// Gives back a hold of a guard that was made then, or of none.
    #[inline]
    fn give_back(&self, owner: Owner, since: Option<u64>) {
        let release = || self.synchronizer.release(owner).is_ok();
        if !release() {
            self.ledger.give_back(owner, since, Holds::WRITE, release);
        }
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

objects!([T: ?Sized] ReentrantLock<T> => T);

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
pub struct Reenter<H, M> {
    lock: H,
    marker: M,
}

impl<H: Handle<Target = ReentrantLock<ContentOf<H>>>, M> Asking for Reenter<H, M> {
    type Policy = Owned;
    type Granted = Guard<H, M>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<Owned> {
        &self.lock.synchronizer
    }

    #[inline]
    fn granted(self, owner: Owner) -> Guard<H, M> {
        Guard::of(self.lock, owner, self.marker)
    }
}

/// The value of a [`ReentrantLock`] that this thread holds.
pub type ReentrantGuard<'a, T> = Guard<&'a ReentrantLock<T>, OnThisThread>;

/// The value of a borrowed [`ReentrantLock`] that a key's owner holds.
pub type KeyGuard<'a, T> = Guard<&'a ReentrantLock<T>, Anywhere>;

/// The value of a shared [`ReentrantLock`] that a key's owner holds.
pub type OwnedKeyGuard<T> = Guard<Arc<ReentrantLock<T>>, Anywhere>;

/// One of its owner's holds of a [`ReentrantLock`], given up when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Guard<H: Handle<Target = ReentrantLock<ContentOf<H>>>, M> {
    lock: H,
    owner: Owner,
    /// How many waits of owners had begun when it was made.
    since: u64,
    _marker: M,
}

impl<H: Handle<Target = ReentrantLock<ContentOf<H>>>, M> Guard<H, M> {
    #[inline]
    fn of(lock: H, owner: Owner, marker: M) -> Self {
        let since = lock.ledger.now();
        Self { lock, owner, since, _marker: marker }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn reentrant_lock(this: &Self) -> &ReentrantLock<ContentOf<H>> {
        &this.lock
    }
}

/// Only if the value may be shared: whoever waits gives away all its holds, but its other guards go
/// on giving out references.
impl<H: Handle<Content: Sync, Target = ReentrantLock<ContentOf<H>>>, M> guard::LockGuard
    for Guard<H, M>
{
    type Policy = Owned;
    type Leaving = Leaving;

    fn synchronizer(&self) -> &Synchronizer<Owned> {
        &self.lock.synchronizer
    }

    fn ask(&self) -> Owner {
        self.owner
    }

    fn is_away(&self) -> bool {
        self.lock.ledger.is_away(self.owner, self.since)
    }

    fn leaving(&self) -> Leaving {
        let others = |holds| Holds { reads: 0, writes: holds - 1 };
        Leaving::new(&self.lock.ledger, self.owner, self.since, others)
    }

    fn come_back(&self, wait: u64, holds: u32) {
        let ReentrantLock { synchronizer, ledger, .. } = &*self.lock;
        let others = holds - 1;
        // Only its own holds of the meantime can keep an owner from coming again.
        let again = (0..others).take_while(|_| synchronizer.acquire_or_not(self.owner)).count();
        let remaining = Holds { writes: others - again as u32, reads: 0 };
        let excess = ledger.come_back(wait, remaining);
        for _ in 0..excess.writes {
            self.lock.give_back(self.owner, None);
        }
    }

    fn forget(self, wait: u64, holds: u32) {
        let remaining = Holds { writes: holds - 1, reads: 0 };
        self.lock.ledger.stay_away(wait, remaining);
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used again.
        drop(unsafe { std::ptr::read(&raw const this.lock) });
    }
}

impl<H: Handle<Target = ReentrantLock<ContentOf<H>>>, M> Deref for Guard<H, M> {
    type Target = ContentOf<H>;

    #[inline]
    fn deref(&self) -> &ContentOf<H> {
        &self.lock.value
    }
}

impl<H: Handle<Target = ReentrantLock<ContentOf<H>>>, M> Drop for Guard<H, M> {
    #[inline]
    fn drop(&mut self) {
        if !self.lock.ledger.count(self.owner, self.since, Holds::WRITE) {
            self.lock.give_back(self.owner, Some(self.since));
        }
    }
}

impl<H: Handle<Content: fmt::Debug, Target = ReentrantLock<ContentOf<H>>>, M> fmt::Debug
    for Guard<H, M>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H: Handle<Content: fmt::Display, Target = ReentrantLock<ContentOf<H>>>, M> fmt::Display
    for Guard<H, M>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
