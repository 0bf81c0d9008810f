//! The cases, written once for all subjects.

use std::time::{Duration, Instant};

use semaforo::CancelSource;

use crate::subjects::{Failure, Subject};
use crate::support::{
    LONG, SHORT, Step, WakeOrder, eventually, fire, in_every_arrangement, panic_of,
};

/// A subject, and a check that nothing about it has changed.
fn fresh<S: Subject>() -> (S, impl Fn()) {
    let subject = S::unavailable();
    let before = subject.available();
    let unchanged = move || {
        assert_eq!((subject.available(), subject.queued()), (before, 0), "available and queued");
    };
    (subject, unchanged)
}

fn until_queued<S: Subject>(subject: S, count: usize) {
    eventually(&format!("{count} requests queued"), || subject.queued() == count);
}

/// As long ago as an instant can be, or at least long ago.
fn distant_past() -> Instant {
    let mut past = Instant::now();
    let mut step = Duration::from_secs(u64::MAX);
    while step >= Duration::from_secs(1) {
        match past.checked_sub(step) {
            Some(earlier) => past = earlier,
            None => step /= 2,
        }
    }
    past
}

/// As far ahead as an instant can be.
fn distant_future() -> Instant {
    let mut future = Instant::now();
    let mut step = Duration::from_secs(u64::MAX);
    while step >= Duration::from_nanos(1) {
        match future.checked_add(step) {
            Some(later) => future = later,
            None => step /= 2,
        }
    }
    future
}

///
pub(crate) fn a_zero_timeout_ends_at_once<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, unchanged) = fresh::<S>();
        for position in 0..2 {
            let kind = arrangement.kind(position);
            let waiter = subject.start(kind, |request| request.timeout(Duration::ZERO));
            assert_eq!(waiter.join(), Err(Failure::TimedOut));
            unchanged();
        }
    });
}

///
pub(crate) fn a_deadline_in_the_past_ends_at_once<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, unchanged) = fresh::<S>();
        for (position, past) in [distant_past(), Instant::now()].into_iter().enumerate() {
            let kind = arrangement.kind(position);
            let waiter = subject.start(kind, move |request| request.deadline(past));
            assert_eq!(waiter.join(), Err(Failure::TimedOut));
            let waiter = subject.start(kind, move |request| request.timeout(LONG).deadline(past));
            assert_eq!(waiter.join(), Err(Failure::TimedOut));
            unchanged();
        }
    });
}

///
pub(crate) fn the_longest_limit_is_no_limit<S: Subject>() {
    in_every_arrangement(|arrangement| {
        for limit in 0..4 {
            let (subject, _) = fresh::<S>();
            let waiter = subject.start(arrangement.kind(0), move |request| match limit {
                0 => request.timeout(Duration::MAX),
                1 => request.timeout(Duration::from_nanos(u64::MAX)),
                2 => request.deadline(distant_future()),
                _ => request.timeout(Duration::MAX).deadline(distant_future()),
            });
            until_queued(subject, 1);
            assert!(!waiter.is_done());
            subject.provide();
            assert_eq!(waiter.join(), Ok(()));
        }
    });
}

/// The promise behind: not earlier than asked.
pub(crate) fn a_limit_is_kept<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, unchanged) = fresh::<S>();
        let start = Instant::now();
        let by_timeout = subject.start(arrangement.kind(0), |request| request.timeout(SHORT));
        let by_deadline =
            subject.start(arrangement.kind(1), move |request| request.deadline(start + SHORT));
        assert_eq!(by_timeout.join(), Err(Failure::TimedOut));
        assert!(start.elapsed() >= SHORT);
        assert_eq!(by_deadline.join(), Err(Failure::TimedOut));
        unchanged();
    });
}

///
pub(crate) fn a_token_fired_before_ends_at_once<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, unchanged) = fresh::<S>();
        let stop = CancelSource::new();
        stop.cancel();
        let token = stop.token();
        let waiter = subject.start(arrangement.kind(0), move |request| request.cancel_on(&token));
        assert_eq!(waiter.join(), Err(Failure::Cancelled));
        unchanged();
        let retry = subject.start_unbounded(arrangement.kind(1));
        until_queued(subject, 1);
        subject.provide();
        retry.join();
    });
}

///
pub(crate) fn cancelled_comes_before_timed_out<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, unchanged) = fresh::<S>();
        let stop = CancelSource::new();
        stop.cancel();
        for position in 0..2 {
            let token = stop.token();
            let waiter = subject.start(arrangement.kind(position), move |request| {
                let timed = request.timeout(Duration::ZERO).deadline(distant_past());
                timed.cancel_on(&token)
            });
            assert_eq!(waiter.join(), Err(Failure::Cancelled));
        }
        unchanged();
    });
}

/// P6, and the zero timeout that only matters if it would have to wait.
pub(crate) fn an_available_resource_is_granted_whatever_the_bounds<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let stop = CancelSource::new();
        stop.cancel();
        for bound in 0..3 {
            let (subject, _) = fresh::<S>();
            let token = stop.token();
            subject.provide();
            let waiter = subject.start(arrangement.kind(bound), move |request| match bound {
                0 => request.cancel_on(&token),
                1 => request.timeout(Duration::ZERO),
                _ => request.deadline(distant_past()).cancel_on(&token),
            });
            assert_eq!(waiter.join(), Ok(()));
        }
    });
}

///
pub(crate) fn cancelling_ends_the_wait_and_leaves_no_trace<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, unchanged) = fresh::<S>();
        let stop = CancelSource::new();
        let waiters: Vec<_> = (0..3)
            .map(|position| {
                let token = stop.token();
                let kind = arrangement.kind(position);
                let waiter = subject.start(kind, move |request| request.cancel_on(&token));
                until_queued(subject, position + 1);
                waiter
            })
            .collect();
        fire(&stop, 3);
        unchanged();
        for waiter in waiters {
            assert_eq!(waiter.join(), Err(Failure::Cancelled));
        }
        assert_eq!(stop.token().registrations(), 0);
    });
}

///
pub(crate) fn an_unbounded_request_cannot_be_cancelled<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, _) = fresh::<S>();
        let (before, during) = (CancelSource::new(), CancelSource::new());
        before.cancel();
        let waiter = subject.start_unbounded(arrangement.kind(0));
        until_queued(subject, 1);
        during.cancel();
        assert_eq!(subject.queued(), 1);
        assert!(!waiter.is_done());
        subject.provide();
        waiter.join();
        assert!(before.is_cancelled() && during.is_cancelled());
    });
}

///
pub(crate) fn the_place_counts_from_the_first_poll<S: Subject>() {
    let (subject, _) = fresh::<S>();
    let order = WakeOrder::new();
    let mut a = Step::new(subject.request());
    let mut b = Step::new(subject.request());
    let never_polled = Step::new(subject.request());
    assert_eq!(subject.queued(), 0);
    assert!(b.poll_with(&order.waker("b")).is_pending());
    assert!(a.poll_with(&order.waker("a")).is_pending());
    assert_eq!(subject.queued(), 2);
    subject.provide();
    assert_eq!(order.entries().first(), Some(&"b"));
    drop(b.expect_ready());
    // What lets one through at a time without a guard has to be told again.
    if a.poll_with(&order.waker("a")).is_pending() {
        subject.provide();
        drop(a.expect_ready());
    }
    drop(never_polled);
    assert_eq!(subject.queued(), 0);
}

///
pub(crate) fn dropping_gives_the_waker_back<S: Subject>() {
    let (subject, unchanged) = fresh::<S>();
    let counter = std::sync::Arc::new(());
    let held = std::sync::Arc::clone(&counter);
    let waker = crate::support::waker_that(move || {
        let _ = &held;
    });
    let references = || std::sync::Arc::strong_count(&counter);
    let base = references();
    let stop = CancelSource::new();
    let token = stop.token();

    // `Step` keeps no waker of its own when it is polled with another.
    let mut plain = Step::new(subject.request());
    let mut bounded = Step::new(subject.request().timeout(LONG).cancel_on(&token));
    let mut twice = Step::new(subject.request());
    for _ in 0..2 {
        assert!(plain.poll_with(&waker.clone()).is_pending());
        assert!(bounded.poll_with(&waker.clone()).is_pending());
        assert!(twice.poll_with(&waker.clone()).is_pending());
    }
    drop((bounded, plain, twice));
    unchanged();
    assert_eq!(token.registrations(), 0);
    drop(waker);
    assert_eq!(references(), base - 1, "the waker's data is gone with its last clone");
}

/// A task may move to another executor between two polls.
pub(crate) fn the_last_waker_is_the_one_that_is_woken<S: Subject>() {
    let (subject, _) = fresh::<S>();
    let order = WakeOrder::new();
    let mut step = Step::new(subject.request());
    for waker in ["first", "second", "last"] {
        assert!(step.poll_with(&order.waker(waker)).is_pending());
    }
    subject.provide();
    assert_eq!(order.entries(), ["last"]);
    drop(step.expect_ready());
}

/// Promise 6: nothing is lost with a request that is dropped after its grant.
pub(crate) fn a_dropped_grant_goes_to_the_next<S: Subject>() {
    in_every_arrangement(|arrangement| {
        let (subject, _) = fresh::<S>();
        let first = Step::queued(subject.request());
        let next = subject.start_unbounded(arrangement.kind(0));
        until_queued(subject, 2);
        subject.provide();
        assert_eq!(first.wakes(), 1);
        drop(first);
        next.join();
        assert_eq!(subject.queued(), 0);
    });
}

/// Bad input: a finished request is finished.
pub(crate) fn polling_after_the_end_panics<S: Subject>() {
    let (subject, _) = fresh::<S>();
    let stop = CancelSource::new();
    let token = stop.token();
    let mut cancelled = Step::queued(subject.request().cancel_on(&token));
    stop.cancel();
    assert_eq!(S::ended(cancelled.expect_ready()), Err(Failure::Cancelled));
    let mut queued = Step::queued(subject.request());
    subject.provide();
    drop(queued.expect_ready());
    let mut at_once = Step::new(subject.request().timeout(Duration::ZERO));
    drop(at_once.poll());
    for message in [
        panic_of(|| drop(cancelled.poll())),
        panic_of(|| drop(queued.poll())),
        panic_of(|| drop(at_once.poll())),
    ] {
        assert!(message.contains("after it had completed"), "{message}");
    }
    assert_eq!(subject.queued(), 0);
}

/// X-18; that nothing is allocated either is shown in `allocations.rs`.
pub(crate) fn short_attempts_leave_nothing_behind<S: Subject>() {
    let (subject, unchanged) = fresh::<S>();
    let stop = CancelSource::new();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let token = stop.token();
            crate::support::Waiter::on_a_thread(move || {
                for attempt in 0..200 {
                    let limit = Duration::from_nanos(attempt);
                    let request = subject.request().timeout(limit).cancel_on(&token);
                    assert_eq!(S::ended(request.wait()), Err(Failure::TimedOut));
                    drop(Step::queued(subject.request().timeout(LONG).cancel_on(&token)));
                }
            })
        })
        .collect();
    waiters.into_iter().for_each(crate::support::Waiter::join);
    unchanged();
    assert_eq!(stop.token().registrations(), 0);
}
