//! The futures of a scheduler that may be suspended, and are then in none of its queues.

use std::sync::{PoisonError, Weak};

use super::head::Run;
use crate::primitive::{AtomicU32, MODELLED, Mutex, MutexGuard, Ordering};
use crate::wait::slots::Slots;

/// Futures, each by a number.
pub(crate) struct Registry {
    /// Those who come from different threads seldom meet.
    shelves: [Mutex<Shelf>; SHELVES],
    next: AtomicU32,
}

const SHELVES: usize = if MODELLED { 2 } else { 8 };

type Shelf = Slots<Weak<dyn Run>>;

impl Registry {
    pub(crate) fn new() -> Self {
        Self { shelves: std::array::from_fn(|_| Mutex::default()), next: AtomicU32::new(0) }
    }

    fn shelf(&self, index: usize) -> MutexGuard<'_, Shelf> {
        self.shelves[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, task: Weak<dyn Run>) -> u64 {
        let index = self.next.fetch_add(1, Ordering::Relaxed) as usize % SHELVES;
        let place = self.shelf(index).insert(task);
        u64::from(place) * SHELVES as u64 + index as u64
    }

    /// Takes a future off its shelf.
    pub(crate) fn remove(&self, number: u64) {
        let (index, place) = (number as usize % SHELVES, number as usize / SHELVES);
        let removed = self.shelf(index).remove(place as u32);
        drop(removed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        (0..SHELVES).all(|index| self.shelf(index).is_empty())
    }

    pub(crate) fn all(&self) -> Vec<Weak<dyn Run>> {
        (0..SHELVES)
            .flat_map(|index| self.shelf(index).iter().cloned().collect::<Vec<_>>())
            .collect()
    }
}
