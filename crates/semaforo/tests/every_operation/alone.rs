//! The cases for operations that wait alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semaforo::CancelSource;

use crate::loners::{Bounds, Loner};
use crate::subjects::Failure;
use crate::support::{LONG, SHORT, Step, Waiter, WakeOrder, block_on, eventually, leaked};

/// Waits in both ways, each for an object of its own, which `before` may change.
#[track_caller]
fn expect<L: Loner>(bounds: &Bounds, before: impl Fn(&'static L), end: Result<(), Failure>) {
    for is_task in [false, true] {
        let loner = leaked(L::new());
        before(loner);
        let bounds = bounds.clone();
        let registrations = bounds.token.clone();
        let waiter = Waiter::on_a_thread(move || {
            if is_task { block_on(loner.task(bounds)) } else { loner.wait(bounds) }
        });
        assert_eq!(waiter.join(), end, "a task: {is_task}");
        assert_eq!(registrations.registrations(), 0);
    }
}

#[track_caller]
fn until_it_waits<L: Loner>(loner: &L, source: &CancelSource) {
    let waits = || source.token().registrations() == 1 && loner.waiters() != Some(0);
    eventually("it waits", waits);
}

fn fired() -> CancelSource {
    let source = CancelSource::new();
    source.cancel();
    source
}

///
pub(crate) fn a_limit_that_has_passed_ends_it_at_once<L: Loner>() {
    let end = Err(Failure::TimedOut);
    expect::<L>(&Bounds { timeout: Duration::ZERO, ..Bounds::none() }, |_| (), end);
    expect::<L>(&Bounds { deadline: Instant::now(), ..Bounds::none() }, |_| (), end);
}

///
pub(crate) fn a_token_fired_before_ends_it_at_once<L: Loner>() {
    let bounds = Bounds { token: fired().token(), ..Bounds::none() };
    expect::<L>(&bounds, |_| (), Err(Failure::Cancelled));
}

///
pub(crate) fn cancelled_comes_before_timed_out<L: Loner>() {
    let bounds =
        Bounds { token: fired().token(), timeout: Duration::ZERO, deadline: Instant::now() };
    expect::<L>(&bounds, |_| (), Err(Failure::Cancelled));
}

/// Not earlier than asked.
pub(crate) fn a_limit_is_kept<L: Loner>() {
    for by_deadline in [false, true] {
        let start = Instant::now();
        let bounds = match by_deadline {
            false => Bounds { timeout: SHORT, ..Bounds::none() },
            true => Bounds { deadline: start + SHORT, ..Bounds::none() },
        };
        expect::<L>(&bounds, |_| (), Err(Failure::TimedOut));
        assert!(start.elapsed() >= SHORT);
    }
}

///
pub(crate) fn the_longest_limit_is_no_limit<L: Loner>() {
    let longest = Bounds { timeout: Duration::MAX, ..Bounds::none() };
    for timeout in [longest.timeout, Duration::from_nanos(u64::MAX), LONG] {
        let (loner, source) = (leaked(L::new()), CancelSource::new());
        let bounds = Bounds { timeout, token: source.token(), ..Bounds::none() };
        let waiter = Waiter::on_a_thread(move || loner.wait(bounds));
        until_it_waits(loner, &source);
        assert!(!waiter.is_done());
        loner.provide();
        assert_eq!(waiter.join(), Ok(()));
    }
}

/// P6: unless nothing can be there before it is waited for.
pub(crate) fn what_is_there_is_granted_whatever_the_bounds<L: Loner>() {
    if !L::CAN_BE_THERE_BEFORE {
        return;
    }
    let fired = Bounds { token: fired().token(), ..Bounds::none() };
    expect::<L>(&fired, L::provide, Ok(()));
    expect::<L>(&Bounds { timeout: Duration::ZERO, ..Bounds::none() }, L::provide, Ok(()));
}

///
pub(crate) fn cancelling_ends_the_wait_and_leaves_no_trace<L: Loner>() {
    let (loner, source) = (leaked(L::new()), CancelSource::new());
    let bounds = Bounds { token: source.token(), ..Bounds::none() };
    let waiter = Waiter::on_a_thread(move || loner.wait(bounds));
    until_it_waits(loner, &source);
    source.cancel();
    assert_eq!(source.token().registrations(), 0);
    assert_eq!(waiter.join(), Err(Failure::Cancelled));
    assert_eq!(loner.waiters().unwrap_or(0), 0);

    let (loner, source) = (leaked(L::new()), CancelSource::new());
    let bounds = Bounds { token: source.token(), ..Bounds::none() };
    let mut task = Step::queued(loner.task(bounds));
    source.cancel();
    assert_eq!((task.wakes(), source.token().registrations()), (1, 0));
    assert_eq!(task.expect_ready(), Err(Failure::Cancelled));
    assert_eq!(loner.waiters().unwrap_or(0), 0);
}

///
pub(crate) fn dropping_gives_the_waker_back<L: Loner>() {
    let (loner, source) = (leaked(L::new()), CancelSource::new());
    let held = Arc::new(());
    let own = Arc::clone(&held);
    let waker = crate::support::waker_that(move || _ = &own);
    let mut task = Step::new(loner.task(Bounds { token: source.token(), ..Bounds::none() }));
    for _ in 0..2 {
        assert!(task.poll_with(&waker.clone()).is_pending());
    }
    drop(task);
    drop(waker);
    assert_eq!((Arc::strong_count(&held), source.token().registrations()), (1, 0));
    assert_eq!(loner.waiters().unwrap_or(0), 0);
}

/// A task may move to another executor between two polls.
pub(crate) fn the_last_waker_is_the_one_that_is_woken<L: Loner>() {
    let (loner, order) = (leaked(L::new()), WakeOrder::new());
    let mut task = Step::new(loner.task(Bounds::none()));
    for waker in ["first", "second", "last"] {
        assert!(task.poll_with(&order.waker(waker)).is_pending());
    }
    loner.provide();
    eventually("it is woken", || !order.entries().is_empty());
    assert_eq!(task.expect_ready(), Ok(()));
    assert_eq!(order.entries(), ["last"]);
}
