//! Limits of every length, by the timer for tasks and by their own sleep for threads.

mod support;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use semaforo::{CancelSource, Latch, WaitError};
use support::{
    LIMIT, LONG, Random, Step, Waiter, eventually, in_every_arrangement_at_once, leaked, on_tokio,
    waker_that,
};

/// No wait ends early, and every one ends, whatever else is put in and taken out meanwhile.
#[test]
fn limits_of_all_lengths_are_kept_beside_each_other() {
    let latch = leaked(Latch::new(1));
    on_tokio(async {
        let mut random = Random::new(5);
        let waits = (0..600).map(|_| {
            let limit = Duration::from_micros(random.below(400_000).into());
            tokio::spawn(async move {
                let start = Instant::now();
                assert_eq!(latch.opened().timeout(limit).await, Err(WaitError::TimedOut));
                assert!(start.elapsed() >= limit, "{:?} instead of {limit:?}", start.elapsed());
            })
        });
        let waits: Vec<_> = waits.collect();
        // In every part of the wheel, and gone again before their time.
        for exponent in 1..50 {
            drop(Step::queued(latch.opened().timeout(Duration::from_millis(1 << exponent))));
            drop(Step::queued(latch.opened().timeout(Duration::from_millis((1 << exponent) - 1))));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let all = futures::future::join_all(waits);
        for wait in tokio::time::timeout(LIMIT, all).await.expect("every limit passes") {
            wait.unwrap();
        }
    });
    assert_eq!(latch.waiters(), 0);
}

/// The wheel has a step of a millisecond, and the system wakes the timer's thread. A busy machine can
/// make a limit later, but not each of a hundred.
#[test]
fn a_limit_is_told_within_about_a_millisecond() {
    let latch = leaked(Latch::new(1));
    let limit = Duration::from_millis(3);
    let told_in_time = |_| {
        let told = Arc::new(OnceLock::new());
        let waker = {
            let told = Arc::clone(&told);
            waker_that(move || _ = told.set(Instant::now()))
        };
        let start = Instant::now();
        let mut wait = Step::new(latch.opened().timeout(limit));
        assert!(wait.poll_with(&waker).is_pending());
        eventually("the limit passes", || told.get().is_some());
        let late = told.get().unwrap().duration_since(start) - limit;
        late < Duration::from_millis(2)
    };
    assert!((0..100).any(told_in_time));
}

/// A near limit is not held up by a far one that the timer sleeps for, nor the other way round.
#[test]
fn a_near_limit_comes_before_a_far_one() {
    let latch = Latch::new(1);
    let mut far = Step::queued(latch.opened().timeout(LONG));
    let mut farther = Step::queued(latch.opened().timeout(LONG * 10_000));
    for limit in [60, 5, 64, 1, 130] {
        let start = Instant::now();
        let mut near = Step::queued(latch.opened().timeout(Duration::from_millis(limit)));
        eventually("the near limit passes", || near.wakes() == 1);
        assert!(start.elapsed() >= Duration::from_millis(limit));
        assert_eq!(near.expect_ready(), Err(WaitError::TimedOut));
    }
    far.expect_pending();
    farther.expect_pending();
    assert_eq!((far.wakes(), farther.wakes()), (0, 0));
}

#[test]
fn a_limit_beyond_one_turn_of_the_wheel_is_kept() {
    in_every_arrangement_at_once(|arrangement| {
        let latch = leaked(Latch::new(1));
        let limit = Duration::from_millis(64 + 7);
        let waits: Vec<_> = (0..4)
            .map(|position| {
                let start = Instant::now();
                let request = latch.opened().timeout(limit * position);
                let kind = arrangement.kind(position as usize);
                (start, limit * position, Waiter::start_then(kind, request, |ended| ended))
            })
            .collect();
        for (start, limit, waiter) in waits {
            assert_eq!(waiter.join(), Err(WaitError::TimedOut));
            assert!(start.elapsed() >= limit);
        }
    });
}

/// The limit of a task that has moved on counts from its first poll, not from its making.
#[test]
fn a_timeout_counts_from_the_first_poll() {
    let latch = Latch::new(1);
    let limit = Duration::from_millis(30);
    let mut step = Step::new(latch.opened().timeout(limit));
    assert!(latch.opened().timeout(limit).wait().is_err());
    let start = Instant::now();
    step.expect_pending();
    eventually("the limit passes", || step.wakes() == 1);
    assert!(start.elapsed() >= limit);
    assert_eq!(step.expect_ready(), Err(WaitError::TimedOut));
}

/// Sources with a delay come, go and are put off while the timer looks for them.
#[test]
fn delayed_sources_come_and_go() {
    let latch = leaked(Latch::new(1));
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed + 1);
                for _ in 0..300 {
                    let source = CancelSource::new();
                    source.cancel_after(Duration::from_micros(random.below(1500).into()));
                    let token = source.token();
                    let child = token.child();
                    match random.below(5) {
                        0 => drop(source),
                        1 => source.cancel_after(Duration::from_micros(random.below(800).into())),
                        2 => source.cancel(),
                        3 => drop((source, token)),
                        _ => {
                            let ended = latch.opened().cancel_on(&child.token()).wait();
                            assert_eq!(ended, Err(WaitError::Cancelled));
                        }
                    }
                    if random.one_in(4) {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(Waiter::join);
    assert_eq!(latch.waiters(), 0);
}
