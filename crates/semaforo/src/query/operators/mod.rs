//! What is done to items on their way, one operator or one small family to a file.

mod concat;
mod distinct;
mod either;
mod filter;
mod flat_map;
mod group_by;
mod inspect;
mod join;
mod map;
mod order_by;
mod reverse;
mod sets;
mod take;
mod zip;

pub use concat::Concat;
pub use distinct::{By, Distinct, Whole};
pub(crate) use either::{Either, exact};
pub use filter::{Filter, FilterMap};
pub use flat_map::FlatMap;
pub use group_by::{Group, GroupBy};
pub use inspect::Inspect;
pub use join::{GroupJoin, Join};
pub use map::{Cloned, Map};
pub use order_by::{ByKey, Compare, Descending, OrderBy, Then, With};
pub use reverse::Reverse;
pub use sets::{Except, Intersect};
pub use take::{Skip, SkipWhile, Take, TakeWhile};
pub(crate) use zip::ZipSource;
pub use zip::{Enumerate, Zip};

/// An operator's innards are closures, of which there is nothing to show.
macro_rules! debug_as_name {
    ($($name:ident<$($parameter:ident),*>),* $(,)?) => {$(
        impl<$($parameter),*> std::fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
use debug_as_name;

/// The parts of [`Source`](super::pipeline::Source) that an operator leaves to the one inside it,
/// if it keeps the number of items (`exact`), or if it does not.
macro_rules! like_its_input {
    (exact $input:ident) => {
        fn remaining(&self) -> Option<usize> {
            self.$input.remaining()
        }

        fn end(&self) -> usize {
            self.$input.end()
        }

        fn exact(&self) -> Option<usize> {
            self.$input.exact()
        }

        fn narrow(&mut self, range: std::ops::Range<usize>) {
            self.$input.narrow(range);
        }
    };
    (inexact $input:ident) => {
        fn remaining(&self) -> Option<usize> {
            self.$input.remaining()
        }

        fn end(&self) -> usize {
            self.$input.end()
        }

        fn exact(&self) -> Option<usize> {
            None
        }

        fn narrow(&mut self, _: std::ops::Range<usize>) {
            unreachable!("only exact sources are narrowed");
        }
    };
}
use like_its_input;
