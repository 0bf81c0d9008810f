//! Waiting, inside a lock, for something that another will do there.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::wait_while::WaitWhile;
use crate::policy::{Exclusive, Owned, Policy, ReadWrite};
use crate::synchronizer::Synchronizer;
use crate::wait::core::Attempt;
use crate::wait::limits::{Unlimited, WaitError};
use crate::wait::operation::{AskOf, Operation, OutcomeOf, sealed};
use crate::wait::request::Request;
use crate::wait::room::{Note, Room};
use crate::wait::waiter::standing;

/// Something to wait for while holding a lock: the lock is given away meanwhile.
///
/// A lock may have many conditions. A condition belongs to the first lock that it is used with, and
/// using it with another panics. [`wait`](Self::wait) takes the guard, and yields it back with the
/// lock held again, also when it was cancelled or its time was up.
///
/// A signal moves the one who has waited longest from the condition into the lock's line: it wakes up
/// when the lock is its own, and never to find it taken. There are no other wake-ups. Between the
/// signal and that moment others may have had the lock, so what was signalled may no longer hold:
/// use [`wait_while`](Self::wait_while), or Hoare's [`signal_urgent`](Self::signal_urgent).
///
/// ```
/// use semaforo::{Condition, Mutex};
/// use std::collections::VecDeque;
///
/// let letters = Mutex::new(VecDeque::new());
/// let arrived = Condition::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let box_ = letters.lock().wait();
///         let mut box_ = arrived.wait_while(box_, |letters| letters.is_empty()).wait();
///         assert_eq!(box_.pop_front(), Some("a letter"));
///     });
///     let mut box_ = letters.lock().wait();
///     box_.push_back("a letter");
///     arrived.signal(&box_);
/// });
/// ```
///
/// A signal wins over a limit that comes to its end while the signalled one still waits for the lock.
/// If the signalled one is dropped before it returns, the next one is signalled instead.
///
/// Whoever waits gives all its holds of a [`ReentrantLock`](crate::ReentrantLock) away, and has as many
/// again when it returns. Its other guards hold nothing meanwhile, nor ever again if the wait is dropped;
/// to wait or to signal with one of them panics. They have to be kept until the wait returns: the hold
/// of one that was dropped during it comes back with the others, and stays.
pub struct Condition<P: Policy = Exclusive> {
    room: OnceLock<Arc<Room<P>>>,
}

/// A condition of a [`ReentrantLock`](crate::ReentrantLock).
///
/// The value has to be one that can be shared. While one guard waits, the owner's others still give out
/// references to it, and whoever has the lock meanwhile does, too:
///
/// ```compile_fail,E0277
/// use semaforo::{ReentrantCondition, ReentrantLock};
/// use std::cell::Cell;
///
/// let (lock, changed) = (ReentrantLock::new(Cell::new(0)), ReentrantCondition::new());
/// let outer = lock.lock().wait().unwrap();
/// let inner = lock.lock().wait().unwrap();
/// let inner = changed.wait(inner).wait();
/// ```
pub type ReentrantCondition = Condition<Owned>;

/// A condition of the write side of an [`RwLock`](crate::RwLock).
pub type WriteCondition = Condition<ReadWrite>;

/// A guard that can be waited with: of a [`Mutex`](crate::Mutex), a
/// [`ReentrantLock`](crate::ReentrantLock), a [`Monitor`](crate::Monitor), or the write side of an
/// [`RwLock`](crate::RwLock).
pub trait LockGuard: guard::LockGuard {}

impl<G: guard::LockGuard> LockGuard for G {}

pub(crate) mod guard {
    use std::ops::Deref;

    use crate::policy::Policy;
    use crate::synchronizer::Synchronizer;

    /// What a condition needs to know of a guard.
    pub trait LockGuard: Deref + Sized {
        type Policy: Policy;

        fn synchronizer(&self) -> &Synchronizer<Self::Policy>;

        /// What to ask for to have the lock again.
        fn ask(&self) -> <Self::Policy as Policy>::Ask;

        /// Drops the guard of somebody who has given the lock away.
        fn forget(self);
    }
}

/// The guard of a wait on a [`Condition`] that was ended by its limits. The lock is held.
pub struct Interrupted<G> {
    /// The guard.
    pub guard: G,
    /// Why the wait was ended.
    pub why: WaitError,
}

impl<G> Interrupted<G> {
    /// The guard.
    pub fn into_guard(self) -> G {
        self.guard
    }
}

impl<P: Policy> Condition<P> {
    /// A condition that belongs to no lock yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { room: OnceLock::new() }
    }

    /// Gives the lock away, waits for a signal, and then for the lock.
    ///
    /// ```
    /// use semaforo::{Condition, Mutex, WaitError};
    /// use std::time::Duration;
    ///
    /// let (lock, never) = (Mutex::new(1), Condition::new());
    /// let guard = lock.lock().wait();
    /// let ended = never.wait(guard).timeout(Duration::from_millis(5)).wait().unwrap_err();
    /// assert_eq!((ended.why, *ended.guard), (WaitError::TimedOut, 1));
    /// ```
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn wait<G: LockGuard<Policy = P>>(&self, guard: G) -> Request<WaitFor<G>> {
        self.wait_by(guard, 0)
    }

    /// [`wait`](Self::wait), in the order of priorities: a signal goes to the smallest, and to the one
    /// who has waited longest among equals. (Finding the place takes as long as there are greater
    /// ones.)
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn wait_by<G: LockGuard<Policy = P>>(
        &self,
        guard: G,
        priority: u64,
    ) -> Request<WaitFor<G>> {
        self.request(guard, Note::waiting(priority))
    }

    /// Waits for signals for as long as `condition` says so of the value.
    ///
    /// Await it, or block on it with [`wait`](WaitWhile::wait); it can be bounded like any request.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn wait_while<G, F>(&self, guard: G, condition: F) -> WaitWhile<'_, P, G, F, Unlimited>
    where
        G: LockGuard<Policy = P>,
        F: FnMut(&G::Target) -> bool,
    {
        self.room(&guard);
        WaitWhile::new(self, guard, condition)
    }

    /// Signals one who waits. False if nobody does.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn signal<G: LockGuard<Policy = P>>(&self, guard: &G) -> bool {
        self.signal_many(guard, 1) == 1
    }

    /// Signals up to so many of those who wait. Returns how many.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn signal_many<G: LockGuard<Policy = P>>(&self, guard: &G, at_most: usize) -> usize {
        self.existing_room(guard).map_or(0, |room| room.signal(guard.ask(), at_most))
    }

    /// Signals everyone who waits. Returns how many.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn broadcast<G: LockGuard<Policy = P>>(&self, guard: &G) -> usize {
        self.signal_many(guard, usize::MAX)
    }

    /// Hoare's signal: the one signalled has the lock at once, nobody in between, and this one waits
    /// and has it back next, before all who wait for the lock. If nobody waits, nothing happens.
    ///
    /// If the one signalled is a task that does not come for its turn, it misses it: this one goes on
    /// after the lock's patience, and that one waits for the next signal.
    ///
    /// Nothing but the lock ends this wait, so a limit has no effect.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn signal_urgent<G: LockGuard<Policy = P>>(&self, guard: G) -> Request<WaitFor<G>> {
        self.request(guard, Note::signalling())
    }

    /// How many wait for a signal.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.room.get().map_or(0, |room| room.occupants())
    }

    /// Whether somebody waits for a signal.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.waiters() > 0
    }

    /// The smallest priority of those who wait for a signal: whose turn it is next.
    pub fn least_priority<G: LockGuard<Policy = P>>(&self, guard: &G) -> Option<u64> {
        self.existing_room(guard)?.least_priority()
    }

    fn request<G: LockGuard<Policy = P>>(&self, guard: G, note: Note) -> Request<WaitFor<G>> {
        let room = Arc::clone(self.room(&guard));
        let ask = guard.ask();
        Request::beside(WaitFor { room, guard }, ask, note)
    }

    fn room<G: LockGuard<Policy = P>>(&self, guard: &G) -> &Arc<Room<P>> {
        let core = guard.synchronizer().core();
        // Whoever is first holds the lock, so nobody else is here, unless with another lock.
        let room = self.room.get_or_init(|| Room::new(core));
        assert!(room.belongs_to(core), "a condition was used with the guard of another lock");
        room
    }

    fn existing_room<G: LockGuard<Policy = P>>(&self, guard: &G) -> Option<&Arc<Room<P>>> {
        self.room.get().inspect(|_| {
            self.room(guard);
        })
    }
}

impl<P: Policy> Default for Condition<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> fmt::Debug for Condition<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("waiters", &self.waiters()).finish()
    }
}

/// The operation of those who wait on a [`Condition`], and of those who signal urgently.
pub struct WaitFor<G: LockGuard> {
    room: Arc<Room<G::Policy>>,
    guard: G,
}

impl<G: LockGuard> sealed::Operation for WaitFor<G> {
    type Line = Room<G::Policy>;
    type Beside = Note;

    fn attempt(&self, _: &mut AskOf<Self>) -> Attempt {
        Attempt::Unknown
    }

    fn line(&self) -> &Room<G::Policy> {
        &self.room
    }
}

impl<G: LockGuard> WaitFor<G> {
    /// The guard, of a lock that is held as often as before, and what has ended the wait.
    fn finish(self, note: Note) -> (G, Option<WaitError>) {
        let (holds, end) = note.outcome();
        restore(self.guard.synchronizer(), self.guard.ask(), holds);
        let why = end.map(|end| match end {
            standing::CANCELLED => WaitError::Cancelled,
            _ => WaitError::TimedOut,
        });
        (self.guard, why)
    }
}

/// Takes the other holds of a lock again that is held once.
fn restore<P: Policy>(synchronizer: &Synchronizer<P>, ask: P::Ask, holds: u32) {
    for _ in 1..holds {
        let again = synchronizer.acquire_or_not(ask);
        debug_assert!(again, "the owner comes again");
    }
}

impl<G: LockGuard> Operation for WaitFor<G> {
    type Output = G;
    type Bounded = Result<G, Interrupted<G>>;

    fn output(self, _: AskOf<Self>, note: Note, _: Result<(), Infallible>) -> G {
        self.finish(note).0
    }

    fn bounded(self, _: AskOf<Self>, note: Note, outcome: OutcomeOf<Self>) -> Self::Bounded {
        let (guard, why) = self.finish(note);
        match outcome.err().or(why) {
            None => Ok(guard),
            Some(why) => Err(Interrupted { guard, why }),
        }
    }

    fn abandon(self, _: AskOf<Self>, note: Note) {
        if note.into_away() {
            self.guard.forget();
        }
    }
}

impl<G: LockGuard> fmt::Debug for WaitFor<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitFor")
    }
}

impl<G> fmt::Debug for Interrupted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<G> fmt::Display for Interrupted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<G> Error for Interrupted<G> {}
