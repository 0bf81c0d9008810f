//! What a call costs that need not have been a task: a list of share prices is built
//! and searched to its end, by a plain call, by an async function that never waits, by
//! a task that is joined.
//!
//! The program of a C# study, and of the example `async_overhead`: the list is built
//! inside what is measured. Figures are ratios to the plain call, which takes turns
//! with the other form; the bar is the study's ratio.

use std::hint::black_box;
use std::sync::Arc;
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
    async_in_csharp: f64,
}

const CASES: [Case; 3] = [
    Case {
        names: 1_000,
        task: "search-task-1000",
        async_fn: "search-async-1000",
        task_in_csharp: 1.290,
        async_in_csharp: 1.010,
    },
    Case {
        names: 10_000,
        task: "search-task-10000",
        async_fn: "search-async-10000",
        task_in_csharp: 1.157,
        async_in_csharp: 1.016,
    },
    Case {
        names: 100_000,
        task: "search-task-100000",
        async_fn: "search-async-100000",
        task_in_csharp: 0.994,
        async_in_csharp: 1.017,
    },
];

pub(super) fn rows() -> Vec<Row> {
    CASES.into_iter().flat_map(rows_of).collect()
}

fn rows_of(Case { names, task, async_fn, task_in_csharp, async_in_csharp }: Case) -> [Row; 2] {
    // Among few names the search is over sooner than a thread is woken: beside a peer, not beside a study.
    let bar = match names {
        1_000 => Bar::against("tokio", 1.0),
        _ => Bar::limit(task_in_csharp),
    };
    [
        Row::new(
            task,
            "a list built and searched, the search as a task that is awaited, to the plain call",
            move || {
                vec![
                    Contestant::ours(as_a_task(Ours::stealing(), names)),
                    Contestant::peer("tokio", as_a_task(Tokio, names)),
                    Contestant::peer("async-executor", as_a_task(AsyncExecutor::get(), names)),
                    Contestant::peer("rayon", in_a_scope(names)),
                    in_csharp(task_in_csharp),
                ]
            },
        )
        .unit("ratio")
        .bar(bar),
        Row::new(
            async_fn,
            "the same as an async function that never waits, awaited in a task, to the plain call",
            move || {
                vec![
                    Contestant::ours(as_an_async_function(Ours::stealing(), names)),
                    Contestant::peer("tokio", as_an_async_function(Tokio, names)),
                    in_csharp(async_in_csharp),
                ]
            },
        )
        .unit("ratio")
        .bar(Bar::limit(async_in_csharp)),
    ]
}

fn in_csharp(ratio: f64) -> Contestant {
    Contestant::beside("csharp", Work::Known(ratio)).caveat(ANOTHER_MACHINE)
}

struct StockPrices {
    prices: Vec<(String, f64)>,
}

impl StockPrices {
    fn new(names: usize) -> StockPrices {
        let prices = (0..black_box(names)).map(|number| (number.to_string(), number as f64));
        StockPrices { prices: prices.collect() }
    }

    /// For the last name, which makes the search longest. The same code for all
    /// forms: how it is called is what differs.
    #[inline(never)]
    fn search(&self, names: usize) -> Option<f64> {
        let last = (names - 1).to_string();
        self.prices.iter().find(|(name, _)| *name == last).map(|(_, price)| *price)
    }
}

fn full_sync(names: usize) -> Option<f64> {
    StockPrices::new(names).search(names)
}

async fn fake_async(names: usize) -> Option<f64> {
    StockPrices::new(names).search(names)
}

fn as_a_task(executor: impl Executor, names: usize) -> Work {
    to_the_plain_call(names, move || {
        let prices = Arc::new(StockPrices::new(names));
        let searched = Arc::clone(&prices);
        executor.wait(executor.spawn(move || searched.search(names)))
    })
}

fn in_a_scope(names: usize) -> Work {
    to_the_plain_call(names, move || {
        let prices = StockPrices::new(names);
        let mut found = None;
        Rayon.pool().in_place_scope(|scope| {
            scope.spawn(|_| found = prices.search(names));
        });
        found
    })
}

fn to_the_plain_call(names: usize, other: impl Fn() -> Option<f64> + 'static) -> Work {
    Work::counted(move |pairs| {
        let mut times = Times::default();
        for _ in 0..pairs {
            let begin = Instant::now();
            let plain = black_box(full_sync(names));
            let between = Instant::now();
            assert_eq!(black_box(other()), plain);
            times.note(begin, between);
        }
        times.ratio()
    })
}

fn as_an_async_function(executor: impl Executor, names: usize) -> Work {
    Work::counted(move |pairs| {
        executor.wait(executor.spawn_future(async move {
            let mut times = Times::default();
            for _ in 0..pairs {
                let begin = Instant::now();
                let plain = black_box(full_sync(names));
                let between = Instant::now();
                assert_eq!(black_box(fake_async(names).await), plain);
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
