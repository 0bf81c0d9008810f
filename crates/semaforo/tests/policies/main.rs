//! The policies as they are: pure functions, tried in every state that can be reached and compared
//! with models written differently.

#[path = "../support/mod.rs"]
mod support;

mod any_state;
mod explore;
mod gates;
mod locks;
mod owned;
mod permits;
mod phases;
