//! A vector that several threads fill.
//!
//! The safe way, to fill one vector for each and then to join them, needs the memory twice; that
//! costs more than everything else when items are cheap.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

use super::context::Context;
use super::jobs::jobs_to_the_end;

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

/// Below this, one thread moves items faster than several.
const WORTHWHILE_BYTES: usize = 1 << 20;

/// More jobs than threads, so that all threads end together.
const JOBS_PER_THREAD: usize = 4;

/// No block of a [`Runs`] is larger than this many bytes.
const BLOCK_BYTES: usize = 1 << 18;

/// The items that one thread has, in runs that each come from one chunk.
///
/// Not in a vector for each run: many small vectors that grow cost more than what is in them, above
/// all when another thread frees them. Nor in a single one: what a large vector leaves behind when
/// it grows is memory that the system has to provide anew.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    /// All but the last are full.
    blocks: Vec<Vec<T>>,
    begins: Vec<Begin>,
}

/// Where a run begins.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The position of its chunk.
    position: usize,
    block: usize,
    /// How many items there are before it in the block.
    before: usize,
}

/// Items that are next to each other in a block, all of one run.
struct Stretch {
    position: usize,
    thread: usize,
    block: usize,
    range: Range<usize>,
}

impl<T> Runs<T> {
    pub(crate) fn new() -> Self {
        Self { blocks: vec![Vec::new()], begins: Vec::new() }
    }

    /// Begins the run of the chunk at this position.
    pub(crate) fn begin(&mut self, position: usize) {
        let (block, before) = (self.blocks.len() - 1, self.last().len());
        self.begins.push(Begin { position, block, before });
    }

    /// Adds an item to the run.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        if self.last().len() == self.last().capacity() {
            self.add_block();
        }
        self.last().push(item);
    }

    #[inline]
    fn last(&mut self) -> &mut Vec<T> {
        self.blocks.last_mut().expect("there is always a block")
    }

    #[cold]
    fn add_block(&mut self) {
        let most = (BLOCK_BYTES / size_of::<T>().max(1)).max(1);
        let capacity = (2 * self.last().capacity()).clamp(most.min(16), most);
        self.blocks.push(Vec::with_capacity(capacity));
    }

    fn len(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// All runs, in stretches.
    fn stretches(&self, thread: usize) -> Vec<Stretch> {
        let mut stretches = Vec::with_capacity(self.begins.len() + self.blocks.len());
        for (number, begin) in self.begins.iter().enumerate() {
            let Begin { position, block: first, before } = *begin;
            let after = self.begins.get(number + 1);
            let last = after.map_or(self.blocks.len() - 1, |after| after.block);
            for block in first..=last {
                let begin = if block == first { before } else { 0 };
                let end = match after {
                    Some(after) if after.block == block => after.before,
                    _ => self.blocks[block].len(),
                };
                if begin < end {
                    stretches.push(Stretch { position, thread, block, range: begin..end });
                }
            }
        }
        stretches
    }
}

/// Joins the runs of all threads, in the order of their positions.
pub(crate) fn join<T: Send>(context: &Context, mut threads: Vec<Runs<T>>) -> Vec<T> {
    let total = threads.iter().map(Runs::len).sum();
    let runs = (0..).zip(&threads);
    let mut stretches: Vec<_> = runs.flat_map(|(thread, runs)| runs.stretches(thread)).collect();
    // The stretches of a run stay in their order.
    stretches.sort_by_key(|stretch| stretch.position);
    let old: Vec<Vec<_>> = threads
        .iter_mut()
        .map(|runs| runs.blocks.iter_mut().map(MovedFrom::new).collect())
        .collect();
    // Nothing below can panic, except for want of memory; then the items are leaked.
    let mut joined = ParallelVec::new(total);
    let size = stretches.len().div_ceil(JOBS_PER_THREAD * context.extra_workers.threads()).max(1);
    let len = |stretches: &[Stretch]| stretches.iter().map(|stretch| stretch.range.len()).sum();
    let parts = joined.parts(stretches.chunks(size).map(len));
    let pairs = stretches.chunks(size).zip(parts).collect();
    let large = total * size_of::<T>() >= WORTHWHILE_BYTES;
    let parts = jobs_to_the_end(context, pairs, large, |(stretches, mut part)| {
        for Stretch { thread, block, range, .. } in stretches {
            // SAFETY: no two stretches of a block have an item in common.
            unsafe { old[*thread][*block].move_into(range.clone(), &mut part) };
        }
        part
    });
    let filled = Part::leave(parts);
    // SAFETY: these are its parts.
    unsafe { joined.complete(filled) }
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
    let old = MovedFrom::new(&mut items);
    // Nothing below can panic, except for want of memory; then the items are leaked.
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
struct MovedFrom<'a, T> {
    start: *mut T,
    len: usize,
    items: PhantomData<&'a mut Vec<T>>,
}

// SAFETY: items are moved from it, by one thread each, and never shared.
unsafe impl<T: Send> Sync for MovedFrom<'_, T> {}

impl<'a, T> MovedFrom<'a, T> {
    /// All items of the vector. Those that are not moved are leaked.
    fn new(items: &'a mut Vec<T>) -> Self {
        let old = Self { start: items.as_mut_ptr(), len: items.len(), items: PhantomData };
        // SAFETY: no item need be initialized in an empty vector.
        unsafe { items.set_len(0) };
        old
    }

    /// Moves the items with these numbers to the end of a part.
    ///
    /// # Safety
    /// None of them is moved twice.
    ///
    /// # Panics
    /// If there are not so many, or the part has no room for them.
    unsafe fn move_into(&self, range: Range<usize>, part: &mut Part<'_, T>) {
        assert!(range.start <= range.end && range.end <= self.len);
        let slots = &mut part.slots[part.filled..][..range.len()];
        // SAFETY: the items are there, and the slots are as many. They are in memory of their own.
        unsafe {
            let first = self.start.add(range.start);
            slots.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(first, slots.len());
        }
        part.filled += slots.len();
    }

    /// # Safety
    /// It is read only once.
    ///
    /// # Panics
    /// If it is not there.
    #[inline]
    unsafe fn read(&self, number: usize) -> T {
        assert!(number < self.len);
        // SAFETY: it is there, and the caller reads it once.
        unsafe { self.start.add(number).read() }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;
    use crate::query::extra_workers::ExtraWorkers;

    /// So many runs, of lengths up to that of several blocks, dealt out to threads in any order.
    fn dealt_out(runs: usize, threads: usize) -> (Vec<Runs<String>>, Vec<String>) {
        let length = |run: usize| if run % 7 == 3 { 25_000 } else { run * run % 5 };
        let items = |run| (0..length(run)).map(move |item| format!("{run}/{item}"));
        let mut dealt: Vec<_> = (0..threads).map(|_| Runs::new()).collect();
        for number in 0..runs {
            // A thread may have runs that come before those of another that it took over from.
            let run = (number * 5 + 2) % runs;
            let own = &mut dealt[number % threads];
            own.begin(run * 100);
            items(run).for_each(|item| own.push(item));
        }
        (dealt, (0..runs).flat_map(items).collect())
    }

    #[test]
    fn runs_are_joined_in_the_order_of_their_positions() {
        for threads in [1, 2, 3] {
            for runs in [0, 1, 2, 23] {
                let workers = ExtraWorkers::new(NonZero::new(threads), None, None);
                let context = Context::new(workers, None);
                let (dealt, expected) = dealt_out(runs, threads);
                assert!(join(&context, dealt) == expected, "{threads} threads, {runs} runs");
            }
        }
    }
}
