//! Sorted.

use std::cmp::Ordering;
use std::fmt;

use crate::query::context::{Context, Halted};
use crate::query::gather::gather;
use crate::query::limits::Limits;
use crate::query::pipeline::Pipeline;
use crate::query::settings::Query;
use crate::query::sort::sort;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Limits> Query<P, L> {
    /// The items sorted by a key. Those with equal keys stay in their order, or are sorted by another
    /// one: [`then_by`](Self::then_by). From here on the query is ordered.
    ///
    /// The key is made anew for every comparison.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let words = ["pear", "fig", "apple", "kiwi", "date"];
    /// let sorted = words.as_parallel().cloned().order_by(|word| word.len()).then_by_descending(|word| *word);
    /// assert_eq!(sorted.to_vec(), ["fig", "pear", "kiwi", "date", "apple"]);
    /// ```
    pub fn order_by<K: Ord, F>(self, key: F) -> Query<OrderBy<P, ByKey<F>>, L>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.ordered_with(ByKey(key))
    }

    /// The items sorted by a key, the largest first. Those with equal keys stay in their order.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([1, 3, 2].into_parallel().order_by_descending(|n| *n).to_vec(), [3, 2, 1]);
    /// ```
    pub fn order_by_descending<K: Ord, F>(
        self,
        key: F,
    ) -> Query<OrderBy<P, Descending<ByKey<F>>>, L>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.ordered_with(Descending(ByKey(key)))
    }

    /// The items sorted by a comparison. Those that are equal by it stay in their order.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let numbers = [2.5, -1.0, 0.5].into_parallel();
    /// assert_eq!(numbers.order_with(f64::total_cmp).to_vec(), [-1.0, 0.5, 2.5]);
    /// ```
    pub fn order_with<F>(self, compare: F) -> Query<OrderBy<P, With<F>>, L>
    where
        F: Fn(&P::Item, &P::Item) -> Ordering + Send + Sync,
    {
        self.ordered_with(With(compare))
    }

    fn ordered_with<C: Compare<P::Item>>(self, compare: C) -> Query<OrderBy<P, C>, L> {
        self.wrap(|input, _| OrderBy { input, compare }).as_ordered()
    }
}

impl<P: Pipeline, C: Compare<P::Item>, L: Limits> Query<OrderBy<P, C>, L> {
    /// Sorts the items that are equal so far by another key.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let dates = [(2024, 5), (2023, 9), (2024, 1)].into_parallel();
    /// let sorted = dates.order_by(|(year, _)| *year).then_by(|(_, month)| *month);
    /// assert_eq!(sorted.to_vec(), [(2023, 9), (2024, 1), (2024, 5)]);
    /// ```
    pub fn then_by<K: Ord, F>(self, key: F) -> Query<OrderBy<P, Then<C, ByKey<F>>>, L>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.then(ByKey(key))
    }

    /// Sorts the items that are equal so far by another key, the largest first.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let dates = [(2024, 5), (2023, 9), (2024, 12)].into_parallel();
    /// let sorted = dates.order_by(|(year, _)| *year).then_by_descending(|(_, month)| *month);
    /// assert_eq!(sorted.to_vec(), [(2023, 9), (2024, 12), (2024, 5)]);
    /// ```
    pub fn then_by_descending<K: Ord, F>(
        self,
        key: F,
    ) -> Query<OrderBy<P, Then<C, Descending<ByKey<F>>>>, L>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.then(Descending(ByKey(key)))
    }

    /// Sorts the items that are equal so far by a comparison.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let scores = [("b", 1.5), ("a", 2.5), ("a", 0.5_f64)].into_parallel();
    /// let sorted = scores.order_by(|(name, _)| *name).then_with(|one, other| one.1.total_cmp(&other.1));
    /// assert_eq!(sorted.to_vec(), [("a", 0.5), ("a", 2.5), ("b", 1.5)]);
    /// ```
    pub fn then_with<F>(self, compare: F) -> Query<OrderBy<P, Then<C, With<F>>>, L>
    where
        F: Fn(&P::Item, &P::Item) -> Ordering + Send + Sync,
    {
        self.then(With(compare))
    }

    fn then<D: Compare<P::Item>>(self, next: D) -> Query<OrderBy<P, Then<C, D>>, L> {
        self.wrap(|OrderBy { input, compare }, _| OrderBy { input, compare: Then(compare, next) })
            .as_ordered()
    }
}

/// [`Query::order_by`] and its kin.
#[derive(Clone, Debug)]
pub struct OrderBy<P, C> {
    input: P,
    compare: C,
}

impl<P: Pipeline, C: Compare<P::Item>> Pipeline for OrderBy<P, C> {
    type Item = P::Item;
    type Source = OwnedSource<P::Item>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let items = gather(context, self.input.open(context)?)?;
        let sorted = sort(context, items, |one, other| self.compare.compare(one, other))?;
        Ok(OwnedSource::new(sorted))
    }
}

/// What an order goes by.
pub trait Compare<T>: Send + Sync {
    /// Which of two comes first.
    fn compare(&self, one: &T, other: &T) -> Ordering;
}

/// The order of keys.
#[derive(Clone, Copy)]
pub struct ByKey<F>(F);

/// The order of a function.
#[derive(Clone, Copy)]
pub struct With<F>(F);

/// The other way round.
#[derive(Clone, Copy, Debug)]
pub struct Descending<C>(C);

/// One order, and another for those that are equal in the first.
#[derive(Clone, Copy, Debug)]
pub struct Then<C, D>(C, D);

impl<T, K: Ord, F: Fn(&T) -> K + Send + Sync> Compare<T> for ByKey<F> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        (self.0)(one).cmp(&(self.0)(other))
    }
}

impl<T, F: Fn(&T, &T) -> Ordering + Send + Sync> Compare<T> for With<F> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        (self.0)(one, other)
    }
}

impl<T, C: Compare<T>> Compare<T> for Descending<C> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        self.0.compare(other, one)
    }
}

impl<T, C: Compare<T>, D: Compare<T>> Compare<T> for Then<C, D> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        self.0.compare(one, other).then_with(|| self.1.compare(one, other))
    }
}

impl<F> fmt::Debug for ByKey<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByKey")
    }
}

impl<F> fmt::Debug for With<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("With")
    }
}
