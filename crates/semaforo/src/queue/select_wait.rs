//! The waiters of one request in several queues at once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use super::errors::Closed;
use super::selection::{BranchLink, Polled, Selection};
use super::slot::{Detail, ItemSlot};
use crate::primitive::TrackedCell;
use crate::wait::bounds::Bounds;
use crate::wait::contended::Attempt;
use crate::wait::contended::ContendedObject;
use crate::wait::rule::ObjectRule;
use crate::wait::timer::Watch;
use crate::wait::wait_lists::WaitLists;
use crate::wait::wait_queue::{QueuedRequest, Tick, TimedObject, WaitQueue};
use crate::wait::waiter::{Lane, ListKind, Pointer, Waiter, WaiterState};
use crate::wait::wake::{self, Panic, Wakes};

/// A rule whose waiters may be branches of a request that waits in several queues.
pub trait Selectable:
    ObjectRule<Ask = ItemSlot<Self::Item, Self::Detail>, Refusal = Closed>
{
    type Item;
    type Detail: Detail;

    /// Serves a branch at once, if that can be done and no other queue has claimed the request.
    fn visit(
        &mut self,
        outside: &Self::Outside,
        lists: &mut WaitLists<Self::Ask>,
        branch: Pointer<Self::Ask>,
        wakes: &mut Wakes,
    ) -> Visited;
}

/// What becomes of a branch that comes to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visited {
    Served,
    Refused,
    Waits(Lane),
    /// Another queue has claimed the request, or its wait has ended.
    Gone,
}

/// What one request has that waits in several queues: a branch in each of them.
///
/// It stays where it is until it is dropped, which takes all branches away. The lists of the queues
/// point into it; only shared references to it are made until then.
pub struct SelectWait<R: Selectable> {
    selection: Arc<Selection>,
    /// The item of a request that puts one.
    item: TrackedCell<Option<R::Item>>,
    branches: Box<[SelectBranch<R>]>,
}

struct SelectBranch<R: Selectable> {
    seat: QueuedRequest<R::Ask, (), BranchLink<R::Item>>,
    object: Arc<ContendedObject<R>>,
}

// SAFETY: as for `ContendedObject`: what branches hold is sent by requests that are `Send` only if
// it may be.
unsafe impl<R: Selectable> Send for SelectWait<R> {}
// SAFETY: as above.
unsafe impl<R: Selectable> Sync for SelectWait<R> {}

impl<R: Selectable> SelectBranch<R> {
    /// By a pointer that may reach the link beside it.
    fn waiter(&self) -> Pointer<R::Ask> {
        let seat = NonNull::from(&self.seat);
        // SAFETY: only the address is computed.
        unsafe { NonNull::new_unchecked(&raw mut (*seat.as_ptr()).waiter) }
    }

    fn own(&self) -> &Waiter<R::Ask> {
        &self.seat.waiter
    }
}

/// Owns a select_wait that others point into.
pub(super) struct OwnedSelectWait<R: Selectable>(NonNull<SelectWait<R>>);

// SAFETY: it owns the select_wait.
unsafe impl<R: Selectable> Send for OwnedSelectWait<R> {}
// SAFETY: as above.
unsafe impl<R: Selectable> Sync for OwnedSelectWait<R> {}

impl<R: Selectable> std::ops::Deref for OwnedSelectWait<R> {
    type Target = SelectWait<R>;

    fn deref(&self) -> &SelectWait<R> {
        // SAFETY: alive until this is dropped, and never borrowed exclusively.
        unsafe { self.0.as_ref() }
    }
}

impl<R: Selectable> Drop for OwnedSelectWait<R> {
    fn drop(&mut self) {
        let panic = self.leave_all();
        // SAFETY: made from a box, and no queue knows of its branches any more.
        let freed = catch_unwind(AssertUnwindSafe(|| unsafe {
            drop(Box::from_raw(self.0.as_ptr()));
        }));
        resume_if_some(wake::first(panic, freed.err()));
    }
}

impl<R: Selectable> OwnedSelectWait<R> {
    /// A select_wait of these queues, with what the branch in each of them carries.
    pub(super) fn new(queues: Vec<(Arc<ContendedObject<R>>, R::Ask)>) -> Self {
        let selection = Selection::of(queues.len());
        let mut item = Box::new(SelectWait {
            selection: Arc::clone(&selection),
            item: TrackedCell::new(None),
            branches: Box::new([]),
        });
        let place = NonNull::from(&item.item);
        let branch = |(index, (object, ask)): (usize, (Arc<ContendedObject<R>>, R::Ask))| {
            let link = BranchLink { selection: Arc::clone(&selection), index, item: place };
            SelectBranch {
                seat: QueuedRequest { bounds: (), waiter: Waiter::new(ask), extra: link },
                object,
            }
        };
        item.branches = queues.into_iter().enumerate().map(branch).collect();
        Self(NonNull::from(Box::leak(item)))
    }
}

impl<R: Selectable> SelectWait<R> {
    /// The item of a request that puts one.
    ///
    /// # Safety
    /// The caller owns the request, which does not wait.
    pub(super) unsafe fn item<T>(&self, change: impl FnOnce(&mut Option<R::Item>) -> T) -> T {
        // SAFETY: the caller's promise makes this the only access.
        self.item.look_mut(|item| change(unsafe { &mut *item }))
    }

    /// Whether a queue has served the request, which does not wait.
    pub(super) fn was_claimed(&self) -> bool {
        self.selection.selected().is_some()
    }

    /// The queue that has served the request.
    pub(super) fn selected(&self) -> usize {
        self.selection.selected().expect("a request that was served has been claimed by a queue")
    }

    /// The item that a request was served, and from which queue.
    ///
    /// # Panics
    /// With the panic of a waker; then the item goes back to its queue.
    pub(super) fn taken(&self) -> (usize, R::Item) {
        let index = self.selected();
        let others = self.branches.iter().enumerate().filter(|(other, _)| *other != index);
        let panic = others.fold(None, |panic, (_, branch)| wake::first(panic, Self::leave(branch)));
        resume_if_some(panic);
        let branch = &self.branches[index];
        // SAFETY: the owner's, who does not wait.
        let item = unsafe { branch.own().ask.take_given() };
        let item = item.expect("a request that was served has an item");
        branch.own().set_state(WaiterState::Finished);
        (index, item)
    }

    /// Goes to every queue, in order, until one has served or claimed the request. True if it was
    /// served here.
    fn visit_all(&self, thread: bool) -> Result<bool, Panic> {
        for branch in &self.branches {
            let own = branch.own();
            if own.state() == WaiterState::Refused {
                continue;
            }
            let mut waker = Some(Waker::from(Arc::clone(&self.selection)));
            let waiter = branch.waiter();
            // SAFETY: the lock is held. The branch is alive, where its notes say, and is taken away
            // before it is gone.
            let (visited, panic) =
                branch.object.change_caught(|rule, outside, lists, wakes| unsafe {
                    let place = own.notes(|notes| notes.list);
                    let refused = own.state() == WaiterState::Refused;
                    if refused || matches!(place, ListKind::Deferred | ListKind::Granted) {
                        // It has its answer here, perhaps only just.
                        return None;
                    }
                    let visited = rule.visit(outside, lists, waiter, wakes);
                    match visited {
                        Visited::Served => {
                            lists.detach(waiter);
                            own.set_state(WaiterState::Served);
                        }
                        Visited::Refused => {
                            lists.detach(waiter);
                            own.set_state(WaiterState::Refused);
                            self.selection.refuse();
                        }
                        Visited::Waits(lane) => {
                            waker = own.swap_waker(waker.take());
                            if !matches!(place, ListKind::Lane(_)) {
                                // One whose item was taken back stands first again.
                                let first = lists.detach(waiter) == ListKind::Dormant;
                                own.notes(|notes| notes.thread = thread);
                                // A thread's branch is woken through its waker in any case.
                                let waits =
                                    if thread { WaiterState::Parked } else { WaiterState::Waiting };
                                own.set_state(waits);
                                lists.receive(waiter, lane, first);
                            }
                        }
                        Visited::Gone => {}
                    }
                    Some(visited)
                });
            if let Some(panic) = panic {
                return Err(panic);
            }
            match visited {
                Some(Visited::Served) => return Ok(true),
                Some(Visited::Gone) => return Ok(false),
                Some(Visited::Refused | Visited::Waits(_)) | None => {}
            }
        }
        Ok(false)
    }

    /// [`visit_all`](Self::visit_all), and ends the request if a waker panics.
    fn visit_or_end(&self, request: Pointer<()>, thread: bool) -> bool {
        match self.visit_all(thread) {
            Ok(false) => false,
            Ok(true) => {
                // SAFETY: the owner's request was let in here.
                unsafe { self.selection.detach(request) };
                true
            }
            Err(panic) => {
                // SAFETY: as above.
                unsafe {
                    self.selection.detach(request);
                    request.as_ref().set_state(WaiterState::Faulted);
                }
                if let Some(other) = self.leave_all() {
                    wake::discard(other);
                }
                wake::resume(panic);
                false
            }
        }
    }

    /// Claims what a task was granted in the queue that has claimed it.
    ///
    /// # Safety
    /// The request was let in here, and the caller owns it.
    unsafe fn claim_chosen(&self, request: Pointer<()>) -> bool {
        let Some(branch) = self.selection.selected().and_then(|index| self.branches.get(index))
        else {
            return false;
        };
        // SAFETY: the branch was queued there, and this is its owner.
        if !unsafe { branch.object.claim(branch.waiter()) } {
            // The thread that takes it back, or has not quite handed it over, is done when the lock
            // is free.
            branch.object.locked(|_, _, _| ());
            return false;
        }
        // From here on it is given back if the request is dropped.
        branch.own().set_state(WaiterState::Served);
        // SAFETY: passed on from the caller.
        unsafe { self.selection.detach(request) };
        true
    }

    /// Takes the branches away that are still in their queues; what they were served goes back.
    fn leave_all(&self) -> Option<Panic> {
        self.branches.iter().fold(None, |panic, branch| wake::first(panic, Self::leave(branch)))
    }

    fn leave(branch: &SelectBranch<R>) -> Option<Panic> {
        let own = branch.own();
        if matches!(own.state(), WaiterState::Fresh | WaiterState::Finished) {
            return None;
        }
        // SAFETY: the branch was queued there, and this is its owner.
        let left =
            catch_unwind(AssertUnwindSafe(|| unsafe { branch.object.withdraw(branch.waiter()) }));
        own.set_state(WaiterState::Finished);
        left.err()
    }
}

fn resume_if_some(panic: Option<Panic>) {
    if let Some(panic) = panic {
        wake::resume(panic);
    }
}

impl<R: Selectable> WaitQueue for SelectWait<R> {
    type Ask = ();
    type Refusal = Closed;

    fn counted(&self) -> Option<Arc<dyn TimedObject>> {
        self.selection.counted()
    }

    fn tries_first(&self) -> bool {
        false
    }

    unsafe fn enter(
        &self,
        request: Pointer<()>,
        _: Attempt,
        _: &mut Option<Closed>,
        give_up: impl FnOnce() -> Option<WaiterState>,
    ) -> WaiterState {
        if self.branches.is_empty() {
            return WaiterState::Refused;
        }
        // SAFETY: passed on from the caller.
        let thread = unsafe { self.selection.join(request) };
        if self.visit_or_end(request, thread) {
            return WaiterState::Served;
        }
        // A token that fires from here on finds the request in line.
        let end = give_up();
        // SAFETY: as above.
        unsafe { self.selection.answer_own(request, end) }
    }

    unsafe fn claim(&self, request: Pointer<()>) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { request.as_ref().state() == WaiterState::Granted && self.claim_chosen(request) }
    }

    unsafe fn revisit(&self, request: Pointer<()>, waker: &Waker) -> WaiterState {
        // SAFETY: passed on from the caller.
        let own = unsafe { request.as_ref() };
        loop {
            let state = own.state();
            if state.is_final() {
                return state;
            }
            // SAFETY: passed on from the caller.
            if unsafe { self.claim_chosen(request) } {
                return WaiterState::Served;
            }
            let mut fresh = Some(waker.clone());
            // SAFETY: as above.
            match unsafe { self.selection.look(request, &mut fresh) } {
                Polled::Again => {}
                Polled::Waits => return WaiterState::Waiting,
                Polled::Everywhere => {
                    if self.visit_or_end(request, false) {
                        return WaiterState::Served;
                    }
                    // SAFETY: as above.
                    let state = unsafe { self.selection.answer_own(request, None) };
                    if state.is_final() {
                        return state;
                    }
                }
            }
        }
    }

    unsafe fn retry(&self, _: Pointer<()>) -> WaiterState {
        unreachable!("no request is told to try again in several queues")
    }

    unsafe fn withdraw(&self, request: Pointer<()>) {
        // SAFETY: passed on from the caller.
        unsafe { self.selection.detach(request) };
        resume_if_some(self.leave_all());
    }

    unsafe fn end_waiter(&self, request: Pointer<()>, state: WaiterState, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe { self.selection.end_waiter(request, state, wakes) };
    }

    fn expulsion(&self) -> Option<Closed> {
        Some(Closed)
    }
}

impl<R: Selectable> TimedObject for SelectWait<R> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { self.selection.end(bounds, state, wakes, let_go) }
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        self.selection.tick(wakes)
    }

    fn finish(&self, wakes: &mut Wakes) {
        self.selection.finish(wakes);
    }

    fn watch(&self) -> &Watch {
        self.selection.watch()
    }

    fn interval(&self) -> u64 {
        self.selection.interval()
    }
}

impl<R: Selectable> fmt::Debug for SelectWait<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectWait").field("queues", &self.branches.len()).finish_non_exhaustive()
    }
}
