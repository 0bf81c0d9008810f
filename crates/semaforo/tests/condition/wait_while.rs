//! Waiting for as long as something holds, under every limit.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use semaforo::{CancelSource, Condition, Interrupted, Mutex, MutexGuard, WaitError};

use crate::support::{
    Executor, Kind, LONG, SHORT, Step, Waiter, in_every_arrangement, in_every_arrangement_at_once,
    leaked, on_tokio, panic_of, until_queued,
};

type Fixture = (&'static Mutex<u32>, &'static Condition);
type Outcome = Result<MutexGuard<'static, u32>, Interrupted<MutexGuard<'static, u32>>>;

fn fixture() -> Fixture {
    (leaked(Mutex::new(0)), leaked(Condition::new()))
}

/// What bounds a wait.
#[derive(Clone, Default)]
struct Bounded {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    tokens: Vec<semaforo::CancelToken>,
}

/// Waits while the value is less than this, on a thread or in a task.
fn start((lock, condition): Fixture, kind: Kind, least: u32, bounded: Bounded) -> Waiter<Outcome> {
    let wait = move |guard| {
        let wait = condition.wait_while(guard, move |value| *value < least).timeout(Duration::MAX);
        let wait = bounded.timeout.into_iter().fold(wait, |wait, limit| wait.timeout(limit));
        let wait = bounded.deadline.into_iter().fold(wait, |wait, limit| wait.deadline(limit));
        bounded.tokens.iter().fold(wait, |wait, token| wait.cancel_on(token))
    };
    Waiter::on_a_thread(move || match kind {
        Kind::Blocking => wait(lock.lock().wait()).wait(),
        Kind::Async(executor) => executor.block_on(async { wait(lock.lock().await).await }),
    })
}

#[track_caller]
fn ended(outcome: Outcome, why: WaitError) -> MutexGuard<'static, u32> {
    let interrupted = outcome.expect_err("expected to be ended");
    assert_eq!(interrupted.why, why);
    interrupted.guard
}

fn set((lock, condition): Fixture, value: u32) {
    let mut guard = lock.lock().wait();
    *guard = value;
    condition.broadcast(&guard);
}

#[test]
fn it_returns_when_it_no_longer_holds() {
    in_every_arrangement(|arrangement| {
        let fixture = fixture();
        let (lock, condition) = fixture;
        let waiters: Vec<_> = (1..=4_u32)
            .map(|least| {
                let kind = arrangement.kind(least as usize);
                let waiter = start(fixture, kind, least, Bounded::default());
                until_queued(condition, least as usize);
                waiter
            })
            .collect();
        for (value, waiter) in (1..=4).zip(waiters) {
            set(fixture, value);
            let guard = waiter.join().unwrap();
            assert_eq!((*guard, lock.is_locked()), (value, true));
            drop(guard);
            until_queued(condition, 4 - value as usize);
        }
        assert!(!lock.is_locked());
    });
}

/// Promise 2: nothing to wait for, whatever the limits.
#[test]
fn what_does_not_hold_at_first_is_not_waited_for() {
    in_every_arrangement(|arrangement| {
        let fixture = fixture();
        set(fixture, 1);
        let stop = CancelSource::new();
        stop.cancel();
        let bounded = Bounded {
            timeout: Some(Duration::ZERO),
            deadline: Some(Instant::now()),
            tokens: vec![stop.token()],
        };
        let guard = start(fixture, arrangement.kind(0), 1, bounded).join().unwrap();
        assert!(fixture.0.is_locked());
        drop(guard);
    });
}

#[test]
fn a_timeout_counts_from_the_first_wait_and_not_from_the_last() {
    in_every_arrangement_at_once(|arrangement| {
        let fixture = fixture();
        let start_time = Instant::now();
        for by_deadline in [false, true] {
            let bounded = if by_deadline {
                Bounded { deadline: Some(Instant::now() + SHORT * 4), ..Bounded::default() }
            } else {
                Bounded { timeout: Some(SHORT * 4), ..Bounded::default() }
            };
            let waiter = start(fixture, arrangement.kind(0), 1000, bounded);
            // Signalled again and again, which must not start its time anew.
            while !waiter.is_done() {
                // When it is done, the lock is its own.
                if let Some(guard) = fixture.0.try_lock() {
                    fixture.1.signal(&guard);
                }
                assert!(start_time.elapsed() < crate::support::LIMIT, "its time never comes");
                std::thread::yield_now();
            }
            drop(ended(waiter.join(), WaitError::TimedOut));
        }
        assert!(start_time.elapsed() >= SHORT * 8);
        assert_eq!((fixture.1.waiters(), fixture.0.is_locked()), (0, false));
    });
}

#[test]
fn a_zero_timeout_ends_at_once() {
    in_every_arrangement(|arrangement| {
        let fixture = fixture();
        let bounded = Bounded { timeout: Some(Duration::ZERO), ..Bounded::default() };
        drop(ended(start(fixture, arrangement.kind(0), 1, bounded).join(), WaitError::TimedOut));
        let past = Instant::now().checked_sub(LONG).unwrap_or_else(Instant::now);
        let bounded = Bounded { deadline: Some(past), ..Bounded::default() };
        drop(ended(start(fixture, arrangement.kind(1), 1, bounded).join(), WaitError::TimedOut));
        assert_eq!((fixture.1.waiters(), fixture.0.is_locked()), (0, false));
    });
}

#[test]
fn any_of_three_tokens_ends_it() {
    in_every_arrangement(|arrangement| {
        for fired in 0..3 {
            let fixture = fixture();
            let sources = [(); 3].map(|()| CancelSource::new());
            let tokens = sources.iter().map(CancelSource::token).collect();
            let bounded =
                Bounded { timeout: Some(LONG), tokens, deadline: Some(Instant::now() + LONG) };
            let waiter = start(fixture, arrangement.kind(fired), 1, bounded);
            until_queued(fixture.1, 1);
            // It goes on after a signal that changes nothing.
            set(fixture, 0);
            until_queued(fixture.1, 1);
            sources[fired].cancel();
            drop(ended(waiter.join(), WaitError::Cancelled));
            assert_eq!(sources[fired].token().registrations(), 0);
            assert!(!fixture.0.is_locked());
        }
    });
}

/// Promise 2: what is there by the time that the lock is had is had, although the limit came first.
#[test]
fn what_no_longer_holds_wins_over_a_limit() {
    in_every_arrangement(|arrangement| {
        let fixture = fixture();
        let (lock, condition) = fixture;
        let stop = CancelSource::new();
        let bounded = Bounded { tokens: vec![stop.token()], ..Bounded::default() };
        let waiter = start(fixture, arrangement.kind(0), 1, bounded);
        until_queued(condition, 1);
        let mut guard = lock.lock().wait();
        stop.cancel();
        assert_eq!((condition.waiters(), lock.waiters()), (0, 1));
        *guard = 1;
        assert!(!condition.signal(&guard), "nobody waits for a signal any more");
        drop(guard);
        assert_eq!(*waiter.join().expect("the value is there"), 1);
        assert!(!lock.is_locked());
    });
}

/// M-20
#[test]
fn a_panic_in_the_closure_frees_the_lock() {
    in_every_arrangement(|arrangement| {
        for calls_before in 0..2 {
            let (lock, condition) = fixture();
            let kind = arrangement.kind(calls_before);
            let panics = Waiter::on_a_thread(move || {
                let mut calls = 0;
                let closure = move |_: &u32| {
                    calls += 1;
                    assert!(calls <= calls_before, "too often");
                    true
                };
                match kind {
                    Kind::Blocking => {
                        drop(condition.wait_while(lock.lock().wait(), closure).wait());
                    }
                    Kind::Async(executor) => executor.block_on(async {
                        drop(condition.wait_while(lock.lock().await, closure).await);
                    }),
                }
            });
            if calls_before == 1 {
                until_queued(condition, 1);
                assert!(condition.signal(&lock.lock().wait()));
            }
            let panic = panics.join_or_panic().unwrap_err();
            assert_eq!(crate::support::message_of(&*panic), "too often");
            assert_eq!((lock.is_locked(), lock.waiters(), condition.waiters()), (false, 0, 0));
        }
    });
}

/// A task that is dropped while it waits again passes its signal on.
#[test]
fn dropped_in_its_second_wait() {
    let (lock, condition) = fixture();
    let mut first = Step::queued(condition.wait_while(lock.lock().wait(), |value| *value < 2));
    let mut second = Step::queued(condition.wait_while(lock.lock().wait(), |value| *value < 1));
    {
        let mut guard = lock.lock().wait();
        *guard = 1;
        assert!(condition.signal(&guard));
    }
    first.expect_pending();
    assert_eq!(condition.waiters(), 2);
    assert!(condition.signal(&lock.lock().wait()), "the second, which has waited longer");
    drop(first);
    assert_eq!(*second.expect_ready(), 1);
    assert_eq!((lock.is_locked(), condition.waiters()), (false, 0));
}

#[test]
fn polling_after_the_end_panics() {
    let (lock, condition) = fixture();
    let mut wait = Step::new(condition.wait_while(lock.lock().wait(), |_| false));
    drop(wait.expect_ready());
    assert!(panic_of(|| drop(wait.poll())).contains("after it had completed"));
    let zero = condition.wait_while(lock.lock().wait(), |_| true).timeout(Duration::ZERO);
    let mut wait = Step::new(zero);
    drop(wait.expect_ready());
    assert!(panic_of(|| drop(wait.poll())).contains("after it had completed"));
    let panics = condition.wait_while(lock.lock().wait(), |_| panic!("in the closure"));
    let mut wait = Step::new(AssertUnwindSafe(panics).catch_unwind());
    assert!(wait.expect_ready().is_err());
    assert!(!lock.is_locked());
}

/// A bounded buffer of tasks, all on one executor.
#[test]
fn producers_and_consumers_share_a_buffer() {
    const ITEMS: usize = 200;
    let buffer = leaked(Mutex::new(VecDeque::new()));
    let (filled, emptied) = (leaked(Condition::new()), leaked(Condition::new()));
    let taken = on_tokio(async {
        let producers: Vec<_> = (0..4)
            .map(|producer| {
                tokio::spawn(async move {
                    for item in 0..ITEMS {
                        let guard = buffer.lock().await;
                        let full = |buffer: &VecDeque<_>| buffer.len() == 3;
                        let mut guard = emptied.wait_while(guard, full).await;
                        guard.push_back((producer, item));
                        filled.signal(&guard);
                    }
                })
            })
            .collect();
        let mut taken = Vec::new();
        while taken.len() < 4 * ITEMS {
            let guard = buffer.lock().await;
            let mut guard = filled.wait_while(guard, VecDeque::is_empty).await;
            taken.extend(guard.pop_front());
            emptied.signal(&guard);
        }
        for producer in producers {
            producer.await.unwrap();
        }
        taken
    });
    for producer in 0..4 {
        let own: Vec<_> =
            taken.iter().filter(|(from, _)| *from == producer).map(|(_, item)| *item).collect();
        assert_eq!(own, (0..ITEMS).collect::<Vec<_>>());
    }
    assert!(!buffer.is_locked());
}

/// Any executor will do.
#[test]
fn on_every_executor() {
    for _ in 0..4 {
        let fixture = fixture();
        let waiter = start(fixture, Kind::Async(Executor::next()), 1, Bounded::default());
        until_queued(fixture.1, 1);
        set(fixture, 1);
        drop(waiter.join().unwrap());
    }
}
