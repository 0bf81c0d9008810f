//! The queue of one contended object: who waits, who was granted and has not claimed it yet, and
//! the grant loop.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::bounds::Bounds;
use super::list::List;
use super::timer::{TIMER, Watch};
use super::waiter::{Notes, Place, Pointer, Waiter, standing};
use super::wake::Wakes;
use crate::policy::{Lanes, MAX_LANES, Policy, STATE_BITS};
use crate::primitive::{AtomicU32, AtomicU64, MODELLED, Ordering, TrackedCell, pause, yield_now};

/// Somebody holds the lock and is the only one to write the word.
pub(crate) const LOCKED: u64 = 1 << 63;
/// Releasing has to look at the queue and, unless barging, acquiring has to join it.
pub(crate) const WAITERS: u64 = 1 << 62;
/// In barging mode: a waiter has come too late too often, so nobody overtakes until it is served.
pub(crate) const STRICT: u64 = 1 << 61;
/// What is left for the policy.
pub(crate) const STATE: u64 = (1 << STATE_BITS) - 1;

const _: () = assert!(STATE == STRICT - 1);

/// How often a barging mode lets newcomers overtake the same waiter after waking it.
const OVERTAKEN_AT_MOST: u8 = if MODELLED { 1 } else { 4 };

/// The detail of a waiter in a lane, overtaken so many times more.
fn overtaken(detail: u8, more: u8) -> u8 {
    ((detail & !Notes::SEEN) + more).min(OVERTAKEN_AT_MOST)
}

/// How long a task may leave a grant unclaimed while others wait, unless set otherwise.
const PATIENCE: Duration = Duration::from_millis(50);

/// What tokens, the timer and the watchdog can do to an object, whatever its policy.
pub(crate) trait Kernel: Send + Sync + fmt::Debug {
    /// Ends the request that has these bounds, if it still waits, and lets its followers through.
    ///
    /// # Safety
    /// The bounds are alive, and stay so until this returns. They are beside a waiter that was
    /// queued on this object.
    unsafe fn end(&self, bounds: NonNull<Bounds>, standing: u8, wakes: &mut Wakes);

    /// Looks for grants left unclaimed; false if there is nothing left to watch.
    fn tick(&self, wakes: &mut Wakes) -> bool;

    /// Wakes whom an operation on this object answered. No lock may be held.
    fn finish(&self, wakes: &mut Wakes);

    /// The object's place in the timer.
    fn watch(&self) -> &Watch;

    /// Nanoseconds between two ticks.
    fn interval(&self) -> u64;
}

/// A waiter beside the bounds of its request, so that each can be found from the other.
#[repr(C)]
pub(crate) struct Seat<A, B> {
    pub(crate) bounds: B,
    pub(crate) waiter: Waiter<A>,
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
#[repr(align(64))]
pub(crate) struct Core<P: Policy> {
    pub(crate) word: AtomicU64,
    queue: TrackedCell<Queue<P::Ask>>,
    policy: P,
    patience: AtomicU32,
    watch: Watch,
    me: Weak<Core<P>>,
}

// SAFETY: the queue's pointers lead to pinned waiters, which any thread may touch under the lock;
// asks are `Send` and `Sync`.
unsafe impl<P: Policy> Send for Core<P> {}
// SAFETY: as above.
unsafe impl<P: Policy> Sync for Core<P> {}

/// Everything that the lock protects.
struct Queue<A> {
    lanes: [List<A>; MAX_LANES],
    /// Tasks that were granted (or told to try again) and have not come yet.
    granted: List<A>,
    /// Those who were answered but not told, because the batch of wake-ups was full.
    deferred: List<A>,
    /// How many are in the lanes.
    waiting: usize,
    /// How many were told to try again and have not come yet.
    nudged: usize,
    dormant: usize,
    /// The watchdog's entry is, or is about to be, in the timer.
    armed: bool,
}

impl<A: Copy> Queue<A> {
    const fn new() -> Self {
        Self {
            lanes: [const { List::new() }; MAX_LANES],
            granted: List::new(),
            deferred: List::new(),
            waiting: 0,
            nudged: 0,
            dormant: 0,
            armed: false,
        }
    }

    fn occupied(&self) -> Lanes {
        let bits = (0..MAX_LANES)
            .fold(0, |bits, lane| bits | u8::from(!self.lanes[lane].is_empty()) << lane);
        Lanes::from_bits(bits)
    }
}

/// Whom to tell when a queued request is answered.
pub(crate) enum Whom<'w> {
    /// The task with this waker, which is taken if the request is queued.
    Task(&'w mut Option<Waker>),
    /// The thread that asks.
    Thread,
}

/// The lock, held. Dropping it writes the word, also when a policy panics.
struct Locked<'c, P: Policy> {
    core: &'c Core<P>,
    state: u64,
}

impl<P: Policy> Drop for Locked<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the lock is held.
        let flags = self.core.queue.look(|queue| unsafe { self.core.flags(&*queue, self.state) });
        self.core.word.store(self.state | flags, Ordering::Release);
    }
}

impl<P: Policy> Locked<'_, P> {
    /// What the lock protects.
    #[inline]
    fn change<R>(&mut self, change: impl FnOnce(&Core<P>, &mut Queue<P::Ask>, &mut u64) -> R) -> R {
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
            patience: AtomicU32::new(u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX)),
            watch: Watch::new(),
            me: me.clone(),
        })
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        let milliseconds = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        self.patience.store(milliseconds.max(2), Ordering::Relaxed);
    }

    /// A counted reference, for those who may outlive the borrow.
    pub(crate) fn counted(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    #[inline]
    fn lock(&self) -> Locked<'_, P> {
        let word = self.word.load(Ordering::Relaxed);
        let locked = word | LOCKED;
        if word & LOCKED == 0
            && self
                .word
                .compare_exchange(word, locked, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Locked { core: self, state: word & STATE };
        }
        self.lock_contended()
    }

    #[cold]
    fn lock_contended(&self) -> Locked<'_, P> {
        let mut pauses = 1;
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
            if pauses <= 64 && !MODELLED {
                (0..pauses).for_each(|_| pause());
                pauses *= 2;
            } else {
                yield_now();
            }
        }
    }

    /// The flags that go with this queue.
    #[inline]
    fn flags(&self, queue: &Queue<P::Ask>, state: u64) -> u64 {
        if queue.waiting == 0 {
            return 0;
        }
        if !self.policy.barges(state) {
            return WAITERS;
        }
        let looked_at = if queue.nudged == 0 { WAITERS } else { 0 };
        let strict = if self.is_strict(queue) { WAITERS | STRICT } else { 0 };
        looked_at | strict
    }

    /// In barging mode: whether some lane's head has been overtaken often enough.
    fn is_strict(&self, queue: &Queue<P::Ask>) -> bool {
        queue.lanes[..P::LANES].iter().any(|lane| {
            // SAFETY: called under the lock; what is in a lane is alive.
            lane.front().is_some_and(|head| unsafe {
                head.as_ref().notes(|notes| notes.detail >= OVERTAKEN_AT_MOST)
            })
        })
    }

    /// Whether acquiring may be tried without the lock, and without joining the queue.
    #[inline]
    pub(crate) fn is_open(policy: &P, word: u64, ask: P::Ask) -> bool {
        if word & (LOCKED | WAITERS | STRICT) == 0 {
            return true;
        }
        word & LOCKED == 0
            && ((policy.barges(word & STATE) && word & STRICT == 0)
                || policy.overtakes(word & STATE, ask))
    }

    /// Takes what is asked for under the lock, if it can be had without overtaking.
    pub(crate) fn acquire_now(&self, ask: P::Ask) -> bool {
        self.lock().change(|core, queue, state| {
            let open = Self::is_open(&core.policy, *state | core.flags(queue, *state), ask);
            let next = if open { core.policy.acquire(*state, ask) } else { None };
            next.inspect(|next| *state = *next).is_some()
        })
    }

    /// Why an ask is refused, if it is. Under the lock: whoever told the asker so may not have stored
    /// the state yet.
    pub(crate) fn refusal(&self, ask: P::Ask) -> Option<P::Refusal> {
        self.policy.refuse(self.lock().state, ask)
    }

    /// How many wait, counting the dormant ones.
    pub(crate) fn waiters(&self) -> usize {
        self.lock().change(|_, queue, _| queue.waiting + queue.nudged + queue.dormant)
    }

    /// How many wait in one lane.
    pub(crate) fn waiters_in(&self, lane: usize) -> usize {
        self.lock().change(|_, queue, _| {
            let list = &queue.lanes[lane];
            // SAFETY: the lock is held, and what is in a lane is alive.
            std::iter::successors(list.front(), |waiter| unsafe { list.after(*waiter) }).count()
        })
    }

    /// Grants the waiter's ask, or ends it as `give_up` says, or queues it, and returns its standing.
    ///
    /// # Safety
    /// The waiter is pinned and in no list, and is [withdrawn](Self::withdraw) before its memory is
    /// used otherwise.
    pub(crate) unsafe fn enter(
        &self,
        waiter: Pointer<P::Ask>,
        whom: Whom<'_>,
        give_up: impl FnOnce() -> Option<u8>,
    ) -> Result<u8, P::Refusal> {
        // SAFETY: pinned, hence alive.
        let own = unsafe { waiter.as_ref() };
        let mut arm = false;
        let standing = self.lock().change(|core, queue, state| {
            let open = Self::is_open(&core.policy, *state | core.flags(queue, *state), own.ask);
            if open {
                if let Some(next) = core.policy.acquire(*state, own.ask) {
                    *state = next;
                    return Ok(standing::SERVED);
                }
            }
            if let Some(refusal) = core.policy.refuse(*state, own.ask) {
                return Err(refusal);
            }
            if let Some(standing) = give_up() {
                return Ok(standing);
            }
            let (waker, thread) = match whom {
                Whom::Task(waker) => (waker.take(), false),
                Whom::Thread => (None, true),
            };
            // SAFETY: the lock is held, and the waiter is in no list. It had no waker.
            unsafe {
                own.notes(|notes| {
                    notes.place = Place::Lane;
                    notes.thread = thread;
                });
                own.swap_waker(waker);
                own.stand(standing::WAITING);
                queue.lanes[core.lane(own.ask)].push_back(waiter);
            }
            queue.waiting += 1;
            arm = queue.must_arm();
            Ok(standing::WAITING)
        });
        if arm {
            self.arm();
        }
        standing
    }

    /// The lane for an ask, whatever the policy says.
    #[inline]
    fn lane(&self, ask: P::Ask) -> usize {
        if P::LANES == 1 { 0 } else { self.policy.lane(ask).min(P::LANES - 1) }
    }

    /// Looks after a queued task that is being polled: claims what it was granted, wakes it from
    /// dormancy, or remembers its new waker. `WAITING` means that it goes on waiting.
    ///
    /// # Safety
    /// The waiter was queued here, and this is its owner.
    pub(crate) unsafe fn revisit(&self, waiter: Pointer<P::Ask>, waker: &Waker) -> u8 {
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
                core.revisit_locked(queue, state, waiter, waker, &mut fresh, &mut wakes)
            });
            self.finish(&mut wakes);
            match visit {
                Visit::Stands(standing) => return standing,
                Visit::NeedsWaker => fresh = Some(waker.clone()),
                Visit::Answered => {}
            }
        }
    }

    /// # Safety
    /// As [`revisit`](Self::revisit); and the lock is held.
    unsafe fn revisit_locked(
        &self,
        queue: &mut Queue<P::Ask>,
        state: &mut u64,
        waiter: Pointer<P::Ask>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        wakes: &mut Wakes,
    ) -> Visit {
        // SAFETY: the lock is held, and the waiter is alive and where its notes say.
        unsafe {
            let own = waiter.as_ref();
            match own.notes(|notes| notes.place) {
                Place::Granted => {
                    queue.granted.remove(waiter);
                    own.notes(|notes| notes.place = Place::Nowhere);
                    Visit::Stands(standing::SERVED)
                }
                Place::Deferred => {
                    queue.deferred.remove(waiter);
                    Visit::Stands(own.notes(|notes| {
                        notes.place = Place::Nowhere;
                        if notes.detail == standing::GRANTED {
                            standing::SERVED
                        } else {
                            notes.detail
                        }
                    }))
                }
                Place::Lane => {
                    if !own.would_wake(waker) {
                        match fresh.take() {
                            None => return Visit::NeedsWaker,
                            // The old one is dropped by the caller, after the lock is released.
                            new => *fresh = own.swap_waker(new),
                        }
                    }
                    Visit::Stands(standing::WAITING)
                }
                Place::Nudged | Place::Dormant => {
                    let Some(new) = fresh.take() else { return Visit::NeedsWaker };
                    *fresh = own.swap_waker(Some(new));
                    Visit::Stands(self.stand_first(queue, state, waiter, wakes))
                }
                Place::Nowhere => Visit::Answered,
            }
        }
    }

    /// Lets a waiter that was passed over (dormant, or told to try again) have what it asks for, or
    /// puts it first in its lane.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    unsafe fn stand_first(
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
            if let Some(next) = self.policy.acquire(*state, own.ask) {
                *state = next;
                // In barging mode the next one may have what is left.
                self.settle(queue, state, None, wakes);
                return standing::SERVED;
            }
            if self.policy.refuse(*state, own.ask).is_some() {
                return standing::REFUSED;
            }
            own.notes(|notes| {
                notes.place = Place::Lane;
                notes.detail = overtaken(notes.detail, u8::from(tried));
            });
            own.stand(standing::WAITING);
            queue.lanes[self.lane(own.ask)].push_front(waiter);
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
        self.finish(&mut wakes);
        standing
    }

    /// Takes a waiter off whatever list it is on, and tells where it was.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and where its notes say.
    unsafe fn detach(&self, queue: &mut Queue<P::Ask>, waiter: Pointer<P::Ask>) -> Place {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let (place, thread) = own
                .notes(|notes| (std::mem::replace(&mut notes.place, Place::Nowhere), notes.thread));
            match place {
                Place::Lane => {
                    queue.lanes[self.lane(own.ask)].remove(waiter);
                    queue.waiting -= 1;
                }
                Place::Granted => queue.granted.remove(waiter),
                Place::Nudged => {
                    queue.nudged -= 1;
                    if !thread {
                        queue.granted.remove(waiter);
                    }
                }
                Place::Deferred => queue.deferred.remove(waiter),
                Place::Dormant => queue.dormant -= 1,
                Place::Nowhere => {}
            }
            place
        }
    }

    /// Takes back a request whose owner no longer wants it: gives up its place, or passes on what
    /// it was granted. Afterwards nobody here knows of the waiter.
    ///
    /// # Safety
    /// The waiter is alive and was queued here, and this is its owner.
    pub(crate) unsafe fn withdraw(&self, waiter: Pointer<P::Ask>) {
        // SAFETY: the owner's waiter is alive.
        let own = unsafe { waiter.as_ref() };
        // A task is answered for good only if there is nothing to give back.
        if standing::is_final(own.standing()) {
            return;
        }
        let mut locked = self.lock();
        // SAFETY: the lock is held; the waiter is where its notes say.
        let (given, settle) = locked.change(|core, queue, state| unsafe {
            let heads = queue.lanes[core.lane(own.ask)].front() == Some(waiter);
            let granted = match core.detach(queue, waiter) {
                Place::Granted => true,
                Place::Deferred => own.notes(|notes| notes.detail) == standing::GRANTED,
                Place::Nudged => return (None, true),
                Place::Lane => return (None, heads && queue.waiting > 0),
                Place::Dormant | Place::Nowhere => return (None, false),
            };
            (if granted { core.undo(state, own.ask) } else { None }, granted)
        });
        if settle {
            self.settle_and_wake(locked, given);
        }
    }

    /// Lets through whom a change allows, and wakes them once the lock is released.
    #[inline(never)]
    fn settle_and_wake(&self, mut locked: Locked<'_, P>, given: Option<P::Give>) {
        let mut wakes = Wakes::new();
        locked.change(|core, queue, state| core.settle(queue, state, given, &mut wakes));
        drop(locked);
        self.finish(&mut wakes);
    }

    /// The state after a grant was given back, if it can be.
    fn undo(&self, state: &mut u64, ask: P::Ask) -> Option<P::Give> {
        let give = self.policy.undo(ask)?;
        if let Ok(next) = self.policy.release(*state, give) {
            *state = next;
        }
        Some(give)
    }

    /// Changes the state under the lock and lets through whom that allows. Returns the state
    /// before.
    #[inline(never)]
    pub(crate) fn release(&self, give: P::Give) -> Result<u64, P::Misuse> {
        let mut locked = self.lock();
        let before = locked.state;
        locked.state = self.policy.release(before, give)?;
        self.settle_and_wake(locked, Some(give));
        Ok(before)
    }

    /// Lets everyone who waits now pass, without touching the state. Returns how many.
    pub(crate) fn pass_all(&self) -> usize {
        let mut wakes = Wakes::new();
        let passed = self.lock().change(|core, queue, _| {
            let passed = queue.waiting;
            for lane in 0..P::LANES {
                while let Some(waiter) = queue.lanes[lane].front() {
                    // SAFETY: the lock is held, and what is in a lane is alive.
                    unsafe {
                        core.detach(queue, waiter);
                        core.answer(queue, waiter, standing::SERVED, &mut wakes);
                    }
                }
            }
            passed
        });
        self.finish(&mut wakes);
        passed
    }

    /// The grant loop: looks at the head of the lane whose turn it is, and grants, refuses, or
    /// stops. In barging mode it only wakes the head to try again, one at a time, unless that one
    /// was overtaken too often.
    fn settle(
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
            let Err(_) = round else { break };
            // The policy panicked. If over a request, end that one and go on with the others; its
            // owner will panic in turn.
            let Some(waiter) = looked_at.take() else { break };
            // SAFETY: the lock is held, and the waiter still stands in its lane.
            unsafe {
                self.detach(queue, waiter);
                self.answer(queue, waiter, standing::FAULTED, wakes);
            }
        }
        wakes.arm |= queue.must_arm();
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
        while queue.waiting > 0 {
            let lane = match P::LANES {
                1 => 0,
                _ => self.policy.next_lane(*state, given, queue.occupied()).min(P::LANES - 1),
            };
            let Some(head) = queue.lanes[lane].front() else { return };
            *looked_at = Some(head);
            // SAFETY: the lock is held, and what is in a lane is alive.
            unsafe {
                let ask = head.as_ref().ask;
                match self.policy.acquire(*state, ask) {
                    Some(next) => {
                        if self.policy.barges(*state) && !self.is_strict(queue) {
                            if queue.nudged == 0 {
                                self.detach(queue, head);
                                self.nudge(queue, head, wakes);
                            }
                            return;
                        }
                        self.detach(queue, head);
                        *state = next;
                        self.answer(queue, head, standing::GRANTED, wakes);
                    }
                    None if self.policy.refuse(*state, ask).is_some() => {
                        self.detach(queue, head);
                        self.answer(queue, head, standing::REFUSED, wakes);
                    }
                    None => {
                        // Something was given, but not enough for the head: newcomers may have
                        // had it.
                        if given.is_some() && self.policy.barges(*state) {
                            head.as_ref().notes(|notes| notes.detail = overtaken(notes.detail, 1));
                        }
                        return;
                    }
                }
            }
        }
    }

    /// Answers a waiter that has been taken off its list: `GRANTED`, which is final for a thread
    /// and for a policy with nothing to take back, or something final.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    #[inline]
    unsafe fn answer(
        &self,
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
        standing: u8,
        wakes: &mut Wakes,
    ) {
        // SAFETY: passed on from the caller. A final standing is stored last: the waiter may be
        // gone at that instant.
        unsafe {
            let own = waiter.as_ref();
            if wakes.is_full() {
                own.notes(|notes| {
                    notes.place = Place::Deferred;
                    notes.detail = standing;
                });
                queue.deferred.push_back(waiter);
                wakes.deferred = true;
                return;
            }
            let thread = own.notes(|notes| notes.thread);
            if standing == standing::GRANTED && !thread && self.policy.undo(own.ask).is_some() {
                own.notes(|notes| {
                    notes.place = Place::Granted;
                    notes.detail = 0;
                });
                queue.granted.push_back(waiter);
                wakes.push(own.swap_waker(None), false);
                own.stand(standing::GRANTED);
                return;
            }
            let standing = if standing == standing::GRANTED { standing::SERVED } else { standing };
            self.tell(waiter, thread, standing, wakes);
        }
    }

    /// Stores a standing that gives the waiter back to its owner.
    ///
    /// # Safety
    /// The lock is held, the waiter is alive and on no list, and there is room in `wakes`.
    #[inline]
    unsafe fn tell(&self, waiter: Pointer<P::Ask>, thread: bool, standing: u8, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            if thread && own.answer_spinning(standing) {
                return;
            }
            wakes.push(own.swap_waker(None), thread);
            own.stand(standing);
        }
    }

    /// Barging mode: tells a waiter to try again.
    ///
    /// # Safety
    /// The lock is held, and the waiter is alive and on no list.
    unsafe fn nudge(&self, queue: &mut Queue<P::Ask>, waiter: Pointer<P::Ask>, wakes: &mut Wakes) {
        if wakes.is_full() {
            // Somebody was answered, so somebody will come back and look: not a lost wake-up, but
            // the waiter keeps its place.
            // SAFETY: passed on from the caller.
            unsafe {
                let own = waiter.as_ref();
                own.notes(|notes| notes.place = Place::Lane);
                queue.lanes[self.lane(own.ask)].push_front(waiter);
            }
            queue.waiting += 1;
            wakes.deferred = true;
            return;
        }
        queue.nudged += 1;
        // SAFETY: passed on from the caller.
        unsafe {
            let own = waiter.as_ref();
            let thread = own.notes(|notes| {
                notes.place = Place::Nudged;
                notes.detail &= !Notes::SEEN;
                notes.thread
            });
            if thread {
                self.tell(waiter, true, standing::RETRY, wakes);
            } else {
                queue.granted.push_back(waiter);
                wakes.push(own.swap_waker(None), false);
                own.stand(standing::RETRY);
            }
        }
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
                // A grant wins.
                Place::Granted | Place::Deferred | Place::Nowhere => return,
                Place::Lane | Place::Nudged | Place::Dormant => {}
            }
            core.detach(queue, waiter);
            core.tell(waiter, thread, standing, wakes);
            core.settle(queue, state, None, wakes);
        });
    }

    fn arm(&self) {
        if let Some(object) = self.me.upgrade() {
            TIMER.watch(object);
        }
    }

    /// Takes a grant that was left unclaimed twice back, if others wait.
    fn take_back(&self, queue: &mut Queue<P::Ask>, state: &mut u64, wakes: &mut Wakes) {
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
                let place = self.detach(queue, waiter);
                own.notes(|notes| notes.place = Place::Dormant);
                queue.dormant += 1;
                own.stand(standing::DORMANT);
                let given = if place == Place::Granted { self.undo(state, own.ask) } else { None };
                self.settle(queue, state, given, wakes);
            }
        }
    }
}

/// What a poll of a queued request found.
enum Visit {
    /// The request now stands like this.
    Stands(u8),
    /// A waker has to be cloned, for which the lock had to be let go.
    NeedsWaker,
    /// It was answered in the meantime.
    Answered,
}

impl<A> Queue<A> {
    /// Whether the watchdog is needed and not there; notes that it will be.
    #[inline]
    fn must_arm(&mut self) -> bool {
        let needed = !self.armed && self.waiting > 0 && !self.granted.is_empty();
        self.armed |= needed;
        needed
    }
}

impl<P: Policy> Kernel for Core<P> {
    unsafe fn end(&self, bounds: NonNull<Bounds>, standing: u8, wakes: &mut Wakes) {
        let seat: NonNull<Seat<P::Ask, Bounds>> = bounds.cast();
        // SAFETY: bounds that know this object are the first field of a seat for its asks. Only the
        // address is computed here.
        unsafe {
            let waiter = NonNull::new_unchecked(&raw mut (*seat.as_ptr()).waiter);
            self.end_waiter(waiter, standing, wakes);
        }
    }

    fn tick(&self, wakes: &mut Wakes) -> bool {
        self.lock().change(|core, queue, state| {
            core.take_back(queue, state, wakes);
            queue.armed = queue.waiting > 0 && !queue.granted.is_empty();
            wakes.arm = false;
            queue.armed
        })
    }

    #[inline]
    fn finish(&self, wakes: &mut Wakes) {
        loop {
            if std::mem::take(&mut wakes.arm) {
                self.arm();
            }
            wakes.wake();
            if !std::mem::take(&mut wakes.deferred) {
                break;
            }
            self.lock().change(|core, queue, state| {
                while let Some(waiter) = queue.deferred.front().filter(|_| !wakes.is_full()) {
                    // SAFETY: the lock is held, and what is in a list is alive.
                    unsafe {
                        let answer = waiter.as_ref().notes(|notes| notes.detail);
                        core.detach(queue, waiter);
                        core.answer(queue, waiter, answer, wakes);
                    }
                }
                wakes.deferred = !queue.deferred.is_empty();
                core.settle(queue, state, None, wakes);
            });
        }
        wakes.resume_panic();
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
