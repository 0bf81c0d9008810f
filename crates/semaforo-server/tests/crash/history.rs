//! What the clients remember, and what has to be true of it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Messages, by producer and number.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    put: HashSet<(u64, u64)>,
    /// Put, perhaps: the server died before it answered.
    maybe_put: HashSet<(u64, u64)>,
    taken: HashMap<(u64, u64), u32>,
    /// The last number of each producer that was taken in order.
    last: HashMap<u64, u64>,
    /// How many takes have an unknown outcome.
    maybe_taken: usize,
}

impl Ledger {
    pub(crate) fn put(&self, producer: u64, number: u64) {
        self.0.lock().unwrap().put.insert((producer, number));
    }

    pub(crate) fn maybe_put(&self, producer: u64, number: u64) {
        self.0.lock().unwrap().maybe_put.insert((producer, number));
    }

    pub(crate) fn taken(&self, payload: &str) {
        *self.0.lock().unwrap().taken.entry(parse(payload)).or_default() += 1;
    }

    pub(crate) fn maybe_taken(&self) {
        self.0.lock().unwrap().maybe_taken += 1;
    }

    pub(crate) fn taken_in_order(&self, payload: &str) {
        let (producer, number) = parse(payload);
        let before = self.0.lock().unwrap().last.insert(producer, number);
        assert!(
            before.is_none_or(|before| before + 1 == number),
            "{number} of producer {producer} was taken after {before:?}"
        );
        self.taken(payload);
    }

    /// Everything that was put was taken, once, and nothing else.
    pub(crate) fn each_was_taken_once(&self) {
        let entries = self.0.lock().unwrap();
        assert!(!entries.put.is_empty());
        for (message, times) in &entries.taken {
            assert_eq!(*times, 1, "{message:?} was taken {times} times");
            assert!(entries.put.contains(message), "{message:?} was never put");
        }
        for message in &entries.put {
            assert!(entries.taken.contains_key(message), "{message:?} is lost");
        }
    }

    /// Nothing was taken twice; missing are at most as many as takes were interrupted.
    pub(crate) fn at_most_those_in_flight_are_missing(&self) {
        let entries = self.0.lock().unwrap();
        assert!(!entries.put.is_empty());
        for (message, times) in &entries.taken {
            assert_eq!(*times, 1, "{message:?} was taken {times} times");
            let known = entries.put.contains(message) || entries.maybe_put.contains(message);
            assert!(known, "{message:?} was never put");
        }
        let missing = entries.put.iter().filter(|message| !entries.taken.contains_key(*message));
        let missing = missing.count();
        assert!(
            missing <= entries.maybe_taken,
            "{missing} messages are lost, but only {} takes were interrupted",
            entries.maybe_taken
        );
    }
}

fn parse(payload: &str) -> (u64, u64) {
    let inside = payload.trim_matches(['[', ']']);
    let (producer, number) = inside.split_once(',').unwrap_or_else(|| panic!("{payload:?}"));
    (producer.parse().unwrap(), number.parse().unwrap())
}

/// Whether a client holds the lock.
#[derive(Clone, Default)]
pub(crate) struct Exclusion(Arc<AtomicBool>);

impl Exclusion {
    pub(crate) fn enter(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "two holders at once");
    }

    pub(crate) fn leave(&self) {
        assert!(self.0.swap(false, Ordering::SeqCst));
    }
}

/// Fences that were seen.
#[derive(Clone, Default)]
pub(crate) struct Fences(Arc<Mutex<(u64, HashSet<u64>)>>);

impl Fences {
    /// Of a lock, by its present holder: higher than all before it.
    pub(crate) fn exclusive(&self, fence: u64) {
        let mut fences = self.0.lock().unwrap();
        assert!(fence > fences.0, "fence {fence} after {}", fences.0);
        fences.0 = fence;
        assert!(fences.1.insert(fence), "fence {fence} came twice");
    }

    pub(crate) fn unique(&self, fence: u64) {
        assert!(self.0.lock().unwrap().1.insert(fence), "fence {fence} came twice");
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }
}
