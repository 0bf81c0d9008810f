//! A message queue of two semaphores, as in the textbooks: one counts free places, the other
//! messages. The asynchronous half is the same code as the blocking one, because a request is both.
//!
//! (`BlockingQueue` does the same in one step instead of three, gives the message back when it
//! cannot be put, and can be closed.)
//!
//! `cargo run --release -p semaforo --example message_queue`

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use semaforo::{AcquireError, CancelToken, Semaphore, WaitError};

struct MessageQueue<T> {
    /// Held only for a push or a pop, never while waiting.
    messages: Mutex<VecDeque<T>>,
    free_places: Semaphore,
    filled_places: Semaphore,
}

impl<T> MessageQueue<T> {
    fn new(capacity: u32) -> Self {
        Self {
            messages: Mutex::default(),
            free_places: Semaphore::with_max(capacity, capacity),
            filled_places: Semaphore::with_max(0, capacity),
        }
    }

    fn put(&self, message: T) -> Result<(), AcquireError> {
        // The permit is kept: the taker of the message gives a place back.
        self.free_places.acquire(1).wait()?.forget();
        self.store(message);
        Ok(())
    }

    async fn put_async(&self, message: T) -> Result<(), AcquireError> {
        self.free_places.acquire(1).await?.forget();
        self.store(message);
        Ok(())
    }

    fn take(&self) -> Result<T, AcquireError> {
        self.filled_places.acquire(1).wait()?.forget();
        Ok(self.fetch())
    }

    async fn take_async(&self) -> Result<T, AcquireError> {
        self.filled_places.acquire(1).await?.forget();
        Ok(self.fetch())
    }

    /// With a time limit and a token; there is nothing to undo if it ends without a message.
    fn take_within(
        &self,
        time: Duration,
        stop: &CancelToken,
    ) -> Result<T, WaitError<AcquireError>> {
        self.filled_places.acquire(1).timeout(time).cancel_on(stop).wait()?.forget();
        Ok(self.fetch())
    }

    fn store(&self, message: T) {
        self.messages.lock().unwrap().push_back(message);
        self.filled_places.release(1).expect("as many as there are messages");
    }

    fn fetch(&self) -> T {
        let message = self.messages.lock().unwrap().pop_front();
        self.free_places.release(1).expect("as many as there are places");
        message.expect("a permit means that there is a message")
    }
}

/// A thread and a task put so many messages each; a thread and a task take them.
fn run(capacity: u32, each: u32) -> Vec<u32> {
    let queue = &MessageQueue::new(capacity);
    thread::scope(|scope| {
        scope.spawn(move || (0..each).for_each(|n| queue.put(n).expect("never closed")));
        scope.spawn(move || {
            block_on(async {
                for message in each..2 * each {
                    queue.put_async(message).await.expect("never closed");
                }
            });
        });
        let by_thread =
            scope.spawn(move || (0..each).map(|_| queue.take().expect("never closed")).collect());
        let by_task = scope.spawn(move || {
            block_on(async {
                let mut taken = Vec::new();
                for _ in 0..each {
                    taken.push(queue.take_async().await.expect("never closed"));
                }
                taken
            })
        });
        let mut taken: Vec<u32> = by_thread.join().expect("it does not panic");
        taken.extend(by_task.join().expect("it does not panic"));
        taken
    })
}

fn main() {
    let taken = run(4, 2000);
    println!("4 places: {} messages put by a thread and a task, and taken", taken.len());
    let silent = MessageQueue::<u32>::new(1);
    let stop = semaforo::CancelSource::new();
    let nothing = silent.take_within(Duration::from_millis(20), &stop.token());
    println!("an empty queue, 20 ms later: {nothing:?}");
    stop.cancel();
    let nothing = silent.take_within(Duration::from_secs(60), &stop.token());
    println!("and cancelled, at once:      {nothing:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_taken_once() {
        let mut taken = run(3, 1000);
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..2000));
    }

    #[test]
    fn a_full_queue_makes_its_putters_wait() {
        let queue = &MessageQueue::new(1);
        queue.put(1).unwrap();
        thread::scope(|scope| {
            let putter = scope.spawn(|| queue.put(2));
            while queue.free_places.waiters() == 0 {
                thread::yield_now();
            }
            assert_eq!(queue.take(), Ok(1));
            putter.join().unwrap().unwrap();
        });
        assert_eq!(queue.take(), Ok(2));
    }

    #[test]
    fn a_take_that_is_given_up_takes_no_place_and_no_message() {
        let queue = MessageQueue::new(1);
        let stop = semaforo::CancelSource::new();
        let in_vain = queue.take_within(Duration::ZERO, &stop.token());
        assert_eq!(in_vain, Err(WaitError::TimedOut));
        stop.cancel();
        let in_vain = queue.take_within(Duration::from_secs(60), &stop.token());
        assert_eq!(in_vain, Err(WaitError::Cancelled));
        queue.put(7).unwrap();
        assert_eq!(queue.take(), Ok(7));
    }
}
