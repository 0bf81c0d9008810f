//! Grouping, joining and telling apart by hash.
//!
//! Keys are hashed once, with the standard library's hasher, whose seed is secret. Part of the hash
//! chooses a shard, and the rest a slot in the shard's table. In a first phase every thread sorts
//! the entries that it gets into shards of its own; in a second one every shard is the work of one
//! thread.

pub(crate) mod chunks;
pub(crate) mod distinct_set;
pub(crate) mod groups;
pub(crate) mod lookup;
mod numbering;
pub(crate) mod partition;

use std::hash::{BuildHasher, Hash, RandomState};

/// Hashes, and knows how many shards there are.
#[derive(Debug)]
pub(crate) struct Sharding {
    hasher: RandomState,
    /// One less than the number of shards, which is a power of two.
    mask: usize,
}

/// More of them balance better, and make smaller tables, which stay in the cache. But each of the
/// first phase's threads writes to all of them.
const SHARDS_PER_THREAD: usize = 32;
const MOST_SHARDS: usize = 256;

impl Sharding {
    pub(crate) fn new(threads: usize) -> Self {
        let shards = match threads {
            1 => 1,
            _ => (threads * SHARDS_PER_THREAD).next_power_of_two().min(MOST_SHARDS),
        };
        Self { hasher: RandomState::new(), mask: shards - 1 }
    }

    pub(crate) fn shards(&self) -> usize {
        self.mask + 1
    }

    pub(crate) fn hash(&self, key: &impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// A table takes the lowest bits for its slots and the highest for its tags; these are between.
    pub(crate) fn shard(&self, hash: u64) -> usize {
        (hash >> 40) as usize & self.mask
    }
}

/// The number of an entry in its shard, as small as tables like it.
pub(crate) fn small(index: usize) -> u32 {
    u32::try_from(index)
        .ok()
        .filter(|index| *index < u32::MAX)
        .expect("more than four thousand million entries in one shard")
}

/// With more items than this, the second phase is for several threads from its beginning.
pub(crate) const LARGE: usize = 10_000;
