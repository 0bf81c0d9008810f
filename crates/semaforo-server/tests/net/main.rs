//! The connection layer, over real sockets. What changes the whole process is tested in processes
//! of its own.

mod connections;
mod examples;
mod many;
#[path = "../net_support/mod.rs"]
mod net_support;
mod random;
mod tls;
