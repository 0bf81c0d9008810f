//! How the main thread learns that tasks without handles have ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::row::Work;
use crate::workload::settle;

/// Many times the longest sample; whoever takes longer is taken to have hung.
const ENDLESS: Duration = Duration::from_secs(10);

/// Repeats a round in which so many tasks count themselves down. Nanoseconds per
/// part, of which a round has so many; infinite if a round does not end.
pub(super) fn counted_down(
    tasks: u64,
    parts: u64,
    start: impl Fn(&'static Countdown) + 'static,
) -> Work {
    let countdown = Countdown::new();
    Work::counted(move |rounds| {
        let begin = Instant::now();
        for _ in 0..rounds {
            countdown.begin(tasks);
            start(countdown);
            if !countdown.wait() {
                return f64::INFINITY;
            }
        }
        begin.elapsed().as_nanos() as f64 / (rounds * parts) as f64
    })
}

/// Counts tasks down; the thread that made it waits for the last.
pub(super) struct Countdown {
    remaining: AtomicU64,
    waiter: Thread,
}

impl Countdown {
    pub(super) fn new() -> &'static Countdown {
        settle(Countdown { remaining: AtomicU64::new(0), waiter: thread::current() })
    }

    pub(super) fn begin(&self, tasks: u64) {
        self.remaining.store(tasks, Ordering::Release);
    }

    pub(super) fn one_has_ended(&self) {
        if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// Whether the last has ended; not if that takes too long.
    pub(super) fn wait(&self) -> bool {
        let begin = Instant::now();
        while self.remaining.load(Ordering::Acquire) > 0 {
            match ENDLESS.checked_sub(begin.elapsed()) {
                Some(rest) => thread::park_timeout(rest),
                None => return false,
            }
        }
        true
    }
}
