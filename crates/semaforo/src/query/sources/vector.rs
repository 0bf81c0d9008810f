//! A vector whose items are moved out by the threads that claim them.
//!
//! The safe way, to copy every chunk out of the vector under a lock, moves every item twice, one
//! thread at a time.

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;

use super::IntoParallel;
use super::cursor::Cursor;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

/// The items of a vector.
#[derive(Clone, Debug)]
pub struct Owned<T>(Vec<T>);

impl<T: Send> IntoParallel for Vec<T> {
    type Pipeline = Owned<T>;

    fn into_parallel(self) -> Query<Owned<T>> {
        Query::new(Owned(self))
    }
}

impl<T: Send, const N: usize> IntoParallel for [T; N] {
    type Pipeline = Owned<T>;

    fn into_parallel(self) -> Query<Owned<T>> {
        Vec::from(self).into_parallel()
    }
}

impl<T: Send> Pipeline for Owned<T> {
    type Item = T;
    type Source = OwnedSource<T>;

    fn open(self, _: &Context) -> Result<OwnedSource<T>, Halted> {
        Ok(OwnedSource::new(self.0))
    }
}

/// An opened [`Owned`].
#[derive(Debug)]
pub struct OwnedSource<T> {
    /// The vector's memory. The items that the cursor has handed out belong to the chunks that
    /// were claimed, the others to this.
    start: NonNull<T>,
    capacity: usize,
    cursor: Cursor,
    items: PhantomData<T>,
}

// SAFETY: it owns its items, as the vector did.
unsafe impl<T: Send> Send for OwnedSource<T> {}
// SAFETY: items are moved from it, by one thread each, and never shared.
unsafe impl<T: Send> Sync for OwnedSource<T> {}

impl<T> OwnedSource<T> {
    pub(crate) fn new(items: Vec<T>) -> Self {
        let mut items = ManuallyDrop::new(items);
        Self {
            // SAFETY: a vector's pointer is never null.
            start: unsafe { NonNull::new_unchecked(items.as_mut_ptr()) },
            capacity: items.capacity(),
            cursor: Cursor::new(items.len()),
            items: PhantomData,
        }
    }

    /// The items that were not claimed. Leaves nothing behind.
    fn take(&mut self) -> Vec<T> {
        let left = self.cursor.remaining();
        let claimed = self.cursor.end() - left;
        let (start, capacity) = (self.start.as_ptr(), self.capacity);
        (self.start, self.capacity, self.cursor) = (NonNull::dangling(), 0, Cursor::new(0));
        // SAFETY: this was a vector. The first of its items were moved out; the others are
        // initialized, and are moved to the front.
        unsafe {
            if claimed > 0 {
                std::ptr::copy(start.add(claimed), start, left);
            }
            Vec::from_raw_parts(start, left, capacity)
        }
    }
}

impl<T> Drop for OwnedSource<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T: Send> Source for OwnedSource<T> {
    type Item = T;
    type Chunk<'a>
        = OwnedChunk<'a, T>
    where
        T: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<OwnedChunk<'_, T>>> {
        let Range { start, end } = self.cursor.claim(want)?;
        // SAFETY: the range is within the vector.
        let next = unsafe { self.start.add(start) };
        // No other chunk ever gets a part of the range.
        let items = OwnedChunk { next, left: end - start, source: PhantomData };
        Some(Claimed { start, end, items })
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.cursor.remaining())
    }

    fn end(&self) -> usize {
        self.cursor.end()
    }

    fn exact(&self) -> Option<usize> {
        Some(self.cursor.end())
    }

    fn narrow(&mut self, range: Range<usize>) {
        let mut items = self.take();
        items.truncate(range.end);
        items.drain(..range.start);
        *self = Self::new(items);
    }

    fn into_vec(mut self) -> Result<Vec<T>, Self> {
        Ok(self.take())
    }
}

/// Items that were claimed. Those that are not taken are dropped with it.
#[derive(Debug)]
pub struct OwnedChunk<'a, T> {
    /// So many items from here on belong to the chunk.
    next: NonNull<T>,
    left: usize,
    source: PhantomData<(&'a OwnedSource<T>, T)>,
}

// SAFETY: it owns its items.
unsafe impl<T: Send> Send for OwnedChunk<'_, T> {}

impl<T> OwnedChunk<'_, T> {
    /// The items that have not been taken.
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: they are initialized, next to each other, and belong to the chunk.
        unsafe { NonNull::slice_from_raw_parts(self.next, self.left).as_ref() }
    }
}

impl<T> Iterator for OwnedChunk<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: there was one left, and it is read once because the pointer moves on.
        unsafe {
            let item = self.next.read();
            self.next = self.next.add(1);
            Some(item)
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for OwnedChunk<'_, T> {}
impl<T> FusedIterator for OwnedChunk<'_, T> {}

impl<T> Drop for OwnedChunk<'_, T> {
    fn drop(&mut self) {
        // SAFETY: those that are left belong to the chunk, and are never used again.
        unsafe { NonNull::slice_from_raw_parts(self.next, self.left).drop_in_place() };
    }
}
