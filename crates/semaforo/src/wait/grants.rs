//! The grant loop: who is let through when something has changed, and how it is told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::core::{Core, Locked};
use super::kernel::Kernel;
use super::queue::Queue;
use super::waiter::{Place, Pointer, standing};
use super::wake::{Wake, Wakes, resume};
use crate::policy::Policy;
use crate::primitive::MODELLED;

/// How often a barging mode lets newcomers overtake the same waiter after waking it.
pub(super) const OVERTAKEN_AT_MOST: u8 = if MODELLED { 1 } else { 4 };

/// What came of handing over to the first in line.
enum HandOver {
    /// One waiter was granted, or nobody waits, and that is all.
    One { wake: Option<Wake>, arm: bool },
    /// There may be more to do, after this wake-up.
    First(Option<Wake>),
}

impl<P: Policy> Core<P> {
    /// Lets through whom a change allows, and wakes them once the lock is released.
    #[inline]
    pub(super) fn settle_and_wake(&self, mut locked: Locked<'_, P>, given: Option<P::Give>) {
        let handed = locked.change(|core, queue, state| core.hand_over(queue, state, given));
        let (wake, arm) = match handed {
            HandOver::One { wake, arm } => (wake, arm),
            HandOver::First(first) => return self.settle_and_wake_many(locked, given, first),
        };
        drop(locked);
        if arm {
            self.arm();
        }
        if let Some(panic) = wake.and_then(Wake::wake) {
            resume(panic);
        }
    }

    #[inline(never)]
    fn settle_and_wake_many(
        &self,
        locked: Locked<'_, P>,
        given: Option<P::Give>,
        first: Option<Wake>,
    ) {
        let mut wakes = Wakes::new();
        // Unwinding must release the lock before it wakes anybody.
        let mut locked = locked;
        wakes.push(first);
        locked.change(|core, queue, state| core.settle(queue, state, given, &mut wakes));
        drop(locked);
        self.finish(&mut wakes);
        wakes.resume_panic();
    }

    /// The grant loop's commonest case, without its apparatus: one waiter gets what it asked for.
    #[inline]
    fn hand_over(
        &self,
        queue: &mut Queue<P::Ask>,
        state: &mut u64,
        given: Option<P::Give>,
    ) -> HandOver {
        if !P::TRUST.never_panics() || self.barging() {
            return HandOver::First(None);
        }
        let Some((lane, head)) = self.head(queue, *state, given) else {
            return HandOver::One { wake: None, arm: false };
        };
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            let Some(next) = self.policy.acquire(*state, head.as_ref().ask) else {
                return HandOver::First(None);
            };
            let standing = self.standing_of_grant(head);
            queue.lanes[lane].remove(head);
            queue.waiting -= 1;
            *state = next;
            let wake = self.answer_now(queue, head, standing);
            let another = self.head(queue, *state, given);
            if another
                .is_some_and(|(_, head)| self.policy.acquire(*state, head.as_ref().ask).is_some())
            {
                return HandOver::First(wake);
            }
            HandOver::One { wake, arm: queue.must_arm() }
        }
    }

    /// Who is looked at next, and in which lane.
    #[inline]
    fn head(
        &self,
        queue: &Queue<P::Ask>,
        state: u64,
        given: Option<P::Give>,
    ) -> Option<(usize, Pointer<P::Ask>)> {
        if queue.waiting == 0 {
            return None;
        }
        let lane = match P::LANES {
            1 => 0,
            _ => self.policy.next_lane(state, given, queue.occupied()).min(P::LANES - 1),
        };
        queue.lanes[lane].front().map(|head| (lane, head))
    }

    /// The grant loop: looks at the head of the lane whose turn it is, and grants, refuses, or
    /// stops. In barging mode it only wakes the head to try again, one at a time, unless that one
    /// was overtaken too often.
    pub(super) fn settle(
        &self,
        queue: &mut Queue<P::Ask>,
        state: &mut u64,
        given: Option<P::Give>,
        wakes: &mut Wakes,
    ) {
        if P::TRUST.never_panics() {
            self.settle_heads(queue, state, given, wakes, &mut None);
        } else {
            self.settle_caught(queue, state, given, wakes);
        }
        wakes.arm |= queue.must_arm();
    }

    /// The grant loop, for a policy that may panic over a request: that one is ended, the others go
    /// on, and its owner will panic in turn.
    fn settle_caught(
        &self,
        queue: &mut Queue<P::Ask>,
        state: &mut u64,
        given: Option<P::Give>,
        wakes: &mut Wakes,
    ) {
        let mut looked_at = None;
        while queue.waiting > 0 {
            let round = catch_unwind(AssertUnwindSafe(|| {
                self.settle_heads(queue, state, given, wakes, &mut looked_at);
            }));
            let (Err(_), Some(waiter)) = (round, looked_at.take()) else { break };
            // SAFETY: the lock is held, and the waiter still stands in its lane.
            unsafe {
                self.detach(queue, waiter);
                self.answer(queue, waiter, standing::FAULTED, wakes);
            }
        }
    }

    #[inline]
    fn settle_heads(
        &self,
        queue: &mut Queue<P::Ask>,
        state: &mut u64,
        given: Option<P::Give>,
        wakes: &mut Wakes,
        looked_at: &mut Option<Pointer<P::Ask>>,
    ) {
        // If the policy panics over the lanes, nobody was looked at; and who was answered is gone.
        while let Some((lane, head)) = {
            *looked_at = None;
            self.head(queue, *state, given)
        } {
            *looked_at = Some(head);
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                let ask = head.as_ref().ask;
                match self.policy.acquire(*state, ask) {
                    Some(next) => {
                        if self.barging() && !self.is_strict(queue) {
                            if wakes.is_full() {
                                // Whoever makes the wake-ups looks again.
                                wakes.deferred = true;
                            } else if queue.nudged == 0 {
                                self.detach(queue, head);
                                self.nudge(queue, head, wakes);
                            }
                            return;
                        }
                        let standing = self.standing_of_grant(head);
                        queue.lanes[lane].remove(head);
                        queue.waiting -= 1;
                        *state = next;
                        self.answer(queue, head, standing, wakes);
                    }
                    None if self.policy.expel(*state).is_some() => {
                        self.detach(queue, head);
                        self.answer(queue, head, standing::REFUSED, wakes);
                    }
                    None => {
                        // Something was given, but not enough for the head: newcomers may have
                        // had it.
                        if given.is_some() && self.barging() {
                            head.as_ref().notes(|notes| notes.overtaken(1, OVERTAKEN_AT_MOST));
                        }
                        return;
                    }
                }
            }
        }
    }

    /// How a grant makes its waiter stand: `GRANTED`, unless it is final, as it is for a thread and
    /// for a policy with nothing to take back.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive.
    #[inline]
    unsafe fn standing_of_grant(&self, waiter: Pointer<P::Ask>) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let tentative = !own.notes(|notes| notes.thread) && self.policy.undo(own.ask).is_some();
            if tentative { standing::GRANTED } else { standing::SERVED }
        }
    }

    /// Answers a waiter that has been taken off its list, and asks the policy nothing.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    #[inline]
    pub(super) unsafe fn answer(
        &self,
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
        standing: u8,
        wakes: &mut Wakes,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            if wakes.is_full() {
                waiter.as_ref().notes(|notes| {
                    notes.place = Place::Deferred;
                    notes.set_number(standing);
                });
                queue.deferred.push_back(waiter);
                wakes.deferred = true;
                return;
            }
            wakes.push(self.answer_now(queue, waiter, standing));
        }
    }

    /// [`answer`](Self::answer), to whoever is going to make the wake-up.
    ///
    /// # Safety
    /// As `answer`.
    #[inline]
    unsafe fn answer_now(
        &self,
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
        standing: u8,
    ) -> Option<Wake> {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            if standing == standing::GRANTED {
                own.notes(|notes| {
                    notes.place = Place::Granted;
                    notes.set_number(0);
                });
                queue.granted.push_back(waiter);
                let waker = own.swap_waker(None);
                own.stand(standing::GRANTED);
                return Wake::task(waker);
            }
            let thread = own.notes(|notes| {
                notes.place = Place::Nowhere;
                notes.thread
            });
            self.tell(waiter, thread, standing)
        }
    }

    /// Stores a standing that gives the waiter back to its owner; last, because the waiter may be
    /// gone at that instant.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    #[inline]
    unsafe fn tell(&self, waiter: Pointer<P::Ask>, thread: bool, standing: u8) -> Option<Wake> {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            if thread && own.answer_spinning(standing) {
                return None;
            }
            let waker = own.swap_waker(None);
            own.stand(standing);
            if thread { Wake::thread(waker) } else { Wake::task(waker) }
        }
    }

    /// Barging mode: tells a waiter to try again.
    ///
    /// # Safety
    /// The lock is held, the waiter is alive and on no list, and there is room in `wakes`.
    unsafe fn nudge(&self, queue: &mut Queue<P::Ask>, waiter: Pointer<P::Ask>, wakes: &mut Wakes) {
        queue.nudged += 1;
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let thread = own.notes(|notes| {
                notes.place = Place::Nudged;
                notes.forget_seen();
                notes.thread
            });
            if thread {
                wakes.push(self.tell(waiter, true, standing::RETRY));
            } else {
                queue.granted.push_back(waiter);
                wakes.push(Wake::task(own.swap_waker(None)));
                own.stand(standing::RETRY);
            }
        }
    }

    /// Lets a waiter that was passed over (dormant, or told to try again) have what it asks for, or
    /// puts it first in its lane.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    pub(super) unsafe fn stand_first(
        &self,
        queue: &mut Queue<P::Ask>,
        state: &mut u64,
        waiter: Pointer<P::Ask>,
        wakes: &mut Wakes,
    ) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let tried = self.detach(queue, waiter) == Place::Nudged;
            // Until it stands otherwise: this is its owner, who must not look again if the policy
            // panics.
            own.stand(standing::FAULTED);
            if let Some(next) = self.policy.acquire(*state, own.ask) {
                *state = next;
                // In barging mode the next one may have what is left.
                self.settle(queue, state, None, wakes);
                return standing::SERVED;
            }
            if self.policy.expel(*state).is_some() {
                self.settle(queue, state, None, wakes);
                return standing::REFUSED;
            }
            let lane = self.lane(own.ask);
            own.notes(|notes| {
                notes.place = Place::Lane(lane);
                notes.overtaken(u8::from(tried), OVERTAKEN_AT_MOST);
            });
            own.stand(standing::WAITING);
            queue.lanes[lane.number()].push_front(waiter);
            queue.waiting += 1;
            wakes.arm |= queue.must_arm();
            standing::WAITING
        }
    }

    /// For a thread that was told to try again.
    ///
    /// # Safety
    /// The waiter is pinned, belongs to this thread, and its standing is `RETRY`.
    pub(crate) unsafe fn retry(&self, waiter: Pointer<P::Ask>) -> u8 {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; passed on from the caller.
        let standing = self.lock().change(|core, queue, state| unsafe {
            core.stand_first(queue, state, waiter, &mut wakes)
        });
        // SAFETY: the owner's waiter is alive.
        self.finish_visit(&mut wakes, standing, unsafe { waiter.as_ref() }.ask);
        standing
    }

    /// Wakes those who came after a waiter that was served, or not, by its own visit. If a waker
    /// panics, the visit does too, and keeps nothing.
    pub(super) fn finish_visit(&self, wakes: &mut Wakes, standing: u8, ask: P::Ask) {
        self.finish(wakes);
        if wakes.has_panic() {
            if standing == standing::SERVED {
                self.give_back(ask, wakes);
            }
            wakes.resume_panic();
        }
    }

    /// Passes on what was granted for good, and wakes those who get it.
    #[cold]
    pub(super) fn give_back(&self, ask: P::Ask, wakes: &mut Wakes) {
        self.lock().change(|core, queue, state| {
            let given = core.undo(state, ask);
            core.settle(queue, state, given, wakes);
        });
        self.finish(wakes);
    }

    /// The state after a grant was given back, if it can be.
    pub(super) fn undo(&self, state: &mut u64, ask: P::Ask) -> Option<P::Give> {
        let give = self.policy.undo(ask)?;
        if let Ok(next) = self.policy.release(*state, give) {
            *state = next;
        }
        Some(give)
    }

    /// Lets everyone who waits now pass, without touching the state. Returns how many.
    pub(crate) fn pass_all(&self) -> usize {
        let mut wakes = Wakes::new();
        let passed = self.lock().change(|core, queue, _| {
            let passed = queue.waiting + queue.dormants;
            while let Some(waiter) = queue.dormant.front().or_else(|| queue.first_in_a_lane()) {
                // SAFETY: the lock is held, and what is in a list is alive.
                unsafe {
                    core.detach(queue, waiter);
                    core.answer(queue, waiter, standing::PASSED, &mut wakes);
                }
            }
            passed as usize
        });
        self.finish(&mut wakes);
        wakes.resume_panic();
        passed
    }

    /// Ends a waiter for an outside reason, if it still waits.
    ///
    /// # Safety
    /// The waiter is alive and was queued here.
    pub(crate) unsafe fn end_waiter(
        &self,
        waiter: Pointer<P::Ask>,
        standing: u8,
        wakes: &mut Wakes,
    ) {
        // SAFETY: the lock is held, and the waiter is where its notes say.
        self.lock().change(|core, queue, state| unsafe {
            let own = waiter.as_ref();
            let (place, thread) = own.notes(|notes| (notes.place, notes.thread));
            match place {
                // A thread that was told to try again is already on its way, and will see for
                // itself.
                Place::Nudged if thread => return,
                // A grant wins, unless it is taken back.
                Place::Granted | Place::Deferred => {
                    return own.notes(|notes| notes.end_late(standing == standing::CANCELLED));
                }
                Place::Nowhere => return,
                Place::Lane(_) | Place::Nudged | Place::Dormant => {}
            }
            core.detach(queue, waiter);
            wakes.push(core.tell(waiter, thread, standing));
            core.settle(queue, state, None, wakes);
        });
    }

    /// Takes a grant that was left unclaimed twice back, if others wait.
    pub(super) fn take_back(&self, queue: &mut Queue<P::Ask>, state: &mut u64, wakes: &mut Wakes) {
        let mut next = queue.granted.front();
        let last = queue.granted.back();
        while let Some(waiter) = next {
            // SAFETY: the lock is held, and what is in a list is alive.
            unsafe {
                // What is granted meanwhile comes behind the last.
                next = queue.granted.after(waiter).filter(|_| Some(waiter) != last);
                let own = waiter.as_ref();
                if queue.waiting == 0 {
                    return;
                }
                if own.notes(|notes| notes.see_granted()) {
                    continue;
                }
                if wakes.is_full() {
                    return;
                }
                let ask = own.ask;
                let place = self.detach(queue, waiter);
                match own.notes(|notes| notes.late_end()) {
                    Some(end) => wakes.push(self.tell(waiter, false, end)),
                    None => {
                        own.notes(|notes| notes.place = Place::Dormant);
                        queue.dormant.push_back(waiter);
                        queue.dormants += 1;
                        own.stand(standing::DORMANT);
                    }
                }
                let given = if place == Place::Granted { self.undo(state, ask) } else { None };
                self.settle(queue, state, given, wakes);
            }
        }
    }

    /// What [`finish`](Kernel::finish) seldom has to do: tell those who found no room in the batch.
    #[cold]
    pub(super) fn finish_more(&self, wakes: &mut Wakes) {
        while std::mem::take(&mut wakes.deferred) {
            self.lock().change(|core, queue, state| {
                while let Some(waiter) = queue.deferred.front().filter(|_| !wakes.is_full()) {
                    // SAFETY: the lock is held, and what is in a list is alive.
                    unsafe {
                        let answer = waiter.as_ref().notes(|notes| notes.number());
                        core.detach(queue, waiter);
                        core.answer(queue, waiter, answer, wakes);
                    }
                }
                wakes.deferred = !queue.deferred.is_empty();
                core.settle(queue, state, None, wakes);
            });
            self.arm_and_wake(wakes);
        }
    }

    /// Arms the watchdog first: a waker may wait for what somebody else was granted.
    #[inline]
    pub(super) fn arm_and_wake(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.arm) {
            self.arm();
        }
        wakes.wake();
    }
}
