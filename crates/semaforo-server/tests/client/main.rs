//! The client: word for word, object by object, and with a network that fails.

#[path = "../client_support/mod.rs"]
mod client_support;
mod lifetimes;
mod objects;
mod outages;
mod scripted;
mod unreadable;
