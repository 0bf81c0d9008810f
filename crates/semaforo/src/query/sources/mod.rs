//! Where items come from.

mod cursor;
mod iterator;
mod maps;
mod range;
mod slice;
mod slice_mut;
pub(crate) mod vector;

use super::pipeline::Pipeline;
use super::query::Query;

pub use iterator::{ChunkedParallel, Iterated};
pub use range::{Numbers, WholeNumber};
pub use slice::Slice;
pub use slice_mut::SliceMut;
pub use vector::Owned;

/// Things whose items can be queried without taking them: slices (and vectors and arrays), maps,
/// sets and deques yield references; ranges yield numbers.
///
/// ```
/// use semaforo::query::prelude::*;
///
/// let words = ["one", "two", "three"];
/// assert_eq!(words.as_parallel().map(|word| word.len()).to_vec(), [3, 3, 5]);
/// assert_eq!((1..=100_u32).as_parallel().sum::<u32>(), 5050);
///
/// let ages = std::collections::BTreeMap::from([("Ada", 36), ("Alan", 41)]);
/// assert_eq!(ages.as_parallel().map(|(_, age)| age).max(), Some(&41));
/// ```
pub trait AsParallel {
    /// The source.
    type Pipeline<'a>: Pipeline
    where
        Self: 'a;

    /// A query over the items.
    #[doc(alias = "AsParallel")]
    #[doc(alias = "par_iter")]
    fn as_parallel(&self) -> Query<Self::Pipeline<'_>>;
}

/// Things that can be queried by giving them up: vectors, arrays, ranges, mutable slices, maps,
/// sets, deques, and queries.
///
/// This is also what operators of two inputs (zip, join) take for the second.
///
/// ```
/// use semaforo::query::prelude::*;
///
/// let words = vec!["one".to_string(), "two".to_string()];
/// let loud = words.into_parallel().map(|word| word + "!").to_vec();
/// assert_eq!(loud, ["one!", "two!"]);
///
/// let mut numbers = [1, 2, 3];
/// numbers.as_mut_slice().into_parallel().for_all(|number| *number *= 10);
/// assert_eq!(numbers, [10, 20, 30]);
/// ```
pub trait IntoParallel {
    /// The source.
    type Pipeline: Pipeline;

    /// A query over the items.
    #[doc(alias = "into_par_iter")]
    fn into_parallel(self) -> Query<Self::Pipeline>;
}

impl<P: Pipeline> IntoParallel for Query<P> {
    type Pipeline = P;

    fn into_parallel(self) -> Self {
        self
    }
}
