//! What sets a query going, one small family to a file.

mod collect;
mod extremes;
mod fold;
mod search;

pub use extremes::Average;
