//! Where items lie until they are taken: in which order, and how many.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::ring::Ring;

/// The items of a queue that lie behind its lock, or the ring in which they lie.
#[derive(Debug)]
pub(super) enum Store<T> {
    /// In the ring beside it: first in, first out.
    Ring,
    /// First in, first out.
    Line(VecDeque<T>),
    /// Last in, first out.
    Stack(Vec<T>),
    /// The smallest priority first; first in, first out among equals.
    Ranks { heap: BinaryHeap<Ranked<T>>, came: u64 },
}

/// An item with its rank. The greatest is the one to be taken first.
#[derive(Debug)]
pub(super) struct Ranked<T> {
    priority: i64,
    came: u64,
    item: T,
}

impl<T> Ranked<T> {
    fn rank(&self) -> (i64, u64) {
        (self.priority, self.came)
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

impl<T> Store<T> {
    #[inline]
    pub(super) fn put(
        &mut self,
        ring: Option<&Ring<T>>,
        capacity: Option<usize>,
        priority: i64,
        item: T,
    ) -> Result<(), T> {
        if let (Self::Ring, Some(ring)) = (&*self, ring) {
            return ring.put(item);
        }
        if capacity.is_some_and(|capacity| self.len(ring) >= capacity) {
            return Err(item);
        }
        match self {
            Self::Ring => return Err(item),
            Self::Line(line) => line.push_back(item),
            Self::Stack(stack) => stack.push(item),
            Self::Ranks { heap, came } => {
                heap.push(Ranked { priority, came: *came, item });
                *came += 1;
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn take(&mut self, ring: Option<&Ring<T>>) -> Option<T> {
        match self {
            Self::Ring => ring.and_then(Ring::take),
            Self::Line(line) => line.pop_front(),
            Self::Stack(stack) => stack.pop(),
            Self::Ranks { heap, .. } => heap.pop().map(|ranked| ranked.item),
        }
    }

    pub(super) fn peek(&self, ring: Option<&Ring<T>>) -> Option<T>
    where
        T: Copy,
    {
        match self {
            Self::Ring => ring.and_then(Ring::peek),
            Self::Line(line) => line.front().copied(),
            Self::Stack(stack) => stack.last().copied(),
            Self::Ranks { heap, .. } => heap.peek().map(|ranked| ranked.item),
        }
    }

    pub(super) fn len(&self, ring: Option<&Ring<T>>) -> usize {
        match self {
            Self::Ring => ring.map_or(0, Ring::len),
            Self::Line(line) => line.len(),
            Self::Stack(stack) => stack.len(),
            Self::Ranks { heap, .. } => heap.len(),
        }
    }
}
