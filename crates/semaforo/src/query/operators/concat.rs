//! One after the other.

use std::ops::Range;

use super::Either;
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;
use crate::query::sources::IntoParallel;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// All items, and then all of another query or source.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..3).as_parallel().concat(vec![7, 8]).to_vec(), [0, 1, 2, 7, 8]);
    /// ```
    pub fn concat<Q>(self, other: Q) -> Query<Concat<P, Q::Pipeline>, L>
    where
        Q: IntoParallel<Pipeline: Pipeline<Item = P::Item>>,
    {
        self.wrap(|first, _| Concat { first, second: other.into_parallel().pipeline, begun: 0 })
    }
}

/// [`Query::concat`], described or opened.
#[derive(Clone, Debug)]
pub struct Concat<P, Q> {
    pub(super) first: P,
    pub(super) second: Q,
    /// The position that the second one is at when this is opened.
    pub(super) begun: usize,
}

impl<P: Pipeline, Q: Pipeline<Item = P::Item>> Pipeline for Concat<P, Q> {
    type Item = P::Item;
    type Source = Concat<P::Source, Q::Source>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let first = self.first.open(context)?;
        Ok(Concat { first, second: self.second.open(context)?, begun: self.begun })
    }
}

impl<A: Source, B: Source<Item = A::Item>> Source for Concat<A, B> {
    type Item = A::Item;
    type Chunk<'a>
        = Either<A::Chunk<'a>, B::Chunk<'a>>
    where
        Self: 'a;

    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        if let Some(claimed) = self.first.claim(want) {
            return Some(claimed.map(Either::Left));
        }
        let Claimed { start, end, items } = self.second.claim(want)?;
        let after = self.first.end();
        Some(Claimed {
            start: after + (start - self.begun),
            end: after + (end - self.begun),
            items: Either::Right(items),
        })
    }

    fn remaining(&self) -> Option<usize> {
        self.first.remaining()?.checked_add(self.second.remaining()?)
    }

    fn end(&self) -> usize {
        self.first.end() + (self.second.end() - self.begun)
    }

    /// At the seam a chunk is shorter than asked for.
    fn exact(&self) -> Option<usize> {
        None
    }

    fn narrow(&mut self, _: Range<usize>) {
        unreachable!("only exact sources are narrowed");
    }
}
