//! Every operator yields what an iterator would.

use std::collections::{HashMap, HashSet};

use proptest::collection::vec;
use proptest::prelude::*;
use semaforo::query::Group;
use semaforo::query::prelude::*;

use crate::{every_way, same, sorted};

/// Few enough different ones that many are equal; and, now and then, none at all.
fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        1 => vec(0..10_u32, 0..3),
        6 => vec(0..100_u32, 0..400),
        2 => vec(any::<u32>(), 0..400),
    ]
}

fn first_of_each<K: std::hash::Hash + Eq, T: Copy>(items: &[T], key: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen = HashSet::new();
    items.iter().copied().filter(|item| seen.insert(key(item))).collect()
}

fn groups(items: &[u32], key: impl Fn(&u32) -> u32) -> Vec<Group<u32, u32>> {
    let mut groups: Vec<Group<u32, u32>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| group.key == key(item)) {
            Some(group) => group.items.push(*item),
            None => groups.push(Group { key: key(item), items: vec![*item] }),
        }
    }
    groups
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn map_filter_and_flat_map(items in numbers()) {
        same!(items, |query| query.map(|n| n / 2), items.iter().map(|n| n / 2).collect());
        same!(items, |query| query.filter(|n| n % 3 == 0),
            items.iter().copied().filter(|n| n % 3 == 0).collect());
        same!(items, |query| query.filter_map(|n| n.checked_sub(50)),
            items.iter().filter_map(|n| n.checked_sub(50)).collect());
        same!(items, |query| query.flat_map(|n| 0..n % 4),
            items.iter().flat_map(|n| 0..n % 4).collect());
        same!(items, |query| query.map(|n| n ^ 5).filter(|n| n % 2 == 0).flat_map(|n| [n, n / 2]).map(|n| n / 3),
            items.iter().map(|n| n ^ 5).filter(|n| n % 2 == 0).flat_map(|n| [n, n / 2]).map(|n| n / 3).collect());
    }

    #[test]
    fn concat_zip_and_enumerate(items in numbers(), others in numbers()) {
        same!(items, |query| query.concat(others.clone()).map(|n| n / 2),
            items.iter().chain(&others).map(|n| n / 2).collect());
        same!(items, |query| query.concat(others.iter().copied().chunked_parallel().filter(|n| n % 2 == 0)).concat(7..9),
            items.iter().copied().chain(others.iter().copied().filter(|n| n % 2 == 0)).chain(7..9).collect());
        every_way!(items, |query| {
            let expected: Vec<_> = items.iter().copied().zip(others.iter().copied()).collect();
            assert_eq!(query.clone().zip(others.clone()).to_vec(), expected);
            assert_eq!(query.clone().zip(others.as_parallel().cloned().filter(|_| true)).to_vec(), expected);
            assert_eq!(query.clone().filter(|_| true).zip(&others).map(|(n, other)| (n, *other)).to_vec(), expected);
            assert_eq!(query.clone().zip((0_u32..).chunked_parallel()).count(), items.len());
            let expected: Vec<_> = items.iter().copied().enumerate().skip(3).step_by(2).collect();
            let numbered = query.enumerate().skip(3).enumerate();
            assert_eq!(numbered.filter(|(n, _)| n % 2 == 0).map(|(_, pair)| pair).to_vec(), expected);
        });
    }

    #[test]
    fn take_and_skip(items in numbers(), count in 0..450_usize) {
        every_way!(items, |query| {
            let taken: Vec<_> = items.iter().copied().take(count).collect();
            assert_eq!(query.clone().take(count).to_vec(), taken);
            assert_eq!(query.clone().filter(|n| n % 2 == 0).take(count).to_vec(),
                items.iter().copied().filter(|n| n % 2 == 0).take(count).collect::<Vec<_>>());
            let skipped: Vec<_> = items.iter().copied().skip(count).collect();
            assert_eq!(query.clone().skip(count).map(|n| n).to_vec(), skipped);
            assert_eq!(query.clone().filter(|n| n % 2 == 0).skip(count / 2).to_vec(),
                items.iter().copied().filter(|n| n % 2 == 0).skip(count / 2).collect::<Vec<_>>());
            let middle: Vec<_> = items.iter().copied().skip(count / 3).take(count / 2).collect();
            assert_eq!(query.clone().skip(count / 3).take(count / 2).to_vec(), middle);
            assert_eq!(query.clone().concat(vec![1, 2]).skip(count).concat(3..4).to_vec(),
                items.iter().copied().chain([1, 2]).skip(count).chain(3..4).collect::<Vec<_>>());

            // Any so many, if the order does not matter; but of these items, and none twice.
            let numbered = query.enumerate().filter(|_| true).as_unordered();
            let some: HashMap<_, _> = numbered.clone().take(count).collect();
            assert_eq!(some.len(), count.min(items.len()));
            assert!(some.iter().all(|(index, n)| items[*index] == *n));
            let rest: HashMap<_, _> = numbered.skip(count).collect();
            assert_eq!(rest.len(), items.len().saturating_sub(count));
            assert!(rest.iter().all(|(index, n)| items[*index] == *n));
        });
    }

    #[test]
    fn take_while_and_skip_while(items in numbers(), limit in 0..110_u32) {
        same!(items, |query| query.take_while(|n| *n < limit),
            items.iter().copied().take_while(|n| *n < limit).collect());
        same!(items, |query| query.skip_while(|n| *n < limit).map(|n| n / 2),
            items.iter().copied().skip_while(|n| *n < limit).map(|n| n / 2).collect());
        same!(items, |query| query.flat_map(|n| [n, n / 2]).skip_while(|n| *n < limit).take_while(|n| *n > 3),
            items.iter().flat_map(|n| [*n, n / 2]).skip_while(|n| *n < limit).take_while(|n| *n > 3).collect());
    }

    #[test]
    fn distinct_and_sets(items in numbers(), others in numbers()) {
        let set: HashSet<_> = others.iter().copied().collect();
        same!(items, |query| query.distinct(), first_of_each(&items, |n| *n));
        let all: Vec<_> = items.iter().chain(&others).copied().collect();
        same!(items, |query| query.union(others.clone()), first_of_each(&all, |n| *n));
        let both: Vec<_> = items.iter().copied().filter(|n| set.contains(n)).collect();
        same!(items, |query| query.intersect(others.clone()), first_of_each(&both, |n| *n));
        let only: Vec<_> = items.iter().copied().filter(|n| !set.contains(n)).collect();
        same!(items, |query| query.except(others.clone()), first_of_each(&only, |n| *n));
        every_way!(items, |query| {
            assert_eq!(query.clone().distinct_by(|n| n % 10).to_vec(), first_of_each(&items, |n| n % 10));
            let some = query.as_unordered().distinct_by(|n| n % 10).to_vec();
            assert!(some.iter().all(|n| items.contains(n)));
            let keys = |items: &[u32]| sorted(items.iter().map(|n| n % 10).collect());
            assert_eq!(keys(&some), keys(&first_of_each(&items, |n| n % 10)));
        });
    }

    #[test]
    fn grouping(items in numbers()) {
        for modulus in [1, 7, 1000] {
            let expected = groups(&items, |n| n % modulus);
            every_way!(items, |query| {
                assert_eq!(query.clone().group_by(|n| n % modulus).to_vec(), expected);
                let mut groups = query.as_unordered().group_by(|n| n % modulus).to_vec();
                let mut expected = expected.clone();
                for groups in [&mut groups, &mut expected] {
                    groups.sort_by_key(|group| group.key);
                    groups.iter_mut().for_each(|group| group.items.sort_unstable());
                }
                assert_eq!(groups, expected);
            });
        }
    }

    #[test]
    fn joining(items in vec(0..60_u32, 0..200), others in vec(0..60_u32, 0..200)) {
        let others: Vec<_> = others.into_iter().enumerate().collect();
        let pairs = items.iter().flat_map(|n| {
            others.iter().filter(move |(_, other)| other == n).map(|(index, other)| (*n, *index, *other))
        });
        let pairs: Vec<_> = pairs.collect();
        same!(items, |query| query.join(&others, |n| *n, |(_, n)| *n, |n, (index, other)| (*n, *index, *other)),
            pairs.clone());
        let grouped: Vec<_> = items.iter().map(|n| {
            (*n, others.iter().filter(|(_, other)| other == n).map(|(index, _)| *index).collect::<Vec<_>>())
        }).collect();
        same!(items, |query| query.group_join(others.clone(), |n| *n, |(_, n)| *n, |n, others| {
            (n, others.map(|(index, _)| *index).collect::<Vec<_>>())
        }), grouped.clone());
        // The chunks of a join are also taken item by item.
        every_way!(items, |query| {
            let joined = query.join(&others, |n| *n, |(_, n)| *n, |n, (index, other)| (*n, *index, *other));
            assert_eq!(joined.take(pairs.len() / 2).to_vec(), pairs[..pairs.len() / 2]);
        });
    }

    #[test]
    fn ordering(items in numbers()) {
        every_way!(items, |query| {
            let numbered = query.enumerate();
            let mut expected: Vec<_> = items.iter().copied().enumerate().collect();
            expected.sort_by_key(|(_, n)| n % 10);
            assert_eq!(numbered.clone().order_by(|(_, n)| n % 10).to_vec(), expected);
            expected.sort_by_key(|(_, n)| std::cmp::Reverse(n % 10));
            assert_eq!(numbered.clone().filter(|_| true).as_unordered().order_by_descending(|(_, n)| n % 10).then_by(|(index, _)| *index).to_vec(), {
                let mut expected = expected.clone();
                expected.sort_by_key(|(index, n)| (std::cmp::Reverse(n % 10), *index));
                expected
            });
            expected.sort_by_key(|(index, n)| (n % 10, n % 7, std::cmp::Reverse(*index)));
            let ordered = numbered.order_with(|one, other| (one.1 % 10).cmp(&(other.1 % 10)));
            let ordered = ordered.then_with(|one, other| (one.1 % 7).cmp(&(other.1 % 7)));
            assert_eq!(ordered.then_by_descending(|(index, _)| *index).to_vec(), expected);
        });
        same!(items, |query| query.reverse(), items.iter().rev().copied().collect());
        same!(items, |query| query.filter(|n| n % 2 == 0).reverse(),
            items.iter().rev().copied().filter(|n| n % 2 == 0).collect());
    }
}

#[test]
fn many_rows() {
    let rows: Vec<(u32, u32)> =
        (0..30_000).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 8, n)).collect();
    for threads in [1, 4] {
        for keys in [3, 500, u32::MAX] {
            let mut expected = rows.clone();
            expected.sort_by_key(|(key, _)| key % keys);
            let query = rows.as_parallel().cloned().with_threads(threads);
            assert!(query.clone().order_by(|(key, _)| key % keys).to_vec() == expected);

            let mut expected: Vec<Group<u32, u32>> = Vec::new();
            let mut index = HashMap::new();
            for (key, n) in &rows {
                let at = *index.entry(key % keys).or_insert_with(|| {
                    expected.push(Group { key: key % keys, items: Vec::new() });
                    expected.len() - 1
                });
                expected[at].items.push(*n);
            }
            let groups = query.clone().group_by(|(key, _)| key % keys);
            let numbers = groups.map(|group| Group {
                key: group.key,
                items: group.items.iter().map(|(_, n)| *n).collect(),
            });
            assert!(numbers.to_vec() == expected);
            let distinct: Vec<_> = expected.iter().map(|group| group.key).collect();
            assert!(query.clone().map(|(key, _)| key % keys).distinct().to_vec() == distinct);
            let firsts: Vec<_> = expected.iter().map(|group| group.items[0]).collect();
            assert!(
                query.clone().distinct_by(|(key, _)| key % keys).map(|(_, n)| n).to_vec() == firsts
            );
            if keys > 3 {
                let joined = query.clone().join(
                    &rows,
                    |(key, _)| key % keys,
                    |(key, _)| key % keys,
                    |one, other| (one.1, other.1),
                );
                let pairs = rows.iter().flat_map(|(key, n)| {
                    expected[index[&(key % keys)]].items.iter().map(move |other| (*n, *other))
                });
                assert!(joined.to_vec() == pairs.collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn queries_in_queries() {
    let table = (0..40_u64).as_parallel().with_threads(4).map(|row| {
        (0..200)
            .as_parallel()
            .with_threads(4)
            .inspect(crate::dawdle)
            .map(|column| row * column)
            .sum::<u64>()
    });
    assert_eq!(table.to_vec(), (0..40).map(|row| row * 199 * 100).collect::<Vec<_>>());
    // One query as the input of another, with settings of its own that do not matter.
    let inner = (0..100).as_parallel().with_threads(3).filter(|n| n % 2 == 0);
    assert_eq!((0..100).as_parallel().except(inner).count(), 50);
}

#[test]
fn a_range_of_every_type() {
    assert_eq!((-128..=127_i8).as_parallel().map(i32::from).sum::<i32>(), -128);
    assert_eq!((0..=u8::MAX).into_parallel().skip(250).to_vec(), [250, 251, 252, 253, 254, 255]);
    assert_eq!((i64::MIN..i64::MAX).as_parallel().take(2).to_vec(), [i64::MIN, i64::MIN + 1]);
    assert_eq!((5..=5_usize).as_parallel().to_vec(), [5]);
    #[expect(clippy::reversed_empty_ranges, reason = "that is the case")]
    let empty = (7..3_u32).as_parallel().to_vec();
    assert_eq!(empty, []);
    let mut used_up = 0..=3_u16;
    used_up.by_ref().for_each(drop);
    assert_eq!(used_up.as_parallel().count(), 0);
}

#[test]
fn a_mutable_slice() {
    for threads in [1, 4] {
        let mut items: Vec<u32> = (0..1000).collect();
        (&mut items)
            .into_parallel()
            .with_threads(threads)
            .inspect(crate::dawdle)
            .skip(10)
            .for_all(|n| *n += 1);
        assert!((0..10).chain(11..=1000).eq(items));
    }
}
