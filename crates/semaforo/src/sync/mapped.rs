//! Guards of a part of the value.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::mutex::{MutexGuard, OwnedMutexGuard};
use super::reentrant::{KeyGuard, OwnedKeyGuard, ReentrantGuard};
use super::reentrant_rwlock::{ReadHold, ReentrantRwLock, WriteHold};
use super::rwlock::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use crate::sync::mutex::Mutex;
use crate::wait::operation::{ContentOf, Handle};

/// A part of the value of a [`Mutex`], or of an [`RwLock`] that is held for writing; made by `map` and
/// `try_map` of the guards. The lock is released when this is dropped.
///
/// ```
/// use semaforo::{Mutex, MutexGuard};
///
/// let pair = Mutex::new((1, String::from("one")));
/// let mut name = MutexGuard::map(pair.lock().wait(), |pair| &mut pair.1);
/// name.push('!');
/// assert!(pair.is_locked());
/// drop(name);
/// assert_eq!(pair.into_inner().1, "one!");
/// ```
///
/// A part cannot wait on a condition, because the whole may be another one afterwards:
///
/// ```compile_fail,E0277
/// use semaforo::{Condition, Mutex, MutexGuard};
///
/// let (pair, changed) = (Mutex::new((1, 2)), Condition::new());
/// let first = MutexGuard::map(pair.lock().wait(), |pair| &mut pair.0);
/// changed.wait(first);
/// ```
#[must_use = "the lock is released when this is dropped"]
pub struct MappedGuard<G, U: ?Sized> {
    /// Of the value that the guard holds, or of something that outlives the guard; this is the only way
    /// to it.
    part: NonNull<U>,
    guard: G,
    /// It is changed through this, so it is of this type and no other.
    _part: PhantomData<*mut U>,
}

/// A part of the value of an [`RwLock`] that is held for reading, or of a
/// [`ReentrantLock`](crate::ReentrantLock) or [`ReentrantRwLock`]; made by `map` and `try_map` of
/// the guards. The lock is released when this is dropped.
///
/// ```
/// use semaforo::{RwLock, RwLockReadGuard};
///
/// let names = RwLock::new(vec![String::from("one")]);
/// let first = RwLockReadGuard::try_map(names.read().wait(), |names| names.first()).unwrap();
/// assert_eq!(&*first, "one");
/// ```
#[must_use = "the lock is released when this is dropped"]
pub struct MappedReadGuard<G, U: ?Sized> {
    /// Of the value that the guard holds, or of something that outlives the guard.
    part: NonNull<U>,
    guard: G,
}

// SAFETY: its owner has the guard, and the only reference to the part.
unsafe impl<G: Send, U: ?Sized + Send> Send for MappedGuard<G, U> {}
// SAFETY: a shared one gives out `&U` only.
unsafe impl<G: Sync, U: ?Sized + Sync> Sync for MappedGuard<G, U> {}
// SAFETY: it is a guard and a shared reference.
unsafe impl<G: Send, U: ?Sized + Sync> Send for MappedReadGuard<G, U> {}
// SAFETY: as above.
unsafe impl<G: Sync, U: ?Sized + Sync> Sync for MappedReadGuard<G, U> {}

/// A part of a borrowed [`Mutex`]'s value.
pub type MappedMutexGuard<'a, T, U> = MappedGuard<MutexGuard<'a, T>, U>;
/// A part of a shared [`Mutex`]'s value.
pub type OwnedMappedMutexGuard<T, U> = MappedGuard<OwnedMutexGuard<T>, U>;
/// A part of a borrowed [`RwLock`]'s value, for writing.
pub type MappedRwLockWriteGuard<'a, T, U> = MappedGuard<RwLockWriteGuard<'a, T>, U>;
/// A part of a shared [`RwLock`]'s value, for writing.
pub type OwnedMappedRwLockWriteGuard<T, U> = MappedGuard<OwnedRwLockWriteGuard<T>, U>;
/// A part of a borrowed [`RwLock`]'s value, for reading.
pub type MappedRwLockReadGuard<'a, T, U> = MappedReadGuard<RwLockReadGuard<'a, T>, U>;
/// A part of a shared [`RwLock`]'s value, for reading.
pub type OwnedMappedRwLockReadGuard<T, U> = MappedReadGuard<OwnedRwLockReadGuard<T>, U>;
/// A part of the value of a [`ReentrantLock`](crate::ReentrantLock) that this thread holds.
pub type MappedReentrantGuard<'a, T, U> = MappedReadGuard<ReentrantGuard<'a, T>, U>;
/// A part of the value of a borrowed [`ReentrantLock`](crate::ReentrantLock) that a key holds.
pub type MappedKeyGuard<'a, T, U> = MappedReadGuard<KeyGuard<'a, T>, U>;
/// A part of the value of a shared [`ReentrantLock`](crate::ReentrantLock) that a key holds.
pub type OwnedMappedKeyGuard<T, U> = MappedReadGuard<OwnedKeyGuard<T>, U>;

impl<G, U: ?Sized> MappedGuard<G, U> {
    /// # Safety
    /// For as long as the guard lives, the part can be reached in no other way.
    pub(super) unsafe fn of(guard: G, part: NonNull<U>) -> Self {
        Self { part, guard, _part: PhantomData }
    }

    /// A part of the part. Not a method, because the part may have one of that name.
    pub fn map<V: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut U) -> &mut V,
    ) -> MappedGuard<G, V> {
        let part = NonNull::from(part(&mut this));
        // SAFETY: a part of what only this guard reaches.
        unsafe { MappedGuard::of(this.guard, part) }
    }

    /// A part of the part, if there is one.
    ///
    /// # Errors
    /// With the guard itself.
    pub fn try_map<V: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<MappedGuard<G, V>, Self> {
        match part(&mut this).map(NonNull::from) {
            // SAFETY: a part of what only this guard reaches.
            Some(part) => Ok(unsafe { MappedGuard::of(this.guard, part) }),
            None => Err(this),
        }
    }
}

impl<G, U: ?Sized> MappedReadGuard<G, U> {
    /// # Safety
    /// For as long as the guard lives, the part is not changed, unless it can be while it is shared.
    pub(super) unsafe fn of(guard: G, part: NonNull<U>) -> Self {
        Self { part, guard }
    }

    /// A part of the part. Not a method, because the part may have one of that name.
    pub fn map<V: ?Sized>(this: Self, part: impl FnOnce(&U) -> &V) -> MappedReadGuard<G, V> {
        let part = NonNull::from(part(&this));
        // SAFETY: a part of what is not changed.
        unsafe { MappedReadGuard::of(this.guard, part) }
    }

    /// A part of the part, if there is one.
    ///
    /// # Errors
    /// With the guard itself.
    pub fn try_map<V: ?Sized>(
        this: Self,
        part: impl FnOnce(&U) -> Option<&V>,
    ) -> Result<MappedReadGuard<G, V>, Self> {
        match part(&this).map(NonNull::from) {
            // SAFETY: a part of what is not changed.
            Some(part) => Ok(unsafe { MappedReadGuard::of(this.guard, part) }),
            None => Err(this),
        }
    }
}

/// Declares `map` and `try_map` of guards that give out `&mut T`.
macro_rules! maps {
    ($([$($generics:tt)*] $guard:ty => $value:ty),* $(,)?) => {$(
        impl<$($generics)*> $guard {
            /// A guard of a part of the value. Not a method, because the value may have one of that
            /// name. See [`MappedGuard`].
            pub fn map<U: ?Sized>(
                mut this: Self,
                part: impl FnOnce(&mut $value) -> &mut U,
            ) -> MappedGuard<Self, U> {
                let part = NonNull::from(part(&mut this));
                // SAFETY: the guard gives out the value no more, and nothing else can.
                unsafe { MappedGuard::of(this, part) }
            }

            /// A guard of a part of the value, if there is such a part.
            ///
            /// # Errors
            /// With the guard itself.
            pub fn try_map<U: ?Sized>(
                mut this: Self,
                part: impl FnOnce(&mut $value) -> Option<&mut U>,
            ) -> Result<MappedGuard<Self, U>, Self> {
                match part(&mut this).map(NonNull::from) {
                    // SAFETY: as above.
                    Some(part) => Ok(unsafe { MappedGuard::of(this, part) }),
                    None => Err(this),
                }
            }
        }
    )*};
}

/// Declares `map` and `try_map` of guards that give out `&T`.
macro_rules! maps_shared {
    ($([$($generics:tt)*] $guard:ty => $value:ty),* $(,)?) => {$(
        impl<$($generics)*> $guard {
            /// A guard of a part of the value. Not a method, because the value may have one of that
            /// name. See [`MappedReadGuard`].
            pub fn map<U: ?Sized>(
                this: Self,
                part: impl FnOnce(&$value) -> &U,
            ) -> MappedReadGuard<Self, U> {
                let part = NonNull::from(part(&this));
                // SAFETY: the value does not change, unless it can be while it is shared.
                unsafe { MappedReadGuard::of(this, part) }
            }

            /// A guard of a part of the value, if there is such a part.
            ///
            /// # Errors
            /// With the guard itself.
            pub fn try_map<U: ?Sized>(
                this: Self,
                part: impl FnOnce(&$value) -> Option<&U>,
            ) -> Result<MappedReadGuard<Self, U>, Self> {
                match part(&this).map(NonNull::from) {
                    // SAFETY: as above.
                    Some(part) => Ok(unsafe { MappedReadGuard::of(this, part) }),
                    None => Err(this),
                }
            }
        }
    )*};
}

maps! {
    ['a, T: ?Sized] super::mutex::Guard<&'a Mutex<T>> => T,
    [T: ?Sized] super::mutex::Guard<Arc<Mutex<T>>> => T,
    ['a, T: ?Sized] super::rwlock::WriteGuard<&'a RwLock<T>> => T,
    [T: ?Sized] super::rwlock::WriteGuard<Arc<RwLock<T>>> => T,
}

maps_shared! {
    ['a, T: ?Sized] super::rwlock::ReadGuard<&'a RwLock<T>> => T,
    [T: ?Sized] super::rwlock::ReadGuard<Arc<RwLock<T>>> => T,
    ['a, T: ?Sized, M] super::reentrant::Guard<&'a super::reentrant::ReentrantLock<T>, M> => T,
    [T: ?Sized, M] super::reentrant::Guard<Arc<super::reentrant::ReentrantLock<T>>, M> => T,
    [H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M] ReadHold<H, M> => ContentOf<H>,
    [H: Handle<Target = ReentrantRwLock<ContentOf<H>>>, M] WriteHold<H, M> => ContentOf<H>,
}

impl<G, U: ?Sized> Deref for MappedGuard<G, U> {
    type Target = U;

    fn deref(&self) -> &U {
        // SAFETY: the guard is alive, and this is the only way to the part.
        unsafe { self.part.as_ref() }
    }
}

impl<G, U: ?Sized> DerefMut for MappedGuard<G, U> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { self.part.as_mut() }
    }
}

impl<G, U: ?Sized> Deref for MappedReadGuard<G, U> {
    type Target = U;

    fn deref(&self) -> &U {
        // SAFETY: the guard is alive, so the part is not changed.
        unsafe { self.part.as_ref() }
    }
}

macro_rules! shown {
    ($($trait:ident for $guard:ident),* $(,)?) => {$(
        impl<G, U: ?Sized + fmt::$trait> fmt::$trait for $guard<G, U> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    )*};
}

shown!(Debug for MappedGuard, Display for MappedGuard);
shown!(Debug for MappedReadGuard, Display for MappedReadGuard);
