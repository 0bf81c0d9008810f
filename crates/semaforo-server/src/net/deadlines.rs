//! Deadlines of connections, cheap to move.
//!
//! A deadline moves far more often than it passes (every request of a kept-alive connection moves
//! it), so moving it later leaves the heap alone: the earlier entry stays, and when its time comes
//! the true deadline is looked up and entered anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::ConnectionId;

/// The two deadlines of a connection, and the heap entry that stands for them.
#[derive(Debug, Default)]
pub(super) struct Timer {
    /// Set by the service.
    pub(super) service: Option<Instant>,
    /// Set by the layer: stuck output, or the end of lingering.
    pub(super) layer: Option<Instant>,
    /// The earliest heap entry; later ones may exist and are ignored.
    entered: Option<Instant>,
}

impl Timer {
    fn earliest(&self) -> Option<Instant> {
        match (self.service, self.layer) {
            (Some(service), Some(layer)) => Some(service.min(layer)),
            (service, layer) => service.or(layer),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(Instant, ConnectionId)>>,
}

impl Deadlines {
    /// To be called after a deadline of the timer was changed.
    pub(super) fn enter(&mut self, id: ConnectionId, timer: &mut Timer) {
        let Some(deadline) = timer.earliest() else { return };
        if timer.entered.is_none_or(|entered| deadline < entered) {
            timer.entered = Some(deadline);
            self.heap.push(Reverse((deadline, id)));
        }
    }

    /// When to look again: at the latest when the next deadline passes, perhaps earlier.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes an entry whose time has come. Whether a deadline has passed is for [`Self::settle`] to
    /// say.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, ConnectionId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Whether a deadline of this timer has passed; if not, it is entered again as needed.
    pub(super) fn settle(
        &mut self,
        at: Instant,
        id: ConnectionId,
        timer: &mut Timer,
        now: Instant,
    ) -> bool {
        if timer.entered != Some(at) {
            return false;
        }
        timer.entered = None;
        if timer.earliest().is_some_and(|deadline| deadline <= now) {
            return true;
        }
        self.enter(id, timer);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ID: ConnectionId = ConnectionId { serial: 7, index: 3 };

    fn passed(deadlines: &mut Deadlines, timer: &mut Timer, now: Instant) -> bool {
        let mut passed = false;
        while let Some((at, id)) = deadlines.pop(now) {
            passed |= deadlines.settle(at, id, timer, now);
        }
        passed
    }

    #[test]
    fn a_deadline_that_moved_later_passes_once_and_late() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut deadlines, mut timer) = (Deadlines::default(), Timer::default());
        timer.service = Some(after(1));
        deadlines.enter(ID, &mut timer);
        timer.service = Some(after(5));
        deadlines.enter(ID, &mut timer);
        assert_eq!(deadlines.heap.len(), 1, "moving it later enters nothing");
        assert!(!passed(&mut deadlines, &mut timer, after(2)));
        assert_eq!(deadlines.next(), Some(after(5)));
        assert!(passed(&mut deadlines, &mut timer, after(5)));
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn a_deadline_that_moved_earlier_passes_early_and_once() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut deadlines, mut timer) = (Deadlines::default(), Timer::default());
        timer.service = Some(after(5));
        deadlines.enter(ID, &mut timer);
        timer.layer = Some(after(1));
        deadlines.enter(ID, &mut timer);
        assert!(passed(&mut deadlines, &mut timer, after(1)));
        timer.layer = None;
        timer.service = None;
        assert!(!passed(&mut deadlines, &mut timer, after(9)));
        assert_eq!(deadlines.next(), None, "nothing is left behind");
    }
}
