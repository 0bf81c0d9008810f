//! A place where two meet and swap what they bring.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use super::Of;
use crate::primitive::{TrackedCell, constant_unless_modelled, made_when_needed};
use crate::queue::Rejected;
use crate::wait::contended::Attempt;
use crate::wait::contended::{ContendedObject, SpinLock};
use crate::wait::limits::WaitError;
use crate::wait::operation::{AskOf, ContentOf, Handle, Operation, OutcomeOf, objects, sealed};
use crate::wait::request::Request;
use crate::wait::rule::{Arrival, Coming, ObjectRule};
use crate::wait::wait_lists::WaitLists;
use crate::wait::waiter::{Lane, Pointer, WaiterState};
use crate::wait::wake::Wakes;

/// A place where two meet and swap what they bring, first come, first served.
///
/// A pair, once made, is final: both have what the other brought. A party that leaves before that
/// has its own item back, and no other party has seen it. If the first one's waker panics, that
/// reaches the second one's poll; polled again, it is ready with the first one's item.
///
/// ```
/// use semaforo::Exchanger;
///
/// let table = Exchanger::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(table.exchange("empty cup").wait(), "full cup"));
///     assert_eq!(table.exchange("full cup").wait(), "empty cup");
/// });
/// ```
#[doc(alias = "rendezvous")]
pub struct Exchanger<T> {
    /// Made when it is first needed.
    object: OnceLock<Arc<ContendedObject<PairRule<T>>>>,
}

// SAFETY: what waits here belongs to the requests that wait.
unsafe impl<T: Send> Send for Exchanger<T> {}
// SAFETY: items are sent from one to another, never shared.
unsafe impl<T: Send> Sync for Exchanger<T> {}

/// The second party takes the first one's item and leaves its own.
#[derive(Debug)]
pub struct PairRule<T>(Of<T>);

/// The parties that wait for another.
const FIRST_COMERS: Lane = Lane::First;

/// What one brings, and then what one gets.
#[derive(Debug)]
pub struct Offer<T>(TrackedCell<Option<T>>);

impl<T> Offer<T> {
    /// # Safety
    /// The lock is held, or this is its owner, who does not wait.
    unsafe fn swap(&self, item: Option<T>) -> Option<T> {
        // SAFETY: the caller's promise makes this the only access.
        self.0.look_mut(|own| unsafe { std::mem::replace(&mut *own, item) })
    }

    fn into_item(self) -> T {
        // SAFETY: owned, and no other thread can reach it.
        unsafe { self.swap(None) }.expect("there is always an item, one's own or the other's")
    }
}

impl<T> PairRule<T> {
    fn object() -> Arc<ContendedObject<Self>> {
        ContendedObject::new(Self(PhantomData), SpinLock::new(), ())
    }
}

impl<T> ObjectRule for PairRule<T> {
    type Ask = Offer<T>;
    type Refusal = Infallible;
    type Outside = ();
    type Lock = SpinLock;
    type Change = ();

    const IS_FINAL: bool = true;

    fn arrive(
        &mut self,
        (): &(),
        lists: &mut WaitLists<Offer<T>>,
        waiter: Pointer<Offer<T>>,
        _: Coming,
        wakes: &mut Wakes,
    ) -> Arrival<Infallible> {
        let Some(other) = lists.first(FIRST_COMERS) else { return Arrival::Waits(FIRST_COMERS) };
        // SAFETY: the lock is held, both are alive, and neither can look at its offer meanwhile.
        unsafe {
            lists.detach(other);
            let (own, theirs) = (&waiter.as_ref().ask, &other.as_ref().ask);
            let item = theirs.swap(own.swap(None));
            own.swap(item);
            lists.answer(other, WaiterState::Served, wakes);
        }
        Arrival::Served
    }

    fn take_back(&mut self, (): &(), _: Pointer<Offer<T>>) {}

    fn before_unlocking(&mut self, (): &(), _: &WaitLists<Offer<T>>) {}
}

impl<T> Exchanger<T> {
    constant_unless_modelled! {
        /// An exchanger where no party waits.
        #[must_use]
        pub const fn new() -> Self {
            Self { object: made_when_needed!(PairRule::object()) }
        }
    }

    #[inline]
    fn object(&self) -> &ContendedObject<PairRule<T>> {
        self.object.get_or_init(PairRule::object)
    }

    /// Waits for another, and swaps items with it.
    #[inline]
    pub fn exchange(&self, item: T) -> Request<Exchange<&Self>> {
        Request::new(Exchange(self), Offer(TrackedCell::new(Some(item))))
    }

    /// [`exchange`](Self::exchange), over a handle of its own.
    pub fn exchange_owned(self: &Arc<Self>, item: T) -> Request<Exchange<Arc<Self>>> {
        let offer = Offer(TrackedCell::new(Some(item)));
        Request::new(Exchange(Arc::clone(self)), offer)
    }

    /// How many could be met now: one, or none.
    #[must_use]
    pub fn available(&self) -> usize {
        self.waiters()
    }

    /// How many wait for another: one, or none.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.object.get().map_or(0, |object| object.waiters())
    }
}

impl<T> Default for Exchanger<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Exchanger<T> {
    fn drop(&mut self) {
        if let Some(object) = self.object.get() {
            object.bury(|_, _| ());
        }
    }
}

objects!([T] Exchanger<T> => T);

impl<T> fmt::Debug for Exchanger<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanger").field("waiters", &self.waiters()).finish()
    }
}

/// The operation of [`Exchanger::exchange`].
#[derive(Debug)]
pub struct Exchange<H>(H);

impl<H: Handle<Content: Sized, Target = Exchanger<ContentOf<H>>>> sealed::Operation
    for Exchange<H>
{
    type Queue = ContendedObject<PairRule<ContentOf<H>>>;
    type Extra = ();

    #[inline]
    fn attempt(&self, _: &mut Offer<ContentOf<H>>) -> Attempt {
        Attempt::Unknown
    }

    #[inline]
    fn queue(&self) -> &Self::Queue {
        self.0.object()
    }
}

impl<H: Handle<Content: Sized, Target = Exchanger<ContentOf<H>>>> Operation for Exchange<H> {
    type Output = ContentOf<H>;
    type Bounded = Result<ContentOf<H>, Rejected<ContentOf<H>, WaitError>>;

    #[inline]
    fn output(self, offer: AskOf<Self>, (): (), _: Result<(), Infallible>) -> ContentOf<H> {
        offer.into_item()
    }

    #[inline]
    fn bounded(self, offer: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        let item = offer.into_item();
        match outcome {
            Ok(()) => Ok(item),
            Err(why) => Err(Rejected { item, why }),
        }
    }
}
