//! Queues: items go from requests that put them to requests that take them.
//!
//! All of them are contended objects: a lock, a list of takers, a list of putters, and a
//! rule that says who gets what. An item is written straight into the slot of a waiting taker.

mod any;
mod batch;
pub mod blocking;
mod buffer_rule;
mod collections;
mod ends;
mod errors;
mod items;
mod messages;
mod rank;
mod raw_item;
mod rendezvous;
mod ring;
mod select_wait;
mod selection;
mod slot;
mod source;
mod store;
pub mod synchronous;
pub mod transfer;
mod transfer_rule;

pub use any::{PutAny, Several, TakeAny};
pub use batch::{BatchLimits, TakeBatch};
pub use blocking::{BlockingQueue, Builder};
pub use ends::{Received, Receiver, Sender};
pub use errors::{Closed, Rejected, TryPutError, TryTakeError};
pub use items::{ItemStream, Items};
pub use rendezvous::{Receive, RendezvousQueue, Transfer};
pub use source::{OneOfSeveral, Source};
pub use synchronous::SynchronousQueue;
pub use transfer::TransferQueue;
