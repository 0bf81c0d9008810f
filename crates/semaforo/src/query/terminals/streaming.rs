//! Items that one thread consumes while others make them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::query::cancellation::Cancellation;
use crate::query::context::{Context, Halted};
use crate::query::extra_workers::Turn;
use crate::query::gather::gather;
use crate::query::pipeline::{Pipeline, Source};
use crate::query::query::{Merge, Query};
use crate::query::stream_buffer::{StreamBuffer, StreamConsumer};
use crate::wait::parker::Backoff;

impl<P: Pipeline, L: Cancellation> Query<P, L> {
    /// Calls a function with every item, on the calling thread, while other threads make those that
    /// follow: in order, or as they come if the query is [unordered](Self::as_unordered).
    ///
    /// Only a limited number of items is ahead of the function; [`with_merge`](Self::with_merge)
    /// has the choices. To call a function on all threads, [`for_all`](Self::for_all) is the one.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let words = ["to".to_string(), "be".to_string()];
    /// let mut text = String::new();
    /// words.as_parallel().map(|word| word.to_uppercase()).for_each(|word| text += &word);
    /// assert_eq!(text, "TOBE");
    /// ```
    #[doc(alias = "foreach")]
    pub fn for_each<F: FnMut(P::Item)>(self, mut function: F) -> L::Output<()> {
        let settings = self.settings.clone();
        if settings.merge == Merge::Full {
            return self.execute(|context, source| {
                gather(context, source)?.into_iter().for_each(function);
                Ok(())
            });
        }
        let context = Context::new(settings.extra_workers(), self.limits.token());
        let source = match context.run(|| self.pipeline.open(&context)) {
            Ok(source) => source,
            Err(Halted) => return context.finish::<L, ()>(Err(Halted)),
        };
        let buffer = StreamBuffer::new(context, source, settings.ordered, settings.merge);
        let outcome = buffer.extra_workers().with_extra_workers(
            || buffer.turn(),
            |start_worker| {
                let mut consumer = StreamConsumer::new();
                let outcome = buffer.context().run(|| {
                    while let Some(items) = buffer.next(&mut consumer, start_worker)? {
                        items.into_iter().for_each(&mut function);
                    }
                    Ok(())
                });
                buffer.stop();
                outcome
            },
        );
        buffer.context().finish::<L, ()>(outcome)
    }

    /// Gives a function the items to iterate over, on the calling thread, while other threads make
    /// those that follow: in order, or as they come if the query is
    /// [unordered](Self::as_unordered). This is how a query over borrowed data is iterated with
    /// `break`, `?` and all that iterators offer.
    ///
    /// When the function returns, the threads that make items are stopped and waited for. If the
    /// query is cancelled the items end early, and what the function returns is dropped.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let words = vec!["to".to_string(), "be".to_string(), "or".to_string()];
    /// let before_or = words.as_parallel().map(|word| word.to_uppercase()).iterate(|items| {
    ///     let mut text = String::new();
    ///     for word in items {
    ///         if word == "OR" {
    ///             break;
    ///         }
    ///         text += &word;
    ///     }
    ///     text
    /// });
    /// assert_eq!(before_or, "TOBE");
    /// ```
    #[doc(alias = "AsSequential")]
    #[doc(alias = "AsEnumerable")]
    pub fn iterate<R, F>(self, function: F) -> L::Output<R>
    where
        F: FnOnce(&mut dyn Iterator<Item = P::Item>) -> R,
    {
        let settings = self.settings.clone();
        if settings.merge == Merge::Full {
            return self.execute(|context, source| {
                Ok(function(&mut gather(context, source)?.into_iter()))
            });
        }
        let context = Context::new(settings.extra_workers(), self.limits.token());
        let source = match context.run(|| self.pipeline.open(&context)) {
            Ok(source) => source,
            Err(Halted) => return context.finish::<L, R>(Err(Halted)),
        };
        let buffer = StreamBuffer::new(context, source, settings.ordered, settings.merge);
        let outcome = buffer.extra_workers().with_extra_workers(
            || buffer.turn(),
            |start_worker| {
                let mut consumer = StreamConsumer::new();
                let outcome = buffer.context().run(|| {
                    let mut current = Vec::new().into_iter();
                    let mut halted = false;
                    let result = function(&mut std::iter::from_fn(|| {
                        loop {
                            if let Some(item) = current.next() {
                                return Some(item);
                            }
                            if halted {
                                return None;
                            }
                            match buffer.next(&mut consumer, start_worker) {
                                Ok(Some(items)) => current = items.into_iter(),
                                Ok(None) => return None,
                                Err(Halted) => halted = true,
                            }
                        }
                    }));
                    if halted { Err(Halted) } else { Ok(result) }
                });
                buffer.stop();
                outcome
            },
        );
        buffer.context().finish::<L, R>(outcome)
    }

    /// [`for_each`](Self::for_each) that ends with the first error of the function, and returns it.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    ///
    /// let texts = ["1", "2", "three", "4"];
    /// let mut sum = 0;
    /// let outcome = texts.as_parallel().map(|text| text.parse::<u32>()).try_for_each(|number| {
    ///     sum += number?;
    ///     Ok::<_, std::num::ParseIntError>(())
    /// });
    /// assert!(outcome.is_err());
    /// assert_eq!(sum, 3);
    /// ```
    pub fn try_for_each<E, F>(self, function: F) -> L::Output<Result<(), E>>
    where
        F: FnMut(P::Item) -> Result<(), E>,
    {
        self.iterate(|mut items| Iterator::try_for_each(&mut items, function))
    }
}

/// The items, while they are made: in order, or as they come if the query is
/// [unordered](Query::as_unordered). This is for queries that borrow nothing; for others there is
/// [`iterate`](Query::iterate).
///
/// ```
/// use semaforo::query::prelude::*;
///
/// let mut total = 0;
/// for square in (1..=1000_u64).as_parallel().map(|n| n * n) {
///     total += square;
///     if total > 1_000_000 {
///         break; // stops the threads that make the items, and waits for them
///     }
/// }
/// assert_eq!(total, 1_005_720);
/// ```
///
/// # Panics
/// Operators that need all of their input work at once, when the iteration begins; if one panics,
/// so does `into_iter`. If another panics later, so does `next`.
impl<P, L> IntoIterator for Query<P, L>
where
    P: Pipeline<Source: 'static>,
    L: Cancellation,
{
    type Item = L::Output<P::Item>;
    type IntoIter = IntoIter<P, L>;

    fn into_iter(self) -> IntoIter<P, L> {
        let settings = self.settings.clone();
        let context = Context::new(settings.extra_workers(), self.limits.token());
        let opened = context.run(|| {
            let source = self.pipeline.open(&context)?;
            Ok(match settings.merge {
                Merge::Full => (None, gather(&context, source)?),
                Merge::Auto | Merge::None => (Some(source), Vec::new()),
            })
        });
        let (state, current) = match opened {
            Ok((None, items)) => (State::Ended, items),
            Ok((Some(source), items)) => {
                let buffer = StreamBuffer::new(context, source, settings.ordered, settings.merge);
                (State::Producing(Arc::new(buffer), StreamConsumer::new()), items)
            }
            Err(Halted) => (State::Cancelled(context.finish::<L, _>(Err(Halted))), Vec::new()),
        };
        IntoIter { current: current.into_iter(), state, limits: PhantomData }
    }
}

/// The items of a query, while they are made.
///
/// Dropping it stops the threads that make them, and waits for them.
pub struct IntoIter<P: Pipeline<Source: 'static>, L: Cancellation> {
    current: std::vec::IntoIter<P::Item>,
    state: State<P::Source, L::Output<P::Item>>,
    limits: PhantomData<fn() -> L>,
}

enum State<S: Source, R> {
    Producing(Arc<StreamBuffer<S>>, StreamConsumer),
    /// This is yet to be yielded, after which there is no more.
    Cancelled(R),
    Ended,
}

impl<P: Pipeline<Source: 'static>, L: Cancellation> Iterator for IntoIter<P, L> {
    type Item = L::Output<P::Item>;

    fn next(&mut self) -> Option<L::Output<P::Item>> {
        loop {
            if let Some(item) = self.current.next() {
                return Some(L::output(Ok(item)));
            }
            let State::Producing(buffer, consumer) = &mut self.state else {
                return match std::mem::replace(&mut self.state, State::Ended) {
                    State::Cancelled(end) => Some(end),
                    State::Producing(..) | State::Ended => None,
                };
            };
            // An extra worker that has not begun when the query is over finds no buffer.
            let start_worker = || {
                let weak = Arc::downgrade(buffer);
                let turn = move || weak.upgrade().map_or(Turn::Done, |buffer| buffer.turn());
                buffer.extra_workers().detach(turn)
            };
            let next = buffer.next(consumer, &start_worker);
            match next {
                Ok(Some(items)) => self.current = items.into_iter(),
                Ok(None) => drop(self.stop()),
                Err(Halted) => {
                    let buffer = self.stop()?;
                    return Some(buffer.context().finish::<L, _>(Err(Halted)));
                }
            }
        }
    }
}

impl<P: Pipeline<Source: 'static>, L: Cancellation> IntoIter<P, L> {
    /// Stops the threads that make items. What they have made, and what is left of the source, can
    /// then be dropped, here and not on the thread of an extra worker that is about to end.
    fn stop(&mut self) -> Option<StreamBuffer<P::Source>> {
        let State::Producing(mut shared, _) = std::mem::replace(&mut self.state, State::Ended)
        else {
            return None;
        };
        shared.stop();
        let mut backoff = Backoff::new();
        loop {
            match Arc::try_unwrap(shared) {
                Ok(buffer) => return Some(buffer),
                Err(still) => shared = still,
            }
            backoff.wait();
        }
    }
}

impl<P: Pipeline<Source: 'static>, L: Cancellation> Drop for IntoIter<P, L> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<P: Pipeline<Source: 'static>, L: Cancellation> fmt::Debug for IntoIter<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("ready", &self.current.len()).finish_non_exhaustive()
    }
}
