//! Items that are found by their keys.

use std::hash::Hash;
use std::iter::FusedIterator;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::partition::{Shard, partition};
use super::{Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::jobs::jobs;
use crate::query::pipeline::Source;

/// All items of a source, by their keys.
#[derive(Debug)]
pub(crate) struct Lookup<K, T> {
    sharding: Sharding,
    shards: Vec<Chains<K, T>>,
}

#[derive(Debug)]
struct Chains<K, T> {
    /// Where the chain of each key begins.
    table: HashTable<u32>,
    links: Vec<Link<K, T>>,
}

#[derive(Debug)]
struct Link<K, T> {
    hash: u64,
    /// The next link with the same key.
    next: u32,
    key: K,
    item: T,
}

const NONE: u32 = u32::MAX;

impl<K: Hash + Eq + Send, T: Send> Lookup<K, T> {
    pub(crate) fn build<S: Source<Item = T>>(
        context: &Context,
        source: &S,
        key: impl Fn(&T) -> K + Sync,
    ) -> Result<Self, Halted> {
        let sharding = Sharding::new(context.crew.threads());
        let shards = partition(context, source, &sharding, key)?;
        let large = shards.iter().map(Shard::len).sum::<usize>() > 10_000;
        Ok(Self { shards: jobs(context, shards, large, Chains::new)?, sharding })
    }
}

impl<K: Hash + Eq, T> Lookup<K, T> {
    /// The items with this key, in their order.
    pub(crate) fn matches(&self, key: &K) -> Matches<'_, K, T> {
        let hash = self.sharding.hash(key);
        let Chains { table, links } = &self.shards[self.sharding.shard(hash)];
        let is_it = |first: &u32| {
            let link = &links[*first as usize];
            link.hash == hash && link.key == *key
        };
        Matches { links, next: table.find(hash, is_it).copied().unwrap_or(NONE) }
    }
}

impl<K: Eq, T> Chains<K, T> {
    fn new(shard: Shard<K, T>) -> Self {
        let mut links = Vec::with_capacity(shard.len());
        shard.for_each(|_, entry| {
            links.push(Link { hash: entry.hash, next: NONE, key: entry.key, item: entry.item });
        });
        // The last one first: whatever comes before it is put in front.
        let mut table = HashTable::with_capacity(links.len());
        for index in (0..links.len()).rev() {
            let hash = links[index].hash;
            let slot = table.entry(
                hash,
                |first: &u32| {
                    let first = &links[*first as usize];
                    first.hash == hash && first.key == links[index].key
                },
                |first| links[*first as usize].hash,
            );
            match slot {
                Entry::Occupied(mut slot) => {
                    links[index].next = std::mem::replace(slot.get_mut(), small(index));
                }
                Entry::Vacant(slot) => {
                    slot.insert(small(index));
                }
            }
        }
        Self { table, links }
    }
}

/// The items that have one key, in their order: what [`group_join`](crate::query::Query::group_join)
/// gives to its function.
#[derive(Debug)]
pub struct Matches<'a, K, T> {
    links: &'a [Link<K, T>],
    next: u32,
}

impl<'a, K, T> Iterator for Matches<'a, K, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        // There is no link with the number that stands for none.
        let link = self.links.get(self.next as usize)?;
        self.next = link.next;
        Some(&link.item)
    }
}

impl<K, T> FusedIterator for Matches<'_, K, T> {}

impl<K, T> Clone for Matches<'_, K, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}
