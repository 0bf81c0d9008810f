//! Hoare's bounded buffer: with his signal, whoever waited finds what it waited for, so that an `if`
//! is enough where other monitors need a `while`.
//!
//! After C. A. R. Hoare, "Monitors: an operating system structuring concept", 1974.
//!
//! `cargo run --release -p semaforo --example bounded_buffer`

use std::collections::VecDeque;
use std::thread;

use semaforo::{Condition, Monitor};

struct BoundedBuffer<T> {
    portions: Monitor<VecDeque<T>>,
    capacity: usize,
    nonempty: Condition,
    nonfull: Condition,
}

impl<T> BoundedBuffer<T> {
    fn new(capacity: usize) -> Self {
        Self {
            portions: Monitor::new(VecDeque::new()),
            capacity,
            nonempty: Condition::new(),
            nonfull: Condition::new(),
        }
    }

    /// Appends a portion when there is room. Returns how many there were then.
    fn append(&self, portion: T) -> usize {
        let mut portions = self.portions.enter().wait();
        if portions.len() == self.capacity {
            portions = self.nonfull.wait(portions).wait();
        }
        portions.push_back(portion);
        let length = portions.len();
        drop(self.nonempty.signal_urgent(portions).wait());
        length
    }

    /// Removes the oldest portion when there is one.
    fn remove(&self) -> T {
        let mut portions = self.portions.enter().wait();
        if portions.is_empty() {
            portions = self.nonempty.wait(portions).wait();
        }
        let portion =
            portions.pop_front().expect("nobody comes between the signal and the signalled");
        drop(self.nonfull.signal_urgent(portions).wait());
        portion
    }
}

/// What went through a buffer.
#[derive(Debug)]
struct Passage {
    /// The most portions that were in the buffer.
    fullest: usize,
    /// What each consumer removed, in its order.
    removed: Vec<Vec<u32>>,
}

/// Each of the threads on one side appends portions, from its own number on in steps of the number of
/// threads; as many on the other side remove them.
fn pass(threads: u32, portions_each: u32, capacity: usize) -> Passage {
    let buffer = &BoundedBuffer::new(capacity);
    thread::scope(|scope| {
        let append = move |first| {
            let portions = (0..portions_each).map(move |i| first + i * threads);
            portions.map(|portion| buffer.append(portion)).max().unwrap_or(0)
        };
        let remove = move || (0..portions_each).map(|_| buffer.remove()).collect();
        let producers: Vec<_> =
            (0..threads).map(|first| scope.spawn(move || append(first))).collect();
        let consumers: Vec<_> = (0..threads).map(|_| scope.spawn(remove)).collect();
        Passage {
            fullest: producers.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or(0),
            removed: consumers.into_iter().map(|thread| thread.join().unwrap()).collect(),
        }
    })
}

fn main() {
    println!("3 producers and 3 consumers share a buffer for 4 portions.");
    let passage = pass(3, 400, 4);
    for (consumer, removed) in (1..).zip(&passage.removed) {
        println!("consumer {consumer} removed {} portions", removed.len());
    }
    println!("There were never more than {} in the buffer.", passage.fullest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_portion_passes_once_and_the_buffer_never_overflows() {
        let passage = pass(4, 500, 3);
        assert!((1..=3).contains(&passage.fullest), "{} of 3", passage.fullest);
        let mut all = passage.removed.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4 * 500));
    }

    #[test]
    fn one_consumer_sees_the_order_of_one_producer() {
        assert!(pass(1, 500, 2).removed.concat().into_iter().eq(0..500));
    }

    #[test]
    fn a_waiting_consumer_comes_before_one_at_the_door() {
        let buffer = &BoundedBuffer::new(1);
        thread::scope(|scope| {
            let waited = scope.spawn(|| buffer.remove());
            until(|| buffer.nonempty.waiters() == 1);
            let inside = buffer.portions.enter().wait();
            scope.spawn(|| buffer.append("first"));
            until(|| buffer.portions.waiters() == 1);
            let at_the_door = scope.spawn(|| buffer.remove());
            until(|| buffer.portions.waiters() == 2);
            drop(inside);
            assert_eq!(waited.join().unwrap(), "first");
            buffer.append("second");
            assert_eq!(at_the_door.join().unwrap(), "second");
        });
    }

    #[test]
    fn a_waiting_producer_comes_before_one_at_the_door() {
        let buffer = &BoundedBuffer::new(1);
        buffer.append("first");
        thread::scope(|scope| {
            scope.spawn(|| buffer.append("waited"));
            until(|| buffer.nonfull.waiters() == 1);
            let inside = buffer.portions.enter().wait();
            scope.spawn(|| buffer.remove());
            until(|| buffer.portions.waiters() == 1);
            scope.spawn(|| buffer.append("at the door"));
            until(|| buffer.portions.waiters() == 2);
            drop(inside);
            assert_eq!([buffer.remove(), buffer.remove()], ["waited", "at the door"]);
        });
    }

    fn until(seen: impl Fn() -> bool) {
        while !seen() {
            thread::yield_now();
        }
    }
}
