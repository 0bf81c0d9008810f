//! Items that are found by their keys.

use std::hash::Hash;
use std::iter::FusedIterator;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::partition::{Entry, NoAccumulator, Partition, Shard, partition};
use super::{LARGE, Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::jobs::jobs;
use crate::query::pipeline::Source;

/// All items of a source, by their keys.
#[derive(Debug)]
pub(crate) struct Lookup<K, T> {
    sharding: Sharding,
    shards: Vec<Table<K, T>>,
    len: usize,
}

/// The items of a shard.
#[derive(Debug)]
struct Table<K, T> {
    keys: HashTable<KeyEntry<K, T>>,
    /// Items that are not the first with their keys.
    more: Vec<Link<T>>,
}

/// A key, with the first item that has it next to it: mostly there is no other.
#[derive(Debug)]
struct KeyEntry<K, T> {
    key: K,
    first: T,
    /// The second item, and the last one.
    second: u32,
    last: u32,
}

#[derive(Debug)]
struct Link<T> {
    item: T,
    next: u32,
}

/// The number of no link.
const NONE: u32 = u32::MAX;

impl<K: Hash + Eq + Send, T: Send> Lookup<K, T> {
    pub(crate) fn build<S: Source<Item = T>>(
        context: &Context,
        source: &S,
        key: impl Fn(&T) -> K + Sync,
    ) -> Result<Self, Halted> {
        let sharding = Sharding::new(context.extra_workers.threads());
        let split = |_, item| (key(&item), item);
        let Partition { shards, len, .. } =
            partition(context, source, &sharding, split, |_, _| true)?;
        let shards = jobs(context, shards, len > LARGE, |shard| Table::new(shard, &sharding))?;
        Ok(Self { shards, sharding, len })
    }
}

impl<K: Hash + Eq, T> Lookup<K, T> {
    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn hash(&self, key: &K) -> u64 {
        self.sharding.hash(key)
    }

    /// The items with this key, in their order.
    #[inline]
    pub(crate) fn matches(&self, hash: u64, key: &K) -> Matches<'_, T> {
        let Table { keys, more } = &self.shards[self.sharding.shard(hash)];
        match keys.find(hash, |entry| entry.key == *key) {
            Some(entry) => Matches { first: Some(&entry.first), more, next: entry.second },
            None => Matches { first: None, more: &[], next: NONE },
        }
    }
}

impl<K: Hash + Eq, T> Table<K, T> {
    fn new(shard: Shard<K, T, NoAccumulator>, sharding: &Sharding) -> Self {
        let mut keys: HashTable<KeyEntry<K, T>> = HashTable::with_capacity(shard.entries.len());
        let mut more = Vec::new();
        shard.entries.for_each(|_, Entry { hash, key, value: item }| {
            // There is room for all of them, so that none is hashed again.
            let slot =
                keys.entry(hash, |entry| entry.key == key, |entry| sharding.hash(&entry.key));
            match slot {
                Slot::Vacant(slot) => {
                    slot.insert(KeyEntry { key, first: item, second: NONE, last: NONE });
                }
                Slot::Occupied(mut slot) => {
                    let link = small(more.len());
                    more.push(Link { item, next: NONE });
                    let entry = slot.get_mut();
                    let before = std::mem::replace(&mut entry.last, link);
                    match more.get_mut(before as usize) {
                        Some(before) => before.next = link,
                        None => entry.second = link,
                    }
                }
            }
        });
        Self { keys, more }
    }
}

/// The items that have one key, in their order: what
/// [`group_join`](crate::query::Query::group_join) gives to its function.
#[derive(Debug)]
pub struct Matches<'a, T> {
    first: Option<&'a T>,
    more: &'a [Link<T>],
    next: u32,
}

impl<'a, T> Iterator for Matches<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let link = self.more.get(self.next as usize)?;
        self.next = link.next;
        Some(&link.item)
    }
}

impl<T> FusedIterator for Matches<'_, T> {}

impl<T> Clone for Matches<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}
