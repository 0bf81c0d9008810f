//! What one does with tables: a million sales, grouped, joined with addresses, ordered.
//!
//! A well written sequential program is the peer of the bar. Rayon has sorting; its
//! grouping and joining are what its users write with what it has.

use std::collections::HashMap;

use rayon::prelude::*;

use super::sums::THREADS;
use super::{ours, query, query_on_rayon};
use crate::row::{Bar, Contestant, Row};

const SALES: u32 = 1_000_000;
const CUSTOMERS: u32 = 10_000;
/// Several per customer: a join is not a look-up.
const ADDRESSES: u32 = 2 * CUSTOMERS;
/// Few enough that there are ties, whose order is then part of the work.
const AMOUNTS: u32 = 500_000;

pub(super) struct Sale {
    pub(super) number: u32,
    pub(super) customer: u32,
    pub(super) amount: u32,
}

pub(super) struct Address {
    pub(super) number: u32,
    pub(super) customer: u32,
}

/// A sale and an address it could be sent to, by their numbers.
pub(super) type Delivery = (u32, u32);

pub(super) fn rows() -> Vec<Row> {
    let row = |id, about, contestants: fn() -> Vec<Contestant>, bar| {
        Row::new(id, about, contestants).unit("ms").bar(Bar::against("sequential", bar))
    };
    vec![
        row(
            "group-by",
            "1 000 000 rows in 10 000 groups that keep their rows, 2 threads",
            group_by,
            0.6,
        ),
        row("join", "1 000 000 rows with two matches each among 20 000, 2 threads", join, 0.7),
        row(
            "order-by",
            "1 000 000 rows in a stable order, by reference, 2 threads",
            order_by,
            0.667,
        ),
    ]
}

fn sales() -> &'static [Sale] {
    Vec::leak(sales_numbered(0..SALES))
}

fn sales_numbered(numbers: std::ops::Range<u32>) -> Vec<Sale> {
    let sale = |number| Sale {
        number,
        customer: scattered(number, CUSTOMERS),
        amount: scattered(!number, AMOUNTS),
    };
    numbers.map(sale).collect()
}

fn addresses() -> &'static [Address] {
    let address = |number| Address { number, customer: number % CUSTOMERS };
    Vec::leak((0..ADDRESSES).map(address).collect())
}

/// Without a pattern that a sort or a branch could profit from, but the same for everybody.
fn scattered(number: u32, below: u32) -> u32 {
    let hash = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) as u32 % below
}

type Groups<'sale> = HashMap<u32, Vec<&'sale Sale>>;

fn group_by() -> Vec<Contestant> {
    let sales = sales();
    let mut contestants = vec![ours::group_by(sales)];
    contestants.extend([
        Contestant::peer("sequential", query(|| grouped(sales))),
        Contestant::peer("rayon", query_on_rayon(THREADS, || grouped_on_rayon(sales))),
    ]);
    contestants
}

fn grouped(sales: &[Sale]) -> Groups<'_> {
    by_customer(sales, |sale| sale.customer)
}

fn by_customer<R>(rows: &[R], customer: impl Fn(&R) -> u32) -> HashMap<u32, Vec<&R>> {
    let mut groups = HashMap::<u32, Vec<&R>>::new();
    for row in rows {
        groups.entry(customer(row)).or_default().push(row);
    }
    groups
}

fn grouped_on_rayon(sales: &[Sale]) -> Groups<'_> {
    let partial = sales.par_iter().fold(Groups::new, |mut groups, sale| {
        groups.entry(sale.customer).or_default().push(sale);
        groups
    });
    partial.reduce(Groups::new, |mut left, right| {
        if left.is_empty() {
            return right;
        }
        for (customer, mut sales) in right {
            left.entry(customer).or_default().append(&mut sales);
        }
        left
    })
}

fn join() -> Vec<Contestant> {
    let (sales, addresses) = (sales(), addresses());
    let mut contestants = vec![ours::join(sales, addresses)];
    contestants.extend([
        Contestant::peer("sequential", query(|| joined(sales, addresses))),
        Contestant::peer("rayon", query_on_rayon(THREADS, || joined_on_rayon(sales, addresses))),
    ]);
    contestants
}

fn deliveries<'index>(
    sale: &'index Sale,
    addresses: &'index HashMap<u32, Vec<&Address>>,
) -> impl Iterator<Item = Delivery> + 'index {
    let matching = addresses.get(&sale.customer).into_iter().flatten();
    matching.map(|address| (sale.number, address.number))
}

fn joined(sales: &[Sale], addresses: &[Address]) -> Vec<Delivery> {
    let addresses = by_customer(addresses, |address| address.customer);
    sales.iter().flat_map(|sale| deliveries(sale, &addresses)).collect()
}

fn joined_on_rayon(sales: &[Sale], addresses: &[Address]) -> Vec<Delivery> {
    let addresses = by_customer(addresses, |address| address.customer);
    sales.par_iter().flat_map_iter(|sale| deliveries(sale, &addresses)).collect()
}

fn order_by() -> Vec<Contestant> {
    let sales = sales();
    let mut contestants = vec![ours::order_by(sales)];
    contestants.extend([
        Contestant::peer("sequential", query(|| ordered(sales))),
        Contestant::peer("rayon", query_on_rayon(THREADS, || ordered_on_rayon(sales))),
    ]);
    contestants
}

fn ordered(sales: &[Sale]) -> Vec<&Sale> {
    let mut ordered: Vec<&Sale> = sales.iter().collect();
    ordered.sort_by_key(|sale| sale.amount);
    ordered
}

fn ordered_on_rayon(sales: &[Sale]) -> Vec<&Sale> {
    let mut ordered: Vec<&Sale> = sales.par_iter().collect();
    ordered.par_sort_by_key(|sale| sale.amount);
    ordered
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn some_sales() -> Vec<Sale> {
        sales_numbered(0..20_000)
    }

    #[test]
    fn rayon_groups_like_the_sequential_program() {
        let sales = some_sales();
        let numbers = |groups: Groups| -> HashMap<u32, Vec<u32>> {
            let numbers = |sales: Vec<&Sale>| sales.iter().map(|sale| sale.number).collect();
            groups.into_iter().map(|(customer, sales)| (customer, numbers(sales))).collect()
        };
        assert_eq!(numbers(grouped_on_rayon(&sales)), numbers(grouped(&sales)));
    }

    #[test]
    fn rayon_joins_like_the_sequential_program() {
        let sales = some_sales();
        let deliveries = joined(&sales, addresses());
        assert_eq!(deliveries.len(), 2 * sales.len());
        assert_eq!(joined_on_rayon(&sales, addresses()), deliveries);
    }

    #[test]
    fn rayon_orders_like_the_sequential_program() {
        let sales = some_sales();
        let numbers =
            |sales: Vec<&Sale>| -> Vec<u32> { sales.iter().map(|sale| sale.number).collect() };
        assert_eq!(numbers(ordered_on_rayon(&sales)), numbers(ordered(&sales)));
    }
}
