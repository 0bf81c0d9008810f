//! What may end a request before it is granted: a time limit, and cancellation tokens.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cancel::{CancelToken, Link};
use super::timer::{Entry, TIMER, epoch, nanoseconds, saturating_nanoseconds};
use super::wait_queue::TimedObject;
use crate::primitive::{TrackedCell, now};

/// The bounds of one request. They become visible to its tokens just before the request joins a
/// queue ([`register`](Self::register)), to the timer just after ([`arm`](Self::arm)), and are
/// invisible again after [`unregister`](Self::unregister).
///
/// - `entry` belongs to the timer's lock, `link` to the lock of the first token. Until the request
///   joins a queue the entry keeps the limit that counts from there, in nanoseconds.
/// - `stage` is written by the owner, before it registers; third parties read it under the lock
///   through which they came.
/// - `tokens` are the owner's alone.
#[repr(C)]
pub(crate) struct Bounds {
    /// First, because the timer finds the bounds through it.
    entry: Entry,
    pub(crate) link: TrackedCell<Link>,
    tokens: Tokens,
    stage: ManuallyDrop<TrackedCell<Stage>>,
}

/// Up to two tokens; the second only after the first.
type Tokens = ManuallyDrop<[Cell<Option<CancelToken>>; 2]>;

/// No limit that counts from the first poll.
const NO_LIMIT: u64 = u64::MAX;

#[derive(Debug)]
enum Stage {
    /// Not registered yet. The deadline in nanoseconds since the epoch, `u64::MAX` for none.
    Before(u64),
    /// The object on whose queue the request stands, or is about to. Counted, because a token or the timer may come
    /// for a leaked request whose object has been dropped.
    Registered(Arc<dyn TimedObject>),
}

/// When a request that cannot be granted now has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Never,
    Now,
    /// Nanoseconds since the epoch.
    At(u64),
}

impl Due {
    /// As an instant, for a thread that times its own sleep.
    pub(crate) fn instant(self) -> Option<Instant> {
        match self {
            Self::At(at) => epoch().checked_add(Duration::from_nanos(at)),
            Self::Never | Self::Now => None,
        }
    }
}

impl Bounds {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            entry: Entry::with_aside(NO_LIMIT),
            link: TrackedCell::new(Link::UNLINKED),
            tokens: ManuallyDrop::new([const { Cell::new(None) }; 2]),
            stage: ManuallyDrop::new(TrackedCell::new(Stage::Before(u64::MAX))),
        }
    }

    #[inline]
    pub(crate) fn limit_duration(&mut self, limit: Duration) {
        let limit = saturating_nanoseconds(limit);
        self.entry.set_aside(self.entry.aside().min(limit));
    }

    pub(crate) fn limit_instant(&mut self, limit: Instant) {
        let at = self.deadline().min(nanoseconds(limit));
        self.stage = ManuallyDrop::new(TrackedCell::new(Stage::Before(at)));
    }

    pub(crate) fn add_token(&mut self, token: &CancelToken) {
        if !token.fires() {
            return;
        }
        let [first, second] = &mut *self.tokens;
        match (first.get_mut(), second.get_mut()) {
            (None, _) => first.set(Some(token.clone())),
            (Some(_), None) => second.set(Some(token.clone())),
            (Some(_), Some(other)) => *other = CancelToken::any([other, token]),
        }
    }

    fn deadline(&self) -> u64 {
        // SAFETY: the stage is changed only by the owner, who is here.
        self.stage.look(|stage| match unsafe { &*stage } {
            Stage::Before(at) => *at,
            Stage::Registered(_) => u64::MAX,
        })
    }

    /// When the request ends if it starts to wait now. Reads the clock only if there is a limit.
    pub(crate) fn due(&self) -> Due {
        let after = self.entry.aside();
        let at = self.deadline();
        if after == 0 {
            return Due::Now;
        }
        if after == u64::MAX && at == u64::MAX {
            return Due::Never;
        }
        let now = nanoseconds(now());
        match at.min(now.saturating_add(after)) {
            u64::MAX => Due::Never,
            at if at <= now => Due::Now,
            at => Due::At(at),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.tokens.iter().any(|token| {
            let held = token.take();
            let cancelled = held.as_ref().is_some_and(CancelToken::is_cancelled);
            token.set(held);
            cancelled
        })
    }

    /// Whether a third party has to know of this request at all.
    pub(crate) fn needs_registration(&self, timer: Due) -> bool {
        self.has_token() || matches!(timer, Due::At(_))
    }

    /// Lets the tokens end the request, which is about to be queued on `object`: from here on, either
    /// a token that fires finds it in the queue, or it finds the token fired before it queues.
    ///
    /// # Safety
    /// The bounds are pinned beside a waiter that will be queued on `object` or nowhere, and are
    /// unregistered before their memory is used otherwise. No lock is held.
    pub(crate) unsafe fn register(this: NonNull<Self>, object: Arc<dyn TimedObject>) {
        // SAFETY: pinned, hence alive; shared access only.
        let bounds = unsafe { this.as_ref() };
        // A policy that panicked may have left it registered, and the owner tries again.
        // SAFETY: passed on from the caller.
        unsafe { Self::unregister(this) };
        // SAFETY: not registered, so the owner is alone.
        unsafe {
            bounds.stage.look_mut(|stage| *stage = Stage::Registered(object));
        }
        bounds.entry.set_aside(0);
        if let Some(second) = bounds.tokens[1].take() {
            let first = bounds.tokens[0].take();
            let both = first.map_or(second.clone(), |first| CancelToken::any([&first, &second]));
            bounds.tokens[0].set(Some(both));
        }
        if let Some(token) = bounds.tokens[0].take() {
            // SAFETY: passed on from the caller.
            unsafe { token.link(this) };
            bounds.tokens[0].set(Some(token));
        }
    }

    /// Lets the timer end the request, which has been queued, so many nanoseconds after the epoch.
    ///
    /// # Safety
    /// The bounds are registered and not armed.
    pub(crate) unsafe fn arm(this: NonNull<Self>, at: u64) {
        // SAFETY: passed on from the caller.
        unsafe { TIMER.insert(this.cast(), at) };
    }

    /// Makes the bounds unreachable for third parties: when this returns, none of them is looking.
    ///
    /// # Safety
    /// The bounds are alive, and no lock is held.
    #[inline]
    pub(crate) unsafe fn unregister(this: NonNull<Self>) {
        // SAFETY: alive; shared access only.
        let bounds = unsafe { this.as_ref() };
        if bounds.is_registered() {
            // SAFETY: passed on from the caller.
            unsafe { Self::unregister_now(this) };
        }
    }

    /// Makes the bounds what they were before a request registered, which could not be queued. What
    /// was due then stays due.
    ///
    /// # Safety
    /// As [`unregister`](Self::unregister); and the request is in no queue.
    pub(crate) unsafe fn unqueue(this: NonNull<Self>, due: Due) {
        let at = match due {
            Due::Never => u64::MAX,
            Due::Now => 0,
            Due::At(at) => at,
        };
        // SAFETY: passed on from the caller. Afterwards the owner is alone.
        unsafe {
            Self::unregister(this);
            this.as_ref().entry.set_aside(NO_LIMIT);
            this.as_ref().stage.look_mut(|stage| *stage = Stage::Before(at));
        }
    }

    fn is_registered(&self) -> bool {
        // SAFETY: only the owner, who is here, changes the stage.
        self.stage.look(|stage| matches!(unsafe { &*stage }, Stage::Registered(_)))
    }

    fn has_token(&self) -> bool {
        let first = self.tokens[0].take();
        let some = first.is_some();
        self.tokens[0].set(first);
        some
    }

    /// # Safety
    /// As [`unregister`](Self::unregister).
    #[inline(never)]
    unsafe fn unregister_now(this: NonNull<Self>) {
        // SAFETY: alive; shared access only.
        let bounds = unsafe { this.as_ref() };
        // SAFETY: alive.
        unsafe { TIMER.remove(this.cast()) };
        if let Some(token) = bounds.tokens[0].take() {
            // SAFETY: alive, and linked to no other token.
            unsafe { token.unlink(this) };
            bounds.tokens[0].set(Some(token));
        }
        // SAFETY: no third party can reach the bounds any more.
        bounds.stage.look_mut(|stage| unsafe { *stage = Stage::Before(u64::MAX) });
    }

    /// # Safety
    /// Called once, by the drop.
    #[cold]
    unsafe fn drop_counts(&mut self) {
        // SAFETY: passed on from the caller.
        unsafe {
            ManuallyDrop::drop(&mut self.tokens);
            ManuallyDrop::drop(&mut self.stage);
        }
    }

    /// The object on whose queue the request stands, or is about to.
    ///
    /// # Safety
    /// The caller is a third party and holds the lock through which it came.
    pub(crate) unsafe fn object(&self) -> Option<Arc<dyn TimedObject>> {
        // SAFETY: the owner wrote it before it registered.
        self.stage.look(|stage| match unsafe { &*stage } {
            Stage::Registered(object) => Some(Arc::clone(object)),
            Stage::Before(_) => None,
        })
    }
}

impl Drop for Bounds {
    /// Most requests have no token, and are granted before they are queued.
    #[inline]
    fn drop(&mut self) {
        if self.has_token() || self.is_registered() {
            // SAFETY: this is the drop.
            unsafe { self.drop_counts() };
        }
    }
}

impl std::fmt::Debug for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bounds")
    }
}
