//! The smallest, the largest, and the average.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::fold::fold;
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::pipeline::{Pipeline, Source};
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The smallest item; the first of several.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([3, 1, 2].as_parallel().min(), Some(&1));
    /// ```
    pub fn min(self) -> L::Output<Option<P::Item>>
    where
        P::Item: Ord,
    {
        self.min_by(P::Item::cmp)
    }

    /// The largest item; the last of several.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([3, 1, 2].as_parallel().max(), Some(&3));
    /// ```
    pub fn max(self) -> L::Output<Option<P::Item>>
    where
        P::Item: Ord,
    {
        self.max_by(P::Item::cmp)
    }

    /// The smallest item by a comparison; the first of several.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([0.5, -1.5].into_parallel().min_by(f64::total_cmp), Some(-1.5));
    /// ```
    pub fn min_by<F>(self, compare: F) -> L::Output<Option<P::Item>>
    where
        F: Fn(&P::Item, &P::Item) -> Ordering + Sync,
    {
        self.execute(|context, source| extreme(context, &source, false, compare))
    }

    /// The largest item by a comparison; the last of several.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([0.5, -1.5].into_parallel().max_by(f64::total_cmp), Some(0.5));
    /// ```
    pub fn max_by<F>(self, compare: F) -> L::Output<Option<P::Item>>
    where
        F: Fn(&P::Item, &P::Item) -> Ordering + Sync,
    {
        self.execute(|context, source| extreme(context, &source, true, compare))
    }

    /// The item with the smallest key; the first of several. (LINQ's `MinBy`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!(["three", "one"].as_parallel().min_by_key(|word| word.len()), Some(&"one"));
    /// ```
    #[doc(alias = "MinBy")]
    pub fn min_by_key<K: Ord + Send, F>(self, key: F) -> L::Output<Option<P::Item>>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.extreme_by_key(false, key)
    }

    /// The item with the largest key; the last of several. (LINQ's `MaxBy`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!(["three", "one"].as_parallel().max_by_key(|word| word.len()), Some(&"three"));
    /// ```
    #[doc(alias = "MaxBy")]
    pub fn max_by_key<K: Ord + Send, F>(self, key: F) -> L::Output<Option<P::Item>>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.extreme_by_key(true, key)
    }

    fn extreme_by_key<K: Ord + Send, F>(self, largest: bool, key: F) -> L::Output<Option<P::Item>>
    where
        F: Fn(&P::Item) -> K + Send + Sync,
    {
        self.map(move |item| (key(&item), item)).execute(|context, source| {
            let found = extreme(context, &source, largest, |one, other| one.0.cmp(&other.0))?;
            Ok(found.map(|(_, item)| item))
        })
    }

    /// The sum of all items divided by their number; none if there are none.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([1, 2, 6].as_parallel().average(), Some(3.0));
    /// ```
    pub fn average(self) -> L::Output<Option<f64>>
    where
        P::Item: Average,
    {
        type Sum<T> = <T as Averaged>::Sum;
        self.execute(|context, source| {
            let seed = || (Sum::<P::Item>::default(), 0);
            let sums = fold(context, &source, seed, |(sum, count), item| {
                (P::Item::add(sum, item.value()), count + 1)
            })?;
            let whole = sums
                .into_iter()
                .reduce(|one, other| (P::Item::add(one.0, other.0), one.1 + other.1));
            Ok(whole.and_then(|(sum, count)| (count > 0).then(|| P::Item::quotient(sum, count))))
        })
    }
}

/// Numbers, and references to numbers, of which there is an [average](Query::average).
///
/// Whole numbers are added up exactly, as `i128`.
pub trait Average: Averaged {}

/// How an average is made. Not named outside of the library, so that it alone implements it.
pub trait Averaged: Send {
    type Sum: Default + Send;

    fn value(self) -> Self::Sum;
    fn add(one: Self::Sum, other: Self::Sum) -> Self::Sum;
    fn quotient(sum: Self::Sum, count: usize) -> f64;
}

macro_rules! average {
    ($($number:ty)* => $sum:ty) => {$(
        average!(one $number, $sum, |number| number as $sum);
        average!(one &$number, $sum, |number| *number as $sum);
    )*};
    (one $number:ty, $sum:ty, $value:expr) => {
        impl Average for $number {}

        impl Averaged for $number {
            type Sum = $sum;

            #[inline]
            fn value(self) -> $sum {
                let value: fn($number) -> $sum = $value;
                value(self)
            }

            #[inline]
            fn add(one: $sum, other: $sum) -> $sum {
                one + other
            }

            fn quotient(sum: $sum, count: usize) -> f64 {
                sum as f64 / count as f64
            }
        }
    };
}

average!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize => i128);
average!(f32 f64 => f64);

/// The smallest or the largest item.
fn extreme<S: Source>(
    context: &Context,
    source: &S,
    largest: bool,
    compare: impl Fn(&S::Item, &S::Item) -> Ordering + Sync,
) -> Result<Option<S::Item>, Halted> {
    let comparing = Comparing { largest, compare };
    let found = drive(context, source, &comparing)?.into_iter().flatten();
    let best =
        found.reduce(|one, other| if comparing.is_better(&other, &one) { other } else { one });
    Ok(best.map(|(_, item)| item))
}

struct Comparing<F> {
    largest: bool,
    compare: F,
}

impl<F> Comparing<F> {
    /// Whether the new one is better than the old one, each with the position of its chunk.
    fn is_better<T>(&self, new: &(usize, T), old: &(usize, T)) -> bool
    where
        F: Fn(&T, &T) -> Ordering,
    {
        let order = (self.compare)(&new.1, &old.1).then(new.0.cmp(&old.0));
        (order == Ordering::Greater) == self.largest
    }
}

impl<T: Send, F: Fn(&T, &T) -> Ordering + Sync> Consumer<T> for Comparing<F> {
    type State = Option<(usize, T)>;

    fn start(&self) -> Self::State {
        None
    }

    fn consume(
        &self,
        state: &mut Self::State,
        (position, _): (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        let best =
            if self.largest { items.max_by(&self.compare) } else { items.min_by(&self.compare) };
        if let Some(best) = best {
            let new = (position, best);
            if state.as_ref().is_none_or(|old| self.is_better(&new, old)) {
                *state = Some(new);
            }
        }
        ControlFlow::Continue(())
    }
}
