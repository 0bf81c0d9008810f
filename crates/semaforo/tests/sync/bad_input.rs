//! Input that is wrong, and programs that are odd but legal. What a single operation refuses is
//! tested with its synchronizer; polling after the end, deadlines in the past and fired tokens are
//! tested for every operation in `every_operation`.
//!
//! A leaked request must stay harmless for ever: its memory is pinned, so nobody uses it again, and
//! whoever can still reach it (a token, the timer, the watchdog) keeps alive what it needs. The
//! address sanitizer, where these tests run under it, sees what they cannot.

use std::future::Future;
use std::mem::forget;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::support::{
    LONG, Line, SHORT, Step, Waiter, eventually, in_every_arrangement, leak, leaked,
    let_the_timer_pass,
};
use semaforo::{
    AcquireError, AutoEvent, CancelSource, Event, Latch, Mutex, Promise, ReleaseError, RwLock,
    Semaphore, WaitError,
};

const PATIENCE: Duration = Duration::from_millis(2);

#[test]
fn permits_beyond_all_bounds_are_refused_everywhere() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::with_max(1, 2));
        let mut line = Line::new(arrangement, semaphore);
        for asked in [3, Semaphore::MAX_PERMITS, Semaphore::MAX_PERMITS + 1, u32::MAX] {
            let refused = AcquireError::TooMany { asked, maximum: 2 };
            assert_eq!(line.start(semaphore.acquire(asked)).join().unwrap_err(), refused);
            assert!(semaphore.try_acquire(asked).is_err());
            let released = semaphore.release(asked);
            assert_eq!(released, Err(ReleaseError { released: asked, room: 1 }));
        }
        assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (1, 0, 0));
    });
}

#[test]
fn errors_say_what_was_wrong() {
    let semaphore = Semaphore::with_max(0, 2);
    let too_many = semaphore.acquire(3).wait().unwrap_err();
    assert_eq!(too_many.to_string(), "3 permits were asked for, but there can be only 2");
    let released = semaphore.release(3).unwrap_err();
    assert_eq!(released.to_string(), "3 permits were released, but there is room for only 2");
    let timed = semaphore.acquire(1).timeout(Duration::ZERO).wait().unwrap_err();
    assert_eq!(timed.to_string(), "timed out while waiting");
    let refused = WaitError::from(too_many);
    assert_eq!(refused.to_string(), too_many.to_string());
    assert!(std::error::Error::source(&refused).is_some());
    fn is_an_error<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    is_an_error(&too_many);
    is_an_error(&released);
    is_an_error(&timed);
}

/// The refusal of an unbounded request converts into that of a bounded one.
#[test]
fn errors_convert_with_a_question_mark() {
    fn ask(semaphore: &Semaphore) -> Result<(), WaitError<AcquireError>> {
        drop(semaphore.acquire(1).wait()?);
        drop(semaphore.acquire(1).timeout(LONG).wait()?);
        Ok(())
    }
    let semaphore = Semaphore::new(1);
    assert_eq!(ask(&semaphore), Ok(()));
    semaphore.close();
    assert_eq!(ask(&semaphore), Err(WaitError::Refused(AcquireError::Closed)));
}

/// Overflowing durations, one after the other and all at once.
#[test]
fn the_shortest_of_several_limits_counts() {
    in_every_arrangement(|arrangement| {
        let latch = leaked(Latch::new(1));
        let mut line = Line::new(arrangement, latch);
        let start = Instant::now();
        let many = latch.opened().timeout(Duration::MAX).timeout(LONG).timeout(SHORT);
        let many = many.timeout(Duration::MAX).deadline(start + LONG).deadline(start + 2 * LONG);
        assert_eq!(line.start(many).join(), Err(WaitError::TimedOut));
        assert!(start.elapsed() >= SHORT);
        let sooner = latch.opened().deadline(Instant::now() + SHORT).timeout(LONG);
        assert_eq!(line.start(sooner).join(), Err(WaitError::TimedOut));
        assert_eq!(latch.waiters(), 0);
    });
}

#[test]
fn odd_patience_is_kept_in_range() {
    for patience in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let semaphore = Semaphore::new(0);
        semaphore.set_patience(patience);
        let mut first = Step::queued(semaphore.acquire(1));
        let mut second = Step::queued(semaphore.acquire(1));
        semaphore.release(1).unwrap();
        if patience < LONG {
            eventually("the grant is passed on", || second.wakes() == 1);
            drop(second.expect_ready().unwrap());
        }
        drop(first.expect_ready().unwrap());
        drop((first, second));
        assert_eq!(semaphore.available(), 1);
    }
}

#[test]
fn a_leaked_waiter_keeps_its_place_and_holds_up_nobody() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(0));
        semaphore.set_patience(PATIENCE);
        leak(semaphore.acquire(1));
        let waiter = Line::new(arrangement, semaphore).enter(semaphore.acquire(1));
        semaphore.release(1).unwrap();
        drop(waiter.join().unwrap());
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 1));
    });
}

/// A granted request is leaked: its permit goes on to the next.
#[test]
fn a_leaked_grant_is_passed_on() {
    let lock = Mutex::new(());
    lock.set_patience(PATIENCE);
    let guard = lock.lock().wait();
    let granted = Step::queued(lock.lock());
    drop(guard);
    forget(granted.into_future());
    drop(lock.lock().wait());
    assert!(!lock.is_locked());
}

#[test]
fn an_object_may_be_dropped_while_leaked_requests_wait_for_it() {
    let stop = CancelSource::new();
    let token = stop.token();
    for moved in [false, true] {
        let semaphore = Semaphore::new(0);
        leak(semaphore.acquire(1));
        leak(semaphore.acquire(1).cancel_on(&token));
        leak(semaphore.acquire(1).timeout(Duration::from_millis(1)));
        leak(semaphore.acquire(1).timeout(LONG).cancel_on(&token));
        if moved {
            // The borrow ended with the leak, so the object can be moved.
            let elsewhere = Box::new(semaphore);
            elsewhere.release(1).unwrap();
            assert!(elsewhere.waiters() >= 2);
            drop(elsewhere);
        } else {
            drop(semaphore);
        }
    }
    // Reuses the memory, if it was wrongly given back.
    let others: Vec<_> = (0..100).map(Semaphore::new).collect();
    stop.cancel();
    let_the_timer_pass();
    assert_eq!(token.registrations(), 0);
    assert!(others.iter().enumerate().all(|(n, other)| other.available() as usize == n));
}

/// The watchdog may come for an object that is gone.
#[test]
fn an_object_may_be_dropped_while_its_watchdog_is_armed() {
    for _ in 0..10 {
        let lock = Mutex::new(());
        lock.set_patience(PATIENCE);
        let guard = lock.lock().wait();
        leak(lock.lock());
        leak(lock.lock());
        drop(guard);
        drop(lock);
    }
    let_the_timer_pass();
}

/// Every kind of object, leaked with everything that a request can be bounded by.
#[test]
fn leaked_requests_of_every_kind_are_harmless() {
    let stop = CancelSource::new();
    let token = stop.token();
    macro_rules! leak_one_of {
        ($object:expr, |$name:ident| $request:expr) => {{
            let object = $object;
            {
                let $name = &object;
                leak($request.timeout(Duration::from_millis(1)).cancel_on(&token));
                leak($request.cancel_on(&token).cancel_on(&CancelSource::new().token()));
            }
            drop(object);
        }};
    }
    leak_one_of!(Semaphore::new(0), |object| object.acquire(1));
    leak_one_of!(Semaphore::barging(0), |object| object.acquire(1));
    leak_one_of!(Latch::new(1), |object| object.opened());
    leak_one_of!(Event::new(), |object| object.happened());
    leak_one_of!(AutoEvent::new(), |object| object.happened());
    leak_one_of!(Promise::<String, ()>::new(), |object| object.get());
    let source = CancelSource::new();
    leak_one_of!(source.token(), |object| object.cancelled());
    let lock = RwLock::new(String::from("kept"));
    let guard = lock.write().wait();
    leak(lock.read().cancel_on(&token));
    leak(lock.write().timeout(Duration::from_millis(1)));
    drop(guard);
    drop(lock);
    let_the_timer_pass();
    stop.cancel();
    drop(stop);
    assert_eq!(token.registrations(), 0);
}

/// A leaked guard leaves its object held, no more.
#[test]
fn a_leaked_guard_leaves_the_object_held() {
    let lock = Mutex::new(());
    forget(lock.lock().wait());
    assert!(lock.lock().timeout(PATIENCE).wait().is_err());
    let semaphore = Semaphore::with_max(2, 2);
    forget(semaphore.try_acquire(1));
    assert_eq!((semaphore.available(), semaphore.held()), (1, 1));
    assert!(semaphore.release(1).is_err(), "it is still counted");
}

/// A source that fires after a time may be leaked, and its token too.
#[test]
fn a_leaked_source_still_fires() {
    let stop = CancelSource::new();
    let token = stop.token();
    stop.cancel_after(PATIENCE);
    forget(stop);
    assert_eq!(token.cancelled().timeout(LONG).wait(), Ok(()));
    let stop = CancelSource::new();
    stop.cancel_after(PATIENCE);
    drop(stop);
    let_the_timer_pass();
}

/// An object is dropped by one of its own wake-ups.
#[test]
fn the_last_handle_may_go_with_a_wake_up() {
    let semaphore = Arc::new(Semaphore::new(0));
    let slot = Arc::new(std::sync::Mutex::new(Some(Arc::clone(&semaphore))));
    let waker = crate::support::waker_that(move || drop(slot.lock().unwrap().take()));
    let mut step = Step::new(semaphore.acquire_owned(1));
    assert!(step.poll_with(&waker).is_pending());
    semaphore.release(1).unwrap();
    drop(semaphore);
    let permit = step.expect_ready().unwrap();
    assert_eq!(permit.semaphore().held(), 1);
    drop((step, permit));
}

/// A future that is dropped between its steps, at every one of them.
#[test]
fn a_task_may_be_dropped_at_any_step() {
    for steps in 0..5 {
        let (semaphore, lock) = (Semaphore::new(1), RwLock::new(0));
        let first = semaphore.try_acquire(1).unwrap();
        let reading = lock.read().wait();
        let mut task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
            let _permit = semaphore.acquire(1).timeout(LONG).await.unwrap();
            *lock.write().await += 1;
            let _again = lock.read().await;
            std::future::pending().await
        });
        let (mut first, mut reading) = (Some(first), Some(reading));
        for step in 0..steps {
            match step {
                1 => drop(first.take()),
                3 => drop(reading.take()),
                _ => assert!(
                    task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
                ),
            }
        }
        drop(task);
        drop((first, reading));
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
        assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (0, false, 0));
    }
}

/// A request that never was polled was never there, however it is bounded.
#[test]
fn a_request_that_is_never_polled_does_nothing() {
    let semaphore = Arc::new(Semaphore::new(1));
    let stop = CancelSource::new();
    for _ in 0..3 {
        drop(semaphore.acquire(1));
        let bounded = semaphore.acquire_owned(1).timeout(PATIENCE).cancel_on(&stop.token());
        let boxed = Box::pin(bounded);
        assert_eq!(format!("{boxed:?}"), "Request(\"not polled yet\")");
        drop(boxed);
    }
    forget(semaphore.acquire(1).cancel_on(&stop.token()));
    assert_eq!(stop.token().registrations(), 0);
    assert_eq!((semaphore.available(), Arc::strong_count(&semaphore)), (1, 1));
}

/// A request shows how it stands.
#[test]
fn debugging_a_request_shows_how_it_stands() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(PATIENCE);
    let mut context = Context::from_waker(Waker::noop());
    let mut request = Box::pin(semaphore.acquire(1));
    assert!(request.as_mut().poll(&mut context).is_pending());
    assert_eq!(format!("{request:?}"), "Request(\"waiting\")");
    semaphore.release(1).unwrap();
    assert_eq!(format!("{request:?}"), "Request(\"granted\")");
    let Poll::Ready(permit) = request.as_mut().poll(&mut context) else { panic!("not granted") };
    assert_eq!(format!("{request:?}"), "Request(\"finished\")");
    drop(permit);
}

/// Locking again and again by one thread, in every form, ends or can be ended.
#[test]
fn waiting_for_oneself_can_be_ended() {
    let lock = leaked(Mutex::new(()));
    let stop = leaked(CancelSource::new());
    let waits_for_itself = Waiter::on_a_thread(|| {
        let _guard = lock.lock().wait();
        lock.lock().cancel_on(&stop.token()).wait().map(drop)
    });
    crate::support::until_queued(lock, 1);
    crate::support::fire(stop, 1);
    assert_eq!(waits_for_itself.join(), Err(WaitError::Cancelled));
    assert!(!lock.is_locked());
}
