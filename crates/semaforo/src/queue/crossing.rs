//! Where a request stands that waits in several queues at once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use super::choice::{Choice, Look, Tie};
use super::errors::Closed;
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
pub trait Selects: ObjectRule<Refusal = Closed> {
    type Item;

    /// What a branch carries that waits for an item.
    fn branch_taking() -> Self::Ask;

    /// Serves a branch at once, if that can be done and no other queue has claimed the request.
    fn visit(
        &mut self,
        outside: &Self::Outside,
        lists: &mut WaitLists<Self::Ask>,
        branch: Pointer<Self::Ask>,
        wakes: &mut Wakes,
    ) -> Visited;

    /// The item that a branch was served, for the owner of its request.
    fn taken(ask: &Self::Ask) -> Option<Self::Item>;
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

/// The line of one request that waits in several queues: a branch in each of them.
///
/// It stays where it is until it is dropped, which takes all branches away. The lists of the queues
/// point into it; only shared references to it are made until then.
pub struct Crossing<R: Selects> {
    choice: Arc<Choice>,
    /// The item of a request that puts one.
    item: TrackedCell<Option<R::Item>>,
    branches: Box<[Branch<R>]>,
}

struct Branch<R: Selects> {
    seat: QueuedRequest<R::Ask, (), Tie<R::Item>>,
    hall: Arc<ContendedObject<R>>,
}

// SAFETY: as for `ContendedObject`: what branches hold is sent by requests that are `Send` only if it may be.
unsafe impl<R: Selects> Send for Crossing<R> {}
// SAFETY: as above.
unsafe impl<R: Selects> Sync for Crossing<R> {}

impl<R: Selects> Branch<R> {
    /// By a pointer that may reach the tie beside it.
    fn waiter(&self) -> Pointer<R::Ask> {
        let seat = NonNull::from(&self.seat);
        // SAFETY: only the address is computed.
        unsafe { NonNull::new_unchecked(&raw mut (*seat.as_ptr()).waiter) }
    }

    fn own(&self) -> &Waiter<R::Ask> {
        &self.seat.waiter
    }
}

/// Owns a crossing that others point into.
pub(super) struct Crossed<R: Selects>(NonNull<Crossing<R>>);

// SAFETY: it owns the crossing.
unsafe impl<R: Selects> Send for Crossed<R> {}
// SAFETY: as above.
unsafe impl<R: Selects> Sync for Crossed<R> {}

impl<R: Selects> std::ops::Deref for Crossed<R> {
    type Target = Crossing<R>;

    fn deref(&self) -> &Crossing<R> {
        // SAFETY: alive until this is dropped, and never borrowed exclusively.
        unsafe { self.0.as_ref() }
    }
}

impl<R: Selects> Drop for Crossed<R> {
    fn drop(&mut self) {
        let panic = self.leave_all();
        // SAFETY: made from a box, and no queue knows of its branches any more.
        let freed = catch_unwind(AssertUnwindSafe(|| unsafe {
            drop(Box::from_raw(self.0.as_ptr()));
        }));
        resume_if_some(wake::first(panic, freed.err()));
    }
}

impl<R: Selects> Crossed<R> {
    /// A crossing of these queues, with what the branch in each of them carries.
    pub(super) fn new(queues: Vec<(Arc<ContendedObject<R>>, R::Ask)>) -> Self {
        let choice = Choice::of(queues.len());
        let mut item = Box::new(Crossing {
            choice: Arc::clone(&choice),
            item: TrackedCell::new(None),
            branches: Box::new([]),
        });
        let place = NonNull::from(&item.item);
        let branch = |(index, (hall, ask)): (usize, (Arc<ContendedObject<R>>, R::Ask))| {
            let tie = Tie { choice: Arc::clone(&choice), index, item: place };
            Branch {
                seat: QueuedRequest { bounds: (), waiter: Waiter::new(ask), extra: tie },
                hall,
            }
        };
        item.branches = queues.into_iter().enumerate().map(branch).collect();
        Self(NonNull::from(Box::leak(item)))
    }
}

impl<R: Selects> Crossing<R> {
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
        self.choice.chosen().is_some()
    }

    /// The queue that has served the request.
    pub(super) fn chosen(&self) -> usize {
        self.choice.chosen().expect("a request that was served has been claimed by a lists")
    }

    /// The item that a request was served, and from which queue.
    ///
    /// # Panics
    /// With the panic of a waker; then the item goes back to its queue.
    pub(super) fn taken(&self) -> (usize, R::Item) {
        let index = self.chosen();
        let others = self.branches.iter().enumerate().filter(|(other, _)| *other != index);
        let panic = others.fold(None, |panic, (_, branch)| wake::first(panic, Self::leave(branch)));
        resume_if_some(panic);
        let branch = &self.branches[index];
        let item = R::taken(&branch.own().ask).expect("whoever is served has an item");
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
            let mut waker = Some(Waker::from(Arc::clone(&self.choice)));
            let waiter = branch.waiter();
            // SAFETY: the lock is held. The branch is alive, where its notes say, and is taken away
            // before it is gone.
            let (visited, panic) =
                branch.hall.change_caught(|rule, outside, lists, wakes| unsafe {
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
                            self.choice.refuse();
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
                unsafe { self.choice.detach(request) };
                true
            }
            Err(panic) => {
                // SAFETY: as above.
                unsafe {
                    self.choice.detach(request);
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
        let Some(branch) = self.choice.chosen().and_then(|index| self.branches.get(index)) else {
            return false;
        };
        // SAFETY: the branch was queued there, and this is its owner.
        if !unsafe { branch.hall.claim(branch.waiter()) } {
            // Whoever takes it back, or has not quite handed it over, is done when the lock is free.
            branch.hall.locked(|_, _, _| ());
            return false;
        }
        // From here on it is given back if the request is dropped.
        branch.own().set_state(WaiterState::Served);
        // SAFETY: passed on from the caller.
        unsafe { self.choice.detach(request) };
        true
    }

    /// Takes the branches away that are still in their queues; what they were served goes back.
    fn leave_all(&self) -> Option<Panic> {
        self.branches.iter().fold(None, |panic, branch| wake::first(panic, Self::leave(branch)))
    }

    fn leave(branch: &Branch<R>) -> Option<Panic> {
        let own = branch.own();
        if matches!(own.state(), WaiterState::Fresh | WaiterState::Finished) {
            return None;
        }
        // SAFETY: the branch was queued there, and this is its owner.
        let left =
            catch_unwind(AssertUnwindSafe(|| unsafe { branch.hall.withdraw(branch.waiter()) }));
        own.set_state(WaiterState::Finished);
        left.err()
    }
}

fn resume_if_some(panic: Option<Panic>) {
    if let Some(panic) = panic {
        wake::resume(panic);
    }
}

impl<R: Selects> WaitQueue for Crossing<R> {
    type Ask = ();
    type Refusal = Closed;

    fn counted(&self) -> Option<Arc<dyn TimedObject>> {
        self.choice.counted()
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
        let thread = unsafe { self.choice.join(request) };
        if self.visit_or_end(request, thread) {
            return WaiterState::Served;
        }
        // A token that fires from here on finds the request in line.
        let end = give_up();
        // SAFETY: as above.
        unsafe { self.choice.answer_own(request, end) }
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
            match unsafe { self.choice.look(request, &mut fresh) } {
                Look::Again => {}
                Look::Waits => return WaiterState::Waiting,
                Look::Everywhere => {
                    if self.visit_or_end(request, false) {
                        return WaiterState::Served;
                    }
                    // SAFETY: as above.
                    let state = unsafe { self.choice.answer_own(request, None) };
                    if state.is_final() {
                        return state;
                    }
                }
            }
        }
    }

    unsafe fn retry(&self, _: Pointer<()>) -> WaiterState {
        unreachable!("nobody is told to try again in a lists")
    }

    unsafe fn withdraw(&self, request: Pointer<()>) {
        // SAFETY: passed on from the caller.
        unsafe { self.choice.detach(request) };
        resume_if_some(self.leave_all());
    }

    unsafe fn end_waiter(&self, request: Pointer<()>, state: WaiterState, wakes: &mut Wakes) {
        // SAFETY: passed on from the caller.
        unsafe { self.choice.end_waiter(request, state, wakes) };
    }

    fn expulsion(&self) -> Option<Closed> {
        Some(Closed)
    }
}

impl<R: Selects> TimedObject for Crossing<R> {
    unsafe fn end(
        &self,
        bounds: NonNull<Bounds>,
        state: WaiterState,
        wakes: &mut Wakes,
        let_go: &mut dyn FnMut(),
    ) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { self.choice.end(bounds, state, wakes, let_go) }
    }

    fn tick(&self, wakes: &mut Wakes) -> Tick {
        self.choice.tick(wakes)
    }

    fn finish(&self, wakes: &mut Wakes) {
        self.choice.finish(wakes);
    }

    fn watch(&self) -> &Watch {
        self.choice.watch()
    }

    fn interval(&self) -> u64 {
        self.choice.interval()
    }
}

impl<R: Selects> fmt::Debug for Crossing<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crossing").field("queues", &self.branches.len()).finish_non_exhaustive()
    }
}
