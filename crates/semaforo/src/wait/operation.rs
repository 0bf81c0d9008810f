//! What a request asks, and of whom.

use std::ops::Deref;
use std::sync::Arc;

use super::limits::WaitError;
use super::wait_queue::WaitQueue;

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
        extra: Self::Extra,
        outcome: Result<(), RefusalOf<Self>>,
    ) -> Self::Output;
    #[doc(hidden)]
    fn bounded(
        self,
        ask: AskOf<Self>,
        extra: Self::Extra,
        outcome: OutcomeOf<Self>,
    ) -> Self::Bounded;

    /// The request is dropped before it has finished, and is on no list any more.
    #[doc(hidden)]
    fn abandon(self, ask: AskOf<Self>, extra: Self::Extra) {
        drop((self, ask, extra));
    }
}

pub(crate) type AskOf<O> = <<O as sealed::Operation>::Queue as WaitQueue>::Ask;
pub(crate) type RefusalOf<O> = <<O as sealed::Operation>::Queue as WaitQueue>::Refusal;
pub(crate) type OutcomeOf<O> = Result<(), WaitError<RefusalOf<O>>>;

pub(crate) mod sealed {
    use super::AskOf;
    use crate::wait::contended::Attempt;
    use crate::wait::self_wait::{CallSite, Record};
    use crate::wait::wait_queue::WaitQueue;

    /// How the kernel carries an operation out. Implementors name one object, which stays where it is
    /// for as long as they live.
    pub trait Operation: Sized {
        /// Where a request of this kind stands in line.
        type Queue: WaitQueue;
        /// What its queued request holds besides the bounds and the waiter.
        type Extra;

        /// Does what can be done at once, if no other thread interferes.
        fn attempt(&self, ask: &mut AskOf<Self>) -> Attempt;

        /// Where to stand in line, made if need be.
        fn queue(&self) -> &Self::Queue;

        /// Whether a thread attempts it for a moment before it queues.
        #[inline]
        fn tries_first(&self) -> bool {
            self.queue().tries_first()
        }

        /// A thread begins to wait for this, or has waited.
        #[inline]
        fn thread_waits(&self, begins: bool) {
            let _ = begins;
        }

        /// The record of the lock that this waits for, if that keeps one.
        #[inline]
        fn awaits(&self) -> Option<&Record> {
            None
        }

        /// It was granted to a thread that waits there.
        #[inline]
        fn locked_at(&self, at: CallSite) {
            let _ = at;
        }
    }
}

/// Tells an operation that a thread waits for it, until this is dropped.
pub(crate) struct ThreadWaits<'o, O: sealed::Operation>(&'o O);

impl<'o, O: sealed::Operation> ThreadWaits<'o, O> {
    #[inline]
    pub(crate) fn begin(operation: &'o O) -> Self {
        operation.thread_waits(true);
        Self(operation)
    }
}

impl<O: sealed::Operation> Drop for ThreadWaits<'_, O> {
    #[inline]
    fn drop(&mut self) {
        self.0.thread_waits(false);
    }
}

/// How a request or a guard refers to its object: by reference, or by an `Arc` of its own.
///
/// The type of a request or a guard names its handle only, and finds everything else from there. If
/// it also named the type of the value, the two would have to agree in their lifetimes, and a task
/// that holds one across an `.await` could not be shown to be `Send` as soon as the value has a
/// lifetime in it, be it `'static`.
pub trait Handle: Deref<Target: Object<Content = Self::Content>> + sealed_handle::Handle {
    /// What the object is about.
    type Content: ?Sized;
}

/// An object that requests and guards refer to. Implemented by this crate's own objects only.
pub trait Object: sealed_handle::Object {
    /// What it is about: the value of a lock, the items of a queue, the policy of a synchronizer.
    type Content: ?Sized;
}

/// What the object behind this handle is about.
pub(crate) type ContentOf<H> = <H as Handle>::Content;

pub(crate) mod sealed_handle {
    pub trait Object {}
    pub trait Handle {}
}

/// Declares what objects are about.
macro_rules! objects {
    ($([$($generics:tt)*] $object:ty => $content:ty),* $(,)?) => {$(
        impl<$($generics)*> crate::wait::operation::sealed_handle::Object for $object {}

        impl<$($generics)*> crate::wait::operation::Object for $object {
            type Content = $content;
        }
    )*};
}
pub(crate) use objects;

impl<O: Object + ?Sized> sealed_handle::Handle for &O {}
impl<O: Object + ?Sized> sealed_handle::Handle for Arc<O> {}

impl<O: Object + ?Sized> Handle for &O {
    type Content = O::Content;
}

impl<O: Object + ?Sized> Handle for Arc<O> {
    type Content = O::Content;
}
