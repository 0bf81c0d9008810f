//! Limits and tokens that must not be lost, watchdogs that must be armed, refusals that must stand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    SHORT, Step, ThreadState, eventually, held_up, in_its_own_process, leaked, panic_of, waker_that,
};
use semaforo::{CancelSource, OwnerKey, ReentrantLock, Semaphore, TooManyHolds, WaitError};

/// The grant won when the limit passed; then it was taken back. The limit still holds.
#[test]
fn a_limit_that_passed_while_granted_still_holds_when_the_grant_is_taken_back() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(Duration::from_millis(200));
    let mut first = Step::queued(semaphore.acquire(1).timeout(Duration::from_millis(30)));
    let mut second = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    eventually("the grant is passed on", || second.wakes() == 1);
    let held = second.expect_ready().unwrap();
    // Half the patience, at least, is longer than the limit.
    assert_eq!(first.expect_ready().unwrap_err(), WaitError::TimedOut);
    drop(held);
}

#[test]
fn a_token_that_fired_while_granted_still_counts_when_the_grant_is_taken_back() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(Duration::from_millis(100));
    let source = CancelSource::new();
    let mut first = Step::queued(semaphore.acquire(1).cancel_on(&source.token()));
    let mut second = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    source.cancel();
    eventually("the grant is passed on", || second.wakes() == 1);
    let held = second.expect_ready().unwrap();
    assert!(first.poll().is_ready(), "its token has fired, and it is not granted");
    drop(held);
}

/// Such a request holds up everyone behind it, for ever.
#[test]
fn a_cancelled_request_that_comes_back_holds_up_nobody() {
    let semaphore = Semaphore::with_max(0, 2);
    semaphore.set_patience(Duration::from_millis(20));
    let source = CancelSource::new();
    let mut first = Step::queued(semaphore.acquire(2).cancel_on(&source.token()));
    let mut second = Step::queued(semaphore.acquire(2));
    semaphore.release(2).unwrap();
    source.cancel();
    eventually("the grant is passed on", || second.wakes() == 1);
    let mut held = second.expect_ready().unwrap();
    let _ = first.poll();
    let mut third = Step::new(semaphore.acquire(1));
    let _ = third.poll();
    drop(held.split(1));
    assert!(third.poll().is_ready(), "held up by a request that was cancelled long ago");
}

/// The watchdog is armed before wakers run: one of them may wait for what an unpolled task was
/// granted.
#[test]
fn a_waker_that_blocks_is_not_held_up_by_an_unclaimed_grant() {
    in_its_own_process(|| {
        let semaphore = leaked(Semaphore::new(0));
        let done = leaked(AtomicBool::new(false));
        let waker = waker_that(|| {
            drop(semaphore.acquire(1).wait());
            done.store(true, SeqCst);
        });
        let mut unpolled = Step::new(semaphore.acquire(1));
        assert!(unpolled.poll_with(&waker).is_pending());
        let waiting = thread::spawn(|| drop(semaphore.acquire(1).wait()));
        eventually("both wait", || semaphore.waiters() == 2);
        thread::spawn(|| semaphore.release(1).unwrap());
        waiting.join().unwrap();
        eventually("the waker returns", || done.load(SeqCst));
    });
}

/// A poll that panicked because of somebody's waker has ended the request; polling again says so.
#[test]
fn a_request_whose_poll_panicked_can_be_polled_again() {
    in_its_own_process(|| {
        let semaphore = Semaphore::barging(0);
        let mut first = Step::queued(semaphore.acquire(1));
        let _second = Step::panicking(semaphore.acquire(1));
        semaphore.release(2).unwrap();
        panic_of(|| first.poll().is_ready());
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| first.poll().is_ready()));
    });
}

/// The owner of a key holds as often as can be; another of its guards goes just as it asks.
#[test]
fn a_refusal_stands_although_a_hold_was_given_up_meanwhile() {
    let lock = Arc::new(ReentrantLock::new(()));
    let key = OwnerKey::new();
    let most = ReentrantLock::<()>::MAX_HOLDS;
    let holds: Vec<_> = (1..most).map(|_| lock.try_lock_as(&key).unwrap()).collect();
    let over = AtomicBool::new(false);
    let panicked = thread::scope(|scope| {
        let asking: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let end = Instant::now() + Duration::from_secs(5);
                    while Instant::now() < end && !over.load(SeqCst) {
                        drop::<Result<_, TooManyHolds>>(lock.lock_as(&key).wait());
                    }
                })
            })
            .collect();
        let panicked = asking.into_iter().any(|asking| asking.join().is_err());
        over.store(true, SeqCst);
        panicked
    });
    holds.into_iter().for_each(std::mem::forget);
    assert!(!panicked, "refused, and then no longer");
}

/// Barging: closing while one waiter is on its way (told to try again) refuses the others too, before
/// `close` returns and before that one comes.
#[test]
fn closing_a_barging_semaphore_refuses_those_behind_a_task_that_was_told_to_try_again() {
    let semaphore = Semaphore::barging(0);
    let mut first = Step::queued(semaphore.acquire(1));
    let mut second = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    semaphore.close();
    assert_eq!(second.wakes(), 1, "still waits for a closed semaphore");
    assert!(second.expect_ready().is_err());
    assert!(first.expect_ready().is_err());
}

#[test]
fn closing_a_barging_semaphore_refuses_those_behind_a_thread_that_was_told_to_try_again() {
    let semaphore = leaked(Semaphore::barging(0));
    let (first, door) = held_up(|| semaphore.acquire(1).wait().map(drop));
    let mut second = Step::queued(semaphore.acquire(2));
    semaphore.release(1).unwrap();
    semaphore.close();
    assert_eq!(second.wakes(), 1, "still waits for a closed semaphore");
    assert!(second.expect_ready().is_err());
    door.open();
    assert!(first.join().is_err());
}

/// Barging: a thread was told to try again, its token has fired since, and a newcomer was faster. It
/// sees that it was cancelled, instead of waiting for another turn.
#[test]
fn a_thread_that_was_told_to_try_again_looks_at_its_token() {
    let semaphore = leaked(Semaphore::barging(0));
    let source = CancelSource::new();
    let token = source.token();
    let (first, door) = held_up(move || semaphore.acquire(1).cancel_on(&token).wait().map(drop));
    semaphore.release(1).unwrap();
    semaphore.try_acquire(1).expect("a newcomer may overtake").forget();
    source.cancel();
    door.open();
    assert_eq!(first.join(), Err(WaitError::Cancelled));
    assert_eq!((semaphore.waiters(), source.token().registrations()), (0, 0));
}

/// The same with a limit that has passed.
#[test]
fn a_thread_that_was_told_to_try_again_looks_at_its_limit() {
    let semaphore = leaked(Semaphore::barging(0));
    let begun = Instant::now();
    let (first, door) = held_up(|| semaphore.acquire(1).timeout(SHORT).wait().map(drop));
    semaphore.release(1).unwrap();
    semaphore.try_acquire(1).expect("a newcomer may overtake").forget();
    eventually("the limit passes", || begun.elapsed() > 2 * SHORT);
    door.open();
    assert_eq!(first.join(), Err(WaitError::TimedOut));
    assert_eq!(semaphore.waiters(), 0);
}

/// Threads are woken before tasks: a waker that blocks does not keep from them what is theirs.
#[test]
fn a_waker_that_blocks_does_not_hold_up_threads_that_were_answered() {
    in_its_own_process(|| {
        let semaphore = leaked(Semaphore::new(0));
        let ran = leaked(semaforo::Event::new());
        let waker = waker_that(|| ran.happened().wait());
        let mut first = Step::new(semaphore.acquire(1));
        assert!(first.poll_with(&waker).is_pending());
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = thread::spawn(move || {
            tell.send(ThreadState::here()).unwrap();
            drop(semaphore.acquire(1).wait());
            ran.set();
        });
        let state = told.recv().unwrap();
        eventually("both wait", || semaphore.waiters() == 2);
        // One that spins is answered without being woken.
        eventually("the thread sleeps", || state.is_asleep());
        semaphore.release(2).unwrap();
        waiting.join().unwrap();
    });
}

/// The timer's thread runs wakers: one that waits must be able to wait with a limit, or with a token
/// that fires by itself.
#[test]
fn a_waker_on_the_timers_thread_can_wait_with_a_limit() {
    in_its_own_process(|| {
        let semaphore = leaked(Semaphore::new(0));
        let done = leaked(AtomicBool::new(false));
        let waker = waker_that(|| {
            let _ = semaphore.acquire(1).timeout(Duration::from_millis(10)).wait();
            done.store(true, SeqCst);
        });
        let mut first = Step::new(semaphore.acquire(1).timeout(Duration::from_millis(10)));
        assert!(first.poll_with(&waker).is_pending());
        eventually("the waker returns", || done.load(SeqCst));
    });
}

/// A promise completed while unwinding, with a callback that panics, does not end the process.
#[test]
fn a_promise_cancelled_by_an_unwinding_owner_does_not_end_the_process() {
    in_its_own_process(|| {
        struct Owner(semaforo::Promise<u32, ()>);
        impl Drop for Owner {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        let message = panic_of(|| {
            let owner = Owner(semaforo::Promise::new());
            owner.0.on_complete(|_| panic!("the callback panicked"));
            panic!("the owner panicked");
        });
        assert_eq!(message, "the owner panicked");
    });
}
