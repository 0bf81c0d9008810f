//! What sets a query going, one small family to a file.

mod collect;
mod extremes;
mod fold;
mod search;
mod streaming;

pub use extremes::Average;
pub use streaming::IntoIter;
