//! Cases Y: the queue without room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{
    LONG, Line, SHORT, Step, Tally, Waiter, eventually, fire, in_every_arrangement, leaked, patient,
};
use semaforo::{
    CancelSource, Closed, Rejected, SynchronousQueue, TryPutError, TryTakeError, WaitError,
};

/// What a queue without room says of itself at any time.
#[track_caller]
fn looks_empty<T>(queue: &SynchronousQueue<T>) {
    assert_eq!((queue.len(), queue.is_empty(), queue.remaining()), (0, true, 0));
    assert!(queue.peek().is_none());
}

/// Y-01
#[test]
fn there_is_never_anything_in_it() {
    let queue = patient(SynchronousQueue::<u32>::default());
    looks_empty(&queue);
    assert_eq!((queue.drain(), queue.available(), queue.waiters()), (vec![], 0, 0));
    let put = Step::queued(queue.put(1));
    looks_empty(&queue);
    assert_eq!((queue.available(), queue.waiting_putters(), queue.waiting_takers()), (1, 1, 0));
    drop(put);
    let take = Step::queued(queue.take());
    looks_empty(&queue);
    assert_eq!((queue.available(), queue.waiting_putters(), queue.waiting_takers()), (0, 0, 1));
    queue.try_put(2).unwrap();
    looks_empty(&queue);
    drop(take);
    looks_empty(&queue);
    queue.close();
    looks_empty(&queue);
}

/// Y-03
#[test]
fn a_put_waits_for_somebody_who_takes() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, queue);
        assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
        let put = line.enter(queue.put(1));
        assert!(!put.is_done());
        assert_eq!((queue.try_take(), put.join()), (Ok(1), Ok(())));
        assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
        let put = line.enter(queue.put(2));
        assert_eq!((line.start(queue.take()).join(), put.join()), (Ok(2), Ok(())));
    });
}

#[test]
fn a_take_waits_for_somebody_who_puts() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, queue);
        assert_eq!(queue.try_put(0), Err(Rejected { item: 0, why: TryPutError::Full }));
        for item in 1..4 {
            let take = line.enter(queue.take());
            match item {
                1 => queue.try_put(item).unwrap(),
                2 => queue.put(item).wait().unwrap(),
                // A grant wins: somebody waits, so it needs no time.
                _ => queue.put(item).timeout(Duration::ZERO).wait().unwrap(),
            }
            assert_eq!(take.join(), Ok(item));
        }
        assert_eq!(queue.waiters(), 0);
    });
}

/// Y-04
#[test]
fn a_put_that_ends_takes_its_item_along() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, queue);
        let cancelled = line.enter(queue.put(1).cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
        assert_eq!(cancelled.join(), Err(Rejected { item: 1, why: WaitError::Cancelled }));
        let start = Instant::now();
        let timed = line.start(queue.put(2).timeout(SHORT)).join();
        assert_eq!(timed, Err(Rejected { item: 2, why: WaitError::TimedOut }));
        assert!(start.elapsed() >= SHORT);
        drop(Step::queued(queue.put(3)));
        assert_eq!((queue.try_take(), queue.waiters()), (Err(TryTakeError::Empty), 0));
    });
}

/// Y-05
#[test]
fn putters_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let putters: Vec<_> = (0..10).map(|item| line.enter(queue.put(item))).collect();
        let taken: Vec<_> = (0..10).map(|_| line.start(queue.take()).join().unwrap()).collect();
        assert_eq!(taken, (0..10).collect::<Vec<_>>());
        assert!(putters.into_iter().all(|putter| putter.join() == Ok(())));
    });
}

/// Y-05, for the other side.
#[test]
fn takers_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..10).map(|_| line.enter(queue.take())).collect();
        (0..10).for_each(|item| queue.put(item).wait().unwrap());
        let taken: Vec<_> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
        assert_eq!(taken, (0..10).collect::<Vec<_>>());
    });
}

/// Y-06
#[test]
fn draining_releases_exactly_those_whose_items_it_takes() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let mut putters: Vec<_> = (0..5).map(|item| line.enter(queue.put(item))).collect();
        for item in 0..2 {
            assert_eq!(queue.drain_at_most(1), [item]);
            assert_eq!(putters.remove(0).join(), Ok(()));
            assert_eq!(queue.waiters(), putters.len());
            assert!(putters.iter().all(|putter| !putter.is_done()));
        }
        assert_eq!((queue.drain(), queue.drain()), (vec![2, 3, 4], vec![]));
        assert!(putters.into_iter().all(|putter| putter.join() == Ok(())));
    });
}

/// Y-07
#[test]
fn nothing_that_was_passed_is_kept() {
    in_every_arrangement(|arrangement| {
        let (queue, tally) = (leaked(patient(SynchronousQueue::new())), Tally::new());
        let mut line = Line::new(arrangement, queue);
        for pair in 0..250 {
            let (put, take) = if pair % 2 == 0 {
                let put = line.enter(queue.put(tally.make()));
                (put, line.start(queue.take()))
            } else {
                let take = line.enter(queue.take());
                (line.start(queue.put(tally.make())), take)
            };
            assert!(put.join().is_ok());
            assert_eq!(take.join().map(|item| item.number).ok(), Some(pair));
            assert_eq!(tally.dropped().len(), pair + 1);
        }
        tally.expect_all_dropped();
    });
}

/// Y-07
#[test]
fn cancelling_all_but_one_pair_leaves_that_pair_running() {
    let queue = leaked(patient(SynchronousQueue::new()));
    let stop = leaked(CancelSource::new());
    let passed = leaked(AtomicUsize::new(0));
    let pair = |token: Option<semaforo::CancelToken>| {
        let own = token.clone();
        let producer = Waiter::on_a_thread(move || {
            loop {
                let outcome = match &own {
                    Some(token) => {
                        queue.put(1).cancel_on(token).wait().map_err(|rejected| rejected.why)
                    }
                    None => queue.put(1).wait().map_err(|rejected| rejected.why.into()),
                };
                if let Err(why) = outcome {
                    return why;
                }
            }
        });
        let consumer = Waiter::on_a_thread(move || {
            loop {
                let outcome = match &token {
                    Some(token) => queue.take().cancel_on(token).wait(),
                    None => queue.take().wait().map_err(Into::into),
                };
                if let Err(why) = outcome {
                    return why;
                }
                passed.fetch_add(1, SeqCst);
            }
        });
        [producer, consumer]
    };
    let cancelled: Vec<_> = (0..3).flat_map(|_| pair(Some(stop.token()))).collect();
    let running = pair(None);
    eventually("items are passed", || passed.load(SeqCst) > 100);
    stop.cancel();
    for ended in cancelled {
        assert_eq!(ended.join(), WaitError::Cancelled);
    }
    let before = passed.load(SeqCst);
    eventually("the pair runs on", || passed.load(SeqCst) > before + 100);
    queue.close();
    assert!(running.into_iter().all(|ended| ended.join() == WaitError::Refused(Closed)));
    assert_eq!((queue.waiters(), stop.token().registrations()), (0, 0));
}

#[test]
fn closing_turns_everyone_away() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let puts = [line.enter(queue.put(1)), line.enter(queue.put(2))];
        let bounded = line.enter(queue.put(3).timeout(LONG));
        assert!(queue.close() && !queue.close() && queue.is_closed());
        assert_eq!(puts.map(|put| put.join().unwrap_err().item), [1, 2]);
        assert_eq!(bounded.join().unwrap_err().why, WaitError::Refused(Closed));
        assert_eq!(queue.try_put(4).unwrap_err().why, TryPutError::Closed);
        assert_eq!(queue.try_take(), Err(TryTakeError::Closed));
        assert_eq!(line.start(queue.take()).join(), Err(Closed));
        assert_eq!(line.start(queue.put(5)).join().unwrap_err().item, 5);

        let queue = leaked(patient(SynchronousQueue::<u32>::new()));
        let mut line = Line::new(arrangement, queue);
        let takes = [line.enter(queue.take()), line.enter(queue.take())];
        queue.close();
        assert_eq!(takes.map(Waiter::join), [Err(Closed); 2]);
        assert_eq!(queue.waiters(), 0);
    });
}

/// What was handed to a task before it was closed is not lost with the task.
#[test]
fn an_item_handed_over_before_closing_is_not_lost() {
    let queue = patient(SynchronousQueue::new());
    let (mut claims, dropped) = (Step::queued(queue.take()), Step::queued(queue.take()));
    queue.put(1).wait().unwrap();
    queue.put(2).wait().unwrap();
    queue.close();
    drop(dropped);
    assert_eq!((claims.expect_ready(), queue.available()), (Ok(1), 1));
    assert_eq!((queue.take().wait(), queue.take().wait()), (Ok(2), Err(Closed)));
}

#[test]
fn an_owned_request_keeps_the_queue() {
    in_every_arrangement(|arrangement| {
        let queue = Arc::new(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, &*queue);
        let put = line.enter(queue.put_owned(1));
        assert_eq!((line.start(queue.take_owned()).join(), put.join()), (Ok(1), Ok(())));
        eventually("the requests are gone", || Arc::strong_count(&queue) == 1);
    });
}

#[test]
fn debugging_shows_what_is_going_on() {
    let queue = patient(SynchronousQueue::new());
    let _put = Step::queued(queue.put(std::cell::Cell::new(1)));
    let shown = format!("{queue:?}");
    for part in ["SynchronousQueue", "closed: false", "waiters: 1"] {
        assert!(shown.contains(part), "{shown}");
    }
}
