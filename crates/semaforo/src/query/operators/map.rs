//! Something else in place of each item.

use std::iter;

use super::{debug_as_name, like_its_input};
use crate::query::context::{Context, Halted};
use crate::query::limits::Limits;
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::settings::Query;

impl<P: Pipeline, L: Limits> Query<P, L> {
    /// What a function makes of each item. (LINQ's `Select`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((1..=3).as_parallel().map(|n| n * n).to_vec(), [1, 4, 9]);
    /// ```
    pub fn map<U: Send, F>(self, function: F) -> Query<Map<P, F>, L>
    where
        F: Fn(P::Item) -> U + Send + Sync,
    {
        self.wrap(|input, _| Map { input, function })
    }
}

/// [`Query::map`], described or opened.
#[derive(Clone)]
pub struct Map<P, F> {
    input: P,
    function: F,
}

debug_as_name!(Map<P, F>);

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
