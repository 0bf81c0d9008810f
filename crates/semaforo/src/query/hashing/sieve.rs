//! Items of which no two are the same.

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use hashbrown::HashTable;

use super::{Place, Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::jobs::jobs;
use crate::query::pipeline::Source;

/// By what items are told apart.
pub trait Identity<T>: Send + Sync {
    type Key: Hash + Eq;
    /// An item with its key.
    type Kept: Send + Sync;

    fn keep(&self, item: T) -> Self::Kept;
    fn key(kept: &Self::Kept) -> &Self::Key;
    fn item(kept: Self::Kept) -> T;
}

/// The different ones among the items that were seen.
#[derive(Debug)]
pub(crate) struct Seen<V> {
    shards: Vec<Shard<V>>,
}

#[derive(Debug)]
struct Shard<V> {
    /// Numbers of entries.
    table: HashTable<u32>,
    entries: Vec<Entry<V>>,
}

#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    place: Place,
    kept: V,
}

/// The first of every kind, among the items that are admitted. Whether an item is depends on its hash
/// and its key.
pub(crate) fn sieve<S: Source, D: Identity<S::Item>>(
    context: &Context,
    source: &S,
    sharding: &Sharding,
    identity: &D,
    admit: impl Fn(u64, &D::Key) -> bool + Sync,
) -> Result<Seen<D::Kept>, Halted> {
    let sieving = Sieving { sharding, identity, admit, item: PhantomData };
    let threads = drive(context, source, &sieving)?;
    let mut shares: Vec<Vec<Shard<D::Kept>>> =
        (0..sharding.shards()).map(|_| Vec::with_capacity(threads.len())).collect();
    for thread in threads {
        for (shares, share) in shares.iter_mut().zip(thread) {
            shares.push(share);
        }
    }
    let large = shares.iter().flatten().map(|share| share.entries.len()).sum::<usize>() > 10_000;
    let same = |one: &D::Kept, other: &D::Kept| D::key(one) == D::key(other);
    let shards = jobs(context, shares, large, |shares| {
        let mut shares = shares.into_iter();
        let mut merged = shares.next().unwrap_or_else(Shard::new);
        for share in shares {
            merged.absorb(share, same);
        }
        merged
    })?;
    Ok(Seen { shards })
}

impl<V: Send> Seen<V> {
    /// Whether there is one with this key.
    pub(crate) fn contains(&self, shard: usize, hash: u64, is_it: impl Fn(&V) -> bool) -> bool {
        let Shard { table, entries } = &self.shards[shard];
        table.find(hash, |index| is_it(&entries[*index as usize].kept)).is_some()
    }

    /// All of them, each with the place where it was first seen.
    pub(crate) fn into_entries(self) -> Vec<(Place, V)> {
        let mut all = Vec::with_capacity(self.shards.iter().map(|shard| shard.entries.len()).sum());
        for shard in self.shards {
            all.extend(shard.entries.into_iter().map(|entry| (entry.place, entry.kept)));
        }
        all
    }
}

impl<V> Shard<V> {
    fn new() -> Self {
        Self { table: HashTable::new(), entries: Vec::new() }
    }

    /// Adds an entry, unless there is one like it. Of the two, the one that comes first is kept.
    fn insert(&mut self, entry: Entry<V>, same: impl Fn(&V, &V) -> bool) {
        let Self { table, entries } = self;
        let slot = table.entry(
            entry.hash,
            |index| {
                let other = &entries[*index as usize];
                other.hash == entry.hash && same(&other.kept, &entry.kept)
            },
            |index| entries[*index as usize].hash,
        );
        match slot {
            hashbrown::hash_table::Entry::Occupied(slot) => {
                let before = &mut entries[*slot.get() as usize];
                if entry.place < before.place {
                    *before = entry;
                }
            }
            hashbrown::hash_table::Entry::Vacant(slot) => {
                slot.insert(small(entries.len()));
                entries.push(entry);
            }
        }
    }

    fn absorb(&mut self, mut other: Self, same: impl Fn(&V, &V) -> bool) {
        if other.entries.len() > self.entries.len() {
            std::mem::swap(self, &mut other);
        }
        other.entries.into_iter().for_each(|entry| self.insert(entry, &same));
    }
}

struct Sieving<'a, D, A, T> {
    sharding: &'a Sharding,
    identity: &'a D,
    admit: A,
    item: PhantomData<fn(T)>,
}

impl<T, D, A> Consumer<T> for Sieving<'_, D, A, T>
where
    D: Identity<T>,
    A: Fn(u64, &D::Key) -> bool + Sync,
{
    type State = Vec<Shard<D::Kept>>;

    fn start(&self) -> Self::State {
        (0..self.sharding.shards()).map(|_| Shard::new()).collect()
    }

    fn consume(
        &self,
        shards: &mut Self::State,
        (position, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        let mut number = 0;
        items.for_each(|item| {
            let kept = self.identity.keep(item);
            let hash = self.sharding.hash(D::key(&kept));
            if (self.admit)(hash, D::key(&kept)) {
                let entry = Entry { hash, place: (position, number), kept };
                shards[self.sharding.shard(hash)]
                    .insert(entry, |one, other| D::key(one) == D::key(other));
            }
            number += 1;
        });
        ControlFlow::Continue(())
    }
}
