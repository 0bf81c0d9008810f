//! What a query is made of: its description, and the source of chunks that this is opened as.
//!
//! A [`Pipeline`] is a description: a source, and operators around it, that do nothing. When a
//! terminal runs it is opened. Operators that need all of their input before they can yield
//! anything (sorting, grouping) do their work then, in parallel; what is left is a [`Source`] of
//! chunks, which any number of threads claim from until there are no more. The operators in between
//! (map, filter) are the standard library's own adapters around the items of one chunk, so that an
//! element costs what it costs in a loop.

use std::ops::Range;

use super::context::{Context, Halted};

/// The description of a query's items: where they come from and what is done to them.
///
/// This is implemented by what [`Query`](super::Query)'s methods return, and only by that.
pub trait Pipeline: Sized + Send {
    /// What comes out.
    type Item: Send;

    #[doc(hidden)]
    type Source: Source<Item = Self::Item>;

    /// Does what has to be done before the first item can come out.
    #[doc(hidden)]
    fn open(self, context: &Context) -> Result<Self::Source, Halted>;
}

/// Chunks that any number of threads can claim.
///
/// The items of a source have positions, from zero: those of its innermost source, so that a filter
/// leaves gaps and several items can share one. Every chunk covers a range of positions. Chunks are
/// claimed in order and without gaps: whatever is claimed later comes after.
pub trait Source: Sized + Send + Sync {
    type Item: Send;
    type Chunk<'a>: Iterator<Item = Self::Item>
    where
        Self: 'a;

    /// The next chunk; none if there are no more.
    fn claim(&self, want: Want) -> Option<Claimed<Self::Chunk<'_>>>;

    /// How many positions have not been claimed, if that is known.
    fn remaining(&self) -> Option<usize>;

    /// The position behind the last one. Asked only when a claim has found nothing left.
    fn end(&self) -> usize;

    /// How many items there are, if every position has exactly one. Such a source grants
    /// [`Want::exactly`] to the letter, and can be narrowed.
    fn exact(&self) -> Option<usize>;

    /// Leaves out everything outside of a range, whose positions count from zero from now on. Only
    /// for exact sources, and before anything is claimed.
    fn narrow(&mut self, range: Range<usize>);

    /// All items in order, if they are in a vector already.
    fn into_vec(self) -> Result<Vec<Self::Item>, Self> {
        Err(self)
    }
}

/// A chunk, and the positions that it covers.
#[derive(Debug)]
pub struct Claimed<C> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) items: C,
}

impl<C> Claimed<C> {
    pub(crate) fn map<D>(self, adapt: impl FnOnce(C) -> D) -> Claimed<D> {
        Claimed { start: self.start, end: self.end, items: adapt(self.items) }
    }

    pub(crate) fn positions(&self) -> usize {
        self.end - self.start
    }
}

/// How large a chunk should be.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    size: usize,
    /// Of what is left, no chunk takes more than one in so many, so that all threads end together.
    /// Zero: all of it, if asked for.
    share: usize,
}

impl Want {
    /// A chunk of so many positions, or fewer towards the end.
    pub(crate) fn about(size: usize, share: usize) -> Self {
        Self { size, share }
    }

    /// A chunk of exactly so many positions, unless there are fewer.
    pub(crate) fn exactly(size: usize) -> Self {
        Self { size, share: 0 }
    }

    /// How many to take if there are so many left.
    pub(crate) fn of(self, remaining: usize) -> usize {
        let fair = match self.share {
            0 => self.size,
            // A chunk that is much smaller than asked for would cost more to claim than to do.
            share => self.size.min((remaining / share).max(self.size / 16)),
        };
        fair.max(1).min(remaining)
    }

    /// How many to take if it is not known how many are left.
    pub(crate) fn of_unknown(self) -> usize {
        self.size.max(1)
    }
}
