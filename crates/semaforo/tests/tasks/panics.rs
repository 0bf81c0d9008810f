//! Panics of tasks reach whoever joins them, with their payload, and nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{LIMIT, Step, Tally, block_on, in_both_modes, panic_of, pool, watched};
use semaforo::WaitError;
use semaforo::tasks::{Handle, JoinError, Pool, Shutdown, when_all, when_any, yield_now};

/// What a task may panic with that is no message.
#[derive(Debug, PartialEq)]
struct Payload(u32);

fn panicking(pool: &Pool, number: u32) -> Handle<()> {
    pool.spawn(move || resume_unwind(Box::new(Payload(number))))
}

#[track_caller]
fn expect_payload<T: std::fmt::Debug>(outcome: Result<T, JoinError>, number: u32) {
    match outcome {
        Err(JoinError::Panicked(panic)) => {
            assert_eq!(panic.message(), None);
            assert_eq!(*panic.into_payload().downcast::<Payload>().unwrap(), Payload(number));
        }
        other => panic!("it did not panic: {other:?}"),
    }
}

#[test]
fn the_joiner_gets_the_payload() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        expect_payload(panicking(&pool, 1).wait(), 1);
        expect_payload(block_on(panicking(&pool, 2)), 2);
        match panicking(&pool, 3).timeout(LIMIT).wait() {
            Err(WaitError::Refused(error)) => expect_payload(Err::<(), _>(error), 3),
            other => panic!("{other:?}"),
        }
        let future = pool.spawn_future(async {
            yield_now().await;
            panic_any(Payload(4));
        });
        expect_payload::<()>(future.wait(), 4);
        let message = pool.spawn(|| panic!("number {}", 5)).wait().unwrap_err();
        assert_eq!(message.to_string(), "the task panicked: number 5");
        assert_eq!(panic_of(|| message.resume()), "number 5");
    });
}

#[test]
fn panics_travel_through_continuations() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let passed_on = panicking(&pool, 1).then(&pool, |outcome| outcome);
        expect_payload(passed_on.wait().unwrap(), 1);
        let resumed = panicking(&pool, 2).then(pool.at(0), |outcome| {
            outcome.unwrap_or_else(|error| error.resume());
        });
        expect_payload(resumed.wait(), 2);
        let own = pool.spawn(|| 1).then(&pool, |_| resume_unwind(Box::new(Payload(3))));
        expect_payload::<()>(own.wait(), 3);
    });
}

#[test]
fn panics_are_one_of_the_outcomes_of_all_and_of_any() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let all = when_all([panicking(&pool, 1), pool.spawn(|| ()), panicking(&pool, 2)]);
        let mut all = all.wait().unwrap().into_iter();
        expect_payload(all.next().unwrap(), 1);
        assert!(all.next().unwrap().is_ok());
        expect_payload(all.next().unwrap(), 2);
        let (index, outcome, others) =
            when_any([pool.spawn_future(std::future::pending()), panicking(&pool, 3)])
                .wait()
                .unwrap();
        assert_eq!((index, others.len()), (1, 1));
        expect_payload(outcome, 3);
        others[0].cancel();
    });
}

#[test]
fn a_worker_survives_its_tasks() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let first = pool.spawn(|| std::thread::current().id());
        let first = first.wait().unwrap();
        for number in 0..50 {
            expect_payload(panicking(&pool, number).wait(), number);
            pool.execute(|| resume_unwind(Box::new(Payload(0))));
            drop(panicking(&pool, number));
        }
        assert_eq!(pool.spawn(|| std::thread::current().id()).wait().unwrap(), first);
        assert_eq!(pool.metrics().threads, 1);
    });
}

/// A payload that nobody wants is dropped; if that panics in turn, the worker survives that too.
#[test]
fn payloads_that_panic_when_dropped_hurt_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new("the bomb"));
        }
    }
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        pool.execute(|| resume_unwind(Box::new(Bomb)));
        drop(pool.spawn(|| -> () { resume_unwind(Box::new(Bomb)) }));
        let future: Handle<()> = pool.spawn_future(async { resume_unwind(Box::new(Bomb)) });
        drop(future);
        drop(pool.spawn(|| Bomb));
        let cancelled = pool.spawn(|| Bomb);
        let _ = catch_unwind(AssertUnwindSafe(|| cancelled.cancel()));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(cancelled)));
        assert_eq!(pool.spawn(|| 42).wait().unwrap(), 42);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn the_panic_of_a_waker_leaves_the_outcome_and_the_worker_as_they_are() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = crate::support::hold(&pool);
        let mut first = Step::panicking(pool.spawn(|| 1));
        let second = pool.spawn(|| 2);
        drop(held);
        assert_eq!(second.wait().unwrap(), 2);
        assert_eq!(first.expect_ready().unwrap(), 1);
    });
}

/// A continuation runs exactly once, whatever the outcome.
///
/// F-10
#[test]
fn continuations_run_exactly_once() {
    in_both_modes(|mode| {
        let (pool, count) = (pool(mode, 2), Arc::new(AtomicUsize::new(0)));
        let tally = Tally::new();
        let continuations: Vec<_> = (0..300)
            .map(|number| {
                let (count, value) = (Arc::clone(&count), tally.make());
                let first = pool.spawn(move || {
                    if number % 3 == 0 {
                        resume_unwind(Box::new(Payload(number)));
                    }
                });
                if number % 3 == 1 {
                    first.cancel();
                }
                first.then(&pool, move |outcome| {
                    count.fetch_add(1, Ordering::SeqCst);
                    drop(value);
                    match outcome {
                        Ok(()) => assert!(number % 3 != 0),
                        Err(JoinError::Cancelled) => assert_eq!(number % 3, 1),
                        error => expect_payload(error, number),
                    }
                })
            })
            .collect();
        for continuation in continuations {
            continuation.wait().unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), 300);
        tally.expect_all_dropped();
    });
}

#[test]
fn the_panic_of_a_future_drops_what_it_holds() {
    watched(|| {
        let (pool, tally) = (Pool::new(), Tally::new());
        let captured = tally.make();
        let panics: Handle<()> = pool.spawn_future(async move {
            let _captured = captured;
            yield_now().await;
            resume_unwind(Box::new(Payload(1)));
        });
        expect_payload(panics.wait(), 1);
        tally.expect_all_dropped();
    });
}
