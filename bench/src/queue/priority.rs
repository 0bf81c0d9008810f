//! A priority queue filled and emptied by one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;

use super::ours;
use crate::row::{Bar, Contestant, Row};
use crate::workload::one_thread::fill_and_empty;

/// The queue outgrows the processor's caches, as a backlog does.
const ITEMS: u64 = 1_000_000;

/// Few enough that each has several items, whose order is then part of the work.
const PRIORITIES: u64 = 1 << 16;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "priority",
            "1 000 000 items in by priority, then out, one thread, per item",
            contestants,
        )
        .bar(Bar::against("std-heap", 1.0))
        .at_most_rounds(3),
    ]
}

fn contestants() -> Vec<Contestant> {
    vec![
        Contestant::ours(ours::priority(ITEMS)),
        Contestant::peer(
            "std-heap",
            fill_and_empty(LockedHeap::default(), ITEMS, LockedHeap::put, LockedHeap::take),
        ),
    ]
}

/// Scattered, but the same for everybody: Fibonacci hashing of the item's number.
pub(super) fn priority_of(item: u64) -> i64 {
    let scattered = item.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (scattered % PRIORITIES) as i64
}

/// What people write without a library: std's heap under std's mutex. It promises
/// what ours does, the smallest priority first and first come first served among equals.
#[derive(Default)]
struct LockedHeap(Mutex<Heap>);

#[derive(Default)]
struct Heap {
    entries: BinaryHeap<Reverse<(i64, u64, u64)>>,
    next_sequence: u64,
}

impl LockedHeap {
    fn put(&self, item: u64) {
        let mut heap = self.0.lock().unwrap();
        let sequence = heap.next_sequence;
        heap.next_sequence += 1;
        heap.entries.push(Reverse((priority_of(item), sequence, item)));
    }

    fn take(&self) -> u64 {
        let mut heap = self.0.lock().unwrap();
        let Reverse((_, _, item)) = heap.entries.pop().expect("as many are taken as were put");
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_keeps_the_promise_of_ours() {
        let heap = LockedHeap::default();
        // Twice the same items: each priority has at least two, first come first served.
        let items = || (0..1_000).chain(0..1_000);
        items().for_each(|item| heap.put(item));
        let mut expected: Vec<u64> = items().collect();
        expected.sort_by_key(|&item| priority_of(item));
        let taken: Vec<u64> = expected.iter().map(|_| heap.take()).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn priorities_are_scattered_and_have_ties() {
        let mut seen: Vec<i64> = (0..ITEMS).map(priority_of).collect();
        assert!(!seen.is_sorted());
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() as u64 * 2 < ITEMS && seen.len() > 1_000, "{}", seen.len());
    }
}
