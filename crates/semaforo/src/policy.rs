//! What may be granted: pure functions over a small state.
//!
//! A [`Policy`] says when a request may be granted and what giving something back does to the
//! state. It neither blocks nor wakes nor locks. [`Synchronizer`](crate::Synchronizer) drives it:
//! it adds the queue, blocking and awaiting, time limits, cancellation, fairness and
//! introspection.
//!
//! # A lock with two holders
//!
//! ```
//! use semaforo::{Policy, Synchronizer};
//! use std::convert::Infallible;
//!
//! /// The state is the number of holders.
//! #[derive(Clone, Copy)]
//! struct TwoHolders;
//!
//! impl Policy for TwoHolders {
//!     type Ask = ();
//!     type Give = ();
//!     type Refusal = Infallible;          // no request is ever turned down
//!     type Misuse = &'static str;         // but one can give back what one does not hold
//!
//!     fn acquire(&self, holders: u64, _: ()) -> Option<u64> {
//!         (holders < 2).then_some(holders + 1)
//!     }
//!     fn release(&self, holders: u64, _: ()) -> Result<u64, &'static str> {
//!         holders.checked_sub(1).ok_or("nobody holds it")
//!     }
//!     fn undo(&self, _: ()) -> Option<()> {
//!         Some(())                        // a grant is given back by a release
//!     }
//! }
//!
//! let lock = Synchronizer::new(TwoHolders, 0);
//! let first = lock.acquire(()).wait();
//! let second = lock.try_acquire(()).unwrap();
//! assert!(lock.try_acquire(()).is_err());
//! drop(first);
//! let third = lock.acquire(()).wait();
//! # drop((second, third));
//! ```
//!
//! # A boolean latch
//!
//! Nothing is used up by passing an open latch, so there is nothing to give back: `undo` says
//! `None`, and a grant is final.
//!
//! ```
//! use semaforo::{Policy, Synchronizer};
//! use std::convert::Infallible;
//!
//! #[derive(Clone, Copy)]
//! struct BooleanLatch;
//!
//! impl Policy for BooleanLatch {
//!     type Ask = ();
//!     type Give = ();
//!     type Refusal = Infallible;
//!     type Misuse = Infallible;
//!
//!     fn acquire(&self, open: u64, _: ()) -> Option<u64> {
//!         (open == 1).then_some(open)
//!     }
//!     fn release(&self, _: u64, _: ()) -> Result<u64, Infallible> {
//!         Ok(1)
//!     }
//!     fn undo(&self, _: ()) -> Option<()> {
//!         None
//!     }
//! }
//!
//! let latch = Synchronizer::new(BooleanLatch, 0);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| latch.acquire(()).wait());
//!     latch.release(()).unwrap();
//! });
//! ```
//!
//! The policies of this crate's own synchronizers are here too: other drivers can use them.

mod countdown;
mod gate;
mod owned_read_write;
mod owner;
mod permits;
mod phases;
mod read_write;

use std::convert::Infallible;
use std::marker::PhantomData;

pub use countdown::{CountDown, CountError, CountdownPolicy};
pub use gate::{Gate, Opening, Signal, SignalPolicy};
pub use owned_read_write::{Entry, Exit, NotHeldSo, OwnedReadWrite};
pub use owner::{NotOwner, Owned, Owner, TooManyHolds};
pub use permits::{AcquireError, Exclusive, Giving, NotHeld, Permits, ReleaseError};
pub use phases::{PhaserError, Phases, Step};
pub use read_write::{Access, Ending, NotSoleReader, ReadWrite};

/// How many bits of the word a policy may use for its state.
pub const STATE_BITS: u32 = 61;

/// How many lanes a policy may have.
pub const MAX_LANES: usize = 4;

/// What may be granted, over a state of [`STATE_BITS`] bits.
///
/// # Laws
///
/// - The functions are pure: the same arguments give the same answer, and nothing else happens.
///   They are called speculatively and repeatedly.
/// - They are quick: they run under the object's lock, on whichever thread changes it, the timer's
///   among them.
/// - A state that they return fits in `STATE_BITS` bits.
/// - `release(acquire(state, ask), undo(ask))` gives back what was acquired; it never fails, also
///   after other transitions in between.
/// - Once requests are [expelled](Self::expel), all are from then on.
///
/// A policy that breaks them gets wrong answers, never memory errors. A function that panics
/// while a request of another is looked at ends that request (its owner panics in turn), and
/// no other request is hurt.
///
/// One that panics in `undo` or `release` has given nothing back. The panic comes out of whatever
/// gave it: of [`Synchronizer::release`](crate::Synchronizer::release), or of dropping a
/// [`Held`](crate::Held) or a request. If that is dropped by another panic, there are two at once,
/// and Rust aborts the process, as for every destructor that panics then. A policy that may find a
/// state that it does not understand says so with [`Misuse`](Self::Misuse), which a drop ignores.
#[doc(alias = "AbstractQueuedSynchronizer")]
#[doc(alias = "Sync")]
pub trait Policy: Copy + Send + Sync + 'static {
    /// What a request asks for.
    type Ask: Copy + Send + Sync;
    /// What is given back, or another transition that may let waiters through.
    type Give: Copy;
    /// Why a request is turned down for good; [`Infallible`] if none ever is.
    type Refusal: Refusal;
    /// Why a give is an error.
    type Misuse;

    /// How many lanes requests queue in, at most [`MAX_LANES`].
    const LANES: usize = 1;

    /// Whether the driver has to be ready for a panic of these functions.
    #[doc(hidden)]
    const TRUST: Trust<Self> = Trust::UNKNOWN;

    /// Whether a thread looks for a moment before it queues: for grants that use nothing up, so that
    /// there is no order to keep.
    #[doc(hidden)]
    const TRIES_FIRST: bool = false;

    /// Whether a thread that is denied, while no request waits, looks again for half a microsecond
    /// before it queues: for what is often held, or not there, for a moment only.
    #[doc(hidden)]
    const LOOKS_AGAIN: bool = false;

    /// The state after granting `ask`, or `None` if it has to wait.
    #[doc(alias = "tryAcquire")]
    #[doc(alias = "tryAcquireShared")]
    fn acquire(&self, state: u64, ask: Self::Ask) -> Option<u64>;

    /// The state after `give`.
    ///
    /// # Errors
    /// If it must not be given; then nothing changes.
    #[doc(alias = "tryRelease")]
    #[doc(alias = "tryReleaseShared")]
    fn release(&self, state: u64, give: Self::Give) -> Result<u64, Self::Misuse>;

    /// What gives back a grant of `ask`, or `None` if a grant uses nothing up and is final.
    fn undo(&self, ask: Self::Ask) -> Option<Self::Give>;

    /// Why `ask` must not even wait, if so. Asked only of a newcomer that cannot be granted now.
    fn refuse(&self, state: u64, ask: Self::Ask) -> Option<Self::Refusal> {
        let _ = ask;
        self.expel(state)
    }

    /// Why no request may wait any more, if so: all that wait are turned away with this.
    fn expel(&self, state: u64) -> Option<Self::Refusal> {
        let _ = state;
        None
    }

    /// The lane that `ask` queues in, less than [`LANES`](Self::LANES).
    fn lane(&self, ask: Self::Ask) -> usize {
        let _ = ask;
        0
    }

    /// Whose head is looked at next, given what was just given back (nothing, if a waiter left).
    /// A lane in which no request waits is never a good answer.
    fn next_lane(&self, state: u64, given: Option<Self::Give>, waiting: Lanes) -> usize {
        let _ = (state, given);
        waiting.first()
    }

    /// Whether `ask` may be granted although others wait: for what they are not waiting for, as
    /// when the owner of a re-entrant lock comes again.
    fn overtakes(&self, state: u64, ask: Self::Ask) -> bool {
        let _ = (state, ask);
        false
    }

    /// The state after the holder of `ask` has given up all that it holds, to wait on a condition, and
    /// how much that was; `None` if it does not hold it.
    #[doc(hidden)]
    fn give_up(&self, state: u64, ask: Self::Ask) -> Option<(u64, u32)> {
        let next = self.release(state, self.undo(ask)?).ok()?;
        Some((next, 1))
    }

    /// Whether newcomers may overtake waiters at all times. Constant for one synchronizer.
    fn barges(&self, state: u64) -> bool {
        let _ = state;
        false
    }
}

/// A policy whose grants exclude each other, as those of a lock do: while one is held, no other is
/// granted. The [`Held`](crate::Held) of such a policy can wait on a [`Condition`](crate::Condition).
///
/// ```
/// use semaforo::policy::MutualExclusion;
/// use semaforo::{Condition, Policy, Synchronizer};
/// use std::convert::Infallible;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// /// A lock that counts how often it was taken. The lowest bit says whether it is.
/// #[derive(Clone, Copy)]
/// struct CountingLock;
///
/// impl Policy for CountingLock {
///     type Ask = ();
///     type Give = ();
///     type Refusal = Infallible;
///     type Misuse = &'static str;
///
///     fn acquire(&self, state: u64, _: ()) -> Option<u64> {
///         (state & 1 == 0).then_some((state + 3) & ((1 << 61) - 1))
///     }
///     fn release(&self, state: u64, _: ()) -> Result<u64, &'static str> {
///         if state & 1 == 1 { Ok(state - 1) } else { Err("it is not taken") }
///     }
///     fn undo(&self, _: ()) -> Option<()> {
///         Some(())
///     }
/// }
///
/// impl MutualExclusion for CountingLock {}
///
/// let lock = Synchronizer::new(CountingLock, 0);
/// let (ready, made_ready) = (AtomicBool::new(false), Condition::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let held = lock.acquire(()).wait();
///         let _held = made_ready.wait_while(held, |_| !ready.load(Relaxed)).wait();
///         assert!(ready.load(Relaxed));
///     });
///     let held = lock.acquire(()).wait();
///     ready.store(true, Relaxed);
///     made_ready.signal(&held);
/// });
/// assert!(lock.state() / 2 >= 2);
/// ```
///
/// It refuses no request, because a wait ends with the lock held. If its grants do not exclude each
/// other after all, a signal may take effect only when something is given back.
#[doc(alias = "isHeldExclusively")]
pub trait MutualExclusion: Policy<Refusal = Infallible> {}

impl MutualExclusion for Exclusive {}

/// That a policy never panics: a promise that only this crate can make, and of one policy. Another's
/// is of another type:
///
/// ```compile_fail,E0308
/// use semaforo::policy::{Permits, Trust};
/// use semaforo::Policy;
/// use std::convert::Infallible;
///
/// #[derive(Clone, Copy)]
/// struct Borrowed;
///
/// impl Policy for Borrowed {
///     type Ask = ();
///     type Give = ();
///     type Refusal = Infallible;
///     type Misuse = Infallible;
///     const TRUST: Trust<Self> = <Permits as Policy>::TRUST;
///
///     fn acquire(&self, state: u64, _: ()) -> Option<u64> {
///         Some(state)
///     }
///     fn release(&self, state: u64, _: ()) -> Result<u64, Infallible> {
///         Ok(state)
///     }
///     fn undo(&self, _: ()) -> Option<()> {
///         None
///     }
/// }
/// ```
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Trust<P: ?Sized>(bool, PhantomData<fn(&P)>);

impl<P: ?Sized> Trust<P> {
    const UNKNOWN: Self = Self(false, PhantomData);
    pub(crate) const NEVER_PANICS: Self = Self(true, PhantomData);

    pub(crate) const fn never_panics(self) -> bool {
        self.0
    }
}

/// A set of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes(u8);

impl Lanes {
    /// The set whose bit `n` says whether lane `n` is in it.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether a lane is in the set.
    #[must_use]
    pub const fn contains(self, lane: usize) -> bool {
        lane < MAX_LANES && self.0 >> lane & 1 == 1
    }

    /// The lowest lane in the set, 0 if it is empty.
    #[must_use]
    pub const fn first(self) -> usize {
        if self.0 == 0 { 0 } else { self.0.trailing_zeros() as usize }
    }
}

/// Why a request was turned down, and what a request that can be turned down yields.
///
/// [`Infallible`] makes an unbounded request yield what was granted, itself. For an error of your
/// own, implement this with `Output<G> = Result<G, Self>`.
pub trait Refusal: Copy + Send {
    /// What an unbounded request yields.
    type Output<G>;

    /// The output of a request that was granted.
    fn granted<G>(grant: G) -> Self::Output<G>;

    /// The output of a request that was refused.
    fn refused<G>(self) -> Self::Output<G>;
}

impl Refusal for Infallible {
    type Output<G> = G;

    fn granted<G>(grant: G) -> G {
        grant
    }

    fn refused<G>(self) -> G {
        match self {}
    }
}

/// Makes errors refusals, of requests that also end by their limits.
macro_rules! refusals {
    ($($error:ty),*) => {$(
        impl crate::policy::Refusal for $error {
            type Output<G> = Result<G, Self>;

            fn granted<G>(grant: G) -> Result<G, Self> {
                Ok(grant)
            }

            fn refused<G>(self) -> Result<G, Self> {
                Err(self)
            }
        }

        impl From<crate::wait::limits::WaitError> for crate::wait::limits::WaitError<$error> {
            fn from(error: crate::wait::limits::WaitError) -> Self {
                error.widen()
            }
        }
    )*};
}
pub(crate) use refusals;
