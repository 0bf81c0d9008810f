//! Queues that hand items from those who bring them to those who wait for them.
//!
//! All of them stand on one core: a lock, a line of those who take, a line of those who put, and a
//! rule that says who gets what. An item is written straight into the place where a waiting taker
//! will find it.

mod any;
mod batch;
pub mod blocking;
mod buffered;
mod choice;
mod collections;
mod crossing;
mod ends;
mod errors;
mod items;
mod meeting;
mod messages;
mod parcel;
mod rank;
mod ring;
mod store;
pub mod synchronous;
pub mod transfer;
mod transferring;

pub use any::{OneOfSeveral, PutAny, Several, TakeAny};
pub use batch::{BatchLimits, TakeBatch};
pub use blocking::{BlockingQueue, Builder};
pub use ends::{Received, Receiver, Sender};
pub use errors::{Closed, Rejected, TryPutError, TryTakeError};
pub use items::{ItemStream, Items, Source};
pub use meeting::{MeetingPlace, Receive, Transfer};
pub use synchronous::SynchronousQueue;
pub use transfer::TransferQueue;
