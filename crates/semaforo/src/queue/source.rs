//! What all queues are: something that items can be taken from.

use std::sync::Arc;

use super::blocking::{BlockingQueue, Take};
use super::buffer_rule::BufferRule;
use super::errors::TryTakeError;
use super::rendezvous::{Receive, sealed::RendezvousQueue as _};
use super::synchronous::SynchronousQueue;
use super::transfer::TransferQueue;
use super::transfer_rule::TransferRule;
use crate::wait::contended::ContendedObject;
use crate::wait::operation::Handle;
use crate::wait::request::Request;

/// A queue that can be one of several of its kind.
pub trait OneOfSeveral: sealed::ItemQueue {}

impl<Q: sealed::ItemQueue> OneOfSeveral for Q {}

/// A queue that items can be taken from, one after another.
pub trait Source: sealed::Source {}

impl<Q: sealed::Source> Source for Q {}

pub(super) mod sealed {
    use std::sync::Arc;

    use crate::queue::errors::{Closed, TryTakeError};
    use crate::queue::select_wait::Selectable;
    use crate::wait::contended::ContendedObject;
    use crate::wait::limits::WaitError;
    use crate::wait::operation::{Handle, Object, Operation};
    use crate::wait::request::Request;

    pub trait ItemQueue {
        type Item;
        type Rule: Selectable<Item = Self::Item>;

        fn contended(&self) -> &Arc<ContendedObject<Self::Rule>>;
        fn take_at_once(&self) -> Result<Self::Item, TryTakeError>;
        fn shut(&self);
    }

    pub trait Source: ItemQueue + Object<Content = <Self as ItemQueue>::Item> + Sized {
        type Take<H: Handle<Content = Self::Item, Target = Self>>: Operation<
                Output = Result<Self::Item, Closed>,
                Bounded = Result<Self::Item, WaitError<Closed>>,
            >;

        fn take_by<H: Handle<Content = Self::Item, Target = Self>>(
            queue: H,
        ) -> Request<Self::Take<H>>;
    }
}

macro_rules! sources {
    ($($queue:ident: $take:ident, $rule:ident, $($way:ident).*;)*) => {$(
        impl<T> sealed::ItemQueue for $queue<T> {
            type Item = T;
            type Rule = $rule<T>;

            fn contended(&self) -> &Arc<ContendedObject<$rule<T>>> {
                self$(.$way())*
            }

            fn take_at_once(&self) -> Result<T, TryTakeError> {
                self.try_take()
            }

            fn shut(&self) {
                self.close();
            }
        }

        impl<T> sealed::Source for $queue<T> {
            type Take<H: Handle<Content = T, Target = Self>> = $take<H>;

            #[inline]
            fn take_by<H: Handle<Content = T, Target = Self>>(queue: H) -> Request<$take<H>> {
                $take::request(queue)
            }
        }
    )*};
}

sources! {
    BlockingQueue: Take, BufferRule, object;
    TransferQueue: Receive, TransferRule, rendezvous.object;
    SynchronousQueue: Receive, TransferRule, rendezvous.object;
}
