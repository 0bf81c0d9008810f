//! Cases E: events that stay set, and events that let one through at a time.

use std::time::{Duration, Instant};

use crate::support::{Line, SHORT, Step, Waiter, WakerOf, fire, in_every_arrangement, leaked};
use semaforo::{AutoEvent, CancelSource, Event, WaitError};

/// E-01
#[test]
fn set_and_reset_are_followed_exactly() {
    let (event, auto) = (Event::new(), AutoEvent::new());
    for _ in 0..50 {
        event.set();
        auto.set();
        assert!(event.is_set() && auto.is_set());
        assert_eq!((event.available(), auto.available()), (u32::MAX, 1));
        event.reset();
        auto.reset();
        assert!(!event.is_set() && !auto.is_set());
        assert_eq!((event.available(), auto.available()), (0, 0));
    }
    assert!(Event::new_set().is_set() && AutoEvent::new_set().is_set());
    assert!(!Event::default().is_set() && !AutoEvent::default().is_set());
}

/// E-02
#[test]
fn waiting_for_a_set_event_uses_no_waker() {
    let unused = WakerOf(|| panic!("woken"), || panic!("cloned"), || {}).into_waker();
    let (event, auto) = (Event::new_set(), AutoEvent::new_set());
    assert!(Step::new(event.happened()).poll_with(&unused).is_ready());
    assert!(Step::new(event.happened().timeout(SHORT)).poll_with(&unused).is_ready());
    assert!(Step::new(auto.happened()).poll_with(&unused).is_ready());
    assert!(event.is_set() && !auto.is_set());
}

/// E-04
#[test]
fn waiting_for_an_unset_event_times_out() {
    in_every_arrangement(|arrangement| {
        let event = leaked(Event::new());
        let auto = leaked(AutoEvent::new());
        for limit in [Duration::ZERO, Duration::from_millis(100)] {
            let start = Instant::now();
            let timed = [
                Line::new(arrangement, event).start(event.happened().timeout(limit)),
                Line::new(arrangement, auto).start(auto.happened().timeout(limit)),
            ];
            assert_eq!(timed.map(Waiter::join), [Err(WaitError::TimedOut); 2]);
            assert!(start.elapsed() >= limit);
        }
        assert_eq!((event.waiters(), auto.waiters()), (0, 0));
    });
}

#[test]
fn setting_lets_everyone_pass_until_reset() {
    in_every_arrangement(|arrangement| {
        let event = leaked(Event::new());
        let mut line = Line::new(arrangement, event);
        let waiters: Vec<_> = (0..5).map(|_| line.enter(event.happened())).collect();
        event.set();
        assert_eq!(event.waiters(), 0);
        line.start(event.happened()).join();
        event.reset();
        waiters.into_iter().for_each(Waiter::join);
        let late = line.enter(event.happened());
        event.set();
        late.join();
    });
}

/// A reset that comes before the waiters have run does not catch them.
#[test]
fn whoever_was_let_through_stays_so() {
    let event = Event::new();
    let mut waiters: Vec<_> = (0..40).map(|_| Step::queued(event.happened())).collect();
    event.set();
    event.reset();
    for waiter in &mut waiters {
        waiter.expect_ready();
    }
    Step::queued(event.happened()).expect_pending();
}

#[test]
fn a_pulse_lets_those_pass_who_wait_and_nobody_else() {
    in_every_arrangement(|arrangement| {
        let event = leaked(Event::new());
        let mut line = Line::new(arrangement, event);
        assert_eq!(event.pulse(), 0);
        let waiters: Vec<_> = (0..3).map(|_| line.enter(event.happened())).collect();
        assert_eq!(event.pulse(), 3);
        waiters.into_iter().for_each(Waiter::join);
        assert!(!event.is_set());
        let late = line.enter(event.happened());
        event.set();
        late.join();
    });
}

/// E-06
#[test]
fn an_auto_event_stores_one_signal_for_one_waiter() {
    in_every_arrangement(|arrangement| {
        let event = leaked(AutoEvent::new());
        let mut line = Line::new(arrangement, event);
        event.set();
        event.set();
        line.start(event.happened()).join();
        assert!(!event.is_set());
        let second = line.enter(event.happened());
        event.set();
        assert_eq!((event.waiters(), event.is_set()), (0, false));
        second.join();
        assert!(!event.try_pass());
    });
}

#[test]
fn every_signal_lets_the_first_waiter_through() {
    in_every_arrangement(|arrangement| {
        let event = leaked(AutoEvent::new());
        let mut line = Line::new(arrangement, event);
        let waiters: Vec<_> = (0..4).map(|_| line.enter(event.happened())).collect();
        for (number, waiter) in waiters.into_iter().enumerate() {
            assert!(!event.try_pass(), "nobody overtakes");
            event.set();
            assert_eq!(event.waiters(), 3 - number);
            waiter.join();
        }
        assert!(!event.is_set());
    });
}

/// E-08
#[test]
fn a_waiter_let_through_by_a_pulse_does_not_eat_the_stored_signal() {
    in_every_arrangement(|arrangement| {
        let event = leaked(AutoEvent::new());
        let waiter = Step::queued(event.happened());
        assert_eq!(event.pulse(), 1);
        event.set();
        drop(waiter);
        assert!(event.is_set());
        let mut line = Line::new(arrangement, event);
        line.start(event.happened()).join();
        let next = line.enter(event.happened());
        event.set();
        next.join();
    });
}

/// E-08: and more of them than are woken at a time.
#[test]
fn a_pulse_to_many_makes_no_signal_when_they_are_dropped() {
    let event = AutoEvent::new();
    let waiters: Vec<_> = (0..100).map(|_| Step::queued(event.happened())).collect();
    assert_eq!(event.pulse(), 100);
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
    drop(waiters);
    assert!(!event.is_set());
}

/// A signal that its waiter did not take goes to the next, or is stored.
#[test]
fn a_dropped_signalled_waiter_forwards_the_signal() {
    in_every_arrangement(|arrangement| {
        let event = leaked(AutoEvent::new());
        let first = Step::queued(event.happened());
        let next = Line::new(arrangement, event).enter(event.happened());
        event.set();
        assert_eq!((first.wakes(), event.waiters()), (1, 1));
        drop(first);
        next.join();
        let alone = Step::queued(event.happened());
        event.set();
        drop(alone);
        assert!(event.is_set(), "stored");
    });
}

#[test]
fn a_cancelled_waiter_takes_no_signal() {
    in_every_arrangement(|arrangement| {
        let event = leaked(AutoEvent::new());
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, event);
        let first = line.enter(event.happened().cancel_on(&stop.token()));
        let second = line.enter(event.happened());
        fire(&stop, 1);
        event.set();
        assert_eq!(first.join(), Err(WaitError::Cancelled));
        second.join();
        assert!(!event.is_set());
    });
}

#[test]
fn debugging_shows_signal_and_waiters() {
    let (event, auto) = (Event::new(), AutoEvent::new_set());
    let _waiter = Step::queued(event.happened());
    assert_eq!(format!("{event:?}"), "Event { set: false, waiters: 1 }");
    assert_eq!(format!("{auto:?}"), "AutoEvent { set: true, waiters: 0 }");
}
