//! The queue of all workers: which levels are occupied, and what is taken from them, and when.

use std::sync::Arc;

use super::accounts::Basket;
use super::checker::{explore, explore_within};
use super::race::with;
use crate::tasks::head::{Head, Run, Start};
use crate::tasks::levels::Levels;

/// Something to queue, which is never run.
struct Item(Head);

impl Run for Item {
    fn head(&self) -> &Head {
        &self.0
    }

    fn run(self: Arc<Self>) {}

    fn cancel(&self, _: u32) -> bool {
        false
    }
}

fn push(levels: &Levels, level: u32, item: u32) {
    let start = Start { level, ..Start::default() };
    let head = Head { id: item.into(), ..Head::new(&start, 0) };
    levels.push(level, Arc::new(Item(head)));
}

fn pop_below(levels: &Levels, limit: u32) -> Option<u32> {
    levels.pop(limit).map(|item| item.head().id as u32)
}

fn pop(levels: &Levels) -> Option<u32> {
    pop_below(levels, u32::MAX)
}

/// What is left, in order. Then no level is occupied.
fn drain(levels: &Levels) -> Vec<u32> {
    let left = std::iter::from_fn(|| pop(levels)).collect();
    assert!(levels.is_empty(), "an empty level is occupied");
    left
}

/// Levels of which the first counts as occupied, and is not.
fn once_occupied(levels: u32) -> Levels {
    let levels = Levels::new(levels);
    push(&levels, 0, 0);
    assert_eq!(pop(&levels), Some(0));
    levels
}

/// A level is found to be empty while something comes: that is taken, or can be found.
#[test]
fn clearing_against_a_push() {
    explore(|| {
        let (levels, basket) = with((once_occupied(1), Basket::default())).race([
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, _)| {
                push(levels, 0, 1);
                assert!(levels.smallest() == Some(0) || levels.len(0) == 0);
            },
        ]);
        basket.add(drain(&levels));
        assert_eq!(basket.sorted(), [1]);
    });
}

/// The same, and what comes first is followed by something else.
#[test]
fn clearing_against_two_pushes() {
    explore_within(5, || {
        let (levels, basket) = with((once_occupied(1), Basket::default())).race([
            |(levels, basket)| {
                basket.add(pop(levels));
                basket.add(pop(levels));
            },
            |(levels, _)| {
                push(levels, 0, 1);
                push(levels, 0, 2);
            },
        ]);
        basket.add(drain(&levels));
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// Two find the level empty while something comes.
#[test]
fn two_who_clear_against_a_push() {
    explore_within(3, || {
        let (levels, basket) = with((once_occupied(1), Basket::default())).race([
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, _)| push(levels, 0, 1),
        ]);
        basket.add(drain(&levels));
        assert_eq!(basket.sorted(), [1]);
    });
}

/// One finds the level empty while two bring something.
#[test]
fn clearing_against_two_who_push() {
    explore_within(3, || {
        let (levels, basket) = with((once_occupied(1), Basket::default())).race([
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, _)| push(levels, 0, 1),
            |(levels, _)| push(levels, 0, 2),
        ]);
        basket.add(drain(&levels));
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// Whoever has added something urgent takes it, or another has: nobody takes what is less urgent
/// instead, though the urgent level is being found empty.
#[test]
fn the_urgent_one_is_not_passed_over() {
    explore_within(5, || {
        let levels = once_occupied(2);
        push(&levels, 1, 11);
        push(&levels, 1, 12);
        let (levels, basket) = with((levels, Basket::default())).race([
            |(levels, basket)| basket.add(pop_below(levels, 1)),
            |(levels, basket)| {
                push(levels, 0, 1);
                basket.add(pop(levels));
            },
        ]);
        let (left, taken) = (drain(&levels), basket.sorted());
        assert!((taken == [1] && left == [11, 12]) || (taken == [1, 11] && left == [12]));
    });
}

/// The same when another looks for anything meanwhile: the urgent one has been taken when both are done.
#[test]
fn the_urgent_one_is_among_the_first() {
    explore_within(5, || {
        let levels = once_occupied(2);
        push(&levels, 1, 11);
        push(&levels, 1, 12);
        let (levels, basket) = with((levels, Basket::default())).race([
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, basket)| {
                push(levels, 0, 1);
                basket.add(pop(levels));
            },
        ]);
        assert_eq!(drain(&levels), [12]);
        assert_eq!(basket.sorted(), [1, 11]);
    });
}

/// The same with levels that are in different words.
#[test]
fn the_urgent_one_in_another_word() {
    explore_within(5, || {
        let levels = once_occupied(33);
        push(&levels, 32, 11);
        let (levels, basket) = with((levels, Basket::default())).race([
            |(levels, basket)| basket.add(pop_below(levels, 32)),
            |(levels, basket)| {
                push(levels, 31, 1);
                basket.add(pop(levels));
            },
        ]);
        let (left, taken) = (drain(&levels), basket.sorted());
        assert!((taken == [1] && left == [11]) || (taken == [1, 11] && left.is_empty()));
    });
}

/// First in, first out, while they come.
#[test]
fn in_order() {
    explore_within(5, || {
        let levels = Levels::new(1);
        push(&levels, 0, 1);
        let levels = with(levels).race([
            |levels| {
                push(levels, 0, 2);
                push(levels, 0, 3);
            },
            |levels| {
                assert_eq!(pop(levels), Some(1));
                assert!(matches!(pop(levels), None | Some(2)));
            },
        ]);
        let left = drain(&levels);
        assert!(left == [2, 3] || left == [3]);
    });
}

/// Two who take at the same time have the first two.
#[test]
fn two_who_take() {
    explore_within(3, || {
        let levels = Levels::new(1);
        push(&levels, 0, 1);
        push(&levels, 0, 2);
        let (levels, basket) = with((levels, Basket::default())).race([
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, basket)| basket.add(pop(levels)),
            |(levels, _)| push(levels, 0, 3),
        ]);
        assert_eq!(drain(&levels), [3]);
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// Two who add at the same time, each in its order.
#[test]
fn two_who_add() {
    explore_within(5, || {
        let levels = with(Levels::new(1)).race([
            |levels| (1..=2).for_each(|item| push(levels, 0, item)),
            |levels| (11..=12).for_each(|item| push(levels, 0, item)),
        ]);
        let left = drain(&levels);
        let (ones, elevens): (Vec<u32>, Vec<u32>) = left.iter().partition(|item| **item < 10);
        assert_eq!((ones, elevens), (vec![1, 2], vec![11, 12]));
    });
}
