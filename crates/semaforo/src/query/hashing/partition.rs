//! Items with their keys, sorted into shards.

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use super::{Place, Sharding};
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::pipeline::Source;

/// An item on its way to its shard.
#[derive(Debug)]
pub(crate) struct Entry<K, T> {
    pub(crate) hash: u64,
    /// The item's number in its chunk.
    number: usize,
    pub(crate) key: K,
    pub(crate) item: T,
}

/// What one thread has for one shard.
#[derive(Debug)]
struct Share<K, T> {
    entries: Vec<Entry<K, T>>,
    /// For every chunk that had any: its position, and how many entries there were after it.
    runs: Vec<(usize, usize)>,
}

/// What all threads have for one shard.
#[derive(Debug)]
pub(crate) struct Shard<K, T>(Vec<Share<K, T>>);

/// Sorts all items into shards.
pub(crate) fn partition<S: Source, K: Hash + Send>(
    context: &Context,
    source: &S,
    sharding: &Sharding,
    key: impl Fn(&S::Item) -> K + Sync,
) -> Result<Vec<Shard<K, S::Item>>, Halted> {
    let threads = drive(context, source, &Partitioning { sharding, key, made: PhantomData })?;
    let mut shards: Vec<_> = (0..sharding.shards()).map(|_| Shard(Vec::new())).collect();
    for shares in threads {
        for (shard, share) in shards.iter_mut().zip(shares) {
            if !share.entries.is_empty() {
                shard.0.push(share);
            }
        }
    }
    Ok(shards)
}

impl<K, T> Shard<K, T> {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|share| share.entries.len()).sum()
    }

    /// Calls a function with all entries, in their order.
    pub(crate) fn for_each(self, mut each: impl FnMut(Place, Entry<K, T>)) {
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
        // Every thread's runs are in order already, and follow one another in its entries.
        runs.sort_unstable();
        for (position, share, count) in runs {
            for entry in shares[share].by_ref().take(count) {
                each((position, entry.number), entry);
            }
        }
    }
}

struct Partitioning<'a, F, K> {
    sharding: &'a Sharding,
    key: F,
    made: PhantomData<fn() -> K>,
}

impl<T: Send, K: Hash + Send, F: Fn(&T) -> K + Sync> Consumer<T> for Partitioning<'_, F, K> {
    type State = Vec<Share<K, T>>;

    fn start(&self) -> Self::State {
        (0..self.sharding.shards())
            .map(|_| Share { entries: Vec::new(), runs: Vec::new() })
            .collect()
    }

    fn consume(
        &self,
        shares: &mut Self::State,
        (position, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        let mut number = 0;
        items.for_each(|item| {
            let key = (self.key)(&item);
            let hash = self.sharding.hash(&key);
            shares[self.sharding.shard(hash)].entries.push(Entry { hash, number, key, item });
            number += 1;
        });
        for share in shares {
            let after = share.entries.len();
            if after > share.runs.last().map_or(0, |(_, before)| *before) {
                share.runs.push((position, after));
            }
        }
        ControlFlow::Continue(())
    }
}
