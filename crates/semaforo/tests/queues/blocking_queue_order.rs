//! In which order items leave a blocking queue: last in, first out, by priority (cases PR), and when
//! some of them come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{
    Line, Random, SHORT, Step, Waiter, fire, in_every_arrangement, leaked, patient,
};
use semaforo::{BlockingQueue, CancelSource, TryPutError, TryTakeError, WaitError};

fn by_first<T: 'static>() -> BlockingQueue<(i64, T)> {
    BlockingQueue::builder().by_priority(|item: &(i64, T)| item.0).build()
}

#[test]
fn last_in_first_out() {
    for builder in [BlockingQueue::builder(), BlockingQueue::builder().capacity(4)] {
        let queue = builder.lifo().build();
        (1..=3).for_each(|item| queue.try_put(item).unwrap());
        assert_eq!((queue.peek(), queue.try_take()), (Some(3), Ok(3)));
        queue.try_put(4).unwrap();
        assert_eq!(queue.drain(), [4, 2, 1]);
    }
}

/// Whoever waits is served in the order of coming, whatever the order of the items.
#[test]
fn takers_and_putters_of_a_stack_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::builder().capacity(1).lifo().build()));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..4).map(|_| line.enter(queue.take())).collect();
        (0..4).for_each(|item| queue.try_put(item).unwrap());
        let taken: Vec<_> = takers.into_iter().map(Waiter::join).collect();
        assert_eq!(taken, [Ok(0), Ok(1), Ok(2), Ok(3)]);
        queue.try_put(4).unwrap();
        let putters: Vec<_> = (5..8).map(|item| line.enter(queue.put(item))).collect();
        for item in 4..8 {
            assert_eq!(queue.try_take(), Ok(item));
        }
        putters.into_iter().for_each(|putter| putter.join().unwrap());
    });
}

/// The last of what the builder was told counts.
#[test]
fn a_builder_may_change_its_mind() {
    let queue = BlockingQueue::builder().lifo().capacity(9).by_priority(|item| *item).capacity(2);
    let queue = queue.build();
    queue.try_put(2).unwrap();
    queue.try_put(1).unwrap();
    assert_eq!(queue.try_put(3).unwrap_err().why, TryPutError::Full);
    assert_eq!((queue.capacity(), queue.drain()), (Some(2), vec![1, 2]));
    let queue = BlockingQueue::builder().by_priority(|item| *item).lifo().build();
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    assert_eq!(queue.drain(), [2, 1]);
}

#[test]
fn the_smallest_priority_first_and_first_in_first_out_among_equals() {
    let queue = by_first();
    let mut random = Random::new(1);
    let mut expected: Vec<_> =
        (0..1000).map(|number| (i64::from(random.below(10)) - 5, number)).collect();
    expected.iter().for_each(|item| queue.try_put(*item).unwrap());
    // Stable, hence in the order of coming among equals.
    expected.sort_by_key(|item| item.0);
    assert_eq!(queue.peek(), Some(expected[0]));
    assert_eq!(queue.drain(), expected);
}

#[test]
fn priorities_may_be_as_extreme_as_there_are() {
    let queue = by_first();
    for priority in [0, i64::MAX, i64::MIN, -1, 1, i64::MIN, i64::MAX] {
        queue.try_put((priority, ())).unwrap();
    }
    let taken: Vec<_> = queue.drain().into_iter().map(|item| item.0).collect();
    assert_eq!(taken, [i64::MIN, i64::MIN, -1, 0, 1, i64::MAX, i64::MAX]);
}

#[test]
fn the_priority_is_asked_once_before_the_item_is_put() {
    let asked = Arc::new(AtomicUsize::new(0));
    let asking = Arc::clone(&asked);
    let queue = BlockingQueue::builder()
        .capacity(1)
        .by_priority(move |item: &i64| {
            asking.fetch_add(1, SeqCst);
            *item
        })
        .build();
    queue.try_put(3).unwrap();
    let mut put = Step::queued(queue.put(2));
    put.expect_pending();
    assert_eq!(asked.load(SeqCst), 2);
    assert_eq!((queue.try_take(), queue.try_take()), (Ok(3), Ok(2)));
    drop(put);
    drop(queue);
    assert_eq!((asked.load(SeqCst), Arc::strong_count(&asked)), (2, 1));
}

/// A bounded queue by priority: who waits for room is let in in the order of coming.
#[test]
fn putters_wait_in_the_order_of_coming_whatever_they_bring() {
    in_every_arrangement(|arrangement| {
        let queue = BlockingQueue::builder().capacity(2).by_priority(|item: &i64| *item).build();
        let queue = leaked(queue);
        [5, 9].into_iter().for_each(|item| queue.try_put(item).unwrap());
        let mut line = Line::new(arrangement, queue);
        let putters = [7, 1, 3].map(|item| line.enter(queue.put(item)));
        let taken: Vec<_> = (0..5).map(|_| queue.try_take().unwrap()).collect();
        assert_eq!(taken, [5, 7, 1, 3, 9]);
        putters.into_iter().for_each(|putter| putter.join().unwrap());
    });
}

/// PR-04
#[test]
fn an_empty_queue_by_priority_can_be_left() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(by_first::<u32>());
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, queue);
        let cancelled = line.enter(queue.take().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        let timed = line.start(queue.take().timeout(SHORT)).join();
        assert_eq!(timed, Err(WaitError::TimedOut));
        let zero = line.start(queue.take().timeout(Duration::ZERO)).join();
        assert_eq!(zero, Err(WaitError::TimedOut));
        assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
        assert_eq!(queue.waiters(), 0);
    });
}

/// PR-05
#[test]
fn a_taker_that_waits_gets_one_of_what_is_put_before_it_runs() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(by_first());
        let taker = Line::new(arrangement, queue).enter(queue.take());
        queue.try_put((9, "low")).unwrap();
        queue.try_put((1, "high")).unwrap();
        assert_eq!(queue.len(), 1);
        let (taken, left) = (taker.join().unwrap(), queue.try_take().unwrap());
        assert_ne!(taken, left);
        assert!(queue.is_empty());
    });
}

/// Items that were handed out and came back come first, in the order in which they were put.
#[test]
fn items_that_came_back_keep_their_order() {
    for backwards in [false, true] {
        let queue = patient(BlockingQueue::bounded(8));
        let mut takers: Vec<_> = (0..4).map(|_| Step::queued(queue.take())).collect();
        (0..6).for_each(|item| queue.try_put(item).unwrap());
        if backwards {
            takers.reverse();
        }
        takers.into_iter().for_each(drop);
        assert_eq!(queue.drain(), [0, 1, 2, 3, 4, 5]);
    }
}

/// The same if they were handed out twice in between.
#[test]
fn items_that_came_back_twice_keep_their_order() {
    for backwards in [false, true] {
        let queue = patient(BlockingQueue::bounded(8));
        let first = Step::queued(queue.take());
        let second = Step::queued(queue.take());
        let third = Step::queued(queue.take());
        queue.try_put(0).unwrap();
        queue.try_put(1).unwrap();
        drop(first);
        assert_eq!((second.wakes(), third.wakes()), (1, 1), "each has one of the two");
        let mut both = [second, third];
        if backwards {
            both.reverse();
        }
        both.into_iter().for_each(drop);
        assert_eq!(queue.drain(), [0, 1]);
    }
}

/// The same when the watchdog passes them on.
#[test]
fn items_that_were_passed_on_keep_their_order() {
    let queue = patient(BlockingQueue::unbounded());
    queue.set_patience(Duration::from_millis(2));
    let unpolled: Vec<_> = (0..3).map(|_| Step::queued(queue.take())).collect();
    let heirs: Vec<_> = (0..3).map(|_| Step::queued(queue.take())).collect();
    (0..3).for_each(|item| queue.try_put(item).unwrap());
    crate::support::eventually("all are passed on", || heirs.iter().all(|heir| heir.wakes() == 1));
    drop((heirs, unpolled));
    assert_eq!(queue.drain(), [0, 1, 2]);
}
