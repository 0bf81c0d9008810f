//! Pairs of items: with those of another query, or with their numbers.

use std::iter;
use std::ops::{Range, RangeFrom};
use std::sync::{Mutex, PoisonError};

use super::take::prefix;
use super::{Either, exact};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;
use crate::query::sources::IntoParallel;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The first item with the first of another query or source, the second with the second, and so
    /// on for as long as there are both.
    ///
    /// An input of which it is not known which item is how-many-eth (it was filtered, say) is put
    /// into a vector first.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let names = ["Ada", "Alan", "Edsger"];
    /// let pairs = names.as_parallel().zip(1..100).map(|(name, n)| format!("{n} {name}"));
    /// assert_eq!(pairs.to_vec(), ["1 Ada", "2 Alan", "3 Edsger"]);
    /// ```
    pub fn zip<Q: IntoParallel>(self, other: Q) -> Query<Zip<P, Q::Pipeline>, L> {
        self.wrap(|left, _| Zip { left, right: other.into_parallel().pipeline })
    }

    /// Every item with its number, from zero. (In LINQ, `Select` with an index.)
    ///
    /// What was filtered is put into a vector first.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let letters = ['a', 'b', 'c'].as_parallel().enumerate().filter(|(n, _)| n % 2 == 0);
    /// assert_eq!(letters.to_vec(), [(0, &'a'), (2, &'c')]);
    /// ```
    #[doc(alias = "Index")]
    pub fn enumerate(self) -> Query<Enumerate<P>, L> {
        self.wrap(|input, _| Enumerate { input })
    }
}

/// [`Query::zip`].
#[derive(Clone, Debug)]
pub struct Zip<P, Q> {
    pub(crate) left: P,
    pub(crate) right: Q,
}

type Exact<S> = Either<S, OwnedSource<<S as Source>::Item>>;

impl<P: Pipeline, Q: Pipeline> Pipeline for Zip<P, Q> {
    type Item = (P::Item, Q::Item);
    type Source = ZipSource<Exact<P::Source>, Exact<Q::Source>>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let (left, right) = (self.left.open(context)?, self.right.open(context)?);
        // One of them may be endless.
        let (left, right) = match (left.exact(), right.exact()) {
            (None, Some(most)) => {
                let left = OwnedSource::new(prefix(context, &left, most)?);
                (Either::Right(left), Either::Left(right))
            }
            (None, None) => {
                let left = exact(context, left)?;
                let right = prefix(context, &right, left.exact().unwrap_or(usize::MAX))?;
                (left, Either::Right(OwnedSource::new(right)))
            }
            (Some(most), None) => {
                let right = prefix(context, &right, most)?;
                (Either::Left(left), Either::Right(OwnedSource::new(right)))
            }
            (Some(_), Some(_)) => (Either::Left(left), Either::Left(right)),
        };
        Ok(ZipSource::new(left, right))
    }
}

/// An opened [`Zip`].
#[derive(Debug)]
pub struct ZipSource<A, B> {
    left: A,
    right: B,
    len: usize,
    /// Two claims that belong together are made under it.
    both: Mutex<()>,
}

impl<A: Source, B: Source> ZipSource<A, B> {
    /// Both have to be exact.
    pub(crate) fn new(mut left: A, mut right: B) -> Self {
        let [left_len, right_len] = [left.exact(), right.exact()].map(Option::unwrap_or_default);
        let len = left_len.min(right_len);
        if left_len > len {
            left.narrow(0..len);
        }
        if right_len > len {
            right.narrow(0..len);
        }
        Self { left, right, len, both: Mutex::new(()) }
    }
}

impl<A: Source, B: Source> Source for ZipSource<A, B> {
    type Item = (A::Item, B::Item);
    type Chunk<'a>
        = iter::Zip<A::Chunk<'a>, B::Chunk<'a>>
    where
        Self: 'a;

    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        let _both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.left.claim(want)?;
        let right = self.right.claim(Want::exactly(left.positions()))?;
        Some(left.map(|items| items.zip(right.items)))
    }

    fn remaining(&self) -> Option<usize> {
        self.left.remaining()
    }

    fn end(&self) -> usize {
        self.len
    }

    fn exact(&self) -> Option<usize> {
        Some(self.len)
    }

    fn narrow(&mut self, range: Range<usize>) {
        self.left.narrow(range.clone());
        self.right.narrow(range.clone());
        self.len = range.len();
    }
}

/// [`Query::enumerate`].
#[derive(Clone, Debug)]
pub struct Enumerate<P> {
    input: P,
}

impl<P: Pipeline> Pipeline for Enumerate<P> {
    type Item = (usize, P::Item);
    type Source = EnumerateSource<Exact<P::Source>>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let input = exact(context, self.input.open(context)?)?;
        Ok(EnumerateSource { input, first: 0 })
    }
}

/// An opened [`Enumerate`].
#[derive(Debug)]
pub struct EnumerateSource<S> {
    input: S,
    /// The number of the item at position zero.
    first: usize,
}

impl<S: Source> Source for EnumerateSource<S> {
    type Item = (usize, S::Item);
    type Chunk<'a>
        = iter::Zip<RangeFrom<usize>, S::Chunk<'a>>
    where
        Self: 'a;

    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        let claimed = self.input.claim(want)?;
        let first = self.first + claimed.start;
        Some(claimed.map(|items| (first..).zip(items)))
    }

    fn remaining(&self) -> Option<usize> {
        self.input.remaining()
    }

    fn end(&self) -> usize {
        self.input.end()
    }

    fn exact(&self) -> Option<usize> {
        self.input.exact()
    }

    fn narrow(&mut self, range: Range<usize>) {
        self.first += range.start;
        self.input.narrow(range);
    }
}
