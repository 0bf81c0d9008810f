//! Handles are requests: awaited, waited for, bounded, selected, dropped.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::support::{
    Door, Executor, LIMIT, LONG, Random, SHORT, Step, Tally, WakeOrder, eventually, hold,
    in_both_modes, on_tokio, panic_of, pool, watched,
};
use futures::future::{FutureExt, join_all, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use semaforo::tasks::{
    CurrentThread, JoinError, Pool, Shutdown, Spawn, when_all, when_all_of, when_any, yield_now,
};
use semaforo::{CancelSource, WaitError};

const EXECUTORS: [Executor; 4] =
    [Executor::HandRolled, Executor::Tokio, Executor::Smol, Executor::Futures];

#[test]
fn a_handle_yields_the_result_however_it_is_waited_for() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let stop = CancelSource::new();
        assert_eq!(pool.spawn(|| 1).wait().unwrap(), 1);
        assert_eq!(pool.spawn(|| 2).timeout(LIMIT).wait().unwrap(), 2);
        assert_eq!(pool.spawn(|| 3).deadline(Instant::now() + LIMIT).wait().unwrap(), 3);
        assert_eq!(pool.spawn(|| 4).cancel_on(&stop.token()).timeout(LIMIT).wait().unwrap(), 4);
        for executor in EXECUTORS {
            let both = executor.block_on(async {
                let first = pool.spawn(|| 5).await.unwrap();
                let second = pool.spawn_future(async { 6 }).timeout(LIMIT).await.unwrap();
                (first, second)
            });
            assert_eq!(both, (5, 6));
        }
    });
}

#[test]
fn a_bounded_wait_ends_without_the_task() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = hold(&pool);
        let stop = CancelSource::new();
        assert!(matches!(pool.spawn(|| 1).timeout(SHORT).wait(), Err(WaitError::TimedOut)));
        let ended = pool.spawn(|| 1).deadline(Instant::now() + SHORT).wait();
        assert!(matches!(ended, Err(WaitError::TimedOut)));
        let mut waits = Step::queued(pool.spawn(|| 1).cancel_on(&stop.token()));
        stop.cancel();
        assert_eq!(waits.wakes(), 1);
        assert!(matches!(waits.expect_ready(), Err(WaitError::Cancelled)));
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn finished_waits_and_leaves_the_result() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = hold(&pool);
        let task = pool.spawn(|| 42);
        assert!(task.finished().timeout(SHORT).wait().is_err());
        let (mut one, mut other) = (Step::queued(task.finished()), Step::queued(task.finished()));
        assert!(!task.is_finished());
        drop(held);
        task.finished().wait();
        eventually("both are woken", || (one.wakes(), other.wakes()) == (1, 1));
        one.expect_ready();
        other.expect_ready();
        drop((one, other));
        assert!(task.is_finished());
        task.finished().wait();
        assert_eq!(task.wait().unwrap(), 42);
    });
}

#[test]
fn handles_can_be_selected() {
    watched(|| {
        let pool = Pool::builder().threads(2).build().unwrap();
        let never = || pool.spawn_future(pending::<u32>());
        futures::executor::block_on(async {
            let (mut slow, mut fast) = (never().fuse(), pool.spawn(|| 1).fuse());
            futures::select! {
                _ = slow => panic!("this never ends"),
                result = fast => assert_eq!(result.unwrap(), 1),
            }
            let (result, index, others) = select_all([never(), pool.spawn(|| 2), never()]).await;
            assert_eq!((result.unwrap(), index, others.len()), (2, 1, 2));
        });
        on_tokio(async {
            let (mut slow, mut fast) = (never(), pool.spawn(|| 3));
            tokio::select! {
                _ = &mut slow => panic!("this never ends"),
                result = &mut fast => assert_eq!(result.unwrap(), 3),
            }
            assert!(slow.cancel());
            assert!(matches!(slow.await, Err(JoinError::Cancelled)));
        });
        pool.shutdown(Shutdown::Cancel).wait();
    });
}

#[test]
fn many_handles_are_awaited_at_once() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        for executor in EXECUTORS {
            let sum = executor.block_on(async {
                let all = join_all((0..500_u64).map(|n| pool.spawn(move || n))).await;
                let all: u64 = all.into_iter().map(Result::unwrap).sum();
                let unordered: FuturesUnordered<_> =
                    (0..500_u64).map(|n| pool.spawn_future(async move { n })).collect();
                all + unordered.map(Result::unwrap).fold(0, |a, b| async move { a + b }).await
            });
            assert_eq!(sum, 2 * (0..500).sum::<u64>());
        }
    });
}

/// Only the last waker that was left is woken, once.
#[test]
fn the_waker_may_change_between_polls() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = hold(&pool);
        let order = WakeOrder::new();
        let mut task = Step::new(pool.spawn(|| 42));
        for entry in 0..5 {
            assert!(task.poll_with(&order.waker(entry)).is_pending());
        }
        let last = order.waker(5);
        assert!(task.poll_with(&last).is_pending());
        assert!(task.poll_with(&last).is_pending());
        drop(held);
        eventually("it is woken", || !order.entries().is_empty());
        pool.spawn(|| ()).wait().unwrap();
        assert_eq!(order.entries(), [5]);
        assert_eq!(task.expect_ready().unwrap(), 42);
    });
}

/// Tasks that end while their handles are polled with ever new wakers: each last one is woken.
#[test]
fn no_wake_up_is_lost_while_wakers_change() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let mut random = Random::new(3);
        for round in 0..3000_u32 {
            let mut task = Step::new(pool.spawn(move || round));
            let order = WakeOrder::new();
            let mut last = None;
            for entry in 0..random.below(6) {
                if task.poll_with(&order.waker(entry)).is_ready() {
                    last = None;
                    break;
                }
                last = Some(entry);
            }
            let Some(last) = last else { continue };
            eventually("the last one is woken", || order.entries().contains(&last));
            assert_eq!(order.entries().iter().filter(|entry| **entry == last).count(), 1);
            assert_eq!(task.expect_ready().unwrap(), round);
        }
    });
}

#[test]
fn a_dropped_handle_detaches_the_task_and_its_result_is_dropped() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let ran = Arc::new(AtomicUsize::new(0));
        let held = hold(&pool);
        for polled_before in [false, true] {
            let (value, ran) = (tally.make(), Arc::clone(&ran));
            let mut task = Step::new(pool.spawn(move || {
                ran.fetch_add(1, Ordering::SeqCst);
                value
            }));
            if polled_before {
                task.expect_pending();
            }
            drop(task);
        }
        assert_eq!(tally.dropped(), []);
        drop(held);
        // One that has finished already, and whose result only the handle has.
        let value = tally.make();
        let done = pool.spawn(move || value);
        done.finished().wait();
        assert_eq!((tally.dropped().len(), ran.load(Ordering::SeqCst)), (2, 2));
        drop(done);
        tally.expect_all_dropped();
    });
}

#[test]
fn a_handle_that_has_yielded_cannot_be_used_again() {
    let pool = Pool::new();
    let mut task = Step::new(pool.spawn(|| 42));
    eventually("it is ready", || pool.metrics().levels[5].picked == 1);
    while task.poll().is_pending() {
        std::thread::yield_now();
    }
    assert!(panic_of(|| task.poll().is_pending()).contains("after it had yielded"));
}

#[test]
fn all_yields_the_outcomes_in_order_and_any_the_first() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let all = when_all((0..100).rev().map(|n| pool.at(n % 10).spawn(move || n)));
        let all: Vec<_> = all.wait().unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(all, (0..100).rev().collect::<Vec<_>>());
        assert!(when_all(Vec::<semaforo::tasks::Handle<()>>::new()).wait().unwrap().is_empty());

        let door = Door::new();
        let handles = (0..5).map(|n| {
            let door = Arc::clone(&door);
            let event = pool.spawn(move || n);
            if n == 3 {
                return event;
            }
            event.then(&pool, move |n| {
                drop(door);
                n.unwrap()
            })
        });
        let (index, outcome, others) = when_any(handles).wait().unwrap();
        assert_eq!(outcome.unwrap(), index);
        assert_eq!(others.len(), 4);
        let others = when_all(others).wait().unwrap();
        let mut seen: Vec<_> = others.into_iter().map(Result::unwrap).collect();
        seen.push(index);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert!(
            panic_of(|| when_any(Vec::<semaforo::tasks::Handle<()>>::new())).contains("at least")
        );
    });
}

#[test]
fn cancelling_or_dropping_all_and_any_detaches_their_tasks() {
    in_both_modes(|mode| {
        let (pool, ran) = (pool(mode, 1), Arc::new(AtomicUsize::new(0)));
        let held = hold(&pool);
        let tasks = || {
            (0..3).map(|_| {
                let ran = Arc::clone(&ran);
                pool.spawn(move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                })
            })
        };
        drop(when_all(tasks()));
        drop(when_any(tasks()));
        let all = when_all(tasks());
        assert!(all.cancel());
        assert!(matches!(all.wait(), Err(JoinError::Cancelled)));
        let any = when_any(tasks());
        assert!(any.cancel());
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(ran.load(Ordering::SeqCst), 12);
    });
}

#[test]
fn continuations_begin_when_the_outcome_is_there_at_their_own_level() {
    watched(|| {
        let pool = Pool::builder().threads(1).mode(semaforo::tasks::Mode::Strict).build().unwrap();
        let held = hold(&pool);
        let begun = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&begun);
        let last = pool.at(9).spawn(|| 20).then(pool.at(0), move |n| {
            told.store(true, Ordering::SeqCst);
            n.unwrap() + 1
        });
        let mut last = Step::new(last.then(&pool, |n| 2 * n.unwrap()));
        last.expect_pending();
        assert!(!begun.load(Ordering::SeqCst));
        drop(held);
        eventually("it ends", || last.wakes() == 1);
        assert_eq!(last.expect_ready().unwrap(), 42);
        assert_eq!(
            pool.spawn_future(async { yield_now().await }).timeout(LONG).wait().ok(),
            Some(())
        );
    });
}

#[test]
fn handles_say_who_they_are() {
    let pool = Pool::builder().threads(1).build().unwrap();
    let held = hold(&pool);
    let (one, other) = (pool.spawn(|| ()), pool.spawn(|| ()));
    assert_ne!(one.id(), other.id());
    assert!(format!("{one:?}").contains("queued"));
    other.cancel();
    assert!(format!("{other:?}").contains("cancelled"));
    drop(held);
    one.finished().wait();
    assert!(format!("{one:?}").contains("done"));
    let suspended = pool.spawn_future(pending::<()>());
    eventually("it is suspended", || format!("{suspended:?}").contains("suspended"));
    let mut pinned = pin!(one);
    assert!(futures::executor::block_on(&mut pinned).is_ok());
    assert!(format!("{pinned:?}").contains("joined"));
    suspended.cancel();
}

/// After a limit or a token has ended the wait, the handle can be waited on again.
#[test]
fn a_handle_that_is_waited_for_by_reference_is_kept() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 1), CancelSource::new());
        let held = hold(&pool);
        let mut task = pool.spawn(|| String::from("tea"));
        for _ in 0..3 {
            let late = task.by_ref().timeout(SHORT / 10).wait();
            assert!(matches!(late, Err(WaitError::TimedOut)));
        }
        stop.cancel();
        let ended = task.by_ref().cancel_on(&stop.token()).wait();
        assert!(matches!(ended, Err(WaitError::Cancelled)));
        let mut waits = Step::queued(task.by_ref().timeout(LONG));
        drop(held);
        eventually("it is woken", || waits.wakes() == 1);
        assert_eq!(waits.expect_ready().unwrap(), "tea");
        drop(waits);
        assert!(panic_of(|| task.by_ref().wait()).contains("after it had yielded the outcome"));
        drop(task);
        // Without a limit, and inside a task, which runs it on the spot or is replaced.
        let inside = pool.clone();
        let sum = pool.spawn(move || {
            let mut child = inside.spawn(|| 40);
            child.by_ref().wait().unwrap() + 2
        });
        assert_eq!(sum.wait().unwrap(), 42);
    });
}

#[test]
fn an_abort_handle_cancels_without_joining_and_keeps_nothing() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let held = hold(&pool);
        let value = tally.make();
        let task = pool.spawn(move || value);
        let (abort, other) = (task.abort_handle(), task.abort_handle().clone());
        assert_eq!((abort.id(), abort.is_finished()), (task.id(), false));
        assert!(std::thread::spawn(move || abort.cancel()).join().unwrap());
        tally.expect_all_dropped();
        assert!(other.is_finished() && !other.cancel());
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
        let (value, counts) = (tally.make(), CurrentThread::new());
        let forgotten = counts.spawn_future(async move {
            let _value = value;
            pending::<()>().await;
        });
        let abort = forgotten.abort_handle();
        counts.run_until(yield_now());
        drop(forgotten);
        assert!(abort.is_finished(), "nobody can wake it any more");
        tally.expect_all_dropped();
        drop(held);
    });
}

#[test]
fn all_of_a_tuple_yields_each_its_own() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let panics = pool.spawn(|| -> f32 { std::panic::resume_unwind(Box::new("no")) });
        let cancelled = pool.spawn_future(pending::<Vec<u8>>());
        let all = when_all_of((pool.spawn(|| 1_u8), pool.spawn(|| "two"), panics));
        let (one, two, three) = all.wait().unwrap();
        assert_eq!((one.unwrap(), two.unwrap()), (1, "two"));
        assert!(matches!(three, Err(JoinError::Panicked(_))));
        cancelled.cancel();
        let (one, other) = when_all_of((cancelled, pool.spawn(|| ()))).wait().unwrap();
        assert!(matches!(one, Err(JoinError::Cancelled)) && other.is_ok());
        // Inside a task it is a wait for tasks of the pool.
        let inside = pool.clone();
        let sum = pool.spawn(move || {
            let both = when_all_of((inside.spawn(|| 40_u8), inside.spawn_future(async { 2_u16 })));
            let (one, other) = both.wait().unwrap();
            u16::from(one.unwrap()) + other.unwrap()
        });
        assert_eq!(sum.wait().unwrap(), 42);
    });
}
