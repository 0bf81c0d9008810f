//! Parallel queries: what iterators do, on as many threads as pay.
//!
//! The operators are LINQ's, and the settings PLINQ's. The names are Rust's (`map`, `filter`), and
//! the documentation of each has LINQ's word for it.
//!
//! ```
//! use semaforo::query::prelude::*;
//!
//! let even = (0..1000_u32).as_parallel().filter(|n| n % 2 == 0);
//! let squares: Vec<u32> = even.map(|n| n * n).to_vec();
//! assert_eq!(squares[..4], [0, 4, 16, 36]);
//!
//! let words = ["apple", "avocado", "banana", "cherry"];
//! let by_letter = words.as_parallel()
//!     .group_by(|word| word.chars().next())
//!     .order_by_descending(|group| group.items.len())
//!     .map(|group| group.items.len());
//! assert_eq!(by_letter.to_vec(), [2, 1, 1]);
//! ```
//!
//! # Where queries come from
//!
//! | from | with | items |
//! |---|---|---|
//! | slices, vectors, arrays | [`as_parallel`](AsParallel::as_parallel) | references |
//! | vectors, arrays | [`into_parallel`](IntoParallel::into_parallel) | the items themselves |
//! | mutable slices | [`into_parallel`](IntoParallel::into_parallel) | mutable references |
//! | ranges | either | numbers |
//! | maps, sets, deques | either | references, or the items themselves; read in chunks |
//! | any iterator | [`chunked_parallel`](ChunkedParallel::chunked_parallel) | its items |
//!
//! # When anything happens
//!
//! A query is lazy: operators only describe it. A terminal runs it, and returns when it is done:
//! nothing of it runs on afterwards. (The exception is iteration, which is over when the iterator
//! is dropped.)
//!
//! **The calling thread takes part**, and begins alone. Only when about 30 microseconds have passed
//! does it start extra workers, on threads of a pool; so a short query costs little more than a
//! loop, and it need not be known beforehand which queries are short.
//! [`with_threads(1)`](Query::with_threads) asks for none.
//!
//! **Items are claimed in chunks**, whose size follows from how long the last one took: about 75
//! microseconds (a millisecond where items are grouped), and no more than a fair part of what is
//! left. So cheap items do not pay one by one, and uneven ones are balanced. Between chunks a
//! thread looks whether the query was [cancelled](Query::with_cancel), has found what it was
//! looking for, or has panicked, and an extra worker whether something more urgent waits for its
//! thread.
//!
//! # Order
//!
//! **Items keep their order** unless told otherwise: collecting in order costs nothing extra.
//! Operators that have to look back for it (distinct, group_by, take) are freed from that by
//! [`as_unordered`](Query::as_unordered). A consumer that iterates then gets items as they come.
//! Functions are called in no particular order in any case, and [`for_all`](Query::for_all),
//! [`aggregate`](Query::aggregate) and [`sum`](Query::sum) combine in none.
//!
//! # Panics
//!
//! When a function panics, no more chunks are begun; the terminal then panics on the calling
//! thread, with all panics together: [`Panics`]. No item is lost or dropped twice.

mod cancellation;
mod context;
mod drive;
mod extra_workers;
mod gather;
mod hashing;
mod jobs;
mod operators;
mod panics;
mod parallel_vec;
mod pipeline;
#[expect(clippy::module_inception, reason = "it has the type that the folder is named after")]
mod query;
mod reorder;
mod sort;
mod sources;
mod stream_buffer;
mod terminals;

pub use cancellation::{Cancellable, Cancellation, Cancelled, Uncancellable};
pub use hashing::lookup::Matches;
pub use operators::{Compare, Group};
pub use panics::Panics;
pub use pipeline::Pipeline;
pub use query::{Merge, Query};
pub use sources::{AsParallel, ChunkedParallel, IntoParallel, WholeNumber};
pub use terminals::{Average, IntoIter};

/// What a program that makes queries needs: `use semaforo::query::prelude::*`.
pub mod prelude {
    pub use super::{AsParallel, ChunkedParallel, IntoParallel, Query};
}

/// The parts of a query's type, for code that has to name it.
pub mod parts {
    pub use super::operators::{
        By, ByKey, Cloned, Concat, Descending, Distinct, Enumerate, Except, Filter, FilterMap,
        FlatMap, GroupBy, GroupJoin, Inspect, Intersect, Join, Map, OrderBy, Reverse, Skip,
        SkipWhile, Take, TakeWhile, Then, Whole, With, Zip,
    };
    pub use super::sources::{Iterated, Numbers, Owned, Slice, SliceMut};
}
