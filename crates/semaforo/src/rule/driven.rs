//! A user's rule as the rule of an object: it catches the user's panics, and keeps requests and answers
//! where both sides find them.

use std::convert::Infallible;
use std::fmt;

use super::sleep_lock::SleepLock;
use super::waiting::Waiting;
use super::{Reply, Rule, Undo};
use crate::primitive::TrackedCell;
use crate::wait::rule::{Arrival, Coming, ObjectRule};
use crate::wait::user_code;
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Lane, Pointer};
use crate::wait::wake::{Panic, Wakes, discard_later};

/// Where all requests wait.
pub(super) const LANE: Lane = Lane::First;

/// A user's rule, behind the lock of its object.
pub struct Driven<R> {
    /// Gone once the object has been dropped.
    pub(super) rule: Option<R>,
    /// The rule has panicked, and is not whole.
    pub(super) is_broken: bool,
}

/// What is asked, and then where its owner finds the answer.
///
/// While the request waits this belongs to the lock's holder, otherwise to its owner.
pub struct Slot<R: Rule>(TrackedCell<Content<R>>);

pub(super) enum Content<R: Rule> {
    Asked(R::Request),
    Answered(R::Answer, Option<Undo<R>>),
    /// The rule has it, or has panicked over it.
    Nothing,
}

impl<R: Rule> Slot<R> {
    pub(super) fn new(request: R::Request) -> Self {
        Self(TrackedCell::new(Content::Asked(request)))
    }

    /// # Safety
    /// The lock is held, or this is the owner of a request that does not wait; and no reference to what
    /// is in here is used afterwards.
    pub(super) unsafe fn swap(&self, content: Content<R>) -> Content<R> {
        // SAFETY: the caller's promise makes this the only access.
        self.0.look_mut(|own| unsafe { std::mem::replace(&mut *own, content) })
    }

    /// # Safety
    /// As [`swap`](Self::swap); and there is [nothing](Content::Nothing) in here.
    pub(super) unsafe fn set(&self, content: Content<R>) {
        // SAFETY: passed on from the caller.
        drop(unsafe { self.swap(content) });
    }

    /// # Safety
    /// As [`swap`](Self::swap).
    pub(super) unsafe fn take_request(&self) -> Option<R::Request> {
        // SAFETY: passed on from the caller.
        unsafe {
            match self.swap(Content::Nothing) {
                Content::Asked(request) => Some(request),
                other => {
                    self.set(other);
                    None
                }
            }
        }
    }

    /// # Safety
    /// The lock is held, and this is not changed while the reference is used.
    pub(super) unsafe fn asked(&self) -> Option<&R::Request> {
        // SAFETY: passed on from the caller.
        self.0.look(|content| match unsafe { &*content } {
            Content::Asked(request) => Some(request),
            _ => None,
        })
    }

    /// For an owner whose request does not wait.
    pub(super) fn into_content(self) -> Content<R> {
        // SAFETY: owned, so only the owner can reach it.
        unsafe { self.swap(Content::Nothing) }
    }
}

impl<R: Rule> fmt::Debug for Slot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

impl<R: Rule> Driven<R> {
    pub(super) fn new(rule: R) -> Self {
        Self { rule: Some(rule), is_broken: false }
    }

    /// By which a thread knows whose code it runs.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Runs a user's code on the rule, which the caller [checks](Self::check) if that panics. `None` if
    /// the object is broken already.
    pub(super) fn run<T>(&mut self, code: impl FnOnce(&mut R) -> T) -> Option<Result<T, Panic>> {
        let address = self.address();
        let rule = self.rule.as_mut().filter(|_| !self.is_broken)?;
        Some(user_code::run(address, || code(rule)))
    }

    /// Asks the rule, which has panicked, whether it is whole.
    #[cold]
    fn check(&mut self, wakes: &mut Wakes) {
        let is_whole =
            user_code::run(self.address(), || self.rule.as_ref().is_some_and(R::is_whole));
        self.is_broken |= !is_whole.unwrap_or_else(|panic| {
            bury(panic, wakes);
            false
        });
    }

    /// Runs a user's code on the rule and the requests that wait; says, too, whether one of them has
    /// made the rule panic. `None` if the object is broken.
    fn run_on_waiting<T>(
        &mut self,
        lists: &mut WaitLists<Slot<R>>,
        wakes: &mut Wakes,
        code: impl FnOnce(&mut R, &mut Waiting<'_, R>) -> T,
    ) -> Option<(Result<T, Panic>, bool)> {
        let mut waiting = Waiting { lists, wakes, has_panicked: false };
        let result = self.run(|rule| code(rule, &mut waiting))?;
        if waiting.has_panicked || result.is_err() {
            self.check(waiting.wakes);
        }
        Some((result, waiting.has_panicked))
    }

    /// Runs a user's change, and then serves the requests that it allows to be served. If the object is
    /// broken the change stays where it is, to be dropped without the lock.
    pub(super) fn change<T, F: FnOnce(&mut R, &mut Waiting<'_, R>) -> T>(
        &mut self,
        lists: &mut WaitLists<Slot<R>>,
        wakes: &mut Wakes,
        change: &mut Option<F>,
    ) -> Option<Result<T, Panic>> {
        let change = if self.is_broken { None } else { change.take() }?;
        let (result, _) = self.run_on_waiting(lists, wakes, change)?;
        self.show_waiting(lists, wakes, R::settle);
        Some(result)
    }

    /// Lets the rule answer requests that wait. A request that makes it panic ends, and the others are
    /// shown again.
    fn show_waiting(
        &mut self,
        lists: &mut WaitLists<Slot<R>>,
        wakes: &mut Wakes,
        show: fn(&mut R, &mut Waiting<'_, R>),
    ) {
        while lists.waiting > 0 && !self.is_broken {
            match self.run_on_waiting(lists, wakes, show) {
                Some((Err(panic), _)) => {
                    // How far it came is not known, and trying again would not help.
                    self.is_broken = true;
                    bury(panic, wakes);
                }
                Some((Ok(()), true)) => {}
                Some((Ok(()), false)) | None => break,
            }
        }
        if self.is_broken {
            Waiting { lists, wakes, has_panicked: false }.fault_all();
        }
    }

    /// Serves a request that comes, unless it has to wait for others.
    fn serve_coming(
        &mut self,
        lists: &mut WaitLists<Slot<R>>,
        waiter: Pointer<Slot<R>>,
        wakes: &mut Wakes,
        is_first: bool,
    ) -> Arrival<Infallible> {
        if self.is_broken {
            // The request stays where it is, to be dropped without the lock.
            return Arrival::Faulted;
        }
        // SAFETY: the lock is held, and the waiter is alive and on no list.
        let slot = unsafe { &waiter.as_ref().ask };
        // SAFETY: as above.
        let Some(request) = (unsafe { slot.take_request() }) else { return Arrival::Faulted };
        let waiting = Waiting { lists: &mut *lists, wakes: &mut *wakes, has_panicked: false };
        let reply = self.run(|rule| {
            if !is_first && waiting.must_wait(&request, None) {
                return Reply::Wait(request);
            }
            rule.serve(request)
        });
        let (content, arrival) = match reply {
            Some(Ok(Reply::Wait(request))) => (Content::Asked(request), Arrival::Waits(LANE)),
            Some(Ok(Reply::Done(answer))) => (Content::Answered(answer, None), Arrival::Served),
            Some(Ok(Reply::Lent(answer, undo))) => {
                (Content::Answered(answer, Some(undo)), Arrival::Served)
            }
            Some(Err(panic)) => {
                self.check(wakes);
                wakes.keep_panic(Some(panic));
                wakes.has_payloads = true;
                (Content::Nothing, Arrival::Faulted)
            }
            None => (Content::Nothing, Arrival::Faulted),
        };
        // SAFETY: as above.
        unsafe { slot.set(content) };
        if !matches!(arrival, Arrival::Waits(_)) {
            self.show_waiting(lists, wakes, R::settle);
        }
        arrival
    }
}

/// Keeps the payload of a panic that ends here, to be dropped once the lock is released.
#[cold]
fn bury(panic: Panic, wakes: &mut Wakes) {
    discard_later(panic);
    wakes.has_payloads = true;
}

impl<R> fmt::Debug for Driven<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driven").field("is_broken", &self.is_broken).finish_non_exhaustive()
    }
}

impl<R: Rule> ObjectRule for Driven<R> {
    type Ask = Slot<R>;
    type Refusal = Infallible;
    type Outside = ();
    type Lock = SleepLock;
    /// What an undo has panicked with.
    type Change = Option<Panic>;

    const IS_FINAL: bool = true;
    const ANSWERS_JOINED: bool = true;

    fn arrive(
        &mut self,
        (): &(),
        lists: &mut WaitLists<Slot<R>>,
        waiter: Pointer<Slot<R>>,
        coming: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<Infallible> {
        self.serve_coming(lists, waiter, wakes, matches!(coming, Coming::Again { .. }))
    }

    fn joined(&mut self, (): &(), lists: &mut WaitLists<Slot<R>>, wakes: &mut Wakes) {
        let before = lists.waiting;
        self.show_waiting(lists, wakes, R::joined);
        if lists.waiting < before {
            // Those that were answered may have been in the way of others.
            self.show_waiting(lists, wakes, R::settle);
        }
    }

    /// What was lent is undone, and is asked again; what is done is done.
    fn take_back(&mut self, (): &(), waiter: Pointer<Slot<R>>) -> Option<Panic> {
        // SAFETY: the lock is held, and the waiter is alive.
        let slot = unsafe { &waiter.as_ref().ask };
        // SAFETY: as above. What is put back takes the place of nothing.
        unsafe {
            match slot.swap(Content::Nothing) {
                Content::Answered(answer, Some(undo)) if !self.is_broken => {
                    match self.run(|rule| undo(rule, answer)) {
                        Some(Ok(request)) => slot.set(Content::Asked(request)),
                        Some(Err(panic)) => return Some(panic),
                        None => {}
                    }
                }
                other => slot.set(other),
            }
        }
        None
    }

    fn settle(
        &mut self,
        (): &(),
        lists: &mut WaitLists<Slot<R>>,
        undo_panic: Option<Panic>,
        wakes: &mut Wakes,
    ) {
        if let Some(panic) = undo_panic {
            self.check(wakes);
            bury(panic, wakes);
        }
        self.show_waiting(lists, wakes, R::settle);
    }

    fn before_unlocking(&mut self, (): &(), _: &WaitLists<Slot<R>>) {}
}
