//! The protocol, byte for byte, over real sockets.

#[path = "../support/mod.rs"]
mod support;

mod connections;
mod examples;
mod frames;
mod mutations;
mod order;
mod statuses;
mod strangers;
