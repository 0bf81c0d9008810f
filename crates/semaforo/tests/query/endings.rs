//! Queries that end before their items do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use semaforo::Event;
use semaforo::query::prelude::*;
use semaforo::tasks::{Pool, Shutdown};

use crate::dawdle;
use crate::support::Tally;

/// Endless, and slow enough that several threads take part.
macro_rules! endless {
    ($threads:expr) => {
        (0_u64..).chunked_parallel().with_threads($threads).inspect(dawdle)
    };
}

#[test]
fn an_endless_iterator() {
    for threads in [1, 4] {
        assert_eq!(endless!(threads).first(), Some(0));
        assert_eq!(endless!(threads).filter(|n| n % 1000 == 999).first(), Some(999));
        assert_eq!(endless!(threads).find(|n| *n > 500), Some(501));
        assert!(endless!(threads).any(|n| n == 1234));
        assert!(!endless!(threads).all(|n| n < 1234));
        assert!(endless!(threads).contains(&777));
        assert_eq!(endless!(threads).element_at(300), Some(300));
        assert_eq!(endless!(threads).filter(|n| n % 2 == 1).element_at(300), Some(601));
        assert_eq!(endless!(threads).take(5).to_vec(), [0, 1, 2, 3, 4]);
        assert_eq!(endless!(threads).filter(|n| n % 3 == 0).take(400).sum::<u64>(), 3 * 399 * 200);
        assert_eq!(endless!(threads).as_unordered().take(300).distinct().count(), 300);
        assert_eq!(endless!(threads).skip(100).take(2).to_vec(), [100, 101]);
        assert_eq!(endless!(threads).take_while(|n| *n < 400).count(), 400);
        assert_eq!(endless!(threads).skip_while(|n| *n < 400).first(), Some(400));
        assert_eq!(endless!(threads).flat_map(|n| n..).take(3).to_vec(), [0, 1, 2]);
        assert_eq!(endless!(threads).concat(0..3).take(3).to_vec(), [0, 1, 2]);
        assert_eq!(endless!(threads).zip(5..8).to_vec(), [(0, 5), (1, 6), (2, 7)]);
    }
}

#[test]
fn the_others_stop_soon() {
    let begun = AtomicUsize::new(0);
    let items = 10_000_000;
    let found = (0..items).as_parallel().with_threads(4).any(|n| {
        begun.fetch_add(1, Ordering::Relaxed);
        dawdle(&n);
        n == 1000
    });
    assert!(found);
    let begun = begun.into_inner();
    assert!(begun < items / 10, "{begun} items were looked at until all threads had stopped");
}

/// A pool that is busy, and one that is shut down, do not help; the query is done all the same.
#[test]
fn without_help_the_calling_thread_does_it_all() {
    let busy = Pool::builder().threads(1).build().unwrap();
    let (begun, go) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let held = busy.spawn({
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        move || {
            begun.set();
            go.happened().wait();
        }
    });
    begun.happened().wait();
    let ended = Pool::builder().threads(2).build().unwrap();
    ended.shutdown(Shutdown::Drain).wait();
    for pool in [&busy, &ended] {
        let query = (0..500_u32).as_parallel().on(pool).with_threads(4).inspect(dawdle);
        let threads = query.map(|_| thread::current().id()).to_vec();
        assert_eq!(threads, [thread::current().id(); 500]);
    }
    go.set();
    held.wait().unwrap();
}

#[test]
fn no_items_and_one() {
    for threads in [1, 4] {
        let none = || Vec::<u32>::new().into_parallel().with_threads(threads);
        assert_eq!(none().to_vec(), []);
        assert_eq!(none().first(), None);
        assert_eq!(none().last(), None);
        assert_eq!(none().min(), None);
        assert_eq!(none().element_at(0), None);
        assert_eq!(none().sum::<u32>(), 0);
        assert_eq!(none().aggregate(|| 7, |seed, _| seed, |one, _| one), 7);
        assert!(none().all(|_| false) && !none().any(|_| true));
        assert!(none().sequence_equal(none()));
        assert_eq!(none().group_by(|n| *n).count(), 0);
        assert_eq!(none().order_by(|n| *n).then_by(|n| *n).to_vec(), []);
        assert_eq!(none().join(0..9, |n| *n, |n| *n, |n, _| *n).to_vec(), []);
        assert_eq!((0..9).as_parallel().join(none(), |n| *n, |n| *n, |n, _| *n).to_vec(), []);
        assert_eq!(none().zip(0..9).count(), 0);
        assert_eq!(none().concat(none()).reverse().distinct().take(3).skip(1).count(), 0);
        assert_eq!(none().into_iter().next(), None);

        let one = || vec![7].into_parallel().with_threads(threads);
        assert_eq!(one().to_vec(), [7]);
        assert_eq!(one().last(), Some(7));
        assert_eq!(one().skip(1).first(), None);
        assert_eq!(one().take(0).first(), None);
        assert_eq!(one().union(one()).to_vec(), [7]);
        assert_eq!(one().into_iter().collect::<Vec<_>>(), [7]);
    }
}

#[test]
fn what_is_left_out_is_dropped_once() {
    for threads in [1, 4] {
        let tally = Tally::new();
        let items = || {
            let items: Vec<_> = (0..300).map(|_| tally.make()).collect();
            items.into_parallel().with_threads(threads).inspect(dawdle)
        };
        assert!(items().any(|item| item.number % 300 == 100));
        tally.expect_all_dropped();
        drop(items().first());
        drop(items().last());
        drop(items().element_at(30));
        tally.expect_all_dropped();
        drop(items().take(40).to_vec());
        drop(items().filter(|item| item.number % 2 == 0).take(40).to_vec());
        drop(items().skip(200).take(40).to_vec());
        drop(items().filter(|item| item.number % 2 == 0).skip(40).to_vec());
        drop(items().take_while(|item| item.number % 300 < 40).to_vec());
        drop(items().skip_while(|item| item.number % 300 < 40).to_vec());
        tally.expect_all_dropped();
        drop(items().zip(0..40).to_vec());
        drop(items().distinct_by(|item| item.number % 9).to_vec());
        drop(items().group_by(|item| item.number % 9).take(3).to_vec());
        drop(items().order_by(|item| item.number % 9).skip(3).to_vec());
        drop(items().join(0..9, |item| item.number % 20, |n| *n, |_, n| *n).to_vec());
        drop(items().concat(items()).skip(310).to_vec());
        tally.expect_all_dropped();
        // Never run at all.
        drop(items());
        tally.expect_all_dropped();
    }
}
