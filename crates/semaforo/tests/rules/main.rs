//! Rules of one's own: what is promised to them and of them.

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod laws;
mod lending;
mod limits;
mod meeting;
mod policies;
mod races;
