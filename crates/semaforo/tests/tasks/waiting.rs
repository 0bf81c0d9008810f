//! Waiting in the middle of a task: for other tasks, and for everything else of this library.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::support::{Door, eventually, in_both_modes, pool, pool_with_spares, watched};
use semaforo::tasks::{self, Handle, Mode, Pool, Shutdown};
use semaforo::{BlockingQueue, Event, Latch, Semaphore};

/// The program that hangs where a worker that waits runs whatever it finds: a task holds a lock (not
/// one of ours) and waits for its children, and behind it is a task that wants the lock. In a strict pool
/// the children come after that, so it has to be said that a lock of other people's is waited for.
fn a_lock_is_held_while_children_are_waited_for(mode: Mode, threads: usize, by_scope: bool) {
    let pool = pool_with_spares(mode, threads);
    let lock = Arc::new(Mutex::new(0_u64));
    let tasks: Vec<Handle<()>> = (0..60)
        .map(|number| {
            let (pool, lock) = (pool.clone(), Arc::clone(&lock));
            pool.clone().at(number % 10).spawn(move || {
                let mut held = match mode {
                    Mode::Stealing => lock.lock().unwrap(),
                    Mode::Strict => tasks::blocking(|| lock.lock().unwrap()),
                };
                if by_scope {
                    let sum = AtomicUsize::new(0);
                    pool.scope(|scope| {
                        for n in 0..4 {
                            let sum = &sum;
                            scope.execute(move || {
                                sum.fetch_add(n, Ordering::SeqCst);
                            });
                        }
                    });
                    *held += sum.into_inner() as u64;
                } else {
                    let children: Vec<_> = (0..4_u64).map(|n| pool.spawn(move || n)).collect();
                    *held += children.into_iter().map(|child| child.wait().unwrap()).sum::<u64>();
                }
            })
        })
        .collect();
    for task in tasks {
        task.wait().unwrap();
    }
    assert_eq!(*lock.lock().unwrap(), 60 * 6);
}

#[test]
fn nothing_foreign_runs_under_the_locks_of_a_task_that_waits() {
    in_both_modes(|mode| {
        for (threads, by_scope) in [(1, false), (1, true), (2, false), (2, true)] {
            a_lock_is_held_while_children_are_waited_for(mode, threads, by_scope);
        }
    });
}

fn by_handles(pool: &Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (left, again) = (pool.clone(), pool.clone());
    let left = pool.spawn(move || by_handles(&left, n - 1));
    let right = by_handles(&again, n - 2);
    left.wait().unwrap() + right
}

fn by_scopes(pool: &Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    pool.scope(|scope| {
        let left = scope.spawn(|| by_scopes(pool, n - 1));
        by_scopes(pool, n - 2) + left.wait().unwrap()
    })
}

#[test]
fn tasks_fork_and_join() {
    in_both_modes(|mode| {
        let n = if mode == Mode::Strict { 10 } else { 16 };
        let expected = if mode == Mode::Strict { 55 } else { 987 };
        for threads in [1, 2] {
            let pool = pool(mode, threads);
            for fibonacci in [by_handles, by_scopes] {
                let inside = pool.clone();
                assert_eq!(pool.spawn(move || fibonacci(&inside, n)).wait().unwrap(), expected);
            }
        }
    });
}

/// Each waits for the next: nobody else could run any of them without a thread of its own.
#[test]
fn a_long_chain_of_waits_on_one_worker() {
    fn descend(pool: &Pool, depth: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let inside = pool.clone();
        pool.spawn(move || descend(&inside, depth - 1)).wait().unwrap() + 1
    }
    watched(|| {
        let pool = pool(Mode::Stealing, 1);
        let inside = pool.clone();
        assert_eq!(pool.spawn(move || descend(&inside, 500)).wait().unwrap(), 500);
        assert_eq!(pool.metrics().run_by_waiters, 500);
    });
    watched(|| {
        let pool = pool(Mode::Strict, 1);
        let inside = pool.clone();
        assert_eq!(pool.spawn(move || descend(&inside, 50)).wait().unwrap(), 50);
        assert_eq!(pool.metrics().run_by_waiters, 0);
    });
}

#[test]
fn a_task_may_wait_for_one_that_comes_later() {
    in_both_modes(|mode| {
        let pool = pool_with_spares(mode, 1);
        let (permits, queue) = (Arc::new(Semaphore::new(0)), Arc::new(BlockingQueue::bounded(1)));
        let (event, latch) = (Arc::new(Event::new()), Arc::new(Latch::new(3)));
        let waits = pool.at(0).spawn({
            let (permits, queue) = (Arc::clone(&permits), Arc::clone(&queue));
            let (event, latch) = (Arc::clone(&event), Arc::clone(&latch));
            move || {
                permits.acquire(2).wait().unwrap().forget();
                let item: u32 = queue.take().wait().unwrap();
                event.happened().wait();
                latch.opened().wait();
                item
            }
        });
        permits.release(1).unwrap();
        pool.at(5).execute(move || permits.release(1).unwrap());
        pool.at(6).execute(move || queue.put(42).wait().unwrap());
        pool.at(7).execute(move || event.set());
        for _ in 0..3 {
            let latch = Arc::clone(&latch);
            pool.at(9).execute(move || {
                latch.count_down();
            });
        }
        assert_eq!(waits.wait().unwrap(), 42);
    });
}

/// Whichever way a task waits for its children, there is somebody to run them.
#[test]
fn children_are_waited_for_in_every_way() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let inside = pool.clone();
        let sum = pool.spawn(move || {
            let child = || inside.spawn(|| 1);
            let finished = child();
            finished.finished().wait();
            let stop = semaforo::CancelSource::new();
            let bounded =
                child().timeout(crate::support::LIMIT).cancel_on(&stop.token()).wait().unwrap();
            let all = tasks::when_all((0..5).map(|_| child())).wait().unwrap().len();
            let (_, any, others) = tasks::when_any((0..5).map(|_| child())).wait().unwrap();
            let then = child().then(&inside, |n| n.unwrap() + 1).wait().unwrap();
            let future = inside.spawn_future(async { 1 }).wait().unwrap();
            finished.wait().unwrap() + bounded + all + any.unwrap() + others.len() + then + future
        });
        assert_eq!(sum.wait().unwrap(), 1 + 1 + 5 + 1 + 4 + 2 + 1);
    });
}

#[test]
fn a_producer_and_a_consumer_share_one_worker() {
    in_both_modes(|mode| {
        let pool = pool_with_spares(mode, 1);
        let queue = Arc::new(BlockingQueue::bounded(1));
        let consumer = pool.spawn({
            let queue = Arc::clone(&queue);
            move || (0..200).map(|_| queue.take().wait().unwrap()).sum::<u64>()
        });
        let producer = pool.spawn(move || {
            for n in 0..200 {
                queue.put(n).wait().unwrap();
            }
        });
        producer.wait().unwrap();
        assert_eq!(consumer.wait().unwrap(), (0..200).sum::<u64>());
        // One of them stood in for the other, never more.
        eventually("the spare thread retires", || pool.metrics().spares == 0);
    });
}

/// Nothing else happens that could wake it.
#[test]
fn a_spare_thread_that_sleeps_when_it_is_not_needed_any_more_retires() {
    in_both_modes(|mode| {
        let pool = pool_with_spares(mode, 1);
        let event = Arc::new(Event::new());
        let waits = pool.spawn({
            let event = Arc::clone(&event);
            move || event.happened().wait()
        });
        eventually("it waits", || event.waiters() == 1);
        pool.spawn(|| ()).wait().unwrap();
        eventually("the spare thread sleeps", || {
            let metrics = pool.metrics();
            (metrics.spares, metrics.sleeping) == (1, 1)
        });
        event.set();
        waits.wait().unwrap();
        eventually("it retires", || pool.metrics().spares == 0);
        eventually("it ends", || pool.metrics().threads == 1);
        assert_eq!(pool.spawn(|| 1).wait().unwrap(), 1);
    });
}

#[test]
fn there_are_no_more_spare_threads_than_waits_nor_than_allowed() {
    const WAITS: usize = 20;
    in_both_modes(|mode| {
        for spares in [3, 100] {
            let pool = Pool::builder().mode(mode).threads(1).spares(spares).build().unwrap();
            let (event, begun) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
            let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let waits: Vec<_> = (0..WAITS)
                .map(|_| {
                    let (event, begun) = (Arc::clone(&event), Arc::clone(&begun));
                    pool.spawn(move || {
                        begun.fetch_add(1, Ordering::SeqCst);
                        event.happened().wait();
                    })
                })
                .collect();
            let expected = (spares + 1).min(WAITS);
            eventually("all that may wait do", || event.waiters() == expected);
            if expected == WAITS {
                // And one is left for those who do not wait.
                pool.spawn(|| ()).wait().unwrap();
            }
            assert_eq!(begun.load(Ordering::SeqCst), expected);
            let metrics = pool.metrics();
            assert!(
                metrics.spares <= spares.min(WAITS) && metrics.threads <= spares.min(WAITS) + 1
            );
            event.set();
            for task in waits {
                task.wait().unwrap();
            }
            // From now on only one runs at a time.
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let (most, now) = (Arc::clone(&most), Arc::clone(&now));
                    pool.spawn(move || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    })
                })
                .collect();
            for task in tasks {
                task.wait().unwrap();
            }
            eventually("the spare threads retire", || pool.metrics().spares == 0);
            assert_eq!(pool.metrics().threads, 1);
            pool.shutdown(Shutdown::Drain).wait();
            assert_eq!(pool.metrics().threads, 0);
        }
    });
}

/// The spare thread that is to retire, but has not yet, stands in for the next who waits.
#[test]
fn a_wait_that_follows_on_another_is_compensated_too() {
    in_both_modes(|mode| {
        let pool = Pool::builder().mode(mode).threads(1).spares(1).build().unwrap();
        let (first, second) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let (door, waits) = (Door::new(), Arc::new(AtomicBool::new(false)));
        let task = pool.spawn({
            let (first, second, waits) =
                (Arc::clone(&first), Arc::clone(&second), Arc::clone(&waits));
            move || {
                first.happened().wait();
                waits.store(true, Ordering::SeqCst);
                second.happened().wait();
            }
        });
        crate::support::until_queued(&*first, 1);
        // Runs on the spare thread, and goes on after the first wait is over.
        pool.execute({
            let door = Arc::clone(&door);
            move || {
                first.set();
                door.pass();
            }
        });
        eventually("the second wait", || waits.load(Ordering::SeqCst) && second.waiters() == 1);
        let waiter = Arc::clone(&second);
        pool.execute(move || waiter.set());
        door.open();
        task.timeout(crate::support::LIMIT / 2).wait().unwrap();
    });
}

#[test]
fn blocking_is_compensated() {
    in_both_modes(|mode| {
        let pool = pool_with_spares(mode, 1);
        let (sender, receiver) = mpsc::channel();
        let waits = pool.spawn(move || {
            tasks::blocking(|| {
                tasks::blocking(|| receiver.recv().unwrap()) + receiver.recv().unwrap()
            })
        });
        for n in [2, 40] {
            let sender = sender.clone();
            pool.execute(move || sender.send(n).unwrap());
        }
        assert_eq!(waits.wait().unwrap(), 42);
        // Elsewhere it does nothing; and a panic ends it as well.
        assert_eq!(tasks::blocking(|| 1), 1);
        let panics =
            pool.spawn(|| -> () { tasks::blocking(|| std::panic::resume_unwind(Box::new(1))) });
        assert!(panics.wait().is_err());
        eventually("nobody stands in", || pool.metrics().spares == 0);
    });
}

/// Without spare threads a worker still runs what it waits for itself.
#[test]
fn what_is_waited_for_runs_without_spare_threads() {
    watched(|| {
        let pool = Pool::builder().threads(1).stand_ins(0).build().unwrap();
        let inside = pool.clone();
        assert_eq!(pool.spawn(move || by_handles(&inside, 12)).wait().unwrap(), 144);
        let inside = pool.clone();
        assert_eq!(pool.spawn(move || by_scopes(&inside, 12)).wait().unwrap(), 144);
        let inside = pool.clone();
        let awaited = pool.spawn_future(async move {
            let mut sum = 0;
            for n in 0..100 {
                sum += inside.spawn(move || n).await.unwrap();
            }
            sum
        });
        assert_eq!(awaited.wait().unwrap(), (0..100).sum::<u64>());
    });
}

/// Those of a scope are found although others were started after them.
#[test]
fn a_scope_runs_its_tasks_without_spare_threads() {
    watched(|| {
        let pool = Pool::builder().threads(1).stand_ins(0).build().unwrap();
        let inside = pool.clone();
        let count = pool.spawn(move || {
            let count = AtomicUsize::new(0);
            inside.scope(|scope| {
                for _ in 0..10 {
                    scope.execute(|| {
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                    inside.execute(|| ());
                    inside.at(1).execute(|| ());
                }
            });
            count.into_inner()
        });
        assert_eq!(count.wait().unwrap(), 10);
    });
}

#[test]
fn many_tasks_that_wait_for_each_other_in_a_ring_of_queues() {
    in_both_modes(|mode| {
        const TASKS: usize = 30;
        let pool = pool_with_spares(mode, 2);
        let queues: Arc<Vec<_>> =
            Arc::new((0..TASKS).map(|_| BlockingQueue::<u32>::bounded(1)).collect());
        let tasks: Vec<_> = (0..TASKS)
            .map(|index| {
                let queues = Arc::clone(&queues);
                pool.spawn(move || {
                    for round in 0..20 {
                        let token = queues[index].take().wait().unwrap();
                        assert_eq!(token, round);
                        let next = if index + 1 == TASKS { round + 1 } else { round };
                        queues[(index + 1) % TASKS].put(next).wait().unwrap();
                    }
                })
            })
            .collect();
        queues[0].put(0).wait().unwrap();
        for task in tasks {
            task.wait().unwrap();
        }
        assert_eq!(queues[0].try_take().ok(), Some(20));
    });
}
