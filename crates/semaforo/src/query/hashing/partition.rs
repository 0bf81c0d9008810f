//! Items with their keys, sorted into shards.

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::Duration;

use hashbrown::HashTable;

use super::chunks::Chunks;
use super::{Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::pipeline::Source;
use crate::sync::Of;

/// An item on its way to its shard: its key, and the rest of it.
#[derive(Debug)]
pub(crate) struct Entry<K, V> {
    pub(crate) hash: u64,
    pub(crate) key: K,
    pub(crate) value: V,
}

/// What one thread has for one shard.
#[derive(Debug)]
pub(crate) struct ShardPart<K, V> {
    entries: Vec<Entry<K, V>>,
    /// For every chunk that had any: its position, and how many entries there were after it.
    runs: Vec<(usize, usize)>,
}

/// What all threads have for one shard.
#[derive(Debug)]
pub(crate) struct Shard<K, V, A> {
    /// What threads have accumulated for the first keys that they saw.
    pub(crate) accumulated: Vec<Entry<K, A>>,
    pub(crate) entries: Entries<K, V>,
}

/// Entries that each stand for themselves.
#[derive(Debug)]
pub(crate) struct Entries<K, V>(Vec<ShardPart<K, V>>);

/// What a thread makes of all values of one key, while it sees them.
pub(crate) trait Accumulator<V>: Send {
    /// Values are added up for so many keys; those of other keys are left to the second phase. As
    /// many keys as stay in a processor's own cache.
    const MAX_KEYS: usize;

    /// With the first value, in the chunk at this position.
    fn new(position: usize, value: V) -> Self;
    fn add(&mut self, position: usize, value: V);
}

/// Nothing: every entry stands for itself.
#[derive(Debug)]
pub(crate) enum NoAccumulator {}

impl<V> Accumulator<V> for NoAccumulator {
    const MAX_KEYS: usize = 0;

    fn new(_: usize, _: V) -> Self {
        unreachable!("no keys are accumulated");
    }

    fn add(&mut self, _: usize, _: V) {}
}

/// All items, in shards.
#[derive(Debug)]
pub(crate) struct Partition<K, V, A> {
    pub(crate) shards: Vec<Shard<K, V, A>>,
    pub(crate) chunks: Chunks,
    /// How many entries and accumulators there are.
    pub(crate) len: usize,
}

/// Sorts all items into shards. `split` makes a key and the rest of an item, which is given with
/// its number in its chunk; what is not admitted is left out.
pub(crate) fn partition<S: Source, K, V, A>(
    context: &Context,
    source: &S,
    sharding: &Sharding,
    split: impl Fn(usize, S::Item) -> (K, V) + Sync,
    admit: impl Fn(u64, &K) -> bool + Sync,
) -> Result<Partition<K, V, A>, Halted>
where
    K: Hash + Eq + Send,
    V: Send,
    A: Accumulator<V>,
{
    let partitioning = Partitioning::new(sharding, split, admit);
    let threads: Vec<ThreadPartition<K, V, A>> = drive(context, source, &partitioning)?;
    Ok(in_shards(sharding, threads))
}

/// What several threads have, by shard.
pub(crate) fn in_shards<K, V, A>(
    sharding: &Sharding,
    threads: Vec<ThreadPartition<K, V, A>>,
) -> Partition<K, V, A> {
    let empty = || Shard { accumulated: Vec::new(), entries: Entries(Vec::new()) };
    let mut shards: Vec<_> = (0..sharding.shards()).map(|_| empty()).collect();
    let mut chunks = Vec::new();
    let mut len = 0;
    for own in threads {
        chunks.extend(own.chunks);
        len += own.accumulated.len();
        for entry in own.accumulated {
            shards[sharding.shard(entry.hash)].accumulated.push(entry);
        }
        for (shard, part) in shards.iter_mut().zip(own.shard_parts) {
            len += part.entries.len();
            if !part.entries.is_empty() {
                shard.entries.0.push(part);
            }
        }
    }
    Partition { shards, chunks: Chunks::new(chunks), len }
}

impl<K, V> Entries<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|part| part.entries.len()).sum()
    }

    /// Calls a function with all entries, in their order, each with the position of its chunk.
    pub(crate) fn for_each(self, mut each: impl FnMut(usize, Entry<K, V>)) {
        let mut runs = Vec::new();
        let mut shard_parts = Vec::with_capacity(self.0.len());
        for (number, part) in self.0.into_iter().enumerate() {
            let mut before = 0;
            for (position, after) in part.runs {
                runs.push((position, number, after - before));
                before = after;
            }
            shard_parts.push(part.entries.into_iter());
        }
        // Every thread's runs follow one another in its entries; unless it has taken over from
        // another thread, they are in order.
        runs.sort_by_key(|(position, ..)| *position);
        for (position, part, count) in runs {
            for entry in shard_parts[part].by_ref().take(count) {
                each(position, entry);
            }
        }
    }
}

/// What one thread has.
#[derive(Debug)]
pub(crate) struct ThreadPartition<K, V, A> {
    /// Numbers of accumulators.
    table: HashTable<u32>,
    accumulated: Vec<Entry<K, A>>,
    /// Few of the items have keys that are accumulated.
    bypass: bool,
    shard_parts: Vec<ShardPart<K, V>>,
    /// The chunks that were seen, with their numbers of items.
    chunks: Vec<(usize, usize)>,
}

pub(crate) struct Partitioning<'a, F, G, K, V, A> {
    sharding: &'a Sharding,
    split: F,
    admit: G,
    made: Of<ThreadPartition<K, V, A>>,
}

impl<'a, F, G, K, V, A> Partitioning<'a, F, G, K, V, A> {
    pub(crate) fn new(sharding: &'a Sharding, split: F, admit: G) -> Self {
        Self { sharding, split, admit, made: PhantomData }
    }
}

impl<T, K, V, A, F, G> Consumer<T> for Partitioning<'_, F, G, K, V, A>
where
    K: Hash + Eq + Send,
    V: Send,
    A: Accumulator<V>,
    F: Fn(usize, T) -> (K, V) + Sync,
    G: Fn(u64, &K) -> bool + Sync,
{
    type State = ThreadPartition<K, V, A>;

    /// What belongs together is in fewer pieces if chunks are larger.
    const CHUNK: Duration = Duration::from_millis(1);

    fn start(&self) -> Self::State {
        ThreadPartition {
            table: HashTable::new(),
            accumulated: Vec::new(),
            bypass: A::MAX_KEYS == 0,
            shard_parts: Vec::new(),
            chunks: Vec::new(),
        }
    }

    fn consume(
        &self,
        own: &mut Self::State,
        (position, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        let (mut number, mut missed) = (0, 0);
        items.for_each(|item| {
            let (key, value) = (self.split)(number, item);
            number += 1;
            let hash = self.sharding.hash(&key);
            if !(self.admit)(hash, &key) {
                return;
            }
            let entry = Entry { hash, key, value };
            if let Some(entry) = own.add(position, entry) {
                missed += 1;
                if own.shard_parts.is_empty() {
                    let empty = || ShardPart { entries: Vec::new(), runs: Vec::new() };
                    own.shard_parts.extend((0..self.sharding.shards()).map(|_| empty()));
                }
                own.shard_parts[self.sharding.shard(hash)].entries.push(entry);
            }
        });
        own.bypass |= missed > number / 8 * 7;
        own.chunks.push((position, number));
        for part in &mut own.shard_parts {
            let after = part.entries.len();
            if after > part.runs.last().map_or(0, |(_, before)| *before) {
                part.runs.push((position, after));
            }
        }
        ControlFlow::Continue(())
    }
}

impl<K, V, A> ThreadPartition<K, V, A> {
    /// Takes over what was accumulated elsewhere, from chunks with these positions and numbers of
    /// items.
    pub(crate) fn take_over(
        &mut self,
        chunks: impl IntoIterator<Item = (usize, usize)>,
        gathered: impl IntoIterator<Item = Entry<K, A>>,
    ) {
        self.chunks.extend(chunks);
        self.accumulated.extend(gathered);
    }
}

impl<K: Eq, V, A: Accumulator<V>> ThreadPartition<K, V, A> {
    /// Adds an entry to the accumulators, or gives it back.
    #[inline]
    fn add(&mut self, position: usize, entry: Entry<K, V>) -> Option<Entry<K, V>> {
        if self.bypass {
            return Some(entry);
        }
        let Entry { hash, key, value } = entry;
        let accumulated = &mut self.accumulated;
        let found = self.table.find(hash, |index| {
            let entry = &accumulated[*index as usize];
            entry.hash == hash && entry.key == key
        });
        if let Some(index) = found {
            accumulated[*index as usize].value.add(position, value);
            return None;
        }
        if accumulated.len() == A::MAX_KEYS {
            return Some(Entry { hash, key, value });
        }
        self.table.insert_unique(hash, small(accumulated.len()), |index| {
            accumulated[*index as usize].hash
        });
        accumulated.push(Entry { hash, key, value: A::new(position, value) });
        None
    }
}
