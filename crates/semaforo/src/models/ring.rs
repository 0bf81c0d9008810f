//! The ring of a bounded queue: putting and taking without the lock, against each other and against
//! those who slow it down, because they have to wait or want to look.

use std::sync::Arc;

use super::accounts::{Basket, left_in};
use super::checker::{explore, explore_within};
use super::race::with;
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::BlockingQueue;

on_both_sides!(
    a_producer_and_a_consumer,
    a_producer_and_a_consumer_on_a_ring_of_one,
    a_put_against_one_who_joins_the_line,
    a_take_against_one_who_joins_the_line,
    a_take_against_one_who_joins_a_longer_line
);

/// A queue in which these items are, and have been put without the lock.
fn holding(capacity: usize, items: &[u32]) -> BlockingQueue<u32> {
    let queue = BlockingQueue::bounded(capacity);
    items.iter().for_each(|item| queue.try_put(*item).unwrap());
    queue
}

/// One puts and one takes, three items through a ring of two: each may have to wait for the other.
fn a_producer_and_a_consumer<S: Side>() {
    explore_within(3, || {
        let queue = with(holding(2, &[])).race([
            |queue| (1..=3).for_each(|item| S::finish(queue.put(item)).unwrap()),
            |queue| (1..=3).for_each(|item| assert_eq!(S::finish(queue.take()), Ok(item))),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// The same twice around a ring of one.
fn a_producer_and_a_consumer_on_a_ring_of_one<S: Side>() {
    explore_within(3, || {
        let queue = with(holding(1, &[])).race([
            |queue| (1..=2).for_each(|item| S::finish(queue.put(item)).unwrap()),
            |queue| (1..=2).for_each(|item| assert_eq!(S::finish(queue.take()), Ok(item))),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// Two producers fight for the only cell, and one consumer serves them both.
#[test]
fn two_producers_on_a_ring_of_one() {
    explore_within(2, || {
        let (queue, basket) = with((holding(1, &[]), Basket::default())).race([
            |(queue, _)| queue.put(1).wait().unwrap(),
            |(queue, _)| queue.put(2).wait().unwrap(),
            |(queue, basket)| {
                basket.add(queue.take().wait());
                basket.add(queue.take().wait());
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// Two producers at once, for whom there is room: they need not wait, whatever the consumer does.
#[test]
fn two_producers_on_a_ring_of_two() {
    explore_within(3, || {
        let (queue, basket) = with((holding(2, &[]), Basket::default())).race([
            |(queue, _)| queue.try_put(1).unwrap(),
            |(queue, _)| queue.try_put(2).unwrap(),
            |(queue, basket)| basket.add(queue.take().wait()),
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// Two consumers fight for what comes through the only cell.
#[test]
fn two_consumers_on_a_ring_of_one() {
    explore_within(2, || {
        let (queue, basket) = with((holding(1, &[]), Basket::default())).race([
            |(queue, basket)| basket.add(queue.take().wait()),
            |(queue, basket)| basket.add(queue.take().wait()),
            |(queue, _)| {
                queue.put(1).wait().unwrap();
                queue.put(2).wait().unwrap();
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// Two consumers at once, for whom there is enough: they need not wait, whatever the producer does.
#[test]
fn two_consumers_on_a_ring_of_two() {
    explore_within(3, || {
        let (queue, basket) = with((holding(2, &[1, 2]), Basket::default())).race([
            |(queue, basket)| basket.add(queue.try_take()),
            |(queue, basket)| basket.add(queue.try_take()),
            |(queue, _)| queue.put(3).wait().unwrap(),
        ]);
        assert_eq!(queue.len(), 1);
        assert_eq!(basket.with_left_in(&queue), [1, 2, 3]);
    });
}

/// There is always room for one more: nobody is told that there is none, however old what it sees.
#[test]
fn never_full() {
    explore(|| {
        let queue = with(holding(2, &[1])).race([
            |queue| {
                assert_eq!(queue.try_take(), Ok(1));
                queue.try_put(2).unwrap();
            },
            |queue| queue.try_put(3).unwrap(),
        ]);
        assert_eq!(queue.len(), 2);
        assert_eq!(Basket::default().with_left_in(&queue), [2, 3]);
    });
}

/// There is always one to take: nobody is told that there is none.
#[test]
fn never_empty() {
    explore(|| {
        let (queue, basket) = with((holding(2, &[1]), Basket::default())).race([
            |(queue, basket)| {
                queue.try_put(2).unwrap();
                basket.add([queue.try_take().unwrap()]);
            },
            |(queue, basket)| basket.add([queue.try_take().unwrap()]),
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// An item is put without the lock while somebody slows the ring down to look, and speeds it up again.
#[test]
fn slowing_down_against_a_put() {
    explore(|| {
        let queue = with(holding(1, &[])).race([
            |queue| queue.try_put(1).unwrap(),
            |queue| assert!(matches!(queue.peek(), None | Some(1))),
        ]);
        assert_eq!(left_in(&queue), [1]);
    });
}

/// The same against an item that is taken: it can be seen, or is gone.
#[test]
fn slowing_down_against_a_take() {
    explore(|| {
        let queue = with(holding(1, &[1])).race([
            |queue| assert_eq!(queue.try_take(), Ok(1)),
            |queue| assert!(matches!(queue.peek(), None | Some(1))),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// The same against both, one after the other: what is seen is one of the two, whole.
#[test]
fn slowing_down_against_a_take_and_a_put() {
    explore_within(4, || {
        let queue = with(holding(1, &[1])).race([
            |queue| {
                assert_eq!(queue.try_take(), Ok(1));
                queue.try_put(2).unwrap();
            },
            |queue| assert!(matches!(queue.peek(), None | Some(1 | 2))),
        ]);
        assert_eq!(left_in(&queue), [2]);
    });
}

/// Everything is taken at once while an item is put: it comes along, or stays.
#[test]
fn draining_against_a_put() {
    explore(|| {
        let (queue, basket) = with((holding(2, &[1]), Basket::default())).race([
            |(queue, _)| queue.try_put(2).unwrap(),
            |(queue, basket)| {
                let items = queue.drain();
                assert!(matches!(items[..], [1] | [1, 2]));
                basket.add(items);
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// A task that slowed the ring down to wait is dropped while an item is put: that goes to whoever comes.
#[test]
fn speeding_up_against_a_put() {
    explore(|| {
        let queue = Arc::new(holding(1, &[]));
        let task = Task::queued(queue.take_owned());
        with((Arc::clone(&queue), task))
            .race([|(queue, _)| queue.try_put(1).unwrap(), |(_, task)| drop(task.take())]);
        assert_eq!(left_in(&*queue), [1]);
    });
}

/// A task that slowed the ring down to wait for room is dropped while an item is taken: that makes
/// room for the task's, or for another.
#[test]
fn speeding_up_against_a_take() {
    explore(|| {
        let queue = Arc::new(holding(1, &[1]));
        let task = Task::queued(queue.put_owned(2));
        with((Arc::clone(&queue), task)).race([
            |(queue, _)| assert_eq!(queue.try_take(), Ok(1)),
            |(_, task)| drop(task.take()),
        ]);
        assert!(matches!(left_in(&*queue)[..], [] | [2]));
    });
}

/// How many items there are is asked while the ring turns.
#[test]
fn asking_while_it_turns() {
    explore(|| {
        let queue = with(holding(2, &[1])).race([
            |queue| {
                queue.try_put(2).unwrap();
                assert_eq!(queue.try_take(), Ok(1));
                queue.try_put(3).unwrap();
            },
            |queue| assert!(matches!(queue.len(), 1 | 2)),
        ]);
        assert_eq!(left_in(&queue), [2, 3]);
    });
}

/// One finds the ring empty and takes its place in line, while an item is put without the lock: the
/// item reaches it, in the ring or by hand.
fn a_put_against_one_who_joins_the_line<S: Side>() {
    S::explore(5, || {
        let queue = with(holding(1, &[])).race([
            |queue| assert_eq!(S::finish(queue.take()), Ok(1)),
            |queue| queue.try_put(1).unwrap(),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// One finds the ring full and takes its place in line, while an item is taken without the lock:
/// there is room for its own.
fn a_take_against_one_who_joins_the_line<S: Side>() {
    S::explore(5, || {
        let queue = with(holding(1, &[1])).race([
            |queue| S::finish(queue.put(2)).unwrap(),
            |queue| assert_eq!(queue.try_take(), Ok(1)),
        ]);
        assert_eq!(left_in(&queue), [2]);
    });
}

/// The same on a ring of two.
fn a_take_against_one_who_joins_a_longer_line<S: Side>() {
    S::explore(5, || {
        let queue = with(holding(2, &[1, 2])).race([
            |queue| S::finish(queue.put(3)).unwrap(),
            |queue| assert_eq!(queue.try_take(), Ok(1)),
        ]);
        assert_eq!(left_in(&queue), [2, 3]);
    });
}
