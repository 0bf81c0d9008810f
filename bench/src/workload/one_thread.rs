//! One thread, one operation, again and again.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::{settle, whole};
use crate::row::Work;

/// Repeats an operation that always goes through at once.
pub(crate) fn repeat<P: 'static>(primitive: P, operation: impl Fn(&'static P) + 'static) -> Work {
    repeat_on(settle(primitive), operation)
}

fn repeat_on<P>(primitive: &'static P, operation: impl Fn(&'static P) + 'static) -> Work {
    Work::counted(move |operations| {
        let begin = Instant::now();
        repeated(primitive, &operation, operations);
        begin.elapsed().as_nanos() as f64 / operations as f64
    })
}

#[inline(never)]
fn repeated<P>(primitive: &'static P, operation: &impl Fn(&'static P), operations: u64) {
    for _ in 0..operations {
        operation(black_box(primitive));
    }
}

/// Puts so many items in and then takes all of them out; one operation is all of
/// that. Nanoseconds per item, in and out.
pub(crate) fn fill_and_empty<P: 'static>(
    primitive: P,
    items: u64,
    put: impl Fn(&'static P, u64) + 'static,
    take: impl Fn(&'static P) -> u64 + 'static,
) -> Work {
    let primitive = settle(primitive);
    whole(items, move || {
        (0..items).for_each(|number| put(black_box(primitive), number));
        (0..items).for_each(|_| {
            black_box(take(black_box(primitive)));
        });
    })
}

/// Queues `others` requests on a primitive that grants nothing, and then repeats
/// queueing one more behind them and dropping it.
pub(crate) fn queue_and_drop<P: 'static, F: Future + 'static>(
    held: P,
    others: usize,
    request: impl Fn(&'static P) -> F + 'static,
) -> Work {
    let held = settle(held);
    for _ in 0..others {
        // Never dropped: withdrawing all of them takes some peers a minute.
        let mut queued = Box::pin(request(held));
        assert!(poll_once(queued.as_mut()).is_pending(), "nothing is granted");
        std::mem::forget(queued);
    }
    repeat_on(held, move |held| pending(request(held)))
}

/// The result of a future that is ready when first polled.
#[inline(always)]
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match poll_once(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nobody else uses the primitive"),
    }
}

/// Polls a future that cannot be ready, and drops it.
#[inline(always)]
pub(crate) fn pending<F: Future>(future: F) {
    assert!(poll_once(pin!(future)).is_pending(), "nothing is granted");
}

#[inline(always)]
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
