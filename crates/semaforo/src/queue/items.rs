//! Taking item after item.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::blocking::{BlockingQueue, Take};
use crate::wait::request::Request;

/// The items of a [`BlockingQueue`], taken one after another by a thread until it is closed and empty.
///
/// Dropping it leaves the rest in the queue.
#[must_use = "nothing is taken until this is iterated"]
pub struct Items<'a, T>(pub(super) &'a BlockingQueue<T>);

impl<T> Iterator for Items<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.take().wait().ok()
    }
}

impl<T> fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Items").field(self.0).finish()
    }
}

/// The items of a [`BlockingQueue`], taken one after another by a task until it is closed and empty.
///
/// Dropping it leaves the rest in the queue.
#[must_use = "nothing is taken until this is polled"]
pub struct ItemStream<'a, T> {
    queue: &'a BlockingQueue<T>,
    /// What it waits for. Pinned with it.
    next: Option<Request<Take<T, &'a BlockingQueue<T>>>>,
}

impl<'a, T> ItemStream<'a, T> {
    pub(super) fn new(queue: &'a BlockingQueue<T>) -> Self {
        Self { queue, next: None }
    }
}

impl<T> Stream for ItemStream<'_, T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // SAFETY: the request is pinned whenever the stream is, and is never moved out of it.
        let (queue, mut next) = unsafe {
            let this = self.get_unchecked_mut();
            (this.queue, Pin::new_unchecked(&mut this.next))
        };
        if next.is_none() {
            next.set(Some(queue.take()));
        }
        let Some(request) = next.as_mut().as_pin_mut() else { return Poll::Pending };
        let taken = std::task::ready!(request.poll(context));
        next.set(None);
        Poll::Ready(taken.ok())
    }
}

impl<T> fmt::Debug for ItemStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ItemStream").field(self.queue).finish()
    }
}
