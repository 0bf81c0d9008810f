//! The even ones among many numbers: by one thread, and in three parallel ways: each handled by the thread that finds it; merged in
//! order, while others are still being looked for; and as they come.
//!
//! `cargo run --release -p semaforo --example even_numbers`

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::Instant;

use semaforo::query::{Merge, prelude::*};

const NUMBERS: u64 = 400_000;

/// Whether a number is even, found out the hard way so that there is something to do.
fn is_even(number: u64) -> bool {
    let mut rest = number;
    for _ in 0..40 {
        rest = (rest ^ rest.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    }
    std::hint::black_box(rest);
    number % 2 == 0
}

/// All of them, by this thread alone: an iterator has the same words.
fn one_after_the_other() -> Vec<u64> {
    (0..NUMBERS).filter(|n| is_even(*n)).collect()
}

/// All of them, by several threads, in the same order.
fn in_parallel() -> Vec<u64> {
    (0..NUMBERS).as_parallel().filter(|n| is_even(*n)).to_vec()
}

/// How many each thread has found: nothing is merged, all stays parallel.
fn found_by_thread() -> HashMap<ThreadId, u64> {
    let found = Mutex::new(HashMap::new());
    (0..NUMBERS).as_parallel().filter(|n| is_even(*n)).for_all(|_| {
        *found.lock().unwrap().entry(thread::current().id()).or_default() += 1;
    });
    found.into_inner().unwrap()
}

/// The first few, in order. The consumer stops early, and with it those who look for more.
fn first_in_order(count: usize) -> Vec<u64> {
    (0..NUMBERS).as_parallel().filter(|n| is_even(*n)).into_iter().take(count).collect()
}

/// How often one that comes is smaller than the one before.
fn disorder() -> usize {
    let mut last = None;
    let mut steps_back = 0;
    let even = (0..NUMBERS).as_parallel().as_unordered().with_merge(Merge::Auto);
    even.filter(|n| is_even(*n)).for_each(|n| {
        steps_back += usize::from(last.is_some_and(|last| n < last));
        last = Some(n);
    });
    steps_back
}

fn main() {
    let timed = |find: fn() -> Vec<u64>| {
        let begin = Instant::now();
        (find(), begin.elapsed())
    };
    let (alone, parallel) = (timed(one_after_the_other), timed(in_parallel));
    println!("one after the other: {} even numbers in {:.1?}", alone.0.len(), alone.1);
    println!("in parallel, the same: {}, in {:.1?}", parallel.0 == alone.0, parallel.1);
    let found = found_by_thread();
    println!(
        "for_all: {} even numbers, found by {} threads:",
        found.values().sum::<u64>(),
        found.len()
    );
    for (thread, count) in found {
        println!("  {thread:?}: {count}");
    }
    println!("in order, the first ten: {:?}", first_in_order(10));
    println!("as they come: {} times one came before a smaller one", disorder());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_and_several_find_the_same() {
        assert_eq!(in_parallel(), one_after_the_other());
    }

    #[test]
    fn each_is_found_once() {
        assert_eq!(found_by_thread().values().sum::<u64>(), NUMBERS / 2);
    }

    #[test]
    fn the_ordered_merge_is_ordered() {
        let expected: Vec<u64> = (0..1000).map(|n| 2 * n).collect();
        assert_eq!(first_in_order(1000), expected);
    }
}
