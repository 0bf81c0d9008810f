//! A look at every item on its way.

use std::iter;

use super::{debug_as_name, like_its_input};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Calls a function with every item that passes, for people who debug.
    ///
    /// Threads are ahead of one another: items pass in no particular order, and more than an early
    /// ending needs.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let even = (0..10).as_parallel().inspect(|n| println!("saw {n}")).filter(|n| n % 2 == 0);
    /// assert_eq!(even.count(), 5);
    /// ```
    pub fn inspect<F>(self, function: F) -> Query<Inspect<P, F>, L>
    where
        F: Fn(&P::Item) + Send + Sync,
    {
        self.wrap(|input, _| Inspect { input, function })
    }
}

/// [`Query::inspect`], described or opened.
#[derive(Clone)]
pub struct Inspect<P, F> {
    input: P,
    function: F,
}

debug_as_name!(Inspect<P, F>);

impl<P: Pipeline, F: Fn(&P::Item) + Send + Sync> Pipeline for Inspect<P, F> {
    type Item = P::Item;
    type Source = Inspect<P::Source, F>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        Ok(Inspect { input: self.input.open(context)?, function: self.function })
    }
}

impl<S: Source, F: Fn(&S::Item) + Send + Sync> Source for Inspect<S, F> {
    type Item = S::Item;
    type Chunk<'a>
        = iter::Inspect<S::Chunk<'a>, &'a F>
    where
        Self: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        Some(self.input.claim(want)?.map(|items| items.inspect(&self.function)))
    }

    like_its_input!(exact input);
}
