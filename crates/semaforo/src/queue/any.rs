//! Putting into one of several queues, and taking from one of several.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use super::blocking::BlockingQueue;
use super::buffer_rule::{BufferRule, BufferSlot};
use super::errors::{Closed, Rejected, TryPutError, TryTakeError};
use super::rank::Rank;
use super::select_wait::{OwnedSelectWait, SelectWait, Selectable};
use super::slot::ItemSlot;
use super::source::{OneOfSeveral, sealed as sealed_source};
use super::synchronous::SynchronousQueue;
use super::transfer::TransferQueue;
use crate::primitive::TrackedCell;
use crate::wait::contended::Attempt;
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, ContentOf, Handle, Operation, OutcomeOf, sealed};
use crate::wait::request::Request;

/// Several queues of one kind, by reference or by `Arc`: an array, a slice or a `Vec` of them, or a
/// reference to one.
///
/// The type of a request names this only, and finds everything else from there; see
/// [`Handle`](crate::request::Handle).
pub trait Several: several::Sealed {
    /// How each of them is referred to.
    type Handle: Handle;

    #[doc(hidden)]
    fn handles(&self) -> &[Self::Handle];
}

mod several {
    pub trait Sealed {}
}

macro_rules! several {
    ($([$($generics:tt)*] $queues:ty),* $(,)?) => {$(
        impl<H: Handle, $($generics)*> several::Sealed for $queues {}

        impl<H: Handle, $($generics)*> Several for $queues {
            type Handle = H;

            fn handles(&self) -> &[H] {
                self
            }
        }
    )*};
}

several! {
    [const N: usize] [H; N],
    [] Vec<H>,
    [] Box<[H]>,
    [] Arc<[H]>,
    [] &[H],
}

impl<S: Several> several::Sealed for &S {}

impl<S: Several> Several for &S {
    type Handle = S::Handle;

    fn handles(&self) -> &[S::Handle] {
        S::handles(self)
    }
}

type HandleOf<S> = <S as Several>::Handle;
type RuleOf<H> = <<H as std::ops::Deref>::Target as sealed_source::ItemQueue>::Rule;
type ItemOf<H> = <RuleOf<H> as Selectable>::Item;

/// Takes from the first of these queues that has an item now.
pub(super) fn try_take_any<H: Handle<Target: OneOfSeveral>>(
    queues: &[H],
) -> Result<(usize, ItemOf<H>), TryTakeError> {
    let mut why = TryTakeError::Closed;
    for (index, queue) in queues.iter().enumerate() {
        match sealed_source::ItemQueue::take_at_once(&**queue) {
            Ok(item) => return Ok((index, item)),
            Err(TryTakeError::Empty) => why = TryTakeError::Empty,
            Err(TryTakeError::Closed) => {}
        }
    }
    Err(why)
}

/// What all queues offer.
macro_rules! taking_any {
    () => {
        /// Takes an item from exactly one of these queues, the first that has one, and says from which.
        ///
        /// The queues are looked at in the order in which they are given; if none has an item, the
        /// request takes its place in line in all of them, and the first item that comes to it in any of
        /// them is the one. In each queue it is served in the order of its coming. Whatever ends the
        /// request (a limit, a token, being dropped), nothing is lost.
        ///
        /// A queue that is closed and empty is passed over; refused when all are. The same queue may be
        /// given twice. A task that does not come for its item loses that to the next taker, and then
        /// stands first in that queue when it is polled, and where it was in the others.
        ///
        /// The queues are given as an array, a slice or a `Vec` of references or `Arc`s; the request owns
        /// what it is given.
        #[doc(alias = "TakeFromAny")]
        pub fn take_any<S>(queues: S) -> Request<TakeAny<S>>
        where
            S: Several<Handle: Handle<Content = T, Target = Self>>,
        {
            TakeAny::request(queues)
        }

        /// Takes an item from the first of these queues that has one now, or from none.
        ///
        /// # Errors
        /// If there is none, others wait for one, or all are closed and empty.
        #[doc(alias = "TryTakeFromAny")]
        pub fn try_take_any<S>(queues: S) -> Result<(usize, T), TryTakeError>
        where
            S: Several<Handle: Handle<Content = T, Target = Self>>,
        {
            try_take_any(queues.handles())
        }
    };
}

/// What a request has, until it has to wait, or after it did not have to.
struct UnqueuedItem<T> {
    item: Option<T>,
    index: usize,
}

/// Touched by the owner of a request only.
struct OwnerCell<T>(TrackedCell<T>);

// SAFETY: nothing can be done with a request through a shared reference.
unsafe impl<T: Send> Sync for OwnerCell<T> {}

impl<T> OwnerCell<T> {
    fn new(value: T) -> Self {
        Self(TrackedCell::new(value))
    }

    /// # Safety
    /// The caller owns the request, and does not use this in `change`.
    unsafe fn look<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: passed on from the caller.
        self.0.look_mut(|own| change(unsafe { &mut *own }))
    }
}

/// The waiters of a request for one of several queues, made when it has to wait.
struct WaitCell<R: Selectable>(OwnerCell<OnceCell<OwnedSelectWait<R>>>);

impl<R: Selectable> WaitCell<R> {
    fn new() -> Self {
        Self(OwnerCell::new(OnceCell::new()))
    }

    /// # Safety
    /// The caller owns the request.
    unsafe fn get(&self) -> Option<&SelectWait<R>> {
        // SAFETY: passed on from the caller. What is in it stays there until the request is dropped.
        self.0.0.look(|cell| unsafe { (*cell).get() }).map(|made| &**made)
    }

    /// # Safety
    /// The caller owns the request.
    unsafe fn make(&self, make: impl FnOnce() -> OwnedSelectWait<R>) -> &SelectWait<R> {
        // SAFETY: as in `get`.
        self.0.0.look(|cell| unsafe { (*cell).get_or_init(make) })
    }
}

/// The operation of [`BlockingQueue::take_any`] and its namesakes.
pub struct TakeAny<S: Several<Handle: Handle<Target: OneOfSeveral>>> {
    found: OwnerCell<UnqueuedItem<ItemOf<HandleOf<S>>>>,
    /// Dropped before the queues.
    wait: WaitCell<RuleOf<HandleOf<S>>>,
    queues: S,
}

impl<S: Several<Handle: Handle<Target: OneOfSeveral>>> TakeAny<S> {
    pub(super) fn request(queues: S) -> Request<Self> {
        let found = OwnerCell::new(UnqueuedItem { item: None, index: 0 });
        Request::new(Self { queues, found, wait: WaitCell::new() }, ())
    }

    fn taken(self) -> (usize, ItemOf<HandleOf<S>>) {
        // SAFETY: the owner's.
        unsafe {
            if let (index, Some(item)) = self.found.look(|found| (found.index, found.item.take())) {
                return (index, item);
            }
            self.wait.get().expect("a request that was served has waited").taken()
        }
    }
}

impl<S: Several<Handle: Handle<Target: OneOfSeveral>>> sealed::Operation for TakeAny<S> {
    type Queue = SelectWait<RuleOf<HandleOf<S>>>;
    type Extra = ();

    fn attempt(&self, (): &mut ()) -> Attempt {
        match try_take_any(self.queues.handles()) {
            Ok((index, item)) => {
                // SAFETY: the owner's.
                unsafe {
                    self.found.look(|found| *found = UnqueuedItem { item: Some(item), index })
                };
                Attempt::Granted
            }
            Err(_) => Attempt::Unknown,
        }
    }

    fn queue(&self) -> &Self::Queue {
        let queues = self.queues.handles().iter();
        let branch = |queue: &HandleOf<S>| {
            (Arc::clone(sealed_source::ItemQueue::contended(&**queue)), ItemSlot::branch_taking())
        };
        // SAFETY: the owner's.
        unsafe { self.wait.make(|| OwnedSelectWait::new(queues.map(branch).collect())) }
    }

    fn tries_first(&self) -> bool {
        false
    }
}

impl<S: Several<Handle: Handle<Target: OneOfSeveral>>> Operation for TakeAny<S> {
    type Output = Result<(usize, ItemOf<HandleOf<S>>), Closed>;
    type Bounded = Result<(usize, ItemOf<HandleOf<S>>), WaitError<Closed>>;

    fn output(self, (): (), (): (), outcome: Result<(), Closed>) -> Self::Output {
        outcome.map(|()| self.taken())
    }

    fn bounded(self, (): AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| self.taken())
    }
}

impl<S: Several<Handle: Handle<Target: OneOfSeveral>>> fmt::Debug for TakeAny<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeAny")
    }
}

/// The operation of [`BlockingQueue::put_any`].
pub struct PutAny<S: Several<Handle: Handle<Content: Sized>>> {
    /// The item, until there is a place for it.
    found: OwnerCell<UnqueuedItem<ContentOf<HandleOf<S>>>>,
    /// Dropped before the queues.
    wait: WaitCell<BufferRule<ContentOf<HandleOf<S>>>>,
    queues: S,
}

/// Puts the item into the first of these queues that takes it now, and notes which that is before, in
/// case a waker panics.
fn put_at_once<H: Blocking>(
    queues: &[H],
    found: &mut UnqueuedItem<ContentOf<H>>,
) -> Result<(), TryPutError> {
    let mut why = TryPutError::Closed;
    for (index, queue) in queues.iter().enumerate() {
        let Some(rank) = found.item.as_ref().map(|item| queue.rank(item)) else { return Ok(()) };
        let Some(item) = found.item.take() else { return Ok(()) };
        found.index = index;
        let mut slot = BufferSlot::putting(item, rank);
        match queue.put_now(&mut slot) {
            Ok(()) => return Ok(()),
            Err(TryPutError::Full) => why = TryPutError::Full,
            Err(TryPutError::Closed) => {}
        }
        found.item = Some(slot.take_item());
    }
    if found.item.is_some() { Err(why) } else { Ok(()) }
}

/// A handle of a [`BlockingQueue`].
trait Blocking: Handle<Content: Sized, Target = BlockingQueue<ContentOf<Self>>> {}

impl<H: Handle<Content: Sized, Target = BlockingQueue<ContentOf<H>>>> Blocking for H {}

impl<S: Several<Handle: Blocking>> PutAny<S> {
    fn request(queues: S, item: ContentOf<HandleOf<S>>) -> Request<Self> {
        let found = OwnerCell::new(UnqueuedItem { item: Some(item), index: 0 });
        Request::new(Self { queues, found, wait: WaitCell::new() }, ())
    }

    /// The item, wherever it is; for the owner, who does not wait.
    fn look<R>(&self, change: impl FnOnce(&mut UnqueuedItem<ContentOf<HandleOf<S>>>) -> R) -> R {
        // SAFETY: the owner's, who does not wait. The item lies in the wait once there is one.
        unsafe {
            let wait = self.wait.get();
            self.found.look(|found| {
                if let Some(wait) = wait {
                    found.item = wait.item(Option::take);
                }
                let keeps = PutBackOnDrop { found, wait };
                change(&mut *keeps.found)
            })
        }
    }

    fn put(self) -> usize {
        // SAFETY: the owner's, who does not wait.
        match unsafe { self.wait.get() } {
            Some(wait) if wait.was_claimed() => wait.selected(),
            _ => self.look(|found| found.index),
        }
    }

    fn rejected<E>(self, why: E) -> Rejected<ContentOf<HandleOf<S>>, E> {
        let item = self.look(|found| found.item.take());
        Rejected { item: item.expect("a request has its item until it is put"), why }
    }
}

/// Puts an item back to where others find it, also if a waker panics.
struct PutBackOnDrop<'a, R: Selectable> {
    found: &'a mut UnqueuedItem<R::Item>,
    wait: Option<&'a SelectWait<R>>,
}

impl<R: Selectable> Drop for PutBackOnDrop<'_, R> {
    fn drop(&mut self) {
        if let Some(wait) = self.wait {
            let item = self.found.item.take();
            // SAFETY: made by the owner of a request that does not wait.
            unsafe { wait.item(|own| *own = item) };
        }
    }
}

impl<S: Several<Handle: Blocking>> sealed::Operation for PutAny<S> {
    type Queue = SelectWait<BufferRule<ContentOf<HandleOf<S>>>>;
    type Extra = ();

    fn attempt(&self, (): &mut ()) -> Attempt {
        match self.look(|found| put_at_once(self.queues.handles(), found)) {
            Ok(()) => Attempt::Granted,
            Err(_) => Attempt::Unknown,
        }
    }

    fn queue(&self) -> &Self::Queue {
        // SAFETY: the owner's, who does not wait.
        unsafe {
            self.wait.make(|| {
                self.found.look(|found| {
                    let rank = |queue: &HandleOf<S>| {
                        found.item.as_ref().map_or_else(Rank::default, |item| queue.rank(item))
                    };
                    let branch = |queue: &HandleOf<S>| {
                        (Arc::clone(queue.object()), BufferSlot::branch_putting(rank(queue)))
                    };
                    let made =
                        OwnedSelectWait::new(self.queues.handles().iter().map(branch).collect());
                    made.item(|item| *item = found.item.take());
                    made
                })
            })
        }
    }

    fn tries_first(&self) -> bool {
        false
    }
}

impl<S: Several<Handle: Blocking>> Operation for PutAny<S> {
    type Output = Result<usize, Rejected<ContentOf<HandleOf<S>>>>;
    type Bounded = Result<usize, Rejected<ContentOf<HandleOf<S>>, WaitError<Closed>>>;

    fn output(self, (): (), (): (), outcome: Result<(), Closed>) -> Self::Output {
        match outcome {
            Ok(()) => Ok(self.put()),
            Err(why) => Err(self.rejected(why)),
        }
    }

    fn bounded(self, (): AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        match outcome {
            Ok(()) => Ok(self.put()),
            Err(why) => Err(self.rejected(why)),
        }
    }
}

impl<S: Several<Handle: Handle<Content: Sized>>> fmt::Debug for PutAny<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PutAny")
    }
}

impl<T> BlockingQueue<T> {
    /// Puts an item into exactly one of these queues, the first that has room, and says into which.
    ///
    /// The queues are looked at in the order in which they are given; if none has room, the request
    /// takes its place in line in all of them, and the first that has room for it gets the item. In
    /// each queue it is served in the order of its coming. Whatever ends the request (a limit, a
    /// token, being dropped), the item is in one queue or in none.
    ///
    /// This is what a `select!` over several [`put`](Self::put) cannot do: there, an item may have
    /// been put by a request that lost.
    ///
    /// A queue that is closed is passed over, also while this waits; refused when all are closed.
    /// (C#'s `AddToAny` fails if any is.) The same queue may be given twice.
    ///
    /// ```
    /// use semaforo::BlockingQueue;
    ///
    /// let (left, right) = (BlockingQueue::bounded(1), BlockingQueue::bounded(1));
    /// left.try_put(1).unwrap();
    /// assert_eq!(BlockingQueue::put_any([&left, &right], 2).wait(), Ok(1));
    /// assert_eq!(right.try_take(), Ok(2));
    /// ```
    ///
    /// The queues are given as an array, a slice or a `Vec` of references or `Arc`s; the request owns
    /// what it is given.
    ///
    /// (A [`TransferQueue`] never makes a put wait, and in a
    /// [`SynchronousQueue`] what is put is itself in the queue while it waits: it
    /// would have to be in several.)
    #[doc(alias = "AddToAny")]
    pub fn put_any<S>(queues: S, item: T) -> Request<PutAny<S>>
    where
        S: Several<Handle: Handle<Content = T, Target = Self>>,
    {
        PutAny::request(queues, item)
    }

    /// Puts an item into the first of these queues that has room now, or into none.
    ///
    /// # Errors
    /// With the item, if there is no room in any, others wait for room, or all are closed.
    #[doc(alias = "TryAddToAny")]
    pub fn try_put_any<S>(queues: S, item: T) -> Result<usize, Rejected<T, TryPutError>>
    where
        S: Several<Handle: Handle<Content = T, Target = Self>>,
    {
        let mut found = UnqueuedItem { item: Some(item), index: 0 };
        match (put_at_once(queues.handles(), &mut found), found.item) {
            (Err(why), Some(item)) => Err(Rejected { item, why }),
            _ => Ok(found.index),
        }
    }

    taking_any!();
}

impl<T> TransferQueue<T> {
    taking_any!();
}

impl<T> SynchronousQueue<T> {
    taking_any!();
}
