//! Any number of items in place of each.

use std::iter;

use super::{debug_as_name, like_its_input};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Everything that a function makes of each item, one after the other. (LINQ's `SelectMany`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let lines = ["to be", "or not to be"];
    /// let words = lines.as_parallel().flat_map(|line| line.split(' '));
    /// assert_eq!(words.to_vec(), ["to", "be", "or", "not", "to", "be"]);
    /// ```
    #[doc(alias = "SelectMany")]
    pub fn flat_map<U, F>(self, function: F) -> Query<FlatMap<P, F>, L>
    where
        U: IntoIterator<Item: Send>,
        F: Fn(P::Item) -> U + Send + Sync,
    {
        self.wrap(|input, _| FlatMap { input, function })
    }
}

/// [`Query::flat_map`], described or opened.
#[derive(Clone)]
pub struct FlatMap<P, F> {
    input: P,
    function: F,
}

debug_as_name!(FlatMap<P, F>);

impl<P, U, F> Pipeline for FlatMap<P, F>
where
    P: Pipeline,
    U: IntoIterator<Item: Send>,
    F: Fn(P::Item) -> U + Send + Sync,
{
    type Item = U::Item;
    type Source = FlatMap<P::Source, F>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        Ok(FlatMap { input: self.input.open(context)?, function: self.function })
    }
}

impl<S, U, F> Source for FlatMap<S, F>
where
    S: Source,
    U: IntoIterator<Item: Send>,
    F: Fn(S::Item) -> U + Send + Sync,
{
    type Item = U::Item;
    type Chunk<'a>
        = iter::FlatMap<S::Chunk<'a>, U, &'a F>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        Some(self.input.claim(want)?.map(|items| items.flat_map(&self.function)))
    }

    like_its_input!(inexact input);
}
