//! Queries that are cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semaforo::CancelSource;
use semaforo::query::{Cancelled, prelude::*};

use crate::dawdle;
use crate::support::Tally;

#[test]
fn a_token_that_never_fires_changes_nothing_but_the_type() {
    let token = CancelSource::new().token();
    for threads in [1, 4] {
        let query =
            || (0..500).as_parallel().with_threads(threads).inspect(dawdle).with_cancel(&token);
        assert_eq!(query().count(), Ok(500));
        assert_eq!(query().to_vec(), Ok((0..500).collect()));
        assert_eq!(query().map(|n| n % 2).distinct().to_vec(), Ok(vec![0, 1]));
        assert_eq!(query().order_by_descending(|n| *n).first(), Ok(Some(499)));
        assert_eq!(query().into_iter().collect::<Result<Vec<_>, _>>(), Ok((0..500).collect()));
        let mut seen = Vec::new();
        assert_eq!(query().for_each(|n| seen.push(n)), Ok(()));
        assert!((0..500).eq(seen));
    }
}

#[test]
fn a_token_that_has_fired() {
    let source = CancelSource::new();
    source.cancel();
    let query = || (0..500).as_parallel().with_threads(4).with_cancel(&source.token());
    assert_eq!(query().map(|_| panic!("nothing is begun")).count(), Err(Cancelled));
    assert_eq!(query().group_by(|n| *n).count(), Err(Cancelled));
    assert_eq!(query().into_iter().collect::<Vec<_>>(), [Err(Cancelled)]);
    let mut ordered = query().order_by(|n| *n).into_iter();
    assert_eq!(ordered.next(), Some(Err(Cancelled)));
    assert_eq!(ordered.next(), None);
    assert_eq!(query().for_each(|_| panic!("nothing comes")), Err(Cancelled));
    assert_eq!(Cancelled.to_string(), "the query was cancelled");
}

/// Every operator that works on all of its input, and every kind of terminal, cancelled half-way.
#[test]
fn half_way() {
    for threads in [1, 4] {
        let tally = Tally::new();
        macro_rules! cancelled {
            (|$query:ident| $body:expr) => {{
                let source = CancelSource::new();
                let token = source.token();
                let begun = Arc::new(AtomicUsize::new(0));
                let items: Vec<_> = (0..100_000).map(|_| tally.make()).collect();
                let count = Arc::clone(&begun);
                let $query = items
                    .into_parallel()
                    .inspect(move |item| {
                        dawdle(item);
                        if count.fetch_add(1, Ordering::Relaxed) == 500 {
                            source.cancel();
                        }
                    })
                    .with_threads(threads)
                    .with_cancel(&token);
                let outcome = $body;
                assert_eq!(outcome.map(drop), Err(Cancelled));
                let begun = begun.load(Ordering::Relaxed);
                assert!(begun < 90_000, "{begun} items were begun");
            }};
        }
        cancelled!(|query| query.count());
        cancelled!(|query| query.to_vec());
        cancelled!(|query| query.for_all(drop));
        cancelled!(|query| query.any(|_| false));
        cancelled!(|query| query.filter(|_| true).take(99_000).to_vec());
        cancelled!(|query| query.take_while(|_| true).to_vec());
        cancelled!(|query| query.distinct_by(|item| item.number % 9).to_vec());
        cancelled!(|query| query.group_by(|item| item.number % 9).to_vec());
        cancelled!(|query| query.order_by(|item| item.number).to_vec());
        cancelled!(|query| query.join(0..9, |item| item.number % 9, |n| *n, |_, n| *n).to_vec());
        cancelled!(|query| query.for_each(drop));
        cancelled!(|query| query.into_iter().collect::<Result<Vec<_>, _>>());
        tally.expect_all_dropped();
    }
}

#[test]
fn from_outside() {
    let source = CancelSource::new();
    let token = source.token();
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let query = scope.spawn(|| {
            (0_u64..).chunked_parallel().with_cancel(&token).for_all(|_| {
                begun.fetch_add(1, Ordering::Relaxed);
            })
        });
        crate::support::eventually("the query runs", || begun.load(Ordering::Relaxed) > 1000);
        source.cancel();
        assert_eq!(query.join().unwrap(), Err(Cancelled));
    });
}
