//! Locks taken in every way, by readers and writers that turn into each other.

use std::sync::Arc;
use std::task::Poll;

use super::{crowd, draw, finish};
use crate::models::checker::explore_crowd;
use crate::models::race::{HOUR, time_passes};
use crate::models::task::Task;
use crate::models::witness::Witness;
use crate::primitive::{AtomicU32, Ordering};
use crate::{Mutex, RwLock};

/// Nothing is kept from one operation to the next.
type NoPockets = ();

struct Locked {
    mutex: Mutex<()>,
    witness: Witness,
    /// How often somebody held it.
    held: AtomicU32,
}

impl Locked {
    fn new(mutex: Mutex<()>) -> Self {
        Self { mutex, witness: Witness::new(), held: AtomicU32::new(0) }
    }

    fn change(&self) {
        self.witness.change();
        self.held.fetch_add(1, Ordering::SeqCst);
    }

    fn operate(self: &Arc<Self>, (): &mut NoPockets) {
        match draw(6) {
            0 | 1 => {
                let _guard = finish(self.mutex.lock());
                self.change();
            }
            2 | 3 => {
                if let Ok(_guard) = finish(self.mutex.lock().timeout(HOUR)) {
                    self.change();
                }
            }
            4 => {
                if let Some(_guard) = self.mutex.try_lock() {
                    self.change();
                }
            }
            _ => {
                if let Poll::Ready(_guard) = Task::new(self.mutex.lock()).poll() {
                    self.change();
                }
            }
        }
    }

    fn assert_settled(self) {
        while time_passes() {}
        assert_eq!((self.mutex.waiters(), self.mutex.is_locked()), (0, false));
        assert_eq!(self.witness.look(), self.held.load(Ordering::SeqCst));
    }
}

/// Nobody is inside with another, everybody sees what was done before, and comes in.
#[test]
fn a_mutex_in_strict_order() {
    explore_crowd(|| crowd(Locked::new(Mutex::new(())), Locked::operate).assert_settled());
}

/// The same in barging mode.
#[test]
fn a_mutex_barging() {
    explore_crowd(|| crowd(Locked::new(Mutex::barging(())), Locked::operate).assert_settled());
}

struct ReadAndWritten {
    lock: RwLock<()>,
    witness: Witness,
    /// How often somebody wrote.
    writes: AtomicU32,
}

impl ReadAndWritten {
    fn new(lock: RwLock<()>) -> Self {
        Self { lock, witness: Witness::new(), writes: AtomicU32::new(0) }
    }

    fn change(&self) {
        self.witness.change();
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    fn operate(self: &Arc<Self>, (): &mut NoPockets) {
        match draw(10) {
            0 | 1 => {
                let _guard = finish(self.lock.read());
                self.witness.look();
            }
            2 | 3 => {
                let _guard = finish(self.lock.write());
                self.change();
            }
            4 => {
                let guard = self.lock.write().wait();
                self.change();
                let seen = self.witness.look();
                let _guard = guard.downgrade();
                assert_eq!(self.witness.look(), seen, "somebody wrote after a downgrade");
            }
            5 => match Task::new(self.lock.read()).run().try_upgrade() {
                Ok(_guard) => self.change(),
                Err(_guard) => _ = self.witness.look(),
            },
            6 => {
                if let Ok(_guard) = Task::new(self.lock.write().timeout(HOUR)).run() {
                    self.change();
                }
            }
            7 => {
                if let Ok(_guard) = self.lock.read().timeout(HOUR).wait() {
                    self.witness.look();
                }
            }
            8 => {
                if let Some(_guard) = self.lock.try_write() {
                    self.change();
                }
            }
            _ => drop(Task::new(self.lock.write()).poll()),
        }
    }

    fn assert_settled(self) {
        while time_passes() {}
        let lock = &self.lock;
        assert_eq!((lock.waiters(), lock.readers(), lock.has_writer()), (0, 0, false));
        assert_eq!(self.witness.look(), self.writes.load(Ordering::SeqCst));
    }
}

/// A writer is alone, readers are not, and everybody comes in.
#[test]
fn readers_and_writers_in_order() {
    explore_crowd(|| {
        crowd(ReadAndWritten::new(RwLock::new(())), ReadAndWritten::operate).assert_settled()
    });
}

/// The same in barging mode.
#[test]
fn readers_and_writers_barging() {
    explore_crowd(|| {
        crowd(ReadAndWritten::new(RwLock::barging(())), ReadAndWritten::operate).assert_settled();
    });
}
