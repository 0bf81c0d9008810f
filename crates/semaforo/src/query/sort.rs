//! A merge sort, on several threads.
//!
//! Every thread sorts a part with the standard library's sort. Then parts are merged, two by two,
//! and every merge is cut into pieces of equal size that can be merged apart. Items are moved,
//! never shared, so that a comparison that panics costs none of them.

use std::cmp::Ordering;

use super::context::{Context, Halted};
use super::jobs::jobs;
use super::parallel_vec::{ParallelVec, Part, rearrange};
use super::pipeline::{Source, Want};
use super::sources::vector::{OwnedChunk, OwnedSource};

/// Below this, one thread is done before extra workers have begun.
const WORTHWHILE: usize = 4096;

/// Into how many parts so many items are cut.
fn parts(context: &Context, len: usize) -> usize {
    if len < WORTHWHILE { 1 } else { context.extra_workers.threads().next_power_of_two() }
}

/// Sorts by a comparison. Equal items stay in their order.
pub(crate) fn sort<T: Send>(
    context: &Context,
    mut items: Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering + Sync,
) -> Result<Vec<T>, Halted> {
    let parts = parts(context, items.len());
    let size = items.len().div_ceil(parts);
    // The last part is split off first: what stays is never moved.
    let mut unsorted: Vec<Vec<T>> =
        (1..parts).rev().map(|part| items.split_off((part * size).min(items.len()))).collect();
    unsorted.push(items);
    unsorted.reverse();
    let sorted = jobs(context, unsorted, true, |mut part| {
        part.sort_by(&compare);
        part
    })?;
    merge_all(context, sorted, compare)
}

/// An item's key, and its number.
struct Keyed<K> {
    key: K,
    number: u32,
}

/// Sorts by keys, each of which is made once. Items with equal keys stay in their order.
///
/// Not the items are sorted but the keys, with numbers: they are next to each other, wherever the
/// items lead, and mostly smaller.
pub(crate) fn sort_by_keys<T: Send, K: Send>(
    context: &Context,
    mut items: Vec<T>,
    key: impl Fn(&T) -> K + Sync,
    compare: impl Fn(&K, &K) -> Ordering + Sync,
) -> Result<Vec<T>, Halted> {
    if u32::try_from(items.len()).is_err() {
        return sort(context, items, |one, other| compare(&key(one), &key(other)));
    }
    let compare = |one: &Keyed<K>, other: &Keyed<K>| compare(&one.key, &other.key);
    let size = items.len().div_ceil(parts(context, items.len())).max(1);
    let unsorted: Vec<_> = items.chunks_mut(size).enumerate().collect();
    let large = unsorted.len() > 1;
    let sorted = jobs(context, unsorted, large, |(part, items)| {
        let first = part * size;
        let keyed = items.iter().enumerate();
        let mut keyed: Vec<_> = keyed
            .map(|(number, item)| Keyed { key: key(item), number: (first + number) as u32 })
            .collect();
        keyed.sort_by(compare);
        keyed
    })?;
    let order = merge_all(context, sorted, compare)?;
    // Keys are dropped here, which may run their own code.
    let order =
        context.guard(|| order.into_iter().map(|keyed| keyed.number).collect::<Vec<_>>())?;
    // SAFETY: every item was given its number, and sorting neither loses nor doubles anything.
    Ok(unsafe { rearrange(context, items, &order) })
}

/// Merges sorted parts. Of equal items those of earlier parts come first.
fn merge_all<T: Send>(
    context: &Context,
    mut sorted: Vec<Vec<T>>,
    compare: impl Fn(&T, &T) -> Ordering + Sync,
) -> Result<Vec<T>, Halted> {
    while sorted.len() > 1 {
        let pieces = (2 * context.extra_workers.threads()).div_ceil(sorted.len());
        let mut merged = Vec::with_capacity(sorted.len().div_ceil(2));
        let mut pairs = Vec::new();
        let mut parts = sorted.into_iter();
        while let Some(first) = parts.next() {
            match parts.next() {
                Some(second) => {
                    pairs.push(context.guard(|| Pair::new(first, second, pieces, &compare))?)
                }
                None => merged.push(first),
            }
        }
        let todo = pairs.iter_mut().flat_map(Pair::pieces).collect();
        let parts = jobs(context, todo, true, |piece: Piece<'_, T>| piece.merge(&compare))?;
        let mut parts = parts.into_iter();
        let mut filled = Vec::with_capacity(parts.len() / pieces);
        while parts.len() > 0 {
            filled.push(Part::leave(parts.by_ref().take(pieces)));
        }
        drop(parts);
        let odd = merged.pop();
        for (pair, filled) in pairs.into_iter().zip(filled) {
            // SAFETY: these are its parts.
            merged.push(unsafe { pair.merged.complete(filled) });
        }
        merged.extend(odd);
        sorted = merged;
    }
    Ok(sorted.pop().unwrap_or_default())
}

/// Two parts that are merged, in pieces.
struct Pair<T> {
    first: OwnedSource<T>,
    second: OwnedSource<T>,
    /// How many items each piece has of the first and of the second.
    cuts: Vec<(usize, usize)>,
    merged: ParallelVec<T>,
}

/// Two pieces that are merged, and the slots for them.
struct Piece<'a, T> {
    first: Option<OwnedChunk<'a, T>>,
    second: Option<OwnedChunk<'a, T>>,
    merged: Part<'a, T>,
}

impl<T: Send> Pair<T> {
    fn new(
        first: Vec<T>,
        second: Vec<T>,
        pieces: usize,
        compare: &impl Fn(&T, &T) -> Ordering,
    ) -> Self {
        let total = first.len() + second.len();
        let mut before = (0, 0);
        let cuts = (1..=pieces).map(|piece| {
            let count = total * piece / pieces;
            let of_first = split_point(&first, &second, count, compare);
            let until = (of_first, count - of_first);
            let cut = (until.0 - before.0, until.1 - before.1);
            before = until;
            cut
        });
        let cuts = cuts.collect();
        let merged = ParallelVec::new(total);
        Self { first: OwnedSource::new(first), second: OwnedSource::new(second), cuts, merged }
    }

    fn pieces(&mut self) -> Vec<Piece<'_, T>> {
        let Self { first, second, cuts, merged } = self;
        let parts = merged.parts(cuts.iter().map(|(of_first, of_second)| of_first + of_second));
        let pieces = cuts.iter().zip(parts).map(|((of_first, of_second), merged)| Piece {
            first: next(first, *of_first),
            second: next(second, *of_second),
            merged,
        });
        pieces.collect()
    }
}

/// The next so many items.
fn next<T: Send>(source: &OwnedSource<T>, count: usize) -> Option<OwnedChunk<'_, T>> {
    if count == 0 {
        return None;
    }
    source.claim(Want::exactly(count)).map(|claimed| claimed.items)
}

impl<'a, T> Piece<'a, T> {
    fn merge(self, compare: &impl Fn(&T, &T) -> Ordering) -> Part<'a, T> {
        let Self { mut first, mut second, mut merged } = self;
        if let (Some(first), Some(second)) = (&mut first, &mut second) {
            while let ([one, ..], [other, ..]) = (first.as_slice(), second.as_slice()) {
                let from_second = compare(other, one) == Ordering::Less;
                let next = if from_second { second.next() } else { first.next() };
                next.into_iter().for_each(|next| merged.push(next));
            }
        }
        first
            .into_iter()
            .flatten()
            .chain(second.into_iter().flatten())
            .for_each(|item| merged.push(item));
        merged
    }
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
        // Of equal items those of `first` come first. So if the next of `first` is not after the
        // last that is taken of `second`, it has to be taken as well.
        if compare(&second[of_second - 1], &first[of_first]) == Ordering::Less {
            high = of_first;
        } else {
            low = of_first + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::extra_workers::ExtraWorkers;
    use std::num::NonZero;

    #[test]
    fn sorts_and_is_stable() {
        for threads in [1, 2, 3, 5, 8] {
            for len in [0, 1, 2, WORTHWHILE - 1, WORTHWHILE, WORTHWHILE + 1, 20_011] {
                for keys in [1, 3, 1000, u64::MAX] {
                    let context =
                        Context::new(ExtraWorkers::new(NonZero::new(threads), None, None), None);
                    let mut state = 7_u64;
                    let items: Vec<_> = (0..len)
                        .map(|number| {
                            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                            ((state >> 20) % keys, number)
                        })
                        .collect();
                    let mut expected = items.clone();
                    expected.sort_by_key(|(key, _)| *key);
                    let sorted = sort(&context, items.clone(), |one, other| one.0.cmp(&other.0));
                    assert!(
                        sorted.unwrap() == expected,
                        "{threads} threads, {len} items, {keys} keys"
                    );
                    let sorted = sort_by_keys(&context, items, |item| item.0, u64::cmp);
                    assert!(
                        sorted.unwrap() == expected,
                        "{threads} threads, {len} items, {keys} keys"
                    );
                }
            }
        }
    }
}
