//! Something that a lock protects.

use std::sync::atomic::{AtomicU32, Ordering};

use super::race::with;
use super::side::Side;
use crate::Mutex;
use crate::primitive::{TrackedCell, yield_now};

/// A value that fails the model when somebody changes it while another uses it, or without having
/// seen the change before.
pub(super) struct Witness {
    changes: TrackedCell<u32>,
    inside: AtomicU32,
}

/// What a writer counts as, so that it never agrees with anybody else.
const WRITER: u32 = 1 << 16;

// SAFETY: the models use it under the locks that they check, and fail if those do not hold.
unsafe impl Sync for Witness {}
// SAFETY: as above.
unsafe impl Send for Witness {}

impl Witness {
    pub(super) fn new() -> Self {
        Self { changes: TrackedCell::new(0), inside: AtomicU32::new(0) }
    }

    pub(super) fn change(&self) {
        let inside = self.inside.fetch_add(WRITER, Ordering::Relaxed);
        assert_eq!(inside, 0, "somebody else is inside");
        self.let_others_in();
        // SAFETY: loom follows the cell, and the count above shows that nobody else is inside.
        self.changes.look_mut(|changes| unsafe { *changes += 1 });
        self.inside.fetch_sub(WRITER, Ordering::Relaxed);
    }

    /// Tells how often it was changed.
    pub(super) fn look(&self) -> u32 {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed);
        assert!(inside < WRITER, "a writer is inside");
        self.let_others_in();
        // SAFETY: loom follows the cell, and the count above shows that no writer is inside.
        let changes = self.changes.look(|changes| unsafe { *changes });
        self.inside.fetch_sub(1, Ordering::Relaxed);
        changes
    }

    /// Loom follows the cell whoever runs when; shuttle has to be given a chance.
    fn let_others_in(&self) {
        if cfg!(shuttle) {
            yield_now();
        }
    }
}

/// A lock, and what it protects.
type Locked = (Mutex<()>, Witness);

/// A side that takes the lock, and changes what it protects.
pub(super) fn enter<S: Side>((mutex, witness): &Locked) {
    let _guard = S::finish(mutex.lock());
    witness.change();
}

/// All of these sides come in, and each of them sees what was done before.
pub(super) fn all_come_in<const SIDES: usize>(mutex: Mutex<()>, sides: [fn(&Locked); SIDES]) {
    let (mutex, witness) = with((mutex, Witness::new())).race(sides);
    assert_eq!((mutex.waiters(), mutex.is_locked()), (0, false));
    assert_eq!(witness.look(), SIDES as u32);
}
