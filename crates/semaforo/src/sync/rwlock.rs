//! A value that many can read, or one can write.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::condition::guard;
use super::{Of, introspection};
use crate::policy::{Access, Ending, ReadWrite};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::Synchronizer;
use crate::wait::operation::{Asking, Handle};
use crate::wait::request::Request;

/// A reader-writer lock around a value, in Hoare's order.
///
/// A waiting writer stops new readers; when a write ends, exactly the readers that wait then go in,
/// before the next writer. So neither side can starve the other, and within each side it is first
/// come first served.
///
/// ```
/// use semaforo::RwLock;
///
/// let prices = RwLock::new(vec![3, 5]);
/// {
///     let first = prices.read().wait();
///     let second = prices.read().wait();
///     assert_eq!(first.len() + second.len(), 4);
/// }
/// prices.write().wait().push(8);
/// assert_eq!(prices.read().wait().len(), 3);
/// ```
///
/// A reader that wants to write must not wait for it while it reads: two such readers would wait
/// for each other. [`try_upgrade`](ReadGuard::try_upgrade) converts a sole reader, or tells.
pub struct RwLock<T: ?Sized> {
    synchronizer: Synchronizer<ReadWrite>,
    value: UnsafeCell<T>,
}

// SAFETY: moving the lock moves the value, and nothing else depends on the thread.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share the value between threads, and a writer may take it to another.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    constant_unless_modelled! {
        /// An unlocked lock around this value.
        pub const fn new(value: T) -> Self {
            Self::with_state(value, ReadWrite::initial(false))
        }
    }

    constant_unless_modelled! {
        /// A lock in barging mode: a newcomer may overtake those who wait, as described for
        /// [`Semaphore::barging`](crate::Semaphore::barging).
        pub const fn barging(value: T) -> Self {
            Self::with_state(value, ReadWrite::initial(true))
        }
    }

    constant_unless_modelled! {
        const fn with_state(value: T, state: u64) -> Self {
            Self { synchronizer: Synchronizer::new(ReadWrite, state), value: UnsafeCell::new(value) }
        }
    }

    /// The value; nobody can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Asks to read, beside other readers.
    #[inline]
    pub fn read(&self) -> Request<Read<T, &Self>> {
        Request::new(Read(self, PhantomData), Access::Read)
    }

    /// [`read`](Self::read), for a guard that can go anywhere.
    #[inline]
    pub fn read_owned(self: &Arc<Self>) -> Request<Read<T, Arc<Self>>> {
        Request::new(Read(Arc::clone(self), PhantomData), Access::Read)
    }

    /// Asks to write, alone.
    #[inline]
    pub fn write(&self) -> Request<Write<T, &Self>> {
        Request::new(Write(self, PhantomData), Access::Write)
    }

    /// [`write`](Self::write), for a guard that can go anywhere.
    #[inline]
    pub fn write_owned(self: &Arc<Self>) -> Request<Write<T, Arc<Self>>> {
        Request::new(Write(Arc::clone(self), PhantomData), Access::Write)
    }

    /// Reads now, or not at all. Fails while others wait, unless barging.
    #[inline]
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.synchronizer.acquire_or_not(Access::Read).then(|| ReadGuard::of(self))
    }

    /// Writes now, or not at all. Fails while others wait, unless barging.
    #[inline]
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.synchronizer.acquire_or_not(Access::Write).then(|| WriteGuard::of(self))
    }

    /// [`try_read`](Self::try_read), for a guard that can go anywhere.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read_owned(self: &Arc<Self>) -> Option<OwnedRwLockReadGuard<T>> {
        let granted = self.synchronizer.acquire_or_not(Access::Read);
        granted.then(|| ReadGuard::of(Arc::clone(self)))
    }

    /// [`try_write`](Self::try_write), for a guard that can go anywhere.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_write_owned(self: &Arc<Self>) -> Option<OwnedRwLockWriteGuard<T>> {
        let granted = self.synchronizer.acquire_or_not(Access::Write);
        granted.then(|| WriteGuard::of(Arc::clone(self)))
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// How many readers are in.
    #[must_use]
    pub fn readers(&self) -> u32 {
        ReadWrite::readers(self.synchronizer.state())
    }

    /// Whether a writer is in.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        ReadWrite::has_writer(self.synchronizer.state())
    }

    /// How many readers could come in now, if nobody waits: as many as there can be, or none.
    #[must_use]
    pub fn available(&self) -> u32 {
        if self.has_writer() { 0 } else { u32::MAX - self.readers() }
    }

    /// How many readers wait in line.
    #[must_use]
    pub fn waiting_readers(&self) -> usize {
        self.synchronizer.waiters_in(ReadWrite::READ_LANE)
    }

    /// How many writers wait in line.
    #[must_use]
    pub fn waiting_writers(&self) -> usize {
        self.synchronizer.waiters_in(ReadWrite::WRITE_LANE)
    }

    introspection!();
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => output.field("value", &&*guard),
            None => output.field("value", &format_args!("<locked>")),
        };
        output.field("waiters", &self.waiters()).finish()
    }
}

/// The operation of [`RwLock::read`].
#[derive(Debug)]
pub struct Read<T: ?Sized, H: Handle<RwLock<T>>>(H, Of<T>);

/// The operation of [`RwLock::write`].
#[derive(Debug)]
pub struct Write<T: ?Sized, H: Handle<RwLock<T>>>(H, Of<T>);

impl<T: ?Sized, H: Handle<RwLock<T>>> Asking for Read<T, H> {
    type Policy = ReadWrite;
    type Granted = ReadGuard<T, H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<ReadWrite> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, _: Access) -> ReadGuard<T, H> {
        ReadGuard::of(self.0)
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> Asking for Write<T, H> {
    type Policy = ReadWrite;
    type Granted = WriteGuard<T, H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<ReadWrite> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, _: Access) -> WriteGuard<T, H> {
        WriteGuard::of(self.0)
    }
}

/// The value of a borrowed [`RwLock`], for reading.
pub type RwLockReadGuard<'a, T> = ReadGuard<T, &'a RwLock<T>>;

/// The value of a borrowed [`RwLock`], for writing.
pub type RwLockWriteGuard<'a, T> = WriteGuard<T, &'a RwLock<T>>;

/// The value of a shared [`RwLock`], for reading.
pub type OwnedRwLockReadGuard<T> = ReadGuard<T, Arc<RwLock<T>>>;

/// The value of a shared [`RwLock`], for writing.
pub type OwnedRwLockWriteGuard<T> = WriteGuard<T, Arc<RwLock<T>>>;

/// The value of a [`RwLock`], for reading; released when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct ReadGuard<T: ?Sized, H: Handle<RwLock<T>>> {
    lock: H,
    _value: Of<T>,
}

/// The value of a [`RwLock`], for writing; released when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct WriteGuard<T: ?Sized, H: Handle<RwLock<T>>> {
    lock: H,
    _value: Of<T>,
}

// SAFETY: a shared guard gives out `&T` only.
unsafe impl<T: ?Sized + Sync, H: Handle<RwLock<T>> + Sync> Sync for WriteGuard<T, H> {}

impl<T: ?Sized, H: Handle<RwLock<T>>> ReadGuard<T, H> {
    #[inline]
    fn of(lock: H) -> Self {
        Self { lock, _value: PhantomData }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn rwlock(this: &Self) -> &RwLock<T> {
        &this.lock
    }

    /// Becomes a writer, if this is the only reader.
    ///
    /// # Errors
    /// With the guard itself, still reading, if there are other readers.
    ///
    /// ```
    /// let lock = semaforo::RwLock::new(1);
    /// let mut write = lock.read().wait().try_upgrade().unwrap();
    /// *write += 1;
    ///
    /// let read = write.downgrade();
    /// let other = lock.read().wait();
    /// assert!(read.try_upgrade().is_err());
    /// ```
    pub fn try_upgrade(self) -> Result<WriteGuard<T, H>, Self> {
        if self.lock.synchronizer.release(Ending::Upgrade).is_err() {
            return Err(self);
        }
        Ok(WriteGuard::of(self.into_handle()))
    }

    fn into_handle(self) -> H {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used or dropped again.
        unsafe { std::ptr::read(&raw const this.lock) }
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> WriteGuard<T, H> {
    #[inline]
    fn of(lock: H) -> Self {
        Self { lock, _value: PhantomData }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn rwlock(this: &Self) -> &RwLock<T> {
        &this.lock
    }

    /// Becomes a reader, with no writer in between. Readers that wait come in too: the write has
    /// ended.
    pub fn downgrade(self) -> ReadGuard<T, H> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used or dropped again.
        let guard = ReadGuard::of(unsafe { std::ptr::read(&raw const this.lock) });
        // A writer can always become a reader. If a waker panics, the reader's guard is dropped.
        let _ = guard.lock.synchronizer.release(Ending::Downgrade);
        guard
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> guard::LockGuard for WriteGuard<T, H> {
    type Policy = ReadWrite;

    fn synchronizer(&self) -> &Synchronizer<ReadWrite> {
        &self.lock.synchronizer
    }

    fn ask(&self) -> Access {
        Access::Write
    }

    fn forget(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used again.
        drop(unsafe { std::ptr::read(&raw const this.lock) });
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> Deref for ReadGuard<T, H> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: held for reading.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> Deref for WriteGuard<T, H> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: held for writing.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> DerefMut for WriteGuard<T, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: held for writing, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> Drop for ReadGuard<T, H> {
    #[inline]
    fn drop(&mut self) {
        // What is held can be given back.
        let _ = self.lock.synchronizer.release(Ending::Read);
    }
}

impl<T: ?Sized, H: Handle<RwLock<T>>> Drop for WriteGuard<T, H> {
    #[inline]
    fn drop(&mut self) {
        // What is held can be given back.
        let _ = self.lock.synchronizer.release(Ending::Write);
    }
}

impl<T: ?Sized + fmt::Debug, H: Handle<RwLock<T>>> fmt::Debug for ReadGuard<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug, H: Handle<RwLock<T>>> fmt::Debug for WriteGuard<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
