//! Scopes: tasks that borrow.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use crate::support::{
    Door, LONG, Record, SHORT, Step, Tally, eventually, hold, in_both_modes, leaked, panic_of,
    pool, pool_with_spares, until_queued, waker_that, watched,
};
use semaforo::tasks::{JoinError, Mode, Pool, Scope, Shutdown, yield_now};
use semaforo::{CancelSource, Event, WaitError};

#[test]
fn a_scope_waits_for_tasks_that_borrow() {
    in_both_modes(|mode| {
        for threads in [1, 4] {
            let pool = pool(mode, threads);
            let mut numbers: Vec<u64> = (0..1000).collect();
            let sum = AtomicUsize::new(0);
            let length = pool.scope(|scope| {
                for chunk in numbers.chunks_mut(7) {
                    let sum = &sum;
                    scope.execute(move || {
                        chunk.iter_mut().for_each(|number| *number *= 2);
                        sum.fetch_add(chunk.len(), Ordering::SeqCst);
                    });
                }
                1000
            });
            assert_eq!((length, sum.into_inner()), (1000, 1000));
            assert_eq!(numbers.iter().sum::<u64>(), 2 * (0..1000).sum::<u64>());
        }
    });
}

#[test]
fn scoped_handles_yield_what_may_borrow() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let words = ["to".to_owned(), "be".to_owned(), "or not".to_owned()];
        let longest = pool.scope(|scope| {
            let borrowed: Vec<_> = words.iter().map(|word| scope.spawn(|| word.as_str())).collect();
            let words = borrowed.into_iter().map(|word| word.wait().unwrap());
            words.max_by_key(|word| word.len()).unwrap()
        });
        assert_eq!(longest, "or not");
    });
}

/// As the handles of other tasks: after a limit or a token has ended the wait, the handle can be waited on
/// again, by threads and by tasks of the scope.
#[test]
fn a_scoped_handle_that_is_waited_for_by_reference_is_kept() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 2), CancelSource::new());
        stop.cancel();
        let (word, door) = (String::from("tea"), Door::new());
        pool.scope(|scope| {
            let mut task = scope.spawn(|| {
                door.pass();
                word.as_str()
            });
            for _ in 0..3 {
                let late = task.by_ref().timeout(SHORT / 10).wait();
                assert!(matches!(late, Err(WaitError::TimedOut)));
            }
            let past = task.by_ref().deadline(Instant::now()).wait();
            assert!(matches!(past, Err(WaitError::TimedOut)));
            let ended = task.by_ref().cancel_on(&stop.token()).wait();
            assert!(matches!(ended, Err(WaitError::Cancelled)));
            assert!(task.finished().timeout(SHORT / 10).wait().is_err());
            let mut waits = Step::queued(task.by_ref().timeout(LONG));
            door.open();
            eventually("it is woken", || waits.wakes() == 1);
            assert_eq!(waits.expect_ready().unwrap(), "tea");
            drop(waits);
            assert!(panic_of(|| task.by_ref().wait()).contains("after it had yielded the outcome"));
            // In a future of the scope, and without a limit.
            let length = scope.spawn_future(async {
                let mut task = scope.spawn(|| word.len());
                task.finished().await;
                task.by_ref().await.unwrap()
            });
            assert_eq!(length.wait().unwrap(), 3);
        });
    });
}

/// The wait is over, the task is not: the scope still waits for what borrows.
#[test]
fn a_bounded_wait_gives_the_scoped_handle_up_and_the_scope_waits() {
    in_both_modes(|mode| {
        let (pool, stop) = (pool(mode, 1), CancelSource::new());
        stop.cancel();
        let (done, door) = (AtomicUsize::new(0), Door::new());
        pool.scope(|scope| {
            let start = || {
                scope.spawn(|| {
                    door.pass();
                    done.fetch_add(1, Ordering::SeqCst)
                })
            };
            assert!(matches!(start().timeout(SHORT / 10).wait(), Err(WaitError::TimedOut)));
            let now = Instant::now();
            assert!(matches!(start().deadline(now).wait(), Err(WaitError::TimedOut)));
            let ended = start().cancel_on(&stop.token()).wait();
            assert!(matches!(ended, Err(WaitError::Cancelled)));
            let outcome = start().timeout(LONG);
            door.open();
            assert_eq!(outcome.wait().unwrap(), 3);
        });
        assert_eq!(done.into_inner(), 4);
    });
}

/// Whoever learns of a panic by a bounded wait has been told: the scope does not panic as well.
#[test]
fn a_panic_that_is_told_to_a_bounded_wait_is_told() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        pool.scope(|scope| {
            let mut task = scope.spawn(|| panic!("as expected"));
            let outcome: Result<(), _> = task.by_ref().timeout(LONG).wait();
            assert!(matches!(outcome, Err(WaitError::Refused(JoinError::Panicked(_)))));
            let other = scope.spawn(|| panic!("as expected, too"));
            let outcome: Result<(), _> = other.timeout(LONG).wait();
            assert!(matches!(outcome, Err(WaitError::Refused(JoinError::Panicked(_)))));
        });
    });
}

/// A tree of tasks, each of which starts two others in the same scope.
fn grow<'scope>(scope: &'scope Scope<'scope, '_>, count: &'scope AtomicUsize, height: u32) {
    count.fetch_add(1, Ordering::SeqCst);
    if height > 0 {
        scope.execute(move || grow(scope, count, height - 1));
        drop(scope.spawn(move || grow(scope, count, height - 1)));
    }
}

#[test]
fn tasks_start_others_in_their_own_scope() {
    in_both_modes(|mode| {
        for threads in [1, 3] {
            let (pool, count) = (pool(mode, threads), AtomicUsize::new(0));
            pool.scope(|scope| grow(scope, &count, 9));
            assert_eq!(count.load(Ordering::SeqCst), 1023);
            // Where the one who waits runs some of them itself.
            let inside = pool.clone();
            let grown = pool.spawn(move || {
                let count = AtomicUsize::new(0);
                inside.scope(|scope| scope.execute(|| grow(scope, &count, 9)));
                count.into_inner()
            });
            assert_eq!(grown.wait().unwrap(), 1023);
        }
    });
}

/// Scopes in tasks of scopes in tasks ...
fn nest(pool: &Pool, height: u32) -> u64 {
    if height == 0 {
        return 1;
    }
    let (mut left, mut right) = (0, 0);
    pool.scope(|scope| {
        scope.execute(|| left = nest(pool, height - 1));
        scope.execute(|| right = nest(pool, height - 1));
    });
    left + right
}

#[test]
fn scopes_nest() {
    in_both_modes(|mode| {
        for threads in [1, 2, 4] {
            let pool = pool(mode, threads);
            let height = if mode == Mode::Strict { 6 } else { 9 };
            assert_eq!(nest(&pool, height), 1 << height);
            let inside = pool.spawn({
                let pool = pool.clone();
                move || nest(&pool, height)
            });
            assert_eq!(inside.wait().unwrap(), 1 << height);
        }
    });
}

#[test]
fn a_scope_of_one_pool_inside_a_task_of_another() {
    in_both_modes(|mode| {
        let (one, other) = (pool_with_spares(mode, 1), pool_with_spares(mode, 1));
        let sum = one.scope(|outer| {
            let inner = outer.spawn(|| {
                other.scope(|inner| {
                    let back = inner.spawn(|| one.spawn(|| 1).wait().unwrap());
                    back.wait().unwrap() + 1
                })
            });
            inner.wait().unwrap()
        });
        assert_eq!(sum, 2);
    });
}

#[test]
fn a_panic_is_resumed_after_all_have_finished() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let count = AtomicUsize::new(0);
        let said = panic_of(|| {
            pool.scope(|scope| {
                scope.execute(|| resume_unwind(Box::new("a task")));
                for _ in 0..100 {
                    scope.execute(|| {
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        });
        assert_eq!((said.as_str(), count.load(Ordering::SeqCst)), ("a task", 100));
        // The scope's own comes first.
        let said = panic_of(|| {
            pool.scope(|scope| {
                scope.execute(|| resume_unwind(Box::new("a task")));
                scope.execute(|| {
                    count.fetch_add(1, Ordering::SeqCst);
                });
                resume_unwind(Box::new("the scope"))
            })
        });
        assert_eq!((said.as_str(), count.load(Ordering::SeqCst)), ("the scope", 101));
        // One that was joined concerns only the joiner.
        pool.scope(|scope| {
            let task = scope.spawn(|| -> () { resume_unwind(Box::new("joined")) });
            match task.wait() {
                Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), Some("joined")),
                other => panic!("{other:?}"),
            }
        });
        let said = panic_of(|| {
            pool.scope(|scope| drop(scope.spawn(|| -> () { resume_unwind(Box::new("nobody")) })))
        });
        assert!(said.contains("not joined"), "{said}");
    });
}

#[test]
fn panics_of_nested_scopes_travel_outwards() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let said = panic_of(|| {
            pool.scope(|outer| {
                outer.execute(|| {
                    pool.scope(|inner| inner.execute(|| resume_unwind(Box::new("innermost"))));
                });
            });
        });
        assert_eq!(said, "innermost");
    });
}

#[test]
fn everything_that_tasks_of_a_scope_captured_is_gone_when_it_returns() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 3), Tally::new());
        for round in 0..100 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.scope(|scope| {
                    for number in 0..20 {
                        let value = tally.make();
                        let task = scope.spawn(move || {
                            if number == 7 && round % 2 == 0 {
                                resume_unwind(Box::new(value));
                            }
                            value
                        });
                        match number % 3 {
                            0 => drop(task),
                            1 => assert!(task.cancel() || task.is_finished()),
                            _ => drop(task.wait()),
                        }
                    }
                });
            }));
            drop(result);
            tally.expect_all_dropped();
        }
    });
}

#[test]
fn a_scope_waits_for_a_task_that_was_cancelled_while_it_ran() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let (begun, ended, door) = (AtomicUsize::new(0), AtomicUsize::new(0), Door::new());
        thread::scope(|threads| {
            threads.spawn(|| {
                pool.scope(|scope| {
                    let running = scope.spawn(|| {
                        begun.store(1, Ordering::SeqCst);
                        door.pass();
                        ended.store(1, Ordering::SeqCst);
                    });
                    eventually("it runs", || begun.load(Ordering::SeqCst) == 1);
                    assert!(running.cancel());
                    assert!(matches!(running.wait(), Err(JoinError::Cancelled)));
                    begun.store(2, Ordering::SeqCst);
                });
                assert_eq!(ended.load(Ordering::SeqCst), 1);
            });
            eventually("the joiner is told", || begun.load(Ordering::SeqCst) == 2);
            assert_eq!(ended.load(Ordering::SeqCst), 0);
            door.open();
        });
    });
}

#[test]
fn a_scope_has_a_level() {
    watched(|| {
        let pool = pool(Mode::Strict, 1);
        let begun = Record::new();
        let held = Mutex::new(Some(hold(&pool)));
        pool.scope(|scope| {
            for level in [7, 2, 5] {
                scope.set_level(level);
                let begun = begun.clone();
                scope.execute(move || begun.note(level));
            }
            drop(held.lock().unwrap().take());
            assert!(panic_of(|| scope.set_level(10)).contains("no level 10"));
            assert_eq!(scope.pool().levels(), 10);
        });
        assert_eq!(begun.entries(), [2, 5, 7]);
    });
}

#[test]
fn a_scope_on_a_pool_that_was_shut_down_says_so() {
    in_both_modes(|mode| {
        for how in [Shutdown::Drain, Shutdown::Cancel] {
            let (pool, tally) = (pool(mode, 1), Tally::new());
            pool.shutdown(how).wait();
            let ran = AtomicUsize::new(0);
            // Whoever has a handle learns it from that.
            pool.scope(|scope| {
                let (value, ran) = (tally.make(), &ran);
                let task = scope.spawn(|| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    value
                });
                assert!(matches!(task.wait(), Err(JoinError::ShutDown)));
                let value = tally.make();
                let future = scope.spawn_future(async move {
                    ran.fetch_add(1, Ordering::SeqCst);
                    drop(value);
                });
                assert!(matches!(future.wait(), Err(JoinError::ShutDown)));
            });
            // Otherwise from the scope.
            for labelled in [false, true] {
                let said = panic_of(|| {
                    pool.scope(|scope| {
                        let (value, ran) = (tally.make(), &ran);
                        let work = move || {
                            ran.fetch_add(1, Ordering::SeqCst);
                            drop(value);
                        };
                        match labelled {
                            false => scope.execute(work),
                            true => scope.at(1).label("never").execute(work),
                        }
                    });
                });
                assert!(said.contains("never begun: the pool was shut down"), "{said}");
            }
            assert_eq!(ran.load(Ordering::SeqCst), 0);
            tally.expect_all_dropped();
        }
    });
}

/// Whoever cancels the tasks of a scope has counted them out when that returns, also if it is a worker
/// with more to do.
#[test]
fn a_scope_ends_when_its_pool_is_cancelled_by_a_busy_worker() {
    in_both_modes(|mode| {
        let (short, busy) = (pool(mode, 1), pool(mode, 1));
        let (door, ended) = (Door::new(), Door::new());
        let held = hold(&short);
        thread::scope(|threads| {
            threads.spawn(|| {
                let said = panic_of(|| {
                    short.scope(|scope| {
                        scope.execute(|| panic!("this was cancelled"));
                        busy.execute({
                            let (short, door) = (short.clone(), Arc::clone(&door));
                            move || {
                                drop(short.shutdown(Shutdown::Cancel));
                                door.pass();
                            }
                        });
                    });
                });
                assert!(said.contains("the pool was shut down"), "{said}");
                ended.open();
            });
            let (send, receive) = std::sync::mpsc::channel();
            let ended = &ended;
            threads.spawn(move || {
                ended.pass();
                send.send(()).unwrap();
            });
            let received = receive.recv_timeout(crate::support::LIMIT / 2);
            door.open();
            assert!(received.is_ok(), "the scope did not end");
        });
        drop(held);
    });
}

/// Futures that borrow, and are suspended in between.
#[test]
fn futures_of_a_scope_borrow_and_are_waited_for() {
    in_both_modes(|mode| {
        for threads in [1, 2] {
            let (pool, tally, event) = (pool(mode, threads), Tally::new(), Event::new());
            let done = AtomicUsize::new(0);
            let words = ["to".to_string(), "be".to_string(), "or not".to_string()];
            let total = pool.scope(|scope| {
                let lengths = words.each_ref().map(|word| {
                    let value = tally.make();
                    let event = &event;
                    scope.spawn_future(async move {
                        let _value = value;
                        event.happened().await;
                        yield_now().await;
                        word.as_str()
                    })
                });
                // Not joined, and waited for all the same.
                drop(scope.spawn_future(async {
                    event.happened().await;
                    yield_now().await;
                    done.fetch_add(1, Ordering::SeqCst);
                }));
                until_queued(&event, 4);
                event.set();
                lengths.into_iter().map(|word| word.wait().unwrap().len()).sum::<usize>()
            });
            assert_eq!((total, done.load(Ordering::SeqCst)), (10, 1));
            tally.expect_all_dropped();
            // From a worker, which helps itself.
            let inside = pool.clone();
            let sum = pool.spawn(move || {
                let (numbers, sum) = ([1, 2, 3], AtomicUsize::new(0));
                inside.scope(|scope| {
                    for number in &numbers {
                        let sum = &sum;
                        drop(scope.spawn_future(async move {
                            yield_now().await;
                            sum.fetch_add(*number, Ordering::SeqCst);
                        }));
                    }
                });
                sum.into_inner()
            });
            assert_eq!(sum.wait().unwrap(), 6);
        }
    });
}

#[test]
fn panics_of_futures_of_a_scope_are_told() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let said = panic_of(|| {
            pool.scope(|scope| drop(scope.spawn_future(async { resume_unwind(Box::new("no")) })));
        });
        assert_eq!(said, "a task of the scope panicked, and was not joined");
        pool.scope(|scope| {
            let future = scope.spawn_future(async { resume_unwind(Box::new("joined")) });
            match future.wait() {
                Err(JoinError::Panicked(panic)) => {
                    assert_eq!(panic_of(|| panic.resume()), "joined")
                }
                other => panic!("{other:?}"),
            }
            let cancelled = scope.spawn_future(std::future::pending::<()>());
            assert!(cancelled.cancel());
            assert!(matches!(cancelled.wait(), Err(JoinError::Cancelled)));
        });
    });
}

/// Futures of a scope await its tasks, calls and futures alike, with one thread: what they await runs
/// meanwhile. A panic that is awaited is told.
#[test]
fn futures_of_a_scope_await_its_tasks() {
    in_both_modes(|mode| {
        let (pool, tally, door) = (pool(mode, 1), Tally::new(), Event::new());
        let word = String::from("tea");
        let (sum, cancelled) = pool.scope(|scope| {
            let suspended = scope.spawn_future(async {
                door.happened().await;
                word.len()
            });
            let (value, other) = (tally.make(), tally.make());
            let cancelled = scope.spawn_future(async move {
                let _value = value;
                std::future::pending::<()>().await;
            });
            let waits = scope.spawn_future(async {
                let called = scope.spawn(|| (other, word.len())).await.unwrap().1;
                let panicked = scope.spawn(|| -> () { panic!("told") }).await;
                assert!(matches!(panicked, Err(JoinError::Panicked(_))));
                scope.execute(|| door.set());
                called + suspended.await.unwrap()
            });
            let sum = waits.wait().unwrap();
            let cancels = scope.spawn_future(async {
                assert!(cancelled.cancel());
                cancelled.await
            });
            (sum, cancels.wait().unwrap())
        });
        assert_eq!(sum, 6);
        assert!(matches!(cancelled, Err(JoinError::Cancelled)));
        tally.expect_all_dropped();
    });
}

#[test]
fn tasks_of_a_scope_have_levels_and_labels() {
    in_both_modes(|mode| {
        let (pool, begun) = (pool(mode, 1), Record::new());
        let held = hold(&pool);
        pool.scope(|scope| {
            for level in [7, 0, 3] {
                let begun = begun.clone();
                let start = scope.at(level).fair().label(format!("number {level}"));
                start.execute(move || begun.note(level));
            }
            let listed = pool.scheduled();
            let labels: Vec<_> = listed.iter().map(|task| task.label.as_deref()).collect();
            assert_eq!(labels, [Some("number 0"), Some("number 3"), Some("number 7")]);
            assert!(panic_of(|| drop(scope.at(10))).contains("there is no level 10"));
            drop(held);
        });
        assert_eq!(begun.entries(), [0, 3, 7]);
    });
}

/// A future that ends because another task drops its last waker has left its scope at once: that task may
/// go on for long.
#[test]
fn a_scope_does_not_wait_for_a_task_that_drops_the_last_waker() {
    watched(|| {
        let pool = pool(Mode::Stealing, 2);
        let (kept, over) = (Arc::new(Mutex::new(None::<Waker>)), Door::new());
        let (slot, ends, metrics) = (Arc::clone(&kept), Arc::clone(&over), pool.clone());
        let other = pool.spawn(move || {
            eventually("the future has left its waker", || slot.lock().unwrap().is_some());
            eventually("its poll has returned", || metrics.metrics().running == 1);
            let waker = slot.lock().unwrap().take();
            drop(waker);
            ends.pass();
        });
        pool.scope(|scope| {
            let kept = Arc::clone(&kept);
            drop(scope.spawn_future(poll_fn(move |context| {
                *kept.lock().unwrap() = Some(context.waker().clone());
                Poll::<()>::Pending
            })));
        });
        over.open();
        other.wait().unwrap();
    });
}

/// Runs something when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What is dropped on the owner's thread while the scope ends may start another task of it.
#[test]
fn a_task_that_is_started_when_its_scope_ends_is_waited_for() {
    watched(|| {
        let (pool, ran) = (leaked(pool(Mode::Stealing, 1)), leaked(AtomicUsize::new(0)));
        let (stop, owes) = (CancelSource::new(), leaked(Event::new()));
        let (fires, held) = (stop.clone(), Mutex::new(Some(hold(pool))));
        let mut owed = Step::new(owes.happened());
        let fires = waker_that(move || {
            fires.cancel();
            drop(held.lock().unwrap().take());
        });
        assert!(owed.poll_with(&fires).is_pending());
        let token = stop.token();
        let has_a_scope = waker_that(move || {
            // A wake-up that is made when this waker sleeps: at the end of the scope.
            owes.set();
            pool.scope(|scope| {
                let starts = OnDrop(|| scope.execute(|| _ = ran.fetch_add(1, Ordering::SeqCst)));
                scope.start().cancel_on(&token).execute(move || drop(starts));
            });
            ran.fetch_add(10, Ordering::SeqCst);
        });
        let begins = Event::new();
        let mut first = Step::new(begins.happened());
        assert!(first.poll_with(&has_a_scope).is_pending());
        begins.set();
        assert_eq!(ran.load(Ordering::SeqCst), 11);
    });
}
