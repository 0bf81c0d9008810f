//! Who holds, waits and takes, and what becomes of it when clients and servers come and go.

#[path = "../support/mod.rs"]
mod support;

mod delivery;
mod disconnected;
mod named;
mod over_http;
mod restarts;
mod retries;
mod semaphores;
