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
    /// The smallest number first; first in, first out among equals.
    Numbers(Heap<i64, T>),
    /// The same, with keys of any type.
    Keys {
        heap: Heap<Rank, T>,
        /// Ranks of what was taken whose keys are to be dropped, once the queue is not locked.
        spent: Vec<Rank>,
    },
}

/// Items by rank, and then in the order of their coming.
#[derive(Debug)]
pub(super) struct Heap<K: Ord, T> {
    heap: BinaryHeap<Ranked<K, T>>,
    came: u64,
}

impl<K: Ord, T> Default for Heap<K, T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), came: 0 }
    }
}

impl<K: Ord, T> Heap<K, T> {
    #[inline(always)]
    fn push(&mut self, rank: K, item: T) {
        self.heap.push(Ranked { rank, came: self.came, item });
        self.came += 1;
    }
}

/// An item with its rank. The greatest is the one to be taken first.
#[derive(Debug)]
struct Ranked<K, T> {
    rank: K,
    came: u64,
    item: T,
}

impl<K: Ord, T> PartialEq for Ranked<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord, T> Eq for Ranked<K, T> {}

impl<K: Ord, T> PartialOrd for Ranked<K, T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        match other.rank.cmp(&self.rank) {
            Ordering::Equal => other.came < self.came,
            order => order == Ordering::Less,
        }
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        !other.lt(self)
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        other.lt(self)
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        !self.lt(other)
    }
}

impl<K: Ord, T> Ord for Ranked<K, T> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank).then_with(|| other.came.cmp(&self.came))
    }
}

impl<T> Store<T> {
    /// Whether the items lie in the ring beside it.
    #[inline]
    pub(super) fn is_ring(&self) -> bool {
        matches!(self, Self::Ring)
    }

    /// The rank stays with the caller if it is not needed.
    #[inline(always)]
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
            Self::Numbers(heap) => match rank.as_number() {
                Some(number) => heap.push(number, item),
                None => return Err(item),
            },
            Self::Keys { heap, .. } => heap.push(std::mem::take(rank), item),
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn take(&mut self, ring: Option<&Ring<T>>) -> Option<T> {
        match self {
            Self::Ring => ring.and_then(Ring::take),
            Self::Fifo(line) => line.pop_front(),
            Self::Lifo(stack) => stack.pop(),
            Self::Numbers(numbers) => numbers.heap.pop().map(|ranked| ranked.item),
            Self::Keys { heap, spent } => heap.heap.pop().map(|Ranked { rank, item, .. }| {
                spent.push(rank);
                item
            }),
        }
    }

    pub(super) fn peek<R>(&self, ring: Option<&Ring<T>>, look: impl FnOnce(&T) -> R) -> Option<R> {
        match self {
            Self::Ring => ring.and_then(|ring| ring.peek(look)),
            Self::Fifo(line) => line.front().map(look),
            Self::Lifo(stack) => stack.last().map(look),
            Self::Numbers(numbers) => numbers.heap.peek().map(|ranked| look(&ranked.item)),
            Self::Keys { heap, .. } => heap.heap.peek().map(|ranked| look(&ranked.item)),
        }
    }

    /// Ranks of what was taken, to be dropped once the queue is not locked.
    #[inline]
    pub(super) fn spent(&mut self) -> Vec<Rank> {
        match self {
            Self::Keys { spent, .. } => std::mem::take(spent),
            _ => Vec::new(),
        }
    }

    #[inline]
    pub(super) fn len(&self, ring: Option<&Ring<T>>) -> usize {
        match self {
            Self::Ring => ring.map_or(0, Ring::len),
            Self::Fifo(line) => line.len(),
            Self::Lifo(stack) => stack.len(),
            Self::Numbers(numbers) => numbers.heap.len(),
            Self::Keys { heap, .. } => heap.heap.len(),
        }
    }
}
