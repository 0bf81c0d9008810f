//! Items that are found by their keys.

use std::hash::Hash;
use std::iter::FusedIterator;

use super::partition::{Apart, Entry, Partition, Shard, partition};
use super::{LARGE, Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::jobs::jobs;
use crate::query::pipeline::Source;

/// All items of a source, by their keys.
#[derive(Debug)]
pub(crate) struct Lookup<K, T> {
    sharding: Sharding,
    shards: Vec<Buckets<K, T>>,
}

/// The items of a shard, by the last bits of their hashes: those of a bucket are next to each other, and
/// in their order. So what is not there is found out with one look, and what is there with two.
#[derive(Debug)]
struct Buckets<K, T> {
    /// Where each bucket begins, and where the last one ends.
    begins: Vec<u32>,
    entries: Vec<Entry<K, T>>,
}

impl<K: Hash + Eq + Send, T: Send> Lookup<K, T> {
    pub(crate) fn build<S: Source<Item = T>>(
        context: &Context,
        source: &S,
        key: impl Fn(&T) -> K + Sync,
    ) -> Result<Self, Halted> {
        let sharding = Sharding::new(context.crew.threads());
        let split = |_, item| (key(&item), item);
        let Partition { shards, len, .. } =
            partition(context, source, &sharding, split, |_, _| true)?;
        Ok(Self { shards: jobs(context, shards, len > LARGE, Buckets::new)?, sharding })
    }
}

impl<K: Hash + Eq, T> Lookup<K, T> {
    /// The items with this key, in their order.
    #[inline]
    pub(crate) fn matches(&self, key: K) -> Matches<'_, K, T> {
        let hash = self.sharding.hash(&key);
        let bucket = self.shards[self.sharding.shard(hash)].bucket(hash);
        Matches { bucket: bucket.iter(), hash, key }
    }
}

impl<K, T> Buckets<K, T> {
    fn new(shard: Shard<K, T, Apart>) -> Self {
        let mut entries = Vec::with_capacity(shard.rest.len());
        shard.rest.for_each(|_, entry| entries.push(entry));
        let count = entries.len().next_power_of_two();
        let bucket = |entry: &Entry<K, T>| entry.hash as usize & (count - 1);
        entries.sort_by_key(bucket);
        let mut begins = Vec::with_capacity(count + 1);
        for (index, entry) in entries.iter().enumerate() {
            begins.resize(bucket(entry) + 1, small(index));
        }
        begins.resize(count + 1, small(entries.len()));
        Self { begins, entries }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &[Entry<K, T>] {
        let bucket = hash as usize & (self.begins.len() - 2);
        &self.entries[self.begins[bucket] as usize..self.begins[bucket + 1] as usize]
    }
}

/// The items that have one key, in their order: what [`group_join`](crate::query::Query::group_join)
/// gives to its function.
#[derive(Debug)]
pub struct Matches<'a, K, T> {
    bucket: std::slice::Iter<'a, Entry<K, T>>,
    hash: u64,
    key: K,
}

impl<'a, K: Eq, T> Iterator for Matches<'a, K, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let Self { bucket, hash, key } = self;
        let entry = bucket.find(|entry| entry.hash == *hash && entry.key == *key)?;
        Some(&entry.value)
    }
}

impl<K: Eq, T> FusedIterator for Matches<'_, K, T> {}

impl<K: Clone, T> Clone for Matches<'_, K, T> {
    fn clone(&self) -> Self {
        Self { bucket: self.bucket.clone(), hash: self.hash, key: self.key.clone() }
    }
}
