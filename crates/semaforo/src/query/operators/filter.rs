//! Only some of the items.

use std::iter;

use super::{debug_as_name, like_its_input};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The items of which something is true. (LINQ's `Where`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..10).as_parallel().filter(|n| n % 3 == 0).to_vec(), [0, 3, 6, 9]);
    /// ```
    #[doc(alias = "Where")]
    pub fn filter<F>(self, predicate: F) -> Query<Filter<P, F>, L>
    where
        F: Fn(&P::Item) -> bool + Send + Sync,
    {
        self.wrap(|input, _| Filter { input, predicate })
    }

    /// What a function makes of each item, where it makes something of it. (In LINQ, `Select` and
    /// then `Where`; also its `OfType`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let words = ["1", "two", "3"];
    /// let numbers = words.as_parallel().filter_map(|word| word.parse::<u32>().ok());
    /// assert_eq!(numbers.to_vec(), [1, 3]);
    /// ```
    #[doc(alias = "OfType")]
    pub fn filter_map<U: Send, F>(self, function: F) -> Query<FilterMap<P, F>, L>
    where
        F: Fn(P::Item) -> Option<U> + Send + Sync,
    {
        self.wrap(|input, _| FilterMap { input, function })
    }
}

/// [`Query::filter`], described or opened.
#[derive(Clone)]
pub struct Filter<P, F> {
    input: P,
    predicate: F,
}

/// [`Query::filter_map`], described or opened.
#[derive(Clone)]
pub struct FilterMap<P, F> {
    input: P,
    function: F,
}

debug_as_name!(Filter<P, F>, FilterMap<P, F>);

impl<P: Pipeline, F: Fn(&P::Item) -> bool + Send + Sync> Pipeline for Filter<P, F> {
    type Item = P::Item;
    type Source = Filter<P::Source, F>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        Ok(Filter { input: self.input.open(context)?, predicate: self.predicate })
    }
}

impl<S: Source, F: Fn(&S::Item) -> bool + Send + Sync> Source for Filter<S, F> {
    type Item = S::Item;
    type Chunk<'a>
        = iter::Filter<S::Chunk<'a>, &'a F>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        Some(self.input.claim(want)?.map(|items| items.filter(&self.predicate)))
    }

    like_its_input!(inexact input);
}

impl<P: Pipeline, U: Send, F: Fn(P::Item) -> Option<U> + Send + Sync> Pipeline for FilterMap<P, F> {
    type Item = U;
    type Source = FilterMap<P::Source, F>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        Ok(FilterMap { input: self.input.open(context)?, function: self.function })
    }
}

impl<S: Source, U: Send, F: Fn(S::Item) -> Option<U> + Send + Sync> Source for FilterMap<S, F> {
    type Item = U;
    type Chunk<'a>
        = iter::FilterMap<S::Chunk<'a>, &'a F>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        Some(self.input.claim(want)?.map(|items| items.filter_map(&self.function)))
    }

    like_its_input!(inexact input);
}
