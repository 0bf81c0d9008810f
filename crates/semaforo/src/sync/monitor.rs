//! A lock with a condition of its own: what Hoare, and Lampson and Redell, called a monitor.

use std::fmt;

use super::condition::{Condition, LockGuard, WaitFor};
use super::mutex::{Lock, Mutex, MutexGuard};
use super::reentrant::{
    Anywhere, KeyGuard, OnThisThread, OwnerKey, Reenter, ReentrantGuard, ReentrantLock,
};
use super::wait_while::WaitWhile;
use crate::policy::{Exclusive, Owned};
use crate::primitive::constant_unless_modelled;
use crate::wait::limits::Unlimited;
use crate::wait::request::Request;

/// The methods about a monitor's own condition.
macro_rules! own_condition {
    ($policy:ty) => {
        /// Leaves the monitor, waits to be notified, and enters again.
        ///
        /// # Panics
        /// If the guard is another monitor's.
        #[doc(alias = "Monitor.Wait")]
        pub fn wait<G: LockGuard<Policy = $policy>>(&self, inside: G) -> Request<WaitFor<G>> {
            self.own(&inside).wait(inside)
        }

        /// [`wait`](Self::wait), in the order of priorities: the smallest is notified first.
        ///
        /// # Panics
        /// If the guard is another monitor's.
        pub fn wait_by<G: LockGuard<Policy = $policy>>(
            &self,
            inside: G,
            priority: u64,
        ) -> Request<WaitFor<G>> {
            self.own(&inside).wait_by(inside, priority)
        }

        /// Waits for as long as `condition` says so of the value.
        ///
        /// # Panics
        /// If the guard is another monitor's.
        pub fn wait_while<G, F>(
            &self,
            inside: G,
            condition: F,
        ) -> WaitWhile<'_, $policy, G, F, Unlimited>
        where
            G: LockGuard<Policy = $policy>,
            F: FnMut(&G::Target) -> bool,
        {
            self.own(&inside).wait_while(inside, condition)
        }

        /// Notifies one who waits. False if nobody does.
        ///
        /// # Panics
        /// If the guard is another monitor's.
        #[doc(alias = "Pulse")]
        #[doc(alias = "notifyOne")]
        pub fn notify<G: LockGuard<Policy = $policy>>(&self, inside: &G) -> bool {
            self.own(inside).signal(inside)
        }

        /// Notifies everyone who waits. Returns how many.
        ///
        /// # Panics
        /// If the guard is another monitor's.
        #[doc(alias = "PulseAll")]
        #[doc(alias = "notifyAll")]
        pub fn notify_all<G: LockGuard<Policy = $policy>>(&self, inside: &G) -> usize {
            self.own(inside).broadcast(inside)
        }

        /// Hoare's signal: the one notified is inside at once, and this one again when that leaves or
        /// waits; see [`Condition::signal_urgent`].
        ///
        /// # Panics
        /// If the guard is another monitor's.
        pub fn signal_urgent<G: LockGuard<Policy = $policy>>(
            &self,
            inside: G,
        ) -> Request<WaitFor<G>> {
            self.own(&inside).signal_urgent(inside)
        }

        /// Hoare's signal as the last act: the one notified is inside at once, and this one has left; see
        /// [`Condition::signal_and_leave`].
        ///
        /// # Panics
        /// If the guard is another monitor's; or with the panic of a waker.
        pub fn signal_and_leave<G: LockGuard<Policy = $policy>>(&self, inside: G) -> bool {
            self.own(&inside).signal_and_leave(inside)
        }

        /// The monitor's condition, for whoever is inside this monitor. A condition that was never
        /// waited on would take any lock's guard.
        #[track_caller]
        fn own<G: LockGuard<Policy = $policy>>(&self, inside: &G) -> &Condition<$policy> {
            let is_own = std::ptr::eq(inside.synchronizer(), self.lock.synchronizer());
            assert!(is_own, "a monitor was used with the guard of another");
            &self.changed
        }

        /// How many wait to be notified.
        #[must_use]
        pub fn waiting(&self) -> usize {
            self.changed.waiters()
        }

        /// How many wait to enter, counting those who have been notified.
        #[must_use]
        pub fn waiters(&self) -> usize {
            self.lock.waiters()
        }

        /// How many could enter now: one, or none.
        #[must_use]
        pub fn available(&self) -> u32 {
            self.lock.available()
        }

        /// How long a task that was let in may leave that unclaimed while others wait, before its turn
        /// is passed on: 50 ms unless set, and at least 2 ms.
        pub fn set_patience(&self, patience: std::time::Duration) {
            self.lock.set_patience(patience);
        }
    };
}

/// A value that one at a time may use, and where one can wait for what another will do with it.
///
/// By default with Mesa's semantics: whoever was [notified](Self::notify) stands in line for the
/// monitor like everybody else, and looks again when it is inside. On request with Hoare's: with
/// [`signal_urgent`](Self::signal_urgent) the one signalled is inside at once and the signaller next, with
/// [`signal_and_leave`](Self::signal_and_leave) the signaller is done,
/// and with [`wait_by`](Self::wait_by) waits are scheduled by priority.
///
/// More conditions than its own are [`Condition`]s, used with the same guard.
///
/// Whoever is inside and enters again waits for itself, and a build with debug assertions tells, as
/// described at [`Mutex`](crate::Mutex#locking-twice); a [`ReentrantMonitor`] lets its owner in.
///
/// ```
/// use semaforo::Monitor;
///
/// let tickets = Monitor::new(0);
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let inside = tickets.enter().wait();
///         let mut inside = tickets.wait_while(inside, |tickets| *tickets == 0).wait();
///         *inside -= 1;
///     });
///     let mut inside = tickets.enter().wait();
///     *inside += 1;
///     tickets.notify(&inside);
/// });
/// assert_eq!(tickets.into_inner(), 0);
/// ```
#[doc(alias = "synchronized")]
#[doc(alias = "lock statement")]
#[doc(alias = "Monitor.Enter")]
#[doc(alias = "Monitor.Wait")]
#[doc(alias = "Monitor.Pulse")]
#[doc(alias = "Monitor.PulseAll")]
pub struct Monitor<T: ?Sized> {
    changed: Condition,
    lock: Mutex<T>,
}

impl<T> Monitor<T> {
    constant_unless_modelled! {
        /// A monitor around this value, with nobody inside.
        pub const fn new(value: T) -> Self {
            Self { changed: Condition::new(), lock: Mutex::of_monitor(value) }
        }
    }

    /// The value; nobody can be inside any more.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> Monitor<T> {
    /// Asks to be let in.
    #[inline]
    #[doc(alias = "Monitor.Enter")]
    #[doc(alias = "synchronized")]
    #[doc(alias = "lock")]
    pub fn enter(&self) -> Request<Lock<&Mutex<T>>> {
        self.lock.lock()
    }

    /// Enters now, or not at all. Fails while others wait.
    #[must_use = "the monitor is left when the guard is dropped"]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_enter(&self) -> Option<MutexGuard<'_, T>> {
        self.lock.try_lock()
    }

    /// Whether somebody is inside.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        self.lock.is_locked()
    }

    /// The value, without entering: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    own_condition!(Exclusive);
}

/// A [`Monitor`] whose owner may enter again: a thread, or the holder of a key.
///
/// Whoever waits leaves it altogether, however often it has entered, and is inside as often as before
/// when it returns. Because the owner may hold several guards, they give `&T` only.
///
/// ```
/// use semaforo::ReentrantMonitor;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let tickets = ReentrantMonitor::new(AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let outer = tickets.enter().wait().unwrap();
///         let inner = tickets.enter().wait().unwrap();
///         let none = |tickets: &AtomicU32| tickets.load(Ordering::Relaxed) == 0;
///         let inner = tickets.wait_while(inner, none).wait();
///         inner.fetch_sub(1, Ordering::Relaxed);
///     });
///     let inside = tickets.enter().wait().unwrap();
///     inside.fetch_add(1, Ordering::Relaxed);
///     tickets.notify_all(&inside);
/// });
/// ```
#[doc(alias = "synchronized")]
#[doc(alias = "Object.wait")]
#[doc(alias = "Object.notify")]
pub struct ReentrantMonitor<T: ?Sized> {
    changed: Condition<Owned>,
    lock: ReentrantLock<T>,
}

impl<T> ReentrantMonitor<T> {
    constant_unless_modelled! {
        /// A monitor around this value, with nobody inside.
        pub const fn new(value: T) -> Self {
            Self { changed: Condition::new(), lock: ReentrantLock::new(value) }
        }
    }

    /// The value; nobody can be inside any more.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> ReentrantMonitor<T> {
    /// Asks to be let in, on behalf of this thread.
    #[inline]
    #[doc(alias = "lock")]
    #[doc(alias = "Monitor.Enter")]
    #[doc(alias = "synchronized")]
    pub fn enter(&self) -> Request<Reenter<&ReentrantLock<T>, OnThisThread>> {
        self.lock.lock()
    }

    /// Asks to be let in, on behalf of the key's owner.
    pub fn enter_as(&self, key: &OwnerKey) -> Request<Reenter<&ReentrantLock<T>, Anywhere>>
    where
        T: Sync,
    {
        self.lock.lock_as(key)
    }

    /// Enters now for this thread, or not at all.
    #[must_use = "the monitor is left when the guard is dropped"]
    pub fn try_enter(&self) -> Option<ReentrantGuard<'_, T>> {
        self.lock.try_lock()
    }

    /// Enters now for the key's owner, or not at all.
    #[must_use = "the monitor is left when the guard is dropped"]
    pub fn try_enter_as(&self, key: &OwnerKey) -> Option<KeyGuard<'_, T>>
    where
        T: Sync,
    {
        self.lock.try_lock_as(key)
    }

    /// Whether somebody is inside.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        self.lock.is_locked()
    }

    /// How often its owner has entered.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.lock.holds()
    }

    /// The value, without entering: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    own_condition!(Owned);
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("lock", &&self.lock)
            .field("waiting", &self.waiting())
            .finish()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantMonitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMonitor")
            .field("lock", &&self.lock)
            .field("waiting", &self.waiting())
            .finish()
    }
}

impl<T: Default> Default for Monitor<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Default> Default for ReentrantMonitor<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Monitor<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> From<T> for ReentrantMonitor<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
