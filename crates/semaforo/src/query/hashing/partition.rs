//! Items with their keys, sorted into shards.

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::Duration;

use hashbrown::HashTable;

use super::places::Chunks;
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
pub(crate) struct Share<K, V> {
    entries: Vec<Entry<K, V>>,
    /// For every chunk that had any: its position, and how many entries there were after it.
    runs: Vec<(usize, usize)>,
}

/// What all threads have for one shard.
#[derive(Debug)]
pub(crate) struct Shard<K, V, A> {
    /// What threads have put together for the first keys that they saw.
    pub(crate) locals: Vec<Entry<K, A>>,
    pub(crate) rest: Rest<K, V>,
}

/// Entries that each stand for themselves.
#[derive(Debug)]
pub(crate) struct Rest<K, V>(Vec<Share<K, V>>);

/// What a thread makes of all values of one key, while it sees them.
pub(crate) trait Gathered<V>: Send {
    /// Values are added up for so many keys; those of others are left to the second phase. As many as
    /// stay in a processor's own cache.
    const KEYS: usize;

    /// With the first value, in the chunk at this position.
    fn new(position: usize, value: V) -> Self;
    fn add(&mut self, position: usize, value: V);
}

/// Nothing: every entry stands for itself.
#[derive(Debug)]
pub(crate) enum Apart {}

impl<V> Gathered<V> for Apart {
    const KEYS: usize = 0;

    fn new(_: usize, _: V) -> Self {
        unreachable!("no keys are gathered");
    }

    fn add(&mut self, _: usize, _: V) {}
}

/// All items, in shards.
#[derive(Debug)]
pub(crate) struct Partition<K, V, A> {
    pub(crate) shards: Vec<Shard<K, V, A>>,
    pub(crate) chunks: Chunks,
    /// How many entries and locals there are.
    pub(crate) len: usize,
}

/// Sorts all items into shards. `split` makes a key and the rest of an item, which is given with its
/// number in its chunk; what is not admitted is left out.
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
    A: Gathered<V>,
{
    let partitioning = Partitioning::new(sharding, split, admit);
    let threads: Vec<Worker<K, V, A>> = drive(context, source, &partitioning)?;
    Ok(in_shards(sharding, threads))
}

/// What several threads have, by shard.
pub(crate) fn in_shards<K, V, A>(
    sharding: &Sharding,
    threads: Vec<Worker<K, V, A>>,
) -> Partition<K, V, A> {
    let empty = || Shard { locals: Vec::new(), rest: Rest(Vec::new()) };
    let mut shards: Vec<_> = (0..sharding.shards()).map(|_| empty()).collect();
    let mut chunks = Vec::new();
    let mut len = 0;
    for worker in threads {
        chunks.extend(worker.chunks);
        len += worker.locals.len();
        for local in worker.locals {
            shards[sharding.shard(local.hash)].locals.push(local);
        }
        for (shard, share) in shards.iter_mut().zip(worker.shares) {
            len += share.entries.len();
            if !share.entries.is_empty() {
                shard.rest.0.push(share);
            }
        }
    }
    Partition { shards, chunks: Chunks::new(chunks), len }
}

impl<K, V> Rest<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|share| share.entries.len()).sum()
    }

    /// Calls a function with all entries, in their order, each with the position of its chunk.
    pub(crate) fn for_each(self, mut each: impl FnMut(usize, Entry<K, V>)) {
        let mut runs = Vec::new();
        let mut shares = Vec::with_capacity(self.0.len());
        for (number, share) in self.0.into_iter().enumerate() {
            let mut before = 0;
            for (position, after) in share.runs {
                runs.push((position, number, after - before));
                before = after;
            }
            shares.push(share.entries.into_iter());
        }
        // Every thread's runs follow one another in its entries; unless it has taken over from another
        // thread, they are in order.
        runs.sort_by_key(|(position, ..)| *position);
        for (position, share, count) in runs {
            for entry in shares[share].by_ref().take(count) {
                each(position, entry);
            }
        }
    }
}

/// What one thread has.
#[derive(Debug)]
pub(crate) struct Worker<K, V, A> {
    /// Numbers of locals.
    table: HashTable<u32>,
    locals: Vec<Entry<K, A>>,
    /// Few of the items have keys that are among the locals.
    bypass: bool,
    shares: Vec<Share<K, V>>,
    /// The chunks that were seen, with their numbers of items.
    chunks: Vec<(usize, usize)>,
}

pub(crate) struct Partitioning<'a, F, G, K, V, A> {
    sharding: &'a Sharding,
    split: F,
    admit: G,
    made: Of<Worker<K, V, A>>,
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
    A: Gathered<V>,
    F: Fn(usize, T) -> (K, V) + Sync,
    G: Fn(u64, &K) -> bool + Sync,
{
    type State = Worker<K, V, A>;

    /// What belongs together is in fewer pieces if chunks are larger.
    const CHUNK: Duration = Duration::from_millis(1);

    fn start(&self) -> Self::State {
        Worker {
            table: HashTable::new(),
            locals: Vec::new(),
            bypass: A::KEYS == 0,
            shares: Vec::new(),
            chunks: Vec::new(),
        }
    }

    fn consume(
        &self,
        worker: &mut Self::State,
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
            if let Some(entry) = worker.add(position, entry) {
                missed += 1;
                if worker.shares.is_empty() {
                    let empty = || Share { entries: Vec::new(), runs: Vec::new() };
                    worker.shares.extend((0..self.sharding.shards()).map(|_| empty()));
                }
                worker.shares[self.sharding.shard(hash)].entries.push(entry);
            }
        });
        worker.bypass |= missed > number / 8 * 7;
        worker.chunks.push((position, number));
        for share in &mut worker.shares {
            let after = share.entries.len();
            if after > share.runs.last().map_or(0, |(_, before)| *before) {
                share.runs.push((position, after));
            }
        }
        ControlFlow::Continue(())
    }
}

impl<K, V, A> Worker<K, V, A> {
    /// Takes over what was put together elsewhere, from chunks with these positions and numbers of
    /// items.
    pub(crate) fn take_over(
        &mut self,
        chunks: impl IntoIterator<Item = (usize, usize)>,
        gathered: impl IntoIterator<Item = Entry<K, A>>,
    ) {
        self.chunks.extend(chunks);
        self.locals.extend(gathered);
    }
}

impl<K: Eq, V, A: Gathered<V>> Worker<K, V, A> {
    /// Adds an entry to the locals, or gives it back.
    #[inline]
    fn add(&mut self, position: usize, entry: Entry<K, V>) -> Option<Entry<K, V>> {
        if self.bypass {
            return Some(entry);
        }
        let Entry { hash, key, value } = entry;
        let locals = &mut self.locals;
        let found = self.table.find(hash, |index| {
            let local = &locals[*index as usize];
            local.hash == hash && local.key == key
        });
        if let Some(index) = found {
            locals[*index as usize].value.add(position, value);
            return None;
        }
        if locals.len() == A::KEYS {
            return Some(Entry { hash, key, value });
        }
        self.table.insert_unique(hash, small(locals.len()), |index| locals[*index as usize].hash);
        locals.push(Entry { hash, key, value: A::new(position, value) });
        None
    }
}
