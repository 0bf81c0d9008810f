//! Queries over many items, on as many threads as pay.

mod context;
mod crew;
mod drive;
mod gather;
mod limits;
mod operators;
mod panics;
mod pipeline;
mod settings;
mod sources;
mod terminals;

pub use limits::{Cancellable, Cancelled, Limits, Unlimited};
pub use panics::Panics;
pub use pipeline::Pipeline;
pub use settings::{Merge, Query};
pub use sources::{AsParallel, ChunkedParallel, IntoParallel};

/// What a program that makes queries needs: `use semaforo::query::prelude::*`.
pub mod prelude {
    pub use super::{AsParallel, ChunkedParallel, IntoParallel, Query};
}

/// The parts of a query's type, for those who have to name it.
pub mod parts {
    pub use super::operators::{Filter, FilterMap, Map};
    pub use super::sources::{Iterated, Numbers, Owned, Slice, SliceMut};
}
