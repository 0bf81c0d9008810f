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
    Numbers { heap: BinaryHeap<Ranked<Number, T>>, came: u64 },
    /// The same, with keys of any type.
    Keys {
        heap: BinaryHeap<Ranked<(Rank, u64), T>>,
        came: u64,
        /// Ranks of what was taken whose keys are to be dropped, once the queue is not locked.
        spent: Vec<Rank>,
    },
}

/// A rank that is a number, and when its item came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    number: i64,
    came: u64,
}

impl Number {
    /// Both as one number, so that comparing needs no branch.
    #[inline]
    fn order(self) -> u128 {
        u128::from(self.number as u64 ^ 1 << 63) << 64 | u128::from(self.came)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.order() >= other.order()
    }
}

impl Ord for Number {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// An item with its rank. The greatest is the one to be taken first: that with the smallest rank.
#[derive(Debug)]
pub(super) struct Ranked<K, T> {
    rank: K,
    item: T,
}

impl<K: Ord, T> PartialEq for Ranked<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<K: Ord, T> Eq for Ranked<K, T> {}

impl<K: Ord, T> PartialOrd for Ranked<K, T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// What the heap asks.
    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.rank >= other.rank
    }
}

impl<K: Ord, T> Ord for Ranked<K, T> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
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
            Self::Numbers { heap, came } => match rank.as_number() {
                Some(number) => {
                    heap.push(Ranked { rank: Number { number, came: *came }, item });
                    *came += 1;
                }
                None => return Err(item),
            },
            Self::Keys { heap, came, .. } => {
                heap.push(Ranked { rank: (std::mem::take(rank), *came), item });
                *came += 1;
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn take(&mut self, ring: Option<&Ring<T>>) -> Option<T> {
        match self {
            Self::Ring => ring.and_then(Ring::take),
            Self::Fifo(line) => line.pop_front(),
            Self::Lifo(stack) => stack.pop(),
            Self::Numbers { heap, .. } => heap.pop().map(|ranked| ranked.item),
            Self::Keys { heap, spent, .. } => heap.pop().map(|Ranked { rank: (rank, _), item }| {
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
            Self::Numbers { heap, .. } => heap.peek().map(|ranked| look(&ranked.item)),
            Self::Keys { heap, .. } => heap.peek().map(|ranked| look(&ranked.item)),
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
            Self::Numbers { heap, .. } => heap.len(),
            Self::Keys { heap, .. } => heap.len(),
        }
    }
}
