//! What sets a query going, one small family to a file.

mod collect;
mod fold;
