//! A transfer whose message was handed to a waiting task, which has not claimed it: until it does, the
//! message can be withdrawn, passed on, and given back.

use std::time::Duration;

use crate::support::{
    Line, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, leaked, let_limits_pass,
    patient, until_queued,
};
use semaforo::{
    CancelSource, Closed, Rejected, SynchronousQueue, TransferQueue, TryTakeError, WaitError,
};

const PATIENCE: Duration = Duration::from_millis(4);

fn counts<T>(queue: &TransferQueue<T>) -> (usize, usize, usize) {
    (queue.len(), queue.waiting_transfers(), queue.waiting_consumers())
}

/// The sender may be a thread or a task; nobody has polled the taker.
fn with_unclaimed<T: Send + 'static>(
    queue: &'static TransferQueue<T>,
) -> Step<impl Future<Output = Result<T, Closed>>> {
    Step::queued(queue.take())
}

#[test]
fn a_transfer_to_a_task_is_done_when_the_task_claims_it() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut taker = with_unclaimed(queue);
        let sender = Line::new(arrangement, queue).start(queue.transfer(1));
        eventually("the message is handed over", || taker.wakes() == 1);
        eventually("the sender waits", || counts(queue) == (0, 1, 0));
        assert!(!sender.is_done());
        assert_eq!(queue.try_take(), Err(TryTakeError::Empty), "it is the task's");
        assert_eq!((taker.expect_ready(), sender.join()), (Ok(1), Ok(())));
        assert_eq!(counts(queue), (0, 0, 0));
    });
}

#[test]
fn a_message_that_is_not_claimed_can_be_withdrawn() {
    in_every_arrangement(|arrangement| {
        for timed in [false, true] {
            let queue = leaked(patient(TransferQueue::new()));
            let mut taker = with_unclaimed(queue);
            let stop = CancelSource::new();
            let transfer = queue.transfer(1).cancel_on(&stop.token());
            let transfer = if timed { transfer.timeout(SHORT) } else { transfer };
            let sender = Line::new(arrangement, queue).start(transfer);
            eventually("the message is handed over", || taker.wakes() == 1);
            let why = if timed {
                WaitError::TimedOut
            } else {
                fire(&stop, 1);
                assert_eq!(counts(queue), (0, 0, 1), "the task waits again at once");
                WaitError::Cancelled
            };
            assert_eq!(sender.join(), Err(Rejected { item: 1, why }));
            taker.expect_pending();
            queue.put(2).unwrap();
            assert_eq!((taker.wakes(), taker.expect_ready()), (2, Ok(2)));
        }
    });
}

/// It need not have been polled in between.
#[test]
fn a_task_whose_message_was_withdrawn_gets_another_without_being_polled() {
    let queue = leaked(patient(TransferQueue::new()));
    let mut taker = with_unclaimed(queue);
    for item in 0..3 {
        drop(Step::queued(queue.transfer(item)));
        assert_eq!(counts(queue), (0, 0, 1));
    }
    let mut transfer = Step::queued(queue.transfer(3));
    assert_eq!(counts(queue), (0, 1, 0));
    assert!(taker.wakes() >= 1);
    assert_eq!((taker.expect_ready(), transfer.expect_ready()), (Ok(3), Ok(())));
}

/// It stands first again, before those who came after it.
#[test]
fn a_task_whose_message_was_withdrawn_keeps_its_place() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut taker = with_unclaimed(queue);
        let transfer = Step::queued(queue.transfer(1));
        let next = Line::new(arrangement, queue).start(queue.take());
        eventually("another waits", || queue.waiting_consumers() == 1);
        drop(transfer);
        assert_eq!(counts(queue), (0, 0, 2));
        queue.put(2).unwrap();
        queue.put(3).unwrap();
        assert_eq!((taker.expect_ready(), next.join()), (Ok(2), Ok(3)));
    });
}

/// Several of them keep their order among each other, whichever message is withdrawn first.
#[test]
fn tasks_whose_messages_were_withdrawn_keep_their_order() {
    for backwards in [false, true] {
        let queue = patient(TransferQueue::new());
        let mut takers = [(); 4].map(|()| Step::queued(queue.take()));
        let mut senders: Vec<_> = (0..3).map(|item| Step::queued(queue.transfer(item))).collect();
        if backwards {
            senders.reverse();
        }
        senders.into_iter().for_each(drop);
        assert_eq!(counts(&queue), (0, 0, 4));
        (10..14).for_each(|item| queue.put(item).unwrap());
        assert_eq!(takers.each_mut().map(Step::expect_ready), [Ok(10), Ok(11), Ok(12), Ok(13)]);
    }
}

/// Cancellation acts at once: the message behind the withdrawn one is handed over before `cancel`
/// returns.
#[test]
fn the_message_behind_a_withdrawn_one_follows_at_once() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut taker = with_unclaimed(queue);
        let stop = CancelSource::new();
        let first = Step::queued(queue.transfer(1).cancel_on(&stop.token()));
        let second = Line::new(arrangement, queue).enter(queue.transfer(2));
        queue.put(3).unwrap();
        assert_eq!(counts(queue), (2, 2, 0));
        fire(&stop, 1);
        assert_eq!(counts(queue), (1, 1, 0), "the task has the second");
        assert_eq!((taker.expect_ready(), second.join()), (Ok(2), Ok(())));
        assert_eq!(queue.drain(), [3]);
        drop(first);
    });
}

#[test]
fn a_message_whose_task_is_dropped_goes_to_the_next() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let taker = with_unclaimed(queue);
        let mut line = Line::new(arrangement, queue);
        let sender = line.start(queue.transfer(1));
        eventually("the message is handed over", || taker.wakes() == 1);
        until_queued(queue, 1);
        let next = line.enter(queue.take());
        drop(taker);
        assert_eq!((next.join(), sender.join()), (Ok(1), Ok(())));
        assert_eq!(counts(queue), (0, 0, 0));
    });
}

/// With nobody else to have it, it lies in the queue again, first of all, and can be withdrawn there.
#[test]
fn a_message_whose_task_is_dropped_comes_back() {
    for withdrawn in [false, true] {
        let queue = leaked(patient(TransferQueue::new()));
        let taker = with_unclaimed(queue);
        let mut first = Step::queued(queue.transfer(1));
        let mut second = Step::queued(queue.transfer(2));
        drop(taker);
        assert_eq!((counts(queue), queue.peek()), ((2, 2, 0), Some(1)));
        if withdrawn {
            drop(first);
            assert_eq!(counts(queue), (1, 1, 0));
        } else {
            assert_eq!((queue.try_take(), first.expect_ready()), (Ok(1), Ok(())));
        }
        assert_eq!((queue.try_take(), second.expect_ready()), (Ok(2), Ok(())));
    }
}

/// Several that came back, in any order, are in order again, and any of them can be withdrawn.
#[test]
fn messages_that_came_back_keep_their_order() {
    for backwards in [false, true] {
        let queue = patient(TransferQueue::new());
        let mut takers: Vec<_> = (0..4).map(|_| Step::queued(queue.take())).collect();
        let mut senders: Vec<_> =
            (0..6).map(|item| Some(Step::queued(queue.transfer(item)))).collect();
        if backwards {
            takers.reverse();
        }
        takers.into_iter().for_each(drop);
        senders[2] = None;
        senders[4] = None;
        assert_eq!((queue.len(), queue.drain()), (4, vec![0, 1, 3, 5]));
        assert!(senders.iter_mut().flatten().all(|sender| sender.expect_ready() == Ok(())));
    }
}

/// Promise 4: the message of a task that never comes goes to the next taker.
#[test]
fn a_message_whose_task_is_never_polled_is_passed_on() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        queue.set_patience(PATIENCE);
        let mut unpolled = Step::queued(queue.take());
        let mut line = Line::new(arrangement, queue);
        let next = line.enter(queue.take());
        let sender = line.start(queue.transfer(1));
        assert_eq!((next.join(), sender.join()), (Ok(1), Ok(())));
        until_queued(queue, 1);
        assert_eq!(counts(queue), (0, 0, 0), "dormant");
        // Polled late, it stands first again.
        let mut last = Step::queued(queue.take());
        unpolled.expect_pending();
        assert_eq!(queue.waiting_consumers(), 2);
        queue.put(2).unwrap();
        assert_eq!(unpolled.expect_ready(), Ok(2));
        last.expect_pending();
    });
}

/// The sender waits, too: if no other taker does, the message comes back for whoever comes.
#[test]
fn a_message_whose_task_is_never_polled_is_there_for_a_newcomer() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        queue.set_patience(PATIENCE);
        let mut unpolled = Step::queued(queue.take());
        let mut line = Line::new(arrangement, queue);
        let sender = line.start(queue.transfer(1));
        eventually("the message comes back", || counts(queue) == (1, 1, 0));
        assert_eq!(queue.waiters(), 2, "the sender and the dormant taker");
        assert_eq!(line.start(queue.take()).join(), Ok(1));
        assert_eq!(sender.join(), Ok(()));
        unpolled.expect_pending();
        drop(unpolled);
        assert_eq!(queue.waiters(), 0);
    });
}

/// A task that is polled late takes what is there.
#[test]
fn a_task_that_is_polled_late_takes_its_message_after_all() {
    let queue = patient(TransferQueue::new());
    queue.set_patience(PATIENCE);
    let mut unpolled = Step::queued(queue.take());
    let mut transfer = Step::queued(queue.transfer(1));
    eventually("the message comes back", || queue.len() == 1);
    assert_eq!((unpolled.expect_ready(), transfer.expect_ready()), (Ok(1), Ok(())));
    assert_eq!((queue.len(), queue.waiters()), (0, 0));
}

/// A message that came back can be withdrawn while its task is dormant.
#[test]
fn a_message_of_a_dormant_task_can_be_withdrawn() {
    let queue = patient(TransferQueue::new());
    queue.set_patience(PATIENCE);
    let stop = CancelSource::new();
    let mut unpolled = Step::queued(queue.take());
    let mut transfer = Step::queued(queue.transfer(1).cancel_on(&stop.token()));
    eventually("the message comes back", || queue.len() == 1);
    fire(&stop, 1);
    assert_eq!(transfer.expect_ready().unwrap_err().item, 1);
    assert_eq!((counts(&queue), queue.waiters()), ((0, 0, 0), 1));
    unpolled.expect_pending();
    queue.put(2).unwrap();
    assert_eq!(unpolled.expect_ready(), Ok(2));
}

/// P13 before the claim: closing gives the message back, and tells the task.
#[test]
fn closing_withdraws_what_is_not_claimed() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(TransferQueue::new()));
        let mut taker = with_unclaimed(queue);
        let sender = Line::new(arrangement, queue).start(queue.transfer(1));
        eventually("the message is handed over", || taker.wakes() == 1);
        until_queued(queue, 1);
        queue.close();
        assert_eq!(sender.join(), Err(Rejected { item: 1, why: Closed }));
        assert_eq!((taker.expect_ready(), queue.waiters()), (Err(Closed), 0));
    });
}

/// What was put is left for whoever takes, and that is first of all the task that waits.
#[test]
fn closing_leaves_what_was_put_to_a_task_whose_message_is_withdrawn() {
    let queue = leaked(patient(TransferQueue::new()));
    let mut takers = [with_unclaimed(queue), with_unclaimed(queue)];
    let mut senders = [Step::queued(queue.transfer(1)), Step::queued(queue.transfer(2))];
    queue.put(3).unwrap();
    assert_eq!(counts(queue), (1, 2, 0));
    queue.close();
    assert_eq!(senders.each_mut().map(|sender| sender.expect_ready().unwrap_err().item), [1, 2]);
    let taken = takers.each_mut().map(Step::expect_ready);
    assert_eq!((taken, queue.len()), ([Ok(3), Err(Closed)], 0));
}

/// An item that was put, not transferred, is a task's from when it is handed over.
#[test]
fn closing_leaves_a_task_what_it_was_handed() {
    let queue = leaked(patient(TransferQueue::new()));
    let (mut claims, dropped) = (with_unclaimed(queue), with_unclaimed(queue));
    queue.put(1).unwrap();
    queue.try_transfer(2).unwrap();
    queue.close();
    assert_eq!(claims.expect_ready(), Ok(1));
    drop(dropped);
    assert_eq!((queue.len(), queue.take().wait(), queue.take().wait()), (1, Ok(2), Err(Closed)));
}

/// The taker's own token or limit comes too late: a grant wins, unless it is taken back.
#[test]
fn a_late_end_of_the_taker_counts_if_its_message_is_withdrawn() {
    for timed in [false, true] {
        let queue = patient(TransferQueue::new());
        let stop = CancelSource::new();
        let take = queue.take().cancel_on(&stop.token());
        let mut taker = Step::queued(if timed { take.timeout(SHORT) } else { take });
        let mut claims = Step::queued(queue.take().timeout(SHORT).cancel_on(&stop.token()));
        let transfer = Step::queued(queue.transfer(1));
        let mut claimed = Step::queued(queue.transfer(2));
        if timed {
            let_limits_pass(SHORT);
        } else {
            fire(&stop, 2);
        }
        assert_eq!((claims.expect_ready(), claimed.expect_ready()), (Ok(2), Ok(())));
        drop(transfer);
        assert_eq!(counts(&queue), (0, 0, 0), "it does not wait any more");
        let why = if timed { WaitError::TimedOut } else { WaitError::Cancelled };
        assert_eq!(taker.expect_ready(), Err(why));
    }
}

/// A transfer with no time to wait is not done by handing its message to a task that has to claim it
/// first; the task waits on.
#[test]
fn a_transfer_without_time_does_not_disturb_a_task() {
    let queue = leaked(patient(TransferQueue::new()));
    let mut taker = with_unclaimed(queue);
    let stop = CancelSource::new();
    stop.cancel();
    let timed = queue.transfer(1).timeout(Duration::ZERO).wait();
    assert_eq!(timed, Err(Rejected { item: 1, why: WaitError::TimedOut }));
    let cancelled = queue.transfer(2).cancel_on(&stop.token()).wait();
    assert_eq!(cancelled, Err(Rejected { item: 2, why: WaitError::Cancelled }));
    assert_eq!(counts(queue), (0, 0, 1));
    taker.expect_pending();
    queue.try_transfer(3).unwrap();
    assert_eq!(taker.expect_ready(), Ok(3));
}

/// A thread claims at once, so to a thread it is done.
#[test]
fn a_transfer_without_time_may_go_to_a_thread() {
    let queue = leaked(patient(TransferQueue::new()));
    let taker = Waiter::on_a_thread(|| queue.take().wait());
    until_queued(queue, 1);
    assert_eq!(queue.transfer(1).timeout(Duration::ZERO).wait(), Ok(()));
    assert_eq!(taker.join(), Ok(1));
}

/// A put to a rendezvous is done when its item is handed over, claimed or not; nothing is lost.
#[test]
fn a_rendezvous_passes_on_what_is_not_claimed() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(SynchronousQueue::new()));
        let mut unpolled = Step::queued(queue.take());
        let dropped = Step::queued(queue.take());
        let mut line = Line::new(arrangement, queue);
        assert_eq!(line.start(queue.put(1)).join(), Ok(()));
        assert_eq!(line.start(queue.put(2)).join(), Ok(()));
        assert_eq!((queue.waiting_putters(), queue.available()), (0, 0));
        drop(dropped);
        assert_eq!((queue.available(), queue.len()), (1, 0));
        assert_eq!(line.start(queue.take()).join(), Ok(2));
        // Only now: the first item would have gone to the taker that the second was meant for.
        queue.set_patience(PATIENCE);
        assert_eq!(line.start(queue.take()).join(), Ok(1), "passed on after a patience");
        unpolled.expect_pending();
    });
}
