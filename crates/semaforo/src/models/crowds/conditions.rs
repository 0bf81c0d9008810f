//! A store with room for two, kept with a lock and two conditions: waited for in every way, signalled
//! plainly and urgently.
//!
//! Whoever is signalled comes, or is dropped: a signal waits for its task, however long.

use std::sync::{Arc, Mutex as StdMutex};
use std::task::Poll;

use super::{crowd, draw, finish};
use crate::models::checker::explore_crowd;
use crate::models::race::{HOUR, time_passes};
use crate::models::task::Task;
use crate::models::witness::Witness;
use crate::primitive::{AtomicU32, Ordering};
use crate::{CancelSource, Condition, Mutex, OwnedMutexGuard};

const ROOM: u32 = 2;

type Guard = OwnedMutexGuard<u32>;

struct Store {
    lock: Arc<Mutex<u32>>,
    not_empty: Condition,
    not_full: Condition,
    source: StdMutex<CancelSource>,
    witness: Witness,
    /// How often somebody was inside.
    changes: AtomicU32,
}

impl Store {
    /// One is there to begin with.
    fn new() -> Self {
        Self {
            lock: Arc::new(Mutex::new(1)),
            not_empty: Condition::new(),
            not_full: Condition::new(),
            source: StdMutex::new(CancelSource::new()),
            witness: Witness::new(),
            changes: AtomicU32::new(0),
        }
    }

    fn enter(&self) -> Guard {
        finish(self.lock.lock_owned())
    }

    fn change(&self) {
        self.witness.change();
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits for room; if it is `bounded`, perhaps in vain.
    fn put(&self, bounded: bool) -> bool {
        let Some(mut guard) = self.wait_while(&self.not_full, bounded, |value| *value == ROOM)
        else {
            return false;
        };
        *guard += 1;
        self.change();
        self.signal(&self.not_empty, guard, |value| *value > 0);
        true
    }

    /// Waits until something is there.
    fn take(&self, bounded: bool) -> bool {
        let Some(mut guard) = self.wait_while(&self.not_empty, bounded, |value| *value == 0) else {
            return false;
        };
        *guard -= 1;
        self.change();
        self.signal(&self.not_full, guard, |value| *value < ROOM);
        true
    }

    fn wait_while(
        &self,
        condition: &Condition,
        bounded: bool,
        goes_on: fn(&u32) -> bool,
    ) -> Option<Guard> {
        let wait = condition.wait_while(self.enter(), goes_on);
        if !bounded {
            return Some(finish(wait));
        }
        let token = self.source.lock().unwrap().token();
        let wait = wait.timeout(HOUR).cancel_on(&token);
        let outcome = finish(wait);
        outcome.ok()
    }

    /// Signals one. If that is urgent and the one signalled misses its turn, another is signalled.
    fn signal(&self, condition: &Condition, guard: Guard, still: fn(&u32) -> bool) {
        if draw(3) > 0 {
            condition.signal(&guard);
            return;
        }
        let signal = condition.signal_urgent(guard);
        let guard = finish(signal);
        if still(&guard) {
            condition.signal(&guard);
        }
    }

    /// Passes on a signal that was not made use of.
    fn pass_on(&self, guard: &Guard) {
        if **guard > 0 {
            self.not_empty.signal(guard);
        }
        if **guard < ROOM {
            self.not_full.signal(guard);
        }
    }

    fn operate(self: &Arc<Self>, (): &mut ()) {
        match draw(7) {
            0 | 1 => {
                self.put(false);
                self.take(false);
            }
            2 => {
                if self.put(true) {
                    self.take(false);
                }
            }
            3 => {
                if self.take(true) {
                    self.put(false);
                }
            }
            4 => {
                let source = std::mem::take(&mut *self.source.lock().unwrap());
                source.cancel();
            }
            // Polled once, and dropped.
            5 => {
                let wait = self.not_empty.wait(self.enter()).timeout(HOUR);
                if let Poll::Ready(Ok(guard)) = Task::new(wait).poll() {
                    self.pass_on(&guard);
                }
            }
            _ => {
                let wait = self.not_full.wait(self.enter()).timeout(HOUR);
                if let Ok(guard) = Task::new(wait).run() {
                    self.pass_on(&guard);
                }
            }
        }
    }
}

/// Nobody is inside with another, no signal is lost, and what was put has been taken.
#[test]
fn a_store() {
    explore_crowd(|| {
        let store = crowd(Store::new(), Store::operate);
        while time_passes() {}
        assert_eq!((store.not_empty.waiters(), store.not_full.waiters()), (0, 0));
        assert_eq!((store.lock.waiters(), store.lock.is_locked()), (0, false));
        assert_eq!(*store.enter(), 1);
        assert_eq!(store.witness.look(), store.changes.load(Ordering::SeqCst));
    });
}
