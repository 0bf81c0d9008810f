//! One value made of all items.

use std::iter::Sum;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::pipeline::{Pipeline, Source};
use crate::query::query::Query;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Calls a function with every item, on whatever thread has it, in no particular order.
    /// (PLINQ's `ForAll`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let total = AtomicU32::new(0);
    /// (1..=10).as_parallel().for_all(|n| {
    ///     total.fetch_add(n, Ordering::Relaxed);
    /// });
    /// assert_eq!(total.into_inner(), 55);
    /// ```
    #[doc(alias = "ForAll")]
    pub fn for_all<F: Fn(P::Item) + Sync>(self, function: F) -> L::Output<()> {
        self.execute(|context, source| {
            fold(context, &source, || (), |(), item| function(item)).map(drop)
        })
    }

    /// Folds all items into one value, in three steps: every thread begins with a `seed`, folds the
    /// items that it gets into it, and in the end the threads' values are merged.
    ///
    /// Which thread gets which items is not determined: the result should not depend on it.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let digits = (0..1000_u32).as_parallel().aggregate(
    ///     || [0; 10],
    ///     |mut counts, n| {
    ///         counts[n as usize % 10] += 1;
    ///         counts
    ///     },
    ///     |one, other| std::array::from_fn(|digit| one[digit] + other[digit]),
    /// );
    /// assert_eq!(digits, [100; 10]);
    /// ```
    #[doc(alias = "Aggregate")]
    #[doc(alias = "reduce")]
    #[doc(alias = "fold")]
    pub fn aggregate<A, S, F, M>(self, seed: S, fold_one: F, merge: M) -> L::Output<A>
    where
        A: Send,
        S: Fn() -> A + Sync,
        F: Fn(A, P::Item) -> A + Sync,
        M: Fn(A, A) -> A,
    {
        self.execute(|context, source| {
            let values = fold(context, &source, &seed, fold_one)?;
            Ok(values.into_iter().reduce(merge).unwrap_or_else(seed))
        })
    }

    /// How many items there are.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..1000).as_parallel().filter(|n| n % 7 == 0).count(), 143);
    /// ```
    #[doc(alias = "LongCount")]
    pub fn count(self) -> L::Output<usize> {
        self.execute(|context, source| {
            Ok(fold(context, &source, || 0, |count, _| count + 1)?.into_iter().sum())
        })
    }

    /// The sum of all items. The order in which they are added is not determined; with
    /// floating-point numbers the last digits can differ from run to run.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((1..=100_u64).as_parallel().sum::<u64>(), 5050);
    /// ```
    pub fn sum<S: Send + Sum<P::Item> + Sum<S>>(self) -> L::Output<S> {
        self.execute(|context, source| {
            let sums = drive(context, &source, &Summing::<S>(PhantomData))?;
            Ok(sums.into_iter().flatten().sum())
        })
    }
}

/// What each thread has made of its items, beginning with a seed.
pub(crate) fn fold<S: Source, A: Send>(
    context: &Context,
    source: &S,
    seed: impl Fn() -> A + Sync,
    step: impl Fn(A, S::Item) -> A + Sync,
) -> Result<Vec<A>, Halted> {
    let values = drive(context, source, &Folding { seed, step })?;
    Ok(values.into_iter().flatten().collect())
}

struct Folding<S, F> {
    seed: S,
    step: F,
}

impl<T, A: Send, S: Fn() -> A + Sync, F: Fn(A, T) -> A + Sync> Consumer<T> for Folding<S, F> {
    type State = Option<A>;

    fn start(&self) -> Option<A> {
        Some((self.seed)())
    }

    #[inline]
    fn consume(
        &self,
        state: &mut Option<A>,
        _: (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        // It stays gone if the step panics; then no chunk follows.
        if let Some(value) = state.take() {
            *state = Some(items.fold(value, &self.step));
        }
        ControlFlow::Continue(())
    }
}

struct Summing<S>(PhantomData<fn() -> S>);

impl<T, S: Send + Sum<T> + Sum<S>> Consumer<T> for Summing<S> {
    type State = Option<S>;

    fn start(&self) -> Option<S> {
        None
    }

    #[inline]
    fn consume(
        &self,
        state: &mut Option<S>,
        _: (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        let sum = items.sum();
        *state = Some(match state.take() {
            Some(before) => [before, sum].into_iter().sum(),
            None => sum,
        });
        ControlFlow::Continue(())
    }
}
