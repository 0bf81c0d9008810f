//! Every item once.

use std::hash::Hash;

use super::{Concat, debug_as_name};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::hashing::Sharding;
use crate::query::hashing::distinct_set::{Identity, sieve};
use crate::query::pipeline::Pipeline;
use crate::query::query::Query;
use crate::query::sources::IntoParallel;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Every item once, where it is seen first; in any order, if the query is
    /// [unordered](Self::as_unordered).
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([3, 1, 3, 2, 1].into_parallel().distinct().to_vec(), [3, 1, 2]);
    /// ```
    pub fn distinct(self) -> Query<Distinct<P, Whole>, L>
    where
        P::Item: Hash + Eq + Sync,
    {
        self.wrap(|input, settings| Distinct { input, identity: Whole, ordered: settings.ordered })
    }

    /// The first item with every key; in any order, if the query is
    /// [unordered](Self::as_unordered).
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let words = ["one", "two", "three", "four"].as_parallel().cloned();
    /// assert_eq!(words.distinct_by(|word| word.len()).to_vec(), ["one", "three", "four"]);
    /// ```
    #[doc(alias = "DistinctBy")]
    pub fn distinct_by<K, F>(self, key: F) -> Query<Distinct<P, By<F>>, L>
    where
        K: Hash + Eq + Send + Sync,
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.wrap(|input, settings| Distinct {
            input,
            identity: By(key),
            ordered: settings.ordered,
        })
    }

    /// Every item of this query and of another, once.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([1, 2, 1].into_parallel().union(vec![3, 2]).to_vec(), [1, 2, 3]);
    /// ```
    pub fn union<Q>(self, other: Q) -> Query<Distinct<Concat<P, Q::Pipeline>, Whole>, L>
    where
        P::Item: Hash + Eq + Sync,
        Q: IntoParallel<Pipeline: Pipeline<Item = P::Item>>,
    {
        self.concat(other).distinct()
    }
}

/// [`Query::distinct`] and its kin.
#[derive(Clone)]
pub struct Distinct<P, D> {
    input: P,
    identity: D,
    ordered: bool,
}

debug_as_name!(Distinct<P, D>, By<F>);

impl<P: Pipeline, D: Identity<P::Item>> Pipeline for Distinct<P, D> {
    type Item = P::Item;
    type Source = OwnedSource<P::Item>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let input = self.input.open(context)?;
        let sharding = Sharding::new(context.extra_workers.threads());
        let seen = sieve(context, &input, &sharding, &self.identity, |_, _| true)?;
        seen.into_items(context, self.ordered, D::join).map(OwnedSource::new)
    }
}

/// Items are the same if they are equal.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

/// Items are the same if their keys are equal.
#[derive(Clone, Copy)]
pub struct By<F>(F);

impl<T: Hash + Eq + Send + Sync> Identity<T> for Whole {
    type Key = T;
    type Rest = ();

    fn split(&self, item: T) -> (T, ()) {
        (item, ())
    }

    fn join(key: T, (): ()) -> T {
        key
    }
}

impl<T: Send, K: Hash + Eq + Send + Sync, F: Fn(&T) -> K + Send + Sync> Identity<T> for By<F> {
    type Key = K;
    type Rest = T;

    fn split(&self, item: T) -> (K, T) {
        ((self.0)(&item), item)
    }

    fn join(_: K, item: T) -> T {
        item
    }
}
