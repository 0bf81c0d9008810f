//! The futures of a scheduler that may be suspended, and are then in none of its queues.

use std::sync::{PoisonError, Weak};

use super::head::Run;
use crate::primitive::{AtomicU32, MODELLED, Mutex, MutexGuard, Ordering};
use crate::wait::slots::Slots;

/// Futures, each by a number.
pub(crate) struct Registry {
    /// Several, so that threads seldom wait for each other.
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicU32,
}

const SHARDS: usize = if MODELLED { 2 } else { 8 };

type Shard = Slots<Weak<dyn Run>>;

impl Registry {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), next: AtomicU32::new(0) }
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, task: Weak<dyn Run>) -> u64 {
        let index = self.next.fetch_add(1, Ordering::Relaxed) as usize % SHARDS;
        let slot = self.shard(index).insert(task);
        u64::from(slot) * SHARDS as u64 + index as u64
    }

    /// Forgets a future.
    pub(crate) fn remove(&self, number: u64) {
        let (index, slot) = (number as usize % SHARDS, number as usize / SHARDS);
        let removed = self.shard(index).remove(slot as u32);
        drop(removed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        (0..SHARDS).all(|index| self.shard(index).is_empty())
    }

    pub(crate) fn all(&self) -> Vec<Weak<dyn Run>> {
        (0..SHARDS)
            .flat_map(|index| self.shard(index).iter().cloned().collect::<Vec<_>>())
            .collect()
    }
}
