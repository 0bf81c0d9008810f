//! What a call costs that need not have been a task: a linear search, as a plain
//! call, as an async function that never waits, as a task that is joined.
//!
//! Figures are ratios to the plain call, which takes turns with the other form.
//! The C# study that these rows repeat had a slower search (57 us among 1 000
//! names), beside which a task looks cheaper.

use std::hint::black_box;
use std::time::Instant;

use super::executor::{AsyncExecutor, Executor, Rayon, Tokio};
use super::ours::Ours;
use crate::measure::percentile;
use crate::row::{Bar, Contestant, Row, Work};

const ANOTHER_MACHINE: &str = "the study's figure, from another machine, runtime and language";

/// The rows for one number of names, and what the study says of it.
struct Case {
    names: usize,
    task: &'static str,
    async_fn: &'static str,
    task_in_csharp: f64,
}

const CASES: [Case; 3] = [
    Case {
        names: 1_000,
        task: "search-task-1000",
        async_fn: "search-async-1000",
        task_in_csharp: 1.29,
    },
    Case {
        names: 10_000,
        task: "search-task-10000",
        async_fn: "search-async-10000",
        task_in_csharp: 1.16,
    },
    Case {
        names: 100_000,
        task: "search-task-100000",
        async_fn: "search-async-100000",
        task_in_csharp: 0.99,
    },
];

const ASYNC_IN_CSHARP: f64 = 1.01;

pub(super) fn rows() -> Vec<Row> {
    CASES.into_iter().flat_map(rows_of).collect()
}

fn rows_of(Case { names, task, async_fn, task_in_csharp }: Case) -> [Row; 2] {
    [
        Row::new(
            task,
            "a search among so many names as a task that is joined from outside, to the plain call",
            move || {
                let prices = price_list(names);
                vec![
                    Contestant::ours(as_a_task(Ours::stealing(), prices)),
                    Contestant::peer("tokio", as_a_task(Tokio, prices)),
                    Contestant::peer("async-executor", as_a_task(AsyncExecutor::get(), prices)),
                    Contestant::peer("rayon", in_a_scope(prices)),
                    in_csharp(task_in_csharp),
                ]
            },
        )
        .unit("ratio")
        .bar(Bar::against("tokio", 1.0)),
        Row::new(
            async_fn,
            "the same as an async function that never waits, awaited in a task, to the plain call",
            move || {
                let prices = price_list(names);
                vec![
                    Contestant::ours(as_an_async_function(Ours::stealing(), prices)),
                    Contestant::peer("tokio", as_an_async_function(Tokio, prices)),
                    in_csharp(ASYNC_IN_CSHARP),
                ]
            },
        )
        .unit("ratio")
        .bar(Bar::limit(1.02)),
    ]
}

fn in_csharp(ratio: f64) -> Contestant {
    Contestant::beside("csharp", Work::Known(ratio)).caveat(ANOTHER_MACHINE)
}

struct Price {
    name: String,
    price: f64,
}

/// Names of one length that differ at their end, so that comparing them is work.
fn price_list(names: usize) -> &'static [Price] {
    let price = |number| Price { name: format!("instrument {number:06}"), price: number as f64 };
    Vec::leak((0..names).map(price).collect())
}

/// The one that makes the search longest.
fn last_name(prices: &'static [Price]) -> &'static str {
    &prices[prices.len() - 1].name
}

/// The same code for all forms: how it is called is what differs.
#[inline(never)]
fn search(prices: &[Price], name: &str) -> Option<f64> {
    prices.iter().find(|price| price.name == name).map(|price| price.price)
}

async fn search_without_waiting(prices: &[Price], name: &str) -> Option<f64> {
    search(prices, name)
}

fn as_a_task(executor: impl Executor, prices: &'static [Price]) -> Work {
    let name = last_name(prices);
    to_the_plain_call(prices, move || {
        executor.wait(executor.spawn(move || search(black_box(prices), name)))
    })
}

fn in_a_scope(prices: &'static [Price]) -> Work {
    let name = last_name(prices);
    to_the_plain_call(prices, move || {
        let mut found = None;
        Rayon.pool().in_place_scope(|scope| {
            scope.spawn(|_| found = search(black_box(prices), name));
        });
        found
    })
}

fn to_the_plain_call(prices: &'static [Price], other: impl Fn() -> Option<f64> + 'static) -> Work {
    let name = last_name(prices);
    Work::counted(move |pairs| {
        let mut times = Times::default();
        for _ in 0..pairs {
            let begin = Instant::now();
            let plain = black_box(search(black_box(prices), name));
            let between = Instant::now();
            assert_eq!(black_box(other()), plain);
            times.note(begin, between);
        }
        times.ratio()
    })
}

fn as_an_async_function(executor: impl Executor, prices: &'static [Price]) -> Work {
    let name = last_name(prices);
    Work::counted(move |pairs| {
        executor.wait(executor.spawn_future(async move {
            let mut times = Times::default();
            for _ in 0..pairs {
                let begin = Instant::now();
                let plain = black_box(search(black_box(prices), name));
                let between = Instant::now();
                assert_eq!(black_box(search_without_waiting(black_box(prices), name).await), plain);
                times.note(begin, between);
            }
            times.ratio()
        }))
    })
}

/// What the plain call and the other form took, in turns.
#[derive(Default)]
struct Times {
    plain: Vec<f64>,
    other: Vec<f64>,
}

impl Times {
    /// The other form has just ended.
    fn note(&mut self, begin: Instant, between: Instant) {
        self.other.push(between.elapsed().as_secs_f64());
        self.plain.push((between - begin).as_secs_f64());
    }

    /// Of the medians: a pair that was interrupted says nothing about either form.
    fn ratio(mut self) -> f64 {
        let median = |times: &mut [f64]| {
            times.sort_by(f64::total_cmp);
            percentile(times, 50)
        };
        median(&mut self.other) / median(&mut self.plain)
    }
}
