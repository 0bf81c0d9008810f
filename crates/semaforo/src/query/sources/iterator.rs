//! Any iterator, read in chunks by the threads that need one.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

/// Queries over any iterator that can be sent to another thread.
pub trait ChunkedParallel: Iterator + Sized {
    /// A query over the items. One thread at a time reads some of them from the iterator, and then
    /// works on them while another reads.
    ///
    /// The iterator may be endless, if the query ends early.
    ///
    /// ```
    /// use semaforo::query::prelude::*;
    /// use std::collections::HashMap;
    ///
    /// let ages = HashMap::from([("Ada", 36), ("Alan", 41), ("Edsger", 72)]);
    /// assert_eq!(ages.values().chunked_parallel().max(), Some(&72));
    ///
    /// let squares = (1_u64..).chunked_parallel().map(|n| n * n);
    /// assert_eq!(squares.find(|square| square % 1000 == 1), Some(1));
    /// ```
    #[doc(alias = "Partitioner")]
    fn chunked_parallel(self) -> Query<Iterated<Self>>
    where
        Self: Send,
        Self::Item: Send,
    {
        Query::new(Iterated(self))
    }
}

impl<I: Iterator> ChunkedParallel for I {}

/// The items of an iterator.
#[derive(Clone)]
pub struct Iterated<I>(I);

impl<I> fmt::Debug for Iterated<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iterated").finish_non_exhaustive()
    }
}

impl<I: Iterator<Item: Send> + Send> Pipeline for Iterated<I> {
    type Item = I::Item;
    type Source = IteratedSource<I>;

    fn open(self, _: &Context) -> Result<IteratedSource<I>, Halted> {
        Ok(IteratedSource(Mutex::new(Reading { position: 0, iterator: Some(self.0) })))
    }
}

/// An opened [`Iterated`].
#[derive(Debug)]
pub struct IteratedSource<I>(Mutex<Reading<I>>);

#[derive(Debug)]
struct Reading<I> {
    position: usize,
    /// Gone when it has ended, or panicked: it is not asked again.
    iterator: Option<I>,
}

impl<I: Iterator<Item: Send> + Send> Source for IteratedSource<I> {
    type Item = I::Item;
    type Chunk<'a>
        = std::vec::IntoIter<I::Item>
    where
        Self: 'a;

    fn claim(&self, want: Want) -> Option<Claimed<std::vec::IntoIter<I::Item>>> {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut iterator = reading.iterator.take()?;
        let size = want.of_unknown();
        let items: Vec<_> = iterator.by_ref().take(size).collect();
        if items.len() == size {
            reading.iterator = Some(iterator);
        }
        let start = reading.position;
        reading.position += items.len();
        let end = reading.position;
        (end > start).then(|| Claimed { start, end, items: items.into_iter() })
    }

    fn remaining(&self) -> Option<usize> {
        match &self.0.lock().unwrap_or_else(PoisonError::into_inner).iterator {
            Some(iterator) => iterator.size_hint().1,
            None => Some(0),
        }
    }

    fn end(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).position
    }

    fn exact(&self) -> Option<usize> {
        None
    }

    fn narrow(&mut self, _: Range<usize>) {
        unreachable!("only exact sources are narrowed");
    }
}
