//! Items that are, or are not, among those of another query.

use std::hash::Hash;

use super::Whole;
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::hashing::Sharding;
use crate::query::hashing::distinct_set::sieve;
use crate::query::pipeline::Pipeline;
use crate::query::query::Query;
use crate::query::sources::IntoParallel;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Every item that another query also has, once, where it is seen first in this one; in any
    /// order, if this query is [unordered](Self::as_unordered).
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([4, 1, 2, 4].into_parallel().intersect(2..9).to_vec(), [4, 2]);
    /// ```
    pub fn intersect<Q>(self, other: Q) -> Query<Intersect<P, Q::Pipeline>, L>
    where
        P::Item: Hash + Eq + Sync,
        Q: IntoParallel<Pipeline: Pipeline<Item = P::Item>>,
    {
        self.wrap(|input, settings| Intersect {
            input,
            other: other.into_parallel().pipeline,
            ordered: settings.ordered,
        })
    }

    /// Every item that another query does not have, once, where it is seen first in this one; in
    /// any order, if this query is [unordered](Self::as_unordered).
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([4, 1, 2, 1].into_parallel().except(2..9).to_vec(), [1]);
    /// ```
    pub fn except<Q>(self, other: Q) -> Query<Except<P, Q::Pipeline>, L>
    where
        P::Item: Hash + Eq + Sync,
        Q: IntoParallel<Pipeline: Pipeline<Item = P::Item>>,
    {
        self.wrap(|input, settings| Except {
            input,
            other: other.into_parallel().pipeline,
            ordered: settings.ordered,
        })
    }
}

/// [`Query::intersect`].
#[derive(Clone, Debug)]
pub struct Intersect<P, Q> {
    input: P,
    other: Q,
    ordered: bool,
}

/// [`Query::except`].
#[derive(Clone, Debug)]
pub struct Except<P, Q> {
    input: P,
    other: Q,
    ordered: bool,
}

impl<P, Q> Pipeline for Intersect<P, Q>
where
    P: Pipeline<Item: Hash + Eq + Sync>,
    Q: Pipeline<Item = P::Item>,
{
    type Item = P::Item;
    type Source = OwnedSource<P::Item>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        compared(context, self.input, self.other, self.ordered, true)
    }
}

impl<P, Q> Pipeline for Except<P, Q>
where
    P: Pipeline<Item: Hash + Eq + Sync>,
    Q: Pipeline<Item = P::Item>,
{
    type Item = P::Item;
    type Source = OwnedSource<P::Item>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        compared(context, self.input, self.other, self.ordered, false)
    }
}

/// The items of one that are in the other, or that are not.
fn compared<P, Q>(
    context: &Context,
    input: P,
    other: Q,
    ordered: bool,
    wanted: bool,
) -> Result<OwnedSource<P::Item>, Halted>
where
    P: Pipeline<Item: Hash + Eq + Sync>,
    Q: Pipeline<Item = P::Item>,
{
    let sharding = Sharding::new(context.extra_workers.threads());
    let others = sieve(context, &other.open(context)?, &sharding, &Whole, |_, _| true)?;
    let seen = sieve(context, &input.open(context)?, &sharding, &Whole, |hash, key| {
        others.contains(sharding.shard(hash), hash, key) == wanted
    })?;
    seen.into_items(context, ordered, |item, ()| item).map(OwnedSource::new)
}
