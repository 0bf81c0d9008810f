//! Time that goes on while the machine sleeps.
//!
//! A server does not know that a client's machine is suspended, and ends its sessions. [`Instant`]
//! stands still meanwhile (on Linux it is `CLOCK_MONOTONIC`): a client that counted on it would
//! think, when the machine wakes up, that it still holds what others have been granted since. So
//! all that is said of a session's end is said in [`Moment`]s.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment, on the clock that began when the machine was started and does not stop when it sleeps.
/// All processes of the machine read the same. (Where there is no such clock, as far as we know it,
/// it is one that stops.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// What the clock shows now.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        let time = clock_gettime(ClockId::Boottime);
        #[cfg(not(target_os = "linux"))]
        let time = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
        let shown = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        #[cfg(test)]
        let shown = shown + tests::SLEPT.get();
        Self(shown)
    }

    /// What the clock shows: nanoseconds.
    #[must_use]
    pub const fn shown(self) -> u64 {
        self.0
    }

    pub(crate) const fn at(shown: u64) -> Self {
        Self(shown)
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is from then until this one; nothing if it is not later.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// When it is, or was, if the machine does not sleep from now on.
    pub(crate) fn instant(self) -> Instant {
        // The other clock first: if time passes in between, the result is too early, never too
        // late.
        let (instant, now) = (Instant::now(), Self::now());
        if self < now {
            return instant.checked_sub(now.since(self)).unwrap_or(instant);
        }
        let left = self.since(now);
        instant.checked_add(left).unwrap_or(instant)
    }
}

/// Wakes a thread that polls when a moment has come, also if the machine slept: the time limits of
/// a poll stand still then.
#[derive(Debug)]
#[cfg(target_os = "linux")]
pub(crate) struct Alarm {
    timer: Option<std::os::fd::OwnedFd>,
    /// When it goes off.
    armed: Option<Moment>,
}

#[cfg(target_os = "linux")]
impl Alarm {
    /// One that is seen under this token. If the system has none there is none: then sleep is
    /// noticed later.
    pub(crate) fn new(registry: &mio::Registry, token: mio::Token) -> Self {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use std::os::fd::AsRawFd;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags).ok();
        let timer = timer.filter(|timer| {
            let mut source = mio::unix::SourceFd(&timer.as_raw_fd());
            registry.register(&mut source, token, mio::Interest::READABLE).is_ok()
        });
        Self { timer, armed: None }
    }

    /// Goes off then at the latest. One that goes off earlier is left alone: what it is for mostly
    /// moves on.
    pub(crate) fn arm(&mut self, at: Moment, now: Moment) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        if self.armed.is_some_and(|armed| armed <= at && armed > now) {
            return;
        }
        let Some(timer) = &self.timer else { return };
        let left = at.since(now).max(Duration::from_nanos(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let new = Itimerspec { it_interval: zero, it_value: value };
        // Setting it anew also takes back that it went off.
        self.armed = timerfd_settime(timer, TimerfdTimerFlags::empty(), &new).ok().map(|_| at);
    }
}

/// Elsewhere sleep is noticed later.
#[derive(Debug)]
#[cfg(not(target_os = "linux"))]
pub(crate) struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(crate) fn new(_: &mio::Registry, _: mio::Token) -> Self {
        Self
    }

    pub(crate) fn arm(&mut self, _: Moment, _: Moment) {}
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// For so long the machine has slept, as far as this thread knows.
        pub(crate) static SLEPT: Cell<u64> = const { Cell::new(0) };
    }

    /// The machine sleeps, from the view of this thread: its [`Instant`]s stand still.
    pub(crate) fn sleep(time: Duration) {
        SLEPT.set(SLEPT.get() + time.as_nanos() as u64);
    }

    #[test]
    fn an_instant_is_as_far_away_as_the_moment() {
        let (now, instant) = (Moment::now(), Instant::now());
        let hour = Duration::from_secs(3600);
        let away = now.after(hour).instant().duration_since(instant);
        assert!((hour - Duration::from_secs(10)..hour + Duration::from_secs(10)).contains(&away));
        sleep(2 * hour);
        assert!(now.after(hour).instant() < Instant::now());
        assert!(Moment::now().since(now) >= 2 * hour);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_alarm_wakes_who_polls() {
        let mut poll = mio::Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry(), mio::Token(7));
        let now = Moment::now();
        alarm.arm(now.after(Duration::from_secs(3600)), now);
        alarm.arm(now.after(Duration::from_millis(5)), now);
        let mut events = mio::Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
        assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [mio::Token(7)]);
        assert!(Moment::now() >= now.after(Duration::from_millis(5)));
    }
}
