//! Two who swap what they bring: against others who come, limits and dropping.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::accounts::Basket;
use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::{CancelSource, Exchanger, Rejected, WaitError};

on_both_sides!(two_swap);

/// What somebody has in the end: the other's item, or its own.
fn item<E>(outcome: Result<u32, Rejected<u32, E>>) -> u32 {
    outcome.unwrap_or_else(Rejected::into_item)
}

/// Two swap.
fn two_swap<S: Side>() {
    explore(|| {
        let table = with(Exchanger::new()).race([
            |table| assert_eq!(S::finish(table.exchange(1)), 2),
            |table| assert_eq!(S::finish(table.exchange(2)), 1),
        ]);
        assert_eq!(table.waiters(), 0);
    });
}

/// Three come to where one waits: two pairs, and nobody has its own item.
#[test]
fn two_pairs() {
    explore_within(2, || {
        let table = Arc::new(Exchanger::new());
        let first = Task::queued(table.exchange_owned(0));
        let (_, basket) = with((Arc::clone(&table), Basket::default())).race([
            |(table, basket)| {
                let item = table.exchange(1).wait();
                assert_ne!(item, 1);
                basket.add([item]);
            },
            |(table, basket)| {
                let item = Task::new(table.exchange(2)).run();
                assert_ne!(item, 2);
                basket.add([item]);
            },
            |(table, basket)| {
                let item = table.exchange(3).wait();
                assert_ne!(item, 3);
                basket.add([item]);
            },
        ]);
        basket.add([first.left().resume()]);
        assert_eq!((basket.sorted(), table.waiters()), (vec![0, 1, 2, 3], 0));
    });
}

/// Two swap while a token fires for both: both have what the other brought, or both their own.
#[test]
fn pairing_against_cancel() {
    explore_within(3, || {
        let objects = (Exchanger::new(), CancelSource::new(), Basket::default());
        let (table, _, basket) = with(objects).race([
            |(table, source, basket)| {
                basket.add([item(table.exchange(1).cancel_on(&source.token()).wait())]);
            },
            |(table, source, basket)| {
                let exchange = table.exchange(2).cancel_on(&source.token());
                basket.add([item(Task::new(exchange).run())]);
            },
            |(_, source, _)| source.cancel(),
        ]);
        assert_eq!((basket.sorted(), table.waiters()), (vec![1, 2], 0));
    });
}

/// One waits and its time is up, while another comes who waits for nobody.
#[test]
fn pairing_against_time_out() {
    explore(|| {
        let table = Arc::new(Exchanger::new());
        let first = Task::queued(table.exchange_owned(1).timeout(HOUR));
        let (_, basket) = with((Arc::clone(&table), Basket::default())).race([
            |(table, basket)| {
                basket.add([item(table.exchange(2).timeout(Duration::ZERO).wait())]);
            },
            |_| assert!(time_passes()),
        ]);
        let first = first.left().resume();
        basket.add([match first {
            Ok(item) => {
                assert_eq!(item, 2);
                item
            }
            Err(Rejected { item, why }) => {
                assert_eq!((item, why), (1, WaitError::TimedOut));
                item
            }
        }]);
        assert_eq!((basket.sorted(), table.waiters()), (vec![1, 2], 0));
    });
}

/// A thread's time is up, while a task comes that is then dropped.
#[test]
fn pairing_against_time_out_of_a_thread() {
    explore_within(4, || {
        let (table, basket) = with((Exchanger::new(), Basket::default())).race([
            |(table, basket)| basket.add([item(table.exchange(1).timeout(HOUR).wait())]),
            |(table, basket)| {
                if let Poll::Ready(item) = Task::new(table.exchange(2)).poll() {
                    basket.add([item]);
                }
            },
        ]);
        // Whoever is paired is paired for good, also with one that is dropped then.
        assert!(matches!(basket.sorted()[..], [1] | [2] | [1, 2]));
        assert_eq!(table.waiters(), 0);
    });
}

/// One who waits is dropped, while another comes: that has what the first one brought, or waits for the
/// next.
#[test]
fn pairing_against_drop() {
    explore(|| {
        let table = Arc::new(Exchanger::new());
        let first = Task::queued(table.exchange_owned(1));
        let (.., second) = with((Arc::clone(&table), first, For::later())).race([
            |(table, _, second)| {
                let mut task = Task::new(table.exchange_owned(2));
                let item = task.poll();
                second.put((task, item));
            },
            |(_, first, _)| drop(first.take()),
        ]);
        match second.left() {
            (_, Poll::Ready(item)) => assert_eq!(item, 1),
            (second, Poll::Pending) => {
                assert_eq!(table.exchange(3).wait(), 2);
                assert_eq!(second.resume(), 3);
            }
        }
        assert_eq!(table.waiters(), 0);
    });
}
