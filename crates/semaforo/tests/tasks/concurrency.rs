//! The number of threads is a promise: no more tasks are begun and not finished, except those that wait for
//! other tasks of the same pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{LONG, MODES, eventually, in_both_modes, pool, until_queued, watched};
use semaforo::query::prelude::*;
use semaforo::tasks::{self, Handle, Limited, Mode, Pool, Shutdown, Spawn, when_all};
use semaforo::{BlockingQueue, Event, Mutex, Semaphore};

/// How many are inside now, and how many were at most.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

impl Crowd {
    fn enter(&self) {
        let inside = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(inside, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// Twelve patients, two doctors: each treatment holds a lock of its own, and waits for something that does
/// not come.
fn most_in_treatment(pool: &Pool, treat: impl Fn() + Clone + Send + 'static) -> usize {
    let crowd = Crowd::default();
    let patients: Vec<Handle<()>> = (0..12)
        .map(|number| {
            let (crowd, treat) = (crowd.clone(), treat.clone());
            pool.at(number % pool.levels()).spawn(move || {
                crowd.enter();
                let own = Mutex::new(());
                let held = own.lock().wait();
                treat();
                drop(held);
                crowd.leave();
            })
        })
        .collect();
    when_all(patients).wait().unwrap().into_iter().for_each(Result::unwrap);
    crowd.most()
}

#[test]
fn no_more_tasks_are_begun_and_not_finished_than_there_are_threads() {
    in_both_modes(|mode| {
        let doctors = pool(mode, 2);
        let never = Arc::new(Semaphore::new(0));
        let waits = move || {
            never.acquire(1).timeout(Duration::from_millis(20)).wait().unwrap_err();
        };
        assert_eq!(most_in_treatment(&doctors, waits), 2);
        let blocks = || tasks::blocking(|| std::thread::sleep(Duration::from_millis(5)));
        assert_eq!(most_in_treatment(&doctors, blocks), 2);
        assert_eq!(doctors.metrics().threads, 2, "there was never another thread");
    });
}

/// The same with spare threads: as many more as there are.
#[test]
fn spare_threads_begin_other_tasks_while_some_wait() {
    in_both_modes(|mode| {
        let pool = Pool::builder().mode(mode).threads(2).spares(3).build().unwrap();
        let (event, entered) = (Arc::new(Event::new()), Crowd::default());
        let tasks: Vec<_> = (0..12)
            .map(|_| {
                let (event, entered) = (Arc::clone(&event), entered.clone());
                pool.spawn(move || {
                    entered.enter();
                    event.happened().wait();
                    entered.leave();
                })
            })
            .collect();
        until_queued(&*event, 5);
        eventually("all of them are seen to wait", || {
            let metrics = pool.metrics();
            (metrics.waiting, metrics.joining, metrics.spares) == (5, 0, 3)
        });
        event.set();
        when_all(tasks).wait().unwrap();
        assert_eq!(entered.most(), 5);
    });
}

/// A treatment that sends for others and waits for them does not count meanwhile, but what is begun in its
/// place does.
#[test]
fn tasks_that_wait_for_others_are_replaced() {
    in_both_modes(|mode| {
        for by in ["a handle", "a bounded handle", "its end", "all", "a future", "a scope"] {
            let pool = pool(mode, 1);
            let inside = pool.clone();
            let treatment = pool.spawn(move || {
                // One that cannot run on the spot, for it has to wait for the other.
                let (event, sets) = (Arc::new(Event::new()), Arc::new(Event::new()));
                let awaits = Arc::clone(&event);
                let first = inside.spawn_future(async move {
                    awaits.happened().await;
                    1
                });
                let happens = Arc::clone(&sets);
                inside.execute(move || happens.set());
                inside.execute(move || {
                    // Its turn comes only if the treatment has been replaced.
                    event.set();
                });
                match by {
                    "a handle" => assert_eq!(first.wait().unwrap(), 1),
                    "a bounded handle" => {
                        assert_eq!(first.timeout(crate::support::LIMIT).wait().unwrap(), 1);
                    }
                    "its end" => first.finished().wait(),
                    "all" => assert_eq!(when_all([first]).wait().unwrap().len(), 1),
                    "a future" => {
                        let then = first.then(&inside, Result::unwrap);
                        assert_eq!(then.wait().unwrap(), 1);
                    }
                    _ => inside.scope(|scope| {
                        let ends = scope.spawn(|| 1);
                        assert_eq!(ends.wait().unwrap(), 1);
                        assert_eq!(first.wait().unwrap(), 1);
                    }),
                }
                by.len()
            });
            let len = treatment.timeout(crate::support::LIMIT).wait();
            assert_eq!(len.expect("it does not wait for ever"), by.len());
            pool.shutdown(Shutdown::Drain).wait();
        }
    });
}

/// Also if another scheduler stands between: its tasks need the pool's threads.
#[test]
fn a_task_that_waits_for_one_of_a_limited_scheduler_on_its_pool_is_replaced() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let limited = Limited::new(pool.clone(), 1);
        let waits = pool.spawn(move || limited.spawn(|| 42).wait().unwrap());
        assert_eq!(waits.timeout(crate::support::LIMIT).wait().unwrap(), 42);
    });
}

/// Those that have nothing to do with the pool's own tasks do not make room: tasks of another pool, too.
#[test]
fn tasks_that_wait_for_another_pool_count() {
    for mode in MODES {
        watched(move || {
            let (doctors, laboratory) = (pool(mode, 2), pool(mode, 2));
            let analyse = move || {
                let result = laboratory.spawn(|| std::thread::sleep(Duration::from_millis(5)));
                result.wait().unwrap();
            };
            assert_eq!(most_in_treatment(&doctors, analyse), 2);
        });
    }
}

/// What all wait for is queued behind them: a deadlock, which shows.
#[test]
fn a_pool_whose_threads_all_wait_shows_it() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let queue = Arc::new(BlockingQueue::<u32>::bounded(2));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                pool.spawn(move || queue.take().wait().unwrap())
            })
            .collect();
        until_queued(&*queue, 2);
        let putter = pool.spawn({
            let queue = Arc::clone(&queue);
            move || queue.put(1).wait().unwrap()
        });
        eventually("both are seen to wait", || pool.metrics().waiting == 2);
        let shown = format!("{pool:?}");
        assert!(shown.contains("waiting: 2") && shown.contains("queued: 1"), "{shown}");
        assert!(!putter.is_finished());
        queue.put(2).wait().unwrap();
        queue.put(3).wait().unwrap();
        when_all(takers).wait().unwrap();
        putter.wait().unwrap();
        assert_eq!(pool.metrics().waiting, 0);
    });
}

/// A wait for tasks inside of `blocking` is one for tasks.
#[test]
fn a_join_inside_of_blocking_is_replaced() {
    watched(|| {
        let pool = pool(Mode::Strict, 1);
        let inside = pool.clone();
        let waits = pool.spawn(move || tasks::blocking(|| inside.spawn(|| 42).wait().unwrap()));
        assert_eq!(waits.timeout(crate::support::LIMIT).wait().unwrap(), 42);
        eventually("the stand-in retires", || pool.metrics().spares == 0);
    });
}

/// Queries inside of tasks end without spare threads: whoever waits in one waits for a helper that runs.
#[test]
fn queries_inside_of_tasks_end() {
    in_both_modes(|mode| {
        for threads in [1, 2] {
            let pool = pool(mode, threads);
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let inside = pool.clone();
                    pool.spawn(move || {
                        let query = || (0..2000_u64).as_parallel().on(&inside).with_threads(3);
                        let sum = query().map(slow).sum::<u64>();
                        let (mut first, mut second) = (0, 0);
                        query().map(slow).for_each(|n| first += n);
                        for n in query().map(slow) {
                            second += n;
                        }
                        let nested = query()
                            .take(20)
                            .map(|n| n + query().take(100).map(slow).sum::<u64>())
                            .sum::<u64>();
                        (sum, first, second, nested)
                    })
                })
                .collect();
            let sum = (0..2000).sum::<u64>();
            let nested = (0..20).sum::<u64>() + 20 * (0..100).sum::<u64>();
            for task in tasks {
                assert_eq!(task.wait().unwrap(), (sum, sum, sum, nested));
            }
        }
    });
}

/// Long enough that a query calls for help.
fn slow(n: u64) -> u64 {
    let end = std::time::Instant::now() + Duration::from_micros(2);
    while std::time::Instant::now() < end {
        std::hint::spin_loop();
    }
    n
}

/// A worker runs on the spot what it waits for, but not with a limit or by `finished()`. Then a stand-in runs
/// that before it begins something else, which may want a stand-in in turn: there are not enough of them.
#[test]
fn stand_ins_run_first_what_is_waited_for() {
    watched(|| {
        let pool = Pool::builder().threads(1).stand_ins(2).build().unwrap();
        let join = |number: usize| {
            let inner = pool.clone();
            pool.spawn(move || {
                let child = inner.spawn(move || number);
                if number % 2 == 0 {
                    child.finished().wait();
                    return child.wait().unwrap();
                }
                child.timeout(LONG).wait().unwrap()
            })
        };
        let tasks: Vec<_> = (0..50).map(join).collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.wait().unwrap(), number);
        }
    });
}
