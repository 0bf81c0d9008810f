//! Tasks that are cancelled: before they begin, while they run, while they are suspended, by token.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use crate::support::{
    Counted, Door, Step, Tally, eventually, hold, in_both_modes, panic_of, pool, watched,
};
use semaforo::tasks::{Handle, JoinError, Pool, Shutdown, Spawn, yield_now};
use semaforo::{CancelSource, Event};

/// Has a closure capture all of a value, and not a field of it.
fn whole(value: Counted) -> Counted {
    value
}

#[track_caller]
fn expect_cancelled<T: std::fmt::Debug>(handle: Handle<T>) {
    assert!(handle.is_finished());
    match handle.wait() {
        Err(JoinError::Cancelled) => (),
        other => panic!("not cancelled: {other:?}"),
    }
}

#[test]
fn a_task_that_is_cancelled_before_it_begins_never_does() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let ran = Arc::new(AtomicUsize::new(0));
        let held = hold(&pool);
        let (captured, counts) = (tally.make(), Arc::clone(&ran));
        let closure = pool.spawn(move || {
            let _captured = captured;
            counts.fetch_add(1, Ordering::SeqCst);
        });
        let (captured, counts) = (tally.make(), Arc::clone(&ran));
        let future = pool.spawn_future(async move {
            let _captured = captured;
            counts.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(tally.dropped(), []);
        assert!(closure.cancel());
        assert_eq!(tally.dropped(), [0], "what it had captured is dropped at once");
        assert!(future.cancel());
        tally.expect_all_dropped();
        assert!(!closure.cancel() && !future.cancel(), "there is nothing left to cancel");
        expect_cancelled(closure);
        expect_cancelled(future);
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        tally.expect_all_dropped();
    });
}

#[test]
fn a_child_that_is_cancelled_before_it_begins_never_does() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let parent = pool.spawn({
            let pool = pool.clone();
            move || {
                let ran = Arc::new(AtomicBool::new(false));
                let told = Arc::clone(&ran);
                let child = pool.spawn(move || told.store(true, Ordering::SeqCst));
                assert!(child.cancel());
                expect_cancelled(child);
                ran
            }
        });
        let ran = parent.wait().unwrap();
        pool.shutdown(Shutdown::Drain).wait();
        assert!(!ran.load(Ordering::SeqCst));
    });
}

/// F-06
#[test]
fn a_task_that_is_cancelled_while_it_runs_goes_on_and_its_joiner_does_not_wait() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let (begun, door) = (Arc::new(AtomicBool::new(false)), Door::new());
        let ended = Arc::new(AtomicBool::new(false));
        let running = pool.spawn({
            let (begun, door, ended) = (Arc::clone(&begun), Arc::clone(&door), Arc::clone(&ended));
            let result = tally.make();
            move || {
                begun.store(true, Ordering::SeqCst);
                door.pass();
                ended.store(true, Ordering::SeqCst);
                result
            }
        });
        eventually("it runs", || begun.load(Ordering::SeqCst));
        let mut joiner = Step::queued(running.finished());
        assert!(running.cancel());
        assert_eq!(joiner.wakes(), 1);
        joiner.expect_ready();
        drop(joiner);
        expect_cancelled(running);
        assert!(!ended.load(Ordering::SeqCst));
        assert_eq!(tally.dropped(), []);
        door.open();
        pool.shutdown(Shutdown::Drain).wait();
        assert!(ended.load(Ordering::SeqCst));
        tally.expect_all_dropped();
    });
}

#[test]
fn a_future_that_is_cancelled_while_it_is_polled_is_dropped_after_that() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let (begun, door, polls) =
            (Arc::new(AtomicBool::new(false)), Door::new(), Arc::new(AtomicUsize::new(0)));
        let running = pool.spawn_future({
            let (begun, door, polls) = (Arc::clone(&begun), Arc::clone(&door), Arc::clone(&polls));
            let captured = tally.make();
            poll_fn(move |context| {
                let _captured = &captured;
                polls.fetch_add(1, Ordering::SeqCst);
                begun.store(true, Ordering::SeqCst);
                door.pass();
                context.waker().wake_by_ref();
                Poll::<()>::Pending
            })
        });
        eventually("it is polled", || begun.load(Ordering::SeqCst));
        assert!(running.cancel());
        assert_eq!(tally.dropped(), []);
        expect_cancelled(running);
        door.open();
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        tally.expect_all_dropped();
    });
}

#[test]
fn a_future_that_is_suspended_is_dropped_when_it_is_cancelled() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        let event = Arc::new(Event::new());
        let suspended = pool.spawn_future({
            let (event, captured) = (Arc::clone(&event), tally.make());
            async move {
                let _captured = captured;
                event.happened().await;
            }
        });
        crate::support::until_queued(&*event, 1);
        assert!(suspended.cancel());
        tally.expect_all_dropped();
        assert_eq!(event.waiters(), 0);
        expect_cancelled(suspended);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn a_task_whose_token_has_fired_does_not_begin() {
    in_both_modes(|mode| {
        let (pool, tally, stop) = (pool(mode, 1), Tally::new(), CancelSource::new());
        let never = CancelSource::new();
        let held = hold(&pool);
        let token = stop.token();
        let captured = tally.make();
        let closure = pool.at(2).cancel_on(&token).spawn(move || whole(captured).number);
        let captured = tally.make();
        let future = pool
            .at(3)
            .cancel_on(&token)
            .cancel_on(&never.token())
            .spawn_future(async move { whole(captured).number });
        let captured = tally.make();
        pool.at(3).cancel_on(&token).execute(move || panic!("{captured:?} ran"));
        let captured = tally.make();
        let other = pool.at(3).cancel_on(&never.token()).spawn(move || whole(captured).number);
        stop.cancel();
        drop(held);
        assert_eq!(other.wait().unwrap(), 3);
        assert!(matches!(closure.wait(), Err(JoinError::Cancelled)));
        assert!(matches!(future.wait(), Err(JoinError::Cancelled)));
        pool.shutdown(Shutdown::Drain).wait();
        tally.expect_all_dropped();
    });
}

#[test]
fn a_future_is_not_polled_after_its_token_has_fired() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 1), CancelSource::new());
        let polls = Arc::new(AtomicUsize::new(0));
        let restless = pool.start().cancel_on(&stop.token()).spawn_future({
            let polls = Arc::clone(&polls);
            async move {
                loop {
                    polls.fetch_add(1, Ordering::SeqCst);
                    yield_now().await;
                }
            }
        });
        eventually("it is polled", || polls.load(Ordering::SeqCst) > 10);
        stop.cancel();
        assert!(matches!(restless.wait(), Err(JoinError::Cancelled)));
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn a_task_with_a_token_runs_if_that_does_not_fire() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 1), CancelSource::new());
        assert_eq!(pool.start().cancel_on(&stop.token()).spawn(|| 1).wait().unwrap(), 1);
        let future = pool.start().cancel_on(&stop.token()).spawn_future(async { 2 });
        assert_eq!(future.wait().unwrap(), 2);
    });
}

/// What was captured may itself cancel, start and drop tasks.
#[test]
fn what_is_dropped_by_a_cancellation_may_use_the_pool() {
    struct Starts(Pool, Option<Handle<()>>, Arc<AtomicUsize>);
    impl Drop for Starts {
        fn drop(&mut self) {
            self.1.take().unwrap().cancel();
            let count = Arc::clone(&self.2);
            self.0.execute(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
    }
    in_both_modes(|mode| {
        let (pool, count) = (pool(mode, 1), Arc::new(AtomicUsize::new(0)));
        let held = hold(&pool);
        let other = pool.spawn_future(pending());
        let starts = Starts(pool.clone(), Some(other), Arc::clone(&count));
        let first = pool.spawn(move || drop(starts));
        assert!(first.cancel());
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_panic_of_what_is_dropped_reaches_the_canceller_and_the_joiner_is_answered() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the bomb");
        }
    }
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = hold(&pool);
        let bomb = Bomb;
        let closure = pool.spawn(move || std::mem::forget(bomb));
        let bomb = Bomb;
        let future = pool.spawn_future(async move { std::mem::forget(bomb) });
        assert_eq!(panic_of(|| closure.cancel()), "the bomb");
        assert_eq!(panic_of(|| future.cancel()), "the bomb");
        expect_cancelled(closure);
        expect_cancelled(future);
        // And so it is with a token.
        let (stop, bomb) = (CancelSource::new(), Bomb);
        let late = pool.start().cancel_on(&stop.token()).spawn(move || std::mem::forget(bomb));
        assert_eq!(panic_of(|| stop.cancel()), "the bomb");
        expect_cancelled(late);
        drop(held);
        assert_eq!(pool.spawn(|| 42).wait().unwrap(), 42);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

/// F-03
#[test]
fn a_waiter_that_gives_up_does_not_cancel_the_task() {
    in_both_modes(|mode| {
        let (pool, ran) = (pool(mode, 1), Arc::new(AtomicBool::new(false)));
        let stop = CancelSource::new();
        let held = hold(&pool);
        let told = Arc::clone(&ran);
        let task = pool.spawn(move || told.store(true, Ordering::SeqCst));
        assert!(task.finished().timeout(crate::support::SHORT).wait().is_err());
        stop.cancel();
        assert!(task.cancel_on(&stop.token()).wait().is_err());
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert!(ran.load(Ordering::SeqCst));
    });
}

#[test]
fn a_task_can_cancel_itself_through_its_handle() {
    watched(|| {
        let pool = Pool::builder().threads(1).build().unwrap();
        let slot = Arc::new(std::sync::Mutex::new(None::<Handle<()>>));
        let (own, ended) = (Arc::clone(&slot), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&ended);
        let held = hold(&pool);
        *slot.lock().unwrap() = Some(pool.spawn(move || {
            let own = own.lock().unwrap().take().unwrap();
            assert!(own.cancel());
            expect_cancelled(own);
            told.store(true, Ordering::SeqCst);
        }));
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert!(ended.load(Ordering::SeqCst));
    });
}
