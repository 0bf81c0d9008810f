//! Something else in place of each item.

use std::iter;

use super::{debug_as_name, like_its_input};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// What a function makes of each item. (LINQ's `Select`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((1..=3).as_parallel().map(|n| n * n).to_vec(), [1, 4, 9]);
    /// ```
    #[doc(alias = "Select")]
    pub fn map<U: Send, F>(self, function: F) -> Query<Map<P, F>, L>
    where
        F: Fn(P::Item) -> U + Send + Sync,
    {
        self.wrap(|input, _| Map { input, function })
    }

    /// The items themselves, where there are references to them.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let numbers = [3, 1, 2];
    /// let sorted: Vec<i32> = numbers.as_parallel().cloned().order_by(|n| *n).to_vec();
    /// assert_eq!(sorted, [1, 2, 3]);
    /// ```
    pub fn cloned<'t, T>(self) -> Query<Cloned<P>, L>
    where
        P: Pipeline<Item = &'t T>,
        T: Clone + Send + Sync + 't,
    {
        self.wrap(|input, _| Cloned { input })
    }
}

/// [`Query::map`], described or opened.
#[derive(Clone)]
pub struct Map<P, F> {
    input: P,
    function: F,
}

/// [`Query::cloned`], described or opened.
#[derive(Clone)]
pub struct Cloned<P> {
    input: P,
}

debug_as_name!(Map<P, F>, Cloned<P>);

impl<P: Pipeline, U: Send, F: Fn(P::Item) -> U + Send + Sync> Pipeline for Map<P, F> {
    type Item = U;
    type Source = Map<P::Source, F>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        Ok(Map { input: self.input.open(context)?, function: self.function })
    }
}

impl<S: Source, U: Send, F: Fn(S::Item) -> U + Send + Sync> Source for Map<S, F> {
    type Item = U;
    type Chunk<'a>
        = iter::Map<S::Chunk<'a>, &'a F>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        Some(self.input.claim(want)?.map(|items| items.map(&self.function)))
    }

    like_its_input!(exact input);
}

impl<'t, T: Clone + Send + Sync + 't, P: Pipeline<Item = &'t T>> Pipeline for Cloned<P> {
    type Item = T;
    type Source = Cloned<P::Source>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        Ok(Cloned { input: self.input.open(context)? })
    }
}

impl<'t, T: Clone + Send + Sync + 't, S: Source<Item = &'t T>> Source for Cloned<S> {
    type Item = T;
    type Chunk<'a>
        = iter::Cloned<S::Chunk<'a>>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        Some(self.input.claim(want)?.map(Iterator::cloned))
    }

    like_its_input!(exact input);
}
