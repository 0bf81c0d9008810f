//! Cases S: whom a semaphore serves when.

use std::time::{Duration, Instant};

use crate::support::{
    Line, SHORT, Step, eventually, fire, in_every_arrangement, in_every_arrangement_at_once,
    leaked, patient,
};
use semaforo::{CancelSource, Semaphore, WaitError};

/// S-05
#[test]
fn the_head_is_served_before_anyone_behind_it() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(4)));
        let mut line = Line::new(arrangement, semaphore);
        let five = line.enter(semaphore.acquire(5));
        let three = line.enter(semaphore.acquire(3));
        semaphore.release(1).unwrap();
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 1));
        five.join().unwrap().forget();
        semaphore.release(1).unwrap();
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 1));
        assert!(!three.is_done());
        semaphore.release(2).unwrap();
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 0));
        assert_eq!(three.join().unwrap().permits(), 3);
    });
}

/// S-09
#[test]
fn a_newcomer_queues_although_a_permit_is_free() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(1)));
        let mut line = Line::new(arrangement, semaphore);
        let head = line.enter(semaphore.acquire(3));
        let newcomer = line.enter(semaphore.acquire(1));
        assert!(semaphore.try_acquire(1).is_err(), "a try does not overtake");
        let impatient = line.start(semaphore.acquire(1).timeout(Duration::ZERO));
        assert_eq!(impatient.join().unwrap_err(), WaitError::TimedOut);
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 2));
        semaphore.release(2).unwrap();
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 1));
        head.join().unwrap().forget();
        assert!(!newcomer.is_done());
        semaphore.release(1).unwrap();
        drop(newcomer.join().unwrap());
    });
}

/// S-12
#[test]
fn a_releaser_that_comes_again_goes_to_the_tail() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(1)));
        let held = semaphore.try_acquire(1).unwrap();
        let mut line = Line::new(arrangement, semaphore);
        let mut queue = std::collections::VecDeque::new();
        for name in ["a", "b", "c"] {
            queue.push_back((name, line.enter(semaphore.acquire(1))));
        }
        drop(held);
        let mut order = Vec::new();
        for turn in 0..6 {
            let (name, waiter) = queue.pop_front().unwrap();
            let permit = waiter.join().unwrap();
            assert!(queue.iter().all(|(_, waiter)| !waiter.is_done()), "one at a time");
            order.push(name);
            drop(permit);
            if turn < 3 {
                queue.push_back((name, line.enter(semaphore.acquire(1))));
            }
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "c"]);
    });
}

/// S-12: exactly, step by step.
#[test]
fn a_task_that_releases_and_asks_again_is_last() {
    let semaphore = patient(Semaphore::new(1));
    let first = semaphore.try_acquire(1).unwrap();
    let mut b = Step::queued(semaphore.acquire(1));
    let mut c = Step::queued(semaphore.acquire(1));
    drop(first);
    let mut a = Step::queued(semaphore.acquire(1));
    drop(b.expect_ready().unwrap());
    a.expect_pending();
    drop(c.expect_ready().unwrap());
    drop(a.expect_ready().unwrap());
    assert_eq!((a.wakes(), b.wakes(), c.wakes()), (1, 1, 1));
}

/// S-13
#[test]
fn one_release_serves_as_many_as_it_suffices_for() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(3)));
        let held = semaphore.try_acquire(3).unwrap();
        let mut line = Line::new(arrangement, semaphore);
        let one = line.enter(semaphore.acquire(1));
        let two = line.enter(semaphore.acquire(2));
        let last = line.enter(semaphore.acquire(2));
        drop(held);
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 1));
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(!last.is_done());
        drop(one);
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 1));
        drop(two);
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
        assert_eq!(last.join().unwrap().permits(), 2);
    });
}

/// S-16
#[test]
fn a_follower_is_served_when_the_head_times_out() {
    in_every_arrangement_at_once(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(10)));
        let held = semaphore.try_acquire(1).unwrap();
        let mut line = Line::new(arrangement, semaphore);
        // Started first, and long enough to see the follower queued behind it.
        let limit = SHORT * 20;
        let start = Instant::now();
        let head = line.enter(semaphore.acquire(10).timeout(limit));
        let follower = line.enter(semaphore.acquire(1));
        let permit = follower.join().unwrap();
        assert!(start.elapsed() >= limit, "not before the head gave up");
        assert_eq!(head.join().unwrap_err(), WaitError::TimedOut);
        assert_eq!((semaphore.available(), semaphore.waiters()), (8, 0));
        drop((permit, held));
    });
}

/// S-16: the head is a task that nobody polls again; the timer acts by itself.
#[test]
fn a_follower_is_served_when_an_abandoned_head_times_out() {
    let semaphore = patient(Semaphore::new(10));
    let _held = semaphore.try_acquire(1).unwrap();
    let mut head = Step::queued(semaphore.acquire(10).timeout(SHORT));
    let mut follower = Step::queued(semaphore.acquire(1));
    eventually("the head times out", || semaphore.waiters() == 0);
    assert_eq!(semaphore.available(), 8);
    // The timer's thread wakes after it has changed the state.
    eventually("the head is woken", || head.wakes() == 1);
    drop(follower.expect_ready().unwrap());
    assert_eq!(head.expect_ready().unwrap_err(), WaitError::TimedOut);
    assert_eq!(head.wakes(), 1);
}

/// S-17
#[test]
fn cancelling_the_head_serves_those_whom_it_held_up() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(3)));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, semaphore);
        let eight = line.enter(semaphore.acquire(8).cancel_on(&stop.token()));
        let two = line.enter(semaphore.acquire(2));
        let one = line.enter(semaphore.acquire(1));
        let four = line.enter(semaphore.acquire(4));
        fire(&stop, 1);
        assert_eq!((semaphore.available(), semaphore.waiters()), (0, 1));
        assert_eq!(eight.join().unwrap_err(), WaitError::Cancelled);
        let (two, one) = (two.join().unwrap(), one.join().unwrap());
        assert!(!four.is_done());
        drop((two, one));
        semaphore.release(1).unwrap();
        assert_eq!(four.join().unwrap().permits(), 4);
    });
}

/// S-17: the order in which they are let through, and by a drop instead of a token.
#[test]
fn dropping_the_head_serves_those_behind_it_in_order() {
    let order = crate::support::WakeOrder::new();
    let semaphore = patient(Semaphore::new(3));
    let eight = Step::queued(semaphore.acquire(8));
    let mut behind: Vec<_> = [2, 1, 4]
        .iter()
        .map(|permits| (*permits, Step::new(semaphore.acquire(*permits))))
        .collect();
    for (permits, step) in &mut behind {
        assert!(step.poll_with(&order.waker(*permits)).is_pending());
    }
    drop(eight);
    assert_eq!(order.entries(), [2, 1]);
    assert_eq!((semaphore.available(), semaphore.waiters()), (0, 1));
}

/// S-18
#[test]
fn cancelling_admits_nobody_when_nothing_is_free() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(patient(Semaphore::new(0)));
        let (stop_a, stop_b) = (CancelSource::new(), CancelSource::new());
        let mut line = Line::new(arrangement, semaphore);
        let a = line.enter(semaphore.acquire(1).cancel_on(&stop_a.token()));
        let b = line.enter(semaphore.acquire(1).cancel_on(&stop_b.token()));
        fire(&stop_b, 1);
        assert_eq!(semaphore.waiters(), 1);
        assert!(!a.is_done());
        fire(&stop_a, 1);
        assert_eq!(semaphore.waiters(), 0);
        assert_eq!(a.join().unwrap_err(), WaitError::Cancelled);
        assert_eq!(b.join().unwrap_err(), WaitError::Cancelled);
        semaphore.release(1).unwrap();
        assert_eq!(semaphore.available(), 1);
    });
}

/// S-18: the same by dropping, from the tail, the middle and the head.
#[test]
fn a_dropped_request_leaves_no_trace_wherever_it_stood() {
    for dropped in 0..3 {
        let semaphore = patient(Semaphore::new(0));
        let mut line: Vec<_> = (0..3).map(|_| Step::queued(semaphore.acquire(1))).collect();
        drop(line.remove(dropped));
        assert_eq!(semaphore.waiters(), 2);
        semaphore.release(3).unwrap();
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
        for mut step in line {
            drop(step.expect_ready().unwrap());
        }
        assert_eq!(semaphore.available(), 3);
    }
}

/// Promise 1 says that barging is opt-in: then a try takes what it finds.
#[test]
fn a_barging_semaphore_lets_a_newcomer_overtake() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::barging(1));
        let mut line = Line::new(arrangement, semaphore);
        let head = line.enter(semaphore.acquire(3));
        let newcomer = semaphore.try_acquire(1).expect("one is free, and barging is on");
        drop(newcomer);
        semaphore.release(2).unwrap();
        assert_eq!(head.join().unwrap().permits(), 3);
        assert_eq!((semaphore.available(), semaphore.waiters()), (3, 0));
    });
}

/// A waiter that was overtaken a few times is served next all the same.
#[test]
fn a_barging_semaphore_does_not_starve_a_waiter() {
    /// How often newcomers may overtake the same waiter.
    const A_FEW_TIMES: usize = 4;
    let semaphore = Semaphore::barging(0);
    let mut waiter = Step::queued(semaphore.acquire(1));
    for overtaken in 0.. {
        assert!(overtaken <= A_FEW_TIMES, "overtaken more than {A_FEW_TIMES} times");
        semaphore.release(1).unwrap();
        let Ok(newcomer) = semaphore.try_acquire(1) else {
            assert_eq!(overtaken, A_FEW_TIMES, "newcomers may overtake until then");
            drop(waiter.expect_ready().unwrap());
            return;
        };
        // Before the waiter looks: giving something that is not enough for it would count as well.
        newcomer.forget();
        waiter.expect_pending();
    }
}
