//! The futures of a pool that may be suspended: nobody else knows where they are.

use std::sync::{PoisonError, Weak};

use super::head::Run;
use crate::primitive::{AtomicU32, MODELLED, Mutex, MutexGuard, Ordering};

/// Futures, each by a number.
pub(crate) struct Registry {
    /// Those who come from different threads seldom meet.
    shelves: [Mutex<Shelf>; SHELVES],
    next: AtomicU32,
}

const SHELVES: usize = if MODELLED { 2 } else { 8 };

#[derive(Default)]
struct Shelf {
    places: Vec<Option<Weak<dyn Run>>>,
    free: Vec<u32>,
}

/// An empty shelf with more places than this is given back.
const KEPT: usize = 4096;

impl Registry {
    pub(crate) fn new() -> Self {
        Self { shelves: std::array::from_fn(|_| Mutex::default()), next: AtomicU32::new(0) }
    }

    fn shelf(&self, index: usize) -> MutexGuard<'_, Shelf> {
        self.shelves[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, task: Weak<dyn Run>) -> u64 {
        let index = self.next.fetch_add(1, Ordering::Relaxed) as usize % SHELVES;
        let mut shelf = self.shelf(index);
        let place = match shelf.free.pop() {
            Some(place) => {
                shelf.places[place as usize] = Some(task);
                place
            }
            None => {
                shelf.places.push(Some(task));
                shelf.places.len() as u32 - 1
            }
        };
        u64::from(place) * SHELVES as u64 + index as u64
    }

    /// Takes a future off its shelf.
    pub(crate) fn remove(&self, number: u64) {
        let (index, place) = (number as usize % SHELVES, number as usize / SHELVES);
        let mut shelf = self.shelf(index);
        let removed = shelf.places[place].take();
        shelf.free.push(place as u32);
        if shelf.free.len() == shelf.places.len() && shelf.places.len() > KEPT {
            *shelf = Shelf::default();
        }
        drop(shelf);
        drop(removed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        (0..SHELVES).all(|index| {
            let shelf = self.shelf(index);
            shelf.free.len() == shelf.places.len()
        })
    }

    pub(crate) fn all(&self) -> Vec<Weak<dyn Run>> {
        (0..SHELVES)
            .flat_map(|index| {
                self.shelf(index).places.iter().flatten().cloned().collect::<Vec<_>>()
            })
            .collect()
    }
}
