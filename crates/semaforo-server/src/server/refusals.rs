//! Lines of the log about requests that were refused: so few that a flood of them neither fills the
//! log nor pushes other lines out of it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::limits::AUDITED;
use super::log::Log;

const SECOND: Duration = Duration::from_secs(1);

/// Where both threads write them.
#[derive(Debug)]
pub(super) struct Refusals {
    log: Log,
    state: Mutex<State>,
}

/// Of the current second.
#[derive(Debug)]
struct State {
    since: Instant,
    written: usize,
    skipped: u64,
}

impl Refusals {
    pub(super) fn new(log: Log) -> Self {
        let state = State { since: Instant::now(), written: 0, skipped: 0 };
        Self { log, state: Mutex::new(state) }
    }

    /// Writes a line, or counts it if there were too many in this second.
    pub(super) fn write(&self, text: fmt::Arguments<'_>) {
        let now = Instant::now();
        self.report(now);
        let mut state = self.state();
        if now >= state.since + SECOND {
            *state = State { since: now, written: 0, skipped: 0 };
        }
        if state.written < AUDITED {
            state.written += 1;
            self.log.audit(text);
        } else {
            state.skipped += 1;
        }
    }

    /// Says how many were not written, once their second is over; or when that will be.
    pub(super) fn report(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        if state.skipped == 0 {
            return None;
        }
        let end = state.since + SECOND;
        if now < end {
            return Some(end);
        }
        let skipped = std::mem::take(&mut state.skipped);
        self.log.audit(format_args!("{skipped} more refusals within a second"));
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
