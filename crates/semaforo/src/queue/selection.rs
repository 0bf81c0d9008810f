//! A request that waits in several queues at once, and is served by one of them.
//!
//! It has a waiter in every queue (a *branch*), beside which lies a [`BranchLink`] to what they
//! share: the [`Selection`], in whose own small line the request's waiter stands. A queue that
//! could serve a branch first *claims* the request: if that still stands in line there, it is the
//! queue's, and every other queue passes over its branches until the request's owner comes and
//! takes them away.
//!
//! So a queue with items may have branches of takers in its line: ones that cannot be claimed, or
//! whose owner has just been polled and is about to look at the queue. What comes to such a queue
//! is put behind what is there, as if no taker waited.
//!
//! Locks are taken in the order queue, selection; of two choices, the one at the lower address
//! first. The selection knows nothing of items, so that it may outlive what they borrow: it is what
//! tokens, the timer and the branches' wakers reach.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Wake;

use super::errors::Closed;
use super::slot::{Detail, ItemSlot};
use crate::primitive::{MODELLED, TrackedCell};
use crate::wait::contended::{ContendedObject, SpinLock};
use crate::wait::rule::{Arrival, Coming, ObjectRule};
use crate::wait::wait_lists::WaitLists;
use crate::wait::wait_queue::extra_of;
use crate::wait::waiter::{Lane, ListKind, Pointer, Waiter, WaiterState};
use crate::wait::wake::{self, Wakes};

/// Where the request stands until a queue claims it, alone.
const UNDECIDED: Lane = Lane::First;

/// Which queue serves a request.
///
/// | its waiter is | means |
/// |---|---|
/// | in the lane | any queue may claim it |
/// | deferred | a queue has claimed it, and is about to tell it |
/// | granted | a task that was told, and has not come for its item |
/// | dormant | a task whose item was taken back or withdrawn, until it is polled |
/// | nowhere | it was answered, or has left |
pub(crate) type Selection = ContendedObject<SelectionRule>;

/// The rule of a [`Selection`].
#[derive(Debug)]
pub struct SelectionRule {
    /// The queue that has claimed the request.
    selected: Option<usize>,
    /// How many queues are not closed to it.
    open: usize,
}

impl ObjectRule for SelectionRule {
    type Ask = ();
    type Refusal = Closed;
    type Outside = ();
    type Lock = SpinLock;
    type Change = ();

    fn arrive(
        &mut self,
        (): &(),
        _: &mut WaitLists<()>,
        _: Pointer<()>,
        _: Coming,
        _: &mut Wakes,
    ) -> Arrival<Closed> {
        Arrival::Waits(UNDECIDED)
    }

    fn take_back(&mut self, (): &(), _: Pointer<()>) {}

    fn before_unlocking(&mut self, (): &(), _: &WaitLists<()>) {}
}

impl SelectionRule {
    fn claim(
        &mut self,
        lists: &mut WaitLists<()>,
        index: Option<usize>,
        state: WaiterState,
    ) -> bool {
        let Some(request) = lists.first(UNDECIDED) else { return false };
        self.selected = index;
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            lists.detach(request);
            lists.defer(request, state);
        }
        true
    }
}

/// What a task finds that polls its request.
pub(super) enum Polled {
    /// It has an answer, or is going to get one: look again.
    Again,
    /// It waits, with a new waker.
    Waits,
    /// It stands in line again, after queues may have passed over its branches.
    Everywhere,
}

impl ContendedObject<SelectionRule> {
    pub(super) fn of(queues: usize) -> Arc<Self> {
        let selection =
            Self::new(SelectionRule { selected: None, open: queues }, SpinLock::new(), ());
        if MODELLED {
            // The thread that drops it last has to know that, and loom does not follow the counts
            // of an `Arc`.
            std::mem::forget(Arc::clone(&selection));
        }
        selection
    }

    /// The queue that has claimed the request.
    pub(super) fn selected(&self) -> Option<usize> {
        self.locked(|rule, (), _| rule.selected)
    }

    /// Lets a fresh request stand in line. Says whether it is a thread's.
    ///
    /// # Safety
    /// The waiter is pinned, prepared, and taken out again before its memory is used otherwise.
    pub(super) unsafe fn join(&self, request: Pointer<()>) -> bool {
        // SAFETY: passed on from the caller; the lock is held.
        self.locked(|_, (), lists| unsafe {
            lists.join(request, UNDECIDED, false);
            request.as_ref().notes(|notes| notes.thread)
        })
    }

    /// Takes the request out of whatever list it is on.
    ///
    /// # Safety
    /// The waiter is alive, and was [let in](Self::join) here.
    pub(super) unsafe fn detach(&self, request: Pointer<()>) -> ListKind {
        // SAFETY: passed on from the caller; the lock is held.
        self.locked(|_, (), lists| unsafe { lists.detach(request) })
    }

    /// How a request stands that has looked at every queue in vain: refused, ended as it says, or
    /// as another thread has answered it meanwhile; otherwise `Waiting`.
    ///
    /// # Safety
    /// The waiter is alive, was let in here, and this is its owner.
    pub(super) unsafe fn answer_own(
        &self,
        request: Pointer<()>,
        end: Option<WaiterState>,
    ) -> WaiterState {
        // SAFETY: passed on from the caller; the lock is held.
        self.locked(|rule, (), lists| unsafe {
            let own = request.as_ref();
            let (list, answer) = own.notes(|notes| (notes.list, notes.answer()));
            match (list, end) {
                // The last queue was closed while the request rested, and could not be refused.
                (ListKind::Lane(_), _) if rule.open == 0 => {
                    lists.detach(request);
                    return WaiterState::Refused;
                }
                (ListKind::Deferred, _) if answer == WaiterState::Refused => {
                    lists.detach(request);
                    return WaiterState::Refused;
                }
                (ListKind::Lane(_), Some(end)) => {
                    lists.detach(request);
                    return end;
                }
                (ListKind::Deferred | ListKind::Granted, Some(end)) => {
                    own.notes(|notes| notes.end_late(end == WaiterState::Cancelled));
                }
                _ => {}
            }
            let state = own.state();
            if state.is_final() { state } else { WaiterState::Waiting }
        })
    }

    /// A queue is closed to the request. When all are, it is refused.
    pub(super) fn refuse(&self) {
        self.locked(|rule, (), lists| {
            rule.open -= 1;
            if rule.open == 0 {
                rule.claim(lists, None, WaiterState::Refused);
            }
        });
    }

    /// Takes back a claim on a task that did not come in time: no queue can claim it until it is
    /// polled and looks at all of them, because they may have passed over its branches.
    pub(super) fn make_dormant(&self) {
        self.locked(|rule, (), lists| {
            let claimed = lists.granted.front().or_else(|| lists.deferred.front());
            let Some(request) = claimed else { return };
            rule.selected = None;
            // SAFETY: the lock is held, and what is in a list is alive. One that was told has no
            // waker any more, so that nothing is collected: it was woken, and finds this when it is
            // polled.
            unsafe {
                let was = lists.detach(request);
                match request.as_ref().notes(|notes| notes.late_end()) {
                    // The thread that is about to tell it that it was claimed tells it this
                    // instead.
                    Some(end) if was == ListKind::Deferred => lists.defer(request, end),
                    _ => lists.make_dormant(request, &mut Wakes::new()),
                }
            }
        });
    }

    /// Looks after a request that waits and is being polled; `fresh` is a clone of its waker, and
    /// afterwards a waker to drop.
    ///
    /// # Safety
    /// The waiter is alive, was let in here, and this is its owner.
    pub(super) unsafe fn look(
        &self,
        request: Pointer<()>,
        fresh: &mut Option<std::task::Waker>,
    ) -> Polled {
        // SAFETY: passed on from the caller; the lock is held.
        self.locked(|_, (), lists| unsafe {
            let own = request.as_ref();
            let place = own.notes(|notes| notes.list);
            match place {
                ListKind::Lane(_) | ListKind::Deferred | ListKind::Dormant => {
                    *fresh = own.swap_waker(fresh.take());
                }
                _ => return Polled::Again,
            }
            if place != ListKind::Dormant {
                return Polled::Waits;
            }
            lists.detach(request);
            lists.join(request, UNDECIDED, false);
            Polled::Everywhere
        })
    }
}

/// What a branch's waker does: it tells the request that it was claimed.
impl Wake for ContendedObject<SelectionRule> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.change(|_, (), lists, wakes| {
            lists.tell_deferred(wakes);
            // Claimed, and let go again before it was told: it looks for itself.
            if let Some(request) = lists.dormant.front() {
                // SAFETY: the lock is held, and what is in a list is alive; a task's, because what
                // a thread is given is never taken back.
                wakes.push(unsafe { wake::Wake::task(request.as_ref().swap_waker(None)) });
            }
        });
    }
}

/// What is beside every branch of a request.
pub(super) struct BranchLink<T> {
    pub(super) selection: Arc<Selection>,
    /// Which of the queues.
    pub(super) index: usize,
    /// The item of a request that puts one. Belongs to the queue that has claimed the request, and
    /// to its owner before and afterwards.
    pub(super) item: NonNull<TrackedCell<Option<T>>>,
}

/// What ties a waiter to others, if it is a branch.
///
/// # Safety
/// The lock is held, and the waiter is alive for as long as the link is used.
#[inline]
pub(super) unsafe fn link_of<'a, T, D: Detail>(
    waiter: Pointer<ItemSlot<T, D>>,
) -> Option<&'a BranchLink<T>> {
    // SAFETY: passed on from the caller. A branch lies in a seat, its link beside it.
    unsafe {
        let is_branch = waiter.as_ref().ask.is_branch();
        is_branch.then(|| extra_of::<ItemSlot<T, D>, BranchLink<T>>(waiter).as_ref())
    }
}

impl<T> BranchLink<T> {
    /// Claims the request for this branch's queue, unless another has claimed it, or it has ended.
    pub(super) fn claim(&self, state: WaiterState) -> bool {
        self.selection.locked(|rule, (), lists| rule.claim(lists, Some(self.index), state))
    }

    /// Claims two requests that serve each other, or neither; says which of them cannot be claimed.
    pub(super) fn claim_both(
        &self,
        state: WaiterState,
        other: &Self,
        others: WaiterState,
    ) -> Claimed {
        let both = |own: (&mut SelectionRule, &mut WaitLists<()>),
                    theirs: (&mut SelectionRule, &mut WaitLists<()>)| {
            if own.1.first(UNDECIDED).is_none() {
                Claimed::NotThis
            } else if !theirs.0.claim(theirs.1, Some(other.index), others) {
                Claimed::NotOther
            } else {
                own.0.claim(own.1, Some(self.index), state);
                Claimed::Both
            }
        };
        let (own, theirs) = (&*self.selection, &*other.selection);
        if std::ptr::from_ref(own).addr() < std::ptr::from_ref(theirs).addr() {
            own.locked(|a, (), b| theirs.locked(|c, (), d| both((a, b), (c, d))))
        } else {
            theirs.locked(|c, (), d| own.locked(|a, (), b| both((a, b), (c, d))))
        }
    }

    /// The item of a request that this branch's queue has claimed.
    ///
    /// # Safety
    /// The queue has claimed it, and the request is alive.
    pub(super) unsafe fn take_item(&self) -> Option<T> {
        // SAFETY: passed on from the caller: the claim makes this the only access.
        unsafe { self.item.as_ref().look_mut(|item| (*item).take()) }
    }
}

/// What came of [`BranchLink::claim_both`].
pub(super) enum Claimed {
    Both,
    NotThis,
    NotOther,
}

/// How a waiter that a queue serves is told so.
///
/// # Safety
/// The lock is held, and the waiter is alive.
pub(super) unsafe fn state_of_grant_to<A>(taker: &Waiter<A>) -> WaiterState {
    // SAFETY: passed on from the caller.
    let thread = unsafe { taker.notes(|notes| notes.thread) };
    if thread { WaiterState::Served } else { WaiterState::Granted }
}

/// The first in a lane who can be served, and is going to be: a branch is claimed for this queue,
/// and passed over if it cannot be.
#[inline]
pub(super) fn first_served<T, D: Detail>(
    lists: &WaitLists<ItemSlot<T, D>>,
    lane: Lane,
    state: impl Fn(&Waiter<ItemSlot<T, D>>) -> WaiterState,
) -> Option<Pointer<ItemSlot<T, D>>> {
    let mut next = lists.first(lane);
    while let Some(waiter) = next {
        // SAFETY: the lock is held, and what is in a lane is alive.
        unsafe {
            match link_of(waiter) {
                None => return Some(waiter),
                Some(link) if link.claim(state(waiter.as_ref())) => return Some(waiter),
                Some(_) => next = lists.lanes[lane.number()].after(waiter),
            }
        }
    }
    None
}
