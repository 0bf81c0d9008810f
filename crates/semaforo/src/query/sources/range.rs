//! A range of numbers.

use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};

use super::cursor::Cursor;
use super::{AsParallel, IntoParallel};
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

/// The whole numbers from one to another.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<N> {
    first: N,
    count: usize,
}

/// Whole numbers of which ranges can be queried: those of up to 64 bits.
///
/// A range of more than `usize::MAX` numbers, such as `0..=u64::MAX`, panics when it is to be
/// queried.
pub trait WholeNumber: Counted + Copy + Debug + PartialOrd + Send + Sync {}

/// Numbers that can be counted from one another. Not named outside of the library, so that it
/// alone implements it.
pub trait Counted: Sized {
    /// The standard library's range of these numbers, at which its adapters are best.
    type Range: Iterator<Item = Self>;

    fn distance(self, to: Self) -> i128;

    /// The number so many above this one. There is one.
    fn above(self, offset: usize) -> Self;

    /// All numbers from this one to another.
    fn up_to(self, last: Self) -> Self::Range;
}

macro_rules! whole_numbers {
    ($($number:ty)*) => {$(
        impl WholeNumber for $number {}

        impl Counted for $number {
            type Range = RangeInclusive<Self>;

            fn distance(self, to: Self) -> i128 {
                to as i128 - self as i128
            }

            #[inline]
            fn above(self, offset: usize) -> Self {
                // The offset may be too large for the type; what it leads to is not.
                self.wrapping_add(offset as $number)
            }

            #[inline]
            fn up_to(self, last: Self) -> RangeInclusive<Self> {
                self..=last
            }
        }
    )*};
}

whole_numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl<N: WholeNumber> Numbers<N> {
    /// # Panics
    /// If there are more than `usize::MAX`.
    fn new(first: N, distance: i128) -> Query<Self> {
        let count = usize::try_from(distance.max(0));
        let count = count.expect("a query over a range of more than usize::MAX numbers");
        Query::new(Self { first, count })
    }
}

impl<N: WholeNumber> AsParallel for Range<N> {
    type Pipeline<'a>
        = Numbers<N>
    where
        N: 'a;

    fn as_parallel(&self) -> Query<Numbers<N>> {
        self.clone().into_parallel()
    }
}

impl<N: WholeNumber> AsParallel for RangeInclusive<N> {
    type Pipeline<'a>
        = Numbers<N>
    where
        N: 'a;

    fn as_parallel(&self) -> Query<Numbers<N>> {
        self.clone().into_parallel()
    }
}

impl<N: WholeNumber> IntoParallel for Range<N> {
    type Pipeline = Numbers<N>;

    fn into_parallel(self) -> Query<Numbers<N>> {
        Numbers::new(self.start, self.start.distance(self.end))
    }
}

impl<N: WholeNumber> IntoParallel for RangeInclusive<N> {
    type Pipeline = Numbers<N>;

    fn into_parallel(self) -> Query<Numbers<N>> {
        // One that was iterated to its end is empty, and only it knows.
        let more = if self.is_empty() { 0 } else { 1 + self.start().distance(*self.end()) };
        Numbers::new(*self.start(), more)
    }
}

impl<N: WholeNumber> Pipeline for Numbers<N> {
    type Item = N;
    type Source = NumbersSource<N>;

    fn open(self, _: &Context) -> Result<NumbersSource<N>, Halted> {
        Ok(NumbersSource { first: self.first, cursor: Cursor::new(self.count) })
    }
}

/// An opened [`Numbers`].
#[derive(Debug)]
pub struct NumbersSource<N> {
    first: N,
    cursor: Cursor,
}

impl<N: WholeNumber> Source for NumbersSource<N> {
    type Item = N;
    type Chunk<'a>
        = N::Range
    where
        N: 'a;

    #[inline]
    fn claim(&self, want: Want) -> Option<Claimed<N::Range>> {
        let Range { start, end } = self.cursor.claim(want)?;
        // The number behind the last may be none of the type's.
        let items = self.first.above(start).up_to(self.first.above(end - 1));
        Some(Claimed { start, end, items })
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
        self.first = self.first.above(range.start);
        self.cursor = Cursor::new(range.len());
    }
}
