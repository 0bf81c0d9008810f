//! Items that are consumed while others are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use semaforo::query::{Merge, prelude::*};

use crate::support::Tally;
use crate::{dawdle, sorted};

const MERGES: [Merge; 3] = [Merge::Auto, Merge::None, Merge::Full];

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_same_items(items in vec(0..100_u32, 0..400)) {
        let expected: Vec<_> = items.iter().flat_map(|n| 0..n % 3).collect();
        for (merge, threads) in MERGES.into_iter().flat_map(|merge| [(merge, 1), (merge, 4)]) {
            let query = || {
                let query = items.clone().into_parallel().inspect(dawdle).flat_map(|n| 0..n % 3);
                query.with_threads(threads).with_merge(merge)
            };
            prop_assert_eq!(&query().into_iter().collect::<Vec<_>>(), &expected);
            let unordered = query().as_unordered().into_iter().collect();
            prop_assert_eq!(sorted(unordered), sorted(expected.clone()));
            let mut seen = Vec::new();
            query().for_each(|n| seen.push(n));
            prop_assert_eq!(&seen, &expected);
            seen.clear();
            query().as_unordered().for_each(|n| seen.push(n));
            prop_assert_eq!(sorted(seen), sorted(expected.clone()));
            // Chunks of an iterator, of two sources, and of what is left when some were skipped.
            let chunked = items.clone().into_iter().chunked_parallel().inspect(dawdle).with_threads(threads);
            let chunked = chunked.with_merge(merge).filter(|n| n % 2 == 0).skip(5).concat(7..9);
            let expected = items.iter().copied().filter(|n| n % 2 == 0).skip(5).chain(7..9);
            prop_assert!(chunked.into_iter().eq(expected));
        }
    }
}

#[test]
fn an_endless_query() {
    for (merge, threads) in [(Merge::Auto, 1), (Merge::Auto, 4), (Merge::None, 1), (Merge::None, 4)]
    {
        let query =
            || (0_u64..).chunked_parallel().inspect(dawdle).with_threads(threads).with_merge(merge);
        assert!(query().into_iter().take(2000).eq(0..2000));
        let seen: std::collections::HashSet<_> =
            query().as_unordered().into_iter().take(2000).collect();
        assert_eq!(seen.len(), 2000);
    }
}

#[test]
fn those_who_make_are_not_far_ahead() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let query = (0..u64::MAX).as_parallel().with_threads(4).inspect(move |n| {
        dawdle(n);
        count.fetch_add(1, Ordering::Relaxed);
    });
    let mut items = query.into_iter();
    for expected in 0..1000 {
        assert_eq!(items.next(), Some(expected));
    }
    // Nobody makes any when the window is full: then the number stays the same for a while.
    crate::support::eventually("all have stopped", || {
        let now = made.load(Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(5));
        made.load(Ordering::Relaxed) == now
    });
    let made = made.load(Ordering::Relaxed);
    assert!((1000..101_000).contains(&made), "{made} items were made");
    assert_eq!(items.next(), Some(1000));
}

#[test]
fn one_at_a_time() {
    // With this merge an item is there before the next one is made, if it is made by the consumer.
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let query = (0..100).as_parallel().with_threads(1).with_merge(Merge::None).inspect(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    for (number, item) in query.into_iter().enumerate() {
        assert_eq!((item, made.load(Ordering::Relaxed)), (number, number + 1));
    }
}

#[test]
fn dropping_stops_those_who_make_and_waits_for_them() {
    for (threads, take) in [(1, 0), (1, 100), (4, 0), (4, 1), (4, 300), (4, 2000), (4, 5000)] {
        let tally = Tally::new();
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&dropped);
        let items: Vec<_> = (0..5000).map(|_| tally.make()).collect();
        let query = items.into_parallel().with_threads(threads).inspect(move |item| {
            dawdle(item);
            assert!(!flag.load(Ordering::SeqCst), "still at work");
        });
        let mut iterator = query.into_iter();
        assert_eq!(iterator.by_ref().take(take).count(), take);
        drop(iterator);
        dropped.store(true, Ordering::SeqCst);
        tally.expect_all_dropped();
    }
}

#[test]
fn a_panic_reaches_the_consumer() {
    for threads in [1, 4] {
        let query = (0..5000).as_parallel().with_threads(threads).map(|n| {
            dawdle(&n);
            assert!(n != 3000, "three thousand");
            n
        });
        let mut seen = 0;
        let ending = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            query.into_iter().for_each(|n| {
                assert_eq!(n, seen);
                seen += 1;
            });
        }));
        let panics = ending.unwrap_err().downcast::<semaforo::query::Panics>().unwrap();
        assert_eq!(panics.messages(), ["three thousand"]);
        assert!(seen <= 3000);
    }
}

#[test]
fn operators_that_need_all_of_their_input() {
    let sorted =
        (0..3000_u32).as_parallel().with_threads(4).order_by(|n| n.wrapping_mul(2_654_435_761));
    let mut expected: Vec<_> = (0..3000_u32).collect();
    expected.sort_by_key(|n| n.wrapping_mul(2_654_435_761));
    assert!(sorted.into_iter().eq(expected));
}
