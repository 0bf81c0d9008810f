//! Items with the same key, together.

use std::hash::Hash;

use super::debug_as_name;
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::hashing::groups::groups;
use crate::query::pipeline::Pipeline;
use crate::query::query::Query;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The items in groups that have the same key. Groups come in the order in which their keys are
    /// first seen, and their items in theirs; both in any order, if the query is
    /// [unordered](Self::as_unordered).
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
    #[doc(alias = "GroupBy")]
    #[doc(alias = "ToLookup")]
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
        groups(context, &input, self.ordered, self.key).map(OwnedSource::new)
    }
}
