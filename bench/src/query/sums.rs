//! Elements so cheap that whoever pays per element shows it.

use orx_parallel::{IntoParIter, Par};
use rayon::prelude::*;

use super::{ours, query, query_on_rayon};
use crate::row::{Bar, Contestant, Row};

pub(super) const ELEMENTS: u32 = 10_000_000;
pub(super) const THREADS: usize = 2;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "sum-slice",
            "filter, map and sum over 10 000 000 numbers in a slice, 2 threads",
            over_a_slice,
        )
        .unit("ms")
        .bar(Bar::against("rayon", 1.1)),
        Row::new("sum-range", "the same over a range: nothing is read", over_a_range)
            .unit("ms")
            .bar(Bar::against("rayon", 1.1)),
    ]
}

pub(super) fn is_even(number: u32) -> bool {
    number.is_multiple_of(2)
}

/// Nothing for which a compiler knows the sum.
pub(super) fn folded(number: u32) -> u64 {
    u64::from(number ^ number >> 7)
}

/// Scattered by Fibonacci hashing, so that no branch can be foreseen.
fn numbers() -> &'static [u32] {
    let scattered = |number: u32| number.wrapping_mul(0x9E37_79B9) >> 12;
    Vec::leak((0..ELEMENTS).map(scattered).collect())
}

fn over_a_slice() -> Vec<Contestant> {
    let numbers = numbers();
    let mut contestants = vec![ours::sum_of_a_slice(numbers)];
    contestants.extend([
        Contestant::peer(
            "rayon",
            query_on_rayon(THREADS, || -> u64 {
                numbers.par_iter().copied().filter(|&n| is_even(n)).map(folded).sum()
            }),
        ),
        Contestant::peer(
            "orx-parallel",
            query(|| -> u64 {
                let parallel = numbers.into_par().num_threads(THREADS);
                parallel.copied().filter(|&n| is_even(n)).map(folded).sum()
            }),
        ),
        Contestant::peer(
            "sequential",
            query(|| -> u64 { numbers.iter().copied().filter(|&n| is_even(n)).map(folded).sum() }),
        ),
    ]);
    contestants
}

fn over_a_range() -> Vec<Contestant> {
    let mut contestants = vec![ours::sum_of_a_range()];
    contestants.extend([
        Contestant::peer(
            "rayon",
            query_on_rayon(THREADS, || -> u64 {
                (0..ELEMENTS).into_par_iter().filter(|&n| is_even(n)).map(folded).sum()
            }),
        ),
        Contestant::peer(
            "orx-parallel",
            query(|| -> u64 {
                let parallel = (0..ELEMENTS as usize).into_par().num_threads(THREADS);
                parallel.map(|n| n as u32).filter(|&n| is_even(n)).map(folded).sum()
            }),
        ),
        Contestant::peer(
            "sequential",
            query(|| -> u64 { (0..ELEMENTS).filter(|&n| is_even(n)).map(folded).sum() }),
        ),
    ]);
    contestants
}
