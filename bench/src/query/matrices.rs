//! Matrix multiplication, a row at a time, with kernels that are the same for everybody.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use super::kernels::{self, Kernel, Matrix, matrix};
use super::{ours, query, query_on_rayon, rayon_with};
use crate::measure::Plan;
use crate::row::{Bar, Contestant, Row, Work};
use crate::workload::settle;

const LARGE: usize = 1000;
/// For the kernel whose large product takes seconds.
const SMALL: usize = 400;

/// What two threads may take of the time of one: a speed-up of 1.8.
const TWO_THREADS_OF_ONE: f64 = 0.556;

/// What differs between the rows of one kernel and size.
struct Case {
    kernel: Kernel,
    size: usize,
    one_thread: &'static str,
    two_threads: &'static str,
    speed_up: &'static str,
    rounds: usize,
}

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    [ijk(plan), ikj(plan)].into_iter().flat_map(rows_of).collect()
}

fn ijk(plan: &Plan) -> Case {
    let kernel = kernels::ijk;
    match plan.quick {
        true => Case {
            kernel,
            size: SMALL,
            one_thread: "matmul-ijk-n400-1",
            two_threads: "matmul-ijk-n400-2",
            speed_up: "matmul-ijk-n400-speed-up",
            rounds: plan.few_rounds(),
        },
        false => Case {
            kernel,
            size: LARGE,
            one_thread: "matmul-ijk-n1000-1",
            two_threads: "matmul-ijk-n1000-2",
            speed_up: "matmul-ijk-n1000-speed-up",
            rounds: 2,
        },
    }
}

fn ikj(plan: &Plan) -> Case {
    Case {
        kernel: kernels::ikj,
        size: LARGE,
        one_thread: "matmul-ikj-n1000-1",
        two_threads: "matmul-ikj-n1000-2",
        speed_up: "matmul-ikj-n1000-speed-up",
        rounds: plan.few_rounds(),
    }
}

fn rows_of(Case { kernel, size, one_thread, two_threads, speed_up, rounds }: Case) -> [Row; 3] {
    [
        Row::new(
            one_thread,
            "naive product of square matrices, 1 thread (ijk: n = 1000, with --quick 400)",
            move || with_threads(1, kernel, size),
        )
        .unit("ms")
        .bar(Bar::against("rayon", 1.05))
        .at_most_rounds(rounds),
        Row::new(two_threads, "the same, 2 threads", move || with_threads(2, kernel, size))
            .unit("ms")
            .bar(Bar::against("rayon", 1.05))
            .at_most_rounds(rounds),
        Row::new(
            speed_up,
            "the same, time with 2 threads to time with 1: a speed-up of 2 is 0.5",
            move || with_two_threads_to_one(kernel, size),
        )
        .unit("ratio")
        .bar(Bar::limit_reached_by("rayon", TWO_THREADS_OF_ONE))
        .at_most_rounds(rounds),
    ]
}

/// Everybody multiplies the same matrices, so that nobody has better addresses.
pub(super) struct Factors {
    pub(super) left: Matrix,
    pub(super) right: Matrix,
}

impl Factors {
    fn of(size: usize) -> &'static Factors {
        settle(Factors { left: matrix(size, 1), right: matrix(size, 2) })
    }
}

fn with_threads(threads: usize, kernel: Kernel, size: usize) -> Vec<Contestant> {
    let factors = Factors::of(size);
    let mut contestants = vec![ours::matrix_product(threads, kernel, factors)];
    contestants.push(Contestant::peer("rayon", rayon(threads, kernel, factors)));
    if threads == 1 {
        contestants.push(Contestant::peer("sequential", sequential(kernel, factors)));
    }
    #[cfg(feature = "kernels")]
    contestants.extend(super::good_kernels::beside(size, threads));
    contestants
}

fn with_two_threads_to_one(kernel: Kernel, size: usize) -> Vec<Contestant> {
    let factors = Factors::of(size);
    let mut contestants = vec![ours::matrix_speed_up(kernel, factors)];
    let product = move |threads| rayon_with(threads).install(|| rows_in_parallel(kernel, factors));
    contestants.push(Contestant::peer("rayon", two_to_one(product)));
    contestants
}

fn rayon(threads: usize, kernel: Kernel, factors: &'static Factors) -> Work {
    query_on_rayon(threads, move || rows_in_parallel(kernel, factors))
}

fn rows_in_parallel(kernel: Kernel, factors: &Factors) -> Matrix {
    factors.left.par_iter().map(|row| kernel(row, &factors.right)).collect()
}

fn sequential(kernel: Kernel, factors: &'static Factors) -> Work {
    query(move || -> Matrix {
        factors.left.iter().map(|row| kernel(row, &factors.right)).collect()
    })
}

/// The time of a product with two threads, divided by that with one.
pub(super) fn two_to_one(product: impl Fn(usize) -> Matrix + 'static) -> Work {
    Work::counted(move |repetitions| {
        let [one, two] = [1, 2].map(|threads| {
            let begin = Instant::now();
            for _ in 0..repetitions {
                drop(black_box(product(threads)));
            }
            begin.elapsed()
        });
        two.as_secs_f64() / one.as_secs_f64()
    })
}
