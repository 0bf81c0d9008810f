//! The requests that wait, as a rule sees them.

use std::collections::HashSet;
use std::fmt;
use std::panic::resume_unwind;

use super::driven::{Content, LANE, Slot};
use super::{Order, Reply, Rule};
use crate::wait::user_code;
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Pointer, WaiterState};
use crate::wait::wake::{Panic, Wakes, discard_later};

/// The requests that wait, in the order in which they came.
///
/// A request that was passed over, because its task did not come for what it was lent, is not among
/// them until it is polled.
pub struct Waiting<'l, R: Rule> {
    pub(super) lists: &'l mut WaitLists<Slot<R>>,
    pub(super) wakes: &'l mut Wakes,
    /// A request has made the rule panic, which has to be asked whether it is whole.
    pub(super) has_panicked: bool,
}

impl<R: Rule> Waiting<'_, R> {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lists.waiting as usize
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.waiting == 0
    }

    /// The requests that wait.
    pub fn iter(&self) -> impl Iterator<Item = &R::Request> {
        self.waiters().filter_map(|waiter| {
            // SAFETY: the lock is held, what is in a lane is alive, and its slot is changed only through
            // an exclusive reference to this.
            unsafe { waiter.as_ref().ask.asked() }
        })
    }

    /// Offers the waiting requests to the rule, in its [`ORDER`](Rule::ORDER), until no more of them can
    /// be served.
    pub fn serve(&mut self, rule: &mut R) {
        match R::ORDER {
            Order::Strict => {
                while let Some(first) = self.lists.first(LANE).filter(|_| !self.has_panicked) {
                    if !self.serve_one(first, rule) {
                        break;
                    }
                }
            }
            Order::PerKey(_) | Order::Conflict(_) | Order::Any => while self.serve_all(rule) {},
        }
    }

    /// Offers each waiting request, in the order in which they came, to `answer`, whatever the rule's order
    /// says. Returns how many are answered.
    ///
    /// # Panics
    /// With a panic of `answer`; the request that it was given ends with one, too.
    pub fn offer(&mut self, answer: impl FnMut(R::Request) -> Reply<R>) -> usize {
        self.offer_where(|_| true, answer)
    }

    /// [`offer`](Self::offer), of the requests that are wanted.
    ///
    /// # Panics
    /// As `offer`.
    pub fn offer_where(
        &mut self,
        wanted: impl Fn(&R::Request) -> bool,
        mut answer: impl FnMut(R::Request) -> Reply<R>,
    ) -> usize {
        let mut answered = 0;
        let mut next = self.lists.first(LANE);
        while let Some(waiter) = next {
            next = self.after(waiter);
            // SAFETY: as in `iter`.
            if !unsafe { waiter.as_ref().ask.asked() }.is_some_and(&wanted) {
                continue;
            }
            match self.offer_one(waiter, &mut answer) {
                Ok(was_answered) => answered += usize::from(was_answered),
                Err(panic) => resume_unwind(panic),
            }
        }
        answered
    }

    /// Whether a request has to wait for one that came before it: before `own`, or before all that come,
    /// if it does not wait yet.
    pub(super) fn must_wait(&self, request: &R::Request, own: Option<Pointer<Slot<R>>>) -> bool {
        let earlier = || self.waiters().take_while(|other| Some(*other) != own);
        // SAFETY: as in `iter`.
        let asked = |other: Pointer<Slot<R>>| unsafe { (*other.as_ptr()).ask.asked() };
        match R::ORDER {
            Order::Strict => self.lists.first(LANE) != own,
            Order::PerKey(key) => {
                let own_key = (!self.is_empty()).then(|| key(request));
                earlier().any(|other| asked(other).map(key) == own_key)
            }
            Order::Conflict(conflict) => {
                earlier().any(|other| asked(other).is_some_and(|other| conflict(request, other)))
            }
            Order::Any => false,
        }
    }

    /// Offers to the rule all requests that need not wait for another. True if some were served, and so
    /// others may be.
    fn serve_all(&mut self, rule: &mut R) -> bool {
        let (mut served, mut was_in_vain) = (false, false);
        let mut keys_in_vain = HashSet::new();
        let mut next = self.lists.first(LANE);
        while let Some(waiter) = next.filter(|_| !self.has_panicked) {
            next = self.after(waiter);
            // SAFETY: as in `iter`.
            let Some(request) = (unsafe { waiter.as_ref().ask.asked() }) else { continue };
            let key = match R::ORDER {
                Order::PerKey(key) => Some(key(request)),
                Order::Conflict(_) if self.must_wait(request, Some(waiter)) => continue,
                _ => None,
            };
            if key.is_some_and(|key| keys_in_vain.contains(&key)) {
                continue;
            }
            if !self.serve_one(waiter, rule) {
                was_in_vain = true;
                keys_in_vain.extend(key);
                continue;
            }
            served = true;
            if was_in_vain && matches!(R::ORDER, Order::Any) {
                // What it changed is for the first of those that can be served now.
                break;
            }
        }
        served && !self.is_empty() && !self.has_panicked
    }

    fn waiters(&self) -> impl Iterator<Item = Pointer<Slot<R>>> {
        std::iter::successors(self.lists.first(LANE), |waiter| self.after(*waiter))
    }

    fn after(&self, waiter: Pointer<Slot<R>>) -> Option<Pointer<Slot<R>>> {
        // SAFETY: the lock is held, and the waiter is in the lane, hence alive.
        unsafe { self.lists.lanes[LANE.number()].after(waiter) }
    }

    /// Offers a waiting request to the rule. False if it goes on waiting. If the rule panics, that is
    /// noted, and only the request ends.
    fn serve_one(&mut self, waiter: Pointer<Slot<R>>, rule: &mut R) -> bool {
        self.offer_one(waiter, &mut |request| rule.serve(request)).unwrap_or_else(|panic| {
            discard_later(panic);
            self.wakes.has_payloads = true;
            self.has_panicked = true;
            true
        })
    }

    /// Offers a waiting request to `answer`. False if it goes on waiting.
    fn offer_one(
        &mut self,
        waiter: Pointer<Slot<R>>,
        answer: &mut impl FnMut(R::Request) -> Reply<R>,
    ) -> Result<bool, Panic> {
        // SAFETY: the lock is held, and what is in the lane is alive until it is answered.
        unsafe {
            let own = waiter.as_ref();
            let Some(request) = own.ask.take_request() else { return Ok(false) };
            let replied = user_code::catch(|| answer(request));
            let (content, state, panic) = match replied {
                Ok(Reply::Wait(request)) => {
                    own.ask.set(Content::Asked(request));
                    return Ok(false);
                }
                Ok(Reply::Done(answer)) => {
                    (Content::Answered(answer, None), WaiterState::Served, None)
                }
                Ok(Reply::Lent(answer, undo)) => {
                    let thread = own.notes(|notes| notes.thread);
                    let state = if thread { WaiterState::Served } else { WaiterState::Granted };
                    (Content::Answered(answer, Some(undo)), state, None)
                }
                Err(panic) => (Content::Nothing, WaiterState::Faulted, Some(panic)),
            };
            own.ask.set(content);
            self.lists.detach(waiter);
            self.lists.answer(waiter, state, self.wakes);
            panic.map_or(Ok(true), Err)
        }
    }

    /// Ends all requests that wait, because the object is broken.
    pub(super) fn fault_all(&mut self) {
        while let Some(waiter) = self.lists.first(LANE) {
            // SAFETY: the lock is held, and what is in the lane is alive.
            unsafe {
                self.lists.detach(waiter);
                self.lists.answer(waiter, WaiterState::Faulted, self.wakes);
            }
        }
    }
}

impl<R: Rule> fmt::Debug for Waiting<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("len", &self.len()).finish_non_exhaustive()
    }
}
