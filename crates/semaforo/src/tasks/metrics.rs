//! What a pool counts.

// Not modelled: nothing depends on them.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ticks::CLOCK;

/// What a pool has done and has yet to do: see [`Pool::metrics`](super::Pool::metrics).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// By level.
    pub levels: Vec<LevelMetrics>,
    /// How many tasks run now, the long-running ones included.
    pub running: usize,
    /// How many threads the pool has now, with the spare ones and those of long-running tasks.
    pub threads: usize,
    /// How many workers sleep, because there is nothing to do.
    pub sleeping: usize,
    /// How many spare threads stand in for workers that wait.
    pub spares: usize,
    /// How often a worker has taken tasks from another's queue.
    pub steals: u64,
    /// How many tasks were started by a worker that waited for them.
    pub run_by_waiters: u64,
}

/// What a pool knows of one level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelMetrics {
    /// How many tasks are queued. Those that were cancelled count until their turn comes.
    pub queued: usize,
    /// How many times a task was picked: once for a closure, once for each poll of a future.
    pub picked: u64,
    /// How long tasks were queued before they were picked. Every one of a worker's first 1024 picks
    /// counts, and then every 16th.
    pub waits: Histogram,
}

/// How often something took how long, in powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By the number of bits of the nanoseconds.
    counts: Vec<u64>,
}

impl Histogram {
    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The ranges that something fell into, and how often.
    pub fn buckets(&self) -> impl Iterator<Item = (std::ops::Range<Duration>, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bits, count)| {
            let below = Duration::from_nanos(1 << bits);
            let from = if bits == 0 { Duration::ZERO } else { below / 2 };
            (from..below, *count)
        })
    }

    /// What this part of them (0.5 for the median, 0.99, ...) did not exceed, up to a factor of two;
    /// zero if nothing was counted.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (part.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.map_or(Duration::ZERO, |(range, _)| range.end)
    }
}

/// What one worker counts. Only the worker writes, so that counting costs no atomic change.
pub(crate) struct Counters {
    pub(crate) steals: Counter,
    pub(crate) run_here: Counter,
    /// Whether it runs a task now.
    pub(crate) busy: Counter,
    /// All picks.
    picks: Counter,
    levels: Box<[LevelCounters]>,
}

struct LevelCounters {
    picked: Counter,
    /// By the number of bits of the ticks.
    waits: Box<[Counter; 64]>,
}

/// A number that one thread changes and others see.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn increment(&self) {
        self.set(self.get() + 1);
    }
}

impl Counters {
    /// How many picks a worker measures before it only samples.
    const MEASURED: u64 = 1024;
    /// Of how many picks it then measures one.
    const SAMPLED: u64 = 16;

    pub(crate) fn new(levels: u32) -> Self {
        let level = |_| LevelCounters {
            picked: Counter::new(),
            waits: Box::new(std::array::from_fn(|_| Counter::new())),
        };
        Self {
            steals: Counter::new(),
            run_here: Counter::new(),
            busy: Counter::new(),
            picks: Counter::new(),
            levels: (0..levels).map(level).collect(),
        }
    }

    /// A task of this level, queued then, was picked. `now` is asked for only if it is measured.
    #[inline]
    pub(crate) fn picked(&self, level: u32, queued: u64, now: impl FnOnce() -> u64) {
        let counters = &self.levels[level as usize];
        counters.picked.increment();
        let picks = self.picks.get();
        self.picks.set(picks + 1);
        if picks < Self::MEASURED || picks % Self::SAMPLED == 0 {
            let waited = now().saturating_sub(queued);
            let bits = u64::BITS - waited.leading_zeros();
            counters.waits[bits.min(63) as usize].increment();
        }
    }

    /// Adds what was counted here for one level.
    pub(crate) fn add_to(&self, level: u32, metrics: &mut LevelMetrics) {
        let counters = &self.levels[level as usize];
        metrics.picked += counters.picked.get();
        let tick = CLOCK.tick_length();
        for (bits, count) in counters.waits.iter().enumerate().filter(|(_, count)| count.get() > 0)
        {
            // The middle of the range, in nanoseconds.
            let ticks = if bits == 0 { 0.0 } else { 0.75 * (1_u64 << bits) as f64 };
            let nanoseconds = (ticks * tick) as u64;
            let index = (u64::BITS - nanoseconds.leading_zeros()) as usize;
            let counts = &mut metrics.waits.counts;
            counts.resize(counts.len().max(index + 1), 0);
            counts[index] += count.get();
        }
    }
}

impl LevelMetrics {
    pub(crate) fn new() -> Self {
        Self { queued: 0, picked: 0, waits: Histogram::default() }
    }
}
