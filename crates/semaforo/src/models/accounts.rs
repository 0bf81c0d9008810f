//! What must be true when all is over.

use super::race::time_passes;
use super::task::Task;
use crate::Semaphore;

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
