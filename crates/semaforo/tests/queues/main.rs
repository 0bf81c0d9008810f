//! Queues: blocking, transferring, synchronous.

mod any_queue;
mod blocking_queue;
mod blocking_queue_order;
mod ends;
mod items;
mod queue_drops;
mod queue_panics;
mod queue_promises;
#[path = "../support/mod.rs"]
mod support;
mod synchronous_queue;
mod take_batch;
mod transfer_queue;
mod unclaimed_transfers;
