//! `Limited`: at most so many at once, on any scheduler.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{
    Door, Record, SHORT, Tally, eventually, hold, in_both_modes, in_its_own_process, panic_of,
    pool, until_queued, watched,
};
use semaforo::tasks::{
    CurrentThread, JoinError, Limited, Mode, Runnable, Scheduler, Shutdown, Spawn, yield_now,
};
use semaforo::{CancelSource, Event};

/// Counts how many are in it at once.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize, AtomicUsize)>);

impl Crowd {
    fn enter(&self) {
        let (now, most, all) = &*self.0;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        all.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    fn all(&self) -> usize {
        self.0.2.load(Ordering::SeqCst)
    }
}

/// A scheduler of the user's own: a thread for each task.
#[derive(Clone)]
struct Threads;

impl Scheduler for Threads {
    fn enqueue(&self, runnable: Runnable) {
        thread::spawn(move || runnable.run());
    }
}

/// Calls and futures from several threads, in between and from inside.
fn never_more_than<S: Scheduler + Clone + 'static>(scheduler: S, limit: usize, tasks: usize) {
    let (limited, crowd) = (Limited::new(scheduler, limit), Crowd::default());
    thread::scope(|scope| {
        for starter in 0..2 {
            let (limited, crowd) = (&limited, &crowd);
            scope.spawn(move || {
                let handles: Vec<_> = (0..tasks / 2)
                    .map(|task| {
                        let (crowd, again) = (crowd.clone(), limited.clone());
                        let spawner = limited.at((task % 10) as u32);
                        if (task + starter) % 2 == 0 {
                            return spawner.spawn(move || crowd.enter());
                        }
                        spawner.spawn_future(async move {
                            crowd.enter();
                            yield_now().await;
                            let inside = crowd.clone();
                            again.spawn(move || inside.enter()).await.unwrap();
                            crowd.enter();
                        })
                    })
                    .collect();
                for handle in handles {
                    handle.wait().unwrap();
                }
            });
        }
    });
    assert!(crowd.most() <= limit, "{} at once instead of {limit}", crowd.most());
    assert_eq!(crowd.all(), 2 * tasks);
    assert_eq!(limited.scheduled(), []);
}

#[test]
fn never_more_than_the_limit_run_at_once() {
    in_both_modes(|mode| {
        for limit in [1, 2, 3] {
            never_more_than(pool(mode, 4), limit, 300);
        }
        // A limit over a limit.
        never_more_than(Limited::new(pool(mode, 4), 2), 3, 100);
    });
    watched(|| {
        for limit in [1, 3] {
            never_more_than(Threads, limit, 60);
        }
    });
}

#[test]
fn a_limit_over_the_current_thread() {
    watched(|| {
        let here = CurrentThread::new();
        let (limited, begun) = (Limited::new(here.clone(), 2), Record::new());
        let tasks: Vec<_> = [7, 3, 5, 3]
            .into_iter()
            .enumerate()
            .map(|(number, level)| {
                let begun = begun.clone();
                limited.at(level).spawn(move || begun.note((level, number)))
            })
            .collect();
        assert_eq!(limited.concurrency(), 1);
        assert_eq!(limited.scheduled().len(), 4);
        here.run_until(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(begun.entries(), [(3, 1), (3, 3), (5, 2), (7, 0)]);
    });
}

/// Those that wait do so here, and not in the way of the other scheduler's own.
#[test]
fn tasks_wait_in_order_of_urgency() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let (limited, begun, door) = (Limited::new(pool.clone(), 1), Record::new(), Door::new());
        let (passes, first) = (Arc::clone(&door), begun.clone());
        limited.execute(move || {
            first.note((0, 0));
            passes.pass();
        });
        eventually("the first runs", || begun.len() == 1);
        let mut expected = vec![(0, 0)];
        for number in 1..40 {
            let level = number * 7 % 10;
            let begun = begun.clone();
            expected.push((level, number));
            limited.at(level).execute(move || begun.note((level, number)));
        }
        assert_eq!(limited.scheduled().len(), 39);
        assert_eq!(pool.spawn(|| 42).wait().unwrap(), 42);
        assert_eq!(begun.len(), 1);
        door.open();
        eventually("all have run", || begun.len() == 40);
        expected.sort_unstable();
        assert_eq!(begun.entries(), expected);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn a_task_that_is_cancelled_or_panics_leaves_its_place() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let (limited, tally, stop) = (Limited::new(pool, 1), Tally::new(), CancelSource::new());
        for number in 0..60 {
            let value = tally.make();
            match number % 4 {
                0 => drop(limited.spawn(move || std::panic::resume_unwind(Box::new(value)))),
                1 => {
                    let task = limited.spawn(move || drop(value));
                    task.cancel();
                }
                2 => limited.start().cancel_on(&stop.token()).execute(move || drop(value)),
                _ => limited.execute(move || std::panic::resume_unwind(Box::new(value))),
            }
        }
        stop.cancel();
        assert_eq!(limited.spawn(|| 42).wait().unwrap(), 42);
        tally.expect_all_dropped();
    });
}

#[test]
fn a_suspended_future_leaves_its_place() {
    in_both_modes(|mode| {
        let (limited, event) = (Limited::new(pool(mode, 1), 1), Arc::new(Event::new()));
        let waits = Arc::clone(&event);
        let future = limited.spawn_future(async move { waits.happened().await });
        until_queued(&*event, 1);
        assert_eq!(limited.spawn(|| 42).wait().unwrap(), 42);
        event.set();
        future.wait().unwrap();
    });
}

#[test]
fn draining_the_other_scheduler_runs_what_waits_here() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let (limited, crowd) = (Limited::new(pool.clone(), 1), Crowd::default());
        let event = Arc::new(Event::new());
        let (waits, counts) = (Arc::clone(&event), crowd.clone());
        let suspended = limited.spawn_future(async move {
            waits.happened().await;
            yield_now().await;
            counts.enter();
        });
        until_queued(&*event, 1);
        let held = hold(&pool);
        for _ in 0..10 {
            let crowd = crowd.clone();
            limited.execute(move || crowd.enter());
        }
        let gone = pool.shutdown(Shutdown::Drain);
        assert!(matches!(limited.spawn(|| ()).wait(), Err(JoinError::ShutDown)));
        drop(held);
        assert!(pool.shutdown(Shutdown::Drain).timeout(SHORT).wait().is_err());
        event.set();
        gone.wait();
        suspended.wait().unwrap();
        assert_eq!(crowd.all(), 11);
    });
}

#[test]
fn cancelling_the_other_scheduler_cancels_what_waits_here() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let limited = Limited::new(pool.clone(), 2);
        let value = tally.make();
        let suspended = limited.spawn_future(async move {
            let _value = value;
            std::future::pending::<()>().await;
        });
        eventually("it is suspended", || format!("{suspended:?}").contains("suspended"));
        let held = hold(&pool);
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let value = tally.make();
                limited.spawn(move || drop(value))
            })
            .collect();
        let gone = pool.shutdown(Shutdown::Cancel);
        for task in tasks {
            assert!(matches!(task.wait(), Err(JoinError::ShutDown)));
        }
        assert!(matches!(suspended.wait(), Err(JoinError::ShutDown)));
        tally.expect_all_dropped();
        drop(held);
        gone.wait();
        assert!(matches!(limited.spawn(|| ()).wait(), Err(JoinError::ShutDown)));
    });
}

/// The other scheduler's levels are the limit's too; a wrong one costs only the task.
#[test]
fn a_level_that_does_not_exist_is_refused_clearly_here_too() {
    in_its_own_process(|| {
        let (limited, tally) = (Limited::new(pool(Mode::Stealing, 1), 1), Tally::new());
        let value = tally.make();
        let said = panic_of(|| limited.at(20).spawn(move || drop(value)));
        assert!(said.contains("there is no level 20"), "{said}");
        tally.expect_all_dropped();
        assert_eq!(limited.at(9).spawn(|| 42).wait().unwrap(), 42);
    });
}

/// A scheduler that panics when it is asked does not bring the process down.
#[test]
fn a_scheduler_that_panics_is_survived() {
    #[derive(Clone)]
    struct Panicking(Arc<Mutex<bool>>);
    impl Scheduler for Panicking {
        fn enqueue(&self, runnable: Runnable) {
            let panics = *self.0.lock().unwrap();
            assert!(!panics, "not now");
            runnable.run();
        }
    }
    in_its_own_process(|| {
        let panics = Arc::new(Mutex::new(true));
        let limited = Limited::new(Panicking(Arc::clone(&panics)), 1);
        assert_eq!(panic_of(|| limited.spawn(|| 1)), "not now");
        *panics.lock().unwrap() = false;
        assert_eq!(limited.spawn(|| 42).wait().unwrap(), 42);
    });
}

#[test]
fn a_limit_of_zero_is_refused() {
    assert!(panic_of(|| Limited::new(Threads, 0)).contains("a limit of 0"));
    let limited = Limited::new(Threads, 7);
    assert_eq!((limited.concurrency(), limited.normal_level()), (7, 0));
    let _: &Threads = limited.scheduler();
}

/// A long-running task of a limited scheduler has a thread of its own, and counts.
#[test]
fn long_running_tasks_have_threads_of_their_own_here_too() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let limited = Limited::new(pool.clone(), 2);
        let held = hold(&pool);
        let door = Door::new();
        // The runner needs the pool's thread for a moment; from then on it does not.
        let passes = Arc::clone(&door);
        let long = limited.at(1).long_running().spawn(move || {
            passes.pass();
            thread::current().name().map(String::from)
        });
        drop(held);
        let usual = limited.spawn(|| thread::current().name().map(String::from));
        assert!(usual.wait().unwrap().unwrap().ends_with("-0"));
        assert!(!long.is_finished());
        door.open();
        assert!(long.wait().unwrap().unwrap().contains("-long-"));
        // One that never gets its thread is refused like the others.
        let held = hold(&pool);
        let never = limited.start().long_running().spawn(|| ());
        let gone = pool.shutdown(Shutdown::Cancel);
        drop(held);
        assert!(matches!(never.wait(), Err(JoinError::ShutDown)));
        gone.wait();
    });
}

/// A long-running future keeps its thread between its polls here too, and gives it back in the end,
/// whatever that is.
#[test]
fn a_long_running_future_has_one_thread_here_too() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let limited = Limited::new(Limited::new(pool.clone(), 3), 1);
        let (event, waits) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let happens = Arc::clone(&event);
        let future = limited.start().long_running().spawn_future(async move {
            let mut threads = HashSet::from([thread::current().id()]);
            for _ in 0..100 {
                yield_now().await;
                threads.insert(thread::current().id());
            }
            happens.happened().await;
            threads.insert(thread::current().id());
            threads.len()
        });
        until_queued(&*event, 1);
        // While it is suspended, it keeps its thread and not its place.
        assert_eq!(limited.spawn(|| 42).wait().unwrap(), 42);
        assert_eq!(pool.metrics().threads, 2);
        event.set();
        assert_eq!(future.wait().unwrap(), 1);
        // One that is cancelled, by its handle, by a token, and one that has no waker.
        let suspended = |stop: &CancelSource| {
            let waits = Arc::clone(&waits);
            let start = limited.start().long_running().cancel_on(&stop.token());
            start.spawn_future(async move { waits.happened().await })
        };
        let stop = CancelSource::new();
        let futures = [suspended(&stop), suspended(&stop)];
        until_queued(&*waits, 2);
        assert!(futures[0].cancel());
        stop.cancel();
        drop(limited.start().long_running().spawn_future(std::future::pending::<()>()));
        eventually("their threads have ended", || pool.metrics().threads == 1);
        // Those that wait with them are not lost.
        assert_eq!(limited.spawn(|| 42).wait().unwrap(), 42);
        let last = suspended(&CancelSource::new());
        until_queued(&*waits, 1);
        pool.shutdown(Shutdown::Cancel).wait();
        assert!(matches!(last.wait(), Err(JoinError::ShutDown)));
    });
}

/// Runs everything at once, where it was started.
#[derive(Clone)]
struct Immediate;

impl Scheduler for Immediate {
    fn enqueue(&self, runnable: Runnable) {
        runnable.run();
    }
}

/// A task starts very many, which wait here until it has ended, and then run one after the other.
#[test]
fn a_limit_over_a_scheduler_that_runs_on_the_spot_does_not_grow_the_stack() {
    in_its_own_process(|| {
        let (limited, crowd) = (Limited::new(Immediate, 1), Crowd::default());
        let (inside, entered) = (limited.clone(), crowd.clone());
        limited.execute(move || {
            for _ in 0..100_000 {
                let entered = entered.clone();
                inside.execute(move || {
                    entered.0.2.fetch_add(1, Ordering::SeqCst);
                });
            }
            assert_eq!(entered.all(), 0);
        });
        assert_eq!(crowd.all(), 100_000);
        // With room for another, what a task starts it can wait for.
        let limited = Limited::new(Immediate, 2);
        let inside = limited.clone();
        assert_eq!(limited.spawn(move || inside.spawn(|| 42).wait().unwrap()).wait().unwrap(), 42);
    });
}

/// Neither the tasks that wait here nor those on their way keep the scheduler that would run them.
#[test]
fn tasks_that_nobody_will_run_are_cancelled_with_the_scheduler() {
    watched(|| {
        let (tally, here) = (Tally::new(), CurrentThread::new());
        let limited = Limited::new(here.clone(), 1);
        let closures: Vec<_> = (0..3)
            .map(|_| {
                let value = tally.make();
                limited.spawn(move || drop(value))
            })
            .collect();
        let value = tally.make();
        let future = limited.spawn_future(async move { drop(value) });
        drop(here);
        drop(limited);
        tally.expect_all_dropped();
        for handle in closures.into_iter().chain([future]) {
            assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
        }
    });
}
