//! A stable merge sort, on several threads.
//!
//! Every thread sorts a part with the standard library's sort. Then parts are merged, two by two, and
//! every merge is cut into pieces of equal size that can be merged apart. Items are moved, never
//! shared, so that a comparison that panics costs none of them.

use std::cmp::Ordering;

use super::context::{Context, Halted};
use super::jobs::jobs;

/// Below this, one thread is done before others have come.
const WORTHWHILE: usize = 4096;

/// Sorts. Equal items stay in their order.
pub(crate) fn sort<T: Send>(
    context: &Context,
    mut items: Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering + Sync,
) -> Result<Vec<T>, Halted> {
    let threads = context.crew.threads();
    if threads == 1 || items.len() < WORTHWHILE {
        context.guard(|| items.sort_by(&compare))?;
        return Ok(items);
    }
    // The last part is split off first: what stays is never moved.
    let parts = threads.next_power_of_two();
    let size = items.len().div_ceil(parts);
    let mut unsorted: Vec<Vec<T>> =
        (1..parts).rev().map(|part| items.split_off((part * size).min(items.len()))).collect();
    unsorted.push(items);
    unsorted.reverse();
    let mut sorted = jobs(context, unsorted, true, |mut part| {
        part.sort_by(&compare);
        part
    })?;
    while sorted.len() > 1 {
        let pieces = (2 * threads).div_ceil(sorted.len());
        let mut pairs = Vec::new();
        let mut parts = sorted.into_iter();
        while let (Some(first), Some(second)) = (parts.next(), parts.next()) {
            pairs.extend(context.guard(|| cut(first, second, pieces, &compare))?);
        }
        let merged = jobs(context, pairs, true, |(first, second)| merge(first, second, &compare))?;
        sorted = join(merged, pieces);
    }
    Ok(sorted.pop().unwrap_or_default())
}

/// Joins every so many into one.
fn join<T>(merged: Vec<Vec<T>>, pieces: usize) -> Vec<Vec<T>> {
    let mut joined = Vec::with_capacity(merged.len() / pieces);
    let mut merged = merged.into_iter();
    while let Some(mut first) = merged.next() {
        let others: Vec<_> = merged.by_ref().take(pieces - 1).collect();
        first.reserve_exact(others.iter().map(Vec::len).sum());
        others.into_iter().for_each(|mut other| first.append(&mut other));
        joined.push(first);
    }
    joined
}

/// Cuts two sorted parts into pairs of which one can be merged after the other.
fn cut<T>(
    mut first: Vec<T>,
    mut second: Vec<T>,
    pieces: usize,
    compare: &impl Fn(&T, &T) -> Ordering,
) -> Vec<(Vec<T>, Vec<T>)> {
    let total = first.len() + second.len();
    let mut pairs = Vec::with_capacity(pieces);
    for piece in (1..pieces).rev() {
        let before = total * piece / pieces;
        let of_first = split_point(&first, &second, before, compare);
        pairs.push((first.split_off(of_first), second.split_off(before - of_first)));
    }
    pairs.push((first, second));
    pairs.reverse();
    pairs
}

/// How many of the first `count` items of the merged whole come from `first`.
fn split_point<T>(
    first: &[T],
    second: &[T],
    count: usize,
    compare: &impl Fn(&T, &T) -> Ordering,
) -> usize {
    let (mut low, mut high) = (count.saturating_sub(second.len()), count.min(first.len()));
    while low < high {
        let of_first = low + (high - low) / 2;
        let of_second = count - of_first;
        // Of equal items those of `first` come first. So if the next of `first` is not after the last
        // that is taken of `second`, it has to be taken as well.
        if compare(&second[of_second - 1], &first[of_first]) == Ordering::Less {
            high = of_first;
        } else {
            low = of_first + 1;
        }
    }
    low
}

fn merge<T>(first: Vec<T>, second: Vec<T>, compare: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    while let ([one, ..], [other, ..]) = (first.as_slice(), second.as_slice()) {
        let next = if compare(other, one) == Ordering::Less { second.next() } else { first.next() };
        merged.extend(next);
    }
    merged.extend(first);
    merged.extend(second);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::crew::Crew;
    use std::num::NonZero;

    #[test]
    fn sorts_and_is_stable() {
        for threads in [1, 2, 3, 5, 8] {
            for len in [0, 1, 2, WORTHWHILE - 1, WORTHWHILE, WORTHWHILE + 1, 20_011] {
                for keys in [1, 3, 1000, u64::MAX] {
                    let context = Context::new(Crew::new(NonZero::new(threads), None, None), None);
                    let mut state = 7_u64;
                    let items: Vec<_> = (0..len)
                        .map(|number| {
                            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                            ((state >> 20) % keys, number)
                        })
                        .collect();
                    let mut expected = items.clone();
                    expected.sort_by_key(|(key, _)| *key);
                    let sorted = sort(&context, items, |one, other| one.0.cmp(&other.0)).unwrap();
                    assert!(sorted == expected, "{threads} threads, {len} items, {keys} keys");
                }
            }
        }
    }
}
