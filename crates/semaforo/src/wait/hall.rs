//! One object whose state does not fit in a word: its lock, and how requests join and leave its
//! queue.
//!
//! A [`Hall`] is to a [`Rule`] what a [`Core`](super::core::Core) is to a policy. The differences:
//! a rule's state is a value behind the lock, a rule is this crate's own and never panics, and it may
//! answer whom it likes, because those who meet here often answer each other. What they share, the
//! lists and what it means to be on one, is [`Queue`].

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::bounds::Bounds;
use super::core::{Attempt, PATIENCE};
use super::kernel::{Kernel, Line, Tick, beside};
use super::parker::Backoff;
use super::queue::{Queue, Visit};
use super::timer::{TIMER, Watch};
use super::waiter::{Lane, Place, Pointer, standing};
use super::wake::{Panic, Wakes, resume};
use crate::primitive::{AtomicU32, MODELLED, Ordering, TrackedCell};

/// What those who come to a hall find there.
///
/// All functions are called under the hall's lock, and never panic. Every waiter that they are given
/// is alive and pinned.
pub trait Rule: Sized {
    /// What a waiter brings, and where it finds what it gets.
    type Ask;
    /// Why it may be turned away.
    type Refusal: Copy;
    /// What can be used without the lock.
    type Outside;

    /// Whether one thread often does several things in a row here: then whoever finds the lock taken
    /// had better let it than fetch the lock's cache line after each of them.
    const IS_STREAMED: bool = false;

    /// Whether a task that claims what it was granted has to be noted.
    const NOTES_CLAIMS: bool = false;

    /// Whether what a new request is served cannot be taken back, because others have their part of
    /// it. Then it is theirs although a waker panics: their next poll is ready.
    const IS_FINAL: bool = false;

    /// Whether a thread tries for a moment before it queues.
    fn tries_first(outside: &Self::Outside) -> bool {
        let _ = outside;
        false
    }

    /// Serves somebody who comes, or who is first in line again, or turns it away, or says where it
    /// has to wait.
    fn arrive(
        &mut self,
        outside: &Self::Outside,
        queue: &mut Queue<Self::Ask>,
        waiter: Pointer<Self::Ask>,
        wakes: &mut Wakes,
    ) -> Arrival<Self::Refusal>;

    /// Whether what those in this lane wait for is certain to come, so that no limit ends their wait.
    fn is_decided(&self, lane: Lane) -> bool {
        let _ = lane;
        false
    }

    /// Somebody who had to wait leaves unserved. It is on no list any more; it was in this lane, or
    /// dormant.
    fn leave(
        &mut self,
        outside: &Self::Outside,
        queue: &mut Queue<Self::Ask>,
        waiter: Pointer<Self::Ask>,
        lane: Option<Lane>,
        wakes: &mut Wakes,
    ) {
        let _ = (outside, queue, waiter, lane, wakes);
    }

    /// A task has claimed what it was granted.
    fn claim(
        &mut self,
        queue: &mut Queue<Self::Ask>,
        waiter: Pointer<Self::Ask>,
        wakes: &mut Wakes,
    ) {
        let _ = (queue, waiter, wakes);
    }

    /// Takes back what somebody was served, and did not want or did not come for.
    fn take_back(&mut self, outside: &Self::Outside, waiter: Pointer<Self::Ask>) {
        let _ = (outside, waiter);
    }

    /// Lets through whom a change allows.
    fn settle(&mut self, outside: &Self::Outside, queue: &mut Queue<Self::Ask>, wakes: &mut Wakes) {
        let _ = (outside, queue, wakes);
    }

    /// Called last, before the lock is released.
    fn before_unlocking(&mut self, outside: &Self::Outside, queue: &Queue<Self::Ask>) {
        let _ = (outside, queue);
    }

    /// Why those who waited were turned away.
    fn expulsion(&self) -> Option<Self::Refusal> {
        None
    }
}

/// What becomes of somebody who comes.
pub(crate) enum Arrival<R> {
    Served,
    Refused(R),
    Waits(Lane),
}

/// The heart of one object with a [`Rule`]. It is always counted.
#[repr(C, align(64))]
pub struct Hall<R: Rule> {
    locked: AtomicU32,
    patience: AtomicU32,
    inside: TrackedCell<Inside<R>>,
    watch: Watch,
    me: Weak<Self>,
    pub(crate) outside: R::Outside,
}

/// What the lock protects.
struct Inside<R: Rule> {
    queue: Queue<R::Ask>,
    rule: R,
}

// SAFETY: the lists' pointers lead to pinned waiters, which any thread may touch under the lock. What
// asks, rules and the outside hold is sent by objects that are `Sync` only if that may be sent.
unsafe impl<R: Rule> Send for Hall<R> {}
// SAFETY: as above.
unsafe impl<R: Rule> Sync for Hall<R> {}

const FREE: u32 = 0;
const LOCKED: u32 = 1;

/// Releases the lock when dropped.
struct Unlocking<'h, R: Rule>(&'h Hall<R>);

impl<R: Rule> Drop for Unlocking<'_, R> {
    #[inline]
    fn drop(&mut self) {
        self.0.locked.store(FREE, Ordering::Release);
    }
}

impl<R: Rule> Hall<R> {
    pub(crate) fn new(rule: R, outside: R::Outside) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            locked: AtomicU32::new(FREE),
            patience: AtomicU32::new(u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX)),
            inside: TrackedCell::new(Inside { queue: Queue::new(), rule }),
            watch: Watch::new(),
            me: me.clone(),
            outside,
        })
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        let milliseconds = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        self.patience.store(milliseconds.max(2), Ordering::Relaxed);
        TIMER.reschedule(&self.watch, || self.interval());
    }

    /// Changes what the lock protects.
    #[inline]
    pub(crate) fn locked<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>) -> T,
    ) -> T {
        let taken =
            self.locked.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.lock_contended();
        }
        self.change_locked(change)
    }

    /// [`locked`](Self::locked), unless another holds the lock for longer than a moment. For the timer
    /// and for tokens, who hold a lock of their own that others wait for. (In a model nobody holds a
    /// lock for long.)
    fn locked_soon<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>) -> T,
    ) -> Option<T> {
        if MODELLED {
            return Some(self.locked(change));
        }
        let mut backoff = Backoff::new();
        while !self.try_lock() {
            if !backoff.pause_briefly() {
                return None;
            }
        }
        Some(self.change_locked(change))
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.locked.load(Ordering::Relaxed) == FREE
            && self
                .locked
                .compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Changes what the lock, which is held, protects, and unlocks.
    #[inline(always)]
    fn change_locked<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>) -> T,
    ) -> T {
        let _unlocks = Unlocking(self);
        // SAFETY: the lock is held, and `change` cannot reach this cell another way.
        self.inside.look_mut(|inside| unsafe {
            let Inside { queue, rule } = &mut *inside;
            let result = change(rule, &self.outside, queue);
            rule.before_unlocking(&self.outside, queue);
            result
        })
    }

    #[cold]
    fn lock_contended(&self) {
        let mut backoff = if R::IS_STREAMED { Backoff::patient() } else { Backoff::new() };
        while !self.try_lock() {
            backoff.wait();
        }
    }

    /// [`locked`](Self::locked), and wakes whom that answered.
    ///
    /// # Panics
    /// With the panic of a waker, after everyone else has been woken.
    #[inline]
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>, &mut Wakes) -> T,
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
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>, &mut Wakes) -> T,
    ) -> (T, Option<Panic>) {
        let mut wakes = Wakes::new();
        let result = self.locked(|rule, outside, queue| {
            let result = change(rule, outside, queue, &mut wakes);
            wakes.arm |= queue.must_arm();
            result
        });
        self.finish(&mut wakes);
        (result, wakes.take_panic().filter(|_| !std::thread::panicking()))
    }

    /// How many wait, counting the dormant ones.
    pub(crate) fn waiters(&self) -> usize {
        self.locked(|_, _, queue| queue.waiting + queue.dormants) as usize
    }

    /// How many wait in one lane.
    pub(crate) fn waiters_in(&self, lane: Lane) -> usize {
        self.locked(|_, _, queue| queue.count(lane))
    }

    /// Forgets everyone: the object is being dropped, so whoever is still on a list was leaked, and
    /// what it borrowed may be gone.
    pub(crate) fn bury(&self, mut bury: impl FnMut(&mut R, Pointer<R::Ask>)) {
        self.locked(|rule, _, queue| {
            while let Some(waiter) = queue.anybody() {
                // SAFETY: the lock is held, and what is in a list is alive, because it was pinned.
                unsafe {
                    bury(rule, waiter);
                    queue.detach(waiter);
                }
            }
        });
    }

    /// # Safety
    /// The lock is held; the waiter is alive, and was dormant.
    unsafe fn stand_first(
        &self,
        rule: &mut R,
        queue: &mut Queue<R::Ask>,
        waiter: Pointer<R::Ask>,
        wakes: &mut Wakes,
    ) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe {
            queue.detach(waiter);
            match rule.arrive(&self.outside, queue, waiter, wakes) {
                Arrival::Served => standing::SERVED,
                Arrival::Refused(_) => standing::REFUSED,
                Arrival::Waits(lane) => {
                    queue.join(waiter, lane, true);
                    wakes.arm |= queue.must_arm();
                    standing::WAITING
                }
            }
        }
    }

    /// Wakes those whom a visit answered. If a waker panics, the visit does too, and keeps nothing but
    /// what is final.
    #[inline]
    fn finish_visit(&self, wakes: &mut Wakes, standing: u8, waiter: Pointer<R::Ask>) {
        self.finish(wakes);
        if let Some(panic) = wakes.take_panic().filter(|_| !std::thread::panicking()) {
            self.end_visit(standing, waiter);
            resume(panic);
        }
    }

    /// Ends the request of somebody who is going to panic instead of being served, or of waiting.
    #[cold]
    fn end_visit(&self, standing: u8, waiter: Pointer<R::Ask>) {
        if !matches!(standing, standing::SERVED | standing::WAITING) {
            return;
        }
        if R::IS_FINAL && standing == standing::SERVED {
            // SAFETY: the visitor's waiter is alive, and no queue knows of it.
            unsafe { waiter.as_ref() }.stand(standing::SERVED);
            return;
        }
        // SAFETY: the visitor's waiter is alive. The lock is held; it is where its notes say.
        let _ = self.change_caught(|rule, outside, queue, wakes| unsafe {
            match queue.detach(waiter) {
                Place::Lane(lane) => rule.leave(outside, queue, waiter, Some(lane), wakes),
                _ => rule.take_back(outside, waiter),
            }
            rule.settle(outside, queue, wakes);
            waiter.as_ref().stand(standing::FAULTED);
        });
    }

    /// Takes back what somebody was served for good, and passes it on.
    #[cold]
    fn give_back(&self, waiter: Pointer<R::Ask>) {
        self.change(|rule, outside, queue, wakes| {
            rule.take_back(outside, waiter);
            rule.settle(outside, queue, wakes);
        });
    }

    /// [`withdraw`](Line::withdraw), and changes something else in the same step, before anybody is let
    /// through.
    ///
    /// # Safety
    /// As `withdraw`.
    pub(crate) unsafe fn withdraw_with(
        &self,
        waiter: Pointer<R::Ask>,
        change: impl FnOnce(&mut R, &R::Outside),
    ) {
        // SAFETY: the lock is held; the owner's waiter is alive, and where its notes say.
        self.change(|rule, outside, queue, wakes| unsafe {
            // Perhaps served since.
            let served = waiter.as_ref().standing() == standing::SERVED;
            let granted = queue.holds_grant(waiter) || served;
            match queue.detach(waiter) {
                _ if granted => rule.take_back(outside, waiter),
                Place::Lane(lane) => rule.leave(outside, queue, waiter, Some(lane), wakes),
                Place::Dormant => rule.leave(outside, queue, waiter, None, wakes),
                _ => {}
            }
            change(rule, outside);
            rule.settle(outside, queue, wakes);
        });
    }

    /// Takes back what was left unclaimed twice, if others wait.
    fn take_back_unclaimed(&self, rule: &mut R, queue: &mut Queue<R::Ask>, wakes: &mut Wakes) {
        let mut next = queue.granted.front();
        let last = queue.granted.back();
        while let Some(waiter) = next {
            // SAFETY: the lock is held, and what is in a list is alive.
            unsafe {
                // What is granted meanwhile comes behind the last.
                next = queue.granted.after(waiter).filter(|_| Some(waiter) != last);
                if queue.waiting == 0 {
                    return;
                }
                if waiter.as_ref().notes(|notes| notes.see_granted()) {
                    continue;
                }
                if wakes.is_full() {
                    return;
                }
                queue.detach(waiter);
                rule.take_back(&self.outside, waiter);
                queue.rest(waiter, wakes);
                rule.settle(&self.outside, queue, wakes);
            }
        }
    }

    /// Takes a waiter out and answers it for an outside reason; false if it does not wait.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    unsafe fn end_in_queue(
        rule: &mut R,
        outside: &R::Outside,
        queue: &mut Queue<R::Ask>,
        waiter: Pointer<R::Ask>,
        standing: u8,
        wakes: &mut Wakes,
    ) -> bool {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let lane = match own.notes(|notes| notes.place) {
                // A grant wins, unless it is taken back.
                Place::Granted | Place::Deferred => {
                    own.notes(|notes| notes.end_late(standing == standing::CANCELLED));
                    return false;
                }
                Place::Nowhere | Place::Nudged | Place::Condition => return false,
                Place::Lane(lane) if rule.is_decided(lane) => return false,
                Place::Lane(lane) => Some(lane),
                Place::Dormant => None,
            };
            queue.detach(waiter);
            rule.leave(outside, queue, waiter, lane, wakes);
            queue.answer(waiter, standing, wakes);
            true
        }
    }

    fn settle_after_end(
        rule: &mut R,
        outside: &R::Outside,
        queue: &mut Queue<R::Ask>,
        wakes: &mut Wakes,
    ) {
        rule.settle(outside, queue, wakes);
        wakes.arm |= queue.must_arm();
    }

    /// What [`finish`](Kernel::finish) seldom has to do: tell those who found no room in the batch.
    #[cold]
    fn finish_more(&self, wakes: &mut Wakes) {
        while std::mem::take(&mut wakes.deferred) {
            self.locked(|rule, outside, queue| {
                queue.tell_deferred(wakes);
                rule.settle(outside, queue, wakes);
                wakes.arm |= queue.must_arm();
            });
            self.arm_and_wake(wakes);
        }
    }

    /// Arms the watchdog first: a waker may wait for what somebody else was granted.
    #[inline]
    fn arm_and_wake(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.arm) {
            self.arm();
        }
        wakes.wake_some(|| self.counted());
    }

    #[cold]
    fn arm(&self) {
        TIMER.watch(self.to_counted());
    }

    fn to_counted(&self) -> Arc<dyn Kernel> {
        let counted: Arc<dyn Kernel + '_> =
            self.me.upgrade().expect("whoever calls this has a hall that is counted");
        // SAFETY: whoever keeps it longer than what the rule borrows finds the hall empty: the object
        // buries everyone when it is dropped, and what is left of the rule owns no borrowed value.
        unsafe { std::mem::transmute::<Arc<dyn Kernel + '_>, Arc<dyn Kernel>>(counted) }
    }
}

impl<R: Rule> Line for Hall<R> {
    type Ask = R::Ask;
    type Refusal = R::Refusal;

    fn counted(&self) -> Option<Arc<dyn Kernel>> {
        Some(self.to_counted())
    }

    #[inline]
    fn tries_first(&self) -> bool {
        R::tries_first(&self.outside)
    }

    #[inline]
    unsafe fn enter(
        &self,
        waiter: Pointer<R::Ask>,
        _: Attempt,
        refusal: &mut Option<R::Refusal>,
        give_up: impl FnOnce() -> Option<u8>,
    ) -> u8 {
        let mut wakes = Wakes::new();
        let standing = self.locked(|rule, outside, queue| {
            let standing = match rule.arrive(outside, queue, waiter, &mut wakes) {
                Arrival::Served => standing::SERVED,
                Arrival::Refused(why) => {
                    *refusal = Some(why);
                    standing::REFUSED
                }
                Arrival::Waits(lane) => {
                    if let Some(standing) = give_up() {
                        rule.leave(outside, queue, waiter, Some(lane), &mut wakes);
                        rule.settle(outside, queue, &mut wakes);
                        standing
                    } else {
                        // SAFETY: the lock is held, and the waiter is in no list.
                        unsafe { queue.join(waiter, lane, false) };
                        standing::WAITING
                    }
                }
            };
            // Whoever is served may have granted something to a task, while others wait.
            wakes.arm |= queue.must_arm();
            standing
        });
        self.finish_visit(&mut wakes, standing, waiter);
        standing
    }

    #[inline]
    unsafe fn claim(&self, waiter: Pointer<R::Ask>) -> bool {
        // SAFETY: the owner's waiter is alive. Once the lock is held, it is where its notes say.
        unsafe {
            if waiter.as_ref().standing() != standing::GRANTED {
                return false;
            }
            if !R::NOTES_CLAIMS {
                return self.locked(|_, _, queue| queue.claim(waiter));
            }
            let mut wakes = Wakes::new();
            let claimed = self.locked(|rule, _, queue| {
                let claimed = queue.claim(waiter);
                if claimed {
                    rule.claim(queue, waiter, &mut wakes);
                }
                claimed
            });
            self.finish_visit(
                &mut wakes,
                if claimed { standing::SERVED } else { standing::WAITING },
                waiter,
            );
            claimed
        }
    }

    #[inline(never)]
    unsafe fn revisit(&self, waiter: Pointer<R::Ask>, waker: &Waker) -> u8 {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        let mut fresh = None;
        loop {
            let standing = own.standing();
            if standing::is_final(standing) {
                return standing;
            }
            if fresh.is_none() && standing == standing::DORMANT {
                fresh = Some(waker.clone());
            }
            let mut wakes = Wakes::new();
            // SAFETY: the waiter was queued here and its standing is not final, so it is known to
            // the queue, unless the lock shows otherwise.
            let visit = self.locked(|rule, _, queue| unsafe {
                match queue.visit(waiter, waker, &mut fresh) {
                    Visit::PassedOver => {
                        Visit::Stands(self.stand_first(rule, queue, waiter, &mut wakes))
                    }
                    Visit::Stands(standing::SERVED) => {
                        rule.claim(queue, waiter, &mut wakes);
                        Visit::Stands(standing::SERVED)
                    }
                    visit => visit,
                }
            });
            let standing = if let Visit::Stands(standing) = visit { standing } else { 0 };
            self.finish_visit(&mut wakes, standing, waiter);
            match visit {
                Visit::Stands(standing) => return standing,
                Visit::NeedsWaker => fresh = Some(waker.clone()),
                Visit::Answered | Visit::PassedOver => {}
            }
        }
    }

    unsafe fn retry(&self, _: Pointer<R::Ask>) -> u8 {
        unreachable!("nobody is told to try again in a hall")
    }

    unsafe fn withdraw(&self, waiter: Pointer<R::Ask>) {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        if standing::is_final(own.standing()) {
            // A thread that was served, and panicked before it could say so; or a task that was
            // served for good, and did not come.
            if own.standing() == standing::SERVED {
                self.give_back(waiter);
            }
            return;
        }
        // SAFETY: passed on from the caller.
        unsafe { self.withdraw_with(waiter, |_, _| ()) };
    }

    unsafe fn end_waiter(&self, waiter: Pointer<R::Ask>, standing: u8, wakes: &mut Wakes) {
        // SAFETY: the lock is held, and the waiter is where its notes say.
        self.locked(|rule, outside, queue| unsafe {
            if Self::end_in_queue(rule, outside, queue, waiter, standing, wakes) {
                Self::settle_after_end(rule, outside, queue, wakes);
            }
        });
    }

    fn expulsion(&self) -> Option<R::Refusal> {
        self.locked(|rule, _, _| rule.expulsion())
    }
}

impl<R: Rule> Kernel for Hall<R> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        // SAFETY: bounds that know this object are the first field of a seat for its asks. The lock is
        // held, and the waiter is where its notes say.
        let ended = self.locked_soon(|rule, outside, queue| unsafe {
            let ended = Self::end_in_queue(rule, outside, queue, beside(bounds), standing, wakes);
            let_go();
            if ended {
                Self::settle_after_end(rule, outside, queue, wakes);
            }
        });
        ended.is_some()
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        let watches = self.locked_soon(|rule, _, queue| {
            self.take_back_unclaimed(rule, queue, wakes);
            queue.armed = queue.waiting > 0 && !queue.granted.is_empty();
            wakes.arm = false;
            queue.armed
        });
        Tick::of(watches)
    }

    #[inline]
    fn finish(&self, wakes: &mut Wakes) {
        self.arm_and_wake(wakes);
        if wakes.deferred {
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

impl<R: Rule> fmt::Debug for Hall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hall").field("locked", &self.locked).finish_non_exhaustive()
    }
}
