//! HTTP: in front of a backend that does what the test tells it, and in front of the real server.

mod connections;
#[path = "../http_support/mod.rs"]
mod http_support;
mod real;
mod requests;
#[path = "../support/mod.rs"]
mod support;
