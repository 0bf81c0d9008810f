//! Time, cheaply enough to note it for every task.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A moment, comparable with others; only a [`Clock`] knows how long ago it was. On x86-64 it is
/// the processor's time stamp, which costs a third of asking the system for the time.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has this instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    };
}

/// About how many ticks that is: good enough for deciding what is worth while.
pub(crate) fn about(time: Duration) -> u64 {
    /// Ticks in a thousand microseconds, once they are known.
    static RATE: AtomicU64 = AtomicU64::new(0);
    let mut rate = RATE.load(Ordering::Relaxed);
    if rate == 0 {
        rate = match CLOCK.start.elapsed() >= Clock::SHORTEST {
            true => (1e6 / CLOCK.tick_length()) as u64,
            // A guess, for as long as it cannot be known.
            false => return time.as_nanos() as u64 * 2,
        };
        RATE.store(rate, Ordering::Relaxed);
    }
    time.as_micros() as u64 * rate / 1000
}

/// The clock of this process. Pools look at it when they are made, so that it has run for a while
/// when it is asked.
pub(crate) static CLOCK: LazyLock<Clock> =
    LazyLock::new(|| Clock { start: Instant::now(), ticks: ticks() });

/// Tells what ticks mean, by comparing the ticks and the time since it was made: no calibration
/// that a caller has to wait for.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    ticks: u64,
}

impl Clock {
    /// What is needed to tell one length from another.
    const SHORTEST: Duration = Duration::from_millis(1);

    /// How many nanoseconds one tick takes.
    pub(crate) fn tick_length(&self) -> f64 {
        while self.start.elapsed() < Self::SHORTEST {
            std::hint::spin_loop();
        }
        let (time, ticks) = (self.start.elapsed(), ticks().saturating_sub(self.ticks));
        if ticks == 0 { 1.0 } else { time.as_nanos() as f64 / ticks as f64 }
    }

    pub(crate) fn now(&self) -> Now {
        Now { ticks: ticks(), tick_length: self.tick_length() }
    }
}

/// One reading of the clock: what is older by its ticks is also older by its time.
pub(crate) struct Now {
    ticks: u64,
    tick_length: f64,
}

impl Now {
    /// How long ago that was.
    pub(crate) fn age(&self, moment: u64) -> Duration {
        let ticks = self.ticks.saturating_sub(moment);
        Duration::from_nanos((ticks as f64 * self.tick_length) as u64)
    }
}
