//! A mutable slice.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::IntoParallel;
use crate::query::context::{Context, Halted};
use crate::query::pipeline::{Claimed, Pipeline, Source, Want};
use crate::query::query::Query;

/// The mutable references to the items of a slice.
#[derive(Debug)]
pub struct SliceMut<'a, T>(&'a mut [T]);

impl<'a, T: Send> IntoParallel for &'a mut [T] {
    type Pipeline = SliceMut<'a, T>;

    fn into_parallel(self) -> Query<SliceMut<'a, T>> {
        Query::new(SliceMut(self))
    }
}

impl<'a, T: Send> IntoParallel for &'a mut Vec<T> {
    type Pipeline = SliceMut<'a, T>;

    fn into_parallel(self) -> Query<SliceMut<'a, T>> {
        self.as_mut_slice().into_parallel()
    }
}

impl<'a, T: Send> Pipeline for SliceMut<'a, T> {
    type Item = &'a mut T;
    type Source = SliceMutSource<'a, T>;

    fn open(self, _: &Context) -> Result<SliceMutSource<'a, T>, Halted> {
        Ok(SliceMutSource { exact: self.0.len(), rest: Mutex::new((0, self.0)) })
    }
}

/// An opened [`SliceMut`].
#[derive(Debug)]
pub struct SliceMutSource<'a, T> {
    exact: usize,
    /// What has not been claimed, and its position. A lock for every chunk costs little, and what
    /// is split off under it needs no unsafe code.
    rest: Mutex<(usize, &'a mut [T])>,
}

impl<'a, T: Send> Source for SliceMutSource<'a, T> {
    type Item = &'a mut T;
    type Chunk<'b>
        = std::slice::IterMut<'a, T>
    where
        Self: 'b;

    fn claim(&self, want: Want) -> Option<Claimed<std::slice::IterMut<'a, T>>> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, items) = (rest.0, std::mem::take(&mut rest.1));
        if items.is_empty() {
            return None;
        }
        let (chunk, left) = items.split_at_mut(want.of(items.len()));
        let end = start + chunk.len();
        *rest = (end, left);
        Some(Claimed { start, end, items: chunk.iter_mut() })
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.rest.lock().unwrap_or_else(PoisonError::into_inner).1.len())
    }

    fn end(&self) -> usize {
        self.exact
    }

    fn exact(&self) -> Option<usize> {
        Some(self.exact)
    }

    fn narrow(&mut self, range: Range<usize>) {
        let (_, items) = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        *items = &mut std::mem::take(items)[range];
        self.exact = items.len();
    }
}
