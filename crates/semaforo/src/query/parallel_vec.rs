//! A vector that several threads fill.
//!
//! The safe way, to fill one vector for each and then to join them, needs the memory twice; that
//! costs more than everything else when items are cheap.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

use super::context::{Context, Halted};
use super::jobs::{jobs, jobs_to_the_end};

/// Memory for so many items, to be filled in parts.
#[derive(Debug)]
pub(crate) struct ParallelVec<T> {
    /// Empty, with enough capacity.
    memory: Vec<T>,
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the pointer leads to the vector's own memory.
unsafe impl<T: Send> Send for ParallelVec<T> {}
// SAFETY: all that a shared one gives away is slots to put items into, each slot once.
unsafe impl<T: Send> Sync for ParallelVec<T> {}

/// A part of a [`ParallelVec`]. What is in it is dropped with it, unless it is [left](Self::leave)
/// to the vector.
#[derive(Debug)]
pub(crate) struct Part<'a, T> {
    /// The first of them are initialized, and belong to the part.
    slots: &'a mut [MaybeUninit<T>],
    filled: usize,
}

/// How many items parts have left to their vectors, all told.
#[derive(Debug)]
pub(crate) struct Filled(usize);

impl<T> ParallelVec<T> {
    pub(crate) fn new(len: usize) -> Self {
        let mut memory = Vec::with_capacity(len);
        // SAFETY: a vector's pointer is never null.
        let start = unsafe { NonNull::new_unchecked(memory.as_mut_ptr()) };
        Self { memory, start, len }
    }

    /// The slots of a range.
    ///
    /// # Safety
    /// No slot may be asked for twice.
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> Part<'_, T> {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range is within the vector's capacity, and no other part has it.
        let slots = unsafe {
            std::slice::from_raw_parts_mut(self.start.add(range.start).as_ptr().cast(), range.len())
        };
        Part { slots, filled: 0 }
    }

    /// All slots, cut into parts of these lengths.
    pub(crate) fn parts(&mut self, lengths: impl IntoIterator<Item = usize>) -> Vec<Part<'_, T>> {
        let mut rest = &mut self.memory.spare_capacity_mut()[..self.len];
        let mut parts = Vec::new();
        for length in lengths {
            let slots;
            (slots, rest) = rest.split_at_mut(length);
            parts.push(Part { slots, filled: 0 });
        }
        parts
    }

    /// The vector, as an ordinary one.
    ///
    /// # Safety
    /// These are what the vector's own parts have left to it.
    ///
    /// # Panics
    /// If a slot was not filled.
    pub(crate) unsafe fn complete(mut self, Filled(count): Filled) -> Vec<T> {
        assert_eq!(count, self.len, "a source has yielded another number of items than it said");
        // SAFETY: every slot belonged to no more than one part; as many as there are slots were
        // filled; so all of them are initialized, and no part has one.
        unsafe { self.memory.set_len(self.len) };
        self.memory
    }

    /// Completes several of them.
    ///
    /// # Safety
    /// These are what the parts of all of them have left to them.
    ///
    /// # Panics
    /// If a slot was not filled.
    pub(crate) unsafe fn complete_all(all: Vec<Self>, Filled(count): Filled) -> Vec<Vec<T>> {
        let slots: usize = all.iter().map(|vector| vector.len).sum();
        assert_eq!(count, slots, "some slots have no items");
        // SAFETY: as many slots as there are were filled, none of them twice; so each was.
        let each = |vector: Self| unsafe {
            let len = vector.len;
            vector.complete(Filled(len))
        };
        all.into_iter().map(each).collect()
    }
}

impl<T> Part<'_, T> {
    /// # Panics
    /// If it is full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.slots[self.filled].write(item);
        self.filled += 1;
    }

    /// Leaves the items of all these parts to their vectors.
    pub(crate) fn leave(parts: impl IntoIterator<Item = Self>) -> Filled {
        let mut count = 0;
        for mut part in parts {
            count += std::mem::take(&mut part.filled);
        }
        Filled(count)
    }
}

impl<T> Drop for Part<'_, T> {
    fn drop(&mut self) {
        let filled = &mut self.slots[..self.filled];
        let filled = std::ptr::from_mut(filled) as *mut [T];
        // SAFETY: these were initialized, belong to the part, and are never used again.
        unsafe { filled.drop_in_place() };
    }
}

/// Below this, one thread joins pieces faster than several.
const WORTHWHILE_BYTES: usize = 1 << 20;

/// Joins pieces.
pub(crate) fn join<T: Send>(context: &Context, mut pieces: Vec<Vec<T>>) -> Result<Vec<T>, Halted> {
    if pieces.len() == 1 {
        return Ok(pieces.remove(0));
    }
    let total = pieces.iter().map(Vec::len).sum();
    if context.extra_workers.threads() == 1 || total * size_of::<T>() < WORTHWHILE_BYTES {
        let mut all = Vec::with_capacity(total);
        pieces.into_iter().for_each(|mut piece| all.append(&mut piece));
        return Ok(all);
    }
    let mut vector = ParallelVec::new(total);
    let lengths: Vec<_> = pieces.iter().map(Vec::len).collect();
    let parts = vector.parts(lengths);
    let pairs = pieces.into_iter().zip(parts).collect();
    let parts = jobs(context, pairs, true, |(piece, mut part): (Vec<T>, Part<'_, T>)| {
        piece.into_iter().for_each(|item| part.push(item));
        part
    })?;
    let filled = Part::leave(parts);
    // SAFETY: these are its parts.
    Ok(unsafe { vector.complete(filled) })
}

/// Puts items into another order: each number is that of the item that belongs there.
///
/// # Safety
/// Every item's number is there exactly once.
pub(crate) unsafe fn rearrange<T: Send>(
    context: &Context,
    mut items: Vec<T>,
    order: &[u32],
) -> Vec<T> {
    assert_eq!(items.len(), order.len());
    let old = MovedFrom { start: items.as_mut_ptr(), len: items.len(), items: PhantomData };
    // SAFETY: from here on no vector owns the items, until they are in their new slots. Nothing
    // below can panic, except for want of memory; then they are leaked.
    unsafe { items.set_len(0) };
    let mut vector = ParallelVec::new(old.len);
    let size = old.len.div_ceil(2 * context.extra_workers.threads()).max(1);
    let parts = vector.parts(order.chunks(size).map(<[_]>::len));
    let pairs = order.chunks(size).zip(parts).collect();
    let large = old.len * size_of::<T>() >= WORTHWHILE_BYTES;
    let parts = jobs_to_the_end(context, pairs, large, |(numbers, mut part)| {
        for number in numbers {
            // SAFETY: every item is read once.
            part.push(unsafe { old.read(*number as usize) });
        }
        part
    });
    let filled = Part::leave(parts);
    // SAFETY: these are its parts.
    unsafe { vector.complete(filled) }
}

/// Items that are moved out of a vector that no longer owns them.
struct MovedFrom<T> {
    start: *mut T,
    len: usize,
    items: PhantomData<T>,
}

// SAFETY: items are moved from it, by one thread each, and never shared.
unsafe impl<T: Send> Sync for MovedFrom<T> {}

impl<T> MovedFrom<T> {
    /// # Safety
    /// It is there, and is read only once.
    #[inline]
    unsafe fn read(&self, number: usize) -> T {
        assert!(number < self.len);
        // SAFETY: passed on to the caller.
        unsafe { self.start.add(number).read() }
    }
}
