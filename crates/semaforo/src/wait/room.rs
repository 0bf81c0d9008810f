//! Where those wait who wait on one condition of a lock.
//!
//! A room's list is protected by the lock bit of its lock's [`Core`], so that moving somebody from the
//! room into the lock's line is one step. Whoever is in the room waits for a signal; whoever was
//! signalled, or has come to the end of its limits, waits for the lock like everybody else, and
//! nothing but the lock ends that wait: it must hold the lock when it returns.

use std::convert::Infallible;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use super::bounds::Bounds;
use super::core::{Attempt, Core, Locked};
use super::kernel::{Kernel, Line, beside, beside_waiter};
use super::list::List;
use super::queue::Queue;
use super::timer::Watch;
use super::waiter::{Place, Pointer, standing};
use super::wake::{Wakes, resume};
use crate::policy::Policy;
use crate::primitive::TrackedCell;

/// The waiting room of a condition.
pub struct Room<P: Policy> {
    core: Arc<Core<P>>,
    /// In the order of their priorities. Touched only under the core's lock.
    occupants: TrackedCell<Occupants<P::Ask>>,
}

struct Occupants<A> {
    list: List<A>,
    number: usize,
    /// The task that was signalled urgently last, until it comes or is dropped. It is alive for as long
    /// as it is noted here.
    urgent: Option<Pointer<A>>,
}

// SAFETY: the list's pointers lead to pinned waiters, which any thread may touch under the lock.
unsafe impl<P: Policy> Send for Room<P> {}
// SAFETY: as above.
unsafe impl<P: Policy> Sync for Room<P> {}

/// What is noted beside a waiter in a room: touched only under the core's lock, and by its owner while
/// nobody else knows of it.
#[derive(Debug)]
pub struct Note(TrackedCell<Noted>);

#[derive(Clone, Copy, Debug)]
struct Noted {
    priority: u64,
    /// How often the owner held the lock.
    holds: u32,
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
        let noted = Noted { priority, holds: 0, errand, end: End::None, late_end: None };
        Self(TrackedCell::new(noted))
    }

    fn noted(self) -> Noted {
        // SAFETY: owned, so nobody else knows of it.
        self.0.look(|noted| unsafe { *noted })
    }

    /// For an owner whose request has finished: how often it held the lock, and holds it once now (0
    /// if it never gave it away), and which limit has ended its wait.
    pub(crate) fn outcome(self) -> (u32, Option<u8>) {
        let Noted { holds, end, .. } = self.noted();
        (holds, if let End::Limit(standing) = end { Some(standing) } else { None })
    }

    /// For an owner whose request is dropped: whether it gave the lock away.
    pub(crate) fn into_away(self) -> bool {
        self.noted().holds > 0
    }
}

impl<P: Policy> Room<P> {
    pub(crate) fn new(core: &Core<P>) -> Arc<Self> {
        let core = core.shared();
        let occupants = Occupants { list: List::new(), number: 0, urgent: None };
        Arc::new(Self { core, occupants: TrackedCell::new(occupants) })
    }

    /// Whether this is a room of that lock.
    pub(crate) fn belongs_to(&self, core: &Core<P>) -> bool {
        std::ptr::eq(&raw const *self.core, core)
    }

    /// How many wait for a signal.
    pub(crate) fn occupants(&self) -> usize {
        self.core.lock().change(|_, queue, _| {
            self.recall(queue);
            self.inside(|room| room.number)
        })
    }

    /// The smallest priority of those who wait for a signal.
    pub(crate) fn least_priority(&self) -> Option<u64> {
        self.core.lock().change(|_, queue, _| {
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
        let mut locked = self.core.lock();
        self.assert_held(&mut locked, ask);
        locked.change(|core, queue, _| {
            self.recall(queue);
            let mut signalled = 0;
            while signalled < at_most && self.send_next(core, queue, end, false) {
                signalled += 1;
            }
            signalled
        })
    }

    /// A re-entrant lock has guards that hold nothing, while their owner waits with another of them.
    fn assert_held(&self, locked: &mut Locked<'_, P>, ask: P::Ask) {
        let held = locked.change(|core, _, state| {
            let give = core.policy.undo(ask);
            give.is_some_and(|give| core.policy.release(*state, give).is_ok())
        });
        assert!(held, "the lock is not held: the owner of this guard waits with another");
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
    fn send_next(&self, core: &Core<P>, queue: &mut Queue<P::Ask>, end: End, first: bool) -> bool {
        let Some(waiter) = self.inside(|room| room.list.front()) else { return false };
        // SAFETY: the lock is held, and what is in the room is alive.
        unsafe { self.send(core, queue, waiter, end, first) };
        true
    }

    /// Moves somebody from the room into the lock's line.
    ///
    /// # Safety
    /// The lock is held, and the waiter is in the room.
    unsafe fn send(
        &self,
        core: &Core<P>,
        queue: &mut Queue<P::Ask>,
        waiter: Pointer<P::Ask>,
        end: End,
        first: bool,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            self.remove(waiter);
            Self::note(waiter, |note| note.end = end);
            queue.receive(waiter, core.lane(waiter.as_ref().ask), first);
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
    unsafe fn wait(&self, mut locked: Locked<'_, P>, waiter: Pointer<P::Ask>) {
        // SAFETY: the lock is held, and the waiter is pinned, prepared, and on no list.
        let given = locked.change(|core, _, state| unsafe {
            let given = Self::give_away(core, state, waiter);
            self.add(waiter, false);
            given
        });
        self.core.settle_and_wake(locked, given);
    }

    /// # Safety
    /// The lock is held, and the waiter is alive; its owner holds the user's lock.
    unsafe fn give_away(
        core: &Core<P>,
        state: &mut u64,
        waiter: Pointer<P::Ask>,
    ) -> Option<P::Give> {
        // SAFETY: passed on from the caller.
        unsafe {
            let give = core.policy.undo(waiter.as_ref().ask)?;
            while let Ok(next) = core.policy.release(*state, give) {
                *state = next;
                Self::note(waiter, |note| note.holds += 1);
            }
            Some(give)
        }
    }

    /// Gives the lock to the first in the room, and stands first in line to have it back. False if
    /// there is nobody.
    ///
    /// # Safety
    /// As [`enter`](Line::enter).
    unsafe fn signal_urgently(&self, mut locked: Locked<'_, P>, waiter: Pointer<P::Ask>) -> bool {
        let mut wakes = Wakes::new();
        // SAFETY: the lock is held; the waiter is pinned, prepared, and on no list, and what is in the
        // room is alive.
        let signalled = locked.change(|core, queue, state| unsafe {
            self.recall(queue);
            let Some(next) = self.inside(|room| room.list.front()) else { return false };
            Self::give_away(core, state, waiter);
            self.remove(next);
            Self::note(next, |note| note.end = End::SignalledUrgently);
            let own = next.as_ref();
            own.notes(|notes| notes.place = Place::Nowhere);
            if let Some(taken) = core.policy.acquire(*state, own.ask) {
                *state = taken;
                let standing = core.standing_of_grant(next);
                // A thread always comes, and is gone then.
                self.inside(|room| room.urgent = (standing == standing::GRANTED).then_some(next));
                queue.answer(next, standing, &mut wakes);
            } else {
                debug_assert!(false, "the lock was just given away");
                queue.receive(next, core.lane(own.ask), true);
            }
            queue.join(waiter, core.lane(waiter.as_ref().ask), true);
            queue.hurry(waiter);
            wakes.arm |= queue.must_arm();
            true
        });
        drop(locked);
        self.core.finish(&mut wakes);
        if let Some(panic) = wakes.take_panic() {
            resume(panic);
        }
        signalled
    }
}

impl<P: Policy> Line for Room<P> {
    type Ask = P::Ask;
    type Refusal = Infallible;

    fn counted(&self) -> Option<Arc<dyn Kernel>> {
        // SAFETY: a room is made by `new` only, in an `Arc`.
        unsafe {
            Arc::increment_strong_count(self);
            Some(Arc::from_raw(self))
        }
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
        let mut locked = self.core.lock();
        // SAFETY: the lock is held; passed on from the caller.
        unsafe {
            self.assert_held(&mut locked, waiter.as_ref().ask);
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
                && self.core.lock().change(|_, queue, _| {
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
            self.core.revisit_or(waiter, waker, |queue| {
                self.recall(queue);
                let place = waiter.as_ref().notes(|notes| notes.place);
                (place == Place::Condition).then_some(standing::WAITING)
            })
        };
        if standing::is_final(standing) {
            let _locked = self.core.lock();
            self.forget_urgent(waiter);
        }
        standing
    }

    unsafe fn retry(&self, waiter: Pointer<P::Ask>) -> u8 {
        // SAFETY: passed on from the caller.
        unsafe { self.core.retry(waiter) }
    }

    /// A signal that is not wanted goes to the next one.
    unsafe fn withdraw(&self, waiter: Pointer<P::Ask>) {
        // SAFETY: the lock is held; the waiter is alive, and where its notes say.
        let was_in_room = self.core.lock().change(|core, queue, _| unsafe {
            self.recall(queue);
            self.forget_urgent(waiter);
            if waiter.as_ref().notes(|notes| notes.place) == Place::Condition {
                self.remove(waiter);
                waiter.as_ref().notes(|notes| notes.place = Place::Nowhere);
                return true;
            }
            match Self::note(waiter, |note| note.end) {
                End::Signalled => self.send_next(core, queue, End::Signalled, false),
                End::SignalledUrgently => self.send_next(core, queue, End::Signalled, true),
                End::None | End::Broadcast | End::Limit(_) => false,
            };
            false
        });
        if !was_in_room {
            // SAFETY: passed on from the caller.
            unsafe { self.core.withdraw(waiter) };
        }
    }

    unsafe fn end_waiter(&self, waiter: Pointer<P::Ask>, standing: u8, wakes: &mut Wakes) {
        // SAFETY: the lock is held, and the waiter is where its notes say.
        self.core.lock().change(|core, queue, state| unsafe {
            self.recall(queue);
            let end = Self::note(waiter, |note| note.end);
            match waiter.as_ref().notes(|notes| notes.place) {
                Place::Condition => {
                    self.send(core, queue, waiter, End::Limit(standing), false);
                    core.settle(queue, state, None, wakes);
                }
                // A signal wins, unless its turn is missed.
                _ if end == End::SignalledUrgently => Self::note(waiter, |note| {
                    note.late_end = note.late_end.or(Some(standing));
                }),
                _ => {}
            }
        });
    }

    fn expulsion(&self) -> Option<Infallible> {
        None
    }
}

impl<P: Policy> Kernel for Room<P> {
    unsafe fn end(&self, bounds: NonNull<Bounds>, standing: u8, wakes: &mut Wakes) {
        // SAFETY: bounds that know this room are the first field of a seat for its lock's asks.
        unsafe { self.end_waiter(beside(bounds), standing, wakes) };
    }

    fn tick(&self, wakes: &mut Wakes) -> bool {
        self.core.tick(wakes)
    }

    fn finish(&self, wakes: &mut Wakes) {
        self.core.finish(wakes);
    }

    fn watch(&self) -> &Watch {
        self.core.watch()
    }

    fn interval(&self) -> u64 {
        self.core.interval()
    }
}

impl<P: Policy> fmt::Debug for Room<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("core", &self.core).finish_non_exhaustive()
    }
}
