//! The lists of the waiters of one object: its lanes, and those that were granted, are dormant, or
//! have to be told.

use std::task::Waker;

use super::list::List;
use super::waiter::{Lane, ListKind, Pointer, WaiterState};
use super::wake::{Wake, Wakes};
use crate::policy::{Lanes, MAX_LANES};

/// Everything that the lock protects. What every operation touches comes first, to share a cache
/// line with the word.
#[repr(C)]
pub(crate) struct WaitLists<A> {
    /// How many are in the lanes.
    pub(crate) waiting: u32,
    /// How many were told to try again and have not come yet.
    pub(crate) retrying: u32,
    /// How many are dormant.
    pub(crate) dormant_number: u32,
    /// The watchdog's entry is, or is about to be, in the timer.
    pub(crate) armed: bool,
    /// A waiter has been urgent: the first of some lane may be.
    urgent: bool,
    /// Tasks that were granted (or told to try again) and have not come yet.
    pub(crate) granted: List<A>,
    pub(crate) lanes: [List<A>; MAX_LANES],
    /// Tasks whose grants were taken back, until they are polled again.
    pub(crate) dormant: List<A>,
    /// Those who were answered but not told, because the batch of wake-ups was full.
    pub(crate) deferred: List<A>,
}

impl<A> WaitLists<A> {
    pub(super) const fn new() -> Self {
        Self {
            waiting: 0,
            retrying: 0,
            dormant_number: 0,
            armed: false,
            urgent: false,
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

    /// Who is first in a lane.
    #[inline]
    pub(crate) fn first(&self, lane: Lane) -> Option<Pointer<A>> {
        self.lanes[lane.number()].front()
    }

    /// How many are in one lane.
    pub(crate) fn count(&self, lane: Lane) -> usize {
        let list = &self.lanes[lane.number()];
        // SAFETY: the lock is held, and what is in a lane is alive.
        std::iter::successors(list.front(), |waiter| unsafe { list.after(*waiter) }).count()
    }

    /// Somebody who is on a list.
    pub(super) fn any_waiter(&self) -> Option<Pointer<A>> {
        let lists = [&self.granted, &self.deferred, &self.dormant];
        self.first_in_a_lane().or_else(|| lists.into_iter().find_map(List::front))
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

    /// Puts a newcomer last in a lane, or a task that was passed over first.
    ///
    /// # Safety
    /// The lock is held, and the waiter is pinned, prepared, and on no list.
    #[inline]
    pub(crate) unsafe fn join(&mut self, waiter: Pointer<A>, lane: Lane, first: bool) {
        // SAFETY: passed on from the caller.
        unsafe {
            waiter.as_ref().set_state(WaiterState::Waiting);
            self.receive(waiter, lane, first);
        }
    }

    /// Puts a task that waits again into a lane, behind those at its front who come before it.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    pub(crate) unsafe fn join_behind(
        &mut self,
        waiter: Pointer<A>,
        lane: Lane,
        comes_before: impl Fn(Pointer<A>) -> bool,
    ) {
        let list = &mut self.lanes[lane.number()];
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            let others = std::iter::successors(list.front(), |other| list.after(*other));
            let behind = others.take_while(|other| comes_before(*other)).last();
            waiter.as_ref().set_state(WaiterState::Waiting);
            waiter.as_ref().notes(|notes| notes.list = ListKind::Lane(lane));
            match behind {
                Some(other) => list.insert_after(other, waiter),
                None => list.push_front(waiter),
            }
        }
        self.waiting += 1;
    }

    /// Puts a waiter from elsewhere, which may be asleep, last in a lane, or first.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    #[inline]
    pub(crate) unsafe fn receive(&mut self, waiter: Pointer<A>, lane: Lane, first: bool) {
        // SAFETY: passed on from the caller.
        unsafe {
            waiter.as_ref().notes(|notes| notes.list = ListKind::Lane(lane));
            let list = &mut self.lanes[lane.number()];
            if first { list.push_front(waiter) } else { list.push_back(waiter) }
        }
        self.waiting += 1;
    }

    /// Lets the first in its lane go before all others, whatever the policy says.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive.
    pub(super) unsafe fn prioritize(&mut self, waiter: Pointer<A>) {
        self.urgent = true;
        // SAFETY: passed on from the caller.
        unsafe { waiter.as_ref().notes(|notes| notes.set_urgent()) };
    }

    /// The lane whose first one goes before all others.
    #[inline]
    pub(super) fn urgent_lane(&self) -> Option<usize> {
        if !self.urgent {
            return None;
        }
        self.lanes.iter().position(|lane| {
            // SAFETY: the lock is held, and what is in a lane is alive.
            lane.front().is_some_and(|first| unsafe { first.as_ref().notes(|n| n.is_urgent()) })
        })
    }

    /// Takes a waiter off whatever list it is on, and tells where it was.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive, where its notes say, and not on the list of a
    /// condition.
    #[inline]
    pub(crate) unsafe fn detach(&mut self, waiter: Pointer<A>) -> ListKind {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let (place, thread) = own.notes(|notes| {
                (std::mem::replace(&mut notes.list, ListKind::Nowhere), notes.thread)
            });
            match place {
                ListKind::Lane(lane) => {
                    self.lanes[lane.number()].remove(waiter);
                    self.waiting -= 1;
                }
                ListKind::Granted => self.granted.remove(waiter),
                ListKind::Retrying => {
                    self.retrying -= 1;
                    if !thread {
                        self.granted.remove(waiter);
                    }
                }
                ListKind::Deferred => self.deferred.remove(waiter),
                ListKind::Dormant => {
                    self.dormant.remove(waiter);
                    self.dormant_number -= 1;
                }
                ListKind::Nowhere | ListKind::Condition => {}
            }
            place
        }
    }

    /// Takes a waiter off its lane to be answered at once.
    ///
    /// # Safety
    /// The lock is held, and the waiter is in this lane.
    #[inline]
    pub(super) unsafe fn leave_lane(&mut self, waiter: Pointer<A>, lane: Lane) {
        // SAFETY: passed on from the caller.
        unsafe { self.lanes[lane.number()].remove(waiter) };
        self.waiting -= 1;
    }

    /// Takes a waiter off its lane, unless it is first there and others wait. False if it is not in a
    /// lane, or stays.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    #[inline]
    pub(super) unsafe fn leave_from_behind(&mut self, waiter: Pointer<A>) -> bool {
        // SAFETY: passed on from the caller.
        unsafe {
            let ListKind::Lane(lane) = waiter.as_ref().notes(|notes| notes.list) else {
                return false;
            };
            if self.waiting > 1 && self.first(lane) == Some(waiter) {
                return false;
            }
            waiter.as_ref().notes(|notes| notes.list = ListKind::Nowhere);
            self.leave_lane(waiter, lane);
        }
        true
    }

    /// Answers a waiter that has been taken off its list.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    #[inline]
    pub(crate) unsafe fn answer(
        &mut self,
        waiter: Pointer<A>,
        state: WaiterState,
        wakes: &mut Wakes,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            if wakes.is_full() {
                self.defer(waiter, state);
                wakes.deferred = true;
                return;
            }
            wakes.push(self.answer_now(waiter, state));
        }
    }

    /// Answers a waiter that has been taken off its list, and leaves it to
    /// [`tell_deferred`](Self::tell_deferred) to tell it.
    ///
    /// # Safety
    /// As [`answer`](Self::answer).
    pub(crate) unsafe fn defer(&mut self, waiter: Pointer<A>, state: WaiterState) {
        // SAFETY: passed on from the caller.
        unsafe {
            waiter.as_ref().notes(|notes| {
                notes.list = ListKind::Deferred;
                notes.set_answer(state);
            });
            self.deferred.push_back(waiter);
        }
    }

    /// [`answer`](Self::answer), for a caller that makes the wake-up itself.
    ///
    /// # Safety
    /// As `answer`.
    #[inline]
    pub(super) unsafe fn answer_now(
        &mut self,
        waiter: Pointer<A>,
        state: WaiterState,
    ) -> Option<Wake> {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            if state == WaiterState::Granted {
                own.notes(|notes| {
                    notes.list = ListKind::Granted;
                    notes.set_number(0);
                });
                self.granted.push_back(waiter);
                let waker = own.swap_waker(None);
                own.set_state(WaiterState::Granted);
                return Wake::task(waker);
            }
            let thread = own.notes(|notes| {
                notes.list = ListKind::Nowhere;
                notes.thread
            });
            tell(waiter, thread, state)
        }
    }

    /// Tells the waiters for which there was no space in the batch of wake-ups, as many as there is space
    /// for now.
    pub(crate) fn tell_deferred(&mut self, wakes: &mut Wakes) {
        while let Some(waiter) = self.deferred.front().filter(|_| !wakes.is_full()) {
            // SAFETY: the lock is held, and what is in a list is alive.
            unsafe {
                let answer = waiter.as_ref().notes(|notes| notes.answer());
                self.detach(waiter);
                self.answer(waiter, answer, wakes);
            }
        }
        wakes.deferred = !self.deferred.is_empty();
    }

    /// Takes a waiter that claims its grant off the list, if it was granted something that was not
    /// taken back.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    #[inline]
    pub(super) unsafe fn claim(&mut self, waiter: Pointer<A>) -> bool {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let granted = own.notes(|notes| notes.list) == ListKind::Granted;
            if granted {
                self.granted.remove(waiter);
                own.notes(|notes| notes.list = ListKind::Nowhere);
            }
            granted
        }
    }

    /// Looks after a queued task that is being polled. `fresh` is a clone of its waker, if one was
    /// made, and afterwards a waker to drop once the lock is released.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    pub(super) unsafe fn visit(
        &mut self,
        waiter: Pointer<A>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
    ) -> Visit {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            match own.notes(|notes| notes.list) {
                ListKind::Granted => {
                    self.detach(waiter);
                    Visit::Is(WaiterState::Served)
                }
                ListKind::Deferred => {
                    self.detach(waiter);
                    match own.notes(|notes| notes.answer()) {
                        WaiterState::Granted => Visit::Is(WaiterState::Served),
                        answer => Visit::Is(answer),
                    }
                }
                ListKind::Lane(_) | ListKind::Condition => {
                    if !own.would_wake(waker) {
                        match fresh.take() {
                            None => return Visit::NeedsWaker,
                            new => *fresh = own.swap_waker(new),
                        }
                    }
                    Visit::Is(WaiterState::Waiting)
                }
                ListKind::Retrying | ListKind::Dormant => {
                    let Some(new) = fresh.take() else { return Visit::NeedsWaker };
                    *fresh = own.swap_waker(Some(new));
                    Visit::PassedOver
                }
                ListKind::Nowhere => Visit::Answered,
            }
        }
    }

    /// What a waiter was granted, and has neither claimed nor been told for good: to be given back if
    /// it leaves.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive.
    pub(super) unsafe fn holds_grant(&self, waiter: Pointer<A>) -> bool {
        // SAFETY: passed on from the caller.
        unsafe {
            waiter.as_ref().notes(|notes| match notes.list {
                ListKind::Granted => true,
                ListKind::Deferred => {
                    matches!(notes.answer(), WaiterState::Granted | WaiterState::Served)
                }
                _ => false,
            })
        }
    }

    /// Puts a task whose grant was taken back among the dormant ones, or ends it, if an end came in
    /// the meantime.
    ///
    /// # Safety
    /// The lock is held, the waiter is alive, a task's, and on no list; there is space in `wakes`.
    pub(crate) unsafe fn make_dormant(&mut self, waiter: Pointer<A>, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            if let Some(end) = own.notes(|notes| notes.late_end()) {
                return wakes.push(tell(waiter, false, end));
            }
            own.notes(|notes| notes.list = ListKind::Dormant);
            self.dormant.push_back(waiter);
            self.dormant_number += 1;
            own.set_state(WaiterState::Dormant);
        }
    }
}

/// What a poll of a queued request found.
pub(super) enum Visit {
    /// The request now stands like this.
    Is(WaiterState),
    /// A waker has to be cloned, for which the lock has to be let go.
    NeedsWaker,
    /// It was answered in the meantime.
    Answered,
    /// It was passed over, and has a new waker: let it stand first.
    PassedOver,
}

/// Stores a state that gives the waiter back to its owner; last, because the waiter may be
/// gone at that instant.
///
/// # Safety
/// The lock is held, and the waiter is alive and on no list.
#[inline]
pub(super) unsafe fn tell<A>(waiter: Pointer<A>, thread: bool, state: WaiterState) -> Option<Wake> {
    // SAFETY: passed on from the caller.
    unsafe {
        let own = waiter.as_ref();
        if thread && own.answer_spinning(state) {
            return None;
        }
        let waker = own.swap_waker(None);
        own.set_state(state);
        if thread { Wake::thread(waker) } else { Wake::task(waker) }
    }
}
