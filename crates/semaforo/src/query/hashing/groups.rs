//! Items in groups that have the same key.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::chunks::Chunks;
use super::numbering::{Numbered, number, scatter};
use super::partition::{Accumulator, Entry, Partition, Shard, in_shards};
use super::{LARGE, Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::jobs::jobs;
use crate::query::operators::Group;
use crate::query::pipeline::Source;

/// All items in groups, both groups and their items in order, or both in any.
pub(crate) fn groups<S: Source, K: Hash + Eq + Send>(
    context: &Context,
    source: &S,
    ordered: bool,
    key: impl Fn(&S::Item) -> K + Sync,
) -> Result<Vec<Group<K, S::Item>>, Halted> {
    let sharding = Sharding::new(context.extra_workers.threads());
    let partitions = match number(context, source, &sharding, key)? {
        Numbered::Few(threads) => return scatter(context, threads),
        Numbered::Many(partitions) => partitions,
    };
    let Partition { shards, chunks, len } = in_shards(&sharding, partitions);
    let ranked = jobs(context, shards, len > LARGE || chunks.total() > LARGE, |shard| {
        let mut groups = Groups { table: HashTable::new(), groups: Vec::new() };
        groups.fill(shard);
        groups.finish(&chunks, ordered)
    })?;
    if ordered {
        return chunks.in_order(context, ranked);
    }
    Ok(ranked.into_iter().flatten().map(|(_, group)| group).collect())
}

/// What one thread has of a group, or what is left of it.
#[derive(Debug)]
pub(crate) struct Items<T> {
    /// Where the first item was: the position of its chunk, and its number in there.
    first: (usize, usize),
    /// The position of the last item's chunk.
    last: usize,
    items: Vec<T>,
    /// For every chunk that had any: its position, and how many items there were before it.
    runs: Vec<(usize, usize)>,
}

impl<T: Send> Accumulator<(usize, T)> for Items<T> {
    /// What is gathered comes from the [numbering](super::numbering), which has had enough keys.
    const MAX_KEYS: usize = 0;

    fn new(position: usize, (number, item): (usize, T)) -> Self {
        Self {
            first: (position, number),
            last: position,
            items: vec![item],
            runs: vec![(position, 0)],
        }
    }

    #[inline]
    fn add(&mut self, position: usize, (number, item): (usize, T)) {
        if self.last != position {
            self.last = position;
            // Threads see items in their order; unless they take over from one another.
            self.first = self.first.min((position, number));
            self.runs.push((position, self.items.len()));
        }
        self.items.push(item);
    }
}

/// The groups of a shard.
struct Groups<K, T> {
    table: HashTable<u32>,
    groups: Vec<Entry<K, Parts<T>>>,
}

/// The parts that a group has been gathered in.
enum Parts<T> {
    /// The items in their order, and where the first of them was.
    One((usize, usize), Vec<T>),
    Many(Vec<Items<T>>),
}

impl<K: Eq, T: Send> Groups<K, T> {
    fn fill(&mut self, shard: Shard<K, (usize, T), Items<T>>) {
        for Entry { hash, key, value } in shard.accumulated {
            match self.find_or_add(hash, key, || Parts::Many(Vec::new())) {
                Parts::Many(parts) => parts.push(value),
                Parts::One(..) => unreachable!("locals come first"),
            }
        }
        // Whether the last part of a group is one for the rest.
        let locals = self.groups.len();
        let mut has_rest = vec![false; locals];
        shard.entries.for_each(|position, Entry { hash, key, value: (number, item) }| {
            let index = self.find(hash, &key);
            match index.map(|index| (index, &mut self.groups[index].value)) {
                None => {
                    let one = Parts::One((position, number), vec![item]);
                    self.find_or_add(hash, key, || one);
                }
                Some((_, Parts::One(_, items))) => items.push(item),
                Some((index, Parts::Many(parts))) => match parts.last_mut() {
                    Some(rest) if has_rest[index] => rest.add(position, (number, item)),
                    _ => {
                        has_rest[index] = true;
                        parts.push(Items::new(position, (number, item)));
                    }
                },
            }
        });
    }

    fn find(&self, hash: u64, key: &K) -> Option<usize> {
        let is_it = |index: &u32| {
            let group = &self.groups[*index as usize];
            group.hash == hash && group.key == *key
        };
        self.table.find(hash, is_it).map(|index| *index as usize)
    }

    fn find_or_add(
        &mut self,
        hash: u64,
        key: K,
        parts: impl FnOnce() -> Parts<T>,
    ) -> &mut Parts<T> {
        let Self { table, groups } = self;
        let slot = table.entry(
            hash,
            |index| {
                let group = &groups[*index as usize];
                group.hash == hash && group.key == key
            },
            |index| groups[*index as usize].hash,
        );
        let index = match slot {
            Slot::Occupied(slot) => *slot.get(),
            Slot::Vacant(slot) => {
                let index = small(groups.len());
                slot.insert(index);
                groups.push(Entry { hash, key, value: parts() });
                index
            }
        };
        &mut groups[index as usize].value
    }

    /// The groups, with the ranks of their first items.
    fn finish(self, chunks: &Chunks, ordered: bool) -> Vec<(usize, Group<K, T>)> {
        let groups = self.groups.into_iter().map(|Entry { key, value, .. }| {
            let (first, items) = match value {
                Parts::One(first, items) => (first, items),
                Parts::Many(parts) => {
                    let first = parts.iter().map(|part| part.first).min();
                    (first.unwrap_or_default(), joined(parts, ordered))
                }
            };
            (chunks.rank(first.0, first.1), Group { key, items })
        });
        groups.collect()
    }
}

/// The items of all parts.
fn joined<T>(mut parts: Vec<Items<T>>, ordered: bool) -> Vec<T> {
    if !ordered {
        let largest = (0..parts.len()).max_by_key(|part| parts[*part].items.len()).unwrap_or(0);
        parts.swap(0, largest);
    }
    let is_sorted = |part: &Items<T>| part.runs.is_sorted_by_key(|(position, _)| *position);
    if !ordered || (parts.len() == 1 && parts.first().is_some_and(is_sorted)) {
        let mut parts = parts.into_iter();
        let mut all = parts.next().map_or_else(Vec::new, |part| part.items);
        parts.for_each(|mut part| all.append(&mut part.items));
        return all;
    }
    let mut runs = Vec::with_capacity(parts.iter().map(|part| part.runs.len()).sum());
    let mut all = Vec::with_capacity(parts.iter().map(|part| part.items.len()).sum());
    let mut items = Vec::with_capacity(parts.len());
    for (number, part) in parts.into_iter().enumerate() {
        let mut after = part.items.len();
        runs.extend(part.runs.into_iter().rev().map(|(position, before)| {
            let count = std::mem::replace(&mut after, before) - before;
            (position, number, count)
        }));
        items.push(part.items.into_iter());
    }
    runs.sort_by_key(|(position, ..)| *position);
    for (_, part, count) in runs {
        all.extend(items[part].by_ref().take(count));
    }
    all
}
