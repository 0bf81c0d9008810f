//! How long a session lives for sure, and how long before that its children have to end.

use std::time::{Duration, Instant};

use semaforo_client::Moment;

/// How long before the certain end of a session a child is asked to end, so that it has ended by
/// then: not at once when the connection is lost, since it may come back, and not so late that it
/// has no time to tidy up.
pub(in crate::cli) fn notice(ttl: Duration, grace: Duration) -> Duration {
    grace.min(ttl / 5)
}

/// How long before the certain end of a session the guardian asks. The client does so a little
/// earlier: if it can, it has done it.
pub(in crate::cli) fn last_notice(ttl: Duration, grace: Duration) -> Duration {
    notice(ttl, grace) / 2
}

/// How often to look whether the session was renewed, which the client does by itself after a third
/// of its time.
pub(in crate::cli) fn glance(ttl: Duration) -> Duration {
    ttl / 4
}

/// The machine's clock, in milliseconds. It goes on while the machine sleeps, and other processes
/// read the same.
pub(super) fn clock() -> u64 {
    Moment::now().shown() / 1_000_000
}

/// What the machine's clock will show at this instant.
pub(super) fn on_the_clock(instant: Instant) -> u64 {
    let left = instant.saturating_duration_since(Instant::now());
    clock().saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_asked_in_time_and_not_too_early() {
        let seconds = Duration::from_secs;
        assert_eq!(notice(seconds(10), seconds(10)), seconds(2));
        assert_eq!(notice(seconds(10), seconds(1)), seconds(1));
        assert_eq!(notice(seconds(10), seconds(0)), seconds(0));
    }

    #[test]
    fn clocks_agree() {
        let (before, after) = (clock(), on_the_clock(Instant::now() + Duration::from_secs(60)));
        assert!((before + 59_000..=before + 61_000).contains(&after));
    }
}
