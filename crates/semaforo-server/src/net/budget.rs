//! What the buffers of all connections may have together.
//!
//! A connection has a limit of its own for what waits in it, and that is as large as a large
//! request; ten thousand of them together would be more than any machine has. So the bytes of all
//! buffers are summed up, over all loops that share the budget, and the fuller it is the fewer
//! connections are read from:
//!
//! | used | what happens |
//! |---|---|
//! | less than half | nothing |
//! | half | a connection that has more than its share is not read from |
//! | three quarters | nor is any that has something in its buffers; those that have more than their share and have not moved for a moment are closed, the slowest first, until it is less |
//! | all | nor is any other; those that have more than their share are closed, however short they have not moved |
//!
//! A connection moves when its peer takes output, or when input is read from it. One that waits for
//! another, or whose output waits for the service, is not blamed.
//!
//! A share is half of the budget divided by the connections of the loop, so that those that have
//! less than theirs never have more than half together. A client that asks little at a time, and
//! takes the answers, is served until the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::connection::Phase;
use super::{ConnectionId, Connections, Reason, limits};

/// How often connections that are not read from are looked at again, if nothing else happens.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// How many bytes the buffers of connections have, and may have. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    used: AtomicUsize,
}

/// How full a budget is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pressure {
    #[default]
    None,
    /// Half.
    Some,
    /// Three quarters.
    High,
    /// All of it is used.
    Full,
}

impl Budget {
    /// So many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { limit, used: AtomicUsize::new(0) }))
    }

    /// How many are used.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// How many there are.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    fn change(&self, before: usize, after: usize) {
        if after >= before {
            self.0.used.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.0.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    pub(super) fn pressure(&self) -> Pressure {
        let (used, limit) = (self.used(), self.limit());
        match used {
            _ if used >= limit => Pressure::Full,
            _ if used >= limit - limit / 4 => Pressure::High,
            _ if used >= limit / 2 => Pressure::Some,
            _ => Pressure::None,
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(limits::BUFFERS)
    }
}

impl Connections {
    /// Says how many bytes the service itself keeps of the input of a connection.
    pub fn charge(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.get_mut(id) {
            connection.charged = bytes;
        }
    }

    /// To be called after the buffers of a connection have changed.
    pub(super) fn recount(&mut self, index: usize) {
        let Some(connection) = self.slab.get_mut(index) else { return };
        let after = connection.buffered();
        let before = std::mem::replace(&mut connection.counted, after);
        if before != after {
            self.limits.buffers.change(before, after);
            self.buffered = self.buffered + after - before;
        }
    }

    /// The buffers of a connection are gone.
    pub(super) fn discount(&mut self, counted: usize) {
        self.limits.buffers.change(counted, 0);
        self.buffered -= counted;
    }

    /// What a connection may have before others are preferred.
    fn share(&self) -> usize {
        self.limits.buffers.limit() / 2 / self.slab.len().max(1)
    }

    /// Whether a connection is not to be read from, for what it has in its buffers. It is then
    /// looked at again by itself.
    pub(super) fn is_squeezed(&mut self, index: usize) -> bool {
        let pressure = self.limits.buffers.pressure();
        if pressure == Pressure::None {
            return false;
        }
        let share = self.share();
        let Some(connection) = self.slab.get_mut(index) else { return false };
        let is_squeezed = match pressure {
            Pressure::None => false,
            // One that has sent all is soon done with.
            Pressure::Some => connection.counted > share && !connection.fin,
            Pressure::High => connection.counted > 0,
            Pressure::Full => true,
        };
        if is_squeezed && !std::mem::replace(&mut connection.squeezed, true) {
            if self.squeezed.is_empty() {
                self.squeezed_until = self.now + PAUSE;
            }
            self.squeezed.push(connection.id(index));
        }
        is_squeezed
    }

    /// Lets connections be read from again, if that is allowed now, or looks whether it is after a
    /// while.
    pub(super) fn unsqueeze(&mut self) {
        let pressure = self.limits.buffers.pressure();
        let is_less = pressure < std::mem::replace(&mut self.pressure, pressure);
        if self.squeezed.is_empty() || !is_less && self.now < self.squeezed_until {
            return;
        }
        for id in std::mem::take(&mut self.squeezed) {
            if let Some(connection) = self.get_mut(id) {
                connection.squeezed = false;
                self.list(id.index());
            }
        }
    }

    /// When the loop has to turn again for the sake of buffers, though nothing happens to it:
    /// another one may have given some back, or need some of what this one has.
    pub(super) fn next_squeeze(&self) -> Option<Instant> {
        let has_much = self.buffered > self.limits.buffers.limit() / 4;
        let waits = !self.squeezed.is_empty() || has_much;
        waits.then(|| self.now + PAUSE)
    }

    /// Closes connections that have more than their share and do not move, those first that have
    /// not for longest, until a quarter is free: if all is used; or before, after a moment.
    pub(super) fn relieve(&mut self) {
        let budget = self.limits.buffers.clone();
        let is_full = match budget.pressure() {
            Pressure::Full => true,
            Pressure::High if self.relief_at <= self.now => false,
            _ => return,
        };
        self.relief_at = self.now + PAUSE;
        let (share, now) = (self.share(), self.now);
        let slow = self.slab.iter().filter(|(_, connection)| {
            let is_unread = connection.unsent() > 0 && !connection.writable;
            let is_unfinished = connection.has_input() || connection.charged > 0;
            let is_slow = is_full || connection.moved + limits::MOMENT <= now;
            let is_open = connection.phase != Phase::Lingering;
            is_open && is_slow && connection.counted > share && (is_unread || is_unfinished)
        });
        let mut slow: Vec<_> = slow.map(|(index, connection)| (connection.moved, index)).collect();
        slow.sort_unstable();
        for (_, index) in slow {
            if budget.pressure() < Pressure::High {
                return;
            }
            self.close(index, Reason::NoBuffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_it_is_the_higher_the_pressure() {
        let budget = Budget::new(100);
        let twin = budget.clone();
        for (used, pressure) in [
            (0, Pressure::None),
            (49, Pressure::None),
            (50, Pressure::Some),
            (75, Pressure::High),
            (99, Pressure::High),
            (100, Pressure::Full),
            (300, Pressure::Full),
            (74, Pressure::Some),
            (0, Pressure::None),
        ] {
            twin.change(twin.used(), used);
            assert_eq!((budget.used(), budget.pressure()), (used, pressure));
        }
    }
}
