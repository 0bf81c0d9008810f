//! Concurrent collections are other crates' business; waiting for what is in them is ours. A bag, a
//! queue and a stack that can be waited on: the collection of your choice, and a semaphore that
//! counts its items. And a dictionary whose values are made once, while others await them: a
//! concurrent map of promises.
//!
//! The counterparts of .NET's `ConcurrentBag`, `ConcurrentQueue`, `ConcurrentStack`,
//! `ConcurrentDictionary`.
//!
//! `cargo run --release -p semaforo --example concurrent_collections`

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_deque::{Injector, Steal};
use crossbeam_queue::SegQueue;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use futures::executor::block_on;
use semaforo::{AcquireError, Promise, Semaphore};

/// What can be pushed into and popped from by many threads at once, without waiting.
trait Collection<T>: Default {
    fn push(&self, item: T);
    fn pop(&self) -> Option<T>;
}

/// A queue: first in, first out.
impl<T> Collection<T> for SegQueue<T> {
    fn push(&self, item: T) {
        self.push(item);
    }

    fn pop(&self) -> Option<T> {
        self.pop()
    }
}

/// A stack: last in, first out. A lock that is held for one push is seldom the trouble.
impl<T> Collection<T> for Mutex<Vec<T>> {
    fn push(&self, item: T) {
        self.lock().unwrap().push(item);
    }

    fn pop(&self) -> Option<T> {
        self.lock().unwrap().pop()
    }
}

/// A bag: any item will do. (The crate's injector happens to keep an order; a bag promises none.)
#[derive(Default)]
struct Bag<T>(Injector<T>);

impl<T> Collection<T> for Bag<T>
where
    Self: Default,
{
    fn push(&self, item: T) {
        self.0.push(item);
    }

    fn pop(&self) -> Option<T> {
        loop {
            match self.0.steal() {
                Steal::Success(item) => return Some(item),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }
}

/// A collection whose items can be waited for.
struct Awaited<C> {
    items: C,
    /// A permit for each item that has been pushed and that no taker has been promised.
    count: Semaphore,
}

impl<C: Default> Awaited<C> {
    fn new() -> Self {
        Self { items: C::default(), count: Semaphore::new(0) }
    }

    fn put<T>(&self, item: T)
    where
        C: Collection<T>,
    {
        self.items.push(item);
        self.count.release(1).expect("fewer items than permits can be");
    }

    fn take<T>(&self) -> Result<T, AcquireError>
    where
        C: Collection<T>,
    {
        self.count.acquire(1).wait()?.forget();
        Ok(self.promised())
    }

    async fn take_async<T>(&self) -> Result<T, AcquireError>
    where
        C: Collection<T>,
    {
        self.count.acquire(1).await?.forget();
        Ok(self.promised())
    }

    fn try_take<T>(&self) -> Option<T>
    where
        C: Collection<T>,
    {
        self.count.try_acquire(1).ok()?.forget();
        Some(self.promised())
    }

    fn promised<T>(&self) -> T
    where
        C: Collection<T>,
    {
        self.items.pop().expect("a permit is an item")
    }
}

/// Four threads put, a thread and a task take, who wait while there is nothing. What was taken.
fn share<C: Collection<u32> + Send + Sync>(each: u32) -> Vec<u32> {
    let items = &Awaited::<C>::new();
    thread::scope(|scope| {
        let by_thread =
            scope.spawn(|| (0..2 * each).map(|_| items.take().unwrap()).collect::<Vec<u32>>());
        let by_task = scope.spawn(|| {
            block_on(async {
                let mut taken = Vec::new();
                for _ in 0..2 * each {
                    taken.push(items.take_async().await.unwrap());
                }
                taken
            })
        });
        for producer in 0..4 {
            let mine = producer * each..(producer + 1) * each;
            scope.spawn(move || mine.for_each(|item| items.put(item)));
        }
        let mut taken: Vec<u32> = by_thread.join().expect("it does not panic");
        taken.extend(by_task.join().expect("it does not panic"));
        taken
    })
}

/// What comes out of a collection after 1, 2, 3 were put into it.
fn order<C: Collection<u32>>() -> Vec<u32> {
    let items = Awaited::<C>::new();
    (1..=3).for_each(|item| items.put(item));
    std::iter::from_fn(|| items.try_take()).collect()
}

type Made = Promise<String, Infallible>;

/// A dictionary whose values are made by the first who asks, and awaited by all others.
#[derive(Default)]
struct Dictionary {
    values: DashMap<u32, Arc<Made>>,
    made: AtomicU32,
}

impl Dictionary {
    fn get(&self, key: u32, make: impl FnOnce(u32) -> String) -> String {
        // The shard of the map is locked within this block only: never while making or waiting.
        let (promise, mine) = match self.values.entry(key) {
            Entry::Occupied(promise) => (Arc::clone(promise.get()), false),
            Entry::Vacant(place) => (Arc::clone(&place.insert(Arc::default())), true),
        };
        if mine {
            self.made.fetch_add(1, Ordering::Relaxed);
            promise.set(make(key)).expect("only the first one sets it");
        }
        promise.get().wait().expect("it never fails").clone()
    }
}

/// Eight threads ask for the same ten keys. How many values were made, and how many were right.
fn look_up() -> (u32, usize) {
    let dictionary = Dictionary::default();
    let slow = |key: u32| {
        thread::yield_now();
        format!("the square of {key} is {}", key * key)
    };
    let right = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..10).filter(|key| dictionary.get(*key, slow) == slow(*key)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    });
    (dictionary.made.into_inner(), right)
}

fn main() {
    println!("bag:        {} items shared out", share::<Bag<u32>>(1000).len());
    println!("queue:      1, 2, 3 come out as {:?}", order::<SegQueue<u32>>());
    println!("stack:      1, 2, 3 come out as {:?}", order::<Mutex<Vec<u32>>>());
    let (made, right) = look_up();
    println!("dictionary: {made} values were made for 80 questions, {right} answers were right");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_is_taken_once<C: Collection<u32> + Send + Sync>() {
        let mut taken = share::<C>(500);
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..2000));
    }

    #[test]
    fn a_bag_that_can_be_waited_on() {
        each_is_taken_once::<Bag<u32>>();
    }

    #[test]
    fn a_queue_that_can_be_waited_on() {
        each_is_taken_once::<SegQueue<u32>>();
        assert_eq!(order::<SegQueue<u32>>(), [1, 2, 3]);
    }

    #[test]
    fn a_stack_that_can_be_waited_on() {
        each_is_taken_once::<Mutex<Vec<u32>>>();
        assert_eq!(order::<Mutex<Vec<u32>>>(), [3, 2, 1]);
    }

    #[test]
    fn a_dictionary_whose_values_are_made_once() {
        assert_eq!(look_up(), (10, 80));
    }
}
