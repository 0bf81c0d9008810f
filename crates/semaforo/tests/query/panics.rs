//! Queries that panic: every panic is reported, and every item is dropped once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use semaforo::query::prelude::*;
use semaforo::query::{Panics, Query};

use crate::dawdle;
use crate::support::{Counted, Tally};

/// Runs what must end with the panics of a query.
#[track_caller]
fn panics_of<R>(run: impl FnOnce() -> R) -> Box<Panics> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(_) => panic!("this should have panicked"),
        Err(payload) => payload.downcast().expect("the payload is not that of a query"),
    }
}

#[test]
fn all_panics_are_collected() {
    // Both are there before either panics.
    let both = Barrier::new(2);
    let panics = panics_of(|| {
        (0..3).as_parallel().with_threads(2).for_all(|n| {
            if n == 0 {
                // Long enough that help is called.
                std::thread::sleep(std::time::Duration::from_millis(1));
            } else {
                both.wait();
                panic!("number {n}");
            }
        })
    });
    let mut messages = panics.messages();
    messages.sort_unstable();
    assert_eq!(messages, ["number 1", "number 2"]);
    assert_eq!(panics.payloads().len(), 2);
    let text = panics.to_string();
    assert!(text.starts_with("a query panicked 2 times: number "), "{text}");
    assert_eq!(panics.into_payloads().len(), 2);
}

#[test]
fn a_payload_that_is_no_message() {
    let panics = panics_of(|| (0..1).as_parallel().for_all(|_| std::panic::panic_any(7_u8)));
    assert_eq!(panics.messages(), ["(not a message)"]);
    assert_eq!(panics.payloads()[0].downcast_ref(), Some(&7_u8));
}

#[test]
fn panics_of_a_query_in_a_query_count_one_by_one() {
    let panics = panics_of(|| {
        (0..3).as_parallel().with_threads(1).for_all(|n| {
            (0..3).as_parallel().with_threads(1).for_all(|m| assert!(n + m != 2, "two"));
        });
    });
    assert_eq!(panics.messages(), ["two"]);
}

#[test]
fn no_chunk_is_begun_after_a_panic() {
    let panics = panics_of(|| {
        (0..u64::MAX).as_parallel().with_threads(4).for_all(|n| {
            dawdle(&n);
            assert!(n < 1000, "too large");
        });
    });
    assert!(panics.payloads().len() <= 4);
}

type Items = Query<semaforo::query::parts::Owned<Counted>>;

/// What is done to them, and its name.
type Case = (&'static str, fn(Items));

/// In a closure that is called with every item: one of them panics.
fn explode(item: &Counted) {
    dawdle(item);
    assert!(item.number % 500 != 250, "item {}", item.number);
}

#[test]
fn every_item_is_dropped_once() {
    let cases: &[Case] = &[
        ("for_all", |query| query.for_all(|item| explode(&item))),
        ("to_vec", |query| drop(query.inspect(explode).to_vec())),
        ("map", |query| {
            drop(
                query
                    .map(|item| {
                        explode(&item);
                        item
                    })
                    .to_vec(),
            )
        }),
        ("filter", |query| {
            drop(
                query
                    .filter(|item| {
                        explode(item);
                        true
                    })
                    .to_vec(),
            )
        }),
        ("flat_map", |query| {
            drop(
                query
                    .flat_map(|item| {
                        explode(&item);
                        [item]
                    })
                    .to_vec(),
            )
        }),
        ("for_each", |query| query.inspect(explode).for_each(drop)),
        ("for_each, consumer", |query| query.for_each(|item| explode(&item))),
        ("into_iter", |query| query.inspect(explode).into_iter().for_each(drop)),
        ("take", |query| drop(query.inspect(explode).filter(|_| true).take(400).to_vec())),
        ("skip", |query| drop(query.inspect(explode).filter(|_| true).skip(400).to_vec())),
        ("take_while", |query| {
            drop(
                query
                    .take_while(|item| {
                        explode(item);
                        true
                    })
                    .to_vec(),
            )
        }),
        ("skip_while", |query| {
            drop(
                query
                    .skip_while(|item| {
                        explode(item);
                        true
                    })
                    .to_vec(),
            )
        }),
        ("zip", |query| drop(query.zip((0..500).as_parallel().map(|n| assert!(n < 300))).to_vec())),
        ("concat", |query| drop(query.inspect(explode).concat(Vec::new()).to_vec())),
        ("distinct_by", |query| {
            drop(
                query
                    .distinct_by(|item| {
                        explode(item);
                        item.number % 7
                    })
                    .to_vec(),
            )
        }),
        ("group_by", |query| {
            drop(
                query
                    .group_by(|item| {
                        explode(item);
                        item.number % 7
                    })
                    .to_vec(),
            )
        }),
        ("join, outer", |query| {
            drop(
                query
                    .join(
                        0..9,
                        |item| {
                            explode(item);
                            1
                        },
                        |n| *n,
                        |_, n| *n,
                    )
                    .to_vec(),
            )
        }),
        ("join, inner", |query| {
            drop(
                (0..9)
                    .as_parallel()
                    .join(
                        query,
                        |_| 1,
                        |item| {
                            explode(item);
                            1
                        },
                        |n, _| *n,
                    )
                    .to_vec(),
            )
        }),
        ("group_join", |query| {
            drop(query.group_join(0..9, |_| 1, |n| *n, |item, _| explode(&item)).to_vec())
        }),
        ("order_by", |query| {
            drop(
                query
                    .order_by(|item| {
                        explode(item);
                        item.number % 7
                    })
                    .to_vec(),
            )
        }),
        ("reverse", |query| drop(query.inspect(explode).reverse().to_vec())),
        ("partition", |query| {
            drop(query.partition(|item| {
                explode(item);
                true
            }))
        }),
        ("to_map", |query| {
            drop(query.to_map(
                |item| {
                    explode(item);
                    item.number % 7
                },
                |item| item,
            ))
        }),
        ("aggregate", |query| {
            drop(query.aggregate(
                Vec::new,
                |mut all, item| {
                    explode(&item);
                    all.push(item);
                    all
                },
                |one, _| one,
            ))
        }),
        ("aggregate, merge", |query| {
            query.inspect(dawdle).aggregate(
                Vec::new,
                |mut all, item| {
                    all.push(item);
                    all
                },
                |_, _| panic!("merge"),
            );
            panic!("there may be nothing to merge");
        }),
        ("min_by", |query| {
            drop(query.min_by(|one, other| {
                // A chunk may begin with it.
                explode(one);
                explode(other);
                one.number.cmp(&other.number)
            }))
        }),
        ("any", |query| {
            assert!(!query.any(|item| {
                explode(&item);
                false
            }))
        }),
    ];
    for threads in [1, 4] {
        for (name, case) in cases {
            let tally = Tally::new();
            let items: Vec<_> = (0..500).map(|_| tally.make()).collect();
            let ending = catch_unwind(AssertUnwindSafe(|| {
                case(items.into_parallel().with_threads(threads))
            }));
            assert!(ending.is_err(), "{name} should have panicked");
            assert_eq!(
                tally.dropped(),
                (0..500).collect::<Vec<_>>(),
                "{name} with {threads} threads"
            );
        }
    }
}

#[test]
fn a_comparison_that_panics_in_a_large_sort() {
    for threads in [1, 2, 4] {
        for fatal in [1000, 60_000, 120_000, 170_000] {
            let tally = Tally::new();
            let items: Vec<_> = (0..10_000).map(|_| tally.make()).collect();
            let left = std::sync::atomic::AtomicUsize::new(fatal);
            let sorted = items.into_parallel().with_threads(threads).order_by(|item| {
                use std::sync::atomic::Ordering::Relaxed;
                assert!(left.fetch_sub(1, Relaxed) != 1, "enough");
                item.number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            });
            let ending = catch_unwind(AssertUnwindSafe(|| drop(sorted.to_vec())));
            // A few counts after the last comparison it ends well.
            if let Err(payload) = ending {
                assert_eq!(payload.downcast::<Panics>().unwrap().messages()[0], "enough");
            }
            tally.expect_all_dropped();
        }
    }
}

#[test]
fn an_iterator_that_panics_is_not_asked_again() {
    let mut left = 300;
    let iterator = std::iter::from_fn(move || {
        assert!(left > 0, "asked once too often");
        left -= 1;
        Some(left)
    });
    let panics = panics_of(|| iterator.chunked_parallel().with_threads(4).inspect(dawdle).count());
    assert_eq!(panics.messages(), ["asked once too often"]);
}

#[test]
fn items_whose_drop_panics() {
    struct Fragile(u32);
    impl Drop for Fragile {
        fn drop(&mut self) {
            assert!(self.0 != 100 || std::thread::panicking(), "fragile");
        }
    }
    let items: Vec<_> = (0..300).map(Fragile).collect();
    let panics = panics_of(|| items.into_parallel().with_threads(4).inspect(dawdle).for_all(drop));
    assert_eq!(panics.messages(), ["fragile"]);
}

/// A payload that panics in its own `drop`: what the query panicked with can be dropped all the same.
#[test]
fn a_payload_that_panics_when_it_is_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload");
        }
    }
    let run = || {
        (0..100).as_parallel().for_all(|n| {
            if n == 42 {
                std::panic::panic_any(Bomb)
            }
        })
    };
    let ended = catch_unwind(run);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(ended)));
    assert!(dropped.is_ok());
}
