//! Tasks that were started with a token: cancelled when it fires, before `cancel()` returns.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::{
    Counted, Door, LIMIT, Step, Tally, eventually, hold, in_both_modes, panic_of, pool,
    until_queued, watched,
};
use semaforo::tasks::{Handle, JoinError, Limited, Shutdown, Spawn, yield_now};
use semaforo::{CancelSource, CancelToken, Event, Semaphore};

/// Has a closure capture all of a value, and not a field of it.
fn whole(value: Counted) -> Counted {
    value
}

#[track_caller]
fn expect_cancelled<T: std::fmt::Debug>(handle: Handle<T>) {
    assert!(handle.is_finished(), "its joiner is not answered");
    match handle.wait() {
        Err(JoinError::Cancelled) => (),
        other => panic!("not cancelled: {other:?}"),
    }
}

/// Before the busy worker is free.
#[test]
fn queued_tasks_are_gone_when_cancel_returns() {
    in_both_modes(|mode| {
        let (pool, tally, stop) = (pool(mode, 1), Tally::new(), CancelSource::new());
        let never = CancelSource::new();
        let held = hold(&pool);
        let start = || pool.at(2).cancel_on(&stop.token());
        let captured = tally.make();
        let closure = start().spawn(move || whole(captured).number);
        let captured = tally.make();
        start().execute(move || panic!("{captured:?} ran"));
        let captured = tally.make();
        let future = start().spawn_future(async move { whole(captured).number });
        let captured = tally.make();
        let of_two =
            pool.at(1).cancel_on(&never.token()).cancel_on(&stop.token()).spawn(move || captured);
        let captured = tally.make();
        let limited = Limited::new(pool.clone(), 1);
        let limited = limited.at(3).cancel_on(&stop.token()).spawn(move || whole(captured).number);
        let captured = tally.make();
        let child = stop.token().child();
        let of_a_child = pool.at(3).cancel_on(&child.token()).spawn(move || whole(captured).number);
        let mut joiner = Step::queued(closure.finished());
        assert_eq!(pool.scheduled().len(), 6, "with the runner of the limited one");
        stop.cancel();
        tally.expect_all_dropped();
        assert_eq!(pool.scheduled().len(), 1, "the runner is left");
        assert_eq!(joiner.wakes(), 1);
        joiner.expect_ready();
        drop(joiner);
        expect_cancelled(closure);
        expect_cancelled(future);
        expect_cancelled(of_two);
        expect_cancelled(limited);
        expect_cancelled(of_a_child);
        assert_eq!((stop.token().registrations(), never.token().registrations()), (0, 0));
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        tally.expect_all_dropped();
    });
}

/// Its own request is withdrawn, and the next in line is let through.
#[test]
fn suspended_futures_are_gone_when_cancel_returns() {
    in_both_modes(|mode| {
        let (pool, tally, stop) = (pool(mode, 1), Tally::new(), CancelSource::new());
        let permits = Arc::new(Semaphore::new(1));
        let suspended = pool.start().cancel_on(&stop.token()).spawn_future({
            let (permits, captured) = (Arc::clone(&permits), tally.make());
            async move {
                let _captured = captured;
                permits.acquire(2).await.unwrap().forget();
            }
        });
        until_queued(&*permits, 1);
        let mut follower = Step::queued(permits.acquire(1));
        let mut joiner = Step::queued(suspended.finished());
        stop.cancel();
        tally.expect_all_dropped();
        assert_eq!((follower.wakes(), joiner.wakes()), (1, 1));
        drop(follower.expect_ready());
        joiner.expect_ready();
        drop(joiner);
        expect_cancelled(suspended);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(permits.available(), 1);
    });
}

/// A future that waits with the token that it was started with does not get to see that it has fired.
#[test]
fn a_future_that_waits_with_its_own_token_is_dropped() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 1), CancelSource::new());
        let (permits, seen) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let waits = pool.start().cancel_on(&stop.token()).spawn_future({
            let (permits, seen, token) = (Arc::clone(&permits), Arc::clone(&seen), stop.token());
            async move {
                let outcome = permits.acquire(1).cancel_on(&token).await;
                seen.fetch_add(1, Ordering::SeqCst);
                outcome.map(drop)
            }
        });
        until_queued(&*permits, 1);
        stop.cancel();
        expect_cancelled(waits);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(seen.load(Ordering::SeqCst), 0);
    });
}

/// F-06
#[test]
fn running_tasks_are_told_and_their_joiners_answered() {
    in_both_modes(|mode| {
        let (pool, tally, stop) = (pool(mode, 2), Tally::new(), CancelSource::new());
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let door = Door::new();
        let work = || {
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            let (token, result, door) = (stop.token(), tally.make(), Arc::clone(&door));
            move || {
                begun.fetch_add(1, Ordering::SeqCst);
                while !token.is_cancelled() {
                    std::thread::yield_now();
                }
                door.pass();
                ended.fetch_add(1, Ordering::SeqCst);
                result
            }
        };
        let closure = pool.start().cancel_on(&stop.token()).spawn(work());
        let polled = work();
        let future = pool.start().cancel_on(&stop.token()).spawn_future(async move { polled() });
        eventually("both run", || begun.load(Ordering::SeqCst) == 2);
        stop.cancel();
        expect_cancelled(closure);
        expect_cancelled(future);
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        door.open();
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(ended.load(Ordering::SeqCst), 2);
        tally.expect_all_dropped();
    });
}

#[test]
fn a_token_that_has_fired_lets_nothing_begin() {
    in_both_modes(|mode| {
        let (pool, tally, stop) = (pool(mode, 1), Tally::new(), CancelSource::new());
        stop.cancel();
        let held = hold(&pool);
        let start = || pool.start().cancel_on(&stop.token());
        let captured = tally.make();
        let closure = start().spawn(move || whole(captured).number);
        let captured = tally.make();
        let future = start().spawn_future(async move { whole(captured).number });
        let captured = tally.make();
        start().execute(move || panic!("{captured:?} ran"));
        tally.expect_all_dropped();
        assert_eq!((pool.scheduled(), pool.metrics().levels[5].queued), (vec![], 0));
        expect_cancelled(closure);
        expect_cancelled(future);
        drop(held);
        // One that never fires is no reason to be cancelled.
        let never = CancelToken::never();
        assert_eq!(pool.start().cancel_on(&never).spawn(|| 1).wait().unwrap(), 1);
    });
}

#[test]
fn panics_of_what_is_dropped_reach_the_canceller_after_all_are_cancelled() {
    struct Bomb(u32);
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(format!("bomb {}", self.0)));
        }
    }
    in_both_modes(|mode| {
        let (pool, tally, stop) = (pool(mode, 1), Tally::new(), CancelSource::new());
        let held = hold(&pool);
        let handles: Vec<Handle<()>> = (0..6)
            .map(|number| {
                let (bomb, captured) = ((number % 2 == 0).then(|| Bomb(number)), tally.make());
                let start = pool.start().cancel_on(&stop.token());
                let work = move || drop((bomb, captured));
                match number {
                    0..4 => start.spawn(work),
                    _ => start.spawn_future(async move { work() }),
                }
            })
            .collect();
        assert_eq!(panic_of(|| stop.cancel()), "bomb 0");
        tally.expect_all_dropped();
        handles.into_iter().for_each(expect_cancelled);
        drop(held);
        assert_eq!(pool.spawn(|| 42).wait().unwrap(), 42);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn a_task_can_fire_its_own_token() {
    in_both_modes(|mode| {
        let (pool, ended) = (pool(mode, 1), Arc::new(AtomicUsize::new(0)));
        let work = |stop: CancelSource| {
            let ended = Arc::clone(&ended);
            move || {
                stop.cancel();
                ended.fetch_add(1, Ordering::SeqCst);
            }
        };
        let stop = CancelSource::new();
        let closure = pool.start().cancel_on(&stop.token()).spawn(work(stop.clone()));
        assert!(matches!(closure.wait(), Err(JoinError::Cancelled)));
        let stop = CancelSource::new();
        let fires = work(stop.clone());
        let future = pool.start().cancel_on(&stop.token()).spawn_future(async move {
            fires();
            pending::<()>().await;
        });
        assert!(matches!(future.wait(), Err(JoinError::Cancelled)));
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_token_keeps_nothing_of_tasks_that_have_ended() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 2), CancelSource::new());
        let token = stop.token();
        let start = || pool.start().cancel_on(&token);
        let held = hold(&pool);
        let kept: Vec<_> = (0..5).map(|_| start().spawn(|| ())).collect();
        assert_eq!(token.registrations(), 5);
        kept[0].cancel();
        assert_eq!(token.registrations(), 4);
        drop((held, kept));
        for _ in 0..3000 {
            start().execute(|| ());
            drop(start().spawn_future(yield_now()));
            start().spawn(|| ()).wait().unwrap();
        }
        pool.scope(|scope| {
            for _ in 0..100 {
                scope.start().cancel_on(&token).execute(|| ());
                drop(scope.start().cancel_on(&token).spawn_future(yield_now()));
            }
        });
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(token.registrations(), 0);
        stop.cancel();
    });
}

/// What is true of every task, whatever the order: it ran, or it was cancelled and never did.
#[test]
fn races_with_a_token_are_settled_when_cancel_returns() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 2), Tally::new());
        let (mut finished, mut cancelled) = (0, 0);
        for round in 0..200 {
            let (stop, ran) = (CancelSource::new(), Arc::new(AtomicUsize::new(0)));
            let begun = Arc::new(AtomicBool::new(false));
            let tasks: Vec<Handle<usize>> = (0..20)
                .map(|number| {
                    let (ran, captured) = (Arc::clone(&ran), tally.make());
                    let begun = Arc::clone(&begun);
                    let start = pool.start().cancel_on(&stop.token());
                    let work = move || {
                        begun.store(true, Ordering::SeqCst);
                        ran.fetch_add(1, Ordering::SeqCst);
                        captured.number
                    };
                    match number % 3 {
                        0 => start.spawn(work),
                        1 => start.spawn_future(async move { work() }),
                        _ => start.spawn_future(async move {
                            yield_now().await;
                            work()
                        }),
                    }
                })
                .collect();
            if round % 2 == 0 {
                eventually("one has begun", || begun.load(Ordering::SeqCst));
            }
            stop.cancel();
            assert!(tasks.iter().all(Handle::is_finished), "a task is left");
            let outcomes: Vec<_> = tasks.into_iter().map(Handle::wait).collect();
            let ok = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            assert!(outcomes.iter().all(|one| matches!(one, Ok(_) | Err(JoinError::Cancelled))));
            assert!(ok <= ran.load(Ordering::SeqCst));
            (finished, cancelled) = (finished + ok, cancelled + 20 - ok);
        }
        println!("{finished} finished, {cancelled} were cancelled");
        pool.shutdown(Shutdown::Drain).wait();
        tally.expect_all_dropped();
    });
}

/// Tasks are started while the token fires, and while the pool ends.
#[test]
fn a_token_that_fires_while_tasks_are_started_misses_none() {
    in_both_modes(|mode| {
        let tally = Tally::new();
        for round in 0..100 {
            let (pool, stop) = (pool(mode, 1), CancelSource::new());
            let starts = std::thread::spawn({
                let (pool, token, tally) = (pool.clone(), stop.token(), tally.clone());
                move || {
                    let mut handles = Vec::new();
                    // Those after the first that finds it fired are refused as well.
                    for after in 0..20 {
                        while after == 0 && !token.is_cancelled() && handles.len() < 1000 {
                            let captured = tally.make();
                            let start = pool.start().cancel_on(&token);
                            handles.push(match handles.len() % 2 {
                                0 => start.spawn(move || drop(captured)),
                                _ => start.spawn_future(async move {
                                    let _captured = captured;
                                    pending::<()>().await;
                                }),
                            });
                        }
                        let captured = tally.make();
                        pool.start().cancel_on(&token).execute(move || drop(captured));
                    }
                    handles
                }
            });
            for _ in 0..round {
                std::thread::yield_now();
            }
            stop.cancel();
            if round % 3 == 0 {
                drop(pool.shutdown(Shutdown::Cancel));
            }
            for handle in starts.join().unwrap() {
                let outcome = handle.timeout(LIMIT).wait();
                assert!(!matches!(outcome, Err(semaforo::WaitError::TimedOut)), "one is left");
            }
            pool.shutdown(Shutdown::Drain).timeout(LIMIT).wait().unwrap();
        }
        tally.expect_all_dropped();
    });
}

#[test]
fn a_scope_waits_for_a_task_that_its_token_has_cancelled() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 1), CancelSource::new());
        let (begun, door) = (AtomicBool::new(false), Door::new());
        let (ended, never) = (AtomicBool::new(false), AtomicUsize::new(0));
        let event = Event::new();
        pool.scope(|scope| {
            let start = || scope.start().cancel_on(&stop.token());
            let suspended = start().spawn_future(async {
                event.happened().await;
                never.fetch_add(1, Ordering::SeqCst);
            });
            until_queued(&event, 1);
            let running = start().spawn(|| {
                begun.store(true, Ordering::SeqCst);
                door.pass();
                ended.store(true, Ordering::SeqCst);
            });
            eventually("it runs", || begun.load(Ordering::SeqCst));
            let queued = start().spawn(|| never.fetch_add(1, Ordering::SeqCst));
            start().execute(|| {
                never.fetch_add(1, Ordering::SeqCst);
            });
            stop.cancel();
            assert_eq!(event.waiters(), 0);
            for cancelled in [suspended.wait().err(), running.wait().err(), queued.wait().err()] {
                assert!(matches!(cancelled, Some(JoinError::Cancelled)));
            }
            assert!(!ended.load(Ordering::SeqCst));
            door.open();
        });
        assert!(ended.load(Ordering::SeqCst), "the scope has waited for it");
        assert_eq!(never.load(Ordering::SeqCst), 0);
    });
}

/// A worker that cancels the last task of a scope goes on for long: the scope does not wait for that.
#[test]
fn a_scope_does_not_wait_for_the_canceller() {
    watched(|| {
        let one = pool(semaforo::tasks::Mode::Stealing, 1);
        let (stop, go, over) = (CancelSource::new(), Arc::new(Event::new()), Door::new());
        let (goes, ends) = (Arc::clone(&go), Arc::clone(&over));
        let fires = stop.clone();
        one.execute(move || {
            goes.happened().wait();
            fires.cancel();
            ends.pass();
        });
        let second = pool(semaforo::tasks::Mode::Stealing, 1);
        let held = hold(&second);
        second.scope(|scope| {
            drop(scope.start().cancel_on(&stop.token()).spawn(|| panic!("it ran")));
            go.set();
        });
        over.open();
        drop(held);
    });
}
