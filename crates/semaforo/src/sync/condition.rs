//! Waiting, inside a lock, for something that another will do there.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::wait_while::WaitWhile;
use crate::policy::{Exclusive, Owned, Policy, ReadWrite};
use crate::synchronizer::guard;
use crate::wait::condition_queue::{AWAY, ConditionExtra, ConditionQueue, ConditionWait, Outcome};
use crate::wait::contended::Attempt;
use crate::wait::limits::{Unlimited, WaitError};
use crate::wait::operation::{AskOf, Operation, OutcomeOf, sealed};
use crate::wait::request::Request;
use crate::wait::self_wait::CallSite;
use crate::wait::waiter::WaiterState;
use crate::wait::wake::{Wakes, resume};

/// Something to wait for while holding a lock: the lock is given away meanwhile.
///
/// A lock may have many conditions. A condition belongs to the lock of the first guard that it is
/// to wait with, and using it with another's panics from then on. (Before, there is nothing to
/// signal, whatever the guard.) [`wait`](Self::wait) takes the guard, and yields it back with the
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
/// A lock of your own has conditions, too: the [`Held`](crate::Held) of a policy that is a
/// [`MutualExclusion`](crate::policy::MutualExclusion) can wait, as is shown there.
///
/// A signal wins over a limit that comes to its end while the signalled one still waits for the lock.
/// If the signalled one is dropped before it returns, the next one is signalled instead.
///
/// Whoever waits gives all its holds of a [`ReentrantLock`](crate::ReentrantLock) away, and of a
/// [`ReentrantRwLock`](crate::ReentrantRwLock) its writes and its reads, and has as many again when it
/// returns. Its other guards hold nothing meanwhile, nor ever again if the wait is dropped; to wait or to
/// signal with one of them panics, although their owner may have the lock again through a new one, and
/// the hold of one that is dropped meanwhile does not come back.
/// One key is one party: if several tasks use it, and one of them waits, what another was granted
/// and has not claimed yet is given away with the rest, and that one stands in line again, as if it
/// had missed its turn.
#[doc(alias = "Condvar")]
#[doc(alias = "ConditionVariable")]
#[doc(alias = "condition_variable")]
#[doc(alias = "pthread_cond_t")]
#[doc(alias = "ConditionObject")]
#[doc(alias = "newCondition")]
#[doc(alias = "Monitor.Pulse")]
pub struct Condition<P: Policy = Exclusive> {
    queue: OnceLock<Arc<ConditionQueue<P>>>,
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
/// [`ReentrantLock`](crate::ReentrantLock), a [`Monitor`](crate::Monitor), the write side of an
/// [`RwLock`](crate::RwLock) or a [`ReentrantRwLock`](crate::ReentrantRwLock), or the
/// [`Held`](crate::Held) of a lock of your own.
pub trait LockGuard: guard::LockGuard {}

impl<G: guard::LockGuard> LockGuard for G {}

/// # Panics
/// If the guard's hold is away, although its owner may have the lock again through another.
pub(super) fn assert_here<G: LockGuard>(guard: &G) {
    assert!(!guard.is_away(), "{AWAY}");
}

/// The lock is going to be given to others.
fn given_away<G: LockGuard>(guard: &G) {
    if let Some(record) = guard.record() {
        record.clear();
    }
}

/// The guard of a wait on a [`Condition`] that was ended by its limits. The lock is held.
///
/// A `?` drops the guard, and passes the reason on: as a [`WaitError`] of any kind, or boxed. It is not
/// an error itself, because a guard in an error would keep the lock, and borrows it. For error types
/// that want one that owns everything there is [`into_error`](Self::into_error).
///
/// ```
/// use semaforo::{Condition, Interrupted, Mutex, WaitError};
/// use std::error::Error;
/// use std::time::Duration;
///
/// fn next(lock: &Mutex<Vec<u32>>, more: &Condition) -> Result<Option<u32>, Box<dyn Error>> {
///     let numbers = lock.lock().wait();
///     let limit = Duration::from_millis(5);
///     let mut numbers = more.wait_while(numbers, |n| n.is_empty()).timeout(limit).wait()?;
///     Ok(numbers.pop())
/// }
///
/// let lock = Mutex::new(Vec::new());
/// let error = next(&lock, &Condition::new()).unwrap_err();
/// assert_eq!(error.downcast_ref(), Some(&WaitError::<std::convert::Infallible>::TimedOut));
/// assert!(!lock.is_locked());
/// ```
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

    /// Why the wait was ended. The guard is dropped.
    pub fn into_error(self) -> WaitError {
        self.why
    }
}

/// Drops the guard.
impl<G, R> From<Interrupted<G>> for WaitError<R> {
    fn from(interrupted: Interrupted<G>) -> Self {
        interrupted.into_error().widen()
    }
}

/// Drops the guard.
impl<G> From<Interrupted<G>> for Box<dyn Error> {
    fn from(interrupted: Interrupted<G>) -> Self {
        interrupted.into_error().into()
    }
}

/// Drops the guard.
impl<G> From<Interrupted<G>> for Box<dyn Error + Send + Sync> {
    fn from(interrupted: Interrupted<G>) -> Self {
        interrupted.into_error().into()
    }
}

impl<P: Policy> Condition<P> {
    /// A condition that belongs to no lock yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: OnceLock::new() }
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
    #[doc(alias = "awaitNanos")]
    #[doc(alias = "awaitUntil")]
    #[doc(alias = "awaitUninterruptibly")]
    #[doc(alias = "await")]
    #[doc(alias = "pthread_cond_wait")]
    #[doc(alias = "pthread_cond_timedwait")]
    #[doc(alias = "Wait")]
    pub fn wait<G: LockGuard<Policy = P>>(&self, guard: G) -> Request<WaitFor<G>> {
        self.wait_by(guard, 0)
    }

    /// [`wait`](Self::wait), in the order of priorities: a signal goes to the smallest, and to the one
    /// who has waited longest among equals. (Finding the place takes as long as there are greater
    /// ones.)
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    #[doc(alias = "scheduled wait")]
    pub fn wait_by<G: LockGuard<Policy = P>>(
        &self,
        guard: G,
        priority: u64,
    ) -> Request<WaitFor<G>> {
        self.request(guard, ConditionWait::waiting(priority))
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
        self.queue(&guard);
        WaitWhile::new(self, guard, condition)
    }

    /// Signals one who waits. False if nobody does.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    #[doc(alias = "notify_one")]
    #[doc(alias = "Pulse")]
    #[doc(alias = "pthread_cond_signal")]
    #[doc(alias = "notify")]
    pub fn signal<G: LockGuard<Policy = P>>(&self, guard: &G) -> bool {
        self.signal_many(guard, 1) == 1
    }

    /// Signals up to so many of those who wait. Returns how many.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    pub fn signal_many<G: LockGuard<Policy = P>>(&self, guard: &G, at_most: usize) -> usize {
        self.existing_queue(guard).map_or(0, |queue| {
            assert_here(guard);
            queue.signal(guard.ask(), at_most)
        })
    }

    /// Signals everyone who waits. Returns how many.
    ///
    /// # Panics
    /// If the condition belongs to another lock.
    #[doc(alias = "notify_all")]
    #[doc(alias = "PulseAll")]
    #[doc(alias = "signalAll")]
    #[doc(alias = "pthread_cond_broadcast")]
    #[doc(alias = "notifyAll")]
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
    #[doc(alias = "signal and wait")]
    #[doc(alias = "signal and urgent wait")]
    pub fn signal_urgent<G: LockGuard<Policy = P>>(&self, guard: G) -> Request<WaitFor<G>> {
        self.request(guard, ConditionWait::signalling())
    }

    /// Hoare's signal as the last act: the one signalled has the lock at once, nobody in between, and
    /// this one has left. If nobody waits, it only leaves. Says whether somebody was signalled.
    ///
    /// It does not wait, and costs one hand-over instead of the two of
    /// [`signal_urgent`](Self::signal_urgent). (If its owner holds a re-entrant lock more than once, the
    /// lock is not free then: the one signalled is the next to have it.)
    ///
    /// ```
    /// use semaforo::{Condition, Mutex};
    ///
    /// let (free, changed) = (Mutex::new(false), Condition::new());
    /// std::thread::scope(|scope| {
    ///     let taken = free.lock().wait();
    ///     scope.spawn(|| {
    ///         let mut free = changed.wait(taken).wait();
    ///         assert!(*free, "what was signalled holds: no loop is needed");
    ///         *free = false;
    ///     });
    ///     while changed.waiters() == 0 {
    ///         std::thread::yield_now();
    ///     }
    ///     let mut free = free.lock().wait();
    ///     *free = true;
    ///     assert!(changed.signal_and_leave(free));
    /// });
    /// ```
    ///
    /// # Panics
    /// If the condition belongs to another lock; or with the panic of a waker.
    #[doc(alias = "signal and exit")]
    #[doc(alias = "signal and return")]
    pub fn signal_and_leave<G: LockGuard<Policy = P>>(&self, guard: G) -> bool {
        let Some(queue) = self.existing_queue(&guard) else { return false };
        assert_here(&guard);
        given_away(&guard);
        let mut wakes = Wakes::new();
        let left = queue.signal_and_leave(guard.ask(), &mut wakes);
        if left == Some(true) {
            // The one signalled has its hold.
            guard.forget(0, 1);
        } else {
            drop(guard);
        }
        if let Some(panic) = wakes.take_panic() {
            resume(panic);
        }
        left.is_some()
    }

    /// How many wait for a signal.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.queue.get().map_or(0, |queue| queue.waiting())
    }

    /// Whether somebody waits for a signal.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.waiters() > 0
    }

    /// The smallest priority of those who wait for a signal: whose turn it is next.
    pub fn least_priority<G: LockGuard<Policy = P>>(&self, guard: &G) -> Option<u64> {
        self.existing_queue(guard)?.least_priority()
    }

    fn request<G: LockGuard<Policy = P>>(
        &self,
        guard: G,
        note: ConditionWait,
    ) -> Request<WaitFor<G>> {
        let queue = Arc::clone(self.queue(&guard));
        let (ask, extra) = (guard.ask(), ConditionExtra::new(note, guard.leaving()));
        Request::with_extra(WaitFor { queue, guard }, ask, extra)
    }

    fn queue<G: LockGuard<Policy = P>>(&self, guard: &G) -> &Arc<ConditionQueue<P>> {
        let core = guard.synchronizer().core();
        // Whoever is first holds the lock, so nobody else is here, unless with another lock.
        let queue = self.queue.get_or_init(|| ConditionQueue::new(core));
        assert!(queue.belongs_to(core), "a condition was used with the guard of another lock");
        queue
    }

    fn existing_queue<G: LockGuard<Policy = P>>(
        &self,
        guard: &G,
    ) -> Option<&Arc<ConditionQueue<P>>> {
        self.queue.get().inspect(|_| {
            self.queue(guard);
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
    queue: Arc<ConditionQueue<G::Policy>>,
    guard: G,
}

impl<G: LockGuard> sealed::Operation for WaitFor<G> {
    type Queue = ConditionQueue<G::Policy>;
    type Extra = ConditionExtra<G::Leaving>;

    fn attempt(&self, _: &mut AskOf<Self>) -> Attempt {
        given_away(&self.guard);
        Attempt::Unknown
    }

    fn queue(&self) -> &ConditionQueue<G::Policy> {
        &self.queue
    }

    fn locked_at(&self, at: CallSite) {
        if let Some(record) = self.guard.record() {
            record.note(at);
        }
    }
}

impl<G: LockGuard> WaitFor<G> {
    /// The guard, of a lock that is held as often as before, and what has ended the wait.
    fn finish(self, extra: ConditionExtra<G::Leaving>) -> (G, Option<WaitError>) {
        let Outcome { holds, wait, limit } = extra.outcome();
        if holds > 0 {
            self.guard.come_back(wait, holds);
        }
        let why = limit.map(|end| match end {
            WaiterState::Cancelled => WaitError::Cancelled,
            _ => WaitError::TimedOut,
        });
        (self.guard, why)
    }
}

impl<G: LockGuard> Operation for WaitFor<G> {
    type Output = G;
    type Bounded = Result<G, Interrupted<G>>;

    fn output(self, _: AskOf<Self>, extra: Self::Extra, _: Result<(), Infallible>) -> G {
        self.finish(extra).0
    }

    fn bounded(
        self,
        _: AskOf<Self>,
        extra: Self::Extra,
        outcome: OutcomeOf<Self>,
    ) -> Self::Bounded {
        let (guard, why) = self.finish(extra);
        match outcome.err().or(why) {
            None => Ok(guard),
            Some(why) => Err(Interrupted { guard, why }),
        }
    }

    fn abandon(self, _: AskOf<Self>, extra: Self::Extra) {
        let Outcome { holds, wait, .. } = extra.outcome();
        if holds > 0 {
            self.guard.forget(wait, holds);
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
