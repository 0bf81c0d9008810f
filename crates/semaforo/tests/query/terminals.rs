//! Every terminal yields what an iterator would.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use proptest::collection::vec;
use proptest::prelude::*;
use semaforo::query::prelude::*;

use crate::{every_way, sorted};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn one_value(items in vec(0..200_u32, 0..300), value in 0..200_u32, number in 0..400_usize) {
        every_way!(items, |query| {
            let iter = || items.iter().copied();
            assert_eq!(query.clone().count(), items.len());
            assert_eq!(query.clone().sum::<u32>(), iter().sum::<u32>());
            assert_eq!(query.clone().min(), iter().min());
            assert_eq!(query.clone().max(), iter().max());
            let numbered = query.clone().enumerate();
            assert_eq!(numbered.clone().min_by_key(|(_, n)| n % 5), iter().enumerate().min_by_key(|(_, n)| n % 5));
            assert_eq!(numbered.clone().max_by_key(|(_, n)| n % 5), iter().enumerate().max_by_key(|(_, n)| n % 5));
            assert_eq!(numbered.clone().min_by(|one, other| (one.1 / 9).cmp(&(other.1 / 9))), iter().enumerate().min_by_key(|(_, n)| n / 9));
            assert_eq!(numbered.max_by(|one, other| (one.1 / 9).cmp(&(other.1 / 9))), iter().enumerate().max_by_key(|(_, n)| n / 9));
            let average = iter().map(f64::from).sum::<f64>() / items.len() as f64;
            let ours = query.clone().average();
            assert_eq!(ours.is_some(), !items.is_empty());
            assert!(ours.is_none_or(|ours| (ours - average).abs() < 1e-9));
            assert_eq!(query.clone().any(|n| n == value), iter().any(|n| n == value));
            assert_eq!(query.clone().all(|n| n < value), iter().all(|n| n < value));
            assert_eq!(query.clone().contains(&value), items.contains(&value));
            assert_eq!(query.clone().find(|n| n % 50 == value % 50), iter().find(|n| n % 50 == value % 50));
            assert_eq!(query.clone().first(), iter().next());
            assert_eq!(query.clone().filter(|n| *n > value).first(), iter().find(|n| *n > value));
            assert_eq!(query.clone().last(), iter().next_back());
            assert_eq!(query.clone().filter(|n| *n > value).last(), iter().rfind(|n| *n > value));
            assert_eq!(query.clone().element_at(number), items.get(number).copied());
            assert_eq!(query.clone().filter(|n| *n > value).element_at(number / 4), iter().filter(|n| *n > value).nth(number / 4));
            let digits = query.aggregate(|| [0; 10], |mut counts, n| {
                counts[n as usize % 10] += 1;
                counts
            }, |one, other| std::array::from_fn(|digit| one[digit] + other[digit]));
            let mut expected = [0; 10];
            iter().for_each(|n| expected[n as usize % 10] += 1);
            assert_eq!(digits, expected);
        });
    }

    #[test]
    fn collections(items in vec(0..200_u32, 0..300), change in 0..300_usize) {
        every_way!(items, |query| {
            assert_eq!(query.clone().to_vec(), items);
            assert_eq!(query.clone().collect::<BTreeSet<_>>(), items.iter().copied().collect());
            let map: HashMap<_, _> = items.iter().map(|n| (n % 10, *n)).collect();
            assert_eq!(query.clone().to_map(|n| n % 10, |n| n), map);
            assert_eq!(query.clone().partition(|n| n % 3 == 0), items.iter().copied().partition(|n| n % 3 == 0));
            let seen = Mutex::new(Vec::new());
            query.clone().for_all(|n| seen.lock().unwrap().push(n));
            assert_eq!(sorted(seen.into_inner().unwrap()), sorted(items.clone()));

            assert!(query.clone().sequence_equal(items.clone()));
            assert!(query.clone().sequence_equal(items.as_parallel().cloned().filter(|_| true)));
            let mut others = items.clone();
            others.push(7);
            assert!(!query.clone().sequence_equal(others.clone()));
            others.pop();
            if let Some(other) = others.get_mut(change) {
                *other += 1;
                assert!(!query.sequence_equal(others));
            }
        });
    }
}

#[test]
fn averages() {
    assert_eq!([1.5, 2.5_f64].as_parallel().average(), Some(2.0));
    assert_eq!([u64::MAX, u64::MAX].as_parallel().average(), Some(u64::MAX as f64));
    assert_eq!((-3..=1_i64).as_parallel().average(), Some(-1.0));
    assert_eq!(Vec::<f32>::new().into_parallel().average(), None);
}

/// Borrowed data, a `break`, and what the function returns.
#[test]
fn a_query_over_borrowed_data_is_iterated_with_break() {
    let words: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    for query in [words.as_parallel(), words.as_parallel().with_merge(semaforo::query::Merge::Full)]
    {
        let mut seen = 0;
        let sum = query.map(|word| word.parse::<u64>().unwrap()).iterate(|items| {
            let mut sum = 0;
            for number in items {
                if number == 5000 {
                    break;
                }
                seen += 1;
                sum += number;
            }
            sum
        });
        assert_eq!((seen, sum), (5000, (0..5000).sum()));
    }
    assert_eq!(words.as_parallel().iterate(|items| items.count()), 10_000);
}

#[test]
fn the_first_error_ends_a_loop() {
    let texts: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let mut seen = Vec::new();
    let ended = texts.as_parallel().map(|text| text.len()).try_for_each(|length| {
        seen.push(length);
        if seen.len() == 100 { Err("enough") } else { Ok(()) }
    });
    assert_eq!((ended, seen.len()), (Err("enough"), 100));
    let ended = texts.as_parallel().try_for_each(|_| Ok::<_, ()>(()));
    assert_eq!(ended, Ok(()));
    let stop = semaforo::CancelSource::new();
    stop.cancel();
    let cancelled = texts.as_parallel().with_cancel(&stop.token()).iterate(|items| items.count());
    assert!(cancelled.is_err());
}

#[test]
fn maps_sets_and_deques_can_be_queried() {
    use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
    let pairs = (0..1000_u32).map(|n| (n, n * 2));
    let (hashed, sorted): (HashMap<_, _>, BTreeMap<_, _>) =
        (pairs.clone().collect(), pairs.collect());
    assert_eq!(hashed.as_parallel().map(|(_, double)| *double).sum::<u32>(), 999_000);
    assert!(sorted.as_parallel().map(|(key, _)| *key).to_vec().into_iter().eq(0..1000));
    assert_eq!(hashed.into_parallel().map(|(key, _)| key).max(), Some(999));
    assert_eq!((&sorted).into_parallel().count(), 1000);
    assert_eq!(sorted.into_parallel().first(), Some((0, 0)));
    let (hashed, sorted): (HashSet<_>, BTreeSet<_>) = ((0..100).collect(), (0..100).collect());
    assert_eq!(hashed.as_parallel().count(), 100);
    assert_eq!(hashed.into_parallel().sum::<i32>(), 4950);
    assert!(sorted.as_parallel().cloned().to_vec().into_iter().eq(0..100));
    assert_eq!(sorted.into_parallel().last(), Some(99));
    let deque: VecDeque<_> = (0..10).collect();
    assert!(deque.as_parallel().cloned().to_vec().into_iter().eq(0..10));
    assert_eq!(deque.into_parallel().to_vec().len(), 10);
}
