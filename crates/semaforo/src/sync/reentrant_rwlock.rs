//! A value that many can read or one can write, who may come again.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use super::condition::guard;
use super::reentrant::{Anywhere, OnThisThread, OwnerKey, this_thread};
use super::{Of, introspection};
use crate::policy::{Entry, Exit, OwnedReadWrite, Owner};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::Synchronizer;
use crate::wait::operation::{Asking, Handle};
use crate::wait::request::Request;

/// A lock around a value that many can read or one can write, and whose writer may read and write
/// again, at once, whoever waits.
///
/// A writer that reads and then gives up its writes goes on reading, with no writer in between. The
/// writer is a thread, for [`write`](Self::write), or a key, for [`write_as`](Self::write_as): a task
/// moves between threads, so it needs a key. Because it may hold several guards at a time, they give
/// `&T` only; put an atomic inside, or a structure that can be changed while it is shared.
///
/// The order is that of [`RwLock`](crate::RwLock). Readers have no name, so reading again while a
/// writer waits stands in line behind it; clone the guard instead, which is at once. A reader that
/// asks to write waits for itself: use [`try_upgrade`](ReadHold::try_upgrade).
///
/// ```
/// use semaforo::ReentrantRwLock;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let lock = ReentrantRwLock::new(AtomicU32::new(1));
/// let write = lock.write().wait()?;
/// let again = lock.write().wait()?;
/// let read = lock.read().wait()?;
/// write.fetch_add(1, Ordering::Relaxed);
/// drop((write, again));
/// assert_eq!((read.load(Ordering::Relaxed), lock.readers(), lock.writes()), (2, 1, 0));
/// # Ok::<(), semaforo::TooManyHolds>(())
/// ```
pub struct ReentrantRwLock<T: ?Sized> {
    synchronizer: Synchronizer<OwnedReadWrite>,
    value: T,
}

impl<T> ReentrantRwLock<T> {
    constant_unless_modelled! {
        /// An unlocked lock around this value.
        pub const fn new(value: T) -> Self {
            Self { synchronizer: Synchronizer::new(OwnedReadWrite, 0), value }
        }
    }

    /// The value; nobody can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: ?Sized> ReentrantRwLock<T> {
    /// How often a writer can write, and how often it can read, at the same time.
    pub const MAX_HOLDS: u32 = OwnedReadWrite::MAX_HOLDS;

    /// Asks to read, on behalf of this thread. The request, and the guard, stay on it.
    ///
    /// Refused with [`TooManyHolds`](crate::TooManyHolds) if this thread writes, and reads
    /// [`MAX_HOLDS`](Self::MAX_HOLDS) times already.
    pub fn read(&self) -> Request<ReadEntry<T, &Self, OnThisThread>> {
        Request::new(ReadEntry::of(self, OnThisThread::new()), Entry::Read(this_thread()))
    }

    /// Asks to write, on behalf of this thread. The request, and the guard, stay on it.
    ///
    /// Refused with [`TooManyHolds`](crate::TooManyHolds) if this thread writes
    /// [`MAX_HOLDS`](Self::MAX_HOLDS) times already.
    pub fn write(&self) -> Request<WriteEntry<T, &Self, OnThisThread>> {
        Request::new(WriteEntry::of(self, OnThisThread::new()), Entry::Write(this_thread()))
    }

    /// Asks to read, on behalf of the key's owner.
    pub fn read_as(&self, key: &OwnerKey) -> Request<ReadEntry<T, &Self, Anywhere>> {
        Request::new(ReadEntry::of(self, Anywhere), Entry::Read(key.owner()))
    }

    /// Asks to write, on behalf of the key's owner.
    pub fn write_as(&self, key: &OwnerKey) -> Request<WriteEntry<T, &Self, Anywhere>> {
        Request::new(WriteEntry::of(self, Anywhere), Entry::Write(key.owner()))
    }

    /// [`read_as`](Self::read_as), for a guard that can go anywhere.
    pub fn read_owned_as(
        self: &Arc<Self>,
        key: &OwnerKey,
    ) -> Request<ReadEntry<T, Arc<Self>, Anywhere>> {
        Request::new(ReadEntry::of(Arc::clone(self), Anywhere), Entry::Read(key.owner()))
    }

    /// [`write_as`](Self::write_as), for a guard that can go anywhere.
    pub fn write_owned_as(
        self: &Arc<Self>,
        key: &OwnerKey,
    ) -> Request<WriteEntry<T, Arc<Self>, Anywhere>> {
        Request::new(WriteEntry::of(Arc::clone(self), Anywhere), Entry::Write(key.owner()))
    }

    /// Reads now for this thread, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read(&self) -> Option<ReadHold<T, &Self, OnThisThread>> {
        let entry = Entry::Read(this_thread());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| ReadEntry::of(self, OnThisThread::new()).granted(entry))
    }

    /// Writes now for this thread, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_write(&self) -> Option<WriteHold<T, &Self, OnThisThread>> {
        let entry = Entry::Write(this_thread());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| WriteEntry::of(self, OnThisThread::new()).granted(entry))
    }

    /// Reads now for the key's owner, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read_as(&self, key: &OwnerKey) -> Option<ReadHold<T, &Self, Anywhere>> {
        let entry = Entry::Read(key.owner());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| ReadEntry::of(self, Anywhere).granted(entry))
    }

    /// Writes now for the key's owner, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_write_as(&self, key: &OwnerKey) -> Option<WriteHold<T, &Self, Anywhere>> {
        let entry = Entry::Write(key.owner());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| WriteEntry::of(self, Anywhere).granted(entry))
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// How many read, counting every read of a writer.
    #[must_use]
    pub fn readers(&self) -> u32 {
        OwnedReadWrite::readers(self.synchronizer.state())
    }

    /// How often its writer writes.
    #[must_use]
    pub fn writes(&self) -> u32 {
        OwnedReadWrite::writes(self.synchronizer.state())
    }

    /// Whether this thread writes.
    #[must_use]
    pub fn is_written_by_this_thread(&self) -> bool {
        OwnedReadWrite::writer(self.synchronizer.state()) == Some(this_thread())
    }

    /// Whether the key's owner writes.
    #[must_use]
    pub fn is_written_by(&self, key: &OwnerKey) -> bool {
        OwnedReadWrite::writer(self.synchronizer.state()) == Some(key.owner())
    }

    /// How many more readers could come in now, whoever waits.
    #[must_use]
    pub fn available(&self) -> u32 {
        let state = self.synchronizer.state();
        match OwnedReadWrite::writer(state) {
            Some(_) => 0,
            None => OwnedReadWrite::MAX_READERS - OwnedReadWrite::readers(state),
        }
    }

    /// How many requests to read wait.
    #[must_use]
    pub fn waiting_readers(&self) -> usize {
        self.synchronizer.waiters_in(OwnedReadWrite::READ_LANE)
    }

    /// How many requests to write wait.
    #[must_use]
    pub fn waiting_writers(&self) -> usize {
        self.synchronizer.waiters_in(OwnedReadWrite::WRITE_LANE)
    }

    introspection!();
}

impl<T: Default> Default for ReentrantRwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for ReentrantRwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for ReentrantRwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantRwLock")
            .field("readers", &self.readers())
            .field("writes", &self.writes())
            .field("waiters", &self.waiters())
            .finish_non_exhaustive()
    }
}

/// Declares an operation, and the guard that it yields.
macro_rules! hold {
    (
        $(#[$operation_doc:meta])* $operation:ident,
        $(#[$guard_doc:meta])* $guard:ident,
        $entry:ident, $exit:ident
    ) => {
        $(#[$operation_doc])*
        #[derive(Debug)]
        pub struct $operation<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> {
            lock: H,
            marker: M,
            _value: Of<T>,
        }

        impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> $operation<T, H, M> {
            fn of(lock: H, marker: M) -> Self {
                Self { lock, marker, _value: PhantomData }
            }
        }

        impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> Asking for $operation<T, H, M> {
            type Policy = OwnedReadWrite;
            type Granted = $guard<T, H, M>;

            #[inline]
            fn synchronizer(&self) -> &Synchronizer<OwnedReadWrite> {
                &self.lock.synchronizer
            }

            #[inline]
            fn granted(self, entry: Entry) -> $guard<T, H, M> {
                let (Entry::Read(owner) | Entry::Write(owner)) = entry;
                $guard { lock: self.lock, owner, marker: self.marker, _value: PhantomData }
            }
        }

        $(#[$guard_doc])*
        #[must_use = "the lock is released when this is dropped"]
        pub struct $guard<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> {
            lock: H,
            owner: Owner,
            marker: M,
            _value: Of<T>,
        }

        impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> $guard<T, H, M> {
            /// The lock that is held. Not a method, because the value may have one of that name.
            pub fn reentrant_rwlock(this: &Self) -> &ReentrantRwLock<T> {
                &this.lock
            }

            fn into_parts(self) -> (H, Owner, M) {
                let this = ManuallyDrop::new(self);
                // SAFETY: the guard is never used or dropped again.
                unsafe {
                    let lock = std::ptr::read(&raw const this.lock);
                    (lock, this.owner, std::ptr::read(&raw const this.marker))
                }
            }
        }

        impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> Deref for $guard<T, H, M> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.lock.value
            }
        }

        impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> Drop for $guard<T, H, M> {
            fn drop(&mut self) {
                // What is held can be given back.
                let _ = self.lock.synchronizer.release(Exit::$exit(self.owner));
            }
        }

        impl<T: ?Sized + fmt::Debug, H: Handle<ReentrantRwLock<T>>, M> fmt::Debug
            for $guard<T, H, M>
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

hold! {
    /// The operation of those who ask to read.
    ReadEntry,
    /// The value of a [`ReentrantRwLock`], for reading; released when dropped.
    ReadHold,
    Read, Read
}

hold! {
    /// The operation of those who ask to write.
    WriteEntry,
    /// The value of a [`ReentrantRwLock`], for writing; released when dropped.
    WriteHold,
    Write, Write
}

impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> ReadHold<T, H, M> {
    /// Becomes a writer, if this is the only reader.
    ///
    /// # Errors
    /// With the guard itself, still reading, if there are other readers, or its owner writes.
    pub fn try_upgrade(self) -> Result<WriteHold<T, H, M>, Self> {
        if self.lock.synchronizer.release(Exit::Upgrade(self.owner)).is_err() {
            return Err(self);
        }
        let (lock, owner, marker) = self.into_parts();
        Ok(WriteHold { lock, owner, marker, _value: PhantomData })
    }
}

/// Reads once more, at once, whoever waits.
///
/// # Panics
/// If there are too many readers.
impl<T: ?Sized, H: Handle<ReentrantRwLock<T>> + Clone, M: Clone> Clone for ReadHold<T, H, M> {
    fn clone(&self) -> Self {
        let again = self.lock.synchronizer.release(Exit::ReadAgain(self.owner));
        assert!(again.is_ok(), "a lock is read by too many");
        Self {
            lock: self.lock.clone(),
            owner: self.owner,
            marker: self.marker.clone(),
            _value: PhantomData,
        }
    }
}

impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> WriteHold<T, H, M> {
    /// Turns this write into a read, with no writer in between. If it was the last write, readers
    /// that wait come in too.
    ///
    /// # Panics
    /// If its owner reads too often already.
    pub fn downgrade(self) -> ReadHold<T, H, M> {
        let downgraded = self.lock.synchronizer.release(Exit::Downgrade(self.owner));
        assert!(downgraded.is_ok(), "the owner reads as often as it can");
        let (lock, owner, marker) = self.into_parts();
        ReadHold { lock, owner, marker, _value: PhantomData }
    }
}

impl<T: ?Sized, H: Handle<ReentrantRwLock<T>>, M> guard::LockGuard for WriteHold<T, H, M> {
    type Policy = OwnedReadWrite;

    fn synchronizer(&self) -> &Synchronizer<OwnedReadWrite> {
        &self.lock.synchronizer
    }

    fn ask(&self) -> Entry {
        Entry::Write(self.owner)
    }

    fn forget(self) {
        drop(self.into_parts());
    }
}
