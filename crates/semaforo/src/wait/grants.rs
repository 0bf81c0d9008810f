//! The grant loop: who is let through when something has changed, and how it is told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::core::{Core, Locked};
use super::kernel::{Kernel, Line};
use super::queue::{Queue, tell};
use super::waiter::{Place, Pointer, standing};
use super::wake::{Wake, Wakes, discard_kept, discard_later, resume};
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
            let wake = queue.answer_now(head, standing);
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
            _ => queue.urgent_lane().unwrap_or_else(|| {
                self.policy.next_lane(state, given, queue.occupied()).min(P::LANES - 1)
            }),
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
            let Err(panic) = round else { break };
            discard_later(panic);
            wakes.has_payloads = true;
            let Some(waiter) = looked_at.take() else { break };
            // SAFETY: the lock is held, and the waiter still stands in its lane.
            unsafe {
                queue.detach(waiter);
                queue.answer(waiter, standing::FAULTED, wakes);
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
                                queue.detach(head);
                                self.nudge(queue, head, wakes);
                            }
                            return;
                        }
                        let standing = self.standing_of_grant(head);
                        queue.lanes[lane].remove(head);
                        queue.waiting -= 1;
                        *state = next;
                        queue.answer(head, standing, wakes);
                    }
                    None if self.policy.expel(*state).is_some() => {
                        queue.detach(head);
                        queue.answer(head, standing::REFUSED, wakes);
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
    pub(super) unsafe fn standing_of_grant(&self, waiter: Pointer<P::Ask>) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let tentative = !own.notes(|notes| notes.thread) && self.policy.undo(own.ask).is_some();
            if tentative { standing::GRANTED } else { standing::SERVED }
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
                wakes.push(tell(waiter, true, standing::RETRY));
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
            let tried = queue.detach(waiter) == Place::Nudged;
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
            own.notes(|notes| notes.overtaken(u8::from(tried), OVERTAKEN_AT_MOST));
            queue.join(waiter, lane, true);
            wakes.arm |= queue.must_arm();
            standing::WAITING
        }
    }

    /// Wakes those who came after a waiter that was served, or not, by its own visit. If a waker
    /// panics, the visit does too, and keeps nothing; unless it is part of a panic already.
    pub(super) fn finish_visit(&self, wakes: &mut Wakes, standing: u8, ask: P::Ask) {
        self.finish(wakes);
        if wakes.has_panic() && !std::thread::panicking() {
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

    /// [`undo`](Self::undo) for the watchdog, which has other grants to look after if the policy panics
    /// over this one.
    fn undo_caught(&self, state: &mut u64, ask: P::Ask, wakes: &mut Wakes) -> Option<P::Give> {
        if P::TRUST.never_panics() {
            return self.undo(state, ask);
        }
        let undone = catch_unwind(AssertUnwindSafe(|| self.undo(state, ask)));
        undone.unwrap_or_else(|panic| {
            discard_later(panic);
            wakes.has_payloads = true;
            None
        })
    }

    /// Lets everyone who waits now pass, without touching the state. Returns how many.
    pub(crate) fn pass_all(&self) -> usize {
        let mut wakes = Wakes::new();
        let passed = self.lock().change(|_, queue, _| {
            let passed = queue.waiting + queue.dormants;
            while let Some(waiter) = queue.dormant.front().or_else(|| queue.first_in_a_lane()) {
                // SAFETY: the lock is held, and what is in a list is alive.
                unsafe {
                    queue.detach(waiter);
                    queue.answer(waiter, standing::PASSED, &mut wakes);
                }
            }
            passed as usize
        });
        self.finish(&mut wakes);
        wakes.resume_panic();
        passed
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
                let place = queue.detach(waiter);
                queue.rest(waiter, wakes);
                let given = match place {
                    Place::Granted => self.undo_caught(state, ask, wakes),
                    _ => None,
                };
                self.settle(queue, state, given, wakes);
            }
        }
    }

    /// What [`finish`](Kernel::finish) seldom has to do: tell waiters that found no room in the batch, and
    /// drop the payloads of a policy's panics.
    #[cold]
    pub(super) fn finish_more(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.has_payloads) {
            discard_kept();
        }
        while std::mem::take(&mut wakes.deferred) {
            self.lock().change(|core, queue, state| {
                queue.tell_deferred(wakes);
                core.settle(queue, state, None, wakes);
            });
            self.arm_and_wake(wakes);
            discard_kept();
        }
    }

    /// Arms the watchdog first: a waker may wait for what somebody else was granted.
    #[inline]
    pub(super) fn arm_and_wake(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.arm) {
            self.arm();
        }
        wakes.wake_some(|| self.counted());
    }
}
