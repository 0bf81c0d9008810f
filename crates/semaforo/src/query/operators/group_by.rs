//! Items with the same key, together.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::debug_as_name;
use crate::query::context::{Context, Halted};
use crate::query::hashing::partition::{Shard, partition};
use crate::query::hashing::{Place, Sharding, small};
use crate::query::jobs::jobs;
use crate::query::limits::Limits;
use crate::query::pipeline::Pipeline;
use crate::query::settings::Query;
use crate::query::sort::sort;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Limits> Query<P, L> {
    /// The items in groups that have the same key. Groups come in the order in which their keys are
    /// first seen (in any order, if the query is [unordered](Self::as_unordered)); the items of a group
    /// are in their order.
    ///
    /// ```
    /// use semaforo::query::{Group, prelude::*};
    ///
    /// let words = ["one", "three", "two", "seven"].as_parallel().cloned();
    /// let by_length = words.group_by(|word| word.len()).to_vec();
    /// assert_eq!(by_length, [
    ///     Group { key: 3, items: vec!["one", "two"] },
    ///     Group { key: 5, items: vec!["three", "seven"] },
    /// ]);
    /// ```
    pub fn group_by<K, F>(self, key: F) -> Query<GroupBy<P, F>, L>
    where
        K: Hash + Eq + Send,
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.wrap(|input, settings| GroupBy { input, key, ordered: settings.ordered })
    }
}

/// A key, and all items that have it: [`Query::group_by`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<K, T> {
    /// What they have in common.
    pub key: K,
    /// At least one.
    pub items: Vec<T>,
}

impl<K, T> IntoIterator for Group<K, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

/// [`Query::group_by`].
#[derive(Clone)]
pub struct GroupBy<P, F> {
    input: P,
    key: F,
    ordered: bool,
}

debug_as_name!(GroupBy<P, F>);

impl<P, K, F> Pipeline for GroupBy<P, F>
where
    P: Pipeline,
    K: Hash + Eq + Send,
    F: Fn(&P::Item) -> K + Send + Sync,
{
    type Item = Group<K, P::Item>;
    type Source = OwnedSource<Group<K, P::Item>>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let input = self.input.open(context)?;
        let sharding = Sharding::new(context.crew.threads());
        let shards = partition(context, &input, &sharding, &self.key)?;
        let large = shards.iter().map(Shard::len).sum::<usize>() > 10_000;
        let grouped = jobs(context, shards, large, groups_of)?;
        let mut groups: Vec<_> = grouped.into_iter().flatten().collect();
        if self.ordered {
            groups = sort(context, groups, |one, other| one.0.cmp(&other.0))?;
        }
        Ok(OwnedSource::new(groups.into_iter().map(|(_, group)| group).collect()))
    }
}

/// The groups of one shard, each with the place of its first item.
fn groups_of<K: Eq, T>(shard: Shard<K, T>) -> Vec<(Place, Group<K, T>)> {
    let mut hashes: Vec<u64> = Vec::new();
    let mut groups: Vec<(Place, Group<K, T>)> = Vec::new();
    let mut table = HashTable::new();
    shard.for_each(|place, entry| {
        let slot = table.entry(
            entry.hash,
            |index| {
                let index = *index as usize;
                hashes[index] == entry.hash && groups[index].1.key == entry.key
            },
            |index| hashes[*index as usize],
        );
        match slot {
            Entry::Occupied(slot) => groups[*slot.get() as usize].1.items.push(entry.item),
            Entry::Vacant(slot) => {
                slot.insert(small(groups.len()));
                hashes.push(entry.hash);
                groups.push((place, Group { key: entry.key, items: vec![entry.item] }));
            }
        }
    });
    groups
}
