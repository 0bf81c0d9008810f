//! The wait queue of one condition variable.
//!
//! Its list is protected by the lock bit of its lock's word, so that moving a waiter from here into
//! the lock's own lanes is one step. A waiter on this list waits for a signal; one that was signalled,
//! or has come to the end of its limits, waits for the lock like every other request, and nothing but
//! the lock ends that wait: its owner must hold the lock when it returns.

use std::convert::Infallible;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::task::Waker;

use super::bounds::Bounds;
use super::contended::{Attempt, Locked};
use super::ledger::{Departure, Leaving};
use super::list::List;
use super::rule::ObjectRule;
use super::timer::Watch;
use super::wait_lists::WaitLists;
use super::wait_queue::{Tick, TimedObject, WaitQueue, extra_of, waiter_of};
use super::waiter::{ListKind, Pointer, WaiterState};
use super::wake::{Wakes, resume};
use super::word::{WordObject, WordPolicy, WordRule};
use crate::policy::Policy;
use crate::primitive::TrackedCell;

/// What is said of a guard that holds nothing.
pub(crate) const AWAY: &str = "the lock is not held: the owner of this guard waits with another";

/// The wait queue of one condition variable of a lock.
pub struct ConditionQueue<P: Policy> {
    lock: Arc<WordObject<P>>,
    /// In the order of their priorities. Touched only under the lock bit of the lock's word.
    waiting: TrackedCell<Waiting<P::Ask>>,
    me: Weak<Self>,
}

struct Waiting<A> {
    list: List<A>,
    number: usize,
    /// The task that was signalled urgently last, until it comes or is dropped. It is alive for as long
    /// as it is noted here.
    urgent: Option<Pointer<A>>,
}

// SAFETY: the list's pointers lead to pinned waiters, which any thread may touch under the lock.
unsafe impl<P: Policy> Send for ConditionQueue<P> {}
// SAFETY: as above.
unsafe impl<P: Policy> Sync for ConditionQueue<P> {}

/// The wait of one request at a condition, as the queue notes it: touched only under the lock bit of
/// the lock's word, and by its owner while only that knows of it.
#[derive(Debug)]
pub(crate) struct ConditionWait(TrackedCell<WaitNotes>);

#[derive(Clone, Copy, Debug)]
struct WaitNotes {
    priority: u64,
    /// What the owner has given away, as its policy counts it.
    holds: u32,
    /// There is a [`Leaving`] beside this.
    leaves: bool,
    purpose: Purpose,
    /// Why it no longer waits for a signal.
    end: End,
    /// A limit came to its end after an urgent signal.
    late_end: Option<WaiterState>,
}

/// What a request comes to a condition for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To wait for a signal.
    Wait,
    /// To signal, and to have the lock back when the signalled one is done with it.
    SignalUrgently,
}

/// Why a request no longer waits for a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It does, or never has.
    None,
    /// It was signalled; if it is dropped, the next one is.
    Signalled,
    /// It was signalled, and is to run at once.
    SignalledUrgently,
    /// All were signalled.
    Broadcast,
    /// It was cancelled, or its time was up.
    Limit(WaiterState),
}

impl ConditionWait {
    pub(crate) fn waiting(priority: u64) -> Self {
        Self::new(priority, Purpose::Wait)
    }

    pub(crate) fn signalling() -> Self {
        Self::new(0, Purpose::SignalUrgently)
    }

    fn new(priority: u64, purpose: Purpose) -> Self {
        let end = End::None;
        let noted = WaitNotes { priority, holds: 0, leaves: false, purpose, end, late_end: None };
        Self(TrackedCell::new(noted))
    }

    fn noted(self) -> WaitNotes {
        // SAFETY: owned, so only the owner knows of it.
        self.0.look(|noted| unsafe { *noted })
    }
}

/// The extra of a request at a condition: its wait there, and what its guard has to note.
#[derive(Debug)]
#[repr(C)]
pub struct ConditionExtra<L> {
    note: ConditionWait,
    leaving: L,
}

impl<L: Departure> ConditionExtra<L> {
    pub(crate) fn new(note: ConditionWait, leaving: L) -> Self {
        let noted = WaitNotes { leaves: L::NOTED, ..note.noted() };
        Self { note: ConditionWait(TrackedCell::new(noted)), leaving }
    }

    /// For an owner whose request has finished.
    pub(crate) fn outcome(self) -> Outcome {
        let WaitNotes { holds, end, .. } = self.note.noted();
        let limit = if let End::Limit(state) = end { Some(state) } else { None };
        Outcome { holds, wait: self.leaving.wait(), limit }
    }
}

/// What has become of a wait.
pub(crate) struct Outcome {
    /// What its owner has given away, as its policy counts it; 0 if nothing.
    pub(crate) holds: u32,
    /// The number under which that is noted.
    pub(crate) wait: u64,
    /// Which limit has ended it.
    pub(crate) limit: Option<WaiterState>,
}

impl<P: Policy> ConditionQueue<P> {
    pub(crate) fn new(lock: &WordObject<P>) -> Arc<Self> {
        let lock = lock.shared();
        let waiting = Waiting { list: List::new(), number: 0, urgent: None };
        let waiting = TrackedCell::new(waiting);
        Arc::new_cyclic(|me| Self { lock, waiting, me: me.clone() })
    }

    /// Whether this is a condition of that lock.
    pub(crate) fn belongs_to(&self, lock: &WordObject<P>) -> bool {
        std::ptr::eq(&raw const *self.lock, lock)
    }

    /// How many wait for a signal.
    pub(crate) fn waiting(&self) -> usize {
        self.lock.lock().change(|_, _, lists| {
            self.recall(lists);
            self.inside(|waiting| waiting.number)
        })
    }

    /// The smallest priority of the requests that wait for a signal.
    pub(crate) fn least_priority(&self) -> Option<u64> {
        self.lock.lock().change(|_, _, lists| {
            self.recall(lists);
            let first = self.inside(|waiting| waiting.list.front())?;
            // SAFETY: the lock is held, and what is in the list is alive.
            Some(unsafe { Self::note(first, |note| note.priority) })
        })
    }

    /// Moves up to so many from the condition into the lock's lane, for a caller who holds the lock; it must
    /// be able to ask for it like this.
    ///
    /// # Panics
    /// If the lock is not held so: it would not be passed on to the requests that were moved.
    pub(crate) fn signal(&self, ask: P::Ask, at_most: usize) -> usize {
        let end = if at_most == usize::MAX { End::Broadcast } else { End::Signalled };
        let mut locked = self.lock.lock();
        self.assert_held(&mut locked, ask);
        let (signalled, arm) = locked.change(|_, outside, lists| {
            self.recall(lists);
            let mut signalled = 0;
            while signalled < at_most && self.send_next(outside, lists, end, false) {
                signalled += 1;
            }
            (signalled, lists.must_arm())
        });
        drop(locked);
        self.arm_if(arm);
        signalled
    }

    /// Gives one hold to the first request, for a caller who holds the lock like this, and has left
    /// when this returns. `None` if none waits, and false if it was only moved to the front of the
    /// lock's line, because the caller's owner holds the lock more than once: the caller still has its
    /// hold then. What is left in the wake-ups is a panic.
    ///
    /// # Panics
    /// As [`signal`](Self::signal).
    pub(crate) fn signal_and_leave(&self, ask: P::Ask, wakes: &mut Wakes) -> Option<bool> {
        let mut locked = self.lock.lock();
        self.assert_held(&mut locked, ask);
        // SAFETY: the lock is held, and what is in the list is alive.
        let left = locked.change(|rule, outside, lists| unsafe {
            self.recall(lists);
            let next = self.inside(|waiting| waiting.list.front())?;
            let own = next.as_ref();
            // The policy first, in case it panics.
            let left = outside
                .policy
                .undo(ask)
                .and_then(|give| outside.policy.release(rule.state, give).ok());
            let Some(taken) = left.and_then(|left| outside.policy.acquire(left, own.ask)) else {
                self.send(outside, lists, next, End::Signalled, true);
                wakes.arm |= lists.must_arm();
                return Some(false);
            };
            rule.state = taken;
            self.remove(next);
            Self::note(next, |note| note.end = End::Signalled);
            own.notes(|notes| notes.list = ListKind::Nowhere);
            lists.answer(next, outside.state_of_grant(next), wakes);
            wakes.arm |= lists.must_arm();
            Some(true)
        });
        drop(locked);
        self.lock.finish(wakes);
        left
    }

    /// In barging mode the lock may be left to a task that was told to try again and does not come:
    /// then only the watchdog lets the requests through that were moved into the lock's lane.
    fn arm_if(&self, arm: bool) {
        if arm {
            self.lock.arm();
        }
    }

    /// A re-entrant lock has guards that hold nothing, while their owner waits with another of them.
    fn assert_held(&self, locked: &mut Locked<'_, WordRule<P>>, ask: P::Ask) {
        let held = locked.change(|rule, outside, _| {
            let give = outside.policy.undo(ask);
            give.is_some_and(|give| outside.policy.release(rule.state, give).is_ok())
        });
        assert!(held, "{AWAY}");
    }

    /// A task that was signalled urgently, and did not come, has missed its turn: it is back in the
    /// list, before those of its priority, unless a limit came in the meantime. The lock is held; called
    /// before the list is looked at.
    fn recall(&self, lists: &mut WaitLists<P::Ask>) {
        let Some(waiter) = self.inside(|waiting| waiting.urgent) else { return };
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            if waiter.as_ref().notes(|notes| notes.list) != ListKind::Dormant {
                return;
            }
            self.inside(|waiting| waiting.urgent = None);
            let end = Self::note(waiter, |note| {
                note.end = note.late_end.map_or(End::None, End::Limit);
                note.end
            });
            if end == End::None {
                lists.detach(waiter);
                self.add(waiter, true);
            }
        }
    }

    /// The request that was signalled urgently has come, or leaves. The lock is held.
    fn forget_urgent(&self, waiter: Pointer<P::Ask>) {
        self.inside(|waiting| waiting.urgent = waiting.urgent.filter(|urgent| *urgent != waiter));
    }

    /// Moves the next one into the lock's lane. False if there is none. The lock is held.
    fn send_next(
        &self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        end: End,
        first: bool,
    ) -> bool {
        let Some(waiter) = self.inside(|waiting| waiting.list.front()) else { return false };
        // SAFETY: the lock is held, and what is in the list is alive.
        unsafe { self.send(outside, lists, waiter, end, first) };
        true
    }

    /// Moves a request from the condition into the lock's lane.
    ///
    /// # Safety
    /// The lock is held, and the waiter is in the list.
    unsafe fn send(
        &self,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        waiter: Pointer<P::Ask>,
        end: End,
        first: bool,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            // The policy first, in case it panics.
            let lane = outside.lane(waiter.as_ref().ask);
            self.remove(waiter);
            Self::note(waiter, |note| note.end = end);
            lists.receive(waiter, lane, first);
            if first {
                lists.prioritize(waiter);
            }
        }
    }

    /// # Safety
    /// The lock is held, and the waiter is alive and in a queued request with a condition wait.
    unsafe fn note<R>(waiter: Pointer<P::Ask>, change: impl FnOnce(&mut WaitNotes) -> R) -> R {
        // SAFETY: passed on from the caller; the lock makes this the only access.
        unsafe {
            let note = extra_of::<P::Ask, ConditionWait>(waiter);
            note.as_ref().0.look_mut(|noted| change(&mut *noted))
        }
    }

    /// What the lock, which is held, protects here.
    fn inside<R>(&self, change: impl FnOnce(&mut Waiting<P::Ask>) -> R) -> R {
        // SAFETY: the lock makes this the only access.
        self.waiting.look_mut(|waiting| change(unsafe { &mut *waiting }))
    }

    /// Puts a request into the list, behind those of its priority, or before them.
    ///
    /// # Safety
    /// The lock is held, and the waiter is pinned, prepared, and on no list.
    unsafe fn add(&self, waiter: Pointer<P::Ask>, first: bool) {
        // SAFETY: passed on from the caller; what is in the list is alive.
        unsafe {
            let own = waiter.as_ref();
            let priority = Self::note(waiter, |note| note.priority);
            own.notes(|notes| notes.list = ListKind::Condition);
            own.set_state(WaiterState::Waiting);
            self.inside(|waiting| {
                waiting.number += 1;
                let comes_before = |other: Pointer<P::Ask>| {
                    let other = Self::note(other, |note| note.priority);
                    if first { other < priority } else { other <= priority }
                };
                waiting.list.insert(waiter, comes_before);
            });
        }
    }

    /// # Safety
    /// The lock is held, and the waiter is in the list.
    unsafe fn remove(&self, waiter: Pointer<P::Ask>) {
        self.inside(|waiting| {
            // SAFETY: passed on from the caller.
            unsafe { waiting.list.remove(waiter) };
            waiting.number -= 1;
        });
    }

    /// Gives the lock away, all its owner's holds, and wakes the request that gets it.
    ///
    /// # Safety
    /// As [`enter`](WaitQueue::enter).
    unsafe fn wait(&self, mut locked: Locked<'_, WordRule<P>>, waiter: Pointer<P::Ask>) {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held, and the waiter is pinned, prepared, and on no list.
        let given = locked.change(|rule, outside, lists| unsafe {
            Self::take_back(rule, outside, lists, waiter, &mut wakes);
            // The policy first, in case it panics.
            let ask = waiter.as_ref().ask;
            let (undo, given) = (outside.policy.undo(ask), outside.policy.give_up(rule.state, ask));
            if let Some((left, holds)) = given {
                rule.state = left;
                Self::note_leaving(waiter, holds);
            }
            self.add(waiter, false);
            undo
        });
        self.lock.settle_and_wake(locked, given);
        self.lock.finish(&mut wakes);
        wakes.resume_panic();
    }

    /// The owner of a re-entrant lock is going to give it away: what its other tasks were granted
    /// and have not claimed yet is no one's then. They have missed their turn, and stand first when
    /// they come.
    ///
    /// # Safety
    /// The lock is held, and the waiter is the caller's.
    unsafe fn take_back(
        rule: &mut WordRule<P>,
        outside: &WordPolicy<P>,
        lists: &mut WaitLists<P::Ask>,
        waiter: Pointer<P::Ask>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: passed on from the caller; what is in a list is alive.
        unsafe {
            if Self::leaving(waiter).is_none() {
                return;
            }
            let ask = waiter.as_ref().ask;
            let mut next = lists.granted.front();
            while let Some(granted) = next.filter(|_| !wakes.is_full()) {
                next = lists.granted.after(granted);
                let own = granted.as_ref();
                if own.notes(|notes| notes.list) != ListKind::Granted {
                    continue;
                }
                let give = outside.policy.undo(own.ask);
                let left = give.and_then(|give| outside.policy.release(rule.state, give).ok());
                // Its own hold it keeps, to give it away.
                if let Some(left) = left.filter(|left| outside.policy.give_up(*left, ask).is_some())
                {
                    rule.state = left;
                    lists.detach(granted);
                    lists.make_dormant(granted, wakes);
                }
            }
        }
    }

    /// What a guard of a re-entrant lock has to note.
    ///
    /// # Safety
    /// As [`note`](Self::note); and the caller is the waiter's owner.
    unsafe fn leaving<'w>(waiter: Pointer<P::Ask>) -> Option<&'w Leaving> {
        // SAFETY: passed on from the caller. The note says what is beside it, and only the owner
        // touches that.
        unsafe {
            let leaves = Self::note(waiter, |note| note.leaves);
            let beside = extra_of::<P::Ask, ConditionExtra<Leaving>>(waiter).as_ptr();
            leaves.then(|| &(*beside).leaving)
        }
    }

    /// The waiter's owner gives so much away.
    ///
    /// # Safety
    /// As [`leaving`](Self::leaving).
    unsafe fn note_leaving(waiter: Pointer<P::Ask>, holds: u32) {
        // SAFETY: passed on from the caller. The guard is alive with the waiter, and its lock with
        // the guard.
        unsafe {
            Self::note(waiter, |note| note.holds = holds);
            if let Some(leaving) = Self::leaving(waiter) {
                leaving.leave(holds);
            }
        }
    }

    /// Ends a wait for a signal for an outside reason: from now on the waiter waits for the lock. Lets
    /// go of the lock through which the caller came, and then serves what that allows to be served.
    ///
    /// # Safety
    /// The waiter was queued here, and is alive until `let_go` is called or this returns.
    unsafe fn end_locked(
        &self,
        mut locked: Locked<'_, WordRule<P>>,
        waiter: Pointer<P::Ask>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) {
        locked.change(|rule, outside, lists| {
            self.recall(lists);
            // SAFETY: the lock is held, and the waiter is alive and where its notes say.
            let sent = unsafe {
                let end = Self::note(waiter, |note| note.end);
                match waiter.as_ref().notes(|notes| notes.list) {
                    ListKind::Condition => {
                        self.send(outside, lists, waiter, End::Limit(state), false);
                        true
                    }
                    // A signal wins, unless its turn is missed.
                    _ if end == End::SignalledUrgently => {
                        Self::note(waiter, |note| {
                            note.late_end = note.late_end.or(Some(state));
                        });
                        false
                    }
                    _ => false,
                }
            };
            let_go();
            if sent {
                rule.settle(outside, lists, None, wakes);
                wakes.arm |= lists.must_arm();
            }
        });
    }

    /// Gives the lock to the first request, and stands first in line to have it back. False if none
    /// waits.
    ///
    /// # Safety
    /// As [`enter`](WaitQueue::enter).
    unsafe fn signal_urgently(
        &self,
        mut locked: Locked<'_, WordRule<P>>,
        waiter: Pointer<P::Ask>,
    ) -> bool {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; the waiter is pinned, prepared, and on no list, and what is in the
        // list is alive.
        let signalled = locked.change(|rule, outside, lists| unsafe {
            self.recall(lists);
            let Some(next) = self.inside(|waiting| waiting.list.front()) else { return false };
            let own = next.as_ref();
            Self::take_back(rule, outside, lists, waiter, &mut wakes);
            // The policy first, in case it panics.
            let given = outside.policy.give_up(rule.state, waiter.as_ref().ask);
            let taken = given.and_then(|(left, _)| outside.policy.acquire(left, own.ask));
            let (lane, own_lane) = (outside.lane(own.ask), outside.lane(waiter.as_ref().ask));
            if let Some((left, holds)) = given {
                rule.state = left;
                Self::note_leaving(waiter, holds);
            }
            self.remove(next);
            Self::note(next, |note| note.end = End::SignalledUrgently);
            own.notes(|notes| notes.list = ListKind::Nowhere);
            if let Some(taken) = taken {
                rule.state = taken;
                let state = outside.state_of_grant(next);
                // A thread always comes, and is gone then.
                self.inside(|waiting| {
                    waiting.urgent = (state == WaiterState::Granted).then_some(next)
                });
                lists.answer(next, state, &mut wakes);
            } else {
                lists.receive(next, lane, true);
            }
            lists.join(waiter, own_lane, true);
            lists.prioritize(waiter);
            wakes.arm |= lists.must_arm();
            true
        });
        drop(locked);
        self.lock.finish(&mut wakes);
        if let Some(panic) = wakes.take_panic() {
            resume(panic);
        }
        signalled
    }
}

impl<P: Policy> WaitQueue for ConditionQueue<P> {
    type Ask = P::Ask;
    type Refusal = Infallible;

    fn counted(&self) -> Option<Arc<dyn TimedObject>> {
        let me = self.me.upgrade()?;
        Some(me)
    }

    fn tries_first(&self) -> bool {
        false
    }

    unsafe fn enter(
        &self,
        waiter: Pointer<P::Ask>,
        _: Attempt,
        _: &mut Option<Infallible>,
        give_up: impl FnOnce() -> Option<WaiterState>,
    ) -> WaiterState {
        let mut locked = self.lock.lock();
        // SAFETY: the lock is held; passed on from the caller.
        unsafe {
            self.assert_held(&mut locked, waiter.as_ref().ask);
            let away = Self::leaving(waiter).is_some_and(|leaving| leaving.is_away());
            assert!(!away, "{AWAY}");
            if Self::note(waiter, |note| note.purpose) == Purpose::SignalUrgently {
                let signalled = self.signal_urgently(locked, waiter);
                return if signalled { WaiterState::Waiting } else { WaiterState::Served };
            }
            if let Some(state) = give_up() {
                return state;
            }
            self.wait(locked, waiter);
        }
        WaiterState::Waiting
    }

    unsafe fn claim(&self, waiter: Pointer<P::Ask>) -> bool {
        // SAFETY: the owner's waiter is alive. Once the lock is held, it is where its notes say.
        unsafe {
            waiter.as_ref().state() == WaiterState::Granted
                && self.lock.lock().change(|_, _, lists| {
                    let claimed = lists.claim(waiter);
                    if claimed {
                        self.forget_urgent(waiter);
                    }
                    claimed
                })
        }
    }

    /// A request that was signalled urgently, and did not come, has missed its turn, and waits for the next
    /// signal.
    unsafe fn revisit(&self, waiter: Pointer<P::Ask>, waker: &Waker) -> WaiterState {
        // SAFETY: passed on from the caller; the closure is called under the lock.
        let state = unsafe {
            self.lock.revisit_or(waiter, waker, |lists| {
                self.recall(lists);
                let place = waiter.as_ref().notes(|notes| notes.list);
                (place == ListKind::Condition).then_some(WaiterState::Waiting)
            })
        };
        if state.is_final() {
            let _locked = self.lock.lock();
            self.forget_urgent(waiter);
        }
        state
    }

    unsafe fn retry(&self, waiter: Pointer<P::Ask>) -> WaiterState {
        // SAFETY: passed on from the caller.
        unsafe { self.lock.retry(waiter) }
    }

    /// A signal that is not wanted goes to the next one.
    unsafe fn withdraw(&self, waiter: Pointer<P::Ask>) {
        // SAFETY: the lock is held; the waiter is alive, and where its notes say.
        let (was_waiting, arm) = self.lock.lock().change(|_, outside, lists| unsafe {
            self.recall(lists);
            self.forget_urgent(waiter);
            if waiter.as_ref().notes(|notes| notes.list) == ListKind::Condition {
                self.remove(waiter);
                waiter.as_ref().notes(|notes| notes.list = ListKind::Nowhere);
                return (true, false);
            }
            match Self::note(waiter, |note| note.end) {
                End::Signalled => self.send_next(outside, lists, End::Signalled, false),
                End::SignalledUrgently => self.send_next(outside, lists, End::Signalled, true),
                End::None | End::Broadcast | End::Limit(_) => false,
            };
            (false, lists.must_arm())
        });
        self.arm_if(arm);
        if !was_waiting {
            // SAFETY: passed on from the caller.
            unsafe { self.lock.withdraw(waiter) };
        }
    }

    unsafe fn end_waiter(&self, waiter: Pointer<P::Ask>, state: WaiterState, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe { self.end_locked(self.lock.lock(), waiter, state, wakes, &mut || ()) };
    }

    fn expulsion(&self) -> Option<Infallible> {
        None
    }
}

impl<P: Policy> TimedObject for ConditionQueue<P> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        let Some(locked) = self.lock.lock_soon() else { return false };
        // SAFETY: bounds that know this queue are the first field of a queued request with its lock's asks.
        unsafe { self.end_locked(locked, waiter_of(bounds), state, wakes, let_go) };
        true
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        self.lock.tick(wakes)
    }

    fn finish(&self, wakes: &mut Wakes) {
        self.lock.finish(wakes);
    }

    fn watch(&self) -> &Watch {
        self.lock.watch()
    }

    fn interval(&self) -> u64 {
        self.lock.interval()
    }
}

impl<P: Policy> fmt::Debug for ConditionQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConditionQueue").field("lock", &self.lock).finish_non_exhaustive()
    }
}
