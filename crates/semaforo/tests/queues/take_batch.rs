//! Taking several items at a time.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use crate::support::{
    LONG, SHORT, Step, Tally, Waiter, block_on, eventually, fire, leaked, panic_of, patient,
    until_queued,
};
use semaforo::{BlockingQueue, CancelSource, Closed, WaitError};

fn queue_of(items: std::ops::Range<u32>) -> &'static BlockingQueue<u32> {
    let queue = leaked(patient(BlockingQueue::unbounded()));
    items.for_each(|item| queue.try_put(item).unwrap());
    queue
}

/// Starts a batch on a thread, or as a task.
macro_rules! start {
    ($blocking:expr, $batch:expr) => {
        if $blocking {
            Waiter::on_a_thread(move || $batch.wait())
        } else {
            Waiter::on_a_thread(move || block_on($batch.into_future()))
        }
    };
}

#[test]
fn a_batch_is_done_when_it_is_full() {
    for blocking in [true, false] {
        let queue = queue_of(0..10);
        assert_eq!(start!(blocking, queue.take_batch(3, LONG)).join(), Ok(vec![0, 1, 2]));
        assert_eq!(start!(blocking, queue.take_batch(1, LONG)).join(), Ok(vec![3]));
        let rest = start!(blocking, queue.take_batch(usize::MAX, Duration::ZERO)).join();
        assert_eq!(rest, Ok((4..10).collect()));
        // Filled while it waits.
        let batch = start!(blocking, queue.take_batch(2, LONG));
        until_queued(queue, 1);
        (10..13).for_each(|item| queue.try_put(item).unwrap());
        assert_eq!((batch.join(), queue.drain()), (Ok(vec![10, 11]), vec![12]));
    }
}

#[test]
fn a_batch_is_done_after_a_silence() {
    for blocking in [true, false] {
        let queue = queue_of(0..0);
        let batch = start!(blocking, queue.take_batch(10, SHORT));
        until_queued(queue, 1);
        // The first is waited for however long it takes.
        std::thread::sleep(2 * SHORT);
        assert!(!batch.is_done());
        let start = Instant::now();
        queue.try_put(1).unwrap();
        queue.try_put(2).unwrap();
        assert_eq!(batch.join(), Ok(vec![1, 2]));
        assert!(start.elapsed() >= SHORT);
        assert_eq!(queue.waiters(), 0);
    }
}

#[test]
fn a_batch_of_a_closed_queue_is_what_is_left() {
    for blocking in [true, false] {
        let queue = queue_of(0..2);
        queue.close();
        assert_eq!(start!(blocking, queue.take_batch(9, LONG)).join(), Ok(vec![0, 1]));
        assert_eq!(start!(blocking, queue.take_batch(9, LONG)).join(), Err(Closed));
        let limited = start!(blocking, queue.take_batch(9, LONG).timeout(LONG)).join();
        assert_eq!(limited, Err(WaitError::Refused(Closed)));
        // Closed while it waits, for the first or for another.
        for items in [0, 2] {
            let queue = queue_of(0..items);
            let batch = start!(blocking, queue.take_batch(9, LONG));
            until_queued(queue, 1);
            queue.close();
            let expected = if items == 0 { Err(Closed) } else { Ok(vec![0, 1]) };
            assert_eq!(batch.join(), expected);
        }
    }
}

#[test]
fn a_batch_that_is_cancelled_is_what_was_collected() {
    for blocking in [true, false] {
        for (items, expected) in [(0, Err(WaitError::Cancelled)), (2, Ok(vec![0, 1]))] {
            let queue = queue_of(0..items);
            let stop = CancelSource::new();
            let (token, other) = (stop.token(), CancelSource::new().token());
            let batch = start!(
                blocking,
                queue.take_batch(9, LONG).cancel_on(&other).cancel_on(&token).timeout(LONG)
            );
            until_queued(queue, 1);
            fire(&stop, 1);
            assert_eq!(batch.join(), expected);
            assert_eq!((queue.waiters(), stop.token().registrations()), (0, 0));
        }
    }
}

#[test]
fn a_batch_whose_time_is_up_is_what_was_collected() {
    for blocking in [true, false] {
        for (items, expected) in [(0, Err(WaitError::TimedOut)), (2, Ok(vec![0, 1]))] {
            let queue = queue_of(0..items);
            let start = Instant::now();
            let batch =
                start!(blocking, queue.take_batch(9, LONG).timeout(SHORT).deadline(start + LONG));
            assert_eq!(batch.join(), expected);
            assert!(start.elapsed() >= SHORT);
            let queue = queue_of(0..items);
            let batch = start!(blocking, queue.take_batch(9, LONG).deadline(start + 2 * SHORT));
            assert_eq!(batch.join(), expected);
            assert!(start.elapsed() >= 2 * SHORT);
        }
    }
}

/// A grant wins: what is there is taken, whatever the limits say.
#[test]
fn what_is_there_is_a_batch_whatever_the_limits() {
    let stop = CancelSource::new();
    stop.cancel();
    for blocking in [true, false] {
        let queue = queue_of(0..3);
        let token = stop.token();
        let batch = queue.take_batch(2, LONG).timeout(Duration::ZERO).cancel_on(&token);
        assert_eq!(start!(blocking, batch).join(), Ok(vec![0, 1]));
        let batch = queue.take_batch(2, LONG).timeout(Duration::ZERO);
        assert_eq!(start!(blocking, batch).join(), Ok(vec![2]));
        let batch = queue.take_batch(2, LONG).timeout(Duration::ZERO).cancel_on(&token);
        assert_eq!(start!(blocking, batch).join(), Err(WaitError::Cancelled));
    }
}

/// The time counts from when the wait begins.
#[test]
fn a_batch_that_is_not_started_is_nothing() {
    let queue = queue_of(0..2);
    let batch = queue.take_batch(5, Duration::ZERO).timeout(SHORT);
    assert!(format!("{batch:?}").contains("max: 5"));
    std::thread::sleep(SHORT);
    assert_eq!(queue.len(), 2);
    let future = batch.into_future();
    assert_eq!(queue.len(), 2);
    drop(future);
    assert_eq!(queue.drain(), [0, 1]);
    let message = panic_of(|| queue.take_batch(0, LONG));
    assert!(message.contains("zero"), "{message}");
}

#[test]
fn a_batch_that_is_dropped_gives_its_items_back_in_order() {
    for put_meanwhile in 0..3 {
        let queue = queue_of(0..3);
        let mut batch = Step::new(queue.take_batch(9, LONG).into_future());
        batch.expect_pending();
        assert_eq!((queue.len(), queue.waiting_takers()), (0, 1));
        // The first of these is handed to it, and not claimed.
        (3..3 + put_meanwhile).for_each(|item| queue.try_put(item).unwrap());
        drop(batch);
        assert_eq!(queue.waiters(), 0);
        assert_eq!(queue.drain(), (0..3 + put_meanwhile).collect::<Vec<_>>());
    }
}

#[test]
fn two_batches_that_are_dropped_give_their_items_back_in_order() {
    for backwards in [false, true] {
        let queue = queue_of(0..2);
        let mut first = Step::new(queue.take_batch(9, LONG).into_future());
        first.expect_pending();
        // Handed to the first.
        queue.try_put(2).unwrap();
        queue.try_put(3).unwrap();
        queue.try_put(4).unwrap();
        let mut second = Step::new(queue.take_batch(9, LONG).into_future());
        second.expect_pending();
        let mut both = [first, second];
        if backwards {
            both.reverse();
        }
        both.into_iter().for_each(drop);
        assert_eq!(queue.drain(), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_batch_and_a_take_that_are_dropped_give_their_items_back_in_order() {
    for backwards in [false, true] {
        let queue = queue_of(0..0);
        let take = Step::queued(queue.take());
        (0..3).for_each(|item| queue.try_put(item).unwrap());
        let mut batch = Step::new(queue.take_batch(9, LONG).into_future());
        batch.expect_pending();
        if backwards {
            drop(batch);
            drop(take);
        } else {
            drop(take);
            drop(batch);
        }
        assert_eq!(queue.drain(), [0, 1, 2]);
    }
}

/// What a dropped batch gives back goes to those who wait, the oldest to the first.
#[test]
fn a_batch_that_is_dropped_serves_those_who_wait() {
    for handed in [false, true] {
        let queue = queue_of(0..2);
        let mut batch = Step::new(queue.take_batch(9, LONG).into_future());
        batch.expect_pending();
        let mut takers = [Step::queued(queue.take()), Step::queued(queue.take())];
        if handed {
            queue.try_put(2).unwrap();
        }
        drop(batch);
        assert_eq!(takers.each_mut().map(Step::expect_ready), [Ok(0), Ok(1)]);
        assert_eq!(queue.drain(), if handed { vec![2] } else { vec![] });
    }
}

/// A batch waits in line for each of its items.
#[test]
fn a_batch_overtakes_nobody() {
    let queue = queue_of(0..0);
    let mut first = Step::queued(queue.take());
    let mut batch = Step::new(queue.take_batch(2, LONG).into_future());
    batch.expect_pending();
    let mut last = Step::queued(queue.take());
    (0..4).for_each(|item| queue.try_put(item).unwrap());
    assert_eq!((first.expect_ready(), last.expect_ready()), (Ok(0), Ok(2)));
    assert_eq!(batch.expect_ready(), Ok(vec![1, 3]));
}

/// A batch lets in those who wait for room, and takes what they bring.
#[test]
fn a_batch_may_be_larger_than_the_queue() {
    for blocking in [true, false] {
        let queue = leaked(patient(BlockingQueue::bounded(2)));
        let producer = Waiter::on_a_thread(|| {
            (0..10).for_each(|item| queue.put(item).wait().unwrap());
        });
        assert_eq!(start!(blocking, queue.take_batch(10, LONG)).join(), Ok((0..10).collect()));
        producer.join();
        assert!(queue.is_empty());
    }
}

#[test]
fn every_item_of_a_batch_is_dropped_once() {
    let tally = Tally::new();
    let queue = patient(BlockingQueue::bounded(4));
    let fill = || (0..4).for_each(|_| queue.try_put(tally.make()).unwrap());
    fill();
    drop(queue.take_batch(2, LONG).wait().unwrap());
    let mut dropped = Step::new(queue.take_batch(9, LONG).into_future());
    dropped.expect_pending();
    drop(dropped);
    assert_eq!((queue.len(), tally.dropped().len()), (2, 2));
    // A leaked batch keeps what it has, and gives up nothing else.
    let mut leaked = Step::new(queue.take_batch(9, LONG).into_future());
    leaked.expect_pending();
    std::mem::forget(leaked.into_future());
    queue.try_put(tally.make()).unwrap();
    drop(queue);
    assert_eq!(tally.dropped(), [0, 1, 4], "2 and 3 were leaked, 4 was handed to a leaked request");
}

/// Several consumers in batches, some of which are dropped, get everything once.
#[test]
fn batches_race_exactly() {
    let queue = leaked(patient(BlockingQueue::bounded(16)));
    let consumers: Vec<_> = (0..3)
        .map(|consumer| {
            Waiter::on_a_thread(move || {
                let mut random = crate::support::Random::new(consumer + 1);
                let mut got: Vec<u32> = Vec::new();
                loop {
                    let max = random.below(20) as usize + 1;
                    let silence = Duration::from_micros(random.below(200).into());
                    let batch = queue.take_batch(max, silence);
                    let outcome = match random.below(3) {
                        0 => batch.wait(),
                        1 => block_on(batch.into_future()),
                        _ => match Step::new(batch.into_future()).poll() {
                            std::task::Poll::Ready(outcome) => outcome,
                            std::task::Poll::Pending => continue,
                        },
                    };
                    match outcome {
                        Ok(items) => got.extend(items),
                        Err(Closed) => return got,
                    }
                }
            })
        })
        .collect();
    (0..20_000).for_each(|item| queue.put(item).wait().unwrap());
    eventually("everything is taken", || queue.is_empty());
    queue.close();
    let mut got: Vec<_> = consumers.into_iter().flat_map(Waiter::join).collect();
    got.extend(queue.drain());
    got.sort_unstable();
    assert_eq!(got, (0..20_000).collect::<Vec<_>>());
}
