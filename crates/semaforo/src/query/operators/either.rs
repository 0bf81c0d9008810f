//! One of two sources, which is known only when it is opened.

use std::ops::Range;

use crate::query::context::{Context, Halted};
use crate::query::gather::gather;
use crate::query::pipeline::{Claimed, Source, Want};
use crate::query::sources::vector::OwnedSource;

/// A source, as it is or remade; also its chunks.
#[derive(Debug)]
pub enum Either<A, B> {
    Left(A),
    Right(B),
}

/// The source itself if it is exact, and all its items in a vector otherwise.
pub(crate) fn exact<S: Source>(
    context: &Context,
    source: S,
) -> Result<Either<S, OwnedSource<S::Item>>, Halted> {
    Ok(match source.exact() {
        Some(_) => Either::Left(source),
        None => Either::Right(OwnedSource::new(gather(context, source)?)),
    })
}

macro_rules! on_either {
    ($this:expr, $inner:ident => $result:expr) => {
        match $this {
            Either::Left($inner) => $result,
            Either::Right($inner) => $result,
        }
    };
}

impl<A: Source, B: Source<Item = A::Item>> Source for Either<A, B> {
    type Item = A::Item;
    type Chunk<'a>
        = Either<A::Chunk<'a>, B::Chunk<'a>>
    where
        Self: 'a;

    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>> {
        match self {
            Self::Left(source) => Some(source.claim(want)?.map(Either::Left)),
            Self::Right(source) => Some(source.claim(want)?.map(Either::Right)),
        }
    }

    fn remaining(&self) -> Option<usize> {
        on_either!(self, source => source.remaining())
    }

    fn end(&self) -> usize {
        on_either!(self, source => source.end())
    }

    fn exact(&self) -> Option<usize> {
        on_either!(self, source => source.exact())
    }

    fn narrow(&mut self, range: Range<usize>) {
        on_either!(self, source => source.narrow(range));
    }

    fn into_vec(self) -> Result<Vec<A::Item>, Self> {
        match self {
            Self::Left(source) => source.into_vec().map_err(Self::Left),
            Self::Right(source) => source.into_vec().map_err(Self::Right),
        }
    }
}

impl<A: Iterator, B: Iterator<Item = A::Item>> Iterator for Either<A, B> {
    type Item = A::Item;

    #[inline]
    fn next(&mut self) -> Option<A::Item> {
        on_either!(self, items => items.next())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        on_either!(self, items => items.size_hint())
    }

    // Here the choice is made once for all items.
    #[inline]
    fn fold<S, F: FnMut(S, A::Item) -> S>(self, start: S, step: F) -> S {
        on_either!(self, items => items.fold(start, step))
    }
}
