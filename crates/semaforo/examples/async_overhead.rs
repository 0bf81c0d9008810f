//! What it costs that a method is asynchronous: a study of C#'s `async` and `await` measured a
//! search in a list of share prices in three forms, and so does this.
//!
//! - *FullSync*: a plain call;
//! - *FullAsync*: an async function that starts the search as a task of a pool, and awaits it;
//! - *FakeAsync*: an async function that calls the search, and never waits.
//!
//! As in the study, the list is built inside the measured method, and what is searched for is its
//! last name. The forms take turns. The error is half of the interval of 99 % confidence, the ratio
//! is that of the means; runs that were interrupted are left out, as the study's tool does.
//!
//! `cargo run --release -p semaforo --example async_overhead`

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use semaforo::tasks::Pool;

mod study;
use study::summary::Summary;

const USAGE: &str = "\
usage: async_overhead [--seconds NUMBER]

  --seconds NUMBER   measures each size for so long; 1.5 unless said";

/// A row of the study's table: how many names, and its ratios to FullSync.
struct Row {
    names: usize,
    full_async: f64,
    fake_async: f64,
}

const STUDY: [Row; 3] = [
    Row { names: 1_000, full_async: 1.290, fake_async: 1.010 },
    Row { names: 10_000, full_async: 1.157, fake_async: 1.016 },
    Row { names: 100_000, full_async: 0.994, fake_async: 1.017 },
];

struct StockPrices {
    prices: Vec<(String, f64)>,
}

impl StockPrices {
    /// The same code for all forms, as the search: how they are called is what differs.
    #[inline(never)]
    fn new(names: usize) -> Self {
        Self { prices: (0..names).map(|number| (number.to_string(), number as f64)).collect() }
    }

    #[inline(never)]
    fn search(&self, name: &str) -> Option<f64> {
        self.prices.iter().find(|(of, _)| of == name).map(|(_, price)| *price)
    }

    /// What the search runs longest for.
    fn last(names: usize) -> String {
        (names - 1).to_string()
    }
}

fn full_sync(names: usize) -> Option<f64> {
    let prices = StockPrices::new(black_box(names));
    prices.search(&StockPrices::last(names))
}

async fn full_async(pool: &Pool, names: usize) -> Option<f64> {
    let prices = Arc::new(StockPrices::new(black_box(names)));
    let search = pool.spawn({
        let prices = Arc::clone(&prices);
        move || prices.search(&StockPrices::last(names))
    });
    search.await.expect("the search does not panic")
}

async fn fake_async(names: usize) -> Option<f64> {
    let prices = StockPrices::new(black_box(names));
    prices.search(&StockPrices::last(names))
}

/// The summaries of the three forms.
fn measure(pool: &Pool, names: usize, time: Duration) -> [Summary; 3] {
    let forms: [&dyn Fn() -> Option<f64>; 3] =
        [&|| full_sync(names), &|| block_on(full_async(pool, names)), &|| {
            block_on(fake_async(names))
        }];
    let mut times = [const { Vec::new() }; 3];
    let start = Instant::now();
    while start.elapsed() < time || times[0].len() < 5 {
        for (form, times) in forms.iter().zip(&mut times) {
            // Not measured: what another form has left in the caches is not this one's doing.
            black_box(form());
            let begin = Instant::now();
            let price = black_box(form());
            times.push(begin.elapsed());
            assert_eq!(price, Some((names - 1) as f64), "it has found another price");
        }
    }
    times.map(|times| Summary::without_outliers(&times))
}

/// Three forms, with their names and figures.
fn columns(forms: [String; 4]) -> String {
    let [names, sync, whole, fake] = forms;
    format!("{names:>8} | {sync:^17} | {whole:^35} | {fake:^35}")
}

/// The head of the table, and a row for each of the study's, as it is measured: an item is a line.
fn table(time: Duration) -> impl Iterator<Item = String> {
    let pool = Pool::new();
    let forms = ["", "FullSync", "FullAsync", "FakeAsync"].map(String::from);
    let of_a_form = format!("{:>9} {:>7} {:>8} {:>8}", "mean", "error", "ours", "study");
    let of_sync = format!("{:>9} {:>7}", "mean", "error");
    let head = [columns(forms), columns(["names".into(), of_sync, of_a_form.clone(), of_a_form])];
    let rows = STUDY.into_iter().map(move |Row { names, full_async, fake_async }| {
        let [sync, whole, fake] = measure(&pool, names, time);
        let of_a_form = |form: &Summary, study: f64| {
            let ours = form.mean / sync.mean;
            format!("{:>9.4} {:>7.4} {ours:>8.2} {study:>8.2}", form.mean, form.error)
        };
        let of_sync = format!("{:>9.4} {:>7.4}", sync.mean, sync.error);
        let (whole, fake) = (of_a_form(&whole, full_async), of_a_form(&fake, fake_async));
        columns([names.to_string(), of_sync, whole, fake])
    });
    head.into_iter().chain(rows)
}

fn run(time: Duration) {
    println!("A list of share prices is built and searched to its end; milliseconds.");
    table(time).for_each(|line| println!("{line}"));
    println!("`ours` and `study` are the ratios to FullSync.");
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let seconds = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Some(1.5),
        ["--seconds", number] => {
            number.parse().ok().filter(|seconds| (0.0..=3600.0).contains(seconds))
        }
        _ => None,
    };
    let Some(seconds) = seconds else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    run(Duration::from_secs_f64(seconds));
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_finds_the_last_price() {
        let pool = Pool::new();
        for names in [1, 10, 1000] {
            let expected = Some((names - 1) as f64);
            assert_eq!(full_sync(names), expected);
            assert_eq!(block_on(full_async(&pool, names)), expected);
            assert_eq!(block_on(fake_async(names)), expected);
        }
    }

    #[test]
    fn a_measurement_has_a_mean_and_an_error_for_each_form() {
        for summary in measure(&Pool::new(), 1000, Duration::ZERO) {
            assert!(summary.mean > 0.0 && summary.error.is_finite(), "{summary:?}");
        }
    }

    /// The words or numbers of a line, by form.
    fn cells(line: &str) -> Vec<Vec<&str>> {
        line.split('|').map(|form| form.split_whitespace().collect()).collect()
    }

    #[test]
    fn the_table_has_ours_beside_the_studys_ratios_in_three_rows() {
        let lines: Vec<_> = table(Duration::ZERO).collect();
        let [forms, head, rows @ ..] = &lines[..] else { panic!("{lines:#?}") };
        assert_eq!(cells(forms), [&[][..], &["FullSync"], &["FullAsync"], &["FakeAsync"]]);
        let measured = &["mean", "error", "ours", "study"][..];
        assert_eq!(cells(head), [&["names"][..], &measured[..2], measured, measured]);
        let study =
            [("1000", "1.29", "1.01"), ("10000", "1.16", "1.02"), ("100000", "0.99", "1.02")];
        assert_eq!(rows.len(), study.len());
        for (row, (names, full_async, fake_async)) in rows.iter().zip(study) {
            let cells = cells(row);
            assert_eq!(cells[0], [names]);
            assert_eq!([cells[2][3], cells[3][3]], [full_async, fake_async], "{row}");
            let numbers = cells.iter().flatten().map(|number| number.parse::<f64>());
            assert!(
                numbers.clone().all(|number| number.is_ok_and(|number| number >= 0.0)),
                "{row}"
            );
            assert_eq!(numbers.count(), 1 + 2 + 4 + 4, "{row}");
        }
    }
}
