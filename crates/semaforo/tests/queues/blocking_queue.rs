//! Cases Q: the queue with room for items. The orders other than first in, first out are in
//! `blocking_queue_order.rs`, batches in `take_batch.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{
    LONG, Line, Record, SHORT, Step, Tally, Waiter, block_on, eventually, fire,
    in_every_arrangement, leaked, let_limits_pass, panic_of, patient,
};
use semaforo::{
    BlockingQueue, CancelSource, Closed, Rejected, TryPutError, TryTakeError, WaitError,
};

/// A queue with room for so many, all of it taken by these.
fn full<T: Copy + Send>(items: &[T]) -> &'static BlockingQueue<T> {
    let queue = leaked(patient(BlockingQueue::bounded(items.len())));
    items.iter().for_each(|item| queue.try_put(*item).unwrap());
    queue
}

/// Every kind of queue, with this capacity if that can be.
fn every_kind(capacity: Option<usize>) -> [BlockingQueue<i64>; 3] {
    let sized = || match capacity {
        Some(capacity) => BlockingQueue::builder().capacity(capacity),
        None => BlockingQueue::builder(),
    };
    [sized(), sized().lifo(), sized().by_priority(|item: &i64| *item)]
        .map(|builder| patient(builder.build()))
        .map(patient)
}

#[test]
fn a_queue_without_room_is_refused() {
    for message in [
        panic_of(|| BlockingQueue::<u32>::bounded(0)),
        panic_of(|| BlockingQueue::<u32>::builder().capacity(0).lifo().build()),
        panic_of(|| BlockingQueue::<u32>::builder().lifo().capacity(0)),
    ] {
        assert!(message.contains("capacity was zero"), "{message}");
        assert!(message.contains("SynchronousQueue"), "says what would be right: {message}");
    }
}

///
#[test]
fn size_and_remaining_are_the_capacity_at_each_step() {
    for capacity in [1, 2, 3, 4, 5, 7, 8, 64] {
        for queue in every_kind(Some(capacity)) {
            assert_eq!(queue.capacity(), Some(capacity));
            // Several laps, starting at every place of a ring.
            for lap in 0..3 * capacity {
                for item in 0..capacity {
                    assert_eq!((queue.len(), queue.remaining()), (item, Some(capacity - item)));
                    assert_eq!(queue.is_empty(), item == 0);
                    queue.try_put(item as i64).unwrap();
                }
                assert_eq!(queue.try_put(-1).unwrap_err().why, TryPutError::Full);
                for taken in 0..capacity {
                    let left = capacity - taken;
                    assert_eq!((queue.available(), queue.remaining()), (left, Some(taken)));
                    queue.try_take().unwrap();
                }
                assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
                if lap % 2 == 0 {
                    queue.try_put(0).unwrap();
                    queue.try_take().unwrap();
                }
            }
        }
    }
}

///
#[test]
fn first_in_first_out() {
    for queue in [patient(BlockingQueue::bounded(5)), patient(BlockingQueue::unbounded())] {
        let (mut put, mut taken) = (0..40, 0..40);
        for burst in [3, 5, 1, 4, 5, 2, 5] {
            put.by_ref().take(burst).for_each(|item| queue.put(item).wait().unwrap());
            assert_eq!(queue.peek(), Some(taken.clone().next().unwrap()));
            for expected in taken.by_ref().take(burst) {
                assert_eq!(queue.take().wait(), Ok(expected));
            }
            assert_eq!(queue.peek(), None);
        }
    }
}

/// PR-02 for all that are not bounded.
#[test]
fn an_unbounded_queue_never_has_to_be_waited_for() {
    for queue in every_kind(None) {
        assert_eq!((queue.capacity(), queue.remaining()), (None, None));
        for item in 0..1000 {
            assert_eq!(queue.put(item).timeout(Duration::ZERO).wait(), Ok(()));
            assert_eq!(Step::new(queue.put(item)).expect_ready(), Ok(()));
        }
        assert_eq!((queue.len(), queue.remaining(), queue.waiters()), (2000, None, 0));
    }
}

///
#[test]
fn what_does_not_fit_stays_with_whoever_brings_it() {
    in_every_arrangement(|arrangement| {
        let queue = full(&[1, 2]);
        let mut line = Line::new(arrangement, queue);
        assert_eq!(queue.try_put(3), Err(Rejected { item: 3, why: TryPutError::Full }));
        let start = Instant::now();
        let timed = line.start(queue.put(4).timeout(SHORT)).join();
        assert_eq!(timed, Err(Rejected { item: 4, why: WaitError::TimedOut }));
        assert!(start.elapsed() >= SHORT);
        let zero = line.start(queue.put(5).timeout(Duration::ZERO)).join();
        assert_eq!(zero.unwrap_err().into_item(), 5);
        assert_eq!((queue.waiters(), queue.drain()), (0, vec![1, 2]));
    });
}

///
#[test]
fn a_cancelled_put_leaves_no_trace() {
    in_every_arrangement(|arrangement| {
        let queue = full(&[1]);
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, queue);
        let first = line.enter(queue.put(2).cancel_on(&stop.token()));
        let second = line.enter(queue.put(3).cancel_on(&stop.token()).timeout(LONG));
        fire(&stop, 2);
        assert_eq!((queue.len(), queue.waiters()), (1, 0));
        for (waiter, item) in [(first, 2), (second, 3)] {
            assert_eq!(waiter.join(), Err(Rejected { item, why: WaitError::Cancelled }));
        }
        assert_eq!((queue.try_take(), queue.try_take()), (Ok(1), Err(TryTakeError::Empty)));
    });
}

///
#[test]
fn a_cancelled_take_leaves_the_item_to_others() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        let stop = CancelSource::new();
        let taker = Line::new(arrangement, queue).enter(queue.take().cancel_on(&stop.token()));
        fire(&stop, 1);
        queue.try_put(1).unwrap();
        assert_eq!(taker.join(), Err(WaitError::Cancelled));
        assert_eq!((queue.len(), queue.try_take()), (1, Ok(1)));
    });
}

///
#[test]
fn putters_are_let_in_in_order_one_for_each_place() {
    in_every_arrangement(|arrangement| {
        let queue = full(&['0']);
        let (stop, admitted) = (CancelSource::new(), Record::new());
        let mut line = Line::new(arrangement, queue);
        let mut putters = Vec::new();
        for item in ['a', 'b', 'c', 'd', 'e'] {
            let put = if matches!(item, 'b' | 'd') {
                queue.put(item).cancel_on(&stop.token())
            } else {
                queue.put(item).timeout(LONG)
            };
            let admitted = admitted.clone();
            putters.push(line.enter_then(put, move |outcome| {
                admitted.note(item);
                outcome.map_err(Rejected::into_item)
            }));
        }
        fire(&stop, 2);
        assert_eq!((queue.waiters(), queue.waiting_putters(), queue.len()), (3, 3, 1));
        eventually("the cancelled ones are told", || admitted.len() == 2);
        for (round, expected) in ['0', 'a', 'c', 'e'].into_iter().enumerate() {
            assert_eq!(queue.try_take(), Ok(expected));
            let let_in = (2 + round + 1).min(5);
            eventually("one is let in", || admitted.len() == let_in);
            assert_eq!(queue.waiters(), 5 - let_in);
        }
        assert_eq!(admitted.entries()[2..], ['a', 'c', 'e']);
        let outcomes: Vec<_> = putters.into_iter().map(Waiter::join).collect();
        assert_eq!(outcomes, [Ok(()), Err('b'), Ok(()), Err('d'), Ok(())]);
        assert!(queue.is_empty());
    });
}

///
#[test]
fn a_dropped_put_is_passed_over() {
    let queue = full(&[1]);
    let order = crate::support::WakeOrder::new();
    let (mut first, mut second) = (Step::new(queue.put(2)), Step::new(queue.put(3)));
    assert!(first.poll_with(&order.waker(1)).is_pending());
    assert!(second.poll_with(&order.waker(2)).is_pending());
    drop(first);
    assert_eq!(queue.try_take(), Ok(1));
    assert_eq!(order.entries(), [2]);
    assert_eq!((second.expect_ready(), queue.try_take()), (Ok(()), Ok(3)));
}

/// the place belongs to the sender that was let in, whether or not it has run. Its item is in
/// the queue from then on.
#[test]
fn a_place_given_to_a_waiting_put_is_not_there_for_others() {
    let queue = full(&[1]);
    let first = Step::queued(queue.put(2));
    let second = Step::queued(queue.put(3));
    assert_eq!(queue.try_take(), Ok(1));
    assert_eq!(queue.try_put(4).unwrap_err().why, TryPutError::Full);
    assert_eq!((first.wakes(), second.wakes(), queue.len()), (1, 0, 1));
    drop(first);
    assert_eq!((queue.try_take(), queue.try_take()), (Ok(2), Ok(3)));
    assert_eq!(second.wakes(), 1);
}

/// a grant wins.
#[test]
fn a_put_that_was_let_in_cannot_be_cancelled_any_more() {
    let queue = full(&[1]);
    let stop = CancelSource::new();
    let mut put = Step::queued(queue.put(2).cancel_on(&stop.token()));
    assert_eq!(queue.try_take(), Ok(1));
    stop.cancel();
    assert_eq!((put.expect_ready(), queue.drain()), (Ok(()), vec![2]));
}

///
#[test]
fn an_item_handed_to_a_take_that_is_dropped_goes_to_the_next() {
    in_every_arrangement(|arrangement| {
        for queue in [
            leaked(patient(BlockingQueue::bounded(3))),
            leaked(patient(BlockingQueue::unbounded())),
        ] {
            let first = Step::queued(queue.take());
            let mut line = Line::new(arrangement, queue);
            let (second, third) = (line.enter(queue.take()), line.enter(queue.take()));
            queue.try_put(1).unwrap();
            assert_eq!((first.wakes(), queue.len(), queue.waiters()), (1, 0, 2));
            drop(first);
            assert_eq!(second.join(), Ok(1));
            queue.try_put(2).unwrap();
            assert_eq!((third.join(), queue.len()), (Ok(2), 0));
        }
    });
}

/// a grant wins, so a token that fires afterwards changes nothing; nor does the time.
#[test]
fn an_item_handed_to_a_take_stays_its_own_when_its_token_fires() {
    let queue = patient(BlockingQueue::bounded(1));
    let stop = CancelSource::new();
    let mut cancelled = Step::queued(queue.take().cancel_on(&stop.token()));
    let mut late = Step::queued(queue.take().timeout(SHORT));
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    stop.cancel();
    let_limits_pass(SHORT);
    assert_eq!((cancelled.expect_ready(), late.expect_ready()), (Ok(1), Ok(2)));
}

/// with nobody else to have it, it comes before all others.
#[test]
fn an_item_that_came_back_comes_first() {
    for queue in every_kind(Some(2)) {
        let taker = Step::queued(queue.take());
        queue.try_put(5).unwrap();
        queue.try_put(1).unwrap();
        drop(taker);
        assert_eq!((queue.len(), queue.peek()), (2, Some(5)));
        assert_eq!(queue.drain(), [5, 1]);
        queue.try_put(3).unwrap();
        assert_eq!(queue.try_take(), Ok(3));
    }
}

///
#[test]
fn a_closed_queue_gives_what_is_left() {
    in_every_arrangement(|arrangement| {
        for queue in every_kind(Some(2)).into_iter().chain(every_kind(None)).map(leaked) {
            let mut line = Line::new(arrangement, queue);
            queue.try_put(1).unwrap();
            assert!(queue.close());
            assert!(!queue.close(), "the second time");
            assert!(queue.is_closed());
            assert_eq!(line.start(queue.put(2)).join(), Err(Rejected { item: 2, why: Closed }));
            let bounded = line.start(queue.put(3).timeout(LONG)).join();
            let why = WaitError::Refused(Closed);
            assert_eq!(bounded, Err(Rejected { item: 3, why }));
            assert_eq!(queue.try_put(4), Err(Rejected { item: 4, why: TryPutError::Closed }));
            assert_eq!(queue.len(), 1);
            assert_eq!(line.start(queue.take()).join(), Ok(1));
            assert_eq!(line.start(queue.take()).join(), Err(Closed));
            assert_eq!(line.start(queue.take().timeout(LONG)).join(), Err(why));
            assert_eq!(queue.try_take(), Err(TryTakeError::Closed));
            assert_eq!(queue.drain(), []);
        }
    });
}

/// Q-14, P13: those who wait learn of it, and have their items back.
#[test]
fn closing_turns_away_those_who_wait() {
    in_every_arrangement(|arrangement| {
        let queue = full(&[1]);
        let mut line = Line::new(arrangement, queue);
        let (unbounded, bounded) =
            (line.enter(queue.put(2)), line.enter(queue.put(3).timeout(LONG)));
        queue.close();
        assert_eq!((queue.waiters(), queue.len()), (0, 1));
        assert_eq!(unbounded.join().unwrap_err().item, 2);
        assert_eq!(bounded.join().unwrap_err().item, 3);

        let queue = leaked(patient(BlockingQueue::<u32>::bounded(1)));
        let mut line = Line::new(arrangement, queue);
        let (unbounded, bounded) =
            (line.enter(queue.take()), line.enter(queue.take().timeout(LONG)));
        queue.close();
        assert_eq!((unbounded.join(), bounded.join()), (Err(Closed), Err(Closed.into())));
    });
}

/// A grant made before closing stands, and may still be given up.
#[test]
fn an_item_handed_out_before_closing_is_not_lost() {
    let queue = patient(BlockingQueue::bounded(1));
    let mut claimed = Step::queued(queue.take());
    let dropped = Step::queued(queue.take());
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    queue.close();
    assert_eq!(claimed.expect_ready(), Ok(1));
    assert_eq!(queue.try_take(), Err(TryTakeError::Closed));
    drop(dropped);
    assert_eq!((queue.len(), queue.take().wait()), (1, Ok(2)));
    assert_eq!(queue.take().wait(), Err(Closed));
}

///
#[test]
fn nothing_is_added_once_close_has_returned() {
    for round in 0..200 {
        let queue = leaked(patient(BlockingQueue::bounded(if round % 2 == 0 { 4096 } else { 3 })));
        let added = leaked(AtomicUsize::new(0));
        let adders: Vec<_> = (0..4)
            .map(|adder| {
                Waiter::on_a_thread(move || {
                    for item in 0_u32.. {
                        let put = match adder {
                            0 => queue.put(item).wait().map_err(|_| ()),
                            1 => block_on(queue.put(item)).map_err(|_| ()),
                            _ => match queue.try_put(item) {
                                Err(Rejected { why: TryPutError::Full, .. }) => continue,
                                put => put.map_err(|_| ()),
                            },
                        };
                        if put.is_err() {
                            return;
                        }
                        added.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        eventually("some were added", || !queue.is_empty());
        queue.close();
        let count = queue.len();
        adders.into_iter().for_each(Waiter::join);
        assert_eq!((queue.len(), added.load(SeqCst)), (count, count));
        assert_eq!(queue.drain().len(), count);
    }
}

///
#[test]
fn what_is_left_is_dropped_once_with_the_queue() {
    for bounded in [true, false] {
        let tally = Tally::new();
        let queue = Arc::new(match bounded {
            true => patient(BlockingQueue::bounded(8)),
            false => patient(BlockingQueue::unbounded()),
        });
        let consumed = leaked(AtomicUsize::new(0));
        let done = leaked(AtomicBool::new(false));
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let queue = Arc::clone(&queue);
                Waiter::on_a_thread(move || {
                    while !done.load(SeqCst) {
                        if queue.take().timeout(Duration::from_millis(1)).wait().is_ok() {
                            consumed.fetch_add(1, SeqCst);
                        }
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, tally) = (Arc::clone(&queue), tally.clone());
                Waiter::on_a_thread(move || {
                    for _ in 0..2_000 {
                        queue.put(tally.make()).wait().unwrap();
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(Waiter::join);
        done.store(true, SeqCst);
        consumers.into_iter().for_each(Waiter::join);
        for _ in 0..5 {
            queue.try_put(tally.make()).ok();
        }
        let (left, consumed) = (queue.len(), consumed.load(SeqCst));
        assert!(left >= 5);
        drop(Arc::into_inner(queue).expect("all others are gone"));
        tally.expect_all_dropped();
        assert!(consumed + left <= tally.made());
    }
}

#[test]
fn draining_lets_in_those_who_wait_and_takes_theirs_too() {
    in_every_arrangement(|arrangement| {
        let queue = full(&[1, 2]);
        let mut line = Line::new(arrangement, queue);
        let putters: Vec<_> = (3..=6).map(|item| line.enter(queue.put(item))).collect();
        assert_eq!(queue.drain_at_most(0), []);
        assert_eq!(queue.drain_at_most(3), [1, 2, 3]);
        assert_eq!((queue.len(), queue.waiters()), (2, 1));
        assert_eq!(queue.drain(), [4, 5, 6]);
        assert_eq!(putters.into_iter().map(Waiter::join).collect::<Vec<_>>(), [Ok(()); 4]);
        assert_eq!((queue.drain(), queue.len()), (vec![], 0));
    });
}

#[test]
fn an_iterator_ends_when_the_queue_is_closed_and_empty() {
    let queue = leaked(patient(BlockingQueue::bounded(2)));
    let consumer = Waiter::on_a_thread(|| queue.items().collect::<Vec<_>>());
    (0..100).for_each(|item| queue.put(item).wait().unwrap());
    queue.close();
    assert_eq!(consumer.join(), (0..100).collect::<Vec<_>>());
    assert_eq!(queue.items().next(), None);
}

#[test]
fn a_stream_ends_when_the_queue_is_closed_and_empty() {
    use futures::StreamExt;
    let queue = leaked(patient(BlockingQueue::bounded(2)));
    let consumer = Waiter::on_a_thread(|| block_on(queue.stream().collect::<Vec<_>>()));
    (0..100).for_each(|item| queue.put(item).wait().unwrap());
    queue.close();
    assert_eq!(consumer.join(), (0..100).collect::<Vec<_>>());
    let mut items = Box::pin(queue.stream());
    assert_eq!(block_on(items.next()), None);
    assert_eq!(block_on(items.next()), None, "and stays at its end");
}

/// A stream holds a place while it waits, and gives it up when it is dropped.
#[test]
fn a_stream_that_is_dropped_leaves_the_rest() {
    use futures::StreamExt;
    let queue = patient(BlockingQueue::bounded(4));
    let mut items = Box::pin(queue.stream());
    let mut next = Step::queued(items.next());
    assert_eq!(queue.waiting_takers(), 1);
    (1..=3).for_each(|item| queue.try_put(item).unwrap());
    assert_eq!(next.expect_ready(), Some(1));
    drop(next);
    drop(items);
    let mut items = Box::pin(queue.stream());
    assert_eq!(block_on(items.next()), Some(2));
    assert_eq!(block_on(items.next()), Some(3));
    let next = Step::queued(items.next());
    queue.try_put(4).unwrap();
    drop(next);
    assert_eq!(queue.len(), 0, "the stream has it");
    drop(items);
    assert_eq!(queue.drain(), [4], "and gives it back");
}

#[test]
fn items_may_have_no_size() {
    for queue in [patient(BlockingQueue::bounded(3)), patient(BlockingQueue::unbounded())] {
        for _ in 0..10 {
            (0..3).for_each(|_| queue.try_put(()).unwrap());
            assert_eq!((queue.len(), queue.peek()), (3, Some(())));
            assert_eq!(queue.drain(), [(); 3]);
        }
        let mut taker = Step::queued(queue.take());
        queue.put(()).wait().unwrap();
        assert_eq!(taker.expect_ready(), Ok(()));
    }
}

#[test]
fn items_may_be_large() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        let large = |value: u8| [value; 4096];
        let mut line = Line::new(arrangement, queue);
        let taker = line.enter(queue.take());
        queue.put(large(1)).wait().unwrap();
        assert!(taker.join().is_ok_and(|item| item == large(1)));
        queue.put(large(2)).wait().unwrap();
        let putter = line.enter(queue.put(large(3)));
        assert!(queue.take().wait().is_ok_and(|item| item == large(2)));
        putter.join().unwrap();
        assert!(queue.try_take().is_ok_and(|item| item == large(3)));
    });
}

/// Aligned to more than the queue itself.
#[test]
fn items_may_be_aligned_as_they_like() {
    #[repr(align(512))]
    #[derive(Clone, Copy)]
    struct Aligned(u8);
    let is_aligned = |item: &Aligned| std::ptr::from_ref(item).addr() % 512 == 0;
    for queue in [patient(BlockingQueue::bounded(2)), patient(BlockingQueue::unbounded())] {
        let mut taker = Step::queued(queue.take());
        queue.try_put(Aligned(1)).unwrap();
        assert!(taker.expect_ready().is_ok_and(|item| is_aligned(&item) && item.0 == 1));
        queue.try_put(Aligned(2)).unwrap();
        assert!(queue.try_take().is_ok_and(|item| is_aligned(&item) && item.0 == 2));
    }
}

#[test]
fn items_may_be_borrowed() {
    let words: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
    let queue = patient(BlockingQueue::bounded(1));
    let got: Vec<&str> = std::thread::scope(|scope| {
        scope.spawn(|| {
            words.iter().for_each(|word| queue.put(word.as_str()).wait().unwrap());
            queue.close();
        });
        queue.items().collect()
    });
    assert_eq!(got, words);
}

/// A queue may be moved while nobody uses it, and handed around in an `Arc`.
#[test]
fn an_owned_request_keeps_the_queue() {
    in_every_arrangement(|arrangement| {
        let queue = Arc::new(patient(BlockingQueue::bounded(1)));
        let mut line = Line::new(arrangement, &*queue);
        let taker = line.enter(queue.take_owned());
        queue.try_put(1).unwrap();
        assert_eq!(taker.join(), Ok(1));
        queue.try_put(2).unwrap();
        let putter = line.enter(queue.put_owned(3));
        assert_eq!(queue.try_take(), Ok(2));
        assert_eq!((putter.join(), queue.try_take()), (Ok(()), Ok(3)));
        eventually("the requests are gone", || Arc::strong_count(&queue) == 1);
    });
}

#[test]
fn waiters_are_counted_by_what_they_wait_for() {
    let queue = full(&[1]);
    let putters = [Step::queued(queue.put(2)), Step::queued(queue.put(3))];
    assert_eq!((queue.waiters(), queue.waiting_putters(), queue.waiting_takers()), (2, 2, 0));
    drop(putters);
    queue.drain();
    let takers = [Step::queued(queue.take()), Step::queued(queue.take())];
    assert_eq!((queue.waiters(), queue.waiting_putters(), queue.waiting_takers()), (2, 0, 2));
    drop(takers);
    assert_eq!((queue.waiters(), queue.len()), (0, 0));
}

#[test]
fn debugging_shows_what_is_going_on() {
    struct NotDebug;
    let queue = patient(BlockingQueue::bounded(2));
    queue.try_put(NotDebug).ok();
    let shown = format!("{queue:?}");
    for part in ["len: 1", "capacity: Some(2)", "closed: false", "waiters: 0"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(format!("{:?}", queue.items()).contains("len: 1"));
    assert_eq!(format!("{:?}", queue.put(NotDebug)), "Request(\"not polled yet\")");
    let rejected = patient(BlockingQueue::bounded(1));
    rejected.close();
    let rejected = rejected.try_put(NotDebug).unwrap_err();
    assert_eq!(rejected.to_string(), "the item was not accepted: the queue is closed");
    assert!(std::error::Error::source(&rejected).is_some());
    let builder = BlockingQueue::<NotDebug>::builder().capacity(3);
    assert!(format!("{builder:?}").contains("capacity: Some(3)"));
}
