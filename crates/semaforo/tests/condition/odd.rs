//! Programs that are odd but legal: leaked waits, conditions and locks that are gone or elsewhere,
//! wakers that panic or meddle, long chains.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::time::Duration;

use semaforo::{
    CancelSource, Condition, Mutex, OwnerKey, ReentrantCondition, ReentrantLock, RwLock,
    WriteCondition,
};

use crate::support::{
    InlineTask, LONG, Line, Step, Waiter, WakerOf, eventually, in_every_arrangement,
    in_its_own_process, leak, leaked, let_the_timer_pass, panic_of, panicking_waker, until_queued,
};

const PATIENCE: Duration = Duration::from_millis(2);

/// Leaked in the condition, in the lock's line, and with the lock granted; then the condition and the
/// lock are dropped, and then the limits come.
#[test]
fn leaked_waits_are_harmless() {
    for condition_first in [false, true] {
        let stop = CancelSource::new();
        let token = stop.token();
        for signals in 0..3 {
            let (lock, condition) = (Mutex::new(String::from("kept")), Condition::new());
            lock.set_patience(PATIENCE);
            let request = || condition.wait(lock.lock().wait());
            leak(request());
            leak(request().cancel_on(&token));
            leak(request().timeout(Duration::from_millis(1)));
            leak(request().timeout(LONG).cancel_on(&token));
            leak(condition.wait_while(lock.lock().wait(), |_| true).cancel_on(&token));
            let guard = lock.lock().wait();
            assert!(condition.signal_many(&guard, signals) <= 5);
            // Behind the signalled ones, if there are any, for as long as their turns last.
            drop(guard);
            assert_eq!(*lock.lock().wait(), "kept");
            if condition_first {
                drop(condition);
                let moved = Box::new(lock);
                drop(moved.lock().wait());
            } else {
                drop(lock);
                drop(Box::new(condition));
            }
        }
        // Reuses the memory, if it was wrongly given back.
        let others: Vec<_> =
            (0..100).map(|value| (Mutex::new(value), Condition::<_>::new())).collect();
        let_the_timer_pass();
        stop.cancel();
        let_the_timer_pass();
        assert_eq!(token.registrations(), 0);
        for (value, (lock, condition)) in others.iter().enumerate() {
            let guard = lock.lock().wait();
            assert_eq!((*guard, condition.broadcast(&guard)), (value, 0));
        }
    }
}

/// Leaked urgent signals, and waits that were urgently signalled.
#[test]
fn leaked_urgent_signals_are_harmless() {
    let stop = CancelSource::new();
    let token = stop.token();
    for forget_both in [false, true] {
        let (lock, condition) = (Mutex::new(()), Condition::new());
        lock.set_patience(PATIENCE);
        leak(condition.wait(lock.lock().wait()).cancel_on(&token));
        if forget_both {
            leak(condition.signal_urgent(lock.lock().wait()).cancel_on(&token));
        } else {
            drop(condition.signal_urgent(lock.lock().wait()).wait());
        }
        drop(lock.lock().wait());
        drop((lock, condition));
    }
    let_the_timer_pass();
    stop.cancel();
    let_the_timer_pass();
    assert_eq!(token.registrations(), 0);
}

#[test]
fn leaked_waits_of_every_lock_are_harmless() {
    let stop = CancelSource::new();
    let token = stop.token();
    let (lock, condition) = (RwLock::new(()), WriteCondition::new());
    leak(condition.wait(lock.write().wait()).cancel_on(&token));
    drop((lock, condition));
    let (lock, condition) = (ReentrantLock::new(()), ReentrantCondition::new());
    let outer = lock.lock_as(&OwnerKey::new()).wait().unwrap();
    leak(condition.wait(outer).cancel_on(&token));
    let (outer, inner) = (lock.lock().wait().unwrap(), lock.lock().wait().unwrap());
    leak(condition.wait(inner).cancel_on(&token));
    drop(outer);
    drop((lock, condition));
    let lock = Arc::new(Mutex::new(()));
    let condition = Condition::new();
    leak(condition.wait(lock.lock_owned().wait()).cancel_on(&token));
    drop((lock, condition));
    stop.cancel();
    let_the_timer_pass();
    assert_eq!(token.registrations(), 0);
}

/// A wait has what it needs: its lock, if the guard is an owned one, and its condition.
#[test]
fn the_condition_and_the_handles_may_go_before_the_wait() {
    let lock = Arc::new(Mutex::new(1));
    let condition = Condition::new();
    let stop = CancelSource::new();
    let mut waiting =
        Step::queued(condition.wait(lock.lock_owned().wait()).cancel_on(&stop.token()));
    drop(condition);
    drop(lock);
    waiting.expect_pending();
    stop.cancel();
    assert_eq!(*waiting.expect_ready().unwrap_err().guard, 1);
}

/// Everything may be elsewhere between two waits.
#[test]
fn locks_and_conditions_may_be_moved() {
    let (mut lock, mut condition) = (Mutex::new(0), Condition::new());
    for round in 0..3 {
        let mut waiting = Step::queued(condition.wait(lock.lock().wait()));
        assert!(condition.signal(&lock.lock().wait()));
        let mut guard = waiting.expect_ready();
        assert_eq!(*guard, round);
        *guard += 1;
        drop(guard);
        drop(waiting);
        let (elsewhere, also) = (Box::new(lock), Box::new(condition));
        (lock, condition) = (*elsewhere, *also);
    }
    assert_eq!(lock.into_inner(), 3);
}

#[test]
fn the_value_may_be_unsized() {
    let lock: Arc<Mutex<[u8]>> = Arc::new(Mutex::new([1, 2, 3]));
    let condition = Condition::new();
    let mut waiting = Step::queued(condition.wait_while(lock.lock().wait(), |value| value[0] == 1));
    let mut guard = lock.lock_owned().wait();
    guard.reverse();
    assert!(condition.signal(&guard));
    drop(guard);
    assert_eq!(*waiting.expect_ready(), [3, 2, 1]);
}

static LOCK: Mutex<u32> = Mutex::new(0);
static CHANGED: Condition = Condition::new();

#[test]
fn a_condition_can_be_a_static() {
    in_every_arrangement(|arrangement| {
        let waiter =
            Line::new(arrangement, &CHANGED).enter_then(CHANGED.wait(LOCK.lock().wait()), drop);
        assert!(CHANGED.signal(&LOCK.lock().wait()));
        waiter.join();
    });
}

#[test]
fn debugging_shows_who_waits() {
    let (lock, condition) = (Mutex::new(0), Condition::<_>::default());
    assert!(format!("{condition:?}").contains("waiters: 0"));
    let waiting = Step::queued(condition.wait(lock.lock().wait()));
    assert!(format!("{condition:?}").contains("waiters: 1"));
    let while_zero = condition.wait_while(lock.lock().wait(), |value| *value == 0);
    assert!(format!("{while_zero:?}").contains("waiters: 1"));
    drop(waiting);
    drop(while_zero);
    let ended = condition.wait(lock.lock().wait()).timeout(Duration::ZERO).wait().unwrap_err();
    assert_eq!(ended.to_string(), "timed out while waiting");
    assert!(format!("{ended:?}").contains("TimedOut"));
}

/// Promise 5: the lock is passed on to a task whose waker panics.
#[test]
fn a_guard_that_wakes_a_panicking_waker_is_given_back() {
    let (lock, condition) = (Mutex::new(()), Condition::new());
    let mut panics = Step::panicking(condition.wait(lock.lock().wait()));
    let mut next = Step::queued(condition.wait(lock.lock().wait()));
    let guard = lock.lock().wait();
    assert_eq!(condition.broadcast(&guard), 2);
    assert_eq!(panic_of(|| drop(guard)), "the waker panicked");
    drop(panics.expect_ready());
    drop(next.expect_ready());
    assert!(!lock.is_locked());
}

/// A wait gives the lock to somebody whose waker panics: a task still waits, and can be polled again.
#[test]
fn a_poll_that_wakes_a_panicking_waker_still_waits() {
    let (lock, condition) = (Mutex::new(()), Condition::new());
    let guard = lock.lock().wait();
    let mut panics = Step::panicking(lock.lock());
    let mut waiting = Step::new(condition.wait(guard));
    assert_eq!(panic_of(|| waiting.poll().is_ready()), "the waker panicked");
    assert_eq!(condition.waiters(), 1);
    waiting.expect_pending();
    let guard = panics.expect_ready();
    assert!(condition.signal(&guard));
    drop(guard);
    drop(waiting.expect_ready());
    assert!(!lock.is_locked());
}

/// The same for a thread, which leaves the condition with the panic.
#[test]
fn a_wait_that_wakes_a_panicking_waker_leaves_the_condition() {
    for urgently in [false, true] {
        let (lock, condition) = (Mutex::new(()), Condition::new());
        let mut panics: Step<_>;
        let mut other = Step::new(condition.wait(lock.lock().wait()));
        if urgently {
            assert!(other.poll_with(&panicking_waker()).is_pending());
            let signal = condition.signal_urgent(lock.lock().wait());
            assert_eq!(panic_of(|| drop(signal.wait())), "the waker panicked");
        } else {
            other.expect_pending();
            let guard = lock.lock().wait();
            panics = Step::new(lock.lock());
            assert!(panics.poll_with(&panicking_waker()).is_pending());
            assert_eq!(panic_of(|| drop(condition.wait(guard).wait())), "the waker panicked");
            let guard = panics.expect_ready();
            assert_eq!((condition.waiters(), lock.waiters()), (1, 0));
            assert!(condition.signal(&guard));
        }
        drop(other.expect_ready());
        assert_eq!((condition.waiters(), lock.waiters(), lock.is_locked()), (0, 0, false));
    }
}

/// a token ends 33 waits, and the first of them panics.
#[test]
fn a_panicking_waker_costs_nobody_else_the_end_of_its_wait() {
    let (lock, condition) = (Mutex::new(()), Condition::new());
    let stop = CancelSource::new();
    let token = stop.token();
    let mut waiters: Vec<_> = (0..33)
        .map(|number| {
            let mut step = Step::new(condition.wait(lock.lock().wait()).cancel_on(&token));
            let waker = if number == 0 { panicking_waker() } else { Waker::noop().clone() };
            assert!(step.poll_with(&waker).is_pending());
            step
        })
        .collect();
    assert_eq!(panic_of(|| stop.cancel()), "the waker panicked");
    for waiter in &mut waiters {
        assert!(waiter.expect_ready().is_err());
    }
    assert_eq!((condition.waiters(), lock.waiters(), lock.is_locked()), (0, 0, false));
}

/// Promise 5: whatever is done to a waker, it may use the lock and the condition.
#[test]
fn a_waker_may_use_the_lock_and_the_condition() {
    Waiter::on_a_thread(|| {
        let (lock, condition) = (leaked(Mutex::new(0)), leaked(Condition::new()));
        lock.set_patience(PATIENCE);
        let stop = CancelSource::new();
        let meddle = move || {
            let _ = format!("{lock:?} {condition:?}");
            if let Some(guard) = lock.try_lock() {
                condition.signal_many(&guard, 0);
                condition.least_priority(&guard);
                drop(Step::new(condition.wait(guard)).poll_with(Waker::noop()));
            }
            let _ = lock.lock().timeout(Duration::ZERO).wait();
        };
        for way in 0..4 {
            let waker = WakerOf(meddle, meddle, meddle).into_waker();
            let request = condition.wait(lock.lock().wait()).timeout(LONG);
            let mut step = Step::new(request.cancel_on(&stop.token()));
            assert!(step.poll_with(&waker).is_pending());
            assert!(step.poll_with(&waker.clone()).is_pending());
            match way {
                0 => assert!(condition.signal(&lock.lock().wait())),
                1 => assert_eq!(condition.broadcast(&lock.lock().wait()), 1),
                2 => drop(Step::new(condition.signal_urgent(lock.lock().wait())).poll()),
                _ => stop.cancel(),
            }
            drop(waker);
            drop(step.expect_ready());
            assert_eq!((condition.waiters(), lock.is_locked()), (0, false));
        }
    })
    .join();
}

/// each signals the next as soon as it is signalled.
#[test]
fn ten_thousand_chained_signals_do_not_grow_the_stack() {
    in_its_own_process(|| {
        const CHAIN: usize = 10_000;
        let (lock, condition) = (leaked(Mutex::new(0)), leaked(Condition::new()));
        let deepest = Arc::new(AtomicUsize::new(0));
        for _ in 0..CHAIN {
            InlineTask::start(&deepest, async {
                let mut guard = condition.wait(lock.lock().await).await;
                *guard += 1;
                condition.signal(&guard);
            });
        }
        assert!(condition.signal(&lock.lock().wait()));
        assert_eq!(*lock.lock().wait(), CHAIN);
        assert_eq!(deepest.load(SeqCst), 1);
        for _ in 0..CHAIN {
            InlineTask::start(&deepest, async {
                *condition.wait(lock.lock().await).await += 1;
            });
        }
        assert_eq!(condition.broadcast(&lock.lock().wait()), CHAIN);
        assert_eq!((*lock.lock().wait(), deepest.load(SeqCst)), (2 * CHAIN, 1));
    });
}

/// Promise 7: leaving from the middle of many does not take longer the more there are.
#[test]
fn leaving_from_among_many_is_quick() {
    let (lock, condition) = (Mutex::new(()), Condition::new());
    let mut waiters: Vec<_> =
        (0..20_000).map(|_| Some(Step::queued(condition.wait(lock.lock().wait())))).collect();
    for number in (0..20_000).map(|number| number * 7919 % 20_000) {
        drop(waiters[number].take());
    }
    assert_eq!((condition.waiters(), lock.is_locked()), (0, false));
}

/// C-16 on the other side: a wait that timed out while its lock is held for long.
#[test]
fn a_thread_whose_time_is_up_sleeps_until_it_has_the_lock() {
    let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
    let waiter = Waiter::on_a_thread(|| {
        let guard = lock.lock().wait();
        until_queued(lock, 1);
        condition.wait(guard).timeout(PATIENCE).wait().unwrap_err().why
    });
    eventually("the waiter has the lock", || lock.is_locked());
    // Handed over by the wait itself: the lock is held before the time is up, however short that is.
    let guard = lock.lock().wait();
    eventually("its time is up", || lock.waiters() == 1);
    assert!(!waiter.is_done());
    drop(guard);
    assert_eq!(waiter.join(), semaforo::WaitError::TimedOut);
}
