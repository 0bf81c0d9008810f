//! Which part of something has been claimed.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::query::pipeline::Want;

/// Hands out the positions from zero to an end, each once.
#[derive(Debug)]
pub(crate) struct Cursor {
    next: AtomicUsize,
    end: usize,
}

impl Cursor {
    pub(crate) fn new(end: usize) -> Self {
        Self { next: AtomicUsize::new(0), end }
    }

    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// The next positions, which no other claim gets. Nothing else is made visible by it.
    #[inline]
    pub(crate) fn claim(&self, want: Want) -> Option<Range<usize>> {
        let mut next = self.next.load(Ordering::Relaxed);
        while next < self.end {
            let after = next + want.of(self.end - next);
            match self.next.compare_exchange_weak(next, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(next..after),
                Err(now) => next = now,
            }
        }
        None
    }

    pub(crate) fn remaining(&self) -> usize {
        self.end - self.next.load(Ordering::Relaxed)
    }
}
