//! One item, or whether there is one. These end early.

use std::ops::ControlFlow;

use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::operators::{ZipSource, exact};
use crate::query::pipeline::{Pipeline, Source};
use crate::query::query::Query;
use crate::query::sources::IntoParallel;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Whether something is true of at least one item. (LINQ's `Any`.)
    ///
    /// When one is found no more chunks are begun; so it is for all terminals that can end early.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert!((1_u64..).chunked_parallel().any(|n| n % 1234 == 0));
    /// ```
    #[doc(alias = "Any")]
    pub fn any<F: Fn(P::Item) -> bool + Sync>(self, predicate: F) -> L::Output<bool> {
        self.execute(|context, source| {
            Ok(found(context, &source, |item| predicate(item).then_some(()))?.is_some())
        })
    }

    /// Whether something is true of every item.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert!((0..100).as_parallel().map(|n| n * 2).all(|n| n % 2 == 0));
    /// ```
    #[doc(alias = "All")]
    pub fn all<F: Fn(P::Item) -> bool + Sync>(self, predicate: F) -> L::Output<bool> {
        self.execute(|context, source| {
            Ok(found(context, &source, |item| (!predicate(item)).then_some(()))?.is_none())
        })
    }

    /// Whether there is an item like this.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert!((0..100).as_parallel().contains(&42));
    /// ```
    pub fn contains<T: Sync + ?Sized>(self, value: &T) -> L::Output<bool>
    where
        P::Item: PartialEq<T>,
    {
        self.any(|item| item == *value)
    }

    /// The first item of which something is true. (LINQ's `First` and `FirstOrDefault`, with a
    /// predicate.) If the query is [unordered](Self::as_unordered) it is the first all the same.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((1..1000).as_parallel().find(|n| n % 7 == 0), Some(7));
    /// ```
    #[doc(alias = "First")]
    #[doc(alias = "FirstOrDefault")]
    #[doc(alias = "Single")]
    #[doc(alias = "SingleOrDefault")]
    pub fn find<F: Fn(&P::Item) -> bool + Sync>(self, predicate: F) -> L::Output<Option<P::Item>> {
        self.execute(|context, source| {
            found(context, &source, |item| predicate(&item).then_some(item))
        })
    }

    /// The first item. (LINQ's `First` and `FirstOrDefault`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((1..1000).as_parallel().filter(|n| n % 7 == 0).first(), Some(7));
    /// ```
    #[doc(alias = "First")]
    #[doc(alias = "FirstOrDefault")]
    pub fn first(self) -> L::Output<Option<P::Item>> {
        self.execute(|context, source| found(context, &source, Some))
    }

    /// The last item. All are made, unless it is known which one it is. (LINQ's `Last` and
    /// `LastOrDefault`.)
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((1..1000).as_parallel().filter(|n| n % 7 == 0).last(), Some(994));
    /// ```
    #[doc(alias = "LastOrDefault")]
    pub fn last(self) -> L::Output<Option<P::Item>> {
        self.execute(|context, mut source| {
            if let Some(len) = source.exact() {
                source.narrow(len.saturating_sub(1)..len);
            }
            let last = drive(context, &source, &Last)?;
            let last = last.into_iter().flatten().max_by_key(|(position, _)| *position);
            Ok(last.map(|(_, item)| item))
        })
    }

    /// The item with this number, from zero. (LINQ's `ElementAt` and `ElementAtOrDefault`.) If the
    /// query is [unordered](Self::as_unordered) it is any of them.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..100).as_parallel().map(|n| n * n).element_at(7), Some(49));
    /// ```
    #[doc(alias = "ElementAt")]
    #[doc(alias = "ElementAtOrDefault")]
    #[doc(alias = "nth")]
    pub fn element_at(self, number: usize) -> L::Output<Option<P::Item>> {
        self.skip(number).first()
    }

    /// Whether there are the same items in the same order as in another query or source.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let squares = (0..4).as_parallel().map(|n| n * n);
    /// assert!(squares.sequence_equal(vec![0, 1, 4, 9]));
    /// ```
    #[doc(alias = "SequenceEqual")]
    pub fn sequence_equal<Q>(self, other: Q) -> L::Output<bool>
    where
        Q: IntoParallel,
        P::Item: PartialEq<<Q::Pipeline as Pipeline>::Item>,
    {
        let other = other.into_parallel().pipeline;
        self.execute(|context, source| {
            let source = exact(context, source)?;
            let other = exact(context, other.open(context)?)?;
            if source.exact() != other.exact() {
                return Ok(false);
            }
            let pairs = ZipSource::new(source, other);
            let different = found(context, &pairs, |(one, other)| (one != other).then_some(()))?;
            Ok(different.is_none())
        })
    }
}

/// The first thing that a function finds.
fn found<S: Source, U: Send>(
    context: &Context,
    source: &S,
    find: impl Fn(S::Item) -> Option<U> + Sync,
) -> Result<Option<U>, Halted> {
    let found = drive(context, source, &Searching { find })?;
    Ok(found.into_iter().flatten().min_by_key(|(position, _)| *position).map(|(_, found)| found))
}

struct Searching<F> {
    find: F,
}

impl<T, U: Send, F: Fn(T) -> Option<U> + Sync> Consumer<T> for Searching<F> {
    type State = Option<(usize, U)>;

    fn start(&self) -> Self::State {
        None
    }

    fn consume(
        &self,
        state: &mut Self::State,
        (position, _): (usize, usize),
        mut items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        match items.find_map(&self.find) {
            Some(found) => {
                // What was taken over from another thread may be from an earlier chunk.
                if state.as_ref().is_none_or(|(before, _)| position < *before) {
                    *state = Some((position, found));
                }
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    }
}

struct Last;

impl<T: Send> Consumer<T> for Last {
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
        if let Some(item) = items.last() {
            // One that was taken over can be from a later chunk.
            if state.as_ref().is_none_or(|(before, _)| *before < position) {
                *state = Some((position, item));
            }
        }
        ControlFlow::Continue(())
    }
}
