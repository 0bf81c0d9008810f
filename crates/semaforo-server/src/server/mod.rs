//! The server.

mod calendar;
pub mod http;
pub mod log;
