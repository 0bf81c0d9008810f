//! A slice, whose items are references.

use std::ops::Range;

use super::cursor::Cursor;
use super::{AsParallel, IntoParallel};
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

/// The references to the items of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a, T>(&'a [T]);

impl<T: Sync> AsParallel for [T] {
    type Pipeline<'a>
        = Slice<'a, T>
    where
        T: 'a;

    fn as_parallel(&self) -> Query<Slice<'_, T>> {
        Query::new(Slice(self))
    }
}

impl<'a, T: Sync> IntoParallel for &'a [T] {
    type Pipeline = Slice<'a, T>;

    fn into_parallel(self) -> Query<Slice<'a, T>> {
        self.as_parallel()
    }
}

impl<'a, T: Sync> IntoParallel for &'a Vec<T> {
    type Pipeline = Slice<'a, T>;

    fn into_parallel(self) -> Query<Slice<'a, T>> {
        self.as_parallel()
    }
}

impl<'a, T: Sync, const N: usize> IntoParallel for &'a [T; N] {
    type Pipeline = Slice<'a, T>;

    fn into_parallel(self) -> Query<Slice<'a, T>> {
        self.as_parallel()
    }
}

impl<'a, T: Sync> Pipeline for Slice<'a, T> {
    type Item = &'a T;
    type Source = SliceSource<'a, T>;

    fn open(self, _: &Context) -> Result<SliceSource<'a, T>, Halted> {
        Ok(SliceSource { cursor: Cursor::new(self.0.len()), items: self.0 })
    }
}

/// An opened [`Slice`].
#[derive(Debug)]
pub struct SliceSource<'a, T> {
    items: &'a [T],
    cursor: Cursor,
}

impl<'a, T: Sync> Source for SliceSource<'a, T> {
    type Item = &'a T;
    type Chunk<'b>
        = std::slice::Iter<'a, T>
    where
        Self: 'b;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<std::slice::Iter<'a, T>>> {
        let Range { start, end } = self.cursor.claim(want)?;
        Some(Claimed { start, end, items: self.items[start..end].iter() })
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.cursor.remaining())
    }

    fn end(&self) -> usize {
        self.cursor.end()
    }

    fn exact(&self) -> Option<usize> {
        Some(self.cursor.end())
    }

    fn narrow(&mut self, range: Range<usize>) {
        self.items = &self.items[range];
        self.cursor = Cursor::new(self.items.len());
    }
}
