//! Where items lie until they are taken: in which order, and how many.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::rank::Rank;
use super::ring::Ring;

/// The items of a queue that lie behind its lock, or the ring in which they lie.
#[derive(Debug)]
pub(super) enum Store<T> {
    /// In the ring beside it: first in, first out.
    Ring,
    /// First in, first out.
    Fifo(VecDeque<T>),
    /// Last in, first out.
    Lifo(Vec<T>),
    /// The smallest priority first; first in, first out among equals.
    Priority {
        heap: BinaryHeap<Ranked<T>>,
        came: u64,
        /// Ranks of what was taken whose keys are to be dropped, once the queue is not locked.
        spent: Vec<Rank>,
    },
}

/// An item with its rank. The greatest is the one to be taken first.
#[derive(Debug)]
pub(super) struct Ranked<T> {
    rank: Rank,
    came: u64,
    item: T,
}

impl<T> Ranked<T> {
    fn rank(&self) -> (&Rank, u64) {
        (&self.rank, self.came)
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
    /// The rank stays with the caller if it is not needed.
    #[inline]
    pub(super) fn put(
        &mut self,
        ring: Option<&Ring<T>>,
        capacity: Option<usize>,
        rank: &mut Rank,
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
            Self::Fifo(line) => line.push_back(item),
            Self::Lifo(stack) => stack.push(item),
            Self::Priority { heap, came, .. } => {
                heap.push(Ranked { rank: std::mem::take(rank), came: *came, item });
                *came += 1;
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn take(&mut self, ring: Option<&Ring<T>>) -> Option<T> {
        match self {
            Self::Ring => ring.and_then(Ring::take),
            Self::Fifo(line) => line.pop_front(),
            Self::Lifo(stack) => stack.pop(),
            Self::Priority { heap, spent, .. } => {
                heap.pop().map(|Ranked { rank, item, .. }| {
                    if rank.is_key() {
                        spent.push(rank);
                    }
                    item
                })
            }
        }
    }

    pub(super) fn peek<R>(&self, ring: Option<&Ring<T>>, look: impl FnOnce(&T) -> R) -> Option<R> {
        match self {
            Self::Ring => ring.and_then(|ring| ring.peek(look)),
            Self::Fifo(line) => line.front().map(look),
            Self::Lifo(stack) => stack.last().map(look),
            Self::Priority { heap, .. } => heap.peek().map(|ranked| look(&ranked.item)),
        }
    }

    /// Ranks of what was taken, to be dropped once the queue is not locked.
    #[inline]
    pub(super) fn spent(&mut self) -> Vec<Rank> {
        match self {
            Self::Priority { spent, .. } => std::mem::take(spent),
            _ => Vec::new(),
        }
    }

    pub(super) fn len(&self, ring: Option<&Ring<T>>) -> usize {
        match self {
            Self::Ring => ring.map_or(0, Ring::len),
            Self::Fifo(line) => line.len(),
            Self::Lifo(stack) => stack.len(),
            Self::Priority { heap, .. } => heap.len(),
        }
    }
}
