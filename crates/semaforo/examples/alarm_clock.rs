//! Hoare's alarm clock: sleepers wait by the time they want to be woken at, so that a tick of the
//! clock looks at one number only, and wakes nobody too early.
//!
//! After C. A. R. Hoare, "Monitors: an operating system structuring concept", 1974.
//!
//! `cargo run --release -p semaforo --example alarm_clock`

use std::thread;
use std::time::Duration;

use semaforo::{Condition, Monitor, MutexGuard};

struct AlarmClock {
    /// Ticks since the beginning.
    now: Monitor<u64>,
    wakeup: Condition,
}

impl AlarmClock {
    fn new() -> Self {
        Self { now: Monitor::new(0), wakeup: Condition::new() }
    }

    /// Sleeps for so many ticks. The clock stands still while the caller keeps what it gets: the time.
    fn wake_me(&self, ticks: u64) -> MutexGuard<'_, u64> {
        let now = self.now.enter().wait();
        if ticks == 0 {
            return now;
        }
        let due = *now + ticks;
        self.wakeup.wait_by(now, due).wait()
    }

    /// One more tick. Those who are due have been awake, one after another, when this returns.
    fn tick(&self) {
        let mut now = self.now.enter().wait();
        *now += 1;
        while self.wakeup.least_priority(&now).is_some_and(|due| due <= *now) {
            now = self.wakeup.signal_urgent(now).wait();
        }
    }

    fn sleepers(&self) -> usize {
        self.wakeup.waiters()
    }
}

/// Sets an alarm for everyone, in this order, then lets the clock tick until all have been woken. Tells
/// `woken` when, and who.
fn sleep_all<'a>(sleepers: &[(&'a str, u64)], tick: Duration, woken: impl Fn(u64, &'a str) + Sync) {
    let clock = AlarmClock::new();
    thread::scope(|scope| {
        for (alarms, &(name, ticks)) in sleepers.iter().enumerate() {
            let (clock, woken) = (&clock, &woken);
            scope.spawn(move || {
                let now = clock.wake_me(ticks);
                woken(*now, name);
            });
            while clock.sleepers() <= alarms {
                thread::yield_now();
            }
        }
        while clock.sleepers() > 0 {
            thread::sleep(tick);
            clock.tick();
        }
    });
}

const KITCHEN: [(&str, u64); 5] = [
    ("take the bread out", 30),
    ("take the eggs out", 6),
    ("pour the tea", 4),
    ("drain the pasta", 9),
    ("serve the pasta sauce", 9),
];

fn main() {
    println!("A tick takes 20 ms here.");
    sleep_all(&KITCHEN, Duration::from_millis(20), |now, what| {
        println!("at tick {now:>2}: {what}")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_wakes_at_its_own_tick_and_equals_in_the_order_of_coming() {
        let log = Monitor::new(Vec::new());
        sleep_all(&KITCHEN, Duration::ZERO, |now, what| log.enter().wait().push((now, what)));

        let mut expected = KITCHEN.map(|(what, ticks)| (ticks, what));
        expected.sort_by_key(|(ticks, _)| *ticks);
        assert_eq!(log.into_inner(), expected);
    }

    #[test]
    fn who_need_not_sleep_does_not() {
        assert_eq!(*AlarmClock::new().wake_me(0), 0);
    }

    #[test]
    fn a_sleeper_wakes_before_the_next_tick_that_stands_at_the_door() {
        let clock = &AlarmClock::new();
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| *clock.wake_me(1));
            while clock.sleepers() < 1 {
                thread::yield_now();
            }
            let now = clock.now.enter().wait();
            for ticks in 1..=2 {
                scope.spawn(|| clock.tick());
                while clock.now.waiters() < ticks {
                    thread::yield_now();
                }
            }
            drop(now);
            assert_eq!(sleeper.join().unwrap(), 1);
        });
        assert_eq!(*clock.wake_me(0), 2);
    }
}
