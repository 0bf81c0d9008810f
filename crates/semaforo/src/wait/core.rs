//! One contended object: its lock, and how requests join and leave its queue.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::bounds::Bounds;
use super::grants::OVERTAKEN_AT_MOST;
use super::kernel::{Kernel, Line, Tick, beside};
use super::parker::Backoff;
use super::queue::{Queue, Visit, tell};
use super::timer::{TIMER, Watch};
use super::waiter::{Lane, Place, Pointer, standing};
use super::wake::Wakes;
use crate::policy::{Policy, STATE_BITS};
use crate::primitive::{AtomicU32, AtomicU64, MODELLED, Ordering, TrackedCell};

/// Somebody holds the lock and is the only one to write the word.
pub(crate) const LOCKED: u64 = 1 << 63;
/// Releasing has to look at the queue and, unless barging, acquiring has to join it.
pub(crate) const WAITERS: u64 = 1 << 62;
/// In barging mode: a waiter has come too late too often, so nobody overtakes until it is served.
pub(crate) const STRICT: u64 = 1 << 61;
/// What is left for the policy.
pub(crate) const STATE: u64 = (1 << STATE_BITS) - 1;

const _: () = assert!(STATE == STRICT - 1);

/// How long a task may leave a grant unclaimed while others wait, unless set otherwise.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// Changes a word without its lock. Acquires what was released before, and releases what was done
/// before: a transition may do both.
#[inline]
pub(crate) fn exchange(word: &AtomicU64, current: u64, next: u64) -> Result<u64, u64> {
    word.compare_exchange(current, next, Ordering::AcqRel, Ordering::Acquire)
}

/// The heart of one contended object.
///
/// The word holds the policy's state and three flags:
///
/// | flag | set | cleared |
/// |---|---|---|
/// | `LOCKED` | by compare-and-swap, when not set | by its holder's store |
/// | `WAITERS` | under the lock, while a lane is not empty and nobody has been told to try again | under the lock |
/// | `STRICT` | under the lock, while a lane's head was overtaken too often | under the lock |
///
/// Without the lock the word changes only by compare-and-swap from a value without `LOCKED`.
/// Acquiring synchronizes with releasing through the word (acquire and release), and through the
/// waiter's standing when a grant is handed over.
#[repr(C, align(64))]
pub struct Core<P: Policy> {
    pub(crate) word: AtomicU64,
    queue: TrackedCell<Queue<P::Ask>>,
    pub(super) policy: P,
    /// What the policy said once: it must not change its mind, nor panic under the lock.
    barging: bool,
    patience: AtomicU32,
    watch: Watch,
    me: Weak<Core<P>>,
}

// SAFETY: the queue's pointers lead to pinned waiters, which any thread may touch under the lock;
// asks are `Send` and `Sync`.
unsafe impl<P: Policy> Send for Core<P> {}
// SAFETY: as above.
unsafe impl<P: Policy> Sync for Core<P> {}

/// What came of asking without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Granted,
    /// This word allows no grant, or no overtaking.
    Denied(u64),
    /// The lock was held, or somebody interfered.
    Unknown,
}

/// The lock, held. Dropping it writes the word, also when a policy panics.
pub(super) struct Locked<'c, P: Policy> {
    core: &'c Core<P>,
    pub(super) state: u64,
}

impl<P: Policy> Drop for Locked<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the lock is held.
        let flags = self.core.queue.look(|queue| unsafe { self.core.flags(&*queue) });
        self.core.word.store(self.state & STATE | flags, Ordering::Release);
    }
}

impl<P: Policy> Locked<'_, P> {
    /// What the lock protects.
    #[inline]
    pub(super) fn change<R>(
        &mut self,
        change: impl FnOnce(&Core<P>, &mut Queue<P::Ask>, &mut u64) -> R,
    ) -> R {
        let Self { core, state } = self;
        // SAFETY: the lock is held, and `change` cannot reach this cell another way.
        core.queue.look_mut(|queue| change(core, unsafe { &mut *queue }, state))
    }
}

impl<P: Policy> Core<P> {
    pub(crate) fn new(policy: P, state: u64) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            word: AtomicU64::new(state),
            queue: TrackedCell::new(Queue::new()),
            policy,
            barging: policy.barges(state),
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

    /// Whether newcomers may overtake those who wait.
    pub(crate) fn barging(&self) -> bool {
        self.barging
    }

    /// A counted reference.
    pub(super) fn shared(&self) -> Arc<Self> {
        self.me.upgrade().expect("whoever calls this has a core that is counted")
    }

    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, P> {
        let word = self.word.load(Ordering::Relaxed);
        if word & LOCKED == 0 { self.lock_from(word).0 } else { self.lock_contended() }
    }

    /// Locks; also tells whether the word was still this one.
    #[inline]
    fn lock_from(&self, word: u64) -> (Locked<'_, P>, bool) {
        let locked =
            self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed);
        if locked.is_ok() {
            (Locked { core: self, state: word & STATE }, true)
        } else {
            (self.lock_contended(), false)
        }
    }

    #[cold]
    fn lock_contended(&self) -> Locked<'_, P> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let free = word & LOCKED == 0;
            if free
                && self
                    .word
                    .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Locked { core: self, state: word & STATE };
            }
            backoff.wait();
        }
    }

    /// Locks, unless another holds the lock for longer than a moment. For the timer and for tokens, who
    /// hold a lock of their own that others wait for. (In a model nobody holds a lock for long.)
    pub(super) fn lock_soon(&self) -> Option<Locked<'_, P>> {
        if MODELLED {
            return Some(self.lock());
        }
        let mut backoff = Backoff::new();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let free = word & LOCKED == 0;
            if free && exchange(&self.word, word, word | LOCKED).is_ok() {
                return Some(Locked { core: self, state: word & STATE });
            }
            if !backoff.pause_briefly() {
                return None;
            }
        }
    }

    /// The flags that go with this queue.
    #[inline]
    pub(super) fn flags(&self, queue: &Queue<P::Ask>) -> u64 {
        if queue.waiting == 0 {
            return 0;
        }
        if !self.barging {
            return WAITERS;
        }
        let looked_at = if queue.nudged == 0 { WAITERS } else { 0 };
        let strict = if self.is_strict(queue) { WAITERS | STRICT } else { 0 };
        looked_at | strict
    }

    /// In barging mode: whether some lane's head has been overtaken often enough.
    pub(super) fn is_strict(&self, queue: &Queue<P::Ask>) -> bool {
        queue.lanes[..P::LANES].iter().any(|lane| {
            // SAFETY: called under the lock; what is in a lane is alive.
            lane.front().is_some_and(|head| unsafe {
                head.as_ref().notes(|notes| notes.number() >= OVERTAKEN_AT_MOST)
            })
        })
    }

    /// Whether acquiring may be tried without joining the queue.
    #[inline]
    fn is_open(&self, word: u64, ask: P::Ask) -> bool {
        word & (WAITERS | STRICT) == 0
            || (self.barging && word & STRICT == 0)
            || self.policy.overtakes(word & STATE, ask)
    }

    /// Takes what is asked for with one compare-and-swap, if it can be had without overtaking.
    #[inline]
    pub(crate) fn acquire_open(&self, ask: P::Ask) -> Attempt {
        let mut current = self.word.load(Ordering::Relaxed);
        while current & LOCKED == 0 {
            if !self.is_open(current, ask) {
                return Attempt::Denied(current);
            }
            let Some(next) = self.policy.acquire(current & STATE, ask) else {
                return Attempt::Denied(current);
            };
            match exchange(&self.word, current, next & STATE | current & !STATE) {
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
            Attempt::Unknown => self.lock().change(|core, queue, state| {
                let open = queue.waiting == 0 || core.may_overtake(queue, *state, ask);
                let next = if open { core.policy.acquire(*state, ask) } else { None };
                next.inspect(|next| *state = *next).is_some()
            }),
        }
    }

    /// The state now. Under the lock if it is held: whoever was granted something may ask before the
    /// one who granted it has stored the state.
    pub(crate) fn state(&self) -> u64 {
        let word = self.word.load(Ordering::Acquire);
        if word & LOCKED == 0 { word & STATE } else { self.lock().state }
    }

    /// How many wait, counting the dormant ones.
    pub(crate) fn waiters(&self) -> usize {
        self.lock().change(|_, queue, _| queue.waiting + queue.nudged + queue.dormants) as usize
    }

    /// How many wait in one lane.
    pub(crate) fn waiters_in(&self, lane: usize) -> usize {
        self.lock().change(|_, queue, _| queue.count(Lane::new(lane)))
    }

    /// Whether an ask may be granted although others wait.
    #[cold]
    fn may_overtake(&self, queue: &Queue<P::Ask>, state: u64, ask: P::Ask) -> bool {
        self.is_open(state | self.flags(queue), ask)
    }

    /// The lane for an ask, whatever the policy says.
    #[inline]
    pub(super) fn lane(&self, ask: P::Ask) -> Lane {
        Lane::new(if P::LANES == 1 { 0 } else { self.policy.lane(ask).min(P::LANES - 1) })
    }

    /// [`revisit`](Line::revisit), where something else may be done with a waiter that was passed
    /// over than to let it stand first.
    ///
    /// # Safety
    /// As `revisit`.
    #[inline(never)]
    pub(super) unsafe fn revisit_or(
        &self,
        waiter: Pointer<P::Ask>,
        waker: &Waker,
        mut instead: impl FnMut(&mut Queue<P::Ask>) -> Option<u8>,
    ) -> u8 {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        let mut fresh = None;
        loop {
            let standing = own.standing();
            if standing::is_final(standing) {
                return standing;
            }
            if fresh.is_none() && standing != standing::GRANTED && standing != standing::WAITING {
                fresh = Some(waker.clone());
            }
            let mut wakes = Wakes::new();
            // SAFETY: the waiter was queued here and its standing is not final, so it is known to
            // the queue, unless the lock shows otherwise.
            let visit = self.lock().change(|core, queue, state| unsafe {
                match queue.visit(waiter, waker, &mut fresh) {
                    Visit::PassedOver => Visit::Stands(match instead(queue) {
                        Some(standing) => standing,
                        None => core.stand_first(queue, state, waiter, &mut wakes),
                    }),
                    visit => visit,
                }
            });
            let standing = if let Visit::Stands(standing) = visit { standing } else { 0 };
            self.finish_visit(&mut wakes, standing, own.ask);
            match visit {
                Visit::Stands(standing) => return standing,
                Visit::NeedsWaker => fresh = Some(waker.clone()),
                Visit::Answered | Visit::PassedOver => {}
            }
        }
    }

    /// A thread that was served, and panicked before it could say so, has something to give back.
    #[cold]
    fn withdraw_answered(&self, standing: u8, ask: P::Ask) {
        if standing == standing::SERVED {
            let mut wakes = Wakes::new();
            self.give_back(ask, &mut wakes);
            wakes.resume_panic();
        }
    }

    /// Withdraws a waiter that was the head of its lane, and has left it, or that was passed over or
    /// answered.
    ///
    /// # Safety
    /// As [`withdraw`](Self::withdraw).
    #[inline(never)]
    unsafe fn withdraw_head(&self, mut locked: Locked<'_, P>, waiter: Pointer<P::Ask>) {
        // SAFETY: the lock is held; the waiter is alive, and where its notes say.
        let given = locked.change(|core, queue, state| unsafe {
            let own = waiter.as_ref();
            if let Place::Lane(_) = own.notes(|notes| notes.place) {
                return None;
            }
            // Perhaps a thread that leaves by a panic was served since it last looked.
            let granted = queue.holds_grant(waiter) || own.standing() == standing::SERVED;
            queue.detach(waiter);
            if granted { core.undo(state, own.ask) } else { None }
        });
        self.settle_and_wake(locked, given);
    }

    /// Changes the state and lets through whom that allows. Returns the state before.
    #[inline]
    pub(crate) fn release(&self, give: P::Give) -> Result<u64, P::Misuse> {
        let mut current = self.word.load(Ordering::Relaxed);
        while current & (LOCKED | WAITERS) == 0 {
            let next = self.policy.release(current & STATE, give)?;
            match exchange(&self.word, current, next & STATE | current & !STATE) {
                Ok(_) => return Ok(current & STATE),
                Err(now) => current = now,
            }
        }
        self.release_locked(give)
    }

    /// [`release`](Self::release), which looks at the queue even if it seems not to matter.
    #[inline(never)]
    pub(crate) fn release_locked(&self, give: P::Give) -> Result<u64, P::Misuse> {
        let mut locked = self.lock();
        let before = locked.state;
        locked.state = self.policy.release(before, give)? & STATE;
        self.settle_and_wake(locked, Some(give));
        Ok(before)
    }

    /// Ends a waiter for an outside reason, if it still waits; lets go of the lock through which the
    /// caller came; and then lets the waiter's followers through.
    ///
    /// # Safety
    /// The waiter was queued here, and is alive until `let_go` is called or this returns.
    unsafe fn end_locked(
        &self,
        mut locked: Locked<'_, P>,
        waiter: Pointer<P::Ask>,
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) {
        locked.change(|core, queue, state| {
            // SAFETY: the lock is held, and the waiter is where its notes say.
            let ended = unsafe { Self::end_in_queue(queue, waiter, standing, wakes) };
            let_go();
            if ended {
                core.settle(queue, state, None, wakes);
            }
        });
    }

    /// Takes a waiter out and tells it how it has ended; false if it does not wait.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    unsafe fn end_in_queue(
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
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
                // Who waits on a condition is ended through that.
                Place::Nowhere | Place::Condition => return false,
                Place::Lane(_) | Place::Nudged | Place::Dormant => {}
            }
            queue.detach(waiter);
            wakes.push(tell(waiter, thread, standing));
            true
        }
    }

    #[cold]
    pub(super) fn arm(&self) {
        if let Some(object) = self.me.upgrade() {
            TIMER.watch(object);
        }
    }
}

impl<P: Policy> Line for Core<P> {
    type Ask = P::Ask;
    type Refusal = P::Refusal;

    fn counted(&self) -> Option<Arc<dyn Kernel>> {
        let me = self.me.upgrade()?;
        Some(me)
    }

    #[inline]
    fn tries_first(&self) -> bool {
        P::TRIES_FIRST || self.barging
    }

    #[inline]
    unsafe fn enter(
        &self,
        waiter: Pointer<P::Ask>,
        attempt: Attempt,
        refusal: &mut Option<P::Refusal>,
        give_up: impl FnOnce() -> Option<u8>,
    ) -> u8 {
        // SAFETY: pinned, hence alive.
        let own = unsafe { waiter.as_ref() };
        let ask = own.ask;
        let mut arm = false;
        let (mut locked, denied) = match attempt {
            Attempt::Granted => return standing::SERVED,
            Attempt::Denied(word) => self.lock_from(word),
            Attempt::Unknown => (self.lock(), false),
        };
        let standing = locked.change(|core, queue, state| {
            if !denied && (queue.waiting == 0 || core.may_overtake(queue, *state, ask)) {
                if let Some(next) = core.policy.acquire(*state, ask) {
                    *state = next;
                    return standing::SERVED;
                }
            }
            *refusal = core.policy.refuse(*state, ask);
            if refusal.is_some() {
                return standing::REFUSED;
            }
            if let Some(standing) = give_up() {
                return standing;
            }
            let lane = core.lane(ask);
            // SAFETY: the lock is held, and the waiter is in no list.
            unsafe { queue.join(waiter, lane, false) };
            arm = queue.must_arm();
            standing::WAITING
        });
        drop(locked);
        if arm {
            self.arm();
        }
        standing
    }

    #[inline]
    unsafe fn claim(&self, waiter: Pointer<P::Ask>) -> bool {
        // SAFETY: the owner's waiter is alive. Once the lock is held, it is where its notes say.
        unsafe {
            let own = waiter.as_ref();
            own.standing() == standing::GRANTED
                && self.lock().change(|_, queue, _| queue.claim(waiter))
        }
    }

    unsafe fn revisit(&self, waiter: Pointer<P::Ask>, waker: &Waker) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe { self.revisit_or(waiter, waker, |_| None) }
    }

    #[inline(always)]
    unsafe fn withdraw(&self, waiter: Pointer<P::Ask>) {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        if standing::is_final(own.standing()) {
            return self.withdraw_answered(own.standing(), own.ask);
        }
        let mut locked = self.lock();
        // SAFETY: the lock is held; the waiter is where its notes say.
        let settle = locked.change(|_, queue, _| unsafe {
            let Place::Lane(lane) = own.notes(|notes| notes.place) else { return true };
            let lane = &mut queue.lanes[lane.number()];
            let headed = lane.front() == Some(waiter);
            lane.remove(waiter);
            queue.waiting -= 1;
            // Only the head holds others up.
            headed && queue.waiting > 0
        });
        if settle {
            // SAFETY: passed on from the caller.
            unsafe { self.withdraw_head(locked, waiter) };
        }
    }

    unsafe fn retry(&self, waiter: Pointer<P::Ask>) -> u8 {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; passed on from the caller.
        let standing = self.lock().change(|core, queue, state| unsafe {
            core.stand_first(queue, state, waiter, &mut wakes)
        });
        // SAFETY: the owner's waiter is alive.
        self.finish_visit(&mut wakes, standing, unsafe { waiter.as_ref() }.ask);
        standing
    }

    unsafe fn end_waiter(&self, waiter: Pointer<P::Ask>, standing: u8, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe { self.end_locked(self.lock(), waiter, standing, wakes, &mut || ()) };
    }

    /// Under the lock: whoever told them may not have stored the state yet.
    fn expulsion(&self) -> Option<P::Refusal> {
        self.policy.expel(self.lock().state)
    }
}

impl<P: Policy> Kernel for Core<P> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        let Some(locked) = self.lock_soon() else { return false };
        // SAFETY: bounds that know this object are the first field of a seat for its asks.
        unsafe { self.end_locked(locked, beside(bounds), standing, wakes, let_go) };
        true
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        let locked = self.lock_soon();
        Tick::of(locked.map(|mut locked| {
            locked.change(|core, queue, state| {
                core.take_back(queue, state, wakes);
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

impl<P: Policy> fmt::Debug for Core<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("word", &self.word).finish_non_exhaustive()
    }
}
