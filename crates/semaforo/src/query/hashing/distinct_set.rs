//! Items of which no two are the same.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::chunks::Chunks;
use super::partition::{Accumulator, Entry, Partition, Shard, partition};
use super::{LARGE, Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::jobs::jobs;
use crate::query::pipeline::Source;

/// By what items are told apart.
pub trait Identity<T>: Send + Sync {
    type Key: Hash + Eq + Send + Sync;
    /// What of an item is not in its key.
    type Rest: Send;

    fn split(&self, item: T) -> (Self::Key, Self::Rest);
    fn join(key: Self::Key, rest: Self::Rest) -> T;
}

/// The different ones among the items that were seen.
#[derive(Debug)]
pub(crate) struct DistinctSet<K, V> {
    shards: Vec<DistinctShard<K, V>>,
    chunks: Chunks,
}

/// The different ones of a shard.
#[derive(Debug)]
struct DistinctShard<K, V> {
    /// Numbers of entries.
    table: HashTable<u32>,
    entries: Vec<Entry<K, First<V>>>,
}

/// The first one of its kind.
#[derive(Debug)]
pub(crate) struct First<V> {
    position: usize,
    number: usize,
    value: V,
}

impl<V: Send> Accumulator<(usize, V)> for First<V> {
    const MAX_KEYS: usize = 4096;

    fn new(position: usize, (number, value): (usize, V)) -> Self {
        Self { position, number, value }
    }

    /// Threads see items in their order; unless they take over from one another.
    fn add(&mut self, position: usize, (number, value): (usize, V)) {
        if position < self.position {
            *self = Self { position, number, value };
        }
    }
}

/// The first of every kind, among the items that are admitted. Whether an item is depends on its
/// hash and its key.
pub(crate) fn sieve<S: Source, D: Identity<S::Item>>(
    context: &Context,
    source: &S,
    sharding: &Sharding,
    identity: &D,
    admit: impl Fn(u64, &D::Key) -> bool + Sync,
) -> Result<DistinctSet<D::Key, D::Rest>, Halted> {
    let split = |number, item| {
        let (key, rest) = identity.split(item);
        (key, (number, rest))
    };
    let Partition { shards, chunks, len } = partition(context, source, sharding, split, admit)?;
    let shards = jobs(context, shards, len > LARGE, DistinctShard::new)?;
    Ok(DistinctSet { shards, chunks })
}

impl<K: Eq, V: Send> DistinctSet<K, V> {
    /// Whether there is one with this key.
    pub(crate) fn contains(&self, shard: usize, hash: u64, key: &K) -> bool {
        let DistinctShard { table, entries } = &self.shards[shard];
        let is_it = |index: &u32| {
            let entry = &entries[*index as usize];
            entry.hash == hash && entry.key == *key
        };
        table.find(hash, is_it).is_some()
    }

    /// All of them, in the order in which they were seen first, or in any.
    pub(crate) fn into_items<T: Send>(
        self,
        context: &Context,
        ordered: bool,
        join: impl Fn(K, V) -> T + Sync,
    ) -> Result<Vec<T>, Halted>
    where
        K: Send,
    {
        let chunks = &self.chunks;
        let large = self.shards.iter().map(|shard| shard.entries.len()).sum::<usize>() > LARGE;
        let ranked = jobs(context, self.shards, large, |shard| {
            let entries = shard.entries.into_iter();
            let ranked = entries.map(|Entry { key, value, .. }| {
                (chunks.rank(value.position, value.number), join(key, value.value))
            });
            ranked.collect::<Vec<_>>()
        })?;
        if ordered {
            return chunks.in_order(context, ranked);
        }
        Ok(ranked.into_iter().flatten().map(|(_, item)| item).collect())
    }
}

impl<K: Eq, V: Send> DistinctShard<K, V> {
    fn new(shard: Shard<K, (usize, V), First<V>>) -> Self {
        let mut shard_set = Self { table: HashTable::new(), entries: Vec::new() };
        shard.accumulated.into_iter().for_each(|entry| shard_set.insert(entry));
        shard.entries.for_each(|position, Entry { hash, key, value }| {
            shard_set.insert(Entry { hash, key, value: First::new(position, value) });
        });
        shard_set
    }

    /// Adds an entry, unless there is one like it. Of the two, the one that comes first is kept.
    fn insert(&mut self, entry: Entry<K, First<V>>) {
        let Self { table, entries } = self;
        let slot = table.entry(
            entry.hash,
            |index| {
                let other = &entries[*index as usize];
                other.hash == entry.hash && other.key == entry.key
            },
            |index| entries[*index as usize].hash,
        );
        match slot {
            Slot::Occupied(slot) => {
                let before = &mut entries[*slot.get() as usize];
                let place = |first: &First<V>| (first.position, first.number);
                if place(&entry.value) < place(&before.value) {
                    *before = entry;
                }
            }
            Slot::Vacant(slot) => {
                slot.insert(small(entries.len()));
                entries.push(entry);
            }
        }
    }
}
