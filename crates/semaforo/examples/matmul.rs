//! Matrix multiplication, a row at a time, on more and more threads, and what that gains: the
//! tables of a study of C#'s parallel queries, with the mean of several runs, their standard
//! deviation, the 95th percentile, and the speed-up. Runs that were interrupted are left out, as the
//! study's tool does.
//!
//! The kernels are naive, so that what is measured is the division of labour. A good one, such as
//! those of the crates `gemm`, `faer` and `matrixmultiply`, is many times as fast on one thread.
//!
//! `cargo run --release -p semaforo --example matmul -- --n 1000 --threads 1,2,6,12`
//!
//! With `--study` it repeats the study: its sizes, its order of the loops, its numbers of threads,
//! its ten runs, as far as the time allows, with the study's own figures beside ours, and bar
//! charts in the terminal and as SVG. The study's machine had six cores with two threads each.
//!
//! `cargo run --release -p semaforo --example matmul -- --study`

use std::error::Error;
use std::hint::black_box;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use semaforo::query::prelude::*;
use semaforo::tasks::Pool;

mod study;
use study::chart::{Chart, Form, save};
use study::summary::Summary;

const USAGE: &str = "\
usage: matmul [--study [--minutes NUMBER] [--svg FILE]]
              [--n LIST] [--threads LIST] [--runs NUMBER] [--kernel ijk|ikj]

  --n LIST          multiplies two matrices of each size; 400 unless said
  --threads LIST    on so many threads each; 1,2,6,12 unless said
  --runs NUMBER     so many times each; 10 unless said
  --kernel ORDER    the order of the loops: ijk walks down the columns; ikj along the rows, and is
                    taken unless said

  --study           repeats the study: sizes 1000, 2000, 3000 and kernel ijk, unless said
  --minutes NUMBER  for about so long: fewer runs where they are long, and no size that is too
                    large; 10 unless said
  --svg FILE        where to draw the charts; in the temporary directory unless said";

type Matrix = Vec<Vec<f64>>;

/// One row of a product.
type Kernel = fn(&[f64], &Matrix) -> Vec<f64>;

/// Every element in turn.
fn ijk(row: &[f64], right: &Matrix) -> Vec<f64> {
    (0..right[0].len()).map(|j| row.iter().zip(right).map(|(a, b)| a * b[j]).sum()).collect()
}

/// Every row of the right factor in turn.
fn ikj(row: &[f64], right: &Matrix) -> Vec<f64> {
    let mut product = vec![0.0; right[0].len()];
    for (a, b) in row.iter().zip(right) {
        product.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
    }
    product
}

/// Whether two matrices can be multiplied: a row of the left is as long as a column of the right, and
/// each has rows of one length.
fn check_dimensions(left: &Matrix, right: &Matrix) -> Result<(), String> {
    let columns = right.first().ok_or("the right factor has no rows")?.len();
    if let Some(row) = right.iter().find(|row| row.len() != columns) {
        return Err(format!("the right factor has rows of {columns} and of {}", row.len()));
    }
    match left.iter().find(|row| row.len() != right.len()) {
        Some(row) => Err(format!("rows of {} for columns of {}", row.len(), right.len())),
        None => Ok(()),
    }
}

/// The rows of the left factor are divided among the calling thread and the pool's.
fn product(
    pool: &Pool,
    threads: usize,
    kernel: Kernel,
    left: &Matrix,
    right: &Matrix,
) -> Result<Matrix, String> {
    check_dimensions(left, right)?;
    Ok(left.as_parallel().on(pool).with_threads(threads).map(|row| kernel(row, right)).to_vec())
}

/// Numbers without a pattern, the same at every call.
fn matrix(size: usize, seed: u64) -> Matrix {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / (1_u64 << 31) as f64 - 0.5
    };
    (0..size).map(|_| (0..size).map(|_| number()).collect()).collect()
}

#[derive(Debug)]
struct Options {
    sizes: Vec<usize>,
    threads: Vec<usize>,
    runs: usize,
    kernel: (&'static str, Kernel),
    study: bool,
    minutes: usize,
    svg: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut sizes, mut kernel) = (None, None);
        let mut options = Self {
            sizes: vec![400],
            threads: vec![1, 2, 6, 12],
            runs: 10,
            kernel: ("ikj", ikj),
            study: false,
            minutes: 10,
            svg: None,
        };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{option} needs a value"));
            match option.as_str() {
                "--help" | "-h" => return Ok(None),
                "--study" => options.study = true,
                "--n" => sizes = Some(numbers(&value()?)?),
                "--threads" => options.threads = numbers(&value()?)?,
                "--runs" => options.runs = number(&value()?)?,
                "--minutes" => options.minutes = number(&value()?)?,
                "--svg" => options.svg = Some(value()?.into()),
                "--kernel" => {
                    kernel = Some(match value()?.as_str() {
                        "ijk" => ("ijk", ijk as Kernel),
                        "ikj" => ("ikj", ikj as Kernel),
                        other => return Err(format!("there is no kernel {other:?}: ijk or ikj")),
                    });
                }
                _ => return Err(format!("{option:?} is not an option")),
            }
        }
        if options.study {
            options.sizes = STUDY.iter().map(|of| of.size).collect();
            options.kernel = ("ijk", ijk);
        }
        options.sizes = sizes.unwrap_or(options.sizes);
        options.kernel = kernel.unwrap_or(options.kernel);
        Ok(Some(options))
    }
}

/// Numbers that are not zero, with commas between them.
fn numbers(text: &str) -> Result<Vec<usize>, String> {
    text.split(',').map(number).collect()
}

/// A number that is not zero.
fn number(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above zero")),
    }
}

/// Matrices of one size, to be multiplied again and again.
struct Factors {
    left: Matrix,
    right: Matrix,
    kernel: Kernel,
    /// The product, once it is known.
    product: Option<Matrix>,
}

impl Factors {
    fn new(size: usize, kernel: Kernel) -> Self {
        Self { left: matrix(size, 1), right: matrix(size, 2), kernel, product: None }
    }

    /// How long it takes on so many threads. Rows are divided, sums are not: the result is the same
    /// to the last bit, on however many threads.
    fn multiply(&mut self, pool: &Pool, threads: usize) -> Duration {
        let begin = Instant::now();
        let found = black_box(product(pool, threads, self.kernel, &self.left, &self.right));
        let time = begin.elapsed();
        let found = found.expect("both are squares of one size");
        let expected = self.product.get_or_insert_with(|| found.clone());
        assert!(found == *expected, "{threads} threads have found another product");
        time
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let Options { runs, kernel: (name, kernel), .. } = options;
    let cores = std::thread::available_parallelism()?;
    for size in &options.sizes {
        println!("{size} x {size}, kernel {name}, {runs} runs each, {cores} cores; milliseconds");
        println!(
            "{:>7} {:>10} {:>10} {:>10} {:>8}",
            "threads", "mean", "deviation", "p95", "speed-up"
        );
        let mut factors = Factors::new(*size, *kernel);
        let mut on_one = None;
        for &threads in &options.threads {
            // The calling thread is one of them.
            let pool = Pool::builder().threads(threads).build()?;
            let times: Vec<_> = (0..*runs).map(|_| factors.multiply(&pool, threads)).collect();
            let Summary { mean, deviation, p95, .. } = Summary::without_outliers(&times);
            let speed_up = *on_one.get_or_insert(mean) / mean;
            println!("{threads:7} {mean:10.2} {deviation:10.2} {p95:10.2} {speed_up:8.2}");
        }
        if options.threads[0] != 1 {
            println!("(speed-up beside {} threads, which came first)", options.threads[0]);
        }
    }
    Ok(())
}

/// What the study has for one size, in seconds; from its four tables.
struct OfTheStudy {
    size: usize,
    /// Mean, deviation and 95th percentile, on 1, 2, 6 and 12 threads.
    times: [(f64, f64, f64); 4],
    /// Of 2, 6 and 12 threads beside one.
    speed_ups: [f64; 3],
    /// Of 12 threads beside 6.
    six_to_twelve: f64,
}

const STUDY: [OfTheStudy; 3] = [
    OfTheStudy {
        size: 1000,
        times: [(5.54, 0.06, 5.65), (3.02, 0.17, 3.30), (1.26, 0.12, 1.45), (1.23, 0.06, 1.30)],
        speed_ups: [1.83, 4.39, 4.51],
        six_to_twelve: 1.03,
    },
    OfTheStudy {
        size: 2000,
        times: [
            (77.37, 0.44, 78.05),
            (38.18, 0.28, 38.71),
            (14.25, 0.25, 14.47),
            (11.48, 0.35, 11.91),
        ],
        speed_ups: [2.03, 5.43, 6.74],
        six_to_twelve: 1.24,
    },
    OfTheStudy {
        size: 3000,
        times: [
            (289.40, 1.51, 291.20),
            (135.82, 0.14, 136.00),
            (49.69, 0.25, 49.92),
            (41.56, 0.62, 42.17),
        ],
        speed_ups: [2.13, 5.82, 6.96],
        six_to_twelve: 1.20,
    },
];

const STUDY_THREADS: [usize; 4] = [1, 2, 6, 12];

/// What was measured at one size, in seconds.
struct Measured {
    size: usize,
    /// For each number of threads.
    times: Vec<(usize, Summary)>,
}

impl Measured {
    fn mean(&self, threads: usize) -> Option<f64> {
        self.times.iter().find(|(of, _)| *of == threads).map(|(_, summary)| summary.mean)
    }

    fn speed_up(&self, from: usize, to: usize) -> Option<f64> {
        Some(self.mean(from)? / self.mean(to)?)
    }

    fn study(&self) -> Option<&'static OfTheStudy> {
        STUDY.iter().find(|of| of.size == self.size)
    }

    fn print(&self) {
        println!("\n{:>7} | {:^35} | {:^35}", format!("n={}", self.size), "ours", "study");
        let heads = format!("{:>8} {:>8} {:>8} {:>8}", "mean", "dev", "p95", "speed-up");
        println!("{:>7} | {heads:>35} | {heads:>35}", "threads");
        for (threads, Summary { mean, deviation, p95, .. }) in &self.times {
            let speed_up =
                self.speed_up(1, *threads).map_or(String::new(), |of| format!("{of:.2}"));
            let place = STUDY_THREADS.iter().position(|of| of == threads);
            let study = self.study().zip(place).map_or(String::new(), |(study, place)| {
                let (mean, deviation, p95) = study.times[place];
                let speed_up = if place == 0 { 1.0 } else { study.speed_ups[place - 1] };
                format!("{mean:8.2} {deviation:8.2} {p95:8.2} {speed_up:8.2}")
            });
            println!(
                "{threads:>7} | {mean:8.2} {deviation:8.2} {p95:8.2} {speed_up:>8} | {study:>35}"
            );
        }
        if let Some(ours) = self.speed_up(6, 12) {
            print!("12 threads beside 6: {ours:.2}");
            match self.study() {
                Some(study) => println!(", in the study {:.2}", study.six_to_twelve),
                None => println!(),
            }
        }
    }
}

/// Repeats the study for as long as there is time.
fn repeat(options: &Options) -> Result<(), Box<dyn Error>> {
    let Options { runs, kernel: (name, kernel), .. } = options;
    let limit = Duration::from_secs(60 * options.minutes as u64);
    let cores = std::thread::available_parallelism()?;
    println!(
        "Kernel {name}, up to {runs} runs each, {cores} cores, {} min or less; seconds.",
        options.minutes
    );
    let start = Instant::now();
    let pools = options.threads.iter().map(|threads| Pool::builder().threads(*threads).build());
    let pools = pools.collect::<Result<Vec<_>, _>>()?;
    let mut measured: Vec<Measured> = Vec::new();
    for &size in &options.sizes {
        let left = limit.saturating_sub(start.elapsed());
        // A run of the last size, and that this one takes longer by the third power at least.
        if let Some(before) = measured.last() {
            let growth = (size as f64 / before.size as f64).powi(3);
            let once: f64 = before.times.iter().map(|(_, summary)| summary.mean * growth).sum();
            if once > left.as_secs_f64() {
                println!(
                    "\nn={size} is left out: one run on each number of threads would take {:.0} \
                     minutes or more (--minutes {} has room for ten)",
                    (once / 60.0).ceil(),
                    (10.0 * once / 60.0).ceil() as usize + options.minutes
                );
                continue;
            }
        }
        let mut factors = Factors::new(size, *kernel);
        let mut times = vec![Vec::new(); options.threads.len()];
        // A run on each number of threads in turn, so that all have as many when the time is up.
        // The sizes that follow get their share of it.
        let rest = options.sizes.iter().filter(|of| **of >= size).count() as u32;
        let until = Instant::now() + left / rest;
        for run in 1..=*runs {
            let begin = Instant::now();
            for ((&threads, pool), times) in options.threads.iter().zip(&pools).zip(&mut times) {
                progress(&format!("n={size}: run {run} of {runs}, {threads} threads ..."));
                times.push(factors.multiply(pool, threads));
            }
            if Instant::now() + begin.elapsed() > until {
                break;
            }
        }
        progress("");
        let in_seconds = |times: &Vec<Duration>| {
            let Summary { mean, deviation, p95, error } = Summary::without_outliers(times);
            let [mean, deviation, p95, error] = [mean, deviation, p95, error].map(|of| of / 1e3);
            Summary { mean, deviation, p95, error }
        };
        let of_threads = options.threads.iter().copied().zip(times.iter().map(in_seconds));
        let of_size = Measured { size, times: of_threads.collect() };
        of_size.print();
        if times[0].len() < *runs {
            println!("(only {} runs each, for want of time)", times[0].len());
        }
        measured.push(of_size);
    }
    let charts = charts(&measured, &options.threads);
    for chart in &charts {
        print!("\n{}", chart.in_terminal(40));
    }
    println!("\ndrawn in {}", save(&charts, options.svg.as_deref(), "matmul")?.display());
    Ok(())
}

/// Where we are, for who looks on; it is overwritten by what comes next.
fn progress(line: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{line}");
    } else if !line.is_empty() {
        let _ = writeln!(stderr, "{line}");
    }
}

/// The study's figure, times by size and threads, and its speed-ups; ours and its own.
fn charts(measured: &[Measured], threads: &[usize]) -> [Chart; 2] {
    let place = |threads: &usize| STUDY_THREADS.iter().position(|of| of == threads);
    let mut times = Vec::new();
    let mut speed_ups = Vec::new();
    for of_size in measured {
        let ours = |figure: &dyn Fn(usize) -> Option<f64>| {
            (format!("{} ours", of_size.size), threads.iter().map(|of| figure(*of)).collect())
        };
        times.push(ours(&|threads| of_size.mean(threads)));
        speed_ups.push(ours(&|threads| of_size.speed_up(1, threads)));
        if let Some(study) = of_size.study() {
            let theirs = |figure: &dyn Fn(usize) -> f64| {
                let figures = threads.iter().map(|threads| place(threads).map(figure)).collect();
                (format!("{} study", of_size.size), figures)
            };
            times.push(theirs(&|place| study.times[place].0));
            let speed_up = |place| if place == 0 { 1.0 } else { study.speed_ups[place - 1] };
            speed_ups.push(theirs(&speed_up));
        }
    }
    let name =
        |threads: &usize| format!("{threads} thread{}", if *threads == 1 { "" } else { "s" });
    let series: Vec<_> = threads.iter().map(name).collect();
    [
        Chart {
            title: "Time of a multiplication".to_string(),
            unit: "seconds",
            form: Form::LogarithmicBars,
            series: series.clone(),
            places: times,
        },
        Chart {
            title: "Speed-up beside one thread".to_string(),
            unit: "times",
            form: Form::Bars,
            series,
            places: speed_ups,
        },
    ]
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("matmul: {message}\n\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    let ended = if options.study { repeat(&options) } else { run(&options) };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("matmul: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kernels_multiply() {
        let left = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        let right = vec![vec![5.0, 6.0], vec![7.0, 8.0]];
        for kernel in [ijk as Kernel, ikj] {
            for threads in [1, 2, 6] {
                let product = product(Pool::global(), threads, kernel, &left, &right);
                assert_eq!(product.unwrap(), [[19.0, 22.0], [43.0, 50.0]]);
            }
        }
    }

    #[test]
    fn what_cannot_be_multiplied_is_refused() {
        let of = |lengths: &[usize]| lengths.iter().map(|n| vec![1.0; *n]).collect::<Matrix>();
        let product = |left, right| product(Pool::global(), 2, ijk, &of(left), &of(right));
        assert_eq!(product(&[2, 2, 2], &[1, 1]).unwrap(), [[2.0], [2.0], [2.0]]);
        for (left, right) in [(&[3, 3][..], &[3, 3][..]), (&[2, 1], &[2, 2]), (&[2], &[1, 2])] {
            assert!(product(left, right).is_err(), "{left:?} {right:?}");
        }
        assert!(product(&[1], &[]).is_err());
    }

    #[test]
    fn the_studys_speed_ups_are_those_of_its_times() {
        for OfTheStudy { size, times, speed_ups, six_to_twelve } in STUDY {
            for (place, speed_up) in (1..).zip(speed_ups) {
                let found = times[0].0 / times[place].0;
                assert!((found - speed_up).abs() < 0.02, "{size}: {found} and {speed_up}");
            }
            assert!((times[2].0 / times[3].0 - six_to_twelve).abs() < 0.02, "{size}");
        }
    }

    #[test]
    fn a_small_study_has_its_figures_and_draws_them() {
        let svg = std::env::temp_dir().join(format!("matmul-test-{}.svg", std::process::id()));
        let arguments = ["--study", "--n", "8,16", "--runs", "2", "--svg", svg.to_str().unwrap()];
        let options = Options::parse(arguments.map(String::from)).unwrap().unwrap();
        assert_eq!(options.kernel.0, "ijk");
        repeat(&options).unwrap();
        let drawn = std::fs::read_to_string(&svg).unwrap();
        std::fs::remove_file(&svg).unwrap();
        assert!(drawn.contains("16 ours") && drawn.contains("12 threads"), "{drawn}");
    }

    #[test]
    fn a_study_that_is_not_told_otherwise_has_the_studys_sizes() {
        let options = Options::parse(["--study".to_string()]).unwrap().unwrap();
        assert_eq!(options.sizes, [1000, 2000, 3000]);
        assert_eq!(options.threads, STUDY_THREADS);
        assert_eq!(options.runs, 10);
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(String::from));
        assert_eq!(parse("--n 10 --threads 1,2").unwrap().unwrap().threads, [1, 2]);
        for wrong in ["--n", "--n zero", "--threads 1,,2", "--runs 0", "--kernel jik", "n"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("--help").unwrap().is_none());
    }
}
