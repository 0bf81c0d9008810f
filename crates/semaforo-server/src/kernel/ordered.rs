//! Small sets in order, which may become large ones.

use std::collections::{BTreeSet, btree_set};
use std::ops::RangeInclusive;
use std::slice;

/// A set with more items than this is a tree: to take one out of the middle of a list moves all
/// behind it.
const FEW: usize = 64;

/// A set in order. Most have one item or a few, some have a million.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrderedSet<T> {
    Few(Vec<T>),
    Many(BTreeSet<T>),
}

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<T: Ord + Copy> OrderedSet<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(items) => items.len(),
            Self::Many(items) => items.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn contains(&self, item: &T) -> bool {
        match self {
            Self::Few(items) => items.binary_search(item).is_ok(),
            Self::Many(items) => items.contains(item),
        }
    }

    pub(super) fn insert(&mut self, item: T) {
        match self {
            Self::Few(items) if items.last().is_none_or(|last| *last < item) => items.push(item),
            Self::Few(items) => {
                if let Err(place) = items.binary_search(&item) {
                    items.insert(place, item);
                }
            }
            Self::Many(items) => {
                items.insert(item);
            }
        }
        if let Self::Few(items) = self
            && items.len() > FEW
        {
            *self = Self::Many(items.drain(..).collect());
        }
    }

    pub(super) fn remove(&mut self, item: &T) {
        match self {
            Self::Few(items) => {
                if let Ok(place) = items.binary_search(item) {
                    items.remove(place);
                }
            }
            Self::Many(items) => {
                items.remove(item);
                // Not at the bound: one that comes and goes there would have it built again and
                // again.
                if items.len() <= FEW / 2 {
                    *self = Self::Few(items.iter().copied().collect());
                }
            }
        }
    }

    /// All items, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        match self {
            Self::Few(items) => Iter::Few(items.iter()),
            Self::Many(items) => Iter::Many(items.iter()),
        }
    }

    /// The items between two, in order.
    pub(super) fn range(&self, range: RangeInclusive<T>) -> impl Iterator<Item = T> {
        match self {
            Self::Few(items) => {
                let from = items.partition_point(|item| item < range.start());
                let to = items.partition_point(|item| item <= range.end());
                Range::Few(items.get(from..to).unwrap_or_default().iter())
            }
            Self::Many(items) => Range::Many(items.range(range)),
        }
    }
}

enum Iter<'a, T> {
    Few(slice::Iter<'a, T>),
    Many(btree_set::Iter<'a, T>),
}

impl<T: Copy> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Few(items) => items.next().copied(),
            Self::Many(items) => items.next().copied(),
        }
    }
}

enum Range<'a, T> {
    Few(slice::Iter<'a, T>),
    Many(btree_set::Range<'a, T>),
}

impl<T: Copy> Iterator for Range<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Few(items) => items.next().copied(),
            Self::Many(items) => items.next().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is what a tree is, whatever its size is and was.
    #[test]
    fn a_set_is_a_set() {
        let (mut set, mut tree) = (OrderedSet::default(), BTreeSet::new());
        let mut random = 1_u64;
        for step in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let item = (random >> 33) % 200;
            // It grows to its largest and shrinks to nothing, again and again.
            if (step / 1000) % 2 == 0 {
                set.insert(item);
                tree.insert(item);
            } else {
                set.remove(&item);
                tree.remove(&item);
            }
            assert_eq!((set.len(), set.is_empty()), (tree.len(), tree.is_empty()));
            assert_eq!(set.contains(&item), tree.contains(&item));
            let range = item..=item + 10;
            assert!(set.range(range.clone()).eq(tree.range(range).copied()));
        }
        assert!(set.iter().eq(tree.iter().copied()));
    }

    #[test]
    fn few_are_a_list_and_many_a_tree() {
        let mut set = OrderedSet::default();
        for item in 0..=FEW {
            assert!(matches!(set, OrderedSet::Few(_)));
            set.insert(item);
        }
        for item in 0..=FEW / 2 {
            assert!(matches!(set, OrderedSet::Many(_)));
            set.remove(&item);
        }
        assert!(matches!(set, OrderedSet::Few(_)));
    }
}
