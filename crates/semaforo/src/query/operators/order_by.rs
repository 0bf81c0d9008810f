//! Sorted.

use std::cmp::Ordering;
use std::fmt;
use std::mem::needs_drop;

use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::gather::gather;
use crate::query::pipeline::Pipeline;
use crate::query::query::Query;
use crate::query::sort::{sort, sort_by_keys};
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The items sorted by a key. Those with equal keys stay in their order, or are sorted by
    /// another one: [`then_by`](Self::then_by). From here on the query is ordered.
    ///
    /// A key should be cheap: it may be made for every comparison. (If the items are references, or
    /// the keys own memory, it is made once.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let words = ["pear", "fig", "apple", "kiwi", "date"];
    /// let words = words.as_parallel().cloned();
    /// let sorted = words.order_by(|word| word.len()).then_by_descending(|word| *word);
    /// assert_eq!(sorted.to_vec(), ["fig", "pear", "kiwi", "date", "apple"]);
    /// ```
    #[doc(alias = "OrderBy")]
    #[doc(alias = "sort")]
    pub fn order_by<K: Ord + Send, F>(self, key: F) -> Query<OrderBy<P, ByKey<F>>, L>
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
    #[doc(alias = "OrderByDescending")]
    pub fn order_by_descending<K: Ord + Send, F>(
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

impl<P: Pipeline, C: Compare<P::Item>, L: Cancellation> Query<OrderBy<P, C>, L> {
    /// Sorts the items that are equal so far by another key.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let dates = [(2024, 5), (2023, 9), (2024, 1)].into_parallel();
    /// let sorted = dates.order_by(|(year, _)| *year).then_by(|(_, month)| *month);
    /// assert_eq!(sorted.to_vec(), [(2023, 9), (2024, 1), (2024, 5)]);
    /// ```
    #[doc(alias = "ThenBy")]
    pub fn then_by<K: Ord + Send, F>(self, key: F) -> Query<OrderBy<P, Then<C, ByKey<F>>>, L>
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
    #[expect(clippy::type_complexity, reason = "it is what the query is made of")]
    #[doc(alias = "ThenByDescending")]
    pub fn then_by_descending<K: Ord + Send, F>(
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
    /// let by_name = scores.order_by(|(name, _)| *name);
    /// let sorted = by_name.then_with(|one, other| one.1.total_cmp(&other.1));
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
        let compare = &self.compare;
        // Sorting keys instead of items pays where an item is no larger than a reference, and
        // mostly one: comparisons would go all over the memory. And where a key is an allocation.
        let small = size_of::<P::Item>() <= size_of::<usize>();
        let sorted = if C::KEYS_ALONE && (small || needs_drop::<C::Key>()) {
            sort_by_keys(context, items, |item| compare.key(item), C::compare_keys)
        } else {
            sort(context, items, |one, other| compare.compare(one, other))
        };
        sorted.map(OwnedSource::new)
    }
}

/// What an order goes by.
pub trait Compare<T>: SortKey<T> {
    /// Which of two comes first.
    fn compare(&self, one: &T, other: &T) -> Ordering;
}

/// What of an item decides on its place in an order. Not named outside of the library, so that it
/// alone implements it.
pub trait SortKey<T>: Send + Sync {
    type Key: Send;

    /// Whether nothing but the key decides.
    const KEYS_ALONE: bool;

    fn key(&self, item: &T) -> Self::Key;
    fn compare_keys(one: &Self::Key, other: &Self::Key) -> Ordering;
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

impl<T, K: Ord + Send, F: Fn(&T) -> K + Send + Sync> Compare<T> for ByKey<F> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        (self.0)(one).cmp(&(self.0)(other))
    }
}

impl<T, K: Ord + Send, F: Fn(&T) -> K + Send + Sync> SortKey<T> for ByKey<F> {
    type Key = K;
    const KEYS_ALONE: bool = true;

    #[inline]
    fn key(&self, item: &T) -> K {
        (self.0)(item)
    }

    #[inline]
    fn compare_keys(one: &K, other: &K) -> Ordering {
        one.cmp(other)
    }
}

impl<T, F: Fn(&T, &T) -> Ordering + Send + Sync> Compare<T> for With<F> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        (self.0)(one, other)
    }
}

impl<T, F: Fn(&T, &T) -> Ordering + Send + Sync> SortKey<T> for With<F> {
    type Key = ();
    const KEYS_ALONE: bool = false;

    fn key(&self, _: &T) {}

    fn compare_keys((): &(), (): &()) -> Ordering {
        Ordering::Equal
    }
}

impl<T, C: Compare<T>> Compare<T> for Descending<C> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        self.0.compare(other, one)
    }
}

impl<T, C: SortKey<T>> SortKey<T> for Descending<C> {
    type Key = C::Key;
    const KEYS_ALONE: bool = C::KEYS_ALONE;

    #[inline]
    fn key(&self, item: &T) -> C::Key {
        self.0.key(item)
    }

    #[inline]
    fn compare_keys(one: &C::Key, other: &C::Key) -> Ordering {
        C::compare_keys(other, one)
    }
}

impl<T, C: Compare<T>, D: Compare<T>> Compare<T> for Then<C, D> {
    #[inline]
    fn compare(&self, one: &T, other: &T) -> Ordering {
        self.0.compare(one, other).then_with(|| self.1.compare(one, other))
    }
}

impl<T, C: SortKey<T>, D: SortKey<T>> SortKey<T> for Then<C, D> {
    type Key = (C::Key, D::Key);
    const KEYS_ALONE: bool = C::KEYS_ALONE && D::KEYS_ALONE;

    #[inline]
    fn key(&self, item: &T) -> Self::Key {
        (self.0.key(item), self.1.key(item))
    }

    #[inline]
    fn compare_keys(one: &Self::Key, other: &Self::Key) -> Ordering {
        C::compare_keys(&one.0, &other.0).then_with(|| D::compare_keys(&one.1, &other.1))
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
