//! What a pool counts.

// Not modelled: nothing depends on them.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::sleepers::Wait;

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
    /// How many spare threads replace workers that wait.
    pub spares: usize,
    /// How many workers wait in the middle of a task for something that is no task of this pool:
    /// for a lock, a queue, or inside [`blocking`](super::blocking).
    ///
    /// If all [threads](super::Pool::threads) do, tasks are queued, and there are no
    /// [spares](super::Builder::spares), then nothing is begun until one of the waits ends: for
    /// ever, if only a queued task would end it.
    pub waiting: usize,
    /// How many workers wait in the middle of a task for other tasks of this pool.
    pub joining: usize,
    /// How often a worker has taken tasks from another's queue.
    pub steals: u64,
    /// How many tasks were started by a worker that waited for them.
    pub run_by_waiters: u64,
}

/// What a pool knows of one level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelMetrics {
    /// How many tasks are queued. Those that were cancelled may count until their turn comes;
    /// [`scheduled`](super::Pool::scheduled) does not list them.
    pub queued: usize,
    /// How many times a task was picked: once for a closure, once for each poll of a future.
    pub picked: u64,
    /// How long tasks were queued before they were picked. Every one of a worker's first 1024 picks
    /// counts, and then every 16th.
    pub waits: Histogram,
}

/// The least length that is told from none.
const SHORTEST: Duration = Duration::from_nanos(1);

/// How often something took how long, in ranges whose ends are twice their beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many were below so many nanoseconds, and not below half as many.
    counts: BTreeMap<u64, u64>,
}

impl Histogram {
    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The ranges that something fell into, and how often.
    pub fn buckets(&self) -> impl Iterator<Item = (std::ops::Range<Duration>, u64)> + '_ {
        self.counts.iter().map(|(below, count)| {
            let below = Duration::from_nanos(*below);
            // A moment that the clock cannot tell from none has no lower half.
            let from = if below == SHORTEST { Duration::ZERO } else { below / 2 };
            (from..below, *count)
        })
    }

    /// What this part of them (0.5 for the median, 0.99, ...) did not exceed, up to a factor of
    /// two; zero if nothing was counted.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Length {
        let rank = (part.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        Length(reached.map_or(Duration::ZERO, |(range, _)| range.end))
    }
}

impl fmt::Display for Histogram {
    /// The quantiles that one looks at first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most, all] = [0.5, 0.99, 1.0].map(|part| self.quantile(part));
        write!(f, "half within {half}, 99 % within {most}, all {} within {all}", self.count())
    }
}

/// A length of time that prints as people say it: `134 ms`.
///
/// ```
/// use semaforo::tasks::Length;
/// use std::time::Duration;
///
/// assert_eq!(Length(Duration::from_micros(134_218)).to_string(), "134 ms");
/// assert_eq!(Length(Duration::from_nanos(1_049)).to_string(), "1.05 µs");
/// assert_eq!(Length(Duration::from_secs(75)).as_millis(), 75_000);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Length(pub Duration);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos() as f64;
        let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
        // What would be rounded to a thousand is one of the next unit.
        let Some((unit, size)) = units.into_iter().find(|(_, size)| nanoseconds >= 0.9995 * size)
        else {
            return f.pad(&format!("{nanoseconds} ns"));
        };
        let number = nanoseconds / size;
        let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
        f.pad(&format!("{number:.digits$} {unit}"))
    }
}

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::ops::Deref for Length {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl PartialEq<Duration> for Length {
    fn eq(&self, other: &Duration) -> bool {
        self.0 == *other
    }
}

impl PartialOrd<Duration> for Length {
    fn partial_cmp(&self, other: &Duration) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(other)
    }
}

impl From<Length> for Duration {
    fn from(length: Length) -> Self {
        length.0
    }
}

/// What one worker counts. Only the worker writes, so that counting costs no atomic change.
pub(crate) struct Counters {
    pub(crate) steals: Counter,
    pub(crate) run_here: Counter,
    /// Whether it runs a task now.
    pub(crate) busy: Counter,
    /// What it waits for in the middle of a task: 0 for nothing, or 1 and the number of a [`Wait`].
    waits: Counter,
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
            waits: Counter::new(),
            picks: Counter::new(),
            levels: (0..levels).map(level).collect(),
        }
    }

    /// The worker waits, in the middle of a task, for this or for nothing.
    pub(crate) fn set_wait(&self, wait: Option<Wait>) {
        self.waits.set(wait.map_or(0, |wait| wait as u64 + 1));
    }

    pub(crate) fn waits_for(&self, wait: Wait) -> bool {
        self.waits.get() == wait as u64 + 1
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

    /// Adds what was counted here for one level, of which a tick has so many nanoseconds.
    pub(crate) fn add_to(&self, level: u32, tick: f64, metrics: &mut LevelMetrics) {
        let counters = &self.levels[level as usize];
        metrics.picked += counters.picked.get();
        for (bits, count) in counters.waits.iter().enumerate().filter(|(_, count)| count.get() > 0)
        {
            let below = ((1_u64 << bits) as f64 * tick).ceil() as u64;
            *metrics.waits.counts.entry(below.max(1)).or_default() += count.get();
        }
    }
}

impl LevelMetrics {
    pub(crate) fn new() -> Self {
        Self { queued: 0, picked: 0, waits: Histogram::default() }
    }
}
