//! Matrix multiplication, a row at a time, on more and more threads, and what that gains: the table of a
//! study of C#'s parallel loops, with the mean of several runs, their standard deviation, the 95th
//! percentile, and the speed-up. On six cores the study reports speed-ups of 1.83 to 2.13 with 2 threads,
//! and of 4.4 to 5.8 with 6.
//!
//! The kernels are naive, so that what is measured is the division of labour. A good one, such as those of
//! the crates `gemm`, `faer` and `matrixmultiply`, is many times as fast on one thread.
//!
//! `cargo run --release -p semaforo --example matmul -- --n 1000 --threads 1,2,6,12`

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use semaforo::query::prelude::*;
use semaforo::tasks::Pool;

const USAGE: &str = "\
usage: matmul [--n SIZE] [--threads LIST] [--runs NUMBER] [--kernel ijk|ikj]

  --n SIZE         multiplies two matrices of SIZE x SIZE; 100 unless said
  --threads LIST   on so many threads each; 1,2,6,12 unless said
  --runs NUMBER    so many times each; 10 unless said
  --kernel ORDER   the order of the loops; ijk walks down the columns, ikj (unless said) along the rows";

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

/// The rows of the left factor are divided among the calling thread and the pool's.
fn product(pool: &Pool, threads: usize, kernel: Kernel, left: &Matrix, right: &Matrix) -> Matrix {
    left.as_parallel().on(pool).with_threads(threads).map(|row| kernel(row, right)).to_vec()
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

/// What the study tells of several runs.
struct Summary {
    mean: f64,
    deviation: f64,
    p95: f64,
}

impl Summary {
    fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        // Of a sample: there is one degree of freedom less than there are runs.
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        let rank = (0.95 * count).ceil() as usize;
        Self { mean, deviation, p95: times[rank.clamp(1, times.len()) - 1] }
    }
}

struct Options {
    size: usize,
    threads: Vec<usize>,
    runs: usize,
    kernel: (&'static str, Kernel),
}

impl Options {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let kernel: (_, Kernel) = ("ikj", ikj);
        let mut options = Self { size: 100, threads: vec![1, 2, 6, 12], runs: 10, kernel };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            if option == "--help" || option == "-h" {
                return Ok(None);
            }
            let mut value = || arguments.next().ok_or(format!("{option} needs a value"));
            match option.as_str() {
                "--n" => options.size = number(&value()?)?,
                "--runs" => options.runs = number(&value()?)?,
                "--threads" => {
                    options.threads = value()?.split(',').map(number).collect::<Result<_, _>>()?;
                }
                "--kernel" => {
                    options.kernel = match value()?.as_str() {
                        "ijk" => ("ijk", ijk),
                        "ikj" => ("ikj", ikj),
                        other => return Err(format!("there is no kernel {other:?}: ijk or ikj")),
                    }
                }
                _ => return Err(format!("{option:?} is not an option")),
            }
        }
        Ok(Some(options))
    }
}

/// A number that is not zero.
fn number(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above zero")),
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let Options { size, runs, kernel: (name, kernel), .. } = options;
    let (left, right) = (matrix(*size, 1), matrix(*size, 2));
    let cores = std::thread::available_parallelism()?;
    println!("{size} x {size}, kernel {name}, {runs} runs each, {cores} cores; milliseconds");
    println!("{:>7} {:>10} {:>10} {:>10} {:>8}", "threads", "mean", "deviation", "p95", "speed-up");

    let expected = product(Pool::global(), 1, *kernel, &left, &right);
    let mut on_one = None;
    for &threads in &options.threads {
        // The calling thread is one of them.
        let pool = Pool::builder().threads(threads).build()?;
        let mut times = Vec::new();
        for _ in 0..*runs {
            let begin = Instant::now();
            let product = black_box(product(&pool, threads, *kernel, &left, &right));
            times.push(begin.elapsed());
            // Rows are divided, sums are not: the result is the same to the last bit.
            assert!(product == expected, "{threads} threads have found another product");
        }
        let Summary { mean, deviation, p95 } = Summary::of(&times);
        let speed_up = *on_one.get_or_insert(mean) / mean;
        println!("{threads:7} {mean:10.2} {deviation:10.2} {p95:10.2} {speed_up:8.2}");
    }
    if options.threads[0] != 1 {
        println!("(speed-up beside {} threads, which came first)", options.threads[0]);
    }
    Ok(())
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
    match run(&options) {
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
                assert_eq!(product, [[19.0, 22.0], [43.0, 50.0]]);
            }
        }
    }

    #[test]
    fn the_summary_of_some_runs() {
        let times = [2, 4, 4, 4, 5, 5, 7, 9].map(Duration::from_millis);
        let Summary { mean, deviation, p95 } = Summary::of(&times);
        assert_eq!((mean, p95), (5.0, 9.0));
        assert!((deviation - 2.138).abs() < 1e-3, "{deviation}");
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
