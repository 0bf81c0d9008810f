//! Conditions of a lock that a user made: a policy of its own.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use semaforo::policy::{Lanes, MutualExclusion};
use semaforo::{CancelSource, Condition, Policy, Synchronizer, WaitError};

use crate::support::{
    Line, Record, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, leaked, panic_of,
    until_queued,
};

/// One at a time, of two classes: who asks for lane 0 goes first. The state is whether it is taken, and
/// how often it was.
#[derive(Clone, Copy)]
struct Classes;

impl Policy for Classes {
    type Ask = usize;
    type Give = usize;
    type Refusal = Infallible;
    type Misuse = &'static str;
    const LANES: usize = 2;

    fn acquire(&self, state: u64, _: usize) -> Option<u64> {
        if PANICS.get() {
            panic!("the policy panicked");
        }
        (state & 1 == 0).then_some(state + 3)
    }
    fn release(&self, state: u64, _: usize) -> Result<u64, &'static str> {
        if state & 1 == 1 { Ok(state - 1) } else { Err("not taken") }
    }
    fn undo(&self, class: usize) -> Option<usize> {
        Some(class)
    }
    fn lane(&self, class: usize) -> usize {
        class
    }
    fn next_lane(&self, _: u64, _: Option<usize>, waiting: Lanes) -> usize {
        waiting.first()
    }
}

impl MutualExclusion for Classes {}

std::thread_local! {
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

type Lock = Synchronizer<Classes>;

fn fixture() -> (&'static Lock, &'static Condition<Classes>) {
    (leaked(Synchronizer::new(Classes, 0)), leaked(Condition::new()))
}

fn is_taken(lock: &Lock) -> bool {
    lock.state() & 1 == 1
}

#[test]
fn waiting_gives_it_away_and_a_signal_brings_it_back() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = fixture();
        let mut line = Line::new(arrangement, condition);
        let waiters = [0, 1, 1].map(|class| {
            line.enter_then(condition.wait(lock.acquire(class).wait()), move |held| {
                assert_eq!((held.ask(), *held), (class, class));
                assert!(is_taken(lock));
            })
        });
        assert!(!is_taken(lock));
        assert!(condition.signal(&lock.acquire(0).wait()));
        let held = lock.acquire(1).wait();
        assert_eq!(condition.broadcast(&held), 2);
        drop(held);
        waiters.into_iter().for_each(Waiter::join);
        assert!(!is_taken(lock));
        // Three times asked for, and three times again after a wait, and twice to signal.
        assert_eq!(lock.state() / 2, 8);
    });
}

/// Those who were signalled stand in the lanes of the policy.
#[test]
fn the_policys_order_decides_among_the_signalled() {
    let (lock, condition) = fixture();
    let order = Record::new();
    let mut late = Step::queued(condition.wait(lock.acquire(1).wait()));
    let mut soon = Step::queued(condition.wait(lock.acquire(0).wait()));
    assert_eq!(condition.broadcast(&lock.acquire(0).wait()), 2);
    assert_eq!((late.wakes(), soon.wakes()), (0, 1));
    order.note(soon.expect_ready().ask());
    order.note(late.expect_ready().ask());
    assert_eq!(order.entries(), [0, 1]);
    assert!(!is_taken(lock));
}

#[test]
fn limits_tokens_and_drops() {
    let (lock, condition) = fixture();
    let stop = CancelSource::new();
    let ended = condition.wait(lock.acquire(0).wait()).timeout(SHORT).wait().unwrap_err();
    assert!(ended.why == WaitError::TimedOut && is_taken(lock));
    let waiting = condition.wait(ended.guard).cancel_on(&stop.token());
    let mut waiting = Step::queued(waiting);
    fire(&stop, 1);
    let held = waiting.expect_ready().unwrap_err().guard;
    assert!(is_taken(lock));
    drop(Step::queued(condition.wait(held)));
    assert!(!is_taken(lock), "given away, and not taken back");
    drop(condition.wait(lock.acquire(0).wait()));
    assert!(!is_taken(lock), "a wait that was never polled drops what it has");
    let mut urgent = Step::queued(condition.wait(lock.acquire(1).wait()));
    let mut signals = Step::queued(condition.signal_urgent(lock.acquire(0).wait()));
    drop(urgent.expect_ready());
    drop(signals.expect_ready());
    let mut left = Step::queued(condition.wait(lock.acquire(1).wait()));
    assert!(condition.signal_and_leave(lock.acquire(0).wait()));
    drop(left.expect_ready());
    assert!(!is_taken(lock));
}

/// A shared lock, whose hold goes to another thread; and a condition that goes on as long as something
/// holds.
#[test]
fn owned_holds_and_waiting_for_something() {
    let lock = Arc::new(Synchronizer::new(Classes, 0));
    let condition: &'static Condition<Classes> = leaked(Condition::new());
    let value = Arc::new(AtomicU32::new(0));
    let (own, seen) = (Arc::clone(&lock), Arc::clone(&value));
    let waiter = Waiter::on_a_thread(move || {
        let held = own.acquire_owned(1).wait();
        let held = condition.wait_while(held, |class| {
            assert_eq!(*class, 1);
            seen.load(SeqCst) < 3
        });
        drop(held.wait());
    });
    for _ in 0..3 {
        until_queued(condition, 1);
        let held = lock.acquire_owned(0).wait();
        value.fetch_add(1, SeqCst);
        condition.signal(&held);
    }
    waiter.join();
    assert!(!is_taken(&lock));
}

/// A policy that panics in the middle of a signal has changed nothing: the one who waits still does.
#[test]
fn a_policy_that_panics_loses_nobody() {
    let (lock, condition) = fixture();
    lock.set_patience(Duration::from_secs(3600));
    let mut waiting = Step::queued(condition.wait(lock.acquire(1).wait()));
    for leaving in [false, true] {
        let held = lock.acquire(0).wait();
        PANICS.set(true);
        let message = panic_of(|| {
            if leaving {
                condition.signal_and_leave(held);
            } else {
                drop(condition.signal_urgent(held).wait());
            }
        });
        PANICS.set(false);
        assert_eq!(message, "the policy panicked");
        assert_eq!((condition.waiters(), waiting.wakes()), (1, 0));
        eventually("it is given back", || !is_taken(lock));
    }
    assert!(condition.signal(&lock.acquire(0).wait()));
    drop(waiting.expect_ready());
    assert!(!is_taken(lock));
}

/// C-01, C-02: the first wait decides, whether it was borrowed or owned, and a refusal changes
/// nothing.
#[test]
fn what_is_held_of_another_lock_is_refused() {
    let (lock, another) = (fixture().0, Arc::new(Synchronizer::new(Classes, 0)));
    let refused = |condition: &Condition<Classes>, misuse: u32| {
        let held = another.acquire_owned(1).wait();
        let message = panic_of(|| match misuse {
            0 => drop(condition.wait(held)),
            1 => drop(condition.wait_by(held, 1)),
            2 => drop(condition.wait_while(held, |_| true)),
            3 => drop(condition.signal_urgent(held)),
            4 => assert!(!condition.signal_and_leave(held)),
            _ => assert_eq!(condition.broadcast(&held), 0),
        });
        assert_eq!(message, "a condition was used with the guard of another lock");
        assert!(!is_taken(&another));
    };
    for misuse in 0..6 {
        let condition = Condition::new();
        drop(condition.wait(lock.acquire(0).wait()));
        refused(&condition, misuse);
        let mut waits = Step::queued(condition.wait(lock.acquire(1).wait()));
        refused(&condition, misuse);
        assert!(condition.signal(&lock.acquire(0).wait()));
        drop(waits.expect_ready());
        assert!(!is_taken(lock));
        let other = Condition::new();
        let mut waits = Step::queued(other.wait(another.acquire_owned(1).wait()));
        assert!(other.signal(&another.acquire(0).wait()));
        drop(waits.expect_ready());
    }
}
