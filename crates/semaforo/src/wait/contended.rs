//! One contended object: its lock, its rule, and how requests join and leave its lists.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::bounds::Bounds;
use super::parker::{Backoff, Looks};
use super::rule::{Arrival, Coming, Held, Lock, ObjectRule};
use super::timer::{TIMER, Watch};
use super::user_code::Leaving;
use super::wait_lists::{Visit, WaitLists};
use super::wait_queue::{Tick, TimedObject, WaitQueue, waiter_of};
use super::waiter::{Lane, ListKind, Pointer, WaiterState};
use super::wake::{Panic, Wakes, discard_kept, discard_later, resume};
use crate::primitive::{AtomicU32, MODELLED, Ordering, TrackedCell};

/// How long a task may leave a grant unclaimed while other requests wait, unless set otherwise.
const PATIENCE: Duration = Duration::from_millis(50);

/// An object that requests wait for: a rule behind a lock, the lists of those requests, and what lies
/// outside the lock. It is always counted.
///
/// What every operation touches comes first, to share a cache line with the lock.
#[repr(C, align(64))]
pub struct ContendedObject<R: ObjectRule> {
    pub(super) lock: R::Lock,
    inside: TrackedCell<Inside<R>>,
    pub(crate) outside: R::Outside,
    patience: AtomicU32,
    looks: Looks,
    watch: Watch,
    me: Weak<Self>,
}

/// What the lock protects.
#[repr(C)]
struct Inside<R: ObjectRule> {
    rule: R,
    lists: WaitLists<R::Ask>,
}

// SAFETY: the lists' pointers lead to pinned waiters, which any thread may touch under the lock. What
// asks, rules and the outside hold is sent by objects that are `Sync` only if that may be sent.
unsafe impl<R: ObjectRule> Send for ContendedObject<R> {}
// SAFETY: as above.
unsafe impl<R: ObjectRule> Sync for ContendedObject<R> {}

/// What came of asking without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Granted,
    /// This word allows no grant, or no overtaking.
    Denied(u64),
    /// The lock was held, or another thread interfered.
    Unknown,
}

/// The lock, held. Dropping it releases the lock, also when a rule panics.
pub(super) struct Locked<'c, R: ObjectRule>(&'c ContendedObject<R>);

impl<R: ObjectRule> Drop for Locked<'_, R> {
    #[inline]
    fn drop(&mut self) {
        let held = self.change(|rule, outside, lists| rule.before_unlocking(outside, lists));
        self.0.lock.unlock(held);
    }
}

impl<R: ObjectRule> Locked<'_, R> {
    /// Changes what the lock protects.
    #[inline]
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut R, &R::Outside, &mut WaitLists<R::Ask>) -> T,
    ) -> T {
        let Self(object) = self;
        // SAFETY: the lock is held, and `change` cannot reach this cell another way.
        object.inside.look_mut(|inside| unsafe {
            let Inside { rule, lists } = &mut *inside;
            change(rule, &object.outside, lists)
        })
    }
}

impl<R: ObjectRule> ContendedObject<R> {
    pub(crate) fn new(rule: R, lock: R::Lock, outside: R::Outside) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            lock,
            inside: TrackedCell::new(Inside { rule, lists: WaitLists::new() }),
            outside,
            patience: AtomicU32::new(u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX)),
            looks: Looks::new(),
            watch: Watch::new(),
            me: me.clone(),
        })
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        let milliseconds = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        self.patience.store(milliseconds.max(2), Ordering::Relaxed);
        TIMER.reschedule(&self.watch, || self.interval());
    }

    /// A counted reference.
    pub(super) fn shared(&self) -> Arc<Self> {
        self.me.upgrade().expect("an object is counted for as long as it is used")
    }

    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, R> {
        match self.lock.try_lock() {
            Some(held) => self.locked_with(held),
            None => self.lock_contended(),
        }
    }

    /// Locks after this attempt to do without; also tells whether that was denied, and nothing has
    /// changed since.
    #[inline]
    fn lock_after(&self, attempt: Attempt) -> (Locked<'_, R>, bool) {
        match self.lock.try_lock_after(attempt) {
            Some((held, denied)) => (self.locked_with(held), denied),
            None => (self.lock_contended(), false),
        }
    }

    #[inline]
    fn locked_with(&self, held: Held<R>) -> Locked<'_, R> {
        let mut locked = Locked(self);
        locked.change(|rule, _, _| rule.after_locking(held));
        locked
    }

    #[cold]
    fn lock_contended(&self) -> Locked<'_, R> {
        let mut backoff = if R::IS_STREAMED { Backoff::patient() } else { Backoff::new() };
        loop {
            if let Some(held) = self.try_lock_if_free() {
                return self.locked_with(held);
            }
            if backoff.is_spent() {
                if let Some(held) = self.lock.lock_asleep() {
                    return self.locked_with(held);
                }
            }
            backoff.wait();
        }
    }

    /// For loops: looks before it writes.
    #[inline]
    fn try_lock_if_free(&self) -> Option<Held<R>> {
        if self.lock.seems_free() { self.lock.try_lock() } else { None }
    }

    /// Locks, unless another thread holds the lock for longer than a moment. For the timer and for
    /// tokens, which hold a lock of their own that others wait for. (In a model no thread holds a lock
    /// for long.)
    pub(super) fn lock_soon(&self) -> Option<Locked<'_, R>> {
        if MODELLED {
            return Some(self.lock());
        }
        let mut backoff = Backoff::new();
        loop {
            if let Some(held) = self.try_lock_if_free() {
                return Some(self.locked_with(held));
            }
            if !backoff.pause_briefly() {
                return None;
            }
        }
    }

    /// Changes what the lock protects.
    #[inline]
    pub(crate) fn locked<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut WaitLists<R::Ask>) -> T,
    ) -> T {
        self.lock().change(change)
    }

    /// [`locked`](Self::locked), and wakes the requests that were answered.
    ///
    /// # Panics
    /// With the panic of a waker, after all others have been woken.
    #[inline]
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut WaitLists<R::Ask>, &mut Wakes) -> T,
    ) -> T {
        let (result, panic) = self.change_caught(change);
        if let Some(panic) = panic {
            resume(panic);
        }
        result
    }

    /// [`change`](Self::change), for a caller with something to do about the panic of a waker. There is
    /// none for a caller that is panicking already.
    #[inline]
    pub(crate) fn change_caught<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut WaitLists<R::Ask>, &mut Wakes) -> T,
    ) -> (T, Option<Panic>) {
        self.change_locked(self.lock(), change)
    }

    /// [`change_caught`](Self::change_caught), unless `quick` succeeds, which answers no request:
    /// then there is nothing to be done once the lock is released. Both change the context.
    #[inline]
    pub(crate) fn change_unless<C, T>(
        &self,
        context: &mut C,
        quick: impl FnOnce(&mut C, &mut R, &WaitLists<R::Ask>) -> Option<T>,
        change: impl FnOnce(&mut C, &mut R, &R::Outside, &mut WaitLists<R::Ask>, &mut Wakes) -> T,
    ) -> (T, Option<Panic>) {
        let mut locked = self.lock();
        if let Some(result) = locked.change(|rule, _, lists| quick(context, rule, lists)) {
            return (result, None);
        }
        self.change_locked(locked, |rule, outside, lists, wakes| {
            change(context, rule, outside, lists, wakes)
        })
    }

    /// [`change_caught`](Self::change_caught), for a caller that holds the lock.
    #[inline]
    pub(super) fn change_locked<T>(
        &self,
        locked: Locked<'_, R>,
        change: impl FnOnce(&mut R, &R::Outside, &mut WaitLists<R::Ask>, &mut Wakes) -> T,
    ) -> (T, Option<Panic>) {
        let mut wakes = Wakes::new();
        // Unwinding must release the lock before it wakes anything.
        let mut locked = locked;
        let result = locked.change(|rule, outside, lists| {
            let result = change(rule, outside, lists, &mut wakes);
            wakes.arm |= lists.must_arm();
            result
        });
        drop(locked);
        if wakes.is_idle() {
            return (result, None);
        }
        self.finish_some(&mut wakes);
        (result, wakes.take_panic_to_resume())
    }

    /// How many requests wait, counting the dormant ones.
    pub(crate) fn waiters(&self) -> usize {
        self.locked(|_, _, lists| lists.waiting + lists.retrying + lists.dormant_number) as usize
    }

    /// How many requests wait in one lane.
    pub(crate) fn waiters_in(&self, lane: Lane) -> usize {
        self.locked(|_, _, lists| lists.count(lane))
    }

    /// Forgets every request: the object is being dropped, so whatever is still on a list was leaked,
    /// and what it borrowed may be gone.
    pub(crate) fn bury(&self, mut bury: impl FnMut(&mut R, Pointer<R::Ask>)) {
        self.locked(|rule, _, lists| {
            while let Some(waiter) = lists.any_waiter() {
                // SAFETY: the lock is held, and what is in a list is alive, because it was pinned.
                unsafe {
                    bury(rule, waiter);
                    lists.detach(waiter);
                }
            }
        });
    }

    /// [`revisit`](WaitQueue::revisit), where something else may be done with a waiter that was passed
    /// over than to let it stand first.
    ///
    /// # Safety
    /// As `revisit`.
    #[inline(never)]
    pub(super) unsafe fn revisit_or(
        &self,
        waiter: Pointer<R::Ask>,
        waker: &Waker,
        mut instead: impl FnMut(&mut WaitLists<R::Ask>) -> Option<WaiterState>,
    ) -> WaiterState {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        let mut fresh = None;
        loop {
            let state = own.state();
            if state.is_final() {
                return state;
            }
            if fresh.is_none() && matches!(state, WaiterState::Dormant | WaiterState::Retry) {
                fresh = Some(waker.clone());
            }
            let mut wakes = Wakes::new();
            // SAFETY: the waiter was queued here and its state is not final, so it is known to
            // the lists, unless the lock shows otherwise.
            let visit = self.locked(|rule, outside, lists| unsafe {
                match lists.visit(waiter, waker, &mut fresh) {
                    Visit::PassedOver => {
                        let state = instead(lists);
                        Visit::Is(state.unwrap_or_else(|| {
                            Self::stand_first(rule, outside, lists, waiter, &mut wakes)
                        }))
                    }
                    Visit::Is(WaiterState::Served) => {
                        rule.claim(lists, waiter, &mut wakes);
                        Visit::Is(WaiterState::Served)
                    }
                    visit => visit,
                }
            });
            match visit {
                Visit::Is(state) => {
                    self.finish_visit(&mut wakes, state, waiter);
                    return state;
                }
                Visit::NeedsWaker => fresh = Some(waker.clone()),
                Visit::Answered | Visit::PassedOver => {}
            }
        }
    }

    /// Lets a waiter that was passed over (dormant, or told to try again) have what it asks for, or
    /// puts it first in its lane.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    unsafe fn stand_first(
        rule: &mut R,
        outside: &R::Outside,
        lists: &mut WaitLists<R::Ask>,
        waiter: Pointer<R::Ask>,
        wakes: &mut Wakes,
    ) -> WaiterState {
        // SAFETY: passed on from the caller.
        unsafe {
            let told = lists.detach(waiter) == ListKind::Retrying;
            // Until it stands otherwise: this is its owner, who must not look again if the rule
            // panics.
            waiter.as_ref().set_state(WaiterState::Faulted);
            let state = match rule.arrive(outside, lists, waiter, Coming::Again { told }, wakes) {
                Arrival::Served => WaiterState::Served,
                Arrival::Refused(_) => WaiterState::Refused,
                Arrival::Faulted => WaiterState::Faulted,
                Arrival::Waits(lane) => {
                    Self::join_lane(rule, outside, lists, waiter, lane, true, wakes)
                }
            };
            // Served or not, it may have let the next one try, which may be a task that does not come.
            wakes.arm |= lists.must_arm();
            state
        }
    }

    /// Puts a waiter last in its lane, or first, and returns its state: the rule may answer it at once.
    ///
    /// # Safety
    /// The lock is held; the waiter is alive, prepared and on no list, and its owner is the caller.
    #[inline]
    unsafe fn join_lane(
        rule: &mut R,
        outside: &R::Outside,
        lists: &mut WaitLists<R::Ask>,
        waiter: Pointer<R::Ask>,
        lane: Lane,
        first: bool,
        wakes: &mut Wakes,
    ) -> WaiterState {
        // SAFETY: passed on from the caller.
        unsafe {
            lists.join(waiter, lane, first);
            if !R::ANSWERS_JOINED {
                return WaiterState::Waiting;
            }
            rule.joined(outside, lists, wakes);
            match waiter.as_ref().state() {
                WaiterState::Granted if lists.claim(waiter) => WaiterState::Served,
                state => state,
            }
        }
    }

    /// Wakes the requests that a visit answered. If a waker panics, the visit does too, and keeps
    /// nothing but what is final.
    #[inline]
    fn finish_visit(&self, wakes: &mut Wakes, state: WaiterState, waiter: Pointer<R::Ask>) {
        if wakes.is_idle() {
            return;
        }
        self.finish_some(wakes);
        if wakes.has_panic() && !std::thread::panicking() {
            self.end_visit(state, waiter);
            wakes.resume_panic();
        }
    }

    /// Ends a request that is going to panic instead of being served, or of waiting.
    #[cold]
    fn end_visit(&self, state: WaiterState, waiter: Pointer<R::Ask>) {
        if !matches!(state, WaiterState::Served | WaiterState::Waiting) {
            return;
        }
        if R::IS_FINAL && state == WaiterState::Served {
            // SAFETY: the visitor's waiter is alive, and on no list.
            unsafe { waiter.as_ref() }.set_state(WaiterState::Served);
            return;
        }
        // SAFETY: the visitor's waiter is alive. The lock is held; it is where its notes say.
        let _ = self.change_caught(|rule, outside, lists, wakes| unsafe {
            let change = match lists.detach(waiter) {
                ListKind::Lane(lane) => {
                    rule.leave(outside, lists, waiter, Some(lane), wakes);
                    R::Change::default()
                }
                _ => rule.take_back(outside, waiter),
            };
            rule.settle(outside, lists, change, wakes);
            waiter.as_ref().set_state(WaiterState::Faulted);
        });
    }

    /// Takes back what a request was served for good, and passes it on.
    #[cold]
    fn give_back(&self, waiter: Pointer<R::Ask>) {
        self.change(|rule, outside, lists, wakes| {
            let change = rule.take_back(outside, waiter);
            rule.settle(outside, lists, change, wakes);
        });
    }

    /// [`withdraw`](WaitQueue::withdraw), and changes something else in the same step, before any other
    /// request is served.
    ///
    /// # Safety
    /// As `withdraw`.
    #[inline]
    pub(crate) unsafe fn withdraw_with(
        &self,
        waiter: Pointer<R::Ask>,
        change: impl FnOnce(&mut R, &R::Outside),
    ) {
        let leaving = Leaving;
        let mut locked = self.lock();
        std::mem::forget(leaving);
        // SAFETY: the lock is held; the owner's waiter is alive, and where its notes say.
        let was_behind = R::ONLY_HEADS_COUNT
            && locked.change(|_, _, lists| unsafe { lists.leave_from_behind(waiter) });
        if was_behind {
            return;
        }
        // SAFETY: passed on from the caller.
        unsafe { self.withdraw_locked(locked, waiter, change) };
    }

    /// # Safety
    /// As [`withdraw`](WaitQueue::withdraw).
    #[inline(never)]
    unsafe fn withdraw_locked(
        &self,
        locked: Locked<'_, R>,
        waiter: Pointer<R::Ask>,
        change: impl FnOnce(&mut R, &R::Outside),
    ) {
        // SAFETY: the lock is held; the owner's waiter is alive, and where its notes say.
        let ((), panic) = self.change_locked(locked, |rule, outside, lists, wakes| unsafe {
            // Perhaps served since its owner last looked.
            let served = waiter.as_ref().state() == WaiterState::Served;
            let granted = lists.holds_grant(waiter) || served;
            let given = match lists.detach(waiter) {
                _ if granted => rule.take_back(outside, waiter),
                place => {
                    if let ListKind::Lane(lane) = place {
                        rule.leave(outside, lists, waiter, Some(lane), wakes);
                    } else if place == ListKind::Dormant {
                        rule.leave(outside, lists, waiter, None, wakes);
                    }
                    R::Change::default()
                }
            };
            change(rule, outside);
            rule.settle(outside, lists, given, wakes);
        });
        if let Some(panic) = panic {
            resume(panic);
        }
    }

    /// Takes back the grants that were left unclaimed twice, if other requests wait.
    fn take_back_unclaimed(
        rule: &mut R,
        outside: &R::Outside,
        lists: &mut WaitLists<R::Ask>,
        wakes: &mut Wakes,
    ) {
        let mut next = lists.granted.front();
        let last = lists.granted.back();
        while let Some(waiter) = next {
            // SAFETY: the lock is held, and what is in a list is alive.
            unsafe {
                // What is granted meanwhile comes behind the last.
                next = lists.granted.after(waiter).filter(|_| Some(waiter) != last);
                if lists.waiting == 0 {
                    return;
                }
                if waiter.as_ref().notes(|notes| notes.see_granted()) {
                    continue;
                }
                if wakes.is_full() {
                    return;
                }
                let change = match lists.detach(waiter) {
                    ListKind::Granted => Self::take_back_caught(rule, outside, waiter, wakes),
                    _ => R::Change::default(),
                };
                lists.make_dormant(waiter, wakes);
                rule.settle(outside, lists, change, wakes);
            }
        }
    }

    /// Takes back a grant, for the watchdog: if the rule panics over this one, there are others to
    /// look after.
    fn take_back_caught(
        rule: &mut R,
        outside: &R::Outside,
        waiter: Pointer<R::Ask>,
        wakes: &mut Wakes,
    ) -> R::Change {
        if !R::MAY_PANIC {
            return rule.take_back(outside, waiter);
        }
        let taken = catch_unwind(AssertUnwindSafe(|| rule.take_back(outside, waiter)));
        taken.unwrap_or_else(|panic| {
            discard_later(panic);
            wakes.has_payloads = true;
            R::Change::default()
        })
    }

    /// Ends a waiter for an outside reason, if it still waits; lets go of the lock through which the
    /// caller came; and then settles what its leaving allows.
    ///
    /// # Safety
    /// The waiter was queued here, and is alive until `let_go` is called or this returns.
    unsafe fn end_locked(
        mut locked: Locked<'_, R>,
        waiter: Pointer<R::Ask>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) {
        locked.change(|rule, outside, lists| {
            // SAFETY: the lock is held, and the waiter is where its notes say.
            let ended = unsafe { Self::end_in_queue(rule, outside, lists, waiter, state, wakes) };
            let_go();
            if ended {
                rule.settle(outside, lists, R::Change::default(), wakes);
                wakes.arm |= lists.must_arm();
            }
        });
    }

    /// Takes a waiter off its list and tells it how it has ended; false if it does not wait.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    unsafe fn end_in_queue(
        rule: &mut R,
        outside: &R::Outside,
        lists: &mut WaitLists<R::Ask>,
        waiter: Pointer<R::Ask>,
        state: WaiterState,
        wakes: &mut Wakes,
    ) -> bool {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let (place, thread) = own.notes(|notes| (notes.list, notes.thread));
            match place {
                // A thread that was told to try again is already on its way, and will see for
                // itself.
                ListKind::Retrying if thread => return false,
                // A grant wins, unless it is taken back.
                ListKind::Granted | ListKind::Deferred => {
                    own.notes(|notes| notes.end_late(state == WaiterState::Cancelled));
                    return false;
                }
                ListKind::Lane(lane) if rule.is_decided(lane) => return false,
                // A waiter on the list of a condition is ended through that.
                ListKind::Nowhere | ListKind::Condition => return false,
                ListKind::Lane(_) | ListKind::Retrying | ListKind::Dormant => {}
            }
            lists.detach(waiter);
            let lane = if let ListKind::Lane(lane) = place { Some(lane) } else { None };
            rule.leave(outside, lists, waiter, lane, wakes);
            lists.answer(waiter, state, wakes);
            true
        }
    }

    /// [`finish`](TimedObject::finish), where there is something to do: mostly that is one wake-up.
    #[inline(never)]
    fn finish_some(&self, wakes: &mut Wakes) {
        if !wakes.wake_only() {
            self.finish(wakes);
        }
    }

    /// What [`finish`](TimedObject::finish) seldom has to do: tell the waiters for which there was no space in the
    /// batch, and drop the payloads of a rule's panics.
    #[cold]
    fn finish_more(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.has_payloads) {
            discard_kept();
        }
        while std::mem::take(&mut wakes.deferred) {
            self.locked(|rule, outside, lists| {
                lists.tell_deferred(wakes);
                rule.settle(outside, lists, R::Change::default(), wakes);
                wakes.arm |= lists.must_arm();
            });
            self.arm_and_wake(wakes);
            if std::mem::take(&mut wakes.has_payloads) {
                discard_kept();
            }
        }
    }

    /// Arms the watchdog first: a waker may wait for what another request was granted.
    #[inline]
    fn arm_and_wake(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.arm) {
            self.arm();
        }
        wakes.wake_some(|| self.counted());
    }

    #[cold]
    pub(super) fn arm(&self) {
        TIMER.watch(self.to_counted());
    }

    fn to_counted(&self) -> Arc<dyn TimedObject> {
        let counted: Arc<dyn TimedObject + '_> = self.shared();
        // SAFETY: who keeps it longer than what the rule borrows finds the object empty: its owner
        // buries every request when it is dropped, and what is left of the rule owns no borrowed value.
        unsafe { std::mem::transmute::<Arc<dyn TimedObject + '_>, Arc<dyn TimedObject>>(counted) }
    }
}

impl<R: ObjectRule> WaitQueue for ContendedObject<R> {
    type Ask = R::Ask;
    type Refusal = R::Refusal;

    fn counted(&self) -> Option<Arc<dyn TimedObject>> {
        Some(self.to_counted())
    }

    #[inline]
    fn tries_first(&self) -> bool {
        R::tries_first(&self.outside)
    }

    #[inline]
    fn look_again(&self, attempt: Attempt, attempt_again: impl FnMut() -> Attempt) -> Attempt {
        let may_change = |attempt| R::may_change_soon(&self.outside, attempt);
        self.looks.look_again(attempt, attempt_again, may_change)
    }

    #[inline]
    unsafe fn enter(
        &self,
        waiter: Pointer<R::Ask>,
        attempt: Attempt,
        refusal: &mut Option<R::Refusal>,
        give_up: impl FnOnce() -> Option<WaiterState>,
    ) -> WaiterState {
        if attempt == Attempt::Granted {
            return WaiterState::Served;
        }
        let mut wakes = Wakes::new();
        let (mut locked, denied) = self.lock_after(attempt);
        let state = locked.change(|rule, outside, lists| {
            let coming = Coming::Newly { denied };
            let state = match rule.arrive(outside, lists, waiter, coming, &mut wakes) {
                Arrival::Served => WaiterState::Served,
                Arrival::Faulted => {
                    // SAFETY: the owner's waiter is alive, and on no list.
                    unsafe { waiter.as_ref() }.set_state(WaiterState::Faulted);
                    WaiterState::Faulted
                }
                Arrival::Refused(why) => {
                    *refusal = Some(why);
                    WaiterState::Refused
                }
                Arrival::Waits(lane) => match give_up() {
                    // SAFETY: the lock is held, and the waiter is on no list.
                    None => unsafe {
                        Self::join_lane(rule, outside, lists, waiter, lane, false, &mut wakes)
                    },
                    Some(state) => {
                        if !R::ONLY_HEADS_COUNT {
                            rule.leave(outside, lists, waiter, Some(lane), &mut wakes);
                            rule.settle(outside, lists, R::Change::default(), &mut wakes);
                        }
                        state
                    }
                },
            };
            // A request that is served may have granted something to a task, while others wait.
            wakes.arm |= lists.must_arm();
            state
        });
        drop(locked);
        self.finish_visit(&mut wakes, state, waiter);
        state
    }

    #[inline]
    unsafe fn claim(&self, waiter: Pointer<R::Ask>) -> bool {
        // SAFETY: the owner's waiter is alive. Once the lock is held, it is where its notes say.
        unsafe {
            if waiter.as_ref().state() != WaiterState::Granted {
                return false;
            }
            if !R::NOTES_CLAIMS {
                return self.locked(|_, _, lists| lists.claim(waiter));
            }
            let mut wakes = Wakes::new();
            let claimed = self.locked(|rule, _, lists| {
                let claimed = lists.claim(waiter);
                if claimed {
                    rule.claim(lists, waiter, &mut wakes);
                }
                claimed
            });
            let state = if claimed { WaiterState::Served } else { WaiterState::Waiting };
            self.finish_visit(&mut wakes, state, waiter);
            claimed
        }
    }

    unsafe fn revisit(&self, waiter: Pointer<R::Ask>, waker: &Waker) -> WaiterState {
        // SAFETY: passed on from the caller.
        unsafe { self.revisit_or(waiter, waker, |_| None) }
    }

    unsafe fn retry(&self, waiter: Pointer<R::Ask>) -> WaiterState {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; passed on from the caller.
        let state = self.locked(|rule, outside, lists| unsafe {
            Self::stand_first(rule, outside, lists, waiter, &mut wakes)
        });
        self.finish_visit(&mut wakes, state, waiter);
        state
    }

    #[inline]
    unsafe fn withdraw(&self, waiter: Pointer<R::Ask>) {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        if (own.state()).is_final() {
            // A thread that was served, and panicked before it could say so; or a task that was
            // served for good, and did not come.
            if own.state() == WaiterState::Served {
                self.give_back(waiter);
            }
            return;
        }
        // SAFETY: passed on from the caller.
        unsafe { self.withdraw_with(waiter, |_, _| ()) };
    }

    unsafe fn end_waiter(&self, waiter: Pointer<R::Ask>, state: WaiterState, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe { Self::end_locked(self.lock(), waiter, state, wakes, &mut || ()) };
    }

    /// Under the lock: the thread that told the request may not have stored the state yet.
    fn expulsion(&self) -> Option<R::Refusal> {
        self.locked(|rule, outside, _| rule.expulsion(outside))
    }
}

impl<R: ObjectRule> TimedObject for ContendedObject<R> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        let Some(locked) = self.lock_soon() else { return false };
        // SAFETY: bounds that know this object are the first field of a queued request with its asks.
        unsafe { Self::end_locked(locked, waiter_of(bounds), state, wakes, let_go) };
        true
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        Tick::of(self.lock_soon().map(|mut locked| {
            locked.change(|rule, outside, lists| {
                Self::take_back_unclaimed(rule, outside, lists, wakes);
                lists.armed = lists.waiting > 0 && !lists.granted.is_empty();
                wakes.arm = false;
                lists.armed
            })
        }))
    }

    #[inline]
    fn finish(&self, wakes: &mut Wakes) {
        self.arm_and_wake(wakes);
        if wakes.deferred | wakes.has_payloads {
            self.finish_more(wakes);
        }
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn interval(&self) -> u64 {
        u64::from(self.patience.load(Ordering::Relaxed)) * 1_000_000 / 2
    }
}

impl<R: ObjectRule> fmt::Debug for ContendedObject<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContendedObject").finish_non_exhaustive()
    }
}

/// The lock of an object whose rule keeps its whole state for itself.
#[derive(Debug)]
pub struct SpinLock(AtomicU32);

const FREE: u32 = 0;
const LOCKED: u32 = 1;

impl SpinLock {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }
}

impl Lock for SpinLock {
    type Held = ();

    #[inline]
    fn seems_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) == FREE
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.0.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).ok().map(drop)
    }

    #[inline]
    fn unlock(&self, (): ()) {
        self.0.store(FREE, Ordering::Release);
    }
}
