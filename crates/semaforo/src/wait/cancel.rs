//! Cancellation: a source fires, its tokens tell, and requests that wait with one of them are ended.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::bounds::Bounds;
use super::parker::{Backoff, Sleeping};
use super::request::Request;
use super::slots::Slots;
use super::timer::{Entry, Kind, TIMER, nanoseconds, saturating_nanoseconds};
use super::user_code;
use super::waiter::WaiterState;
use super::wake::{Wakes, first, resume};
use crate::policy::{Gate, Opening};
use crate::primitive::{
    AtomicBool, Mutex, MutexGuard, Ordering, constant_unless_modelled, global, made_when_needed,
    now,
};
use crate::synchronizer::{Passing, Synchronizer};

/// The side of a cancellation that fires.
///
/// Dropping a source does not cancel anything.
///
/// ```
/// use semaforo::{CancelSource, Semaphore, WaitError};
///
/// let stop = CancelSource::new();
/// let jobs = Semaphore::new(0);
/// stop.cancel_because("shutting down");
///
/// let ended = jobs.acquire(1).cancel_on(&stop.token()).wait();
/// assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
/// assert_eq!(stop.token().reason().as_deref(), Some("shutting down"));
/// ```
///
/// It can be a `static`, which allocates nothing until it is used:
///
/// ```
/// static SHUTDOWN: semaforo::CancelSource = semaforo::CancelSource::new();
///
/// let token = SHUTDOWN.token();
/// SHUTDOWN.cancel();
/// assert!(token.is_cancelled());
/// ```
#[doc(alias = "CancellationTokenSource")]
#[doc(alias = "AbortController")]
#[doc(alias = "stop_source")]
pub struct CancelSource {
    /// Made when it is first needed.
    token: OnceLock<CancelToken>,
}

/// The side of a cancellation that is watched. Cloning it is cheap; asking it costs one load.
///
/// Pass it to [`cancel_on`](Request::cancel_on), ask it with [`is_cancelled`](Self::is_cancelled)
/// in a loop, or wait for it with [`cancelled`](Self::cancelled).
#[doc(alias = "CancellationToken")]
#[doc(alias = "AbortSignal")]
#[doc(alias = "stop_token")]
#[doc(alias = "ctx.Done")]
#[derive(Clone)]
pub struct CancelToken {
    state: Arc<TokenState>,
}

/// What a source and its tokens share.
///
/// Locks are taken in the order timer, token, queue; no token's lock is held while another
/// token's is taken.
#[repr(C)]
pub(crate) struct TokenState {
    /// First, because the timer finds the token through it.
    entry: Entry,
    fired: AtomicBool,
    /// It may fire at all: it has a source, or had one.
    fires: bool,
    /// Those who wait for the token itself.
    gate: Synchronizer<Gate>,
    registry: Mutex<Registry>,
    me: Weak<TokenState>,
    /// The timer points to the entry, also while the token is dropped.
    _pinned: PhantomPinned,
}

#[derive(Default)]
struct Registry {
    /// The oldest of the requests that this token can end, in a ring.
    oldest: Option<NonNull<Bounds>>,
    /// What was started with this token; gone once that has fired.
    told: Slots<Weak<dyn OnCancel>>,
    /// Counted, so that a chain holds when its middle is dropped.
    parents: Vec<Arc<TokenState>>,
    /// By address.
    children: BTreeMap<usize, Weak<TokenState>>,
    reason: Option<Arc<str>>,
    /// The timer has, or had, this token's entry.
    timed: bool,
}

// SAFETY: the pointers lead to bounds that any thread may touch under the registry's lock, and the
// entry belongs to the timer's lock.
unsafe impl Send for TokenState {}
// SAFETY: as above.
unsafe impl Sync for TokenState {}

/// Something that is told when a token fires: a task that was started with it.
///
/// It is told once, without any lock held, after the token says that it has fired and before
/// [`cancel`](CancelSource::cancel) returns; before the requests that wait with the token are ended, so
/// that a task which waits with its own token does not get to see that. A panic reaches the caller that fired,
/// after all others have been told.
pub(crate) trait OnCancel: Send + Sync {
    fn cancelled(&self);
}

/// A request's neighbours in a token's ring, both absent while it is not in one. Belongs to the
/// token's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    next: Option<NonNull<Bounds>>,
    previous: Option<NonNull<Bounds>>,
}

impl Link {
    pub(crate) const UNLINKED: Self = Self { next: None, previous: None };
}

impl Registry {
    /// # Safety
    /// The bounds are registered and in no ring, and stay alive until they are taken out.
    unsafe fn push(&mut self, bounds: NonNull<Bounds>) {
        let oldest = *self.oldest.get_or_insert(bounds);
        // SAFETY: everything in the ring is alive, and the registry is locked.
        unsafe {
            let newest = oldest.as_ref().link.look(|link| (*link).previous).unwrap_or(bounds);
            let link = Link { next: Some(oldest), previous: Some(newest) };
            bounds.as_ref().link.look_mut(|own| *own = link);
            newest.as_ref().link.look_mut(|own| (*own).next = Some(bounds));
            oldest.as_ref().link.look_mut(|own| (*own).previous = Some(bounds));
        }
    }

    /// Takes the bounds out, if they are in.
    ///
    /// # Safety
    /// The bounds are registered and in no other token's ring.
    unsafe fn remove(&mut self, bounds: NonNull<Bounds>) {
        // SAFETY: everything in the ring is alive, and the registry is locked.
        unsafe {
            let link =
                bounds.as_ref().link.look_mut(|own| std::mem::replace(&mut *own, Link::UNLINKED));
            let (Some(next), Some(previous)) = (link.next, link.previous) else { return };
            if next == bounds {
                self.oldest = None;
                return;
            }
            next.as_ref().link.look_mut(|own| (*own).previous = Some(previous));
            previous.as_ref().link.look_mut(|own| (*own).next = Some(next));
            if self.oldest == Some(bounds) {
                self.oldest = Some(next);
            }
        }
    }
}

global! {
    /// What all tokens share that never fire.
    pub(crate) static NEVER: OnceLock<CancelToken> = OnceLock::new();
}

impl TokenState {
    fn new(fires: bool) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            entry: Entry::new(Kind::Token),
            fired: AtomicBool::new(false),
            fires,
            gate: Synchronizer::new(Gate, 0),
            registry: Mutex::new(Registry::default()),
            me: me.clone(),
            _pinned: PhantomPinned,
        })
    }

    /// A strong reference, unless the token is being dropped.
    pub(crate) fn upgrade(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_registry<R>(&self, change: impl FnOnce(&mut Registry) -> R) -> R {
        change(&mut self.registry())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Stops being a child, for a token that will not be looked at any more.
    fn leave_parents(&self) -> Vec<Arc<Self>> {
        let parents = self.with_registry(|registry| std::mem::take(&mut registry.parents));
        for parent in &parents {
            parent.with_registry(|registry| registry.children.remove(&self.address()));
        }
        parents
    }

    fn has_fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
    }

    /// Fires this token and all its descendants, and returns when every request that waited with one of
    /// them has been let go. A waker's panic comes out at the end.
    pub(crate) fn fire(&self, reason: Option<Arc<str>>) {
        let mut panic = None;
        let mut firing: Vec<Arc<Self>> = self.me.upgrade().into_iter().collect();
        while let Some(token) = firing.pop() {
            let told = token.with_registry(|registry| {
                if token.fired.swap(true, Ordering::AcqRel) {
                    return None;
                }
                registry.reason.clone_from(&reason);
                let children = std::mem::take(&mut registry.children);
                firing.extend(children.values().filter_map(Weak::upgrade));
                Some(std::mem::take(&mut registry.told))
            });
            if let Some(told) = told {
                for task in told.into_iter().filter_map(|task| task.upgrade()) {
                    let cancelled = catch_unwind(AssertUnwindSafe(move || task.cancelled()));
                    panic = first(panic, cancelled.err());
                }
                let opened = catch_unwind(AssertUnwindSafe(|| token.gate.release(Opening::Open)));
                panic = first(panic, opened.err());
                while let Some(mut wakes) = token.end_oldest() {
                    panic = first(panic, wakes.take_panic());
                }
            }
        }
        if let Some(panic) = panic {
            resume(panic);
        }
    }

    /// Ends one of the requests that wait with this token. What is left in the wake-ups is a panic.
    fn end_oldest(&self) -> Option<Wakes> {
        let mut backoff = Backoff::new();
        let mut wakes = Wakes::new();
        let mut sleeping = None;
        loop {
            let mut registry = Some(self.registry());
            let bounds = registry.as_ref()?.oldest?;
            // SAFETY: what is in the ring is alive until it is taken out, for which its owner needs
            // the lock held here.
            let (object, ended) = unsafe {
                let object = bounds.as_ref().object();
                let object = object.expect("what is in the ring is registered");
                registry.as_mut()?.remove(bounds);
                let ended = object.end(bounds, WaiterState::Cancelled, &mut wakes, &mut || {
                    registry.take();
                });
                if let (false, Some(registry)) = (ended, &mut registry) {
                    // The others come first now.
                    registry.push(bounds);
                }
                (object, ended)
            };
            drop(registry);
            if ended {
                drop(sleeping);
                object.finish(&mut wakes);
                return Some(wakes);
            }
            // The object is locked for longer than a moment; others may use the token meanwhile, and
            // if this is the timer's thread, another takes its place.
            sleeping.get_or_insert_with(Sleeping::now);
            backoff.wait();
        }
    }
}

impl Drop for TokenState {
    fn drop(&mut self) {
        // A long chain whose members are held only by each other is taken apart here, not by nested drops.
        let mut left = self.leave_parents();
        while let Some(parent) = left.pop() {
            if Arc::strong_count(&parent) == 1 {
                left.append(&mut parent.leave_parents());
            }
        }
        if self.with_registry(|registry| registry.timed) {
            // SAFETY: the entry is alive until this returns.
            unsafe { TIMER.remove(NonNull::from(&self.entry)) };
        }
    }
}

impl CancelSource {
    constant_unless_modelled! {
        /// A source that has not fired.
        #[must_use]
        pub const fn new() -> Self {
            Self { token: made_when_needed!(CancelToken { state: TokenState::new(true) }) }
        }
    }

    /// The token to hand out.
    #[must_use]
    pub fn token(&self) -> CancelToken {
        self.own().clone()
    }

    fn own(&self) -> &CancelToken {
        self.token.get_or_init(|| CancelToken { state: TokenState::new(true) })
    }

    /// Fires: every request that waits with one of this source's tokens, or of its children's, has
    /// left its queue, and its followers have been let through, when this returns; and every task that
    /// was [started with one](crate::tasks::Spawner::cancel_on) is cancelled. Firing again does nothing,
    /// and does not wait for the first.
    ///
    /// # Panics
    /// With the panic of a waker, or of what a task had captured and is dropped here, after everyone
    /// else has been woken and everything else has been dropped.
    #[doc(alias = "Thread.Interrupt")]
    pub fn cancel(&self) {
        user_code::forbid("a rule cancelled a token, while its object is locked");
        self.own().state.fire(None);
    }

    /// [`cancel`](Self::cancel), with a reason for [`CancelToken::reason`].
    ///
    /// # Panics
    /// As `cancel`.
    pub fn cancel_because(&self, reason: impl Into<Arc<str>>) {
        user_code::forbid("a rule cancelled a token, while its object is locked");
        self.own().state.fire(Some(reason.into()));
    }

    /// Fires after this time, unless it has fired, or all its tokens are gone, by then. Asking
    /// again replaces the time.
    ///
    /// It fires on the timer's thread, which also runs the wakers of tasks that time out there. A
    /// waker that blocks on one of this library's objects holds up no other limit; one that blocks by
    /// other means does, for as long as it blocks. What the tasks that it cancels had captured is dropped
    /// there, too.
    #[doc(alias = "CancelAfter")]
    pub fn cancel_after(&self, delay: Duration) {
        let at = nanoseconds(now()).saturating_add(saturating_nanoseconds(delay));
        let state = &self.own().state;
        let entry = NonNull::from(&**state).cast();
        // The timer's lock is never taken under the registry's: `timed` is set first, and an entry
        // may be removed that was never inserted.
        state.with_registry(|registry| registry.timed = true);
        // SAFETY: the entry lives in an `Arc`, stays where it is, and is removed on drop. Two
        // calls at once are ordered by the timer's lock.
        unsafe { TIMER.replace(entry, at) };
    }

    /// Whether it has fired.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.get().is_some_and(CancelToken::is_cancelled)
    }
}

/// Fires what the other fires.
impl Clone for CancelSource {
    fn clone(&self) -> Self {
        Self { token: self.token().into() }
    }
}

impl Default for CancelSource {
    fn default() -> Self {
        Self::new()
    }
}

/// One that [never](CancelToken::never) fires.
impl Default for CancelToken {
    fn default() -> Self {
        Self::never()
    }
}

impl CancelToken {
    /// A token that never fires, for a caller that has to pass one. All of them are the same, and what waits
    /// with it is not even registered.
    ///
    /// ```
    /// use semaforo::{CancelToken, Semaphore};
    ///
    /// let free = Semaphore::new(1);
    /// let permit = free.acquire(1).cancel_on(&CancelToken::never()).wait().unwrap();
    /// assert!(!CancelToken::never().is_cancelled());
    /// ```
    #[doc(alias = "CancellationToken.None")]
    #[must_use]
    pub fn never() -> Self {
        NEVER.get_or_init(|| Self { state: TokenState::new(false) }).clone()
    }

    /// Whether it may fire at all.
    pub(crate) fn fires(&self) -> bool {
        self.state.fires
    }

    /// Whether the source has fired. One load.
    #[must_use]
    #[doc(alias = "IsCancellationRequested")]
    pub fn is_cancelled(&self) -> bool {
        self.state.has_fired()
    }

    /// The reason given to [`CancelSource::cancel_because`], by this token's source or by the
    /// ancestor that fired it.
    #[must_use]
    pub fn reason(&self) -> Option<Arc<str>> {
        self.state.with_registry(|registry| registry.reason.clone())
    }

    /// Waits until the source fires.
    ///
    /// ```
    /// let stop = semaforo::CancelSource::new();
    /// let token = stop.token();
    /// let watcher = std::thread::spawn(move || token.cancelled().wait());
    /// stop.cancel();
    /// watcher.join().unwrap();
    /// ```
    #[doc(alias = "CancellationToken.Register")]
    #[doc(alias = "CancellationTokenRegistration")]
    pub fn cancelled(&self) -> Request<Passing<'_, Gate>> {
        self.state.gate.pass(())
    }

    /// A source of its own that also fires when this token does, but not the other way round.
    ///
    /// ```
    /// let server = semaforo::CancelSource::new();
    /// let request = server.token().child();
    /// server.cancel();
    /// assert!(request.is_cancelled());
    /// ```
    #[must_use]
    #[doc(alias = "child_token")]
    #[doc(alias = "CreateLinkedTokenSource")]
    pub fn child(&self) -> CancelSource {
        CancelSource { token: Self::any([self]).into() }
    }

    /// A token that fires when the first of these does.
    #[must_use]
    pub fn any<'a>(tokens: impl IntoIterator<Item = &'a Self>) -> Self {
        let state = TokenState::new(true);
        for parent in tokens.into_iter().filter(|token| token.fires()) {
            let parent = &parent.state;
            let fired = parent.with_registry(|registry| {
                if parent.has_fired() {
                    return Some(registry.reason.clone());
                }
                registry.children.insert(state.address(), state.me.clone());
                None
            });
            match fired {
                Some(reason) => state.fire(reason),
                None => state.with_registry(|registry| registry.parents.push(Arc::clone(parent))),
            }
        }
        Self { state }
    }

    /// How many requests, tasks and child tokens this token would end. For people who debug.
    #[must_use]
    pub fn registrations(&self) -> usize {
        let own = self.state.with_registry(|registry| {
            let mut count = registry.children.len() + registry.told.len();
            let mut next = registry.oldest;
            while let Some(bounds) = next {
                count += 1;
                // SAFETY: what is in the ring is alive while the registry is locked.
                next = unsafe { bounds.as_ref().link.look(|link| (*link).next) };
                next = next.filter(|next| Some(*next) != registry.oldest);
            }
            count
        });
        own + self.state.gate.waiters()
    }

    /// Has something told when this fires, until [`forget`](Self::forget) is called with the number that
    /// this returns; none if it has fired already, or never does.
    #[cfg(feature = "tasks")]
    pub(crate) fn tell(&self, task: Weak<dyn OnCancel>) -> Option<u32> {
        if !self.fires() {
            return None;
        }
        let tell = |registry: &mut Registry| registry.told.insert(task);
        self.state.with_registry(|registry| (!self.is_cancelled()).then(|| tell(registry)))
    }

    /// Ends what [`tell`](Self::tell) began, if firing has not.
    #[cfg(feature = "tasks")]
    pub(crate) fn forget(&self, number: u32) {
        let forgotten = self.state.with_registry(|registry| {
            // Once it has fired, nothing is there, and nothing comes.
            registry.told.remove(number)
        });
        drop(forgotten);
    }

    /// Adds a request to those that firing ends, unless it has fired already.
    ///
    /// # Safety
    /// The bounds are pinned and in no ring, and are [unlinked](Self::unlink) before their memory
    /// is used otherwise.
    pub(crate) unsafe fn link(&self, bounds: NonNull<Bounds>) {
        self.state.with_registry(|registry| {
            if !self.is_cancelled() {
                // SAFETY: passed on from the caller.
                unsafe { registry.push(bounds) };
            }
        });
    }

    /// Takes a request away again. When this returns, firing will not touch it.
    ///
    /// # Safety
    /// The bounds are alive and in no other token's ring.
    pub(crate) unsafe fn unlink(&self, bounds: NonNull<Bounds>) {
        // SAFETY: passed on from the caller.
        self.state.with_registry(|registry| unsafe { registry.remove(bounds) });
    }
}

impl fmt::Debug for CancelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelSource").field("cancelled", &self.is_cancelled()).finish()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}
