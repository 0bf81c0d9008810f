//! Pieces that come in any order, and leave in order.

use std::collections::BTreeMap;

/// Pieces, by the positions that they cover.
#[derive(Debug)]
pub(crate) struct Reorder<V> {
    /// Everything before this position has left.
    next: usize,
    /// By position, with the position behind each.
    waiting: BTreeMap<usize, (usize, V)>,
}

impl<V> Reorder<V> {
    /// Begins at a position.
    pub(crate) fn new(next: usize) -> Self {
        Self { next, waiting: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, (start, end): (usize, usize), piece: V) {
        self.waiting.insert(start, (end, piece));
    }

    /// The next piece, if it is there.
    pub(crate) fn pop(&mut self) -> Option<V> {
        let (end, piece) = self.waiting.remove(&self.next)?;
        self.next = end;
        Some(piece)
    }
}
