//! Panics whose payloads panic in their own `drop`: neither a scope nor a worker nor a joiner suffers.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::{
    Bomb, LIMIT, MODES, Step, WakerOf, eventually, explodes, hold, in_its_own_process, leaked,
    pool, waker_that,
};
use semaforo::tasks::{CurrentThread, JoinError, Limited, Scope, Shutdown, Spawn};

/// A worker calls `scope`, whose first task runs on the other worker for as long as it can see that the
/// scope has not returned: others of its tasks panic meanwhile.
fn a_scope_outlasts_its_tasks(panics: for<'s, 'e> fn(&'s Scope<'s, 'e>)) {
    in_its_own_process(|| {
        for mode in MODES {
            let pool = leaked(pool(mode, 2));
            let returned = leaked(AtomicBool::new(false));
            let inside = pool.spawn(move || {
                let (runs, ended) = (AtomicBool::new(false), AtomicBool::new(false));
                let left = explodes(|| {
                    pool.scope(|scope| {
                        scope.execute(|| {
                            runs.store(true, Ordering::SeqCst);
                            // Long enough for the others to do what harm they can.
                            for _ in 0..1000 {
                                std::thread::yield_now();
                            }
                            assert!(!returned.load(Ordering::SeqCst), "the scope has returned");
                            ended.store(true, Ordering::SeqCst);
                        });
                        eventually("the first task runs", || runs.load(Ordering::SeqCst));
                        panics(scope);
                    });
                });
                returned.store(true, Ordering::SeqCst);
                assert!(left, "the scope passes a panic on");
                assert!(ended.load(Ordering::SeqCst), "the scope has waited for its task");
            });
            inside.wait().unwrap();
            assert_eq!(pool.spawn(|| 42).wait().unwrap(), 42);
        }
    });
}

#[test]
fn a_scope_waits_although_payloads_of_tasks_without_a_handle_panic() {
    a_scope_outlasts_its_tasks(|scope| {
        // Those that its owner runs itself: the youngest comes first.
        scope.execute(|| panic_any(Bomb(3)));
        scope.execute(|| panic_any(Bomb(3)));
        scope.execute(|| panic!("an ordinary panic"));
    });
}

#[test]
fn a_scope_waits_although_the_payload_of_a_detached_task_panics() {
    a_scope_outlasts_its_tasks(|scope| drop(scope.spawn(|| panic_any(Bomb(3)))));
}

#[test]
fn workers_survive_payloads_that_panic() {
    in_its_own_process(|| {
        for mode in MODES {
            let pool = pool(mode, 1);
            for _ in 0..3 {
                pool.execute(|| panic_any(Bomb(3)));
                drop(pool.spawn(|| panic_any(Bomb(3))));
                drop(pool.spawn_future(async { panic_any(Bomb(3)) }));
                pool.long_running().execute(|| panic_any(Bomb(3)));
                // What it captures is dropped by the worker.
                let (held, bomb) = (hold(&pool), Bomb(3));
                let cancelled = pool.spawn(move || std::mem::forget(bomb));
                assert!(explodes(|| {
                    cancelled.cancel();
                }));
                drop(held);
                drop(pool.spawn(|| Bomb(3)));
            }
            let after = pool.spawn(|| 42).timeout(LIMIT).wait();
            assert_eq!(after.unwrap(), 42);
            eventually("the others' threads end", || pool.metrics().threads == 1);
            // Cancelled by the pool: all of them, though each one panics.
            let held = hold(&pool);
            let bombs: Vec<_> = (0..3)
                .map(|_| {
                    let bomb = Bomb(3);
                    pool.spawn(move || std::mem::forget(bomb))
                })
                .collect();
            let futures: Vec<_> = (0..3)
                .map(|_| {
                    let bomb = Bomb(3);
                    pool.spawn_future(async move { std::mem::forget(bomb) })
                })
                .collect();
            let shutdown = pool.shutdown(Shutdown::Cancel);
            for handle in bombs.into_iter().chain(futures) {
                assert!(matches!(handle.wait(), Err(JoinError::ShutDown)));
            }
            drop(held);
            shutdown.timeout(LIMIT).wait().unwrap();
        }
    });
}

/// What a task had captured explodes as it is dropped, and so do some of those who are to be told: the
/// others are told.
#[test]
fn joiners_are_told_although_payloads_panic() {
    in_its_own_process(|| {
        let pool = leaked(pool(MODES[0], 1));
        let held = hold(pool);
        let bomb = Bomb(3);
        let closure = leaked(pool.spawn(move || std::mem::forget(bomb)));
        let bomb = Bomb(3);
        let future = leaked(pool.spawn_future(async move { std::mem::forget(bomb) }));
        for handle in [closure, future] {
            let mut joiners: Vec<_> = (0..4).map(|_| Step::new(handle.finished())).collect();
            for joiner in &mut joiners[..2] {
                assert!(joiner.poll_with(&waker_that(|| panic_any(Bomb(3)))).is_pending());
            }
            for joiner in &mut joiners[2..] {
                joiner.expect_pending();
            }
            assert!(explodes(|| {
                handle.cancel();
            }));
            assert_eq!([joiners[2].wakes(), joiners[3].wakes()], [1, 1]);
        }
        drop(held);
        // The same when the task ends by itself.
        let (held, woken) = (hold(pool), Arc::new(AtomicUsize::new(0)));
        let mut task = Step::new(pool.spawn(|| panic_any(Bomb(3))));
        let wakes = Arc::clone(&woken);
        let waker = waker_that(move || {
            wakes.fetch_add(1, Ordering::SeqCst);
            panic_any(Bomb(3))
        });
        assert!(task.poll_with(&waker).is_pending());
        drop(held);
        eventually("it is woken", || woken.load(Ordering::SeqCst) == 1);
        assert!(matches!(task.expect_ready(), Err(JoinError::Panicked(_))));
        assert_eq!(pool.spawn(|| 42).wait().unwrap(), 42);
    });
}

#[test]
fn other_schedulers_survive_payloads_that_panic() {
    in_its_own_process(|| {
        let here = CurrentThread::new();
        here.execute(|| panic_any(Bomb(3)));
        drop(here.spawn(|| panic_any(Bomb(3))));
        assert_eq!(here.run_until(here.spawn(|| 42)).unwrap(), 42);
        let bomb = Bomb(3);
        let left = here.spawn(move || std::mem::forget(bomb));
        drop(here);
        assert!(matches!(left.wait(), Err(JoinError::Cancelled)));

        let pool = pool(MODES[0], 1);
        let limited = Limited::new(pool.clone(), 1);
        limited.execute(|| panic_any(Bomb(3)));
        drop(limited.spawn(|| panic_any(Bomb(3))));
        drop(limited.spawn(|| Bomb(3)));
        assert_eq!(limited.spawn(|| 42).wait().unwrap(), 42);
        let (held, bomb) = (hold(&pool), Bomb(3));
        let left = [limited.spawn(move || std::mem::forget(bomb)), limited.spawn(|| ())];
        let shutdown = pool.shutdown(Shutdown::Cancel);
        drop(held);
        for handle in left {
            assert!(matches!(handle.wait(), Err(JoinError::ShutDown)));
        }
        shutdown.timeout(LIMIT).wait().unwrap();
    });
}

/// A handle that is polled with a waker which cannot be cloned keeps the one that it had, as any request
/// does; also if the task finishes while the other is being cloned.
#[test]
fn a_waker_that_cannot_be_cloned_does_not_take_the_place_of_another() {
    for finishes_meanwhile in [false, true] {
        let here = CurrentThread::new();
        let mut task = Step::queued(here.spawn(|| 42));
        let runs = here.clone();
        let bad = WakerOf(
            || {},
            move || {
                if finishes_meanwhile {
                    runs.run_until(runs.spawn(|| ())).unwrap();
                }
                std::panic::resume_unwind(Box::new("it cannot be cloned"));
            },
            || {},
        );
        assert!(explodes(|| drop(task.poll_with(&bad.into_waker()))));
        here.run_until(here.spawn(|| ())).unwrap();
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.expect_ready().unwrap(), 42);
    }
}
