//! Values that are counted: each has to be dropped exactly once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Makes values, and knows what has become of them.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Counts>);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    /// The numbers of those that were dropped.
    dropped: Mutex<Vec<usize>>,
}

/// One of the values.
pub(crate) struct Counted {
    pub(crate) number: usize,
    counts: Arc<Counts>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The next value; they are numbered from zero.
    pub(crate) fn make(&self) -> Counted {
        let number = self.0.made.fetch_add(1, Ordering::SeqCst);
        Counted { number, counts: Arc::clone(&self.0) }
    }

    pub(crate) fn made(&self) -> usize {
        self.0.made.load(Ordering::SeqCst)
    }

    /// The numbers of the values that were dropped, in numerical order; one that was dropped twice
    /// would be there twice.
    pub(crate) fn dropped(&self) -> Vec<usize> {
        let mut dropped = self.0.dropped.lock().unwrap().clone();
        dropped.sort_unstable();
        dropped
    }

    /// Every value that was made has been dropped, once.
    #[track_caller]
    pub(crate) fn expect_all_dropped(&self) {
        assert_eq!(self.dropped(), (0..self.made()).collect::<Vec<_>>());
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.dropped.lock().unwrap().push(self.number);
    }
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "number {}", self.number)
    }
}
