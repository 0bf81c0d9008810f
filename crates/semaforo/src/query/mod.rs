//! Queries over many items, on as many threads as pay.

#![allow(clippy::type_complexity, reason = "a query's type says all that it is made of")]

mod assembly;
mod context;
mod crew;
mod drive;
mod gather;
mod hashing;
mod jobs;
mod limits;
mod operators;
mod panics;
mod pipeline;
mod production;
mod row;
mod settings;
mod sort;
mod sources;
mod terminals;

pub use hashing::lookup::Matches;
pub use limits::{Cancellable, Cancelled, Limits, Unlimited};
pub use operators::{Compare, Group};
pub use panics::Panics;
pub use pipeline::Pipeline;
pub use settings::{Merge, Query};
pub use sources::{AsParallel, ChunkedParallel, IntoParallel, WholeNumber};
pub use terminals::{Average, IntoIter};

/// What a program that makes queries needs: `use semaforo::query::prelude::*`.
pub mod prelude {
    pub use super::{AsParallel, ChunkedParallel, IntoParallel, Query};
}

/// The parts of a query's type, for those who have to name it.
pub mod parts {
    pub use super::operators::{
        By, ByKey, Cloned, Concat, Descending, Distinct, Enumerate, Except, Filter, FilterMap,
        FlatMap, GroupBy, GroupJoin, Inspect, Intersect, Join, Map, OrderBy, Reverse, Skip,
        SkipWhile, Take, TakeWhile, Then, Whole, With, Zip,
    };
    pub use super::sources::{Iterated, Numbers, Owned, Slice, SliceMut};
}
