//! Who waits on one object, who was granted, and who has to be told.

use super::list::List;
use super::waiter::Pointer;
use crate::policy::{Lanes, MAX_LANES};

/// Everything that the lock protects. What every operation touches comes first, to share a cache
/// line with the word.
#[repr(C)]
pub(super) struct Queue<A> {
    /// How many are in the lanes.
    pub(super) waiting: u32,
    /// How many were told to try again and have not come yet.
    pub(super) nudged: u32,
    /// How many are dormant.
    pub(super) dormants: u32,
    /// The watchdog's entry is, or is about to be, in the timer.
    pub(super) armed: bool,
    /// Tasks that were granted (or told to try again) and have not come yet.
    pub(super) granted: List<A>,
    pub(super) lanes: [List<A>; MAX_LANES],
    /// Tasks whose grants were taken back, until they are polled again.
    pub(super) dormant: List<A>,
    /// Those who were answered but not told, because the batch of wake-ups was full.
    pub(super) deferred: List<A>,
}

impl<A> Queue<A> {
    pub(super) const fn new() -> Self {
        Self {
            waiting: 0,
            nudged: 0,
            dormants: 0,
            armed: false,
            granted: List::new(),
            lanes: [const { List::new() }; MAX_LANES],
            dormant: List::new(),
            deferred: List::new(),
        }
    }

    /// Somebody who waits, the first of its lane.
    pub(super) fn first_in_a_lane(&self) -> Option<Pointer<A>> {
        self.lanes.iter().find_map(List::front)
    }

    pub(super) fn occupied(&self) -> Lanes {
        let bits = (0..MAX_LANES)
            .fold(0, |bits, lane| bits | u8::from(!self.lanes[lane].is_empty()) << lane);
        Lanes::from_bits(bits)
    }

    /// Whether the watchdog is needed and not there; notes that it will be.
    #[inline]
    pub(super) fn must_arm(&mut self) -> bool {
        if self.granted.is_empty() || self.armed || self.waiting == 0 {
            return false;
        }
        self.armed = true;
        true
    }
}
