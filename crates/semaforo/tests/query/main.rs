//! Parallel queries against the standard library's iterators: `operators.rs` and `terminals.rs` on random
//! data, every one with one thread and with four, ordered and unordered, over several kinds of source.
//! `streaming.rs` iterates; `endings.rs` is about queries that end before their items do, `panics.rs`
//! about those that panic, and `cancel.rs` about those that are cancelled.

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod endings;
mod operators;
mod panics;
mod streaming;
mod terminals;

use std::time::{Duration, Instant};

/// Takes so long that a query of a few hundred items is worth several threads.
fn dawdle<T>(_: &T) {
    let end = Instant::now() + Duration::from_micros(1);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}

/// Evaluates an expression for every way of asking the same thing: `$query` is a query over the items of
/// a slice, a vector, a slice of which nobody knows how many items are left, and an iterator; with one
/// thread and with four.
macro_rules! every_way {
    ($items:expr, |$query:ident| $body:expr) => {{
        use semaforo::query::prelude::*;
        let items = &$items;
        for threads in [1, 4] {
            {
                let $query =
                    items.as_parallel().cloned().inspect(crate::dawdle).with_threads(threads);
                $body
            }
            {
                let $query =
                    items.clone().into_parallel().inspect(crate::dawdle).with_threads(threads);
                $body
            }
            {
                let $query = items
                    .as_parallel()
                    .flat_map(|item| Some(*item).into_iter().inspect(crate::dawdle))
                    .with_threads(threads);
                $body
            }
            {
                let $query = items
                    .iter()
                    .copied()
                    .chunked_parallel()
                    .inspect(crate::dawdle)
                    .with_threads(threads);
                $body
            }
        }
    }};
}
use every_way;

/// Expects the same items in the same order; and the same in any order, if the query is unordered.
macro_rules! same {
    ($items:expr, |$query:ident| $ours:expr, $expected:expr) => {{
        let expected: Vec<_> = $expected;
        let in_any_order = crate::sorted(expected.clone());
        crate::every_way!($items, |query| {
            {
                let $query = query.clone();
                assert_eq!($ours.to_vec(), expected, "in order");
            }
            {
                let $query = query.as_unordered();
                assert_eq!(crate::sorted($ours.to_vec()), in_any_order, "in any order");
            }
        });
    }};
}
use same;
