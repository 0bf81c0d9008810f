//! What ours does in each row.

use semaforo::{Barrier, BlockingQueue, Exchanger, Phaser, SynchronousQueue, TransferQueue};

use super::bounded::PAIRS;
use super::priority::priority_of;
use crate::placement::Placement::{self, Apart};
use crate::row::Work;
use crate::workload::one_thread::fill_and_empty;
use crate::workload::{settle, tasks, two_threads};

pub(super) fn bounded(capacity: usize) -> Work {
    two_threads::pipe(
        Apart,
        ends_of(BlockingQueue::bounded(capacity)),
        |queue, item| queue.put(item).wait().unwrap(),
        |queue| queue.take().wait().unwrap(),
    )
}

pub(super) fn bounded_tasks(capacity: usize) -> Work {
    tasks::pipe(
        PAIRS,
        BlockingQueue::bounded(capacity),
        |queue, item| async move { queue.put(item).await.unwrap() },
        |queue| async { queue.take().await.unwrap() },
    )
}

pub(super) fn rendezvous(placement: Placement) -> Work {
    two_threads::pipe(
        placement,
        ends_of(SynchronousQueue::new()),
        |queue, item| queue.put(item).wait().unwrap(),
        |queue| queue.take().wait().unwrap(),
    )
}

pub(super) fn rendezvous_tasks() -> Work {
    tasks::pipe(
        1,
        SynchronousQueue::new(),
        |queue, item| async move { queue.put(item).await.unwrap() },
        |queue| async { queue.take().await.unwrap() },
    )
}

pub(super) fn unbounded() -> Work {
    two_threads::pipe(
        Apart,
        ends_of(TransferQueue::new()),
        |queue, item| queue.put(item).unwrap(),
        |queue| queue.take().wait().unwrap(),
    )
}

/// The queue without transfers.
pub(super) fn unbounded_blocking() -> Work {
    two_threads::pipe(
        Apart,
        ends_of(BlockingQueue::unbounded()),
        |queue, item| queue.put(item).wait().unwrap(),
        |queue| queue.take().wait().unwrap(),
    )
}

pub(super) fn transfer() -> Work {
    two_threads::pipe(
        Apart,
        ends_of(TransferQueue::new()),
        |queue, item| queue.transfer(item).wait().unwrap(),
        |queue| queue.take().wait().unwrap(),
    )
}

pub(super) fn barrier() -> Work {
    two_threads::meet(Apart, Barrier::new(2), |barrier, _| {
        barrier.arrive().wait().unwrap();
    })
}

pub(super) fn barrier_tasks() -> Work {
    tasks::meet(Barrier::new(2), |barrier| async {
        barrier.arrive().await.unwrap();
    })
}

pub(super) fn exchanger() -> Work {
    two_threads::meet(Apart, Exchanger::new(), |exchanger, number| {
        assert_eq!(exchanger.exchange(number).wait(), number, "both sides bring the same");
    })
}

pub(super) fn phaser() -> Work {
    two_threads::meet(Apart, Phaser::new(2), |phaser, _| {
        phaser.arrive_and_wait().wait().unwrap();
    })
}

pub(super) fn priority(items: u64) -> Work {
    fill_and_empty(
        BlockingQueue::builder().by_priority(|&item| priority_of(item)).build(),
        items,
        |queue, item| queue.put(item).wait().unwrap(),
        |queue| queue.take().wait().unwrap(),
    )
}

/// Both ends of a queue that has no ends of its own.
fn ends_of<Q: 'static>(queue: Q) -> (&'static Q, &'static Q) {
    let queue = settle(queue);
    (queue, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::one_thread::{poll_once, ready};

    #[test]
    fn ours_deserves_no_caveat() {
        let queue = BlockingQueue::bounded(64);
        let mut take = Box::pin(queue.take());
        assert!(poll_once(take.as_mut()).is_pending());
        ready(queue.put(7)).unwrap();
        drop(take);
        assert_eq!(queue.try_take(), Ok(7), "the next taker gets it");
    }
}
