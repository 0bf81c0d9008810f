//! HTTP: in front of a backend that does what the test tells it, and in front of the real server.

mod connections;
mod document;
mod doors;
#[path = "../http_support/mod.rs"]
mod http_support;
mod real;
mod requests;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
