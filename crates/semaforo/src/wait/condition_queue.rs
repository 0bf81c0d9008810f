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
use super::kernel::{Kernel, Line, Tick, beside, beside_waiter};
use super::list::List;
use super::queue::Queue;
use super::rule::ObjectRule;
use super::timer::Watch;
use super::waiter::{Place, Pointer, standing};
use super::wake::{Wakes, resume};
use super::word::{Judgement, WordObject, WordRule};
use crate::policy::Policy;
use crate::primitive::TrackedCell;
use crate::sync::ledger::{Departure, Leaving};

/// What is said of a guard that holds nothing.
pub(crate) const AWAY: &str = "the lock is not held: the owner of this guard waits with another";

/// The waiting room of a condition.
pub struct ConditionQueue<P: Policy> {
    lock: Arc<WordObject<P>>,
    /// In the order of their priorities. Touched only under the lock bit of the lock's word.
    occupants: TrackedCell<Occupants<P::Ask>>,
    me: Weak<Self>,
}

struct Occupants<A> {
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

/// What is noted beside a waiter in a room: touched only under the lock bit of the lock's word, and by its owner while
/// nobody else knows of it.
#[derive(Debug)]
pub(crate) struct Note(TrackedCell<Noted>);

#[derive(Clone, Copy, Debug)]
struct Noted {
    priority: u64,
    /// What the owner has given away, as its policy counts it.
    holds: u32,
    /// There is a [`Leaving`] beside this note.
    leaves: bool,
    errand: Errand,
    /// Why it is no longer in the room.
    end: End,
    /// A limit came to its end after an urgent signal.
    late_end: Option<u8>,
}

/// What somebody comes to a room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// To wait for a signal.
    Wait,
    /// To signal, and to have the lock back when the signalled one is done with it.
    SignalUrgently,
}

/// Why somebody is no longer in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is, or has never been.
    None,
    /// It was signalled; if it does not want that, the next one is.
    Signalled,
    /// It was signalled, and is to run at once.
    SignalledUrgently,
    /// Everyone was signalled.
    Broadcast,
    /// It was cancelled, or its time was up.
    Limit(u8),
}

impl Note {
    pub(crate) fn waiting(priority: u64) -> Self {
        Self::new(priority, Errand::Wait)
    }

    pub(crate) fn signalling() -> Self {
        Self::new(0, Errand::SignalUrgently)
    }

    fn new(priority: u64, errand: Errand) -> Self {
        let end = End::None;
        let noted = Noted { priority, holds: 0, leaves: false, errand, end, late_end: None };
        Self(TrackedCell::new(noted))
    }

    fn noted(self) -> Noted {
        // SAFETY: owned, so nobody else knows of it.
        self.0.look(|noted| unsafe { *noted })
    }
}

/// What is beside a waiter in a room: the note, and what its guard has to note.
#[derive(Debug)]
#[repr(C)]
pub struct Beside<L> {
    note: Note,
    leaving: L,
}

impl<L: Departure> Beside<L> {
    pub(crate) fn new(note: Note, leaving: L) -> Self {
        let noted = Noted { leaves: L::NOTED, ..note.noted() };
        Self { note: Note(TrackedCell::new(noted)), leaving }
    }

    /// For an owner whose request has finished.
    pub(crate) fn outcome(self) -> Outcome {
        let Noted { holds, end, .. } = self.note.noted();
        let limit = if let End::Limit(standing) = end { Some(standing) } else { None };
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
    pub(crate) limit: Option<u8>,
}

impl<P: Policy> ConditionQueue<P> {
    pub(crate) fn new(lock: &WordObject<P>) -> Arc<Self> {
        let lock = lock.shared();
        let occupants = Occupants { list: List::new(), number: 0, urgent: None };
        let occupants = TrackedCell::new(occupants);
        Arc::new_cyclic(|me| Self { lock, occupants, me: me.clone() })
    }

    /// Whether this is a room of that lock.
    pub(crate) fn belongs_to(&self, lock: &WordObject<P>) -> bool {
        std::ptr::eq(&raw const *self.lock, lock)
    }

    /// How many wait for a signal.
    pub(crate) fn occupants(&self) -> usize {
        self.lock.lock().change(|_, _, queue| {
            self.recall(queue);
            self.inside(|room| room.number)
        })
    }

    /// The smallest priority of those who wait for a signal.
    pub(crate) fn least_priority(&self) -> Option<u64> {
        self.lock.lock().change(|_, _, queue| {
            self.recall(queue);
            let first = self.inside(|room| room.list.front())?;
            // SAFETY: the lock is held, and what is in the room is alive.
            Some(unsafe { Self::note(first, |note| note.priority) })
        })
    }

    /// Moves up to so many from the room into the lock's line, for a caller who holds the lock; it must
    /// be able to ask for it like this.
    ///
    /// # Panics
    /// If the lock is not held so: nobody would pass it on to those who were moved.
    pub(crate) fn signal(&self, ask: P::Ask, at_most: usize) -> usize {
        let end = if at_most == usize::MAX { End::Broadcast } else { End::Signalled };
        let mut locked = self.lock.lock();
        self.assert_held(&mut locked, ask);
        let (signalled, arm) = locked.change(|_, judge, queue| {
            self.recall(queue);
            let mut signalled = 0;
            while signalled < at_most && self.send_next(judge, queue, end, false) {
                signalled += 1;
            }
            (signalled, queue.must_arm())
        });
        drop(locked);
        self.arm_if(arm);
        signalled
    }

    /// Gives one hold to the first in the room, for a caller who holds the lock like this, and has left
    /// when this returns. `None` if there is nobody, and false if it was only moved to the front of the
    /// lock's line, because the caller's owner holds the lock more than once: the caller still has its
    /// hold then. What is left in the wake-ups is a panic.
    ///
    /// # Panics
    /// As [`signal`](Self::signal).
    pub(crate) fn signal_and_leave(&self, ask: P::Ask, wakes: &mut Wakes) -> Option<bool> {
        let mut locked = self.lock.lock();
        self.assert_held(&mut locked, ask);
        // SAFETY: the lock is held, and what is in the room is alive.
        let left = locked.change(|rule, judge, queue| unsafe {
            self.recall(queue);
            let next = self.inside(|room| room.list.front())?;
            let own = next.as_ref();
            // The policy first, in case it panics.
            let left =
                judge.policy.undo(ask).and_then(|give| judge.policy.release(rule.state, give).ok());
            let Some(taken) = left.and_then(|left| judge.policy.acquire(left, own.ask)) else {
                self.send(judge, queue, next, End::Signalled, true);
                wakes.arm |= queue.must_arm();
                return Some(false);
            };
            rule.state = taken;
            self.remove(next);
            Self::note(next, |note| note.end = End::Signalled);
            own.notes(|notes| notes.place = Place::Nowhere);
            queue.answer(next, judge.standing_of_grant(next), wakes);
            wakes.arm |= queue.must_arm();
            Some(true)
        });
        drop(locked);
        self.lock.finish(wakes);
        left
    }

    /// In barging mode the lock may be left to a task that was told to try again and does not come:
    /// then only the watchdog lets those through who were moved into the lock's line.
    fn arm_if(&self, arm: bool) {
        if arm {
            self.lock.arm();
        }
    }

    /// A re-entrant lock has guards that hold nothing, while their owner waits with another of them.
    fn assert_held(&self, locked: &mut Locked<'_, WordRule<P>>, ask: P::Ask) {
        let held = locked.change(|rule, judge, _| {
            let give = judge.policy.undo(ask);
            give.is_some_and(|give| judge.policy.release(rule.state, give).is_ok())
        });
        assert!(held, "{AWAY}");
    }

    /// A task that was signalled urgently, and did not come, has missed its turn: it is back in the
    /// room, before those of its priority, unless a limit came in the meantime. The lock is held; called
    /// before anybody looks at who is in the room.
    fn recall(&self, queue: &mut Queue<P::Ask>) {
        let Some(waiter) = self.inside(|room| room.urgent) else { return };
        // SAFETY: the lock is held, and the waiter is alive.
        unsafe {
            if waiter.as_ref().notes(|notes| notes.place) != Place::Dormant {
                return;
            }
            self.inside(|room| room.urgent = None);
            let end = Self::note(waiter, |note| {
                note.end = note.late_end.map_or(End::None, End::Limit);
                note.end
            });
            if end == End::None {
                queue.detach(waiter);
                self.add(waiter, true);
            }
        }
    }

    /// Whoever was signalled urgently has come, or leaves. The lock is held.
    fn forget_urgent(&self, waiter: Pointer<P::Ask>) {
        self.inside(|room| room.urgent = room.urgent.filter(|urgent| *urgent != waiter));
    }

    /// Moves the next one into the lock's line. False if there is none. The lock is held.
    fn send_next(
        &self,
        judge: &Judgement<P>,
        queue: &mut Queue<P::Ask>,
        end: End,
        first: bool,
    ) -> bool {
        let Some(waiter) = self.inside(|room| room.list.front()) else { return false };
        // SAFETY: the lock is held, and what is in the room is alive.
        unsafe { self.send(judge, queue, waiter, end, first) };
        true
    }

    /// Moves somebody from the room into the lock's line.
    ///
    /// # Safety
    /// The lock is held, and the waiter is in the room.
    unsafe fn send(
        &self,
        judge: &Judgement<P>,
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
        end: End,
        first: bool,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            // The policy first, in case it panics.
            let lane = judge.lane(waiter.as_ref().ask);
            self.remove(waiter);
            Self::note(waiter, |note| note.end = end);
            queue.receive(waiter, lane, first);
            if first {
                queue.hurry(waiter);
            }
        }
    }

    /// # Safety
    /// The lock is held, and the waiter is alive and in a seat with a note.
    unsafe fn note<R>(waiter: Pointer<P::Ask>, change: impl FnOnce(&mut Noted) -> R) -> R {
        // SAFETY: passed on from the caller; the lock makes this the only access.
        unsafe {
            let note = beside_waiter::<P::Ask, Note>(waiter);
            note.as_ref().0.look_mut(|noted| change(&mut *noted))
        }
    }

    /// What the lock, which is held, protects here.
    fn inside<R>(&self, change: impl FnOnce(&mut Occupants<P::Ask>) -> R) -> R {
        // SAFETY: the lock makes this the only access.
        self.occupants.look_mut(|occupants| change(unsafe { &mut *occupants }))
    }

    /// Puts somebody into the room, behind those of its priority, or before them.
    ///
    /// # Safety
    /// The lock is held, and the waiter is pinned, prepared, and on no list.
    unsafe fn add(&self, waiter: Pointer<P::Ask>, first: bool) {
        // SAFETY: passed on from the caller; what is in the room is alive.
        unsafe {
            let own = waiter.as_ref();
            let priority = Self::note(waiter, |note| note.priority);
            own.notes(|notes| notes.place = Place::Condition);
            own.stand(standing::WAITING);
            self.inside(|room| {
                room.number += 1;
                let comes_before = |other: Pointer<P::Ask>| {
                    let other = Self::note(other, |note| note.priority);
                    if first { other < priority } else { other <= priority }
                };
                room.list.insert(waiter, comes_before);
            });
        }
    }

    /// # Safety
    /// The lock is held, and the waiter is in the room.
    unsafe fn remove(&self, waiter: Pointer<P::Ask>) {
        self.inside(|room| {
            // SAFETY: passed on from the caller.
            unsafe { room.list.remove(waiter) };
            room.number -= 1;
        });
    }

    /// Gives the lock away, all its owner's holds, and wakes whoever gets it.
    ///
    /// # Safety
    /// As [`enter`](Line::enter).
    unsafe fn wait(&self, mut locked: Locked<'_, WordRule<P>>, waiter: Pointer<P::Ask>) {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held, and the waiter is pinned, prepared, and on no list.
        let given = locked.change(|rule, judge, queue| unsafe {
            Self::take_back(rule, judge, queue, waiter, &mut wakes);
            // The policy first, in case it panics.
            let ask = waiter.as_ref().ask;
            let (undo, given) = (judge.policy.undo(ask), judge.policy.give_up(rule.state, ask));
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
        judge: &Judgement<P>,
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
        wakes: &mut Wakes,
    ) {
        // SAFETY: passed on from the caller; what is in a list is alive.
        unsafe {
            if Self::leaving(waiter).is_none() {
                return;
            }
            let ask = waiter.as_ref().ask;
            let mut next = queue.granted.front();
            while let Some(granted) = next.filter(|_| !wakes.is_full()) {
                next = queue.granted.after(granted);
                let own = granted.as_ref();
                if own.notes(|notes| notes.place) != Place::Granted {
                    continue;
                }
                let give = judge.policy.undo(own.ask);
                let left = give.and_then(|give| judge.policy.release(rule.state, give).ok());
                // Its own hold it keeps, to give it away.
                if let Some(left) = left.filter(|left| judge.policy.give_up(*left, ask).is_some()) {
                    rule.state = left;
                    queue.detach(granted);
                    queue.rest(granted, wakes);
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
            let beside = beside_waiter::<P::Ask, Beside<Leaving>>(waiter).as_ptr();
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
    /// go of the lock through which the caller came, and then lets through whom that allows.
    ///
    /// # Safety
    /// The waiter was queued here, and is alive until `let_go` is called or this returns.
    unsafe fn end_locked(
        &self,
        mut locked: Locked<'_, WordRule<P>>,
        waiter: Pointer<P::Ask>,
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) {
        locked.change(|rule, judge, queue| {
            self.recall(queue);
            // SAFETY: the lock is held, and the waiter is alive and where its notes say.
            let sent = unsafe {
                let end = Self::note(waiter, |note| note.end);
                match waiter.as_ref().notes(|notes| notes.place) {
                    Place::Condition => {
                        self.send(judge, queue, waiter, End::Limit(standing), false);
                        true
                    }
                    // A signal wins, unless its turn is missed.
                    _ if end == End::SignalledUrgently => {
                        Self::note(waiter, |note| {
                            note.late_end = note.late_end.or(Some(standing));
                        });
                        false
                    }
                    _ => false,
                }
            };
            let_go();
            if sent {
                rule.settle(judge, queue, None, wakes);
                wakes.arm |= queue.must_arm();
            }
        });
    }

    /// Gives the lock to the first in the room, and stands first in line to have it back. False if
    /// there is nobody.
    ///
    /// # Safety
    /// As [`enter`](Line::enter).
    unsafe fn signal_urgently(
        &self,
        mut locked: Locked<'_, WordRule<P>>,
        waiter: Pointer<P::Ask>,
    ) -> bool {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; the waiter is pinned, prepared, and on no list, and what is in the
        // room is alive.
        let signalled = locked.change(|rule, judge, queue| unsafe {
            self.recall(queue);
            let Some(next) = self.inside(|room| room.list.front()) else { return false };
            let own = next.as_ref();
            Self::take_back(rule, judge, queue, waiter, &mut wakes);
            // The policy first, in case it panics.
            let given = judge.policy.give_up(rule.state, waiter.as_ref().ask);
            let taken = given.and_then(|(left, _)| judge.policy.acquire(left, own.ask));
            let (lane, own_lane) = (judge.lane(own.ask), judge.lane(waiter.as_ref().ask));
            if let Some((left, holds)) = given {
                rule.state = left;
                Self::note_leaving(waiter, holds);
            }
            self.remove(next);
            Self::note(next, |note| note.end = End::SignalledUrgently);
            own.notes(|notes| notes.place = Place::Nowhere);
            if let Some(taken) = taken {
                rule.state = taken;
                let standing = judge.standing_of_grant(next);
                // A thread always comes, and is gone then.
                self.inside(|room| room.urgent = (standing == standing::GRANTED).then_some(next));
                queue.answer(next, standing, &mut wakes);
            } else {
                queue.receive(next, lane, true);
            }
            queue.join(waiter, own_lane, true);
            queue.hurry(waiter);
            wakes.arm |= queue.must_arm();
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

impl<P: Policy> Line for ConditionQueue<P> {
    type Ask = P::Ask;
    type Refusal = Infallible;

    fn counted(&self) -> Option<Arc<dyn Kernel>> {
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
        give_up: impl FnOnce() -> Option<u8>,
    ) -> u8 {
        let mut locked = self.lock.lock();
        // SAFETY: the lock is held; passed on from the caller.
        unsafe {
            self.assert_held(&mut locked, waiter.as_ref().ask);
            let away = Self::leaving(waiter).is_some_and(|leaving| leaving.is_away());
            assert!(!away, "{AWAY}");
            if Self::note(waiter, |note| note.errand) == Errand::SignalUrgently {
                let signalled = self.signal_urgently(locked, waiter);
                return if signalled { standing::WAITING } else { standing::SERVED };
            }
            if let Some(standing) = give_up() {
                return standing;
            }
            self.wait(locked, waiter);
        }
        standing::WAITING
    }

    unsafe fn claim(&self, waiter: Pointer<P::Ask>) -> bool {
        // SAFETY: the owner's waiter is alive. Once the lock is held, it is where its notes say.
        unsafe {
            waiter.as_ref().standing() == standing::GRANTED
                && self.lock.lock().change(|_, _, queue| {
                    let claimed = queue.claim(waiter);
                    if claimed {
                        self.forget_urgent(waiter);
                    }
                    claimed
                })
        }
    }

    /// Whoever was signalled urgently, and did not come, has missed its turn, and waits for the next
    /// signal.
    unsafe fn revisit(&self, waiter: Pointer<P::Ask>, waker: &Waker) -> u8 {
        // SAFETY: passed on from the caller; the closure is called under the lock.
        let standing = unsafe {
            self.lock.revisit_or(waiter, waker, |queue| {
                self.recall(queue);
                let place = waiter.as_ref().notes(|notes| notes.place);
                (place == Place::Condition).then_some(standing::WAITING)
            })
        };
        if standing::is_final(standing) {
            let _locked = self.lock.lock();
            self.forget_urgent(waiter);
        }
        standing
    }

    unsafe fn retry(&self, waiter: Pointer<P::Ask>) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe { self.lock.retry(waiter) }
    }

    /// A signal that is not wanted goes to the next one.
    unsafe fn withdraw(&self, waiter: Pointer<P::Ask>) {
        // SAFETY: the lock is held; the waiter is alive, and where its notes say.
        let (was_in_room, arm) = self.lock.lock().change(|_, judge, queue| unsafe {
            self.recall(queue);
            self.forget_urgent(waiter);
            if waiter.as_ref().notes(|notes| notes.place) == Place::Condition {
                self.remove(waiter);
                waiter.as_ref().notes(|notes| notes.place = Place::Nowhere);
                return (true, false);
            }
            match Self::note(waiter, |note| note.end) {
                End::Signalled => self.send_next(judge, queue, End::Signalled, false),
                End::SignalledUrgently => self.send_next(judge, queue, End::Signalled, true),
                End::None | End::Broadcast | End::Limit(_) => false,
            };
            (false, queue.must_arm())
        });
        self.arm_if(arm);
        if !was_in_room {
            // SAFETY: passed on from the caller.
            unsafe { self.lock.withdraw(waiter) };
        }
    }

    unsafe fn end_waiter(&self, waiter: Pointer<P::Ask>, standing: u8, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe { self.end_locked(self.lock.lock(), waiter, standing, wakes, &mut || ()) };
    }

    fn expulsion(&self) -> Option<Infallible> {
        None
    }
}

impl<P: Policy> Kernel for ConditionQueue<P> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        standing: u8,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        let Some(locked) = self.lock.lock_soon() else { return false };
        // SAFETY: bounds that know this room are the first field of a seat for its lock's asks.
        unsafe { self.end_locked(locked, beside(bounds), standing, wakes, let_go) };
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
