//! Several sides at the same time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::checker::spawn;
use crate::wait::timer::{LATEST, TIMER};

/// A limit that lies in the future until [`time_passes`].
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// What the sides of a race share.
pub(super) struct With<T>(T);

pub(super) fn with<T: Send + Sync + 'static>(objects: T) -> With<T> {
    With(objects)
}

impl<T: Send + Sync + 'static> With<T> {
    /// Runs all sides at the same time, the last one in this thread, and gives the objects back
    /// when they have ended.
    pub(super) fn race<const SIDES: usize>(self, sides: [fn(&T); SIDES]) -> T {
        let objects = Arc::new(self.0);
        let (here, others) = sides.split_last().expect("a race has sides");
        let threads: Vec<_> = others
            .iter()
            .map(|side| {
                let (objects, side) = (Arc::clone(&objects), *side);
                spawn(move || side(&objects))
            })
            .collect();
        here(&objects);
        for thread in threads {
            thread.join().expect("a side has panicked");
        }
        Arc::into_inner(objects).expect("all sides have ended")
    }
}

/// Lets the time of one entry in the timer come: a limit, or a tick of a watchdog. False if there
/// is none.
pub(super) fn time_passes() -> bool {
    TIMER.act(LATEST)
}

/// The watchdog sees what was not claimed a first time, and then takes it back, if it is still there.
pub(super) fn two_ticks() {
    time_passes();
    time_passes();
}

/// Something prepared for one of the sides.
pub(super) struct For<T>(Mutex<Option<T>>);

impl<T> For<T> {
    pub(super) fn one_side(value: T) -> Self {
        Self(Mutex::new(Some(value)))
    }

    pub(super) fn take(&self) -> T {
        self.0.lock().unwrap().take().expect("one side takes it")
    }

    /// What a side puts there, for later.
    pub(super) fn later() -> Self {
        Self(Mutex::new(None))
    }

    pub(super) fn put(&self, value: T) {
        *self.0.lock().unwrap() = Some(value);
    }

    /// What no side has taken, or one has put there.
    pub(super) fn left(self) -> T {
        self.take()
    }

    /// What a side has put there, if it has.
    pub(super) fn if_left(self) -> Option<T> {
        self.0.into_inner().unwrap()
    }
}
