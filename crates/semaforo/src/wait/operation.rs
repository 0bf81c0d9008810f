//! What a request asks, and of whom.

use std::sync::Arc;

use crate::policy::Policy;
use crate::synchronizer::Synchronizer;

/// What is asked, and of whom. Implemented by this crate's synchronizers only.
pub trait Operation: sealed::Operation {
    /// The policy of the synchronizer that is asked.
    type Policy: Policy;
    /// What the request yields when it is granted.
    type Granted;

    #[doc(hidden)]
    fn synchronizer(&self) -> &Synchronizer<Self::Policy>;
    #[doc(hidden)]
    fn granted(self, ask: <Self::Policy as Policy>::Ask) -> Self::Granted;
}

pub(crate) mod sealed {
    /// Implementors name one synchronizer, which stays where it is for as long as they live.
    pub trait Operation {}
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
