//! The kernel's clock: it starts no earlier than anything that was journaled, and never goes back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::kernel::Millis;

/// Milliseconds that only grow.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Millis,
    started: Instant,
}

impl Clock {
    /// A clock that begins with the larger of both times.
    #[must_use]
    pub fn starting(wall: Millis, journaled: Millis) -> Self {
        Self { base: wall.max(journaled), started: Instant::now() }
    }

    /// What it shows at this instant: what is due then.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Millis {
        let elapsed = instant.saturating_duration_since(self.started);
        self.base + Millis::try_from(elapsed.as_millis()).unwrap_or(Millis::MAX / 2)
    }

    /// What it shows next: time that begins at this instant is counted from there, so that nothing
    /// ends early.
    #[must_use]
    pub fn after(&self, instant: Instant) -> Millis {
        self.at(instant) + 1
    }

    /// When it shows this time. Not earlier, and at most a millisecond later.
    #[must_use]
    pub fn when(&self, time: Millis) -> Instant {
        let elapsed = Duration::from_millis(time.saturating_sub(self.base));
        self.started.checked_add(elapsed).unwrap_or_else(|| self.started + FAR)
    }
}

/// Later than any request waits.
const FAR: Duration = Duration::from_secs(86_400 * 365);

/// Milliseconds of the wall clock.
#[must_use]
pub(super) fn wall() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_shows_less_than_was_journaled() {
        let now = wall();
        for (shown, journaled) in [(now, now + 3_600_000), (now, now - 3_600_000), (0, now)] {
            let clock = Clock::starting(shown, journaled);
            let time = clock.at(Instant::now());
            assert!(time >= shown.max(journaled));
            let now = Instant::now();
            assert!(clock.when(clock.at(now)) <= now && clock.when(clock.after(now)) > now);
            assert!(clock.at(clock.when(time + 10)) >= time + 10);
        }
    }
}
