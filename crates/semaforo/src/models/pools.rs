//! Whole pools, with their workers: sleeping against waking, places for spare threads, the end.

use std::sync::Arc;

#[cfg(shuttle)]
use super::checker::explore_crowd;
use super::checker::{explore_within, spawn};
use super::tray::{Count, Signal};
#[cfg(shuttle)]
use crate::Event;
use crate::tasks::{Pool, Shutdown};

/// A pool with one level.
pub(super) fn pool(threads: usize, spares: usize) -> Pool {
    let builder = Pool::builder().threads(threads).spares(spares).stand_ins(spares);
    let pool = builder.levels(1).build().unwrap();
    if cfg!(loom) {
        // Loom does not follow the counts of the standard library's `Arc`, so it would not know that
        // whoever drops this comes last.
        std::mem::forget(Arc::clone(pool.state()));
    }
    pool
}

/// Runs what is left, and waits until the workers have gone.
pub(super) fn shut_down(pool: Pool) {
    pool.shutdown(Shutdown::Drain).wait();
}

/// A worker goes to sleep while a task comes.
#[test]
fn sleep_against_wake() {
    explore_within(3, || {
        let (pool, ran) = (pool(1, 0), Signal::new());
        let runs = ran.clone();
        pool.execute(move || runs.set());
        ran.wait();
        shut_down(pool);
    });
}

/// The same with two tasks, one of which may find the worker about to sleep again.
#[test]
fn sleep_against_two_wakes() {
    explore_within(2, || {
        let pool = pool(1, 0);
        for _ in 0..2 {
            let ran = Signal::new();
            let runs = ran.clone();
            pool.execute(move || runs.set());
            ran.wait();
        }
        shut_down(pool);
    });
}

/// Two workers may sleep, and one task comes.
#[test]
fn two_sleepers_and_one_task() {
    explore_within(2, || {
        let (pool, ran) = (pool(2, 0), Signal::new());
        let runs = ran.clone();
        pool.execute(move || runs.set());
        ran.wait();
        shut_down(pool);
    });
}

/// Two tasks that need each other come at once: each has a worker.
#[test]
fn two_sleepers_and_two_tasks() {
    explore_within(1, || {
        let (pool, first, second) = (pool(2, 0), Signal::new(), Signal::new());
        let (sets, waits) = (first.clone(), second.clone());
        pool.execute(move || {
            sets.set();
            waits.wait();
        });
        let (sets, waits) = (second.clone(), first.clone());
        pool.execute(move || {
            sets.set();
            waits.wait();
        });
        first.wait();
        second.wait();
        shut_down(pool);
    });
}

/// A task that starts another needs it: the other worker takes it from its own queue.
#[test]
fn a_sleeper_and_a_child() {
    explore_within(1, || {
        let (pool, done) = (pool(2, 0), Signal::new());
        let (inside, ends) = (pool.clone(), done.clone());
        pool.execute(move || {
            let child = Signal::new();
            let runs = child.clone();
            inside.execute(move || runs.set());
            child.wait();
            ends.set();
        });
        done.wait();
        shut_down(pool);
    });
}

/// Of the children that a thief takes one needs another: that is found by the worker that they were
/// taken from, though it may be about to sleep.
#[cfg(shuttle)]
#[test]
fn what_a_thief_has_taken() {
    explore_crowd(|| {
        let (pool, done) = (pool(2, 0), Signal::new());
        let (inside, ends) = (pool.clone(), done.clone());
        pool.execute(move || {
            let second = Signal::new();
            let sets = second.clone();
            inside.execute(|| ());
            inside.execute(move || {
                second.wait();
                ends.set();
            });
            inside.execute(move || sets.set());
            inside.execute(|| ());
        });
        done.wait();
        shut_down(pool);
    });
}

/// The pool ends while a task comes: it is run or cancelled.
#[test]
fn a_task_against_the_end() {
    explore_within(2, || {
        let (pool, count) = (pool(1, 0), Count::default());
        let dropped = count.drops();
        let other = pool.clone();
        let ends = spawn(move || shut_down(other));
        pool.execute(move || drop(dropped));
        ends.join().unwrap();
        assert_eq!(count.get(), 1);
    });
}

/// The same when nothing is to be run any more.
#[test]
fn a_task_against_cancelling() {
    explore_within(2, || {
        let (pool, count) = (pool(1, 0), Count::default());
        let dropped = count.drops();
        let other = pool.clone();
        let ends = spawn(move || other.shutdown(Shutdown::Cancel).wait());
        pool.execute(move || drop(dropped));
        ends.join().unwrap();
        assert_eq!(count.get(), 1);
    });
}

/// A future comes while all of them are cancelled: the pool does not wait for it, though its handle is
/// kept.
#[cfg(shuttle)]
#[test]
fn a_future_against_cancelling() {
    explore_within(2, || {
        let pool = pool(1, 0);
        let other = pool.clone();
        let ends = spawn(move || other.shutdown(Shutdown::Cancel).wait());
        let handle = pool.spawn_future(std::future::pending::<()>());
        ends.join().unwrap();
        assert!(handle.wait().is_err());
    });
}

/// A future's last waker is dropped elsewhere while the pool waits for it.
#[cfg(shuttle)]
#[test]
fn a_forgotten_future_against_the_end() {
    explore_within(2, || {
        let pool = pool(1, 0);
        let kept = Arc::new(std::sync::Mutex::new(None));
        let keeps = Arc::clone(&kept);
        let handle = pool.spawn_future(std::future::poll_fn(move |context| {
            *keeps.lock().unwrap() = Some(context.waker().clone());
            std::task::Poll::<()>::Pending
        }));
        drop(handle);
        let other = pool.clone();
        let ends = spawn(move || shut_down(other));
        drop(pool);
        loop {
            let waker = kept.lock().unwrap().take();
            if waker.is_some() {
                break;
            }
            crate::primitive::yield_now();
        }
        ends.join().unwrap();
    });
}

/// A pool whose only worker waits for what the second task does.
#[cfg(shuttle)]
fn waits_for_another(pool: &Pool) {
    let happened = Arc::new(Event::new());
    let happens = Arc::clone(&happened);
    let waits = pool.spawn(move || happened.happened().wait());
    pool.execute(move || happens.set());
    waits.wait().unwrap();
}

/// A worker waits for what the next task does: a spare thread runs that, and retires, while the pool ends.
#[cfg(shuttle)]
#[test]
fn a_spare_against_the_end() {
    explore_within(1, || {
        let pool = pool(1, 1);
        waits_for_another(&pool);
        shut_down(pool);
    });
}

/// The same again: the spare thread may be about to end when it is needed once more.
#[cfg(shuttle)]
#[test]
fn a_spare_that_is_needed_again() {
    explore_within(1, || {
        let pool = pool(1, 1);
        waits_for_another(&pool);
        waits_for_another(&pool);
        shut_down(pool);
    });
}

/// A spare thread that has to retire is woken for a task, while a worker sleeps and the other is busy
/// until the task has run.
#[cfg(shuttle)]
#[test]
fn a_spare_that_is_woken_to_retire() {
    explore_crowd(|| {
        let pool = pool(2, 1);
        let happens = Arc::new(Event::new());
        let (happened, ran) = (Arc::clone(&happens), Signal::new());
        let (goes_on, runs) = (ran.clone(), ran.clone());
        pool.execute(move || {
            happened.happened().wait();
            goes_on.wait();
        });
        pool.execute(|| ());
        pool.execute(|| ());
        happens.set();
        pool.execute(move || runs.set());
        ran.wait();
        shut_down(pool);
    });
}

/// A pool with one thread, which is replaced while it waits for other tasks, and for nothing else.
#[cfg(shuttle)]
fn with_a_stand_in() -> Pool {
    Pool::builder().threads(1).spares(0).stand_ins(1).levels(1).build().unwrap()
}

/// A worker joins a future that only another task of the pool lets end.
#[cfg(shuttle)]
fn joins_what_another_ends(pool: &Pool) {
    let happened = Arc::new(Event::new());
    let happens = Arc::clone(&happened);
    let future = pool.spawn_future(async move { happened.happened().await });
    let joins = pool.spawn(move || future.wait().unwrap());
    pool.execute(move || happens.set());
    joins.wait().unwrap();
}

/// A worker joins: its stand-in runs what it waits for, and retires, while the pool ends.
#[cfg(shuttle)]
#[test]
fn a_stand_in_against_the_end() {
    explore_crowd(|| {
        let pool = with_a_stand_in();
        joins_what_another_ends(&pool);
        shut_down(pool);
    });
}

/// The stand-in may be about to retire when the worker joins again.
#[cfg(shuttle)]
#[test]
fn a_stand_in_that_is_needed_again() {
    explore_crowd(|| {
        let pool = with_a_stand_in();
        joins_what_another_ends(&pool);
        joins_what_another_ends(&pool);
        shut_down(pool);
    });
}

/// The pool is shut down while the worker joins, and the stand-in may not have been started.
#[cfg(shuttle)]
#[test]
fn a_stand_in_that_a_draining_pool_needs() {
    explore_crowd(|| {
        let (pool, ran) = (with_a_stand_in(), Signal::new());
        let happened = Arc::new(Event::new());
        let (happens, runs) = (Arc::clone(&happened), ran.clone());
        let future = pool.spawn_future(async move { happened.happened().await });
        pool.execute(move || future.wait().unwrap());
        pool.execute(move || {
            happens.set();
            runs.set();
        });
        shut_down(pool);
        ran.wait();
    });
}

/// A worker at the end of a scope, whose task starts another one, which lets it end.
#[cfg(shuttle)]
#[test]
fn a_stand_in_at_the_end_of_a_scope() {
    explore_crowd(|| {
        let pool = with_a_stand_in();
        let inner = pool.clone();
        let scopes = pool.spawn(move || {
            let happened = Event::new();
            inner.scope(|scope| {
                let waits = scope.spawn_future(async { happened.happened().await });
                scope.execute(|| scope.execute(|| happened.set()));
                waits.wait().unwrap();
            });
        });
        scopes.wait().unwrap();
        shut_down(pool);
    });
}
