//! What a request asks, and of whom.

use std::sync::Arc;

use super::core::{Attempt, Core};
use super::kernel::Line;
use super::limits::WaitError;
use crate::policy::{Policy, Refusal};
use crate::synchronizer::Synchronizer;

/// What is asked, and of whom. Implemented by this crate's synchronizers only.
pub trait Operation: sealed::Operation {
    /// What an unbounded request yields.
    type Output;
    /// What a request with bounds yields.
    type Bounded;

    #[doc(hidden)]
    fn output(
        self,
        ask: AskOf<Self>,
        beside: Self::Beside,
        outcome: Result<(), RefusalOf<Self>>,
    ) -> Self::Output;
    #[doc(hidden)]
    fn bounded(
        self,
        ask: AskOf<Self>,
        beside: Self::Beside,
        outcome: OutcomeOf<Self>,
    ) -> Self::Bounded;

    /// The request is dropped before it has finished; nobody knows of it any more.
    #[doc(hidden)]
    fn abandon(self, ask: AskOf<Self>, beside: Self::Beside) {
        drop((self, ask, beside));
    }
}

pub(crate) type AskOf<O> = <<O as sealed::Operation>::Line as Line>::Ask;
pub(crate) type RefusalOf<O> = <<O as sealed::Operation>::Line as Line>::Refusal;
pub(crate) type OutcomeOf<O> = Result<(), WaitError<RefusalOf<O>>>;

pub(crate) mod sealed {
    use super::AskOf;
    use crate::wait::core::Attempt;
    use crate::wait::kernel::Line;

    /// How the kernel carries an operation out. Implementors name one object, which stays where it is
    /// for as long as they live.
    pub trait Operation: Sized {
        /// Where a request of this kind stands in line.
        type Line: Line;
        /// What its seat holds besides the bounds and the waiter.
        type Beside;

        /// Does what can be done at once, if nobody interferes.
        fn attempt(&self, ask: &mut AskOf<Self>) -> Attempt;

        /// Where to stand in line, made if need be.
        fn line(&self) -> &Self::Line;

        /// Whether a thread attempts it for a moment before it queues.
        #[inline]
        fn tries_first(&self) -> bool {
            self.line().tries_first()
        }
    }
}

/// An operation that asks a [`Synchronizer`] for something, and yields a guard or the like.
pub trait Asking: Sized {
    type Policy: Policy;
    /// What the request yields when it is granted.
    type Granted;

    fn synchronizer(&self) -> &Synchronizer<Self::Policy>;
    fn granted(self, ask: <Self::Policy as Policy>::Ask) -> Self::Granted;
}

impl<O: Asking> sealed::Operation for O {
    type Line = Core<O::Policy>;
    type Beside = ();

    #[inline(always)]
    fn attempt(&self, ask: &mut AskOf<Self>) -> Attempt {
        self.synchronizer().attempt(*ask)
    }

    #[inline]
    fn line(&self) -> &Self::Line {
        self.synchronizer().core()
    }
}

impl<O: Asking> Operation for O {
    type Output = <RefusalOf<Self> as Refusal>::Output<O::Granted>;
    type Bounded = Result<O::Granted, WaitError<RefusalOf<Self>>>;

    #[inline]
    fn output(
        self,
        ask: AskOf<Self>,
        (): (),
        outcome: Result<(), RefusalOf<Self>>,
    ) -> Self::Output {
        match outcome {
            Ok(()) => RefusalOf::<Self>::granted(self.granted(ask)),
            Err(refusal) => refusal.refused(),
        }
    }

    #[inline]
    fn bounded(self, ask: AskOf<Self>, (): (), outcome: OutcomeOf<Self>) -> Self::Bounded {
        outcome.map(|()| self.granted(ask))
    }
}

/// How an operation refers to its synchronizer: by reference, or by an `Arc` of its own.
pub trait Handle<T: ?Sized>: std::ops::Deref<Target = T> + sealed_handle::Sealed {}

mod sealed_handle {
    pub trait Sealed {}
    impl<T: ?Sized> Sealed for &T {}
    impl<T: ?Sized> Sealed for std::sync::Arc<T> {}
}

impl<T: ?Sized> Handle<T> for &T {}
impl<T: ?Sized> Handle<T> for Arc<T> {}
