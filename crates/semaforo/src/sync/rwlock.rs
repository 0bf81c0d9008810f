//! A value that many can read, or one can write.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::introspection;
use crate::policy::{Access, Ending, ReadWrite};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Asking, Synchronizer, guard};
use crate::wait::operation::{ContentOf, Handle, objects};
use crate::wait::request::Request;
use crate::wait::self_wait::{CallSite, Record};

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
/// for each other. [`try_upgrade`](ReadGuard::try_upgrade) converts a sole reader, or tells. A
/// writer that asks again while it has the guard waits for itself, and so does a reader if a writer
/// has come in between. Of a thread that took the lock to write, and waits for it, a build with debug
/// assertions tells, as described at [`Mutex`](crate::Mutex#locking-twice); readers are not known.
/// [`ReentrantRwLock`](crate::ReentrantRwLock) lets its owner in again.
#[doc(alias = "ReaderWriterLockSlim")]
#[doc(alias = "ReadWriteLock")]
#[doc(alias = "StampedLock")]
#[doc(alias = "shared_mutex")]
#[doc(alias = "pthread_rwlock_t")]
pub struct RwLock<T: ?Sized> {
    synchronizer: Synchronizer<ReadWrite>,
    /// Of the writer.
    record: Record,
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
            Self {
                synchronizer: Synchronizer::new(ReadWrite, state),
                record: Record::new("RwLock"),
                value: UnsafeCell::new(value),
            }
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
    #[doc(alias = "EnterReadLock")]
    #[doc(alias = "readLock")]
    #[doc(alias = "lock_shared")]
    pub fn read(&self) -> Request<Read<&Self>> {
        Request::new(Read(self), Access::Read)
    }

    /// [`read`](Self::read), for a guard that can go anywhere.
    #[inline]
    pub fn read_owned(self: &Arc<Self>) -> Request<Read<Arc<Self>>> {
        Request::new(Read(Arc::clone(self)), Access::Read)
    }

    /// Asks to write, alone.
    #[inline]
    #[doc(alias = "EnterWriteLock")]
    #[doc(alias = "writeLock")]
    pub fn write(&self) -> Request<Write<&Self>> {
        Request::new(Write(self), Access::Write)
    }

    /// [`write`](Self::write), for a guard that can go anywhere.
    #[inline]
    pub fn write_owned(self: &Arc<Self>) -> Request<Write<Arc<Self>>> {
        Request::new(Write(Arc::clone(self)), Access::Write)
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
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.acquire_at(CallSite::here()).then(|| WriteGuard::of(self))
    }

    /// [`try_read`](Self::try_read), for a guard that can go anywhere.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read_owned(self: &Arc<Self>) -> Option<OwnedRwLockReadGuard<T>> {
        let granted = self.synchronizer.acquire_or_not(Access::Read);
        granted.then(|| ReadGuard::of(Arc::clone(self)))
    }

    /// [`try_write`](Self::try_write), for a guard that can go anywhere.
    #[must_use = "the lock is released when the guard is dropped"]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_write_owned(self: &Arc<Self>) -> Option<OwnedRwLockWriteGuard<T>> {
        self.acquire_at(CallSite::here()).then(|| WriteGuard::of(Arc::clone(self)))
    }

    #[inline]
    fn acquire_at(&self, at: CallSite) -> bool {
        let acquired = self.synchronizer.acquire_or_not(Access::Write);
        if acquired {
            self.record.note(at);
        }
        acquired
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

objects!([T: ?Sized] RwLock<T> => T);

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
pub struct Read<H>(H);

/// The operation of [`RwLock::write`].
#[derive(Debug)]
pub struct Write<H>(H);

impl<H: Handle<Target = RwLock<ContentOf<H>>>> Asking for Read<H> {
    type Policy = ReadWrite;
    type Granted = ReadGuard<H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<ReadWrite> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, _: Access) -> ReadGuard<H> {
        ReadGuard::of(self.0)
    }

    #[inline]
    fn awaits(&self) -> Option<&Record> {
        Some(&self.0.record)
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> Asking for Write<H> {
    type Policy = ReadWrite;
    type Granted = WriteGuard<H>;

    #[inline]
    fn synchronizer(&self) -> &Synchronizer<ReadWrite> {
        &self.0.synchronizer
    }

    #[inline]
    fn granted(self, _: Access) -> WriteGuard<H> {
        WriteGuard::of(self.0)
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

/// The value of a borrowed [`RwLock`], for reading.
pub type RwLockReadGuard<'a, T> = ReadGuard<&'a RwLock<T>>;

/// The value of a borrowed [`RwLock`], for writing.
pub type RwLockWriteGuard<'a, T> = WriteGuard<&'a RwLock<T>>;

/// The value of a shared [`RwLock`], for reading.
pub type OwnedRwLockReadGuard<T> = ReadGuard<Arc<RwLock<T>>>;

/// The value of a shared [`RwLock`], for writing.
pub type OwnedRwLockWriteGuard<T> = WriteGuard<Arc<RwLock<T>>>;

/// The value of a [`RwLock`], for reading; released when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct ReadGuard<H: Handle<Target = RwLock<ContentOf<H>>>> {
    lock: H,
}

/// The value of a [`RwLock`], for writing; released when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct WriteGuard<H: Handle<Target = RwLock<ContentOf<H>>>> {
    lock: H,
}

// SAFETY: a shared guard gives out `&T` only.
unsafe impl<H: Handle<Content: Sync, Target = RwLock<ContentOf<H>>> + Sync> Sync for WriteGuard<H> {}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> ReadGuard<H> {
    #[inline]
    fn of(lock: H) -> Self {
        Self { lock }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn rwlock(this: &Self) -> &RwLock<ContentOf<H>> {
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
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_upgrade(self) -> Result<WriteGuard<H>, Self> {
        // If a waker panics, the writer's guard is dropped.
        let write = WriteGuard::of(self.into_handle());
        if write.lock.synchronizer.release(Ending::Upgrade).is_ok() {
            write.lock.record.note(CallSite::here());
            return Ok(write);
        }
        Err(Self::of(write.into_handle()))
    }

    fn into_handle(self) -> H {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used or dropped again.
        unsafe { std::ptr::read(&raw const this.lock) }
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> WriteGuard<H> {
    #[inline]
    fn of(lock: H) -> Self {
        Self { lock }
    }

    /// The lock that is held. Not a method, because the value may have one of that name.
    pub fn rwlock(this: &Self) -> &RwLock<ContentOf<H>> {
        &this.lock
    }

    /// Becomes a reader, with no writer in between. Readers that wait come in too: the write has
    /// ended.
    pub fn downgrade(self) -> ReadGuard<H> {
        let guard = ReadGuard::of(self.into_handle());
        guard.lock.record.clear();
        // A writer can always become a reader. If a waker panics, the reader's guard is dropped.
        let _ = guard.lock.synchronizer.release(Ending::Downgrade);
        guard
    }

    fn into_handle(self) -> H {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard is never used or dropped again.
        unsafe { std::ptr::read(&raw const this.lock) }
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> guard::LockGuard for WriteGuard<H> {
    type Policy = ReadWrite;
    type Leaving = ();

    fn synchronizer(&self) -> &Synchronizer<ReadWrite> {
        &self.lock.synchronizer
    }

    fn ask(&self) -> Access {
        Access::Write
    }

    fn leaving(&self) {}

    fn record(&self) -> Option<&Record> {
        Some(&self.lock.record)
    }

    fn forget(self, _: u64, _: u32) {
        drop(self.into_handle());
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> Deref for ReadGuard<H> {
    type Target = ContentOf<H>;

    #[inline]
    fn deref(&self) -> &ContentOf<H> {
        // SAFETY: held for reading.
        unsafe { &*self.lock.value.get() }
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> Deref for WriteGuard<H> {
    type Target = ContentOf<H>;

    #[inline]
    fn deref(&self) -> &ContentOf<H> {
        // SAFETY: held for writing.
        unsafe { &*self.lock.value.get() }
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> DerefMut for WriteGuard<H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut ContentOf<H> {
        // SAFETY: held for writing, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> Drop for ReadGuard<H> {
    #[inline]
    fn drop(&mut self) {
        // What is held can be given back.
        let _ = self.lock.synchronizer.release(Ending::Read);
    }
}

impl<H: Handle<Target = RwLock<ContentOf<H>>>> Drop for WriteGuard<H> {
    #[inline]
    fn drop(&mut self) {
        self.lock.record.clear();
        // What is held can be given back.
        let _ = self.lock.synchronizer.release(Ending::Write);
    }
}

impl<H: Handle<Content: fmt::Debug, Target = RwLock<ContentOf<H>>>> fmt::Debug for ReadGuard<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H: Handle<Content: fmt::Display, Target = RwLock<ContentOf<H>>>> fmt::Display
    for ReadGuard<H>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H: Handle<Content: fmt::Debug, Target = RwLock<ContentOf<H>>>> fmt::Debug for WriteGuard<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H: Handle<Content: fmt::Display, Target = RwLock<ContentOf<H>>>> fmt::Display
    for WriteGuard<H>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
