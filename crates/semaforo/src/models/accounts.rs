//! What must be true when all is over.

use std::fmt::Debug;
use std::sync::Mutex;

use super::race::time_passes;
use super::task::Task;
use crate::{BlockingQueue, Rejected, Semaphore, SynchronousQueue, TransferQueue};

/// Nobody waits for the semaphore any more, and these are its permits.
pub(super) fn settled(semaphore: &Semaphore, available: u32, held: u32) {
    // The watchdog may still be armed, and finds nothing to do.
    while time_passes() {}
    assert_eq!(semaphore.waiters(), 0, "somebody still waits");
    assert_eq!(semaphore.held(), held, "this much is held");
    assert_eq!(semaphore.available(), available, "this much is available");
}

/// A semaphore whose word has moved into its core: somebody had to wait, and has left.
pub(super) fn once_contended(semaphore: Semaphore) -> Semaphore {
    let mut task = Task::new(semaphore.acquire(semaphore.available() + 1));
    assert!(task.poll().is_pending());
    drop(task);
    semaphore
}

/// What a request has yielded, unless it has failed, which it may for this reason only.
pub(super) fn unless<T, E: PartialEq + Debug>(why: E, outcome: Result<T, E>) -> Option<T> {
    outcome.map_err(|error| assert_eq!(error, why)).ok()
}

/// The item of a request to put or to transfer, if that has it back.
pub(super) fn back<T, E>(outcome: Result<T, Rejected<u32, E>>) -> Option<u32> {
    outcome.err().map(Rejected::into_item)
}

/// What is left in a queue, in order. Nobody waits for it any more.
pub(super) fn left_in(queue: &impl Queue) -> Vec<u32> {
    while time_passes() {}
    assert_eq!(queue.waiters(), 0, "somebody still waits");
    queue.drain()
}

/// A queue of any kind.
pub(super) trait Queue {
    fn waiters(&self) -> usize;
    fn drain(&self) -> Vec<u32>;
}

macro_rules! queue {
    ($($kind:ident),*) => {
        $(impl Queue for $kind<u32> {
            fn waiters(&self) -> usize {
                self.waiters()
            }

            fn drain(&self) -> Vec<u32> {
                self.drain()
            }
        })*
    };
}

queue!(BlockingQueue, TransferQueue, SynchronousQueue);

/// Items that the sides have taken, or got back.
#[derive(Default)]
pub(super) struct Basket(Mutex<Vec<u32>>);

impl Basket {
    /// Adds an item, or the item of a result.
    pub(super) fn add(&self, items: impl IntoIterator<Item = u32>) {
        self.0.lock().unwrap().extend(items);
    }

    /// All of them, sorted.
    pub(super) fn sorted(self) -> Vec<u32> {
        let mut items = self.0.into_inner().unwrap();
        items.sort_unstable();
        items
    }

    /// All of them and what is left in the queue, sorted.
    pub(super) fn with_left_in(self, queue: &impl Queue) -> Vec<u32> {
        self.add(left_in(queue));
        self.sorted()
    }
}
