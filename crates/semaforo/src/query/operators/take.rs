//! Only the first items, or all but those.
//!
//! Where every position has one item, these are a matter of arithmetic. Otherwise the input is
//! consumed, in parallel, until the first items are there without a gap; what is left of it then
//! goes on by itself.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::{Concat, Either, debug_as_name};
use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::drive::{Consumer, drive};
use crate::query::pipeline::{Pipeline, Source};
use crate::query::query::Query;
use crate::query::reorder::Reorder;
use crate::query::sources::vector::OwnedSource;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// The first `count` items; any so many, if the query is [unordered](Self::as_unordered).
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let even = (0..).chunked_parallel().filter(|n| n % 2 == 0);
    /// assert_eq!(even.take(3).to_vec(), [0, 2, 4]);
    /// ```
    pub fn take(self, count: usize) -> Query<Take<P>, L> {
        self.wrap(|input, settings| Take { input, count, ordered: settings.ordered })
    }

    /// All but the first `count` items; all but any so many, if the query is
    /// [unordered](Self::as_unordered).
    ///
    /// Of items that are skipped, operators before this one may see nothing.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!((0..10).as_parallel().skip(8).to_vec(), [8, 9]);
    /// ```
    pub fn skip(self, count: usize) -> Query<Skip<P>, L> {
        self.wrap(|input, settings| Skip { input, count, ordered: settings.ordered })
    }

    /// The items before the first one of which something is not true.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([1, 2, 9, 1].as_parallel().take_while(|n| **n < 5).to_vec(), [&1, &2]);
    /// ```
    #[doc(alias = "TakeWhile")]
    pub fn take_while<F>(self, predicate: F) -> Query<TakeWhile<P, F>, L>
    where
        F: Fn(&P::Item) -> bool + Send + Sync,
    {
        self.wrap(|input, _| TakeWhile { input, predicate })
    }

    /// The first item of which something is not true, and all after it.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// assert_eq!([1, 2, 9, 1].as_parallel().skip_while(|n| **n < 5).to_vec(), [&9, &1]);
    /// ```
    #[doc(alias = "SkipWhile")]
    pub fn skip_while<F>(self, predicate: F) -> Query<SkipWhile<P, F>, L>
    where
        F: Fn(&P::Item) -> bool + Send + Sync,
    {
        self.wrap(|input, _| SkipWhile { input, predicate })
    }
}

/// [`Query::take`].
#[derive(Clone, Debug)]
pub struct Take<P> {
    input: P,
    count: usize,
    ordered: bool,
}

/// [`Query::skip`].
#[derive(Clone, Debug)]
pub struct Skip<P> {
    input: P,
    count: usize,
    ordered: bool,
}

/// [`Query::take_while`].
#[derive(Clone)]
pub struct TakeWhile<P, F> {
    input: P,
    predicate: F,
}

/// [`Query::skip_while`].
#[derive(Clone)]
pub struct SkipWhile<P, F> {
    input: P,
    predicate: F,
}

debug_as_name!(TakeWhile<P, F>, SkipWhile<P, F>);

impl<P: Pipeline> Pipeline for Take<P> {
    type Item = P::Item;
    type Source = Either<P::Source, OwnedSource<P::Item>>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let mut input = self.input.open(context)?;
        if let Some(len) = input.exact() {
            input.narrow(0..len.min(self.count));
            return Ok(Either::Left(input));
        }
        let (kept, _) = head(context, &input, self.ordered, Keep::Take(self.count), |_| true)?;
        Ok(Either::Right(OwnedSource::new(kept)))
    }
}

impl<P: Pipeline> Pipeline for Skip<P> {
    type Item = P::Item;
    type Source = Either<P::Source, Concat<OwnedSource<P::Item>, P::Source>>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let mut input = self.input.open(context)?;
        if let Some(len) = input.exact() {
            input.narrow(len.min(self.count)..len);
            return Ok(Either::Left(input));
        }
        rest(context, input, self.ordered, Keep::Skip(self.count), |_| true).map(Either::Right)
    }
}

impl<P: Pipeline, F: Fn(&P::Item) -> bool + Send + Sync> Pipeline for TakeWhile<P, F> {
    type Item = P::Item;
    type Source = OwnedSource<P::Item>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        let input = self.input.open(context)?;
        let (kept, _) = head(context, &input, true, Keep::TakeWhile, self.predicate)?;
        Ok(OwnedSource::new(kept))
    }
}

impl<P: Pipeline, F: Fn(&P::Item) -> bool + Send + Sync> Pipeline for SkipWhile<P, F> {
    type Item = P::Item;
    type Source = Concat<OwnedSource<P::Item>, P::Source>;

    fn open(self, context: &Context) -> Result<Self::Source, Halted> {
        rest(context, self.input.open(context)?, true, Keep::SkipWhile, self.predicate)
    }
}

/// The first so many items of a source.
pub(super) fn prefix<S: Source>(
    context: &Context,
    source: &S,
    count: usize,
) -> Result<Vec<S::Item>, Halted> {
    Ok(head(context, source, true, Keep::Take(count), |_| true)?.0)
}

/// What is kept of the source's beginning, and then what is left of the source.
fn rest<S: Source>(
    context: &Context,
    source: S,
    ordered: bool,
    keep: Keep,
    predicate: impl Fn(&S::Item) -> bool + Sync,
) -> Result<Concat<OwnedSource<S::Item>, S>, Halted> {
    let (kept, begun) = head(context, &source, ordered, keep, predicate)?;
    Ok(Concat { first: OwnedSource::new(kept), second: source, begun })
}

/// What is kept of the chunks that have to be looked at, and the position behind them.
fn head<S: Source>(
    context: &Context,
    source: &S,
    ordered: bool,
    keep: Keep,
    predicate: impl Fn(&S::Item) -> bool + Sync,
) -> Result<(Vec<S::Item>, usize), Halted> {
    let prefix = Prefix {
        reorder: Reorder::new(0),
        arrived: 0,
        reached: 0,
        keep,
        kept: Vec::new(),
        settled: false,
    };
    let consumer = PrefixConsumer { ordered, keep, predicate, prefix: Mutex::new(prefix) };
    if !matches!(keep, Keep::Take(0) | Keep::Skip(0)) {
        drive(context, source, &consumer)?;
    }
    let prefix = consumer.prefix.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((prefix.kept, prefix.reached))
}

/// What is kept.
#[derive(Clone, Copy, Debug)]
enum Keep {
    /// So many more.
    Take(usize),
    /// All but so many more.
    Skip(usize),
    /// What is before the first item that is out.
    TakeWhile,
    /// The first item that is out, and what comes after.
    SkipWhile,
}

/// The items of a chunk, and the number of the first that is out.
struct Piece<T> {
    items: Vec<T>,
    out: Option<usize>,
}

/// The source's beginning, as far as it was looked at.
struct Prefix<T> {
    reorder: Reorder<Piece<T>>,
    /// How many pieces have come.
    arrived: usize,
    /// The position behind those that have come.
    reached: usize,
    keep: Keep,
    kept: Vec<T>,
    /// From here on, everything is kept (skip) or nothing (take).
    settled: bool,
}

impl<T> Prefix<T> {
    /// Adds a piece, and goes as far as the pieces go without a gap. Yields what is to be dropped.
    fn add(&mut self, span: (usize, usize), piece: Piece<T>) -> Vec<Vec<T>> {
        self.reorder.push(span, piece);
        let mut waste = Vec::new();
        while let Some(piece) = self.reorder.pop() {
            waste.push(self.absorb(piece));
        }
        waste
    }

    /// Takes the next piece, and yields what is to be dropped.
    fn absorb(&mut self, Piece { mut items, out }: Piece<T>) -> Vec<T> {
        match (&mut self.keep, self.settled) {
            (Keep::Skip(_) | Keep::SkipWhile, true) => {
                self.kept.append(&mut items);
                items
            }
            (Keep::Take(_) | Keep::TakeWhile, true) => items,
            (Keep::Take(left), false) => {
                let rest = items.split_off(items.len().min(*left));
                *left -= items.len();
                self.settled = *left == 0;
                self.kept.append(&mut items);
                rest
            }
            (Keep::Skip(left), false) => {
                let rest = &mut items.split_off(items.len().min(*left));
                *left -= items.len();
                self.settled = *left == 0;
                self.kept.append(rest);
                items
            }
            (Keep::TakeWhile, false) => {
                self.settled = out.is_some();
                let rest = items.split_off(out.unwrap_or(items.len()));
                self.kept.append(&mut items);
                rest
            }
            (Keep::SkipWhile, false) => {
                self.settled = out.is_some();
                let rest = &mut items.split_off(out.unwrap_or(items.len()));
                self.kept.append(rest);
                items
            }
        }
    }
}

struct PrefixConsumer<T, F> {
    ordered: bool,
    /// As it was in the beginning.
    keep: Keep,
    predicate: F,
    prefix: Mutex<Prefix<T>>,
}

impl<T: Send, F: Fn(&T) -> bool + Sync> PrefixConsumer<T, F> {
    fn piece(&self, mut items: impl Iterator<Item = T>) -> Piece<T> {
        let mut piece = Piece { items: Vec::new(), out: None };
        match self.keep {
            Keep::Take(most) => piece.items.extend(items.take(most)),
            Keep::Skip(_) => piece.items.extend(items),
            Keep::TakeWhile | Keep::SkipWhile => {
                for item in items.by_ref() {
                    let out = !(self.predicate)(&item);
                    piece.items.push(item);
                    if out {
                        piece.out = Some(piece.items.len() - 1);
                        break;
                    }
                }
                if matches!(self.keep, Keep::SkipWhile) {
                    piece.items.extend(items);
                }
            }
        }
        piece
    }
}

impl<T: Send, F: Fn(&T) -> bool + Sync> Consumer<T> for PrefixConsumer<T, F> {
    type State = ();

    fn start(&self) {}

    fn consume(
        &self,
        (): &mut (),
        span: (usize, usize),
        items: impl Iterator<Item = T>,
    ) -> ControlFlow<()> {
        let piece = self.piece(items);
        let mut prefix = self.prefix.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = prefix.arrived;
        prefix.arrived += 1;
        prefix.reached = prefix.reached.max(span.1);
        let waste = prefix.add(if self.ordered { span } else { (arrived, arrived + 1) }, piece);
        let settled = prefix.settled;
        drop(prefix);
        // Dropping items may run their own code, which must not find the lock held.
        drop(waste);
        if settled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
