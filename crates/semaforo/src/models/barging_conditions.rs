//! Conditions of a barging lock, while a task that was told to try again does not come: whoever is
//! signalled is not held up by it.

use std::sync::Arc;

use super::checker::explore_within;
use super::conditions::{Place, Waiting};
use super::race::{For, time_passes, with};
use super::task::Task;
use crate::sync::mutex::Lock;
use crate::{Condition, Mutex, OwnedMutexGuard, Request};

/// A barging lock, which one side holds, and a task that was told to try again, and does not come.
struct Barging {
    place: Place,
    guard: For<OwnedMutexGuard<u32>>,
    unpolled: For<Task<Request<Lock<Arc<Mutex<u32>>>>>>,
}

impl Barging {
    /// With so many tasks that wait for a signal.
    fn and<const TASKS: usize>() -> (Self, [Waiting; TASKS]) {
        let place = Place { lock: Arc::new(Mutex::barging(0)), condition: Condition::new() };
        let waiting = [(); TASKS].map(|()| place.waiting());
        let guard = place.enter();
        let unpolled = Task::queued(place.lock.lock_owned());
        drop(guard);
        let guard = For::one_side(place.enter());
        (Self { place, guard, unpolled }, waiting)
    }

    /// Somebody who comes, and has the lock for a moment if it is free.
    fn newcomer(&self) {
        drop(self.place.lock.try_lock());
    }

    /// Signals one, and leaves.
    fn signal(&self) {
        self.place.signal(self.guard.take());
    }

    /// The watchdog passes the task over that does not come.
    fn time_passes(&self) {
        while time_passes() {}
    }

    /// It comes at last, and has the lock.
    fn assert_settled(self) {
        drop(self.unpolled.left().run());
        self.place.assert_settled();
    }
}

/// A task is signalled, while a newcomer may have the lock.
#[test]
fn a_signal() {
    explore_within(3, || {
        let (barging, _) = with(Barging::and()).race([
            |(barging, [_])| barging.newcomer(),
            |(barging, [waiting])| {
                barging.signal();
                barging.time_passes();
                drop(waiting.take().resume());
            },
        ]);
        barging.assert_settled();
    });
}

/// Two are signalled at once. Which of them comes first is open: the second is told to try again if
/// the first does not come.
#[test]
fn a_broadcast() {
    explore_within(2, || {
        let (barging, _) = with(Barging::and()).race([
            |(barging, [_, second])| {
                barging.newcomer();
                drop(second.take().resume());
            },
            |(barging, [first, _])| {
                let guard = barging.guard.take();
                assert_eq!(barging.place.condition.broadcast(&guard), 2);
                drop(guard);
                barging.time_passes();
                drop(first.take().resume());
            },
        ]);
        barging.assert_settled();
    });
}

/// Hoare's signal: the signaller has the lock back, too.
#[test]
fn an_urgent_signal() {
    explore_within(3, || {
        let (barging, _) = with(Barging::and()).race([
            |(barging, [_])| barging.newcomer(),
            |(barging, [waiting])| {
                let signal = barging.place.condition.signal_urgent(barging.guard.take());
                let signalling = Task::queued(signal);
                drop(waiting.take().resume());
                barging.time_passes();
                drop(signalling.left().resume());
            },
        ]);
        barging.assert_settled();
    });
}

/// The one that was signalled leaves, and the next one has the signal.
#[test]
fn a_signal_passed_on() {
    explore_within(3, || {
        let (barging, _) = with(Barging::and()).race([
            |(barging, [_, _])| barging.newcomer(),
            |(barging, [first, second])| {
                barging.signal();
                drop(first.take());
                barging.time_passes();
                drop(second.take().resume());
            },
        ]);
        barging.assert_settled();
    });
}
