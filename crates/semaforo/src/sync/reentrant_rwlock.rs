//! A value that many can read or one can write, who may come again.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use super::introspection;
use super::reentrant::{Anywhere, OnThisThread, OwnerKey, this_thread};
use crate::policy::{Entry, Exit, OwnedReadWrite, Owner};
use crate::primitive::constant_unless_modelled;
use crate::synchronizer::{Asking, Synchronizer, guard};
use crate::wait::condition_queue::AWAY;
use crate::wait::ledger::{Holds, Leaving, Ledger};
use crate::wait::operation::{ContentOf, Handle, objects};
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
#[doc(alias = "ReentrantReadWriteLock")]
#[doc(alias = "ReaderWriterLockSlim")]
pub struct ReentrantRwLock<T: ?Sized> {
    synchronizer: Synchronizer<OwnedReadWrite>,
    ledger: Ledger,
    value: T,
}

impl<T> ReentrantRwLock<T> {
    constant_unless_modelled! {
        /// An unlocked lock around this value.
        pub const fn new(value: T) -> Self {
            let synchronizer = Synchronizer::new(OwnedReadWrite, 0);
            Self { synchronizer, ledger: Ledger::new(), value }
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
    pub fn read(&self) -> Request<ReadEntry<&Self, OnThisThread>> {
        Request::new(ReadEntry::of(self, OnThisThread::new()), Entry::Read(this_thread()))
    }

    /// Asks to write, on behalf of this thread. The request, and the guard, stay on it.
    ///
    /// Refused with [`TooManyHolds`](crate::TooManyHolds) if this thread writes
    /// [`MAX_HOLDS`](Self::MAX_HOLDS) times already.
    pub fn write(&self) -> Request<WriteEntry<&Self, OnThisThread>> {
        Request::new(WriteEntry::of(self, OnThisThread::new()), Entry::Write(this_thread()))
    }

    /// Asks to read, on behalf of the key's owner.
    pub fn read_as(&self, key: &OwnerKey) -> Request<ReadEntry<&Self, Anywhere>> {
        Request::new(ReadEntry::of(self, Anywhere), Entry::Read(key.owner()))
    }

    /// Asks to write, on behalf of the key's owner.
    pub fn write_as(&self, key: &OwnerKey) -> Request<WriteEntry<&Self, Anywhere>> {
        Request::new(WriteEntry::of(self, Anywhere), Entry::Write(key.owner()))
    }

    /// [`read_as`](Self::read_as), for a guard that can go anywhere.
    pub fn read_owned_as(
        self: &Arc<Self>,
        key: &OwnerKey,
    ) -> Request<ReadEntry<Arc<Self>, Anywhere>> {
        Request::new(ReadEntry::of(Arc::clone(self), Anywhere), Entry::Read(key.owner()))
    }

    /// [`write_as`](Self::write_as), for a guard that can go anywhere.
    pub fn write_owned_as(
        self: &Arc<Self>,
        key: &OwnerKey,
    ) -> Request<WriteEntry<Arc<Self>, Anywhere>> {
        Request::new(WriteEntry::of(Arc::clone(self), Anywhere), Entry::Write(key.owner()))
    }

    /// Reads now for this thread, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read(&self) -> Option<ReadHold<&Self, OnThisThread>> {
        let entry = Entry::Read(this_thread());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| ReadEntry::of(self, OnThisThread::new()).granted(entry))
    }

    /// Writes now for this thread, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_write(&self) -> Option<WriteHold<&Self, OnThisThread>> {
        let entry = Entry::Write(this_thread());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| WriteEntry::of(self, OnThisThread::new()).granted(entry))
    }

    /// Reads now for the key's owner, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_read_as(&self, key: &OwnerKey) -> Option<ReadHold<&Self, Anywhere>> {
        let entry = Entry::Read(key.owner());
        let granted = self.synchronizer.acquire_or_not(entry);
        granted.then(|| ReadEntry::of(self, Anywhere).granted(entry))
    }

    /// Writes now for the key's owner, or not at all.
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn try_write_as(&self, key: &OwnerKey) -> Option<WriteHold<&Self, Anywhere>> {
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

    /// Gives back a hold of a guard that was made then, or of none.
    fn give_back(&self, exit: Exit, owner: Owner, since: Option<u64>, hold: Holds) {
        let release = || self.synchronizer.release(exit).is_ok();
        if !release() {
            self.ledger.give_back(owner, since, hold, release);
        }
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

objects!([T: ?Sized] ReentrantRwLock<T> => T);

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
        $exit:ident, $hold:ident
    ) => {
        $(#[$operation_doc])*
        #[derive(Debug)]
        pub struct $operation<H, M> {
            lock: H,
            marker: M,
        }

        impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> $operation<H, M> {
            fn of(lock: H, marker: M) -> Self {
                Self { lock, marker }
            }
        }

        impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> Asking for $operation<H, M> {
            type Policy = OwnedReadWrite;
            type Granted = $guard<H, M>;

            #[inline]
            fn synchronizer(&self) -> &Synchronizer<OwnedReadWrite> {
                &self.lock.synchronizer
            }

            #[inline]
            fn granted(self, entry: Entry) -> $guard<H, M> {
                let (Entry::Read(owner) | Entry::Write(owner)) = entry;
                let since = self.lock.ledger.now();
                $guard { lock: self.lock, owner, since, marker: self.marker }
            }
        }

        $(#[$guard_doc])*
        #[must_use = "the lock is released when this is dropped"]
        pub struct $guard<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> {
            lock: H,
            owner: Owner,
            /// How many waits of owners had begun when it was made.
            since: u64,
            marker: M,
        }

        impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> $guard<H, M> {
            /// The lock that is held. Not a method, because the value may have one of that name.
            pub fn reentrant_rwlock(this: &Self) -> &ReentrantRwLock<ContentOf<H>> {
                &this.lock
            }

            fn into_parts(self) -> (H, Owner, u64, M) {
                let this = ManuallyDrop::new(self);
                // SAFETY: the guard is never used or dropped again.
                unsafe {
                    let lock = std::ptr::read(&raw const this.lock);
                    (lock, this.owner, this.since, std::ptr::read(&raw const this.marker))
                }
            }

            /// Its owner waits on a condition, with another guard.
            fn is_away(&self) -> bool {
                self.lock.ledger.is_away(self.owner, self.since)
            }
        }

        impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> Deref for $guard<H, M> {
            type Target = ContentOf<H>;

            #[inline]
            fn deref(&self) -> &ContentOf<H> {
                &self.lock.value
            }
        }

        impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> Drop for $guard<H, M> {
            fn drop(&mut self) {
                let Self { lock, owner, since, .. } = self;
                if !lock.ledger.count(*owner, *since, Holds::$hold) {
                    lock.give_back(Exit::$exit(*owner), *owner, Some(*since), Holds::$hold);
                }
            }
        }

        impl<H: Handle<Content: fmt::Debug, Target = ReentrantRwLock<ContentOf<H>>>, M> fmt::Debug
            for $guard<H, M>
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<H: Handle<Content: fmt::Display, Target = ReentrantRwLock<ContentOf<H>>>, M> fmt::Display
            for $guard<H, M>
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
    Read, READ
}

hold! {
    /// The operation of those who ask to write.
    WriteEntry,
    /// The value of a [`ReentrantRwLock`], for writing; released when dropped.
    WriteHold,
    Write, WRITE
}

impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> ReadHold<H, M> {
    /// Becomes a writer, if this is the only reader.
    ///
    /// # Errors
    /// With the guard itself, still reading, if there are other readers, or its owner writes, or waits
    /// on a condition.
    pub fn try_upgrade(self) -> Result<WriteHold<H, M>, Self> {
        if self.is_away() {
            return Err(self);
        }
        let (lock, owner, since, marker) = self.into_parts();
        // If a waker panics, the writer's guard is dropped.
        let write = WriteHold { lock, owner, since, marker };
        if write.lock.synchronizer.release(Exit::Upgrade(owner)).is_ok() {
            return Ok(write);
        }
        let (lock, owner, since, marker) = write.into_parts();
        Err(Self { lock, owner, since, marker })
    }
}

/// Reads once more, at once, whoever waits.
///
/// # Panics
/// If there are too many readers, or its owner waits on a condition.
impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>> + Clone, M: Clone> Clone for ReadHold<H, M> {
    fn clone(&self) -> Self {
        assert!(!self.is_away(), "{AWAY}");
        let again = self.lock.synchronizer.release(Exit::ReadAgain(self.owner));
        assert!(again.is_ok(), "a lock is read by too many");
        let Self { lock, owner, since: _, marker } = self;
        let since = lock.ledger.now();
        Self { lock: lock.clone(), owner: *owner, since, marker: marker.clone() }
    }
}

impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> WriteHold<H, M> {
    /// Turns this write into a read, with no writer in between. If it was the last write, readers
    /// that wait come in too.
    ///
    /// # Panics
    /// If its owner reads too often already, or waits on a condition.
    pub fn downgrade(self) -> ReadHold<H, M> {
        assert!(!self.is_away(), "{AWAY}");
        let (lock, owner, since, marker) = self.into_parts();
        // If a waker panics, the reader's guard is dropped.
        let read = ReadHold { lock, owner, since, marker };
        if read.lock.synchronizer.release(Exit::Downgrade(owner)).is_err() {
            let (lock, owner, since, marker) = read.into_parts();
            drop(Self { lock, owner, since, marker });
            panic!("the owner reads as often as it can");
        }
        read
    }
}

impl<H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M> guard::LockGuard for WriteHold<H, M> {
    type Policy = OwnedReadWrite;
    type Leaving = Leaving;

    fn synchronizer(&self) -> &Synchronizer<OwnedReadWrite> {
        &self.lock.synchronizer
    }

    fn ask(&self) -> Entry {
        Entry::Write(self.owner)
    }

    fn is_away(&self) -> bool {
        self.lock.ledger.is_away(self.owner, self.since)
    }

    fn leaving(&self) -> Leaving {
        Leaving::new(&self.lock.ledger, self.owner, self.since, others)
    }

    fn come_back(&self, wait: u64, holds: u32) {
        let ReentrantRwLock { synchronizer, ledger, .. } = &*self.lock;
        let Holds { reads, writes } = others(holds);
        // Only its own holds of the meantime can keep an owner from coming again.
        let again = |entry, times| {
            (0..times).take_while(|_| synchronizer.acquire_or_not(entry)).count() as u32
        };
        let remaining = Holds {
            reads: reads - again(Entry::Read(self.owner), reads),
            writes: writes - again(Entry::Write(self.owner), writes),
        };
        let excess = ledger.come_back(wait, remaining);
        for _ in 0..excess.reads {
            self.lock.give_back(Exit::Read(self.owner), self.owner, None, Holds::READ);
        }
        for _ in 0..excess.writes {
            self.lock.give_back(Exit::Write(self.owner), self.owner, None, Holds::WRITE);
        }
    }

    fn forget(self, wait: u64, holds: u32) {
        self.lock.ledger.stay_away(wait, others(holds));
        drop(self.into_parts());
    }
}

/// What a writer that has given so much away held besides the guard that it waits with.
fn others(holds: u32) -> Holds {
    let (reads, writes) = OwnedReadWrite::given_up(holds);
    Holds { reads, writes: writes - 1 }
}
