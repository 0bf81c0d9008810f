//! What ours does in each row: the calling thread, helped by a pool.

use std::sync::LazyLock;

use semaforo::query::prelude::*;
use semaforo::tasks::Pool;

use super::kernels::{Kernel, Matrix};
use super::matrices::{Factors, two_to_one};
use super::query;
use super::sums::{ELEMENTS, THREADS, folded, is_even};
use super::tables::{Address, Delivery, Sale};
use crate::row::Contestant;

/// With the calling thread there are two.
fn pool() -> &'static Pool {
    static POOL: LazyLock<Pool> = LazyLock::new(|| {
        let built = Pool::builder().threads(THREADS).build();
        built.expect("the system allows two more threads")
    });
    &POOL
}

pub(super) fn matrix_product(
    threads: usize,
    kernel: Kernel,
    factors: &'static Factors,
) -> Contestant {
    Contestant::ours(query(move || product(threads, kernel, factors)))
}

pub(super) fn matrix_speed_up(kernel: Kernel, factors: &'static Factors) -> Contestant {
    Contestant::ours(two_to_one(move |threads| product(threads, kernel, factors)))
}

fn product(threads: usize, kernel: Kernel, factors: &Factors) -> Matrix {
    let rows = factors.left.as_parallel().on(pool()).with_threads(threads);
    rows.map(|row| kernel(row, &factors.right)).to_vec()
}

pub(super) fn sum_of_a_slice(numbers: &'static [u32]) -> Contestant {
    Contestant::ours(query(|| -> u64 {
        let numbers = numbers.as_parallel().on(pool()).with_threads(THREADS);
        numbers.cloned().filter(|&n| is_even(n)).map(folded).sum()
    }))
}

pub(super) fn sum_of_a_range() -> Contestant {
    Contestant::ours(query(|| -> u64 {
        let numbers = (0..ELEMENTS).as_parallel().on(pool()).with_threads(THREADS);
        numbers.filter(|&n| is_even(n)).map(folded).sum()
    }))
}

pub(super) fn group_by(sales: &'static [Sale]) -> Contestant {
    Contestant::ours(query(|| {
        let sales = sales.as_parallel().on(pool()).with_threads(THREADS);
        sales.group_by(|sale| sale.customer).to_vec()
    }))
}

pub(super) fn join(sales: &'static [Sale], addresses: &'static [Address]) -> Contestant {
    Contestant::ours(query(move || -> Vec<Delivery> {
        let sales = sales.as_parallel().on(pool()).with_threads(THREADS);
        sales
            .join(
                addresses,
                |sale| sale.customer,
                |address| address.customer,
                |sale, address| (sale.number, address.number),
            )
            .to_vec()
    }))
}

pub(super) fn order_by(sales: &'static [Sale]) -> Contestant {
    Contestant::ours(query(|| {
        let sales = sales.as_parallel().on(pool()).with_threads(THREADS);
        sales.order_by(|sale| sale.amount).to_vec()
    }))
}
