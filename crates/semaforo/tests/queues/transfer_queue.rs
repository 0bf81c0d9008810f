//! Cases T: the queue whose senders can wait until their message is taken. What happens to a message
//! that was handed to a task, and not yet claimed, is in `unclaimed_transfers.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{
    LONG, Line, Random, Record, SHORT, Step, Tally, Waiter, WakeOrder, block_on, eventually, fire,
    in_every_arrangement, leaked, patient,
};
use semaforo::{
    CancelSource, Closed, Rejected, TransferQueue, TryPutError, TryTakeError, WaitError,
};

fn counts<T>(queue: &TransferQueue<T>) -> (usize, usize, usize) {
    (queue.len(), queue.waiting_transfers(), queue.waiting_consumers())
}

#[test]
fn a_new_queue_is_empty() {
    let queue = patient(TransferQueue::<u32>::default());
    assert_eq!(counts(&queue), (0, 0, 0));
    assert!(queue.is_empty() && !queue.is_closed());
    assert_eq!((queue.peek(), queue.available(), queue.waiters()), (None, 0, 0));
    assert_eq!((queue.try_take(), queue.drain()), (Err(TryTakeError::Empty), vec![]));
}

/// T-01
#[test]
fn a_transfer_waits_until_its_message_is_taken() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        for take in 0..4 {
            let transfer = line.enter(queue.transfer(7));
            assert_eq!((counts(queue), queue.is_empty()), ((1, 1, 0), false));
            assert!(!transfer.is_done());
            assert_eq!(queue.peek(), Some(7));
            match take {
                0 => assert_eq!(queue.try_take(), Ok(7)),
                1 => assert_eq!(queue.take().wait(), Ok(7)),
                2 => assert_eq!(line.start(queue.take()).join(), Ok(7)),
                _ => assert_eq!(queue.drain(), [7]),
            }
            assert_eq!(transfer.join(), Ok(()));
            assert_eq!(counts(queue), (0, 0, 0));
        }
    });
}

/// T-02
#[test]
fn each_transfer_waits_for_its_own_message() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let (four, five) = (line.enter(queue.transfer(4)), line.enter(queue.transfer(5)));
        assert_eq!(queue.try_take(), Ok(4));
        assert_eq!(four.join(), Ok(()));
        assert_eq!(counts(queue), (1, 1, 0));
        assert!(!five.is_done());
        assert_eq!((queue.try_take(), five.join()), (Ok(5), Ok(())));
    });
}

/// T-05
#[test]
fn messages_are_withdrawn_from_the_middle() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, queue);
        let mut senders = Vec::new();
        for item in ['a', 'b', 'c', 'd', 'e'] {
            let transfer = queue.transfer(item);
            senders.push(line.enter(match item {
                'b' | 'd' => transfer.cancel_on(&stop.token()),
                _ => transfer.timeout(LONG),
            }));
        }
        fire(&stop, 2);
        assert_eq!(counts(queue), (3, 3, 0));
        let mut done = [0, 2, 4].into_iter();
        for item in ['a', 'c', 'e'] {
            assert_eq!(line.start(queue.take()).join(), Ok(item));
            let own = done.next().unwrap();
            eventually("its sender returns", || senders[own].is_done());
            assert!(done.clone().all(|other| !senders[other].is_done()));
        }
        let outcomes: Vec<_> = senders.into_iter().map(Waiter::join).collect();
        let cancelled = |item| Err(Rejected { item, why: WaitError::Cancelled });
        assert_eq!(outcomes, [Ok(()), cancelled('b'), Ok(()), cancelled('d'), Ok(())]);
    });
}

/// Any of many, in any order, by being dropped, cancelled or taken.
#[test]
fn any_of_many_messages_can_be_withdrawn() {
    for seed in 0..20 {
        let queue = patient(TransferQueue::new());
        let mut random = Random::new(seed);
        let stops: Vec<_> = (0..300).map(|_| CancelSource::new()).collect();
        let mut senders: Vec<_> = (0..300_usize)
            .map(|item| Some(Step::queued(queue.transfer(item).cancel_on(&stops[item].token()))))
            .collect();
        let mut expected: Vec<_> = (0..300).collect();
        for _ in 0..280 {
            let place = random.below(expected.len() as u32) as usize;
            let item = expected[place];
            match random.below(8) {
                0..=2 => {
                    senders[item] = None;
                    expected.remove(place);
                }
                3..=5 => {
                    stops[item].cancel();
                    let rejected = senders[item].as_mut().unwrap().expect_ready().unwrap_err();
                    assert_eq!(rejected, Rejected { item, why: WaitError::Cancelled });
                    expected.remove(place);
                }
                6 => {
                    let first = expected.remove(0);
                    assert_eq!(queue.try_take(), Ok(first));
                    assert_eq!(senders[first].as_mut().unwrap().expect_ready(), Ok(()));
                }
                _ => assert_eq!(queue.peek(), expected.first().copied()),
            }
            assert_eq!(counts(&queue), (expected.len(), expected.len(), 0));
        }
        assert_eq!(queue.drain(), expected);
    }
}

/// T-06
#[test]
fn a_try_without_anybody_who_waits_puts_nothing() {
    let queue = patient(TransferQueue::new());
    let full = |item| Err(Rejected { item, why: TryPutError::Full });
    assert_eq!(queue.try_transfer(1), full(1));
    let pending = Step::queued(queue.transfer(2));
    assert_eq!(queue.try_transfer(3), full(3));
    drop(pending);
    let waits = Step::queued(queue.take());
    drop(waits);
    assert_eq!(queue.try_transfer(4), full(4));
    assert_eq!(counts(&queue), (0, 0, 0));
    let timed = queue.transfer(5).timeout(Duration::ZERO).wait();
    assert_eq!(timed, Err(Rejected { item: 5, why: WaitError::TimedOut }));
    assert!(queue.is_empty());
}

/// T-07
#[test]
fn a_try_goes_to_somebody_who_waits() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let (first, second) = (line.enter(queue.take()), line.enter(queue.take().timeout(LONG)));
        assert_eq!(counts(queue), (0, 0, 2));
        assert_eq!(queue.try_transfer(1), Ok(()));
        assert_eq!(counts(queue), (0, 0, 1));
        assert_eq!(queue.try_transfer(2), Ok(()));
        assert_eq!((first.join(), second.join()), (Ok(1), Ok(2)));
        assert_eq!(queue.try_transfer(3).unwrap_err().item, 3);
        assert!(queue.is_empty());
    });
}

/// A transfer to somebody who waits is done when that one has it.
#[test]
fn a_transfer_goes_to_somebody_who_waits() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..4).map(|_| line.enter(queue.take())).collect();
        for (item, taker) in takers.into_iter().enumerate() {
            let transfer = line.start(queue.transfer(item));
            assert_eq!((transfer.join(), taker.join()), (Ok(()), Ok(item)));
            assert!(queue.is_empty());
        }
    });
}

/// T-10
#[test]
fn messages_are_taken_in_order_whoever_waits_for_them() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let sender = Line::new(arrangement, queue).enter_then(queue.transfer(4), |sent| {
            sent.unwrap();
            queue.try_take()
        });
        queue.put(3).unwrap();
        assert_eq!((queue.len(), queue.try_take()), (2, Ok(4)));
        assert_eq!(sender.join(), Ok(3), "the former sender can have the other itself");
    });
}

#[test]
fn put_never_waits() {
    let queue = patient(TransferQueue::new());
    (0..1000).for_each(|item| queue.put(item).unwrap());
    assert_eq!((queue.len(), queue.waiters()), (1000, 0));
    assert_eq!(queue.drain_at_most(3), [0, 1, 2]);
    assert_eq!(queue.drain(), (3..1000).collect::<Vec<_>>());
}

#[test]
fn takers_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..8).map(|_| line.enter(queue.take())).collect();
        for item in 0..8 {
            match item % 2 {
                0 => queue.put(item).unwrap(),
                _ => queue.try_transfer(item).unwrap(),
            }
        }
        let taken: Vec<_> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
        assert_eq!(taken, (0..8).collect::<Vec<_>>());
    });
}

#[test]
fn a_transfer_that_times_out_takes_its_message_along() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let start = Instant::now();
        let mut line = Line::new(arrangement, queue);
        let timed = line.start(queue.transfer(1).timeout(SHORT));
        queue.put(2).unwrap();
        let rejected = timed.join().unwrap_err();
        assert_eq!(rejected, Rejected { item: 1, why: WaitError::TimedOut });
        assert!(start.elapsed() >= SHORT);
        assert_eq!((queue.drain(), queue.waiters()), (vec![2], 0));
    });
}

/// A take that is cancelled, times out or is dropped leaves what comes to others.
#[test]
fn a_take_that_ends_is_passed_over() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, queue);
        let cancelled = line.enter(queue.take().cancel_on(&stop.token()));
        let served = line.enter(queue.take());
        let dropped = Step::queued(queue.take());
        fire(&stop, 1);
        drop(dropped);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        assert_eq!(counts(queue), (0, 0, 1));
        queue.put(1).unwrap();
        assert_eq!(served.join(), Ok(1));
        assert_eq!(queue.try_transfer(2).unwrap_err().item, 2);
    });
}

/// T-14
#[test]
fn nothing_is_lost_between_senders_and_takers_who_give_up() {
    const ROUNDS: u32 = 3_000;
    let queue = leaked(patient(TransferQueue::new()));
    queue.set_patience(Duration::from_millis(2));
    let tally = Tally::new();
    let (sent, returned) = (leaked(AtomicUsize::new(0)), leaked(AtomicUsize::new(0)));
    let senders: Vec<_> = (0..2)
        .map(|sender| {
            let tally = tally.clone();
            Waiter::on_a_thread(move || {
                let mut random = Random::new(sender + 1);
                for _ in 0..ROUNDS {
                    let stop = CancelSource::new();
                    let limit = Duration::from_micros(random.below(60).into());
                    let transfer = queue.transfer(tally.make());
                    let transfer = transfer.timeout(limit).cancel_on(&stop.token());
                    let outcome = match random.below(3) {
                        0 => transfer.wait(),
                        1 => block_on(transfer),
                        _ => {
                            let mut step = Step::new(transfer);
                            match step.poll() {
                                std::task::Poll::Ready(outcome) => outcome,
                                std::task::Poll::Pending => {
                                    // Granted or not, it has ended then.
                                    stop.cancel();
                                    step.expect_ready()
                                }
                            }
                        }
                    };
                    match outcome {
                        Ok(()) => sent.fetch_add(1, SeqCst),
                        Err(rejected) => {
                            drop(rejected.item);
                            returned.fetch_add(1, SeqCst)
                        }
                    };
                }
            })
        })
        .collect();
    let takers: Vec<_> = (0..2)
        .map(|taker| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(taker + 10);
                let mut got = 0;
                loop {
                    let limit = Duration::from_micros(random.below(60).into());
                    let take = queue.take().timeout(limit);
                    let outcome = match random.below(3) {
                        0 => take.wait(),
                        1 => block_on(take),
                        _ => match Step::new(take).poll() {
                            std::task::Poll::Ready(outcome) => outcome,
                            std::task::Poll::Pending => continue,
                        },
                    };
                    match outcome {
                        Ok(item) => {
                            drop(item);
                            got += 1;
                        }
                        Err(WaitError::Refused(Closed)) => return got,
                        Err(_) => {}
                    }
                }
            })
        })
        .collect();
    senders.into_iter().for_each(Waiter::join);
    queue.close();
    let got: usize = takers.into_iter().map(Waiter::join).sum();
    assert_eq!(counts(queue), (0, 0, 0));
    assert_eq!(sent.load(SeqCst), got);
    assert_eq!(sent.load(SeqCst) + returned.load(SeqCst), tally.made());
    assert!(got > 0 && got < tally.made(), "{got} of {}", tally.made());
    tally.expect_all_dropped();
}

/// T-15
#[test]
fn closing_gives_the_senders_their_messages_back() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let (first, left) = (line.enter(queue.transfer(1)), queue.put(2));
        let last = line.enter(queue.transfer(3).timeout(LONG));
        assert_eq!((counts(queue), left), ((3, 2, 0), Ok(())));
        assert!(queue.close());
        assert!(!queue.close());
        assert_eq!(counts(queue), (1, 0, 0));
        assert_eq!(first.join(), Err(Rejected { item: 1, why: Closed }));
        assert_eq!(last.join(), Err(Rejected { item: 3, why: WaitError::Refused(Closed) }));
        assert_eq!(queue.put(4), Err(Rejected { item: 4, why: Closed }));
        assert_eq!(queue.try_transfer(5).unwrap_err().why, TryPutError::Closed);
        assert_eq!(line.start(queue.transfer(6)).join().unwrap_err().item, 6);
        assert_eq!(line.start(queue.take()).join(), Ok(2), "what is left");
        assert_eq!(line.start(queue.take()).join(), Err(Closed));
        assert_eq!(queue.try_take(), Err(TryTakeError::Closed));
    });
}

/// T-15
#[test]
fn closing_tells_those_who_wait_for_a_message() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::<u32>::new()));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..5).map(|_| line.enter(queue.take())).collect();
        queue.close();
        assert_eq!(queue.waiters(), 0);
        assert!(takers.into_iter().all(|taker| taker.join() == Err(Closed)));
    });
}

#[test]
fn draining_tells_every_sender() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, queue);
        let senders: Vec<_> = (0..4).map(|item| line.enter(queue.transfer(item))).collect();
        assert_eq!(queue.drain_at_most(0), []);
        assert_eq!(queue.drain_at_most(1), [0]);
        assert_eq!((counts(queue), queue.drain()), ((3, 3, 0), vec![1, 2, 3]));
        assert!(senders.into_iter().all(|sender| sender.join() == Ok(())));
    });
}

/// Senders are woken in the order in which their messages are taken.
#[test]
fn every_sender_is_woken_once() {
    let queue = patient(TransferQueue::new());
    let order = WakeOrder::new();
    let mut senders: Vec<_> = (0..100).map(|item| Step::new(queue.transfer(item))).collect();
    for (item, sender) in senders.iter_mut().enumerate() {
        assert!(sender.poll_with(&order.waker(item)).is_pending());
    }
    assert_eq!(queue.drain().len(), 100);
    assert_eq!(order.entries(), (0..100).collect::<Vec<_>>());
    assert!(senders.iter_mut().all(|sender| sender.expect_ready() == Ok(())));
}

#[test]
fn an_owned_request_keeps_the_queue() {
    in_every_arrangement(|arrangement| {
        let queue = Arc::new(patient(TransferQueue::new()));
        let mut line = Line::new(arrangement, &*queue);
        let sender = line.enter(queue.transfer_owned(1));
        assert_eq!(line.start(queue.take_owned()).join(), Ok(1));
        assert_eq!(sender.join(), Ok(()));
        eventually("the requests are gone", || Arc::strong_count(&queue) == 1);
    });
}

#[test]
fn messages_may_be_borrowed_and_may_have_no_size() {
    let word = String::from("word");
    let queue = patient(TransferQueue::new());
    let record = Record::new();
    std::thread::scope(|scope| {
        scope.spawn(|| queue.transfer(word.as_str()).wait().unwrap());
        record.note(queue.take().wait().unwrap().to_owned());
    });
    assert_eq!(record.entries(), ["word"]);
    let queue = patient(TransferQueue::new());
    let mut transfer = Step::queued(queue.transfer(()));
    assert_eq!((queue.take().wait(), transfer.expect_ready()), (Ok(()), Ok(())));
}

#[test]
fn debugging_shows_what_is_going_on() {
    struct NotDebug;
    let queue = patient(TransferQueue::new());
    assert!(queue.put(NotDebug).is_ok());
    let waits = Step::queued(queue.transfer(NotDebug));
    let shown = format!("{queue:?}");
    for part in ["TransferQueue", "len: 2", "closed: false", "waiters: 1"] {
        assert!(shown.contains(part), "{shown}");
    }
    drop(waits);
}
