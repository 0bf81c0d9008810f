//! The promises of the design, for the queues: order, grants that win, cancellation that acts at once,
//! futures that are never polled, wakers, and more wake-ups than are made at a time. What happens when
//! wakers panic is in `queue_panics.rs`, what is allocated in `allocations.rs`.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::time::Duration;

use crate::support::{
    InlineTask, LIMIT, LONG, Line, Record, SHORT, Step, Waiter, WakeOrder, eventually, fire,
    in_every_arrangement, in_its_own_process, leaked, meddling_waker, on_tokio, panic_of, patient,
    until_queued, waker_that,
};
use semaforo::{
    BlockingQueue, CancelSource, Closed, SynchronousQueue, TransferQueue, TryPutError,
    TryTakeError, WaitError,
};

const PATIENCE: Duration = Duration::from_millis(4);
const MANY: usize = 100;

/// Promise 1
#[test]
fn takers_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        for queue in [
            leaked(patient(BlockingQueue::bounded(2))),
            leaked(patient(BlockingQueue::unbounded())),
        ] {
            let mut line = Line::new(arrangement, queue);
            let takers: Vec<_> = (0..12).map(|_| line.enter(queue.take())).collect();
            (0..12).for_each(|item| queue.put(item).wait().unwrap());
            let taken: Vec<_> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
            assert_eq!(taken, (0..12).collect::<Vec<_>>());
        }
    });
}

/// Promise 1
#[test]
fn putters_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        queue.try_put(0).unwrap();
        let mut line = Line::new(arrangement, queue);
        let (served, mut putters) = (Record::new(), Vec::new());
        for item in 1..12 {
            let served = served.clone();
            putters.push(line.enter_then(queue.put(item), move |outcome| {
                outcome.unwrap();
                served.note(item);
            }));
        }
        for item in 0..12 {
            assert_eq!(queue.take().wait(), Ok(item));
            eventually("the next is let in", || served.len() == (item + 1).min(11));
        }
        putters.into_iter().for_each(Waiter::join);
        assert_eq!(served.entries(), (1..12).collect::<Vec<_>>());
    });
}

/// Promise 1: not even with `try_`, and not with a zero timeout.
#[test]
fn nobody_overtakes_a_waiter() {
    let zero = Duration::ZERO;
    let queue = patient(BlockingQueue::bounded(1));
    let taker = Step::queued(queue.take());
    assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
    assert_eq!(queue.take().timeout(zero).wait(), Err(WaitError::TimedOut));
    assert!(
        Step::new(queue.take_batch(1, zero).timeout(zero).into_future()).expect_ready().is_err()
    );
    assert_eq!(queue.drain(), []);
    // What was handed to a task that has not run is not there for others either.
    queue.try_put(1).unwrap();
    assert_eq!((queue.try_take(), queue.drain()), (Err(TryTakeError::Empty), vec![]));
    drop(taker);
    let _putter = Step::queued({
        queue.drain();
        queue.try_put(1).unwrap();
        queue.put(2)
    });
    assert_eq!(queue.try_put(3).unwrap_err().why, TryPutError::Full);
    assert_eq!(queue.put(4).timeout(zero).wait().unwrap_err().why, WaitError::TimedOut);
    assert_eq!(queue.try_take(), Ok(1));
    assert_eq!(queue.try_put(5).unwrap_err().why, TryPutError::Full, "its place is taken");
}

/// Promise 2
#[test]
fn what_is_there_is_granted_whatever_the_limits() {
    in_every_arrangement(|arrangement| {
        let stop = CancelSource::new();
        stop.cancel();
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        let mut line = Line::new(arrangement, queue);
        for _ in 0..2 {
            let put = queue.put(1).timeout(Duration::ZERO).cancel_on(&stop.token());
            assert_eq!(line.start(put).join(), Ok(()));
            let take = queue.take().timeout(Duration::ZERO).cancel_on(&stop.token());
            assert_eq!(line.start(take).join(), Ok(1));
        }
        let transfers = leaked(patient(TransferQueue::new()));
        transfers.put(2).unwrap();
        let mut line = Line::new(arrangement, transfers);
        let take = transfers.take().timeout(Duration::ZERO).cancel_on(&stop.token());
        assert_eq!(line.start(take).join(), Ok(2));
        let meeting = leaked(patient(SynchronousQueue::new()));
        let mut line = Line::new(arrangement, meeting);
        let taker = line.enter(meeting.take());
        let put = meeting.put(3).timeout(Duration::ZERO).cancel_on(&stop.token());
        assert_eq!((line.start(put).join(), taker.join()), (Ok(()), Ok(3)));
    });
}

/// Promise 3: whoever is ended is gone when `cancel` returns, and nobody else is.
#[test]
fn cancelling_takes_exactly_its_own_out_of_the_line() {
    in_every_arrangement(|arrangement| {
        let stop = CancelSource::new();
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let mut senders = Vec::new();
        for item in 0..6 {
            let transfer = queue.transfer(item).timeout(LONG);
            senders.push(line.enter(match item % 2 {
                0 => transfer.cancel_on(&stop.token()),
                _ => transfer,
            }));
        }
        fire(&stop, 3);
        assert_eq!((queue.len(), queue.waiters()), (3, 3));
        assert_eq!(queue.drain(), [1, 3, 5]);
        for (item, sender) in senders.into_iter().enumerate() {
            assert_eq!(sender.join().map_err(|rejected| rejected.item).is_ok(), item % 2 == 1);
        }
    });
}

/// Promise 3: the timer does the same for a task that nobody polls.
#[test]
fn a_limit_ends_a_request_that_nobody_polls() {
    let queue = patient(BlockingQueue::bounded(1));
    queue.try_put(0).unwrap();
    let mut put = Step::queued(queue.put(1).timeout(SHORT));
    until_queued(&queue, 0);
    assert_eq!((queue.try_take(), queue.try_take()), (Ok(0), Err(TryTakeError::Empty)));
    assert_eq!(put.expect_ready().unwrap_err().item, 1);
    let mut take = Step::queued(queue.take().timeout(SHORT));
    until_queued(&queue, 0);
    queue.try_put(2).unwrap();
    assert_eq!((take.expect_ready(), queue.len()), (Err(WaitError::TimedOut), 1));
}

/// Promise 4
#[test]
fn an_item_of_a_task_that_is_never_polled_is_passed_on() {
    in_every_arrangement(|arrangement| {
        for queue in [
            leaked(patient(BlockingQueue::bounded(1))),
            leaked(patient(BlockingQueue::unbounded())),
        ] {
            queue.set_patience(PATIENCE);
            let mut unpolled = Step::queued(queue.take());
            let mut line = Line::new(arrangement, queue);
            let takers: Vec<_> = (0..3).map(|_| line.enter(queue.take())).collect();
            (0..3).for_each(|item| queue.put(item).wait().unwrap());
            let mut taken: Vec<_> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
            taken.sort_unstable();
            assert_eq!((taken, queue.waiters()), (vec![0, 1, 2], 1));
            // Polled again, it still gets its turn.
            unpolled.expect_pending();
            queue.try_put(3).unwrap();
            assert_eq!(unpolled.expect_ready(), Ok(3));
        }
    });
}

/// Promise 4: a row of them, and a newcomer.
#[test]
fn a_row_of_unpolled_tasks_holds_up_nobody() {
    let queue = patient(BlockingQueue::unbounded());
    queue.set_patience(Duration::from_millis(2));
    let mut unpolled: Vec<_> = (0..10).map(|_| Step::queued(queue.take())).collect();
    queue.try_put(1).unwrap();
    assert_eq!(queue.take().wait(), Ok(1));
    assert_eq!((queue.waiters(), queue.len()), (10, 0));
    queue.try_put(2).unwrap();
    assert_eq!(unpolled[7].expect_ready(), Ok(2));
    unpolled[3].expect_pending();
    queue.close();
    assert_eq!(unpolled[0].expect_ready(), Err(Closed), "dormant ones learn of it when they come");
    assert_eq!(unpolled[3].expect_ready(), Err(Closed));
    drop(unpolled);
    assert_eq!(queue.waiters(), 0);
}

/// Promise 4: with nobody else who wants it, an item waits for its task.
#[test]
fn an_unclaimed_item_stays_while_nobody_waits() {
    let queue = patient(BlockingQueue::unbounded());
    queue.set_patience(PATIENCE);
    let mut unpolled = Step::queued(queue.take());
    queue.try_put(1).unwrap();
    // Nothing shows that nothing happens but time.
    std::thread::sleep(PATIENCE * 8);
    assert_eq!((queue.len(), queue.waiters()), (0, 0));
    assert_eq!(unpolled.expect_ready(), Ok(1));
}

/// Promise 4, as the program of the write-up has it.
#[test]
fn a_queue_does_not_futurelock() {
    let queue = Arc::new(patient(BlockingQueue::bounded(1)));
    queue.set_patience(PATIENCE);
    let program = async {
        let mut first = pin!(queue.take());
        tokio::select! {
            _ = &mut first => panic!("there is nothing"),
            () = tokio::time::sleep(PATIENCE) => {}
        }
        let producer = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.put(1).await.unwrap() }
        });
        assert_eq!(queue.take().await, Ok(1));
        producer.await.unwrap();
        queue.put(2).await.unwrap();
        assert_eq!(first.await, Ok(2));
    };
    on_tokio(async {
        tokio::time::timeout(LIMIT, program).await.expect("this hangs where promise 4 is not kept");
    });
}

/// A dormant request can be dropped, cancelled and timed out.
#[test]
fn a_dormant_take_can_end() {
    let queue = patient(BlockingQueue::unbounded());
    queue.set_patience(Duration::from_millis(2));
    let stop = CancelSource::new();
    let dropped = Step::queued(queue.take());
    let mut cancelled = Step::queued(queue.take().cancel_on(&stop.token()));
    let mut timed = Step::queued(queue.take().timeout(10 * SHORT));
    let mut last = Step::queued(queue.take());
    queue.try_put(1).unwrap();
    eventually("everyone before the last goes dormant", || last.wakes() == 1);
    assert_eq!((last.expect_ready(), queue.waiters()), (Ok(1), 3));
    drop(dropped);
    assert_eq!(queue.waiters(), 2);
    stop.cancel();
    assert_eq!(queue.waiters(), 1);
    assert_eq!(cancelled.expect_ready(), Err(WaitError::Cancelled));
    until_queued(&queue, 0);
    assert_eq!(timed.expect_ready(), Err(WaitError::TimedOut));
}

/// Promise 5: no user code under a lock. These wakers use the queue, whatever is done to them.
#[test]
fn a_waker_may_use_its_queue() {
    Waiter::on_a_thread(|| {
        let queue = leaked(patient(BlockingQueue::bounded(2)));
        let (waker, calls) = meddling_waker(move || {
            let _ = (format!("{queue:?}"), queue.peek(), queue.waiters(), queue.is_closed());
            let _ = queue.take().timeout(Duration::ZERO).wait();
            let _ = queue.try_put(0);
            let _ = Step::new(queue.take().timeout(LONG)).poll_with(Waker::noop());
            queue.drain();
        });
        let stop = CancelSource::new();
        for round in 0..5 {
            let mut taker = Step::new(queue.take().cancel_on(&stop.token()).timeout(LONG));
            // What a waker does while it is cloned may serve it.
            if taker.poll_with(&waker).is_pending() {
                let _ = taker.poll_with(&waker.clone());
            }
            match round {
                0 => drop(taker),
                1 => queue.try_put(1).unwrap(),
                2 => queue.put(2).wait().unwrap(),
                3 => stop.cancel(),
                _ => drop(queue.close()),
            }
        }
        assert!(calls.load(SeqCst) > 4);
    })
    .join();
}

/// Promise 5, where senders and takers meet.
#[test]
fn a_waker_may_use_its_meeting_place() {
    Waiter::on_a_thread(|| {
        let queue = leaked(patient(TransferQueue::new()));
        let (waker, calls) = meddling_waker(move || {
            let _ = (format!("{queue:?}"), queue.peek(), queue.waiters(), queue.is_closed());
            let _ = queue.take().timeout(Duration::ZERO).wait();
            let _ = queue.transfer(0).timeout(Duration::ZERO).wait();
            let _ = queue.try_transfer(0);
            let _ = Step::new(queue.transfer(0).timeout(LONG)).poll_with(Waker::noop());
            let _ = Step::new(queue.take().timeout(LONG)).poll_with(Waker::noop());
        });
        let stop = CancelSource::new();
        for round in 0..6 {
            let mut sender = Step::new(queue.transfer(1).cancel_on(&stop.token()).timeout(LONG));
            let _ = sender.poll_with(&waker);
            match round {
                0 => drop(sender),
                1 => drop(queue.drain()),
                2 => drop(queue.try_take()),
                3 => drop(Step::new(queue.take()).poll_with(&waker)),
                4 => stop.cancel(),
                _ => drop(queue.close()),
            }
        }
        assert!(calls.load(SeqCst) > 4);
    })
    .join();
}

/// Promise 5: a waker may drop the request that it was woken for.
#[test]
fn a_waker_may_drop_its_request() {
    Waiter::on_a_thread(|| {
        type Slot = StdMutex<Option<Box<dyn std::any::Any + Send>>>;
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        let slot: &'static Slot = leaked(StdMutex::new(None));
        let waker = waker_that(|| {
            let request = slot.lock().unwrap().take();
            drop(request);
        });
        let mut take = Step::new(queue.take());
        assert!(take.poll_with(&waker).is_pending());
        *slot.lock().unwrap() = Some(Box::new(take.into_future()));
        let mut next = Step::queued(queue.take());
        queue.try_put(1).unwrap();
        assert!(slot.lock().unwrap().is_none());
        assert_eq!((next.expect_ready(), queue.waiters()), (Ok(1), 0));
    })
    .join();
}

const CHAIN: usize = 10_000;

/// each of many tasks passes on what it got, inside the wake-up that told it so.
#[test]
fn ten_thousand_chained_hand_offs_do_not_grow_the_stack() {
    in_its_own_process(|| {
        let deepest = Arc::new(AtomicUsize::new(0));
        let finished = leaked(AtomicUsize::new(0));
        let expect_finished = |count| {
            assert_eq!(finished.swap(0, SeqCst), count, "all of them have finished");
            assert_eq!(deepest.load(SeqCst), 1, "none of them inside another");
        };
        for queue in [
            leaked(patient(BlockingQueue::bounded(1))),
            leaked(patient(BlockingQueue::unbounded())),
        ] {
            for _ in 0..CHAIN {
                InlineTask::start(&deepest, async {
                    let item: usize = queue.take().await.unwrap();
                    queue.put(item + 1).await.unwrap();
                    finished.fetch_add(1, SeqCst);
                });
            }
            queue.try_put(0).unwrap();
            expect_finished(CHAIN);
            assert_eq!(queue.drain(), [CHAIN]);
        }
        // Putters, each of which makes room for the next.
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        queue.try_put(CHAIN).unwrap();
        for item in 0..CHAIN {
            InlineTask::start(&deepest, async move {
                queue.put(item).await.unwrap();
                queue.try_take().unwrap();
                finished.fetch_add(1, SeqCst);
            });
        }
        queue.try_take().unwrap();
        expect_finished(CHAIN);
        // Messages that are claimed inside the wake-up, which wakes their senders.
        let transfers = leaked(patient(TransferQueue::new()));
        for _ in 0..CHAIN {
            InlineTask::start(&deepest, async {
                let item: usize = transfers.take().await.unwrap();
                if item + 1 < CHAIN {
                    transfers.transfer(item + 1).await.unwrap();
                }
                finished.fetch_add(1, SeqCst);
            });
        }
        transfers.put(0).unwrap();
        expect_finished(CHAIN);
        assert_eq!((transfers.len(), transfers.waiters()), (0, 0));
        let meeting = leaked(patient(SynchronousQueue::new()));
        for _ in 0..CHAIN {
            InlineTask::start(&deepest, async {
                let item: usize = meeting.take().await.unwrap();
                if item + 1 < CHAIN {
                    meeting.put(item + 1).await.unwrap();
                }
                finished.fetch_add(1, SeqCst);
            });
        }
        meeting.try_put(0).unwrap();
        expect_finished(CHAIN);
        assert_eq!((meeting.available(), meeting.waiters()), (0, 0));
    });
}

/// More than are woken at a time (32), threads and tasks.
#[test]
fn closing_tells_more_than_a_batch() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::<usize>::bounded(1)));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..MANY).map(|_| line.enter(queue.take())).collect();
        queue.close();
        assert_eq!(queue.waiters(), 0);
        assert!(takers.into_iter().all(|taker| taker.join() == Err(Closed)));

        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let senders: Vec<_> = (0..MANY).map(|item| line.enter(queue.transfer(item))).collect();
        queue.close();
        assert_eq!((queue.waiters(), queue.len()), (0, 0));
        for (item, sender) in senders.into_iter().enumerate() {
            assert_eq!(sender.join().unwrap_err().item, item);
        }
    });
}

#[test]
fn draining_lets_more_than_a_batch_in() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        queue.try_put(0).unwrap();
        let mut line = Line::new(arrangement, queue);
        let putters: Vec<_> = (1..=MANY).map(|item| line.enter(queue.put(item))).collect();
        assert_eq!(queue.drain(), (0..=MANY).collect::<Vec<_>>());
        assert!(putters.into_iter().all(|putter| putter.join() == Ok(())));
        assert_eq!((queue.waiters(), queue.len()), (0, 0));
    });
}

/// A batch that is dropped serves more than can be told at a time.
#[test]
fn giving_back_serves_more_than_a_batch() {
    let queue = patient(BlockingQueue::unbounded());
    (0..MANY).for_each(|item| queue.try_put(item).unwrap());
    let mut batch = Step::new(queue.take_batch(2 * MANY, LONG).into_future());
    batch.expect_pending();
    let order = WakeOrder::new();
    let mut takers: Vec<_> = (0..MANY).map(|_| Step::new(queue.take())).collect();
    for (number, taker) in takers.iter_mut().enumerate() {
        assert!(taker.poll_with(&order.waker(number)).is_pending());
    }
    drop(batch);
    assert_eq!(order.entries(), (0..MANY).collect::<Vec<_>>());
    for (number, taker) in takers.iter_mut().enumerate() {
        assert_eq!(taker.expect_ready(), Ok(number));
    }
}

/// What the first waker does to requests that were answered, but whose turn to be woken has not come.
#[test]
fn requests_may_be_dropped_and_polled_between_two_batches() {
    for polled in [false, true] {
        // Putters that are let in by a drain.
        let queue = leaked(patient(BlockingQueue::bounded(1)));
        queue.try_put(0).unwrap();
        let others: &'static StdMutex<Vec<_>> = leaked(StdMutex::new(Vec::new()));
        let waker = waker_that(move || {
            for mut other in std::mem::take(&mut *others.lock().unwrap()) {
                if polled {
                    assert_eq!(Step::expect_ready(&mut other), Ok(()));
                }
            }
        });
        let mut first = Step::new(queue.put(1));
        assert!(first.poll_with(&waker).is_pending());
        let rest = (2..=MANY).map(|item| Step::queued(queue.put(item)));
        others.lock().unwrap().extend(rest);
        assert_eq!(queue.drain(), (0..=MANY).collect::<Vec<_>>());
        assert!(others.lock().unwrap().is_empty());
        assert_eq!((queue.len(), queue.waiters()), (0, 0));

        // Takers that are served by a batch that is given back.
        let queue = leaked(patient(BlockingQueue::unbounded()));
        (0..MANY).for_each(|item| queue.try_put(item).unwrap());
        let mut batch = Step::new(queue.take_batch(2 * MANY, LONG).into_future());
        batch.expect_pending();
        let takers: &'static StdMutex<Vec<_>> = leaked(StdMutex::new(Vec::new()));
        let waker = waker_that(move || {
            for (number, mut taker) in
                std::mem::take(&mut *takers.lock().unwrap()).into_iter().enumerate()
            {
                if polled {
                    assert_eq!(Step::expect_ready(&mut taker), Ok(number + 1));
                }
            }
        });
        let mut first = Step::new(queue.take());
        assert!(first.poll_with(&waker).is_pending());
        takers.lock().unwrap().extend((1..MANY).map(|_| Step::queued(queue.take())));
        drop(batch);
        assert!(takers.lock().unwrap().is_empty());
        assert_eq!((first.expect_ready(), queue.waiters()), (Ok(0), 0));
        let left = if polled { vec![] } else { (1..MANY).collect() };
        assert_eq!(queue.drain(), left);
    }
}

/// The same for senders whose messages were taken; a token that fires then is too late.
#[test]
fn transfers_that_were_taken_are_done_between_two_batches() {
    for meddling in 0..3 {
        let queue = leaked(patient(TransferQueue::new()));
        let stop = leaked(CancelSource::new());
        let senders: &'static StdMutex<Vec<_>> = leaked(StdMutex::new(Vec::new()));
        let waker = waker_that(move || match meddling {
            0 => senders.lock().unwrap().clear(),
            1 => stop.cancel(),
            _ => drop(queue.close()),
        });
        let mut first = Step::new(queue.transfer(0));
        assert!(first.poll_with(&waker).is_pending());
        let rest = (1..MANY)
            .map(|item| Step::queued(queue.transfer(item).cancel_on(&stop.token()).timeout(LONG)));
        senders.lock().unwrap().extend(rest);
        assert_eq!(queue.drain(), (0..MANY).collect::<Vec<_>>());
        for sender in &mut *senders.lock().unwrap() {
            assert_eq!(sender.expect_ready(), Ok(()));
        }
        assert_eq!((queue.len(), queue.waiters()), (0, 0));
    }
}

/// Closing, and a waker that drops or polls those who were turned away and not yet told.
#[test]
fn those_who_were_turned_away_may_come_between_two_batches() {
    for polled in [false, true] {
        let tally = crate::support::Tally::new();
        let queue = leaked(patient(TransferQueue::new()));
        let senders: &'static StdMutex<Vec<_>> = leaked(StdMutex::new(Vec::new()));
        let waker = waker_that(move || {
            for mut sender in std::mem::take(&mut *senders.lock().unwrap()) {
                if polled {
                    assert!(Step::poll(&mut sender).is_ready());
                }
            }
        });
        let mut first = Step::new(queue.transfer(tally.make()));
        assert!(first.poll_with(&waker).is_pending());
        let rest = (1..MANY).map(|_| Step::queued(queue.transfer(tally.make())));
        senders.lock().unwrap().extend(rest);
        queue.close();
        drop(first);
        assert_eq!((queue.len(), queue.waiters()), (0, 0));
        tally.expect_all_dropped();
    }
}

/// A closure sees the next item of any kind of queue, whatever its type, and leaves it there.
#[test]
fn a_closure_looks_at_the_next_item() {
    let build = || BlockingQueue::builder().capacity(2);
    let queues = [
        BlockingQueue::unbounded(),
        build().build(),
        build().lifo().build(),
        build().by_priority(|word: &String| word.len()).build(),
    ];
    for (queue, next) in queues.iter().zip(["first", "first", "last", "last"]) {
        assert_eq!(queue.peek_with(String::clone), None);
        assert_eq!(queue.extend_from(["first".to_owned(), "last".to_owned()]), 2);
        assert_eq!(queue.peek_with(String::clone).as_deref(), Some(next));
        let panic = panic_of(|| queue.peek_with(|_| panic!("a look")));
        assert_eq!(panic, "a look");
        assert_eq!((queue.len(), queue.try_take().as_deref()), (2, Ok(next)));
        // One that came back is the next.
        queue.drain();
        let taker = Step::queued(queue.take());
        assert_eq!(queue.extend_from(["back".to_owned(), "a".to_owned()]), 2);
        drop(taker);
        assert_eq!(queue.peek_with(String::clone).as_deref(), Some("back"));
    }
    let messages = TransferQueue::new();
    assert_eq!(messages.peek_with(String::len), None);
    let mut sender = Step::queued(messages.transfer("sent".to_owned()));
    messages.put("put".to_owned()).unwrap();
    assert_eq!(messages.peek_with(String::len), Some(4));
    assert_eq!(panic_of(|| messages.peek_with(|_| panic!("a look"))), "a look");
    sender.expect_pending();
    drop(sender);
    assert_eq!((messages.peek_with(String::len), messages.len()), (Some(3), 1));
}
