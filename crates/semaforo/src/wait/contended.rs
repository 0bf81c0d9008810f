//! One contended object: its lock, its rule, and how requests join and leave its lists.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::bounds::Bounds;
use super::kernel::{Kernel, Line, Tick, beside};
use super::parker::Backoff;
use super::queue::{Queue, Visit};
use super::rule::{Arrival, Coming, Held, Lock, ObjectRule};
use super::timer::{TIMER, Watch};
use super::waiter::{Lane, Place, Pointer, standing};
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
    watch: Watch,
    me: Weak<Self>,
}

/// What the lock protects.
#[repr(C)]
struct Inside<R: ObjectRule> {
    rule: R,
    queue: Queue<R::Ask>,
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
        let held = self.change(|rule, outside, queue| rule.before_unlocking(outside, queue));
        self.0.lock.unlock(held);
    }
}

impl<R: ObjectRule> Locked<'_, R> {
    /// Changes what the lock protects.
    #[inline]
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>) -> T,
    ) -> T {
        let Self(object) = self;
        // SAFETY: the lock is held, and `change` cannot reach this cell another way.
        object.inside.look_mut(|inside| unsafe {
            let Inside { rule, queue } = &mut *inside;
            change(rule, &object.outside, queue)
        })
    }
}

impl<R: ObjectRule> ContendedObject<R> {
    pub(crate) fn new(rule: R, lock: R::Lock, outside: R::Outside) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            lock,
            inside: TrackedCell::new(Inside { rule, queue: Queue::new() }),
            outside,
            patience: AtomicU32::new(u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX)),
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
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>) -> T,
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
        self.change_locked(self.lock(), change)
    }

    /// [`change_caught`](Self::change_caught), for a caller that holds the lock.
    #[inline]
    pub(super) fn change_locked<T>(
        &self,
        locked: Locked<'_, R>,
        change: impl FnOnce(&mut R, &R::Outside, &mut Queue<R::Ask>, &mut Wakes) -> T,
    ) -> (T, Option<Panic>) {
        let mut wakes = Wakes::new();
        // Unwinding must release the lock before it wakes anything.
        let mut locked = locked;
        let result = locked.change(|rule, outside, queue| {
            let result = change(rule, outside, queue, &mut wakes);
            wakes.arm |= queue.must_arm();
            result
        });
        drop(locked);
        self.finish(&mut wakes);
        (result, wakes.take_panic_to_resume())
    }

    /// How many requests wait, counting the dormant ones.
    pub(crate) fn waiters(&self) -> usize {
        self.locked(|_, _, queue| queue.waiting + queue.nudged + queue.dormants) as usize
    }

    /// How many requests wait in one lane.
    pub(crate) fn waiters_in(&self, lane: Lane) -> usize {
        self.locked(|_, _, queue| queue.count(lane))
    }

    /// Forgets every request: the object is being dropped, so whatever is still on a list was leaked,
    /// and what it borrowed may be gone.
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

    /// [`revisit`](Line::revisit), where something else may be done with a waiter that was passed
    /// over than to let it stand first.
    ///
    /// # Safety
    /// As `revisit`.
    #[inline(never)]
    pub(super) unsafe fn revisit_or(
        &self,
        waiter: Pointer<R::Ask>,
        waker: &Waker,
        mut instead: impl FnMut(&mut Queue<R::Ask>) -> Option<u8>,
    ) -> u8 {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        let mut fresh = None;
        loop {
            let standing = own.standing();
            if standing::is_final(standing) {
                return standing;
            }
            if fresh.is_none() && matches!(standing, standing::DORMANT | standing::RETRY) {
                fresh = Some(waker.clone());
            }
            let mut wakes = Wakes::new();
            // SAFETY: the waiter was queued here and its standing is not final, so it is known to
            // the lists, unless the lock shows otherwise.
            let visit = self.locked(|rule, outside, queue| unsafe {
                match queue.visit(waiter, waker, &mut fresh) {
                    Visit::PassedOver => {
                        let standing = instead(queue);
                        Visit::Stands(standing.unwrap_or_else(|| {
                            Self::stand_first(rule, outside, queue, waiter, &mut wakes)
                        }))
                    }
                    Visit::Stands(standing::SERVED) => {
                        rule.claim(queue, waiter, &mut wakes);
                        Visit::Stands(standing::SERVED)
                    }
                    visit => visit,
                }
            });
            match visit {
                Visit::Stands(standing) => {
                    self.finish_visit(&mut wakes, standing, waiter);
                    return standing;
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
        queue: &mut Queue<R::Ask>,
        waiter: Pointer<R::Ask>,
        wakes: &mut Wakes,
    ) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe {
            let told = queue.detach(waiter) == Place::Nudged;
            // Until it stands otherwise: this is its owner, who must not look again if the rule
            // panics.
            waiter.as_ref().stand(standing::FAULTED);
            match rule.arrive(outside, queue, waiter, Coming::Again { told }, wakes) {
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

    /// Wakes the requests that a visit answered. If a waker panics, the visit does too, and keeps
    /// nothing but what is final.
    #[inline]
    fn finish_visit(&self, wakes: &mut Wakes, standing: u8, waiter: Pointer<R::Ask>) {
        self.finish(wakes);
        if wakes.has_panic() && !std::thread::panicking() {
            self.end_visit(standing, waiter);
            wakes.resume_panic();
        }
    }

    /// Ends a request that is going to panic instead of being served, or of waiting.
    #[cold]
    fn end_visit(&self, standing: u8, waiter: Pointer<R::Ask>) {
        if !matches!(standing, standing::SERVED | standing::WAITING) {
            return;
        }
        if R::IS_FINAL && standing == standing::SERVED {
            // SAFETY: the visitor's waiter is alive, and on no list.
            unsafe { waiter.as_ref() }.stand(standing::SERVED);
            return;
        }
        // SAFETY: the visitor's waiter is alive. The lock is held; it is where its notes say.
        let _ = self.change_caught(|rule, outside, queue, wakes| unsafe {
            let change = match queue.detach(waiter) {
                Place::Lane(lane) => {
                    rule.leave(outside, queue, waiter, Some(lane), wakes);
                    R::Change::default()
                }
                _ => rule.take_back(outside, waiter),
            };
            rule.settle(outside, queue, change, wakes);
            waiter.as_ref().stand(standing::FAULTED);
        });
    }

    /// Takes back what a request was served for good, and passes it on.
    #[cold]
    fn give_back(&self, waiter: Pointer<R::Ask>) {
        self.change(|rule, outside, queue, wakes| {
            let change = rule.take_back(outside, waiter);
            rule.settle(outside, queue, change, wakes);
        });
    }

    /// [`withdraw`](Line::withdraw), and changes something else in the same step, before any other
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
        let mut locked = self.lock();
        // SAFETY: the lock is held; the owner's waiter is alive, and where its notes say.
        let was_behind = R::ONLY_HEADS_COUNT
            && locked.change(|_, _, queue| unsafe { queue.leave_from_behind(waiter) });
        if was_behind {
            return;
        }
        // SAFETY: passed on from the caller.
        unsafe { self.withdraw_locked(locked, waiter, change) };
    }

    /// # Safety
    /// As [`withdraw`](Line::withdraw).
    #[inline(never)]
    unsafe fn withdraw_locked(
        &self,
        locked: Locked<'_, R>,
        waiter: Pointer<R::Ask>,
        change: impl FnOnce(&mut R, &R::Outside),
    ) {
        // SAFETY: the lock is held; the owner's waiter is alive, and where its notes say.
        let ((), panic) = self.change_locked(locked, |rule, outside, queue, wakes| unsafe {
            // Perhaps served since its owner last looked.
            let served = waiter.as_ref().standing() == standing::SERVED;
            let granted = queue.holds_grant(waiter) || served;
            let given = match queue.detach(waiter) {
                _ if granted => rule.take_back(outside, waiter),
                place => {
                    if let Place::Lane(lane) = place {
                        rule.leave(outside, queue, waiter, Some(lane), wakes);
                    } else if place == Place::Dormant {
                        rule.leave(outside, queue, waiter, None, wakes);
                    }
                    R::Change::default()
                }
            };
            change(rule, outside);
            rule.settle(outside, queue, given, wakes);
        });
        if let Some(panic) = panic {
            resume(panic);
        }
    }

    /// Takes back the grants that were left unclaimed twice, if other requests wait.
    fn take_back_unclaimed(
        rule: &mut R,
        outside: &R::Outside,
        queue: &mut Queue<R::Ask>,
        wakes: &mut Wakes,
    ) {
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
                let change = match queue.detach(waiter) {
                    Place::Granted => Self::take_back_caught(rule, outside, waiter, wakes),
                    _ => R::Change::default(),
                };
                queue.rest(waiter, wakes);
                rule.settle(outside, queue, change, wakes);
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
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) {
        locked.change(|rule, outside, queue| {
            // SAFETY: the lock is held, and the waiter is where its notes say.
            let ended =
                unsafe { Self::end_in_queue(rule, outside, queue, waiter, standing, wakes) };
            let_go();
            if ended {
                rule.settle(outside, queue, R::Change::default(), wakes);
                wakes.arm |= queue.must_arm();
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
        queue: &mut Queue<R::Ask>,
        waiter: Pointer<R::Ask>,
        standing: u8,
        wakes: &mut Wakes,
    ) -> bool {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let (place, thread) = own.notes(|notes| (notes.place, notes.thread));
            match place {
                // A thread that was told to try again is already on its way, and will see for
                // itself.
                Place::Nudged if thread => return false,
                // A grant wins, unless it is taken back.
                Place::Granted | Place::Deferred => {
                    own.notes(|notes| notes.end_late(standing == standing::CANCELLED));
                    return false;
                }
                Place::Lane(lane) if rule.is_decided(lane) => return false,
                // A waiter on the list of a condition is ended through that.
                Place::Nowhere | Place::Condition => return false,
                Place::Lane(_) | Place::Nudged | Place::Dormant => {}
            }
            queue.detach(waiter);
            let lane = if let Place::Lane(lane) = place { Some(lane) } else { None };
            rule.leave(outside, queue, waiter, lane, wakes);
            queue.answer(waiter, standing, wakes);
            true
        }
    }

    /// What [`finish`](Kernel::finish) seldom has to do: tell the waiters that found no room in the
    /// batch, and drop the payloads of a rule's panics.
    #[cold]
    fn finish_more(&self, wakes: &mut Wakes) {
        if std::mem::take(&mut wakes.has_payloads) {
            discard_kept();
        }
        while std::mem::take(&mut wakes.deferred) {
            self.locked(|rule, outside, queue| {
                queue.tell_deferred(wakes);
                rule.settle(outside, queue, R::Change::default(), wakes);
                wakes.arm |= queue.must_arm();
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

    fn to_counted(&self) -> Arc<dyn Kernel> {
        let counted: Arc<dyn Kernel + '_> = self.shared();
        // SAFETY: who keeps it longer than what the rule borrows finds the object empty: its owner
        // buries every request when it is dropped, and what is left of the rule owns no borrowed value.
        unsafe { std::mem::transmute::<Arc<dyn Kernel + '_>, Arc<dyn Kernel>>(counted) }
    }
}

impl<R: ObjectRule> Line for ContendedObject<R> {
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
        attempt: Attempt,
        refusal: &mut Option<R::Refusal>,
        give_up: impl FnOnce() -> Option<u8>,
    ) -> u8 {
        if attempt == Attempt::Granted {
            return standing::SERVED;
        }
        let mut wakes = Wakes::new();
        let (mut locked, denied) = self.lock_after(attempt);
        let standing = locked.change(|rule, outside, queue| {
            let coming = Coming::Newly { denied };
            let standing = match rule.arrive(outside, queue, waiter, coming, &mut wakes) {
                Arrival::Served => standing::SERVED,
                Arrival::Refused(why) => {
                    *refusal = Some(why);
                    standing::REFUSED
                }
                Arrival::Waits(lane) => match give_up() {
                    None => {
                        // SAFETY: the lock is held, and the waiter is on no list.
                        unsafe { queue.join(waiter, lane, false) };
                        standing::WAITING
                    }
                    Some(standing) => {
                        if !R::ONLY_HEADS_COUNT {
                            rule.leave(outside, queue, waiter, Some(lane), &mut wakes);
                            rule.settle(outside, queue, R::Change::default(), &mut wakes);
                        }
                        standing
                    }
                },
            };
            // A request that is served may have granted something to a task, while others wait.
            wakes.arm |= queue.must_arm();
            standing
        });
        drop(locked);
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
            let standing = if claimed { standing::SERVED } else { standing::WAITING };
            self.finish_visit(&mut wakes, standing, waiter);
            claimed
        }
    }

    unsafe fn revisit(&self, waiter: Pointer<R::Ask>, waker: &Waker) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe { self.revisit_or(waiter, waker, |_| None) }
    }

    unsafe fn retry(&self, waiter: Pointer<R::Ask>) -> u8 {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; passed on from the caller.
        let standing = self.locked(|rule, outside, queue| unsafe {
            Self::stand_first(rule, outside, queue, waiter, &mut wakes)
        });
        self.finish_visit(&mut wakes, standing, waiter);
        standing
    }

    #[inline]
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
        // SAFETY: passed on from the caller.
        unsafe { Self::end_locked(self.lock(), waiter, standing, wakes, &mut || ()) };
    }

    /// Under the lock: the thread that told the request may not have stored the state yet.
    fn expulsion(&self) -> Option<R::Refusal> {
        self.locked(|rule, outside, _| rule.expulsion(outside))
    }
}

impl<R: ObjectRule> Kernel for ContendedObject<R> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        let Some(locked) = self.lock_soon() else { return false };
        // SAFETY: bounds that know this object are the first field of a seat for its asks.
        unsafe { Self::end_locked(locked, beside(bounds), standing, wakes, let_go) };
        true
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        Tick::of(self.lock_soon().map(|mut locked| {
            locked.change(|rule, outside, queue| {
                Self::take_back_unclaimed(rule, outside, queue, wakes);
                queue.armed = queue.waiting > 0 && !queue.granted.is_empty();
                wakes.arm = false;
                queue.armed
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
