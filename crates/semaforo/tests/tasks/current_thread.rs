//! `CurrentThread`: tasks on the thread that waits for something else.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{Record, Tally, panic_of, pool, pool_with_spares, until_queued, watched};
use semaforo::tasks::{CurrentThread, JoinError, Mode, Scheduler, Spawn, yield_now};
use semaforo::{BlockingQueue, Event};

#[test]
fn tasks_run_here_by_level_and_then_as_they_came() {
    watched(|| {
        let (here, begun) = (CurrentThread::new(), Record::new());
        let thread = thread::current().id();
        let mut expected = Vec::new();
        for number in 0..200_u32 {
            let level = number * 13 % 10;
            expected.push((level, number));
            let begun = begun.clone();
            here.at(level).execute(move || begun.note((level, number, thread::current().id())));
        }
        assert_eq!(here.scheduled().len(), 200);
        let last = here.at(9).spawn(|| 42);
        assert_eq!(here.run_until(last).unwrap(), 42);
        expected.sort_unstable();
        let expected: Vec<_> =
            expected.into_iter().map(|(level, number)| (level, number, thread)).collect();
        assert_eq!(begun.entries(), expected);
        assert_eq!((here.concurrency(), here.normal_level()), (1, 5));
    });
}

#[test]
fn what_is_left_waits_for_the_next_call() {
    watched(|| {
        let (here, count) = (CurrentThread::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..3 {
            let count = Arc::clone(&count);
            here.execute(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
        here.run_until(async {});
        assert_eq!((count.load(Ordering::SeqCst), here.scheduled().len()), (0, 3));
        here.run_until(yield_now());
        assert!(count.load(Ordering::SeqCst) >= 1);
        let last = here.spawn(|| ());
        here.run_until(last).unwrap();
        assert_eq!((count.load(Ordering::SeqCst), here.scheduled().len()), (3, 0));
        assert_eq!(format!("{here:?}"), "CurrentThread { queued: 0 }");
    });
}

#[test]
fn what_is_left_is_cancelled_when_nobody_can_run_it_any_more() {
    watched(|| {
        let (here, tally) = (CurrentThread::new(), Tally::new());
        let (value, other) = (tally.make(), tally.make());
        let closure = here.spawn(move || drop(value));
        let future = here.spawn_future(async move { drop(other) });
        let event = Arc::new(Event::new());
        let (waits, value) = (Arc::clone(&event), tally.make());
        let suspended = here.at(0).spawn_future(async move {
            let _value = value;
            waits.happened().await;
        });
        here.run_until(yield_now());
        until_queued(&*event, 1);
        let clone = here.clone();
        drop(here);
        assert!(!closure.is_finished() && !future.is_finished());
        drop(clone);
        assert!(matches!(closure.wait(), Err(JoinError::Cancelled)));
        assert!(matches!(future.wait(), Err(JoinError::Cancelled)));
        // Nothing has woken it, and nothing will.
        assert!(matches!(suspended.wait(), Err(JoinError::Cancelled)));
        assert_eq!(event.waiters(), 0);
        tally.expect_all_dropped();
    });
}

#[test]
fn only_one_runs_at_a_time() {
    watched(|| {
        let here = CurrentThread::new();
        let inside = here.clone();
        let nested = here.spawn(move || panic_of(|| inside.run_until(async {})));
        assert!(here.run_until(nested).unwrap().contains("already"));
        // Also from another thread, and not any more after a panic.
        let (again, event) = (here.clone(), Arc::new(Event::new()));
        let waits = Arc::clone(&event);
        let runs = thread::spawn(move || again.run_until(async { waits.happened().await }));
        until_queued(&*event, 1);
        assert!(panic_of(|| here.run_until(async {})).contains("already"));
        event.set();
        runs.join().unwrap();
        assert_eq!(panic_of(|| here.run_until(async { panic!("the future") })), "the future");
        assert_eq!(here.run_until(async { 42 }), 42);
    });
}

#[test]
fn another_one_may_run_inside() {
    watched(|| {
        let (outer, inner) = (CurrentThread::new(), CurrentThread::new());
        let again = inner.clone();
        let sum = outer.spawn(move || {
            let inside = again.spawn(|| 20);
            again.run_until(inside).unwrap() + 1
        });
        assert_eq!(2 * outer.run_until(sum).unwrap(), 42);
    });
}

#[test]
fn tasks_come_from_other_threads() {
    watched(|| {
        const TASKS: usize = 2000;
        let (here, count) = (CurrentThread::new(), Arc::new(AtomicUsize::new(0)));
        let done = Arc::new(Event::new());
        let owner = thread::current().id();
        thread::scope(|scope| {
            for starter in 0..3 {
                let (here, count, done) = (&here, &count, &done);
                scope.spawn(move || {
                    for task in 0..TASKS {
                        let (count, done) = (Arc::clone(count), Arc::clone(done));
                        let run = move || {
                            assert_eq!(thread::current().id(), owner);
                            if count.fetch_add(1, Ordering::SeqCst) + 1 == 3 * TASKS {
                                done.set();
                            }
                        };
                        if (task + starter) % 2 == 0 {
                            here.execute(run);
                        } else {
                            drop(here.spawn_future(async move {
                                yield_now().await;
                                run();
                            }));
                        }
                    }
                });
            }
            here.run_until(done.happened());
        });
        assert_eq!(count.load(Ordering::SeqCst), 3 * TASKS);
    });
}

/// It sleeps until it is woken: by the future, by a task's future, by a new task.
#[test]
fn it_is_woken_from_other_threads() {
    watched(|| {
        let (here, pool) = (CurrentThread::new(), pool(Mode::Stealing, 1));
        let (events, items) = (Arc::new(Event::new()), Arc::new(BlockingQueue::bounded(1)));
        for round in 0..300 {
            let (queue, again) = (Arc::clone(&items), here.clone());
            let task = here.spawn_future(async move { queue.take().await.unwrap() });
            let (event, queue) = (Arc::clone(&events), Arc::clone(&items));
            pool.execute(move || {
                queue.put(round).wait().unwrap();
                again.execute(move || event.set());
            });
            here.run_until(async {
                assert_eq!(task.await.unwrap(), round);
                events.happened().await;
            });
            events.reset();
        }
    });
}

#[test]
fn a_task_that_panics_concerns_its_joiner_only() {
    watched(|| {
        let here = CurrentThread::new();
        let panics = here.spawn(|| -> () { std::panic::resume_unwind(Box::new("a task")) });
        here.execute(|| std::panic::resume_unwind(Box::new("another")));
        match here.run_until(panics) {
            Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), Some("a task")),
            other => panic!("{other:?}"),
        }
        assert_eq!(here.run_until(async { 42 }), 42);
    });
}

#[test]
fn cancelled_tasks_do_not_run_and_are_not_listed() {
    watched(|| {
        let (here, ran) = (CurrentThread::new(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&ran);
        let cancelled = here.spawn(move || told.store(true, Ordering::SeqCst));
        let suspended = here.at(0).spawn_future(pending::<()>());
        assert_eq!(here.scheduled().len(), 2);
        cancelled.cancel();
        assert_eq!(here.scheduled().len(), 1);
        here.run_until(yield_now());
        suspended.cancel();
        let last = here.at(9).spawn(|| ());
        here.run_until(last).unwrap();
        assert!(!ran.load(Ordering::SeqCst));
        assert!(panic_of(|| here.at(10).spawn(|| ())).contains("there is no level 10"));
    });
}

/// Inside a pool's task it waits like everything else: a spare thread takes the worker's place.
#[test]
fn it_may_run_inside_a_task_of_a_pool() {
    watched(|| {
        let pool = pool_with_spares(Mode::Strict, 1);
        let inside = pool.clone();
        let sum = pool.spawn(move || {
            let here = CurrentThread::new();
            let outside = inside.spawn(|| 2);
            let task = here.spawn(|| 40);
            here.run_until(async { outside.await.unwrap() + task.await.unwrap() })
        });
        assert_eq!(sum.wait().unwrap(), 42);
    });
}
