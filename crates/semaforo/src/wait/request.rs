//! The request: what every operation that may wait returns.

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::bounds::{Bounds, Due};
use super::cancel::CancelToken;
use super::contended::Attempt;
use super::limits::{Limited, Limits, Unlimited, WaitError};
use super::operation::{AskOf, Operation, OutcomeOf, RefusalOf, ThreadWaits};
use super::parker::{self, Backoff};
use super::self_wait::{CallSite, Watch};
use super::wait_queue::{QueuedRequest, TimedObject, WaitQueue};
use super::waiter::{Pointer, Waiter, WaiterState};
use super::wake::Wakes;

/// A request for something that one may have to wait for.
///
/// It does nothing until it is awaited, or waited on with [`wait`](Self::wait); its place in the
/// queue counts from the first poll. It can be bounded in time and cancelled:
///
/// ```
/// use semaforo::{CancelSource, Semaphore, WaitError};
/// use std::time::Duration;
///
/// let gpus = Semaphore::new(4);
/// let stop = CancelSource::new();
///
/// let two = gpus.acquire(2).wait().unwrap();
/// let late = gpus.acquire(3).timeout(Duration::from_millis(5)).cancel_on(&stop.token()).wait();
/// assert_eq!(late.unwrap_err(), WaitError::TimedOut);
/// ```
///
/// What can be granted at once is ready at once: a task that asks in a loop, and never has to wait,
/// never lets the other tasks of its executor's thread run. Put the executor's `yield_now` into
/// such a loop.
///
/// Dropping a request withdraws it; what it was granted but did not claim goes to the next one.
/// Leaking it (`mem::forget`) is safe, but it keeps its place.
///
/// # Panics
/// When polled again after it has completed.
#[must_use = "a request does nothing until it is awaited or waited on"]
#[doc(alias = "AsyncAcquire")]
#[doc(alias = "asynchronous request")]
pub struct Request<O: Operation, L: Limits = Unlimited> {
    /// What it owns is gone once the request has finished.
    queued: ManuallyDrop<QueuedRequest<AskOf<O>, L, O::Extra>>,
    /// Gone once the request has finished.
    operation: ManuallyDrop<O>,
    /// The queue points to the waiter.
    _pinned: PhantomPinned,
}

/// What an operation's request yields, under these limits.
pub type Output<O, L> = <L as Limits>::Output<O>;

// SAFETY: the waiter and the bounds may be touched from any thread, under their locks; asks are
// `Send`, and the operation is if it says so.
unsafe impl<O: Operation + Send, L: Limits> Send for Request<O, L> {}
// SAFETY: nothing can be done through a shared reference.
unsafe impl<O: Operation + Sync, L: Limits> Sync for Request<O, L> {}

impl<O: Operation<Extra = ()>> Request<O, Unlimited> {
    #[inline]
    pub(crate) fn new(operation: O, ask: AskOf<O>) -> Self {
        Self::with_extra(operation, ask, ())
    }
}

impl<O: Operation> Request<O, Unlimited> {
    #[inline]
    pub(crate) fn with_extra(operation: O, ask: AskOf<O>, extra: O::Extra) -> Self {
        Self::with(Parts { operation, ask, extra }, Unlimited)
    }

    #[inline]
    fn limited(self) -> Request<O, Limited> {
        let (parts, Unlimited) = self.into_parts();
        Request::with(parts, Limited(Bounds::new()))
    }

    /// Ends the wait after this time, counted from the first poll. Zero means now or not at all, and
    /// `None` that there is no such limit.
    ///
    /// ```
    /// use semaforo::{Semaphore, WaitError};
    /// use std::time::Duration;
    ///
    /// let jobs = Semaphore::new(1);
    /// let mut limit = None;
    /// let permit = jobs.acquire(1).timeout(limit).wait()?;
    /// limit = Some(Duration::ZERO);
    /// assert_eq!(jobs.acquire(1).timeout(limit).wait().unwrap_err(), WaitError::TimedOut);
    /// # Ok::<(), WaitError<semaforo::AcquireError>>(())
    /// ```
    #[inline]
    #[doc(alias = "Delayer")]
    pub fn timeout(self, limit: impl Into<Option<Duration>>) -> Request<O, Limited> {
        self.limited().timeout(limit)
    }

    /// Ends the wait at this instant, if there is one.
    pub fn deadline(self, limit: impl Into<Option<Instant>>) -> Request<O, Limited> {
        self.limited().deadline(limit)
    }

    /// Ends the wait when this token is cancelled, if there is one.
    #[inline]
    #[doc(alias = "lockInterruptibly")]
    #[doc(alias = "tryCancelAcquireAsync")]
    pub fn cancel_on<'t>(self, token: impl Into<Option<&'t CancelToken>>) -> Request<O, Limited> {
        self.limited().cancel_on(token)
    }
}

impl<O: Operation> Request<O, Limited> {
    /// Ends the wait after this time, counted from the first poll, if nothing else ends it before.
    #[inline]
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        if let Some(limit) = limit.into() {
            self.queued.bounds.0.limit_duration(limit);
        }
        self
    }

    /// Ends the wait at this instant, if nothing else ends it before.
    pub fn deadline(mut self, limit: impl Into<Option<Instant>>) -> Self {
        if let Some(limit) = limit.into() {
            self.queued.bounds.0.limit_instant(limit);
        }
        self
    }

    /// Ends the wait when this token is cancelled; with several, the first of them.
    #[inline]
    pub fn cancel_on<'t>(mut self, token: impl Into<Option<&'t CancelToken>>) -> Self {
        if let Some(token) = token.into() {
            self.queued.bounds.0.add_token(token);
        }
        self
    }
}

impl<O: Operation, L: Limits> Request<O, L> {
    #[inline]
    fn with(parts: Parts<O>, limits: L) -> Self {
        let Parts { operation, ask, extra } = parts;
        Self {
            queued: ManuallyDrop::new(QueuedRequest {
                bounds: limits,
                waiter: Waiter::new(ask),
                extra,
            }),
            operation: ManuallyDrop::new(operation),
            _pinned: PhantomPinned,
        }
    }

    /// Takes a request apart that was never polled.
    #[inline]
    fn into_parts(self) -> (Parts<O>, L) {
        let mut this = ManuallyDrop::new(self);
        let this = NonNull::from(&mut *this);
        // SAFETY: the request is never used again, and its fresh waiter owns nothing but the ask.
        unsafe { (Self::take_parts(this), std::ptr::read(&raw const (*Self::queued(this)).bounds)) }
    }

    /// Blocks this thread until the request is granted, or ended by its bounds.
    ///
    /// The thread spins for about a microsecond, yields a few times, and then sleeps.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait(self) -> Output<O, L> {
        let (mut parts, limits) = self.into_parts();
        if parts.operation.attempt(&mut parts.ask) == Attempt::Granted {
            parts.operation.locked_at(CallSite::here());
            return parts.output::<L>(Ok(()));
        }
        Self::wait_in_line(parts, limits, CallSite::here())
    }

    #[inline(never)]
    fn wait_in_line(parts: Parts<O>, limits: L, at: CallSite) -> Output<O, L> {
        let mut request = CacheAligned(Self::with(parts, limits));
        // SAFETY: the request is not moved again, and this is the owner.
        unsafe { Self::wait_pinned(NonNull::from(&mut request.0), at) }
    }

    /// # Safety
    /// The request is pinned, fresh, and owned by the caller.
    unsafe fn wait_pinned(this: NonNull<Self>, at: CallSite) -> Output<O, L> {
        // SAFETY: pinned, hence alive; only shared references to its parts are made.
        let operation = unsafe { &*(*this.as_ptr()).operation };
        let queue = operation.queue();
        // SAFETY: only its owner knows a fresh request.
        let attempt_now = || operation.attempt(unsafe { &mut *Self::ask(this) });
        // SAFETY: as above.
        let bounds = unsafe { &(*Self::queued(this)).bounds }.bounds();
        let due = bounds.map_or(Due::Never, Bounds::due);
        let mut attempt = attempt_now();
        if operation.tries_first() {
            // Two threads that look too often keep taking the word's cache line from each other.
            let mut backoff = Backoff::patient();
            while attempt != Attempt::Granted && !backoff.is_spent() {
                backoff.wait();
                attempt = attempt_now();
            }
        } else if due != Due::Now {
            attempt = queue.look_again(attempt, attempt_now);
        }
        if attempt == Attempt::Granted {
            operation.locked_at(at);
            // SAFETY: passed on from the caller.
            return unsafe { Self::finish(this, WaiterState::Served, None) };
        }
        // SAFETY: as above.
        let queued = unsafe { &*Self::queued(this) };
        // SAFETY: pinned, and withdrawn when it is dropped.
        let waiter = unsafe { Self::waiter(this) };
        queued.waiter.prepare_thread();
        let mut refusal = None;
        // A thread times its own sleep, so the timer need not know.
        // SAFETY: as above.
        let mut state = unsafe {
            Self::register(this, queue, bounds, Due::Never);
            queue.enter(waiter, attempt, &mut refusal, || give_up(bounds, due))
        };
        let mut deadline = due.instant();
        let waits = ThreadWaits::begin(operation);
        let ends = bounds.is_some_and(|bounds| bounds.needs_registration(due));
        let mut watch = Watch::begin(operation.awaits().filter(|_| !ends), at);
        while !state.is_final() {
            state = parker::block(&queued.waiter, watch.until().or(deadline));
            if state == WaiterState::Retry {
                // SAFETY: the waiter is this thread's.
                state = unsafe { queue.retry(waiter) };
                if state == WaiterState::Waiting && bounds.is_some_and(Bounds::is_cancelled) {
                    // SAFETY: as above.
                    state = unsafe { Self::end(queue, waiter, WaiterState::Cancelled) };
                }
            } else if !state.is_final() && !watch.tell() {
                // SAFETY: as above.
                state = unsafe { Self::end(queue, waiter, WaiterState::TimedOut) };
                if state == WaiterState::Waiting {
                    // It has an answer that is on its way, or has to wait for another.
                    deadline = None;
                }
            }
        }
        drop(waits);
        if state == WaiterState::Served {
            operation.locked_at(at);
        }
        // SAFETY: passed on from the caller.
        unsafe { Self::finish(this, state, refusal) }
    }

    /// Ends this thread's own wait; a grant wins.
    ///
    /// # Safety
    /// The waiter is alive and was queued on this object.
    unsafe fn end(queue: &O::Queue, waiter: Pointer<AskOf<O>>, state: WaiterState) -> WaiterState {
        let mut wakes = Wakes::new();
        // SAFETY: passed on from the caller.
        unsafe { queue.end_waiter(waiter, state, &mut wakes) };
        queue.finish(&mut wakes);
        wakes.resume_panic();
        // SAFETY: the caller's waiter is alive.
        let state = unsafe { waiter.as_ref().state() };
        if state == WaiterState::Parked { WaiterState::Waiting } else { state }
    }

    /// # Safety
    /// The request is alive.
    #[inline]
    unsafe fn queued(this: NonNull<Self>) -> *mut QueuedRequest<AskOf<O>, L, O::Extra> {
        // SAFETY: alive; only the address is computed. A `ManuallyDrop` is what it holds.
        unsafe { (&raw mut (*this.as_ptr()).queued).cast() }
    }

    /// # Safety
    /// The request is pinned.
    #[inline]
    unsafe fn waiter(this: NonNull<Self>) -> Pointer<AskOf<O>> {
        // SAFETY: alive; only the address is computed.
        unsafe { NonNull::new_unchecked(&raw mut (*Self::queued(this)).waiter) }
    }

    /// # Safety
    /// The request is alive.
    #[inline]
    unsafe fn ask(this: NonNull<Self>) -> *mut AskOf<O> {
        // SAFETY: alive; only the address is computed.
        unsafe { &raw mut (*Self::queued(this)).waiter.ask }
    }

    /// Lets its tokens end a request that is about to be queued, and says what on, if they or the
    /// timer have to know.
    ///
    /// # Safety
    /// The request is pinned and fresh, and no lock is held.
    #[inline]
    unsafe fn register(this: NonNull<Self>, queue: &O::Queue, bounds: Option<&Bounds>, timer: Due) {
        if !bounds.is_some_and(|bounds| bounds.needs_registration(timer)) {
            return;
        }
        if let Some(object) = queue.counted() {
            // SAFETY: passed on from the caller.
            unsafe { Bounds::register(Self::bounds(this), object) };
        }
    }

    /// # Safety
    /// The request is alive, and no lock is held.
    #[inline]
    unsafe fn unregister(this: NonNull<Self>) {
        // SAFETY: alive; passed on from the caller.
        unsafe {
            if (*Self::queued(this)).bounds.bounds().is_some() {
                Bounds::unregister(Self::bounds(this));
            }
        }
    }

    /// The bounds of a request that has some, by a pointer that may reach the waiter beside them.
    ///
    /// # Safety
    /// The request is alive.
    #[inline]
    unsafe fn bounds(this: NonNull<Self>) -> NonNull<Bounds> {
        // SAFETY: alive; only the address is computed. `Limited` is its `Bounds`.
        unsafe { NonNull::new_unchecked(Self::queued(this)).cast() }
    }

    /// Turns a final state into the outcome; `refusal` is what a newcomer was told.
    ///
    /// # Safety
    /// The request is pinned, not finished, owned by the caller, and known to no queue.
    #[inline]
    unsafe fn finish(
        this: NonNull<Self>,
        state: WaiterState,
        refusal: Option<RefusalOf<O>>,
    ) -> Output<O, L> {
        // SAFETY: passed on from the caller; only shared references to its parts are made.
        unsafe {
            if matches!(state, WaiterState::Served | WaiterState::Passed) {
                let queued = &*Self::queued(this);
                if queued.bounds.bounds().is_none() && !queued.waiter.has_waker() {
                    // The thread that answered it has taken its waker.
                    return Self::finish_at_once(this);
                }
                // What a waker does as it is dropped must not cost the grant, nor may the request be
                // reachable for others while the output is made.
                let retiring = Retiring(this);
                let parts = Self::finish_parts(this);
                Self::unregister(this);
                let output = parts.output::<L>(Ok(()));
                drop(retiring);
                return output;
            }
            Self::fail(this, state, refusal)
        }
    }

    /// [`finish`](Self::finish), for a request that was not granted.
    ///
    /// # Safety
    /// As `finish`.
    #[cold]
    unsafe fn fail(
        this: NonNull<Self>,
        state: WaiterState,
        refusal: Option<RefusalOf<O>>,
    ) -> Output<O, L> {
        // SAFETY: passed on from the caller.
        let parts = unsafe {
            let parts = Self::finish_parts(this);
            Self::retire(this);
            parts
        };
        let error = match state {
            WaiterState::Cancelled => WaitError::Cancelled,
            WaiterState::TimedOut => WaitError::TimedOut,
            WaiterState::Refused => {
                let refusal = refusal.or_else(|| parts.operation.queue().expulsion());
                let refusal = refusal.expect("the policy expelled everyone, and then no longer");
                WaitError::Refused(refusal)
            }
            _ => panic!("the policy panicked, or a waker, and that has ended this request"),
        };
        parts.output::<L>(Err(error))
    }

    /// [`finish`](Self::finish), for a request that was granted and owns neither a waker nor bounds that
    /// are registered: there is nothing to be let go of that could run code of a user's.
    ///
    /// # Safety
    /// As `finish`; and the request is fresh, or has neither a waker nor bounds.
    #[inline(always)]
    unsafe fn finish_at_once(this: NonNull<Self>) -> Output<O, L> {
        // SAFETY: passed on from the caller.
        unsafe {
            let parts = Self::finish_parts(this);
            let output = parts.output::<L>(Ok(()));
            std::ptr::drop_in_place(&raw mut (*Self::queued(this)).bounds);
            output
        }
    }

    /// # Safety
    /// As [`finish`](Self::finish).
    #[inline]
    unsafe fn finish_parts(this: NonNull<Self>) -> Parts<O> {
        // SAFETY: passed on from the caller. Its state says from then on that the parts are gone.
        unsafe {
            (*Self::queued(this)).waiter.set_state(WaiterState::Finished);
            Self::take_parts(this)
        }
    }

    /// # Safety
    /// The parts are there, and are not used through the request again.
    #[inline]
    unsafe fn take_parts(this: NonNull<Self>) -> Parts<O> {
        // SAFETY: passed on from the caller.
        unsafe {
            Parts {
                operation: ManuallyDrop::take(&mut (*this.as_ptr()).operation),
                ask: std::ptr::read(Self::ask(this)),
                extra: std::ptr::read(&raw const (*Self::queued(this)).extra),
            }
        }
    }

    /// Lets go of what a request owns besides its parts.
    ///
    /// # Safety
    /// As [`finish`](Self::finish); and this is the last thing done to it, but for a look at its
    /// state.
    unsafe fn retire(this: NonNull<Self>) {
        // SAFETY: once it is unregistered only its owner reaches the request. Only addresses and shared
        // references to its parts are made.
        unsafe {
            Self::unregister(this);
            let waker = (*Self::queued(this)).waiter.swap_waker(None);
            std::ptr::drop_in_place(&raw mut (*Self::queued(this)).bounds);
            drop(waker);
        }
    }

    /// Takes back a request that has not finished.
    ///
    /// # Safety
    /// The request is pinned if it was queued, is being dropped, and no lock is held.
    #[inline(never)]
    unsafe fn abandon(this: NonNull<Self>, state: WaiterState) {
        // SAFETY: passed on from the caller; only shared references to its parts are made. Whatever a
        // waker does, what the request owns is dropped: the parts last, after no other thread knows them.
        unsafe {
            let _parts = Abandoned(this);
            let _retires = Retiring(this);
            if state != WaiterState::Fresh {
                Self::unregister(this);
                (*this.as_ptr()).operation.queue().withdraw(Self::waiter(this));
            }
        }
    }

    /// The waiter of a request that is going to be dropped, if that was queued, for an owner who
    /// withdraws it before. No limit ends it any more.
    pub(crate) fn leaving(self: Pin<&mut Self>) -> Option<Pointer<AskOf<O>>> {
        // SAFETY: the request is not moved. It is pinned, and this is the owner; only shared references
        // to its parts are made.
        unsafe {
            let this = NonNull::from(self.get_unchecked_mut());
            let state = (*Self::queued(this)).waiter.state();
            if matches!(state, WaiterState::Fresh | WaiterState::Finished) {
                return None;
            }
            Self::unregister(this);
            Some(Self::waiter(this))
        }
    }

    /// Polls for the first time a request that could not be granted at once (`attempt`): queues it.
    /// Returns its state: `Waiting`, or something final.
    ///
    /// # Safety
    /// The request is pinned, fresh, and owned by the caller.
    #[inline(never)]
    unsafe fn join_line(
        this: NonNull<Self>,
        context: &mut Context<'_>,
        attempt: Attempt,
        refusal: &mut Option<RefusalOf<O>>,
    ) -> WaiterState {
        // SAFETY: pinned, hence alive; only shared references to its parts are made.
        let (operation, queued) = unsafe { (&*(*this.as_ptr()).operation, &*Self::queued(this)) };
        let queue = operation.queue();
        let bounds = queued.bounds.bounds();
        let due = bounds.map_or(Due::Never, Bounds::due);
        queued.waiter.prepare_task(context.waker().clone());
        // SAFETY: pinned, and withdrawn when it is dropped.
        let state = unsafe {
            Self::register(this, queue, bounds, due);
            let unqueued = Unqueued(this, due);
            let state = queue.enter(Self::waiter(this), attempt, refusal, || give_up(bounds, due));
            std::mem::forget(unqueued);
            state
        };
        if let (Due::At(at), WaiterState::Waiting) = (due, state) {
            // SAFETY: registered above, and unregistered before the request finishes.
            unsafe { Bounds::arm(Self::bounds(this), at) };
        }
        state
    }

    /// Polls a request that stands in line. Returns its state: `Waiting`, or something final.
    ///
    /// # Safety
    /// The request is pinned, was polled before, and is owned by the caller.
    #[inline(never)]
    unsafe fn look_again(this: NonNull<Self>, context: &mut Context<'_>) -> WaiterState {
        // SAFETY: passed on from the caller; only shared references to its parts are made. The
        // operation is there until the request has finished.
        unsafe {
            let waiter = Self::waiter(this);
            assert!(
                waiter.as_ref().state() != WaiterState::Finished,
                "a request was polled after it had completed"
            );
            let queue = (*this.as_ptr()).operation.queue();
            if queue.claim(waiter) {
                return WaiterState::Served;
            }
            queue.revisit(waiter, context.waker())
        }
    }
}

/// What a request is made of, besides its bounds.
struct Parts<O: Operation> {
    operation: O,
    ask: AskOf<O>,
    extra: O::Extra,
}

impl<O: Operation> Parts<O> {
    #[inline]
    fn output<L: Limits>(self, outcome: OutcomeOf<O>) -> Output<O, L> {
        L::output(self.operation, self.ask, self.extra, outcome)
    }
}

/// Makes the bounds of a request what they were, if the policy panics before it is queued: its task may
/// poll it again. A limit counts from the first poll all the same.
struct Unqueued<O: Operation, L: Limits>(NonNull<Request<O, L>>, Due);

impl<O: Operation, L: Limits> Drop for Unqueued<O, L> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: made by `join_line`, whose request is pinned, and dropped when that unwinds: no lock is
        // held then.
        unsafe {
            if (*Request::queued(self.0)).bounds.bounds().is_some() {
                Bounds::unqueue(Request::bounds(self.0), self.1);
            }
        }
    }
}

/// Drops the parts of a request when dropped, also by a panic.
struct Abandoned<O: Operation, L: Limits>(NonNull<Request<O, L>>);

impl<O: Operation, L: Limits> Drop for Abandoned<O, L> {
    fn drop(&mut self) {
        // SAFETY: made by `abandon`, whose request is dropped, after it was withdrawn.
        let Parts { operation, ask, extra } = unsafe { Request::take_parts(self.0) };
        operation.abandon(ask, extra);
    }
}

/// Retires a request when dropped, also by a panic.
struct Retiring<O: Operation, L: Limits>(NonNull<Request<O, L>>);

impl<O: Operation, L: Limits> Drop for Retiring<O, L> {
    fn drop(&mut self) {
        // SAFETY: made when the request is finished or dropped, and known to no queue, or withdrawn.
        unsafe { Request::retire(self.0) };
    }
}

/// Whether a request that cannot be granted now has to end: a token first, then the time.
#[inline]
fn give_up(bounds: Option<&Bounds>, due: Due) -> Option<WaiterState> {
    let bounds = bounds?;
    if bounds.is_cancelled() {
        Some(WaiterState::Cancelled)
    } else {
        (due == Due::Now).then_some(WaiterState::TimedOut)
    }
}

/// A waiter on a stack is watched by one thread and written by another: keep the rest of the stack
/// off its cache line.
#[repr(align(64))]
struct CacheAligned<T>(T);

impl<O: Operation, L: Limits> Future for Request<O, L> {
    type Output = Output<O, L>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the request is not moved.
        let this = NonNull::from(unsafe { self.get_unchecked_mut() });
        // SAFETY: pinned, hence alive, and this is the owner; only shared references to its parts
        // are made.
        unsafe {
            let mut refusal = None;
            let state = if (*Self::queued(this)).waiter.is_fresh() {
                // Nobody else knows a fresh request.
                let ask = &mut *Self::ask(this);
                let attempt = (*this.as_ptr()).operation.attempt(ask);
                if attempt == Attempt::Granted {
                    return Poll::Ready(Self::finish_at_once(this));
                }
                Self::join_line(this, context, attempt, &mut refusal)
            } else {
                Self::look_again(this, context)
            };
            match state {
                WaiterState::Waiting => Poll::Pending,
                // Answered for good, so no queue knows of it.
                state => Poll::Ready(Self::finish(this, state, refusal)),
            }
        }
    }
}

impl<O: Operation, L: Limits> Drop for Request<O, L> {
    #[inline]
    fn drop(&mut self) {
        let this = NonNull::from(&mut *self);
        // SAFETY: alive, and this is the owner; only shared references to its parts are made. The
        // operation is there until the request has finished, and is dropped even if a waker panics.
        unsafe {
            let state = (*Self::queued(this)).waiter.state();
            if state == WaiterState::Finished {
                return;
            }
            Self::abandon(this, state);
        }
    }
}

impl<O: Operation, L: Limits> fmt::Debug for Request<O, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.queued.waiter.state() {
            WaiterState::Fresh => "not polled yet",
            WaiterState::Waiting | WaiterState::Parked | WaiterState::Retry => "waiting",
            WaiterState::Dormant => "dormant",
            WaiterState::Granted | WaiterState::Served => "granted",
            WaiterState::Finished => "finished",
            _ => "ended",
        };
        f.debug_tuple("Request").field(&state).finish()
    }
}
