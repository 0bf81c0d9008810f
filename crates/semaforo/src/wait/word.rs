//! Objects whose state is one word: a policy as a rule, its lock a bit of that word.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::contended::{Attempt, ContendedObject, Locked};
use super::rule::{Arrival, Coming, Lock, ObjectRule};
use super::wait_lists::{WaitLists, tell};
use super::waiter::{Lane, ListKind, Pointer, WaiterState};
use super::wake::{Wake, Wakes, discard_later, resume};
use crate::policy::{Policy, STATE_BITS};
use crate::primitive::{AtomicU64, MODELLED, Ordering};

/// A thread holds the lock and is the only one to write the word.
const LOCKED: u64 = 1 << 63;
/// Releasing has to look at the lists and, unless barging, acquiring has to join them.
const WAITERS: u64 = 1 << 62;
/// In barging mode: a waiter has come too late too often, so no request overtakes until it is served.
const STRICT: u64 = 1 << 61;
/// What is left for the policy.
pub(crate) const STATE: u64 = (1 << STATE_BITS) - 1;

const _: () = assert!(STATE == STRICT - 1);

/// How often a barging mode lets newcomers overtake the same waiter after waking it.
const OVERTAKEN_AT_MOST: u8 = if MODELLED { 1 } else { 4 };

/// Changes a word without its lock. Acquires what was released before, and releases what was done
/// before: a transition may do both.
#[inline]
pub(crate) fn exchange(word: &AtomicU64, current: u64, next: u64) -> Result<u64, u64> {
    word.compare_exchange(current, next, Ordering::AcqRel, Ordering::Acquire)
}

/// The word of an object with a policy: the policy's state, and three flags.
///
/// | flag | set | cleared |
/// |---|---|---|
/// | `LOCKED` | by compare-and-swap, when not set | by its holder's store |
/// | `WAITERS` | under the lock, while a lane is not empty and no waiter has been told to try again | under the lock |
/// | `STRICT` | under the lock, while a lane's head was overtaken too often | under the lock |
///
/// Without the lock the word changes only by compare-and-swap from a value without `LOCKED`.
/// Acquiring synchronizes with releasing through the word (acquire and release), and through the
/// waiter's state when a grant is handed over.
#[derive(Debug)]
pub struct Word(AtomicU64);

impl Lock for Word {
    type Held = u64;

    #[inline]
    fn seems_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LOCKED == 0
    }

    #[inline]
    fn try_lock(&self) -> Option<u64> {
        self.lock_from(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn try_lock_after(&self, attempt: Attempt) -> Option<(u64, bool)> {
        match attempt {
            Attempt::Denied(word) => self.lock_from(word).map(|state| (state, true)),
            Attempt::Granted | Attempt::Unknown => self.try_lock().map(|state| (state, false)),
        }
    }

    #[inline]
    fn unlock(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }
}

impl Word {
    /// Locks, if the word is still this one; returns the state.
    #[inline]
    fn lock_from(&self, word: u64) -> Option<u64> {
        let locked = word & LOCKED == 0
            && self
                .0
                .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        locked.then_some(word & STATE)
    }
}

/// A policy as the rule of an object: its state, while the lock is held.
#[derive(Debug)]
pub struct WordRule<P> {
    pub(super) state: u64,
    policy: PhantomData<fn() -> P>,
}

/// What an object with a policy has outside its lock.
#[derive(Debug)]
pub struct WordPolicy<P> {
    pub(super) policy: P,
    /// What the policy said once: it must not change its mind, nor panic under the lock.
    barging: bool,
}

/// An object with a policy, which requests have waited for.
pub(crate) type WordObject<P> = ContendedObject<WordRule<P>>;

impl<P: Policy> WordPolicy<P> {
    /// The lane for an ask, whatever the policy says.
    #[inline]
    pub(super) fn lane(&self, ask: P::Ask) -> Lane {
        Lane::new(if P::LANES == 1 { 0 } else { self.policy.lane(ask).min(P::LANES - 1) })
    }

    /// Whether acquiring may be tried without joining a list.
    #[inline]
    fn is_open(&self, word: u64, ask: P::Ask) -> bool {
        word & (WAITERS | STRICT) == 0
            || (self.barging && word & STRICT == 0)
            || self.policy.overtakes(word & STATE, ask)
    }

    /// Whether an ask may be granted although others wait.
    #[cold]
    fn may_overtake(&self, lists: &WaitLists<P::Ask>, state: u64, ask: P::Ask) -> bool {
        self.is_open(state | self.flags(lists), ask)
    }

    /// The flags that go with these lists.
    #[inline]
    fn flags(&self, lists: &WaitLists<P::Ask>) -> u64 {
        if lists.waiting == 0 {
            return 0;
        }
        if !self.barging {
            return WAITERS;
        }
        let looked_at = if lists.retrying == 0 { WAITERS } else { 0 };
        let strict = if self.is_strict(lists) { WAITERS | STRICT } else { 0 };
        looked_at | strict
    }

    /// In barging mode: whether some lane's head has been overtaken often enough.
    fn is_strict(&self, lists: &WaitLists<P::Ask>) -> bool {
        lists.lanes[..P::LANES].iter().any(|lane| {
            // SAFETY: called under the lock; what is in a lane is alive.
            lane.front().is_some_and(|head| unsafe {
                head.as_ref().notes(|notes| notes.number() >= OVERTAKEN_AT_MOST)
            })
        })
    }

    /// The head that is looked at next, and its lane.
    #[inline]
    fn head(
        &self,
        lists: &WaitLists<P::Ask>,
        state: u64,
        given: Option<P::Give>,
    ) -> Option<(Lane, Pointer<P::Ask>)> {
        if lists.waiting == 0 {
            return None;
        }
        let lane = Lane::new(match P::LANES {
            1 => 0,
            _ => lists.urgent_lane().unwrap_or_else(|| {
                self.policy.next_lane(state, given, lists.occupied()).min(P::LANES - 1)
            }),
        });
        lists.first(lane).map(|head| (lane, head))
    }

    /// How a grant makes its waiter stand: `Granted`, unless it is final, as it is for a thread and
    /// for a policy with nothing to take back.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive.
    #[inline]
    pub(super) unsafe fn state_of_grant(&self, waiter: Pointer<P::Ask>) -> WaiterState {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let tentative = !own.notes(|notes| notes.thread) && self.policy.undo(own.ask).is_some();
            if tentative { WaiterState::Granted } else { WaiterState::Served }
        }
    }
}

impl<P: Policy> WordRule<P> {
    /// The grant loop: looks at the head of the lane whose turn it is, and grants, refuses, or
    /// stops. In barging mode it only wakes the head to try again, one at a time, unless that one
    /// was overtaken too often.
    #[inline]
    fn settle_heads(
        &mut self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        given: Option<P::Give>,
        wakes: &mut Wakes,
        looked_at: &mut Option<Pointer<P::Ask>>,
    ) {
        // If the policy panics over the lanes, no waiter was looked at; and one that was answered is
        // gone.
        while let Some((lane, head)) = {
            *looked_at = None;
            outside.head(lists, self.state, given)
        } {
            *looked_at = Some(head);
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                let ask = head.as_ref().ask;
                match outside.policy.acquire(self.state, ask) {
                    Some(next) => {
                        if outside.barging && !outside.is_strict(lists) {
                            if wakes.is_full() {
                                // The thread that makes the wake-ups looks again.
                                wakes.deferred = true;
                            } else if lists.retrying == 0 {
                                lists.detach(head);
                                Self::tell_to_retry(lists, head, wakes);
                            }
                            return;
                        }
                        let state = outside.state_of_grant(head);
                        lists.leave_lane(head, lane);
                        self.state = next;
                        lists.answer(head, state, wakes);
                    }
                    None if outside.policy.expel(self.state).is_some() => {
                        lists.detach(head);
                        lists.answer(head, WaiterState::Refused, wakes);
                    }
                    None => {
                        // Something was given, but not enough for the head: newcomers may have
                        // had it.
                        if given.is_some() && outside.barging {
                            head.as_ref().notes(|notes| notes.overtaken(1, OVERTAKEN_AT_MOST));
                        }
                        return;
                    }
                }
            }
        }
    }

    /// The grant loop, for a policy that may panic over a request: that one is ended, the others go
    /// on, and its owner will panic in turn.
    fn settle_caught(
        &mut self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        given: Option<P::Give>,
        wakes: &mut Wakes,
    ) {
        let mut looked_at = None;
        while lists.waiting > 0 {
            let round = catch_unwind(AssertUnwindSafe(|| {
                self.settle_heads(outside, lists, given, wakes, &mut looked_at);
            }));
            let Err(panic) = round else { break };
            discard_later(panic);
            wakes.has_payloads = true;
            let Some(waiter) = looked_at.take() else { break };
            // SAFETY: the lock is held, and the waiter still stands in its lane.
            unsafe {
                lists.detach(waiter);
                lists.answer(waiter, WaiterState::Faulted, wakes);
            }
        }
    }

    /// Barging mode: tells a waiter to try again.
    ///
    /// # Safety
    /// The lock is held, the waiter is alive and on no list, and there is space in `wakes`.
    unsafe fn tell_to_retry(
        lists: &mut WaitLists<P::Ask>,
        waiter: Pointer<P::Ask>,
        wakes: &mut Wakes,
    ) {
        lists.retrying += 1;
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let thread = own.notes(|notes| {
                notes.list = ListKind::Retrying;
                notes.forget_seen();
                notes.thread
            });
            if thread {
                wakes.push(tell(waiter, true, WaiterState::Retry));
            } else {
                lists.granted.push_back(waiter);
                wakes.push(Wake::task(own.swap_waker(None)));
                own.set_state(WaiterState::Retry);
            }
        }
    }

    /// A newcomer, of which it may be known that it has to wait.
    #[inline]
    fn arrive_newly(
        &mut self,
        outside: &WordPolicy<P>,
        lists: &WaitLists<P::Ask>,
        ask: P::Ask,
        denied: bool,
    ) -> Arrival<P::Refusal> {
        if !denied && (lists.waiting == 0 || outside.may_overtake(lists, self.state, ask)) {
            if let Some(next) = outside.policy.acquire(self.state, ask) {
                self.state = next;
                return Arrival::Served;
            }
        }
        match outside.policy.refuse(self.state, ask) {
            Some(why) => Arrival::Refused(why),
            None => Arrival::Waits(outside.lane(ask)),
        }
    }

    /// A waiter that was passed over.
    fn arrive_again(
        &mut self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        waiter: Pointer<P::Ask>,
        told: bool,
        wakes: &mut Wakes,
    ) -> Arrival<P::Refusal> {
        // SAFETY: the lock is held, and the waiter is alive.
        let own = unsafe { waiter.as_ref() };
        if let Some(next) = outside.policy.acquire(self.state, own.ask) {
            self.state = next;
            // In barging mode the next one may have what is left.
            self.settle(outside, lists, None, wakes);
            return Arrival::Served;
        }
        if let Some(why) = outside.policy.expel(self.state) {
            self.settle(outside, lists, None, wakes);
            return Arrival::Refused(why);
        }
        let lane = outside.lane(own.ask);
        // SAFETY: as above.
        unsafe { own.notes(|notes| notes.overtaken(u8::from(told), OVERTAKEN_AT_MOST)) };
        Arrival::Waits(lane)
    }
}

impl<P: Policy> ObjectRule for WordRule<P> {
    type Ask = P::Ask;
    type Refusal = P::Refusal;
    type Outside = WordPolicy<P>;
    type Lock = Word;
    type Change = Option<P::Give>;

    const ONLY_HEADS_COUNT: bool = true;
    const MAY_PANIC: bool = !P::TRUST.never_panics();

    #[inline]
    fn tries_first(outside: &WordPolicy<P>) -> bool {
        P::TRIES_FIRST || outside.barging
    }

    #[inline]
    fn may_change_soon(outside: &WordPolicy<P>, attempt: Attempt) -> bool {
        let alone = match attempt {
            Attempt::Granted => false,
            Attempt::Denied(word) => word & WAITERS == 0,
            Attempt::Unknown => true,
        };
        P::LOOKS_AGAIN && !outside.barging && alone
    }

    #[inline]
    fn arrive(
        &mut self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        waiter: Pointer<P::Ask>,
        coming: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<P::Refusal> {
        match coming {
            Coming::Newly { denied } => {
                // SAFETY: the lock is held, and the waiter is alive.
                let ask = unsafe { waiter.as_ref() }.ask;
                self.arrive_newly(outside, lists, ask, denied)
            }
            Coming::Again { told } => self.arrive_again(outside, lists, waiter, told, wakes),
        }
    }

    /// The state after a grant was given back, if it can be.
    fn take_back(&mut self, outside: &WordPolicy<P>, waiter: Pointer<P::Ask>) -> Option<P::Give> {
        // SAFETY: the lock is held, and the waiter is alive.
        let give = outside.policy.undo(unsafe { waiter.as_ref() }.ask)?;
        if let Ok(next) = outside.policy.release(self.state, give) {
            self.state = next;
        }
        Some(give)
    }

    #[inline]
    fn settle(
        &mut self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        given: Option<P::Give>,
        wakes: &mut Wakes,
    ) {
        if Self::MAY_PANIC {
            self.settle_caught(outside, lists, given, wakes);
        } else {
            self.settle_heads(outside, lists, given, wakes, &mut None);
        }
    }

    #[inline]
    fn after_locking(&mut self, state: u64) {
        self.state = state;
    }

    #[inline]
    fn before_unlocking(&mut self, outside: &WordPolicy<P>, lists: &WaitLists<P::Ask>) -> u64 {
        self.state & STATE | outside.flags(lists)
    }

    fn expulsion(&self, outside: &WordPolicy<P>) -> Option<P::Refusal> {
        outside.policy.expel(self.state)
    }
}

impl<P: Policy> WordObject<P> {
    pub(crate) fn with_policy(policy: P, state: u64) -> Arc<Self> {
        let outside = WordPolicy { policy, barging: policy.barges(state) };
        Self::new(WordRule { state, policy: PhantomData }, Word(AtomicU64::new(state)), outside)
    }

    /// Sets the state of an object that no other thread knows yet.
    pub(crate) fn begin_with(&self, state: u64) {
        self.lock.0.store(state, Ordering::Relaxed);
    }

    /// Takes what is asked for with one compare-and-swap, if it can be had without overtaking.
    #[inline]
    pub(crate) fn acquire_open(&self, ask: P::Ask) -> Attempt {
        let (Word(word), outside) = (&self.lock, &self.outside);
        let mut current = word.load(Ordering::Relaxed);
        while current & LOCKED == 0 {
            if !outside.is_open(current, ask) {
                return Attempt::Denied(current);
            }
            let Some(next) = outside.policy.acquire(current & STATE, ask) else {
                return Attempt::Denied(current);
            };
            match exchange(word, current, next & STATE | current & !STATE) {
                Ok(_) => return Attempt::Granted,
                Err(now) => current = now,
            }
        }
        Attempt::Unknown
    }

    /// Takes what is asked for, if it can be had without overtaking.
    pub(crate) fn acquire_or_not(&self, ask: P::Ask) -> bool {
        match self.acquire_open(ask) {
            Attempt::Granted => true,
            Attempt::Denied(_) => false,
            Attempt::Unknown => self.locked(|rule, outside, lists| {
                let open = lists.waiting == 0 || outside.may_overtake(lists, rule.state, ask);
                let next = if open { outside.policy.acquire(rule.state, ask) } else { None };
                next.inspect(|next| rule.state = *next).is_some()
            }),
        }
    }

    /// The state now. Under the lock if it is held: the owner of a grant may ask before the thread
    /// that granted it has stored the state.
    pub(crate) fn state(&self) -> u64 {
        let word = self.lock.0.load(Ordering::Acquire);
        if word & LOCKED == 0 { word & STATE } else { self.locked(|rule, _, _| rule.state) }
    }

    /// Changes the state and serves the requests that this allows to be served. Returns the state
    /// before.
    #[inline]
    pub(crate) fn release(&self, give: P::Give) -> Result<u64, P::Misuse> {
        let Word(word) = &self.lock;
        let mut current = word.load(Ordering::Relaxed);
        while current & (LOCKED | WAITERS) == 0 {
            let next = self.outside.policy.release(current & STATE, give)?;
            match exchange(word, current, next & STATE | current & !STATE) {
                Ok(_) => return Ok(current & STATE),
                Err(now) => current = now,
            }
        }
        self.release_locked(give)
    }

    /// [`release`](Self::release), which looks at the lists even if it seems not to matter.
    #[inline(never)]
    pub(crate) fn release_locked(&self, give: P::Give) -> Result<u64, P::Misuse> {
        let mut locked = self.lock();
        let before = locked.change(|rule, outside, _| {
            let before = rule.state;
            rule.state = outside.policy.release(before, give)? & STATE;
            Ok(before)
        })?;
        self.settle_and_wake(locked, Some(give));
        Ok(before)
    }

    /// Serves the requests that a change allows to be served, and wakes them once the lock is
    /// released.
    #[inline]
    pub(super) fn settle_and_wake(&self, locked: Locked<'_, WordRule<P>>, given: Option<P::Give>) {
        let ((), panic) = self.change_locked(locked, |rule, outside, lists, wakes| {
            rule.settle(outside, lists, given, wakes);
        });
        if let Some(panic) = panic {
            resume(panic);
        }
    }

    /// Lets every request pass that waits now, without touching the state. Returns how many.
    pub(crate) fn pass_all(&self) -> usize {
        self.change(|_, _, lists, wakes| {
            let passed = lists.waiting + lists.dormant_number;
            while let Some(waiter) = lists.dormant.front().or_else(|| lists.first_in_a_lane()) {
                // SAFETY: the lock is held, and what is in a list is alive.
                unsafe {
                    lists.detach(waiter);
                    lists.answer(waiter, WaiterState::Passed, wakes);
                }
            }
            passed as usize
        })
    }
}
