//! A batch request queue: requests join it, and one call carries out all that have joined, together.
//!
//! Many small writes become one large one, and each writer waits for the write that its own was part
//! of. With a value per request, and plain: requests that only wait for the next batch.
//!
//! `cargo run --release -p semaforo --example rule_batch_queue`

use semaforo::rule::{Asked, Contended, Reply, Rule};
use std::marker::PhantomData;

/// The requests that wait are the batch. What else there is to know is how many were begun.
struct Batches<V, R>(u64, PhantomData<fn(V) -> R>);

enum Join<V> {
    Next(V),
    Begun(u64),
}

/// The batch panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed;

impl<V: Send + 'static, R: Send + 'static> Rule for Batches<V, R> {
    type Request = Join<V>;
    type Answer = Result<R, Failed>;

    fn serve(&mut self, join: Join<V>) -> Reply<Self> {
        Reply::Wait(join)
    }
}

struct BatchQueue<V: Send + 'static, R: Send + 'static>(Contended<Batches<V, R>>);

impl<V: Send + 'static, R: Clone + Send + 'static> BatchQueue<V, R> {
    fn new() -> Self {
        Self(Contended::new(Batches(0, PhantomData)))
    }

    /// Becomes part of the next batch, and yields its result.
    fn join(&self, value: V) -> Asked<'_, Batches<V, R>> {
        self.0.request(Join::Next(value))
    }

    /// Carries out what has joined until now. Returns how many still waited for the result.
    fn run(&self, run: impl FnOnce(Vec<V>) -> R) -> usize {
        let mut values = Vec::new();
        let number = self.0.change(|batches, waiting| {
            batches.0 += 1;
            waiting.offer(|join| match join {
                Join::Next(value) => {
                    values.push(value);
                    Reply::Wait(Join::Begun(batches.0))
                }
                begun @ Join::Begun(_) => Reply::Wait(begun),
            });
            batches.0
        });
        let mut batch = Batch { queue: self, number, result: Err(Failed), answered: 0 };
        batch.result = Ok(run(values));
        batch.answer();
        batch.answered
    }
}

/// A batch that was begun: it is answered whatever happens.
struct Batch<'q, V: Send + 'static, R: Clone + Send + 'static> {
    queue: &'q BatchQueue<V, R>,
    number: u64,
    result: Result<R, Failed>,
    answered: usize,
}

impl<V: Send + 'static, R: Clone + Send + 'static> Batch<'_, V, R> {
    fn answer(&mut self) {
        let is_in_it =
            |join: &Join<V>| matches!(join, Join::Begun(number) if *number == self.number);
        let answer = |_| Reply::Done(self.result.clone());
        self.answered += self.queue.0.change(|_, waiting| waiting.offer_where(is_in_it, answer));
    }
}

impl<V: Send + 'static, R: Clone + Send + 'static> Drop for Batch<'_, V, R> {
    fn drop(&mut self) {
        self.answer();
    }
}

fn main() {
    let log = BatchQueue::<String, usize>::new();
    std::thread::scope(|scope| {
        for number in 1..=3 {
            let log = &log;
            let line = format!("line {number}");
            scope.spawn(move || {
                println!("line {number} was written with {:?} lines", log.join(line).wait());
            });
        }
        while log.0.waiters() < 3 {
            std::thread::yield_now();
        }
        let written = log.run(|lines| {
            println!("one write: {lines:?}");
            lines.len()
        });
        println!("{written} writers were told");
    });

    // The plain one: no value, and no result but that it is over.
    let barber = BatchQueue::<(), ()>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| futures::executor::block_on(barber.join(())));
        while barber.0.waiters() < 1 {
            std::thread::yield_now();
        }
        barber.run(drop);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use semaforo::WaitError;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_batch_has_all_that_joined_before_it_and_nothing_else() {
        let queue = BatchQueue::<u32, u32>::new();
        let (mut one, mut two) = (pin!(queue.join(1)), pin!(queue.join(2)));
        assert!(poll(one.as_mut()).is_pending());
        assert!(poll(two.as_mut()).is_pending());
        let mut late = pin!(queue.join(100));
        let told = queue.run(|values| {
            assert!(poll(late.as_mut()).is_pending());
            values.iter().sum()
        });
        assert_eq!(told, 2);
        assert_eq!((poll(one), poll(two)), (Poll::Ready(Ok(3)), Poll::Ready(Ok(3))));
        assert!(poll(late.as_mut()).is_pending());
        assert_eq!(queue.run(|values| values[0]), 1);
        assert_eq!(poll(late), Poll::Ready(Ok(100)));
    }

    #[test]
    fn a_request_that_has_left_is_in_no_batch() {
        let queue = BatchQueue::<u32, usize>::new();
        let ended = queue.join(1).timeout(Duration::from_millis(5)).wait().unwrap_err();
        assert_eq!(ended.why, WaitError::TimedOut);
        assert!(matches!(ended.item, Join::Next(1)));
        drop(queue.join(2));
        assert_eq!(queue.run(|values| values.len()), 0);
    }

    #[test]
    fn a_batch_that_panics_fails_its_requests_only() {
        let queue = BatchQueue::<(), ()>::new();
        let mut joined = pin!(queue.join(()));
        assert!(poll(joined.as_mut()).is_pending());
        let run = || queue.run(|_| panic!("no ink"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        assert_eq!(poll(joined), Poll::Ready(Err(Failed)));
        assert_eq!(queue.0.waiters(), 0);
        let mut next = pin!(queue.join(()));
        assert!(poll(next.as_mut()).is_pending());
        assert_eq!(queue.run(drop), 1);
        assert_eq!(poll(next), Poll::Ready(Ok(())));
    }
}
