//! Queues as collections: made of items, and filled with them.

use std::panic::{RefUnwindSafe, UnwindSafe};

use super::blocking::BlockingQueue;
use super::synchronous::SynchronousQueue;
use super::transfer::TransferQueue;

/// An [unbounded](BlockingQueue::unbounded) queue.
impl<T> Default for BlockingQueue<T> {
    fn default() -> Self {
        Self::unbounded()
    }
}

impl<T> BlockingQueue<T> {
    /// Puts these items, each as soon as there is room. Returns how many were put: fewer than there
    /// are only if the queue is closed, and then the rest is dropped.
    pub fn extend_from(&self, items: impl IntoIterator<Item = T>) -> usize {
        items.into_iter().map_while(|item| self.put(item).wait().ok()).count()
    }
}

impl<T> TransferQueue<T> {
    /// Leaves these items for the next takers. Returns how many: fewer than there are only if the
    /// queue is closed, and then the rest is dropped.
    pub fn extend_from(&self, items: impl IntoIterator<Item = T>) -> usize {
        items.into_iter().map_while(|item| self.put(item).ok()).count()
    }
}

macro_rules! collections {
    ($($queue:ident),*) => {$(
        /// An unbounded queue of these items.
        impl<T> FromIterator<T> for $queue<T> {
            fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
                let queue = Self::default();
                queue.extend_from(items);
                queue
            }
        }

        /// An unbounded queue of these items.
        impl<T> From<Vec<T>> for $queue<T> {
            fn from(items: Vec<T>) -> Self {
                items.into_iter().collect()
            }
        }

        /// An unbounded queue of these items.
        impl<T, const N: usize> From<[T; N]> for $queue<T> {
            fn from(items: [T; N]) -> Self {
                items.into_iter().collect()
            }
        }

        /// Puts these items, each as soon as there is room, until the queue is closed.
        impl<T> Extend<T> for $queue<T> {
            fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
                self.extend_from(items);
            }
        }

        /// Puts these items, each as soon as there is room, until the queue is closed.
        impl<T> Extend<T> for &$queue<T> {
            fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
                self.extend_from(items);
            }
        }
    )*};
}

collections!(BlockingQueue, TransferQueue);

macro_rules! unwind_safe {
    ($($queue:ident),*) => {$(
        /// A panic in the middle of an operation leaves the queue as if it had done it, or not.
        impl<T> UnwindSafe for $queue<T> {}
        /// As above.
        impl<T> RefUnwindSafe for $queue<T> {}
    )*};
}

unwind_safe!(BlockingQueue, TransferQueue, SynchronousQueue);
