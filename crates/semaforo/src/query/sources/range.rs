//! A range of numbers.

use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};

use super::cursor::Cursor;
use super::{AsParallel, IntoParallel};
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::settings::Query;

/// The whole numbers from one to another.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<N> {
    first: N,
    count: usize,
}

/// An opened [`Numbers`].
#[derive(Debug)]
pub struct NumbersSource<N> {
    first: N,
    cursor: Cursor,
}

/// The numbers of a chunk.
#[derive(Debug)]
pub struct NumbersChunk<N> {
    first: N,
    offsets: Range<usize>,
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Numbers<$number> {
            /// # Panics
            /// If there are more than `usize::MAX`.
            fn new(first: $number, distance: i128) -> Self {
                let count = usize::try_from(distance.max(0)).expect("a range of more than usize::MAX numbers");
                Self { first, count }
            }
        }

        impl AsParallel for Range<$number> {
            type Pipeline<'a> = Numbers<$number>;

            fn as_parallel(&self) -> Query<Numbers<$number>> {
                self.clone().into_parallel()
            }
        }

        impl AsParallel for RangeInclusive<$number> {
            type Pipeline<'a> = Numbers<$number>;

            fn as_parallel(&self) -> Query<Numbers<$number>> {
                self.clone().into_parallel()
            }
        }

        impl IntoParallel for Range<$number> {
            type Pipeline = Numbers<$number>;

            fn into_parallel(self) -> Query<Numbers<$number>> {
                Query::new(Numbers::<$number>::new(self.start, self.end as i128 - self.start as i128))
            }
        }

        impl IntoParallel for RangeInclusive<$number> {
            type Pipeline = Numbers<$number>;

            fn into_parallel(self) -> Query<Numbers<$number>> {
                let (first, last) = (*self.start(), *self.end());
                // One that was iterated to its end is empty, and only it knows.
                let distance = if self.is_empty() { 0 } else { last as i128 - first as i128 + 1 };
                Query::new(Numbers::<$number>::new(first, distance))
            }
        }

        impl Pipeline for Numbers<$number> {
            type Item = $number;
            type Source = NumbersSource<$number>;

            fn open(self, _: &Context) -> Result<NumbersSource<$number>, Halted> {
                Ok(NumbersSource { first: self.first, cursor: Cursor::new(self.count) })
            }
        }

        impl Source for NumbersSource<$number> {
            type Item = $number;
            type Chunk<'a> = NumbersChunk<$number>;

            #[inline]
            fn claim(&self, want: Want) -> Option<Claimed<NumbersChunk<$number>>> {
                let offsets = self.cursor.claim(want)?;
                let Range { start, end } = offsets;
                Some(Claimed { start, end, items: NumbersChunk { first: self.first, offsets } })
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
                self.first = self.first.wrapping_add(range.start as $number);
                self.cursor = Cursor::new(range.len());
            }
        }

        impl Iterator for NumbersChunk<$number> {
            type Item = $number;

            #[inline]
            fn next(&mut self) -> Option<$number> {
                let first = self.first;
                // An offset may be too large for the type; what it leads to is not.
                self.offsets.next().map(|offset| first.wrapping_add(offset as $number))
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.offsets.size_hint()
            }

            #[inline]
            fn fold<B, F: FnMut(B, $number) -> B>(self, start: B, mut step: F) -> B {
                let first = self.first;
                self.offsets.fold(start, |state, offset| {
                    step(state, first.wrapping_add(offset as $number))
                })
            }
        }

        impl ExactSizeIterator for NumbersChunk<$number> {}
    )*};
}

numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);
