//! How a pool ends.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{
    Door, SHORT, Tally, eventually, hold, in_both_modes, pool, pool_with_spares, until_queued,
    watched,
};
use semaforo::tasks::{Handle, JoinError, Mode, Pool, Shutdown, yield_now};
use semaforo::{CancelSource, Event};

const WAYS: [Shutdown; 2] = [Shutdown::Drain, Shutdown::Cancel];

fn counting(count: &Arc<AtomicUsize>) -> impl FnOnce() + Send + use<> {
    let count = Arc::clone(count);
    move || {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn draining_runs_what_is_queued_and_what_that_starts() {
    fn grow(pool: &Pool, count: &Arc<AtomicUsize>, height: u32) {
        count.fetch_add(1, Ordering::SeqCst);
        for level in [2, 7] {
            if height > 0 {
                let (again, count) = (pool.clone(), Arc::clone(count));
                pool.at(level).execute(move || grow(&again, &count, height - 1));
            }
        }
    }
    in_both_modes(|mode| {
        for threads in [1, 3] {
            let (pool, count) = (pool(mode, threads), Arc::new(AtomicUsize::new(0)));
            let held = hold(&pool);
            let (again, counts) = (pool.clone(), Arc::clone(&count));
            pool.execute(move || grow(&again, &counts, 8));
            let mut gone = crate::support::Step::queued(pool.shutdown(Shutdown::Drain));
            drop(held);
            pool.shutdown(Shutdown::Drain).wait();
            gone.expect_ready();
            assert_eq!(count.load(Ordering::SeqCst), 511);
            assert_eq!(pool.metrics().threads, 0);
        }
    });
}

#[test]
fn cancelling_drops_what_is_queued_and_what_is_suspended() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let captured = tally.make();
        let suspended = pool.spawn_future(async move {
            let _captured = captured;
            pending::<()>().await;
        });
        eventually("it is suspended", || format!("{suspended:?}").contains("suspended"));
        let held = hold(&pool);
        let queued: Vec<Handle<()>> = (0..20)
            .map(|number| {
                let captured = tally.make();
                if number % 2 == 0 {
                    pool.at(number % 10).spawn(move || drop(captured))
                } else {
                    pool.spawn_future(async move { drop(captured) })
                }
            })
            .collect();
        let captured = tally.make();
        pool.execute(move || drop(captured));
        let gone = pool.shutdown(Shutdown::Cancel);
        tally.expect_all_dropped();
        assert!(matches!(suspended.wait(), Err(JoinError::ShutDown)));
        for task in queued {
            assert!(matches!(task.wait(), Err(JoinError::ShutDown)));
        }
        drop(held);
        gone.wait();
        assert_eq!(pool.metrics().threads, 0);
    });
}

#[test]
fn nothing_can_be_started_afterwards() {
    in_both_modes(|mode| {
        for how in WAYS {
            let (pool, tally) = (pool(mode, 1), Tally::new());
            let running = hold(&pool);
            let gone = pool.shutdown(how);
            for ended in [false, true] {
                let value = tally.make();
                let closure = pool.spawn(move || drop(value));
                let value = tally.make();
                let future = pool.at(1).spawn_future(async move { drop(value) });
                let value = tally.make();
                let apart = pool.long_running().spawn(move || drop(value));
                let value = tally.make();
                pool.execute(move || panic!("{value:?}"));
                tally.expect_all_dropped();
                for task in [closure, future, apart] {
                    assert!(matches!(task.wait(), Err(JoinError::ShutDown)), "{ended}");
                }
                if !ended {
                    break;
                }
            }
            drop(running);
            gone.wait();
            assert!(matches!(pool.spawn(|| ()).wait(), Err(JoinError::ShutDown)));
            let then = pool.spawn(|| ()).then(&pool, |_| ());
            assert!(matches!(then.wait(), Err(JoinError::ShutDown)));
            pool.shutdown(how).wait();
        }
    });
}

#[test]
fn draining_waits_for_suspended_futures() {
    in_both_modes(|mode| {
        let (pool, event) = (pool(mode, 1), Arc::new(Event::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let future = pool.spawn_future({
            let (event, ended, pool) = (Arc::clone(&event), Arc::clone(&ended), pool.clone());
            async move {
                event.happened().await;
                yield_now().await;
                // A task that runs may start others.
                assert_eq!(pool.spawn(|| 42).await.unwrap(), 42);
                ended.store(true, Ordering::SeqCst);
            }
        });
        let then = future.then(&pool, |outcome| outcome.unwrap());
        until_queued(&*event, 1);
        assert!(pool.shutdown(Shutdown::Drain).timeout(SHORT).wait().is_err());
        event.set();
        pool.shutdown(Shutdown::Drain).wait();
        assert!(ended.load(Ordering::SeqCst));
        then.wait().unwrap();
    });
}

#[test]
fn cancelling_may_follow_on_draining() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 2), Tally::new());
        let captured = tally.make();
        let future = pool.spawn_future(async move {
            let _captured = captured;
            pending::<()>().await;
        });
        let stop = CancelSource::new();
        stop.cancel();
        assert!(pool.shutdown(Shutdown::Drain).cancel_on(&stop.token()).wait().is_err());
        assert!(pool.shutdown(Shutdown::Drain).timeout(SHORT).wait().is_err());
        pool.shutdown(Shutdown::Cancel).wait();
        tally.expect_all_dropped();
        assert!(matches!(future.wait(), Err(JoinError::ShutDown)));
        // The other way round nothing changes any more.
        pool.shutdown(Shutdown::Drain).wait();
    });
}

/// Every task that was accepted runs, every other is refused, and its joiner is told.
#[test]
fn draining_while_tasks_are_started() {
    in_both_modes(|mode| {
        for round in 0..20 {
            let (pool, ran) = (pool(mode, 1 + round % 3), Arc::new(AtomicUsize::new(0)));
            let (accepted, refused) = race(&pool, &ran, Shutdown::Drain);
            assert_eq!(ran.load(Ordering::SeqCst), accepted);
            assert!(refused > 0);
        }
    });
}

#[test]
fn cancelling_while_tasks_are_started() {
    in_both_modes(|mode| {
        for round in 0..20 {
            let (pool, ran) = (pool(mode, 1 + round % 3), Arc::new(AtomicUsize::new(0)));
            let (finished, _) = race(&pool, &ran, Shutdown::Cancel);
            // Those that ran to their end while they were cancelled are not counted as finished.
            assert!(ran.load(Ordering::SeqCst) >= finished);
        }
    });
}

/// Starts tasks of all kinds from three threads and from tasks until they are refused, ends the pool
/// meanwhile, and returns how many ran according to their joiners, and how many did not.
fn race(pool: &Pool, ran: &Arc<AtomicUsize>, how: Shutdown) -> (usize, usize) {
    let tally = Tally::new();
    let begun = AtomicUsize::new(0);
    let outcomes = thread::scope(|scope| {
        let starters: Vec<_> = (0..3)
            .map(|starter| {
                let (tally, ran, begun) = (tally.clone(), Arc::clone(ran), &begun);
                scope.spawn(move || {
                    let mut outcomes = (0, 0);
                    let mut kept = Vec::new();
                    for number in 0.. {
                        begun.fetch_add(1, Ordering::SeqCst);
                        let (value, ran, again) = (tally.make(), Arc::clone(&ran), pool.clone());
                        let count = move || {
                            drop(value);
                            ran.fetch_add(1, Ordering::SeqCst);
                        };
                        let task = match (starter + number) % 4 {
                            0 => pool.spawn(count),
                            1 => pool.spawn_future(async move {
                                yield_now().await;
                                count();
                            }),
                            2 if number % 40 == 0 => pool.long_running().spawn(count),
                            _ => pool.spawn_future(async move {
                                again.spawn(count).await.unwrap_or_else(|error| error.resume());
                            }),
                        };
                        let refused = task.is_finished();
                        kept.push(task);
                        if refused && kept.len() > 10 {
                            let last = kept.pop().unwrap().wait();
                            let over = matches!(last, Err(JoinError::ShutDown));
                            *(if last.is_ok() { &mut outcomes.0 } else { &mut outcomes.1 }) += 1;
                            if over {
                                break;
                            }
                        }
                    }
                    // The pool ends although the handles are still there.
                    pool.shutdown(how).wait();
                    for task in kept {
                        let outcome = task.wait();
                        *(if outcome.is_ok() { &mut outcomes.0 } else { &mut outcomes.1 }) += 1;
                    }
                    outcomes
                })
            })
            .collect();
        eventually("some were started", || begun.load(Ordering::SeqCst) > 30);
        drop(pool.shutdown(how));
        starters.into_iter().map(|starter| starter.join().unwrap()).collect::<Vec<_>>()
    });
    tally.expect_all_dropped();
    (outcomes.iter().map(|both| both.0).sum(), outcomes.iter().map(|both| both.1).sum())
}

#[test]
fn a_pool_that_is_dropped_drains() {
    in_both_modes(|mode| {
        let (pool, count) = (pool(mode, 2), Arc::new(AtomicUsize::new(0)));
        let held = hold(&pool);
        for level in 0..10 {
            pool.at(level).execute(counting(&count));
        }
        let future = pool.spawn_future({
            let count = Arc::clone(&count);
            async move {
                yield_now().await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let clone = pool.clone();
        drop(pool);
        clone.execute(counting(&count));
        drop(clone);
        drop(held);
        future.wait().unwrap();
        eventually("all have run", || count.load(Ordering::SeqCst) == 12);
        eventually("nobody has it any more", || Arc::strong_count(&count) == 1);
    });
}

#[test]
fn the_last_handle_of_a_pool_may_be_dropped_by_its_own_task() {
    in_both_modes(|mode| {
        let (pool, count) = (pool(mode, 1), Arc::new(AtomicUsize::new(0)));
        let door = Door::new();
        let (last, counts, passes) = (pool.clone(), Arc::clone(&count), Arc::clone(&door));
        let task = pool.spawn(move || {
            passes.pass();
            last.execute(counting(&counts));
            last.at(9).execute(counting(&counts));
            drop(last);
        });
        drop(pool);
        door.open();
        task.wait().unwrap();
        eventually("its children have run", || count.load(Ordering::SeqCst) == 2);
        eventually("the pool has gone", || Arc::strong_count(&count) == 1);
    });
}

#[test]
fn a_task_may_shut_its_own_pool_down_without_waiting() {
    in_both_modes(|mode| {
        for how in WAYS {
            let (pool, count) = (pool(mode, 1), Arc::new(AtomicUsize::new(0)));
            let held = hold(&pool);
            let (own, counts) = (pool.clone(), Arc::clone(&count));
            let task = pool.at(0).spawn(move || {
                drop(own.shutdown(how));
                let child = own.spawn(counting(&counts));
                counts.fetch_add(1, Ordering::SeqCst);
                child
            });
            pool.at(1).execute(counting(&count));
            drop(held);
            let child = task.wait().unwrap();
            pool.shutdown(how).wait();
            let (ran, child) = (count.load(Ordering::SeqCst), child.wait());
            match how {
                Shutdown::Drain => assert!(ran == 3 && child.is_ok()),
                Shutdown::Cancel => {
                    assert!(ran == 1 && matches!(child, Err(JoinError::ShutDown)));
                }
            }
        }
    });
}

/// Tasks that run may go on to start others, wherever they run.
#[test]
fn a_long_running_task_may_start_others_while_the_pool_drains() {
    in_both_modes(|mode| {
        let (pool, door) = (pool(mode, 1), Door::new());
        let (own, passes) = (pool.clone(), Arc::clone(&door));
        let task = pool.long_running().spawn(move || {
            passes.pass();
            let child = own.spawn(|| 1).wait().unwrap();
            let future = own.spawn_future(async { 2 }).wait().unwrap();
            let apart = own.long_running().spawn(|| 3).wait().unwrap();
            let scoped = own.scope(|scope| scope.spawn(|| 4).wait().unwrap());
            child + future + apart + scoped
        });
        let gone = pool.shutdown(Shutdown::Drain);
        door.open();
        assert_eq!(task.wait().unwrap(), 10);
        gone.wait();
    });
}

#[test]
fn a_pool_ends_while_tasks_wait_in_the_middle() {
    in_both_modes(|mode| {
        let (pool, event) = (pool_with_spares(mode, 1), Arc::new(Event::new()));
        let waits: Vec<_> = (0..5)
            .map(|_| {
                let event = Arc::clone(&event);
                pool.spawn(move || event.happened().wait())
            })
            .collect();
        until_queued(&*event, 5);
        let gone = pool.shutdown(Shutdown::Cancel);
        event.set();
        gone.wait();
        for task in waits {
            task.wait().unwrap();
        }
        assert_eq!(pool.metrics().threads, 0);
    });
}

/// A task that a waiting worker runs before its turn has begun, although its place in the queue is
/// still there.
#[test]
fn cancelling_leaves_alone_what_a_waiter_has_begun() {
    watched(|| {
        let (pool, begun, door) = (pool(Mode::Stealing, 1), Arc::new(Event::new()), Door::new());
        let (own, sets, passes) = (pool.clone(), Arc::clone(&begun), Arc::clone(&door));
        let task = pool.spawn(move || {
            let child = own.spawn(move || {
                sets.set();
                passes.pass();
                42
            });
            child.wait()
        });
        begun.happened().wait();
        let gone = pool.shutdown(Shutdown::Cancel);
        door.open();
        assert_eq!(task.wait().unwrap().unwrap(), 42);
        gone.wait();
    });
}

/// Pools that come and go leave no threads.
#[test]
fn many_pools_one_after_the_other() {
    watched(|| {
        for round in 0..100 {
            let pool = Pool::builder().threads(1 + round % 4).build().unwrap();
            if round % 3 > 0 {
                pool.execute(|| ());
            }
            pool.shutdown(WAYS[round % 2]).wait();
            assert_eq!(pool.metrics().threads, 0);
        }
    });
}
