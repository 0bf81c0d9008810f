//! Items with few keys: numbered, counted, and moved to where they belong.
//!
//! Three passes. Every thread gives numbers to the keys that it sees, and notes of each item which
//! run of its chunk it is in, that is, which items there have the same key: one hash and one
//! look-up per item, and all that is written is written in sequence. Then the threads' keys are
//! merged, chunk by chunk in the order of the items: that is the order of the groups, and tells how
//! large each of them is and where in it the items of each chunk belong. In the end every chunk's
//! items are moved there, into vectors that never grow.
//!
//! The merge is the work of one thread. If there are so many keys that it would take longer than
//! the rest, a thread says so after its first chunks, and all of them go on with the
//! [partition](super::partition).

use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::HashTable;

use super::groups::Items;
use super::partition::{Accumulator, Entry, Partitioning, ThreadPartition};
use super::{LARGE, Sharding, small};
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::jobs::jobs;
use crate::query::operators::Group;
use crate::query::parallel_vec::{ParallelVec, Part};
use crate::query::pipeline::Source;

/// With fewer keys than this, a thread's table stays in the processor's own cache.
const MANY: usize = 16_384;

/// Many keys are too many if there are fewer items than this for each.
const ITEMS_PER_KEY: usize = 4;

/// All items of a source, by number; or in shards, if there are too many keys.
pub(crate) enum Numbered<K, T> {
    Few(Vec<ThreadNumbers<K, T>>),
    Many(Vec<ThreadPartition<K, (usize, T), Items<T>>>),
}

/// What one thread has.
#[derive(Debug)]
pub(crate) struct ThreadNumbers<K, T> {
    /// ThreadNumbers of keys.
    table: HashTable<u32>,
    keys: Vec<NumberedKey<K>>,
    chunks: Vec<Chunk<T>>,
    /// How many items there are in the chunks.
    items: usize,
}

/// A key that has a number.
#[derive(Debug)]
struct NumberedKey<K> {
    hash: u64,
    key: K,
    /// Its run in the present chunk, if there is one.
    run: u32,
}

/// The items of a chunk.
#[derive(Debug)]
struct Chunk<T> {
    position: usize,
    items: Vec<T>,
    /// The run that each item is of.
    runs_of: Vec<u32>,
    /// The keys of the chunk, in the order of their first items.
    runs: Vec<Run>,
}

/// The items of a chunk that have one key.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the key.
    number: u32,
    count: usize,
}

/// The number of no run, and of no group.
const NONE: u32 = u32::MAX;

/// Numbers all items, or sorts them into shards.
pub(crate) fn number<S: Source, K: Hash + Eq + Send>(
    context: &Context,
    source: &S,
    sharding: &Sharding,
    key: impl Fn(&S::Item) -> K + Sync,
) -> Result<Numbered<K, S::Item>, Halted> {
    let split = |number, item| (key(&item), (number, item));
    let consumer = Numbering {
        sharding,
        key: &key,
        many: AtomicBool::new(false),
        partitioning: Partitioning::new(sharding, split, |_: u64, _: &K| true),
    };
    let threads = drive(context, source, &consumer)?;
    if !consumer.many.into_inner() {
        return Ok(Numbered::Few(threads.into_iter().map(|(numbers, _)| numbers).collect()));
    }
    // Some threads were done before the others found that out.
    let partitions = jobs(context, threads, false, |(mut numbers, mut partition)| {
        numbers.hand_over(&mut partition);
        partition
    });
    partitions.map(Numbered::Many)
}

struct Numbering<'a, F, P> {
    sharding: &'a Sharding,
    key: &'a F,
    /// There are too many keys.
    many: AtomicBool,
    partitioning: P,
}

impl<T, K, F, P> Consumer<T> for Numbering<'_, F, P>
where
    T: Send,
    K: Hash + Eq + Send,
    F: Fn(&T) -> K + Sync,
    P: Consumer<T, State = ThreadPartition<K, (usize, T), Items<T>>>,
{
    type State = (ThreadNumbers<K, T>, P::State);

    const CHUNK: Duration = P::CHUNK;

    fn start(&self) -> Self::State {
        (ThreadNumbers::new(), self.partitioning.start())
    }

    fn consume(
        &self,
        (numbers, partition): &mut Self::State,
        (position, end): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        if self.many.load(Ordering::Relaxed) {
            numbers.hand_over(partition);
            return self.partitioning.consume(partition, (position, end), items);
        }
        let mut chunk = Chunk::new(position, items.size_hint().0);
        items.for_each(|item| {
            let key = (self.key)(&item);
            let run = numbers.run_of(self.sharding.hash(&key), key, &mut chunk.runs);
            chunk.runs_of.push(run);
            chunk.items.push(item);
        });
        numbers.end_chunk(chunk);
        if numbers.keys.len() > MANY && numbers.keys.len() > numbers.items / ITEMS_PER_KEY {
            self.many.store(true, Ordering::Relaxed);
        }
        ControlFlow::Continue(())
    }
}

impl<T> Chunk<T> {
    fn new(position: usize, len: usize) -> Self {
        let (items, runs_of) = (Vec::with_capacity(len), Vec::with_capacity(len));
        Self { position, items, runs_of, runs: Vec::new() }
    }
}

impl<K: Eq, T: Send> ThreadNumbers<K, T> {
    fn new() -> Self {
        Self { table: HashTable::new(), keys: Vec::new(), chunks: Vec::new(), items: 0 }
    }

    /// The run of a key in the present chunk, which becomes longer; the chunk's first item of a key
    /// begins one.
    #[inline]
    fn run_of(&mut self, hash: u64, key: K, runs: &mut Vec<Run>) -> u32 {
        let keys = &mut self.keys;
        let found = self.table.find(hash, |number| {
            let other = &keys[*number as usize];
            other.hash == hash && other.key == key
        });
        let number = match found {
            Some(number) => *number,
            None => {
                let number = small(keys.len());
                self.table.insert_unique(hash, number, |number| keys[*number as usize].hash);
                keys.push(NumberedKey { hash, key, run: NONE });
                number
            }
        };
        let run = &mut keys[number as usize].run;
        if *run == NONE {
            *run = small(runs.len());
            runs.push(Run { number, count: 0 });
        }
        runs[*run as usize].count += 1;
        *run
    }

    fn end_chunk(&mut self, chunk: Chunk<T>) {
        for run in &chunk.runs {
            self.keys[run.number as usize].run = NONE;
        }
        self.items += chunk.items.len();
        self.chunks.push(chunk);
    }

    /// Leaves everything to this thread's part of the partition, as if that had accumulated it
    /// itself.
    fn hand_over(&mut self, partition: &mut ThreadPartition<K, (usize, T), Items<T>>) {
        let Self { keys, mut chunks, .. } = std::mem::replace(self, Self::new());
        chunks.sort_unstable_by_key(|chunk| chunk.position);
        let mut accumulated: Vec<Option<Items<T>>> = keys.iter().map(|_| None).collect();
        let lengths: Vec<_> =
            chunks.iter().map(|chunk| (chunk.position, chunk.items.len())).collect();
        for Chunk { position, items, runs_of, runs } in chunks {
            for (number, (item, run)) in items.into_iter().zip(runs_of).enumerate() {
                match &mut accumulated[runs[run as usize].number as usize] {
                    Some(before) => before.add(position, (number, item)),
                    none => *none = Some(Items::new(position, (number, item))),
                }
            }
        }
        // A key without an item is of a chunk whose end was not reached.
        let accumulated = keys.into_iter().zip(accumulated).filter_map(
            |(NumberedKey { hash, key, .. }, items)| items.map(|value| Entry { hash, key, value }),
        );
        partition.take_over(lengths, accumulated);
    }
}

/// A group to be. Its key is that of a thread, by the thread's number and the key's.
struct GroupPlan {
    hash: u64,
    key: (usize, u32),
    len: usize,
}

/// Where everything belongs.
struct ScatterPlan {
    groups: Vec<GroupPlan>,
    /// For every thread, the groups of its keys.
    targets: Vec<Vec<u32>>,
    /// For every chunk, how many items of their groups there are before its runs.
    starts: Vec<Vec<usize>>,
}

/// Puts numbered items into groups, both in order.
pub(crate) fn scatter<K: Eq + Send, T: Send>(
    context: &Context,
    threads: Vec<ThreadNumbers<K, T>>,
) -> Result<Vec<Group<K, T>>, Halted> {
    let large = threads.iter().map(|numbers| numbers.items).sum::<usize>() > LARGE;
    let mut keys = Vec::with_capacity(threads.len());
    let mut chunks = Vec::new();
    for (thread, numbers) in threads.into_iter().enumerate() {
        keys.push(numbers.keys);
        chunks.extend(numbers.chunks.into_iter().map(|chunk| (thread, chunk)));
    }
    chunks.sort_unstable_by_key(|(_, chunk)| chunk.position);
    let ScatterPlan { groups, targets, starts } = merge(context, &keys, &chunks)?;
    let vectors: Vec<_> = groups.iter().map(|group| ParallelVec::new(group.len)).collect();
    let chunks = chunks.into_iter().zip(starts).collect();
    let parts =
        jobs(context, chunks, large, |((thread, chunk), starts): ((usize, Chunk<T>), _)| {
            chunk.scatter(&targets[thread], starts, &vectors)
        })?;
    let filled = Part::leave(parts.into_iter().flatten());
    // SAFETY: these are their parts.
    let items = unsafe { ParallelVec::complete_all(vectors, filled) };
    let keys = keys.into_iter().map(|keys| keys.into_iter().map(|key| Some(key.key)).collect());
    let mut keys: Vec<Vec<_>> = keys.collect();
    let groups =
        groups.into_iter().zip(items).map(|(GroupPlan { key: (thread, number), .. }, items)| {
            let key = keys[thread][number as usize].take();
            Group { key: key.expect("every group has a key of its own"), items }
        });
    Ok(groups.collect())
}

/// Finds the groups, in the order of their first items.
fn merge<K: Eq, T>(
    context: &Context,
    keys: &[Vec<NumberedKey<K>>],
    chunks: &[(usize, Chunk<T>)],
) -> Result<ScatterPlan, Halted> {
    let mut table = HashTable::<u32>::new();
    let mut groups = Vec::<GroupPlan>::new();
    let mut targets: Vec<_> = keys.iter().map(|keys| vec![NONE; keys.len()]).collect();
    let mut starts = Vec::with_capacity(chunks.len());
    for (thread, chunk) in chunks {
        if context.is_halted() {
            return Err(Halted);
        }
        let targets = &mut targets[*thread];
        let before = chunk.runs.iter().map(|Run { number, count }| {
            let target = &mut targets[*number as usize];
            if *target == NONE {
                let NumberedKey { hash, key, .. } = &keys[*thread][*number as usize];
                let found = table.find(*hash, |index| {
                    let GroupPlan { hash: other, key: (thread, number), .. } =
                        &groups[*index as usize];
                    other == hash && keys[*thread][*number as usize].key == *key
                });
                *target = found.copied().unwrap_or_else(|| {
                    let index = small(groups.len());
                    table.insert_unique(*hash, index, |index| groups[*index as usize].hash);
                    groups.push(GroupPlan { hash: *hash, key: (*thread, *number), len: 0 });
                    index
                });
            }
            let len = &mut groups[*target as usize].len;
            std::mem::replace(len, *len + count)
        });
        starts.push(before.collect());
    }
    Ok(ScatterPlan { groups, targets, starts })
}

impl<T> Chunk<T> {
    /// Moves the items into their groups.
    fn scatter<'a>(
        self,
        targets: &[u32],
        starts: Vec<usize>,
        vectors: &'a [ParallelVec<T>],
    ) -> Vec<Part<'a, T>> {
        let runs = self.runs.into_iter().zip(starts);
        let parts = runs.map(|(Run { number, count }, start)| {
            let vector = &vectors[targets[number as usize] as usize];
            // SAFETY: the merge gives every run of a group the slots behind those of the run
            // before.
            unsafe { vector.part(start..start + count) }
        });
        let mut parts: Vec<_> = parts.collect();
        for (item, run) in self.items.into_iter().zip(self.runs_of) {
            parts[run as usize].push(item);
        }
        parts
    }
}
