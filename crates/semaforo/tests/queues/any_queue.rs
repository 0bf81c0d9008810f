//! Putting into exactly one of several queues, and taking from exactly one.

use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    Arrangement, Counted, Kind, LONG, SHORT, Step, Tally, Waiter, eventually, fire, leaked,
    panic_of, patient, until_queued, waker_that,
};
use semaforo::{
    BlockingQueue, CancelSource, Closed, Rejected, SynchronousQueue, TransferQueue, TryPutError,
    TryTakeError, WaitError,
};

const PATIENCE: Duration = Duration::from_millis(4);

/// A thread, and a task on one of several executors.
fn both() -> [Kind; 2] {
    [Arrangement::AllBlocking.kind(0), Arrangement::AllAsync.kind(0)]
}

fn queues<const N: usize>(capacity: usize) -> [&'static BlockingQueue<u32>; N] {
    std::array::from_fn(|_| leaked(patient(BlockingQueue::bounded(capacity))))
}

/// Queues without room.
fn full<const N: usize>() -> [&'static BlockingQueue<u32>; N] {
    let queues = queues(1);
    queues.iter().for_each(|queue| queue.try_put(0).unwrap());
    queues
}

fn lengths<const N: usize>(queues: [&BlockingQueue<u32>; N]) -> [usize; N] {
    queues.map(BlockingQueue::len)
}

#[test]
fn the_first_that_can_is_the_one() {
    let [a, b, c] = queues(1);
    assert_eq!(BlockingQueue::put_any([a, b, c], 1).wait(), Ok(0));
    assert_eq!(BlockingQueue::put_any([a, b, c], 2).wait(), Ok(1));
    assert_eq!(BlockingQueue::try_put_any(&[a, b, c], 3), Ok(2));
    let refused = BlockingQueue::try_put_any([a, b, c], 4);
    assert_eq!(refused, Err(Rejected { item: 4, why: TryPutError::Full }));
    assert_eq!(BlockingQueue::take_any([b, a]).wait(), Ok((0, 2)));
    assert_eq!(BlockingQueue::try_take_any(vec![b, a]), Ok((1, 1)));
    assert_eq!(BlockingQueue::try_take_any([b, a]), Err(TryTakeError::Empty));
    assert_eq!(lengths([a, b, c]), [0, 0, 1]);
}

/// From threads and tasks, whichever queue it is.
#[test]
fn a_take_gets_one_item_from_one_queue() {
    for kind in both() {
        for which in 0..3 {
            let queues: [_; 3] = queues(1);
            let taker = Waiter::start_then(kind, BlockingQueue::take_any(queues), |taken| taken);
            queues.iter().for_each(|queue| until_queued(*queue, 1));
            queues[which].try_put(7).unwrap();
            assert_eq!(taker.join(), Ok((which, 7)));
            // It has left the other lines.
            assert!(queues.iter().all(|queue| (queue.waiters(), queue.len()) == (0, 0)));
        }
    }
}

#[test]
fn a_put_goes_into_one_queue() {
    for kind in both() {
        for which in 0..3 {
            let queues: [_; 3] = full();
            let putter = Waiter::start_then(kind, BlockingQueue::put_any(queues, 7), |put| put);
            queues.iter().for_each(|queue| until_queued(*queue, 1));
            assert_eq!(queues[which].try_take(), Ok(0));
            assert_eq!(putter.join(), Ok(which));
            assert!(queues.iter().all(|queue| (queue.waiters(), queue.len()) == (0, 1)));
            assert_eq!(queues[which].try_take(), Ok(7));
        }
    }
}

/// The defect that this is for: a `select!` over two puts may put twice. Here the request that was
/// served by one queue is never served by another, polled or not.
#[test]
fn what_was_put_is_in_one_queue_whatever_happens_to_the_request() {
    let tally = Tally::new();
    for drops in [false, true] {
        let queues = [(); 2].map(|()| BlockingQueue::bounded(1));
        queues.iter().for_each(|queue| queue.try_put(tally.make()).unwrap());
        let mut put = Step::queued(BlockingQueue::put_any([&queues[0], &queues[1]], tally.make()));
        drop(queues.each_ref().map(|queue| queue.try_take().unwrap()));
        assert_eq!((queues[0].len(), queues[1].len()), (1, 0));
        assert_eq!(put.wakes(), 1);
        if !drops {
            assert_eq!(put.expect_ready().unwrap(), 0);
        }
        drop(put);
        assert_eq!((queues[0].len(), queues[1].len()), (1, 0));
        drop(queues);
        tally.expect_all_dropped();
    }
}

#[test]
fn a_take_that_is_dropped_gives_back_what_it_was_granted() {
    let [a, b] = queues(2);
    let take = Step::queued(BlockingQueue::take_any([a, b]));
    b.try_put(1).unwrap();
    b.try_put(2).unwrap();
    assert_eq!((take.wakes(), b.try_take()), (1, Ok(2)));
    b.try_put(3).unwrap();
    drop(take);
    assert_eq!((b.drain(), a.waiters(), b.waiters()), (vec![1, 3], 0, 0));
}

/// Neither queue is locked up by the other's waiter: those behind it are served.
#[test]
fn queues_pass_over_a_request_that_another_has_claimed() {
    let [a, b] = queues(1);
    let mut any = Step::queued(BlockingQueue::take_any([a, b]));
    let mut behind = Step::queued(b.take());
    a.try_put(1).unwrap();
    b.try_put(2).unwrap();
    assert_eq!(behind.expect_ready(), Ok(2));
    b.try_put(3).unwrap();
    assert_eq!(b.try_take(), Ok(3), "the one that was claimed does not count");
    assert_eq!(any.expect_ready(), Ok((0, 1)));

    let [a, b] = full();
    let mut any = Step::queued(BlockingQueue::put_any([a, b], 1));
    let mut behind = Step::queued(b.put(2));
    assert_eq!((a.try_take(), b.try_take()), (Ok(0), Ok(0)));
    assert_eq!((behind.expect_ready(), any.expect_ready()), (Ok(()), Ok(0)));
    assert_eq!((a.drain(), b.drain()), (vec![1], vec![2]));
}

#[test]
fn each_queue_serves_in_the_order_of_coming() {
    let [a, b] = queues(1);
    let mut first = Step::queued(b.take());
    let mut any = Step::queued(BlockingQueue::take_any([a, b]));
    let mut last = Step::queued(b.take());
    (1..=3).for_each(|item| b.try_put(item).unwrap());
    assert_eq!(first.expect_ready(), Ok(1));
    assert_eq!(any.expect_ready(), Ok((1, 2)));
    assert_eq!(last.expect_ready(), Ok(3));
}

#[test]
fn requests_for_several_queues_serve_each_other() {
    let [a, b] = queues(1);
    let mut taker = Step::queued(BlockingQueue::take_any([a, b]));
    assert_eq!(BlockingQueue::put_any([b, a], 5).wait(), Ok(0));
    assert_eq!(taker.expect_ready(), Ok((1, 5)));
    let mut takers = [(); 3].map(|()| Step::queued(BlockingQueue::take_any([a, b])));
    for item in 0..3 {
        assert_eq!(BlockingQueue::put_any([a, b], item).wait(), Ok(0));
    }
    for (item, taker) in (0..3).zip(&mut takers) {
        assert_eq!(taker.expect_ready(), Ok((0, item)));
    }
    let [a, b] = full();
    let mut putter = Step::queued(BlockingQueue::put_any([a, b], 5));
    assert_eq!(BlockingQueue::take_any([b, a]).wait(), Ok((0, 0)));
    assert_eq!((putter.expect_ready(), b.try_take()), (Ok(1), Ok(5)));
}

#[test]
fn limits_and_tokens_end_it_everywhere() {
    for kind in both() {
        let [a, b] = full();
        let stop = CancelSource::new();
        let put = BlockingQueue::put_any([a, b], 9).cancel_on(&stop.token());
        let put = Waiter::start_then(kind, put, |put| put);
        [a, b].iter().for_each(|queue| until_queued(*queue, 1));
        fire(&stop, 1);
        assert_eq!(put.join(), Err(Rejected { item: 9, why: WaitError::Cancelled }));
        let late = BlockingQueue::put_any([a, b], 8).timeout(SHORT);
        let late = Waiter::start_then(kind, late, |put| put);
        assert_eq!(late.join(), Err(Rejected { item: 8, why: WaitError::TimedOut }));
        assert_eq!((a.waiters(), b.waiters(), a.drain(), b.drain()), (0, 0, vec![0], vec![0]));
        let late = BlockingQueue::take_any([a, b]).timeout(SHORT);
        let late = Waiter::start_then(kind, late, |taken| taken);
        assert_eq!(late.join(), Err(WaitError::TimedOut));
        assert_eq!((a.waiters(), b.waiters()), (0, 0));
    }
    let [a, b] = queues(1);
    let now = BlockingQueue::take_any([a, b]).timeout(Duration::ZERO);
    assert_eq!(now.wait(), Err(WaitError::TimedOut));
    let stop = CancelSource::new();
    stop.cancel();
    let fired = BlockingQueue::take_any([a, b]).cancel_on(&stop.token());
    assert_eq!(fired.wait(), Err(WaitError::Cancelled));
    b.try_put(1).unwrap();
    let granted = BlockingQueue::take_any([a, b]).cancel_on(&stop.token());
    assert_eq!(granted.wait(), Ok((1, 1)), "what can be had at once is had");
}

/// A token that fires acts at once: the request is out of the way, although its task is not polled.
#[test]
fn an_ended_request_holds_nobody_up() {
    let [a, b] = queues(1);
    let stop = CancelSource::new();
    let mut any = Step::queued(BlockingQueue::take_any([a, b]).cancel_on(&stop.token()));
    let mut behind = Step::queued(a.take());
    stop.cancel();
    assert_eq!(any.wakes(), 1);
    a.try_put(1).unwrap();
    assert_eq!(behind.expect_ready(), Ok(1));
    assert_eq!(any.expect_ready(), Err(WaitError::Cancelled));
}

#[test]
fn closed_queues_are_passed_over_and_all_of_them_refuse() {
    for kind in both() {
        let [a, b] = queues(1);
        let take = Waiter::start_then(kind, BlockingQueue::take_any([a, b]), |taken| taken);
        [a, b].iter().for_each(|queue| until_queued(*queue, 1));
        a.close();
        until_queued(a, 0);
        assert!(!take.is_done());
        b.close();
        assert_eq!(take.join(), Err(Closed));

        let [a, b] = full();
        let put = Waiter::start_then(kind, BlockingQueue::put_any([a, b], 3), |put| put);
        [a, b].iter().for_each(|queue| until_queued(*queue, 1));
        a.close();
        assert_eq!(a.drain(), [0]);
        assert!(!put.is_done());
        b.close();
        assert_eq!(put.join(), Err(Rejected { item: 3, why: Closed }));
    }
    let [a, b] = full();
    a.close();
    // Closed, but not empty.
    assert_eq!(BlockingQueue::take_any([a, b]).wait(), Ok((0, 0)));
    assert_eq!(BlockingQueue::take_any([a, b]).wait(), Ok((1, 0)));
    assert_eq!(BlockingQueue::try_take_any([a, b]), Err(TryTakeError::Empty));
    assert_eq!(BlockingQueue::put_any([a, b], 1).wait(), Ok(1));
    b.close();
    let refused = BlockingQueue::put_any([a, b], 2);
    assert_eq!(refused.wait(), Err(Rejected { item: 2, why: Closed }));
    let refused = BlockingQueue::try_put_any([a, b], 2);
    assert_eq!(refused, Err(Rejected { item: 2, why: TryPutError::Closed }));
    b.drain();
    assert_eq!(BlockingQueue::take_any([a, b]).wait(), Err(Closed));
    let late = BlockingQueue::take_any([a, b]).timeout(Duration::ZERO);
    assert_eq!(late.wait(), Err(WaitError::Refused(Closed)));
    assert_eq!(BlockingQueue::try_take_any([a, b]), Err(TryTakeError::Closed));
}

#[test]
fn no_queues_refuse_at_once_and_one_twice_is_one() {
    let none: [&BlockingQueue<u32>; 0] = [];
    assert_eq!(BlockingQueue::take_any(none).wait(), Err(Closed));
    assert_eq!(Step::new(BlockingQueue::take_any(none)).expect_ready(), Err(Closed));
    let put = BlockingQueue::put_any(none, 1).wait();
    assert_eq!(put, Err(Rejected { item: 1, why: Closed }));
    assert_eq!(BlockingQueue::try_take_any(none), Err(TryTakeError::Closed));

    let [a] = queues(1);
    let mut take = Step::queued(BlockingQueue::take_any([a, a]));
    assert_eq!(a.waiters(), 2);
    a.try_put(1).unwrap();
    a.try_put(2).unwrap();
    assert_eq!(take.expect_ready(), Ok((0, 1)));
    assert_eq!((a.waiters(), a.len()), (0, 1));
    let mut put = Step::queued(BlockingQueue::put_any([a, a], 3));
    assert_eq!(a.try_take(), Ok(2));
    assert_eq!((put.expect_ready(), a.waiters(), a.drain()), (Ok(0), 0, vec![3]));
    let mut both = Step::queued(BlockingQueue::take_any([a, a]));
    a.close();
    assert_eq!((both.wakes(), both.expect_ready()), (1, Err(Closed)));
}

#[test]
fn a_thousand_queues() {
    let all: Vec<_> = (0..1000).map(|_| Arc::new(BlockingQueue::bounded(1))).collect();
    for which in [0, 500, 999] {
        let mut take = Step::queued(BlockingQueue::take_any(all.clone()));
        all[which].try_put(which).unwrap();
        assert_eq!(take.expect_ready(), Ok((which, which)));
    }
    assert!(all.iter().all(|queue| queue.waiters() == 0));
    for (index, queue) in all.iter().enumerate() {
        assert_eq!(BlockingQueue::put_any(&all, index).wait(), Ok(index));
        assert_eq!(queue.len(), 1);
    }
    let mut put = Step::queued(BlockingQueue::put_any(&all, 0));
    all[999].try_take().unwrap();
    assert_eq!(put.expect_ready(), Ok(999));
    assert!(all.iter().all(|queue| queue.waiters() == 0));
}

/// A task that does not come for its item loses it to the next taker, and gets another when polled.
#[test]
fn an_item_that_is_not_claimed_is_passed_on() {
    let queues: [_; 2] = std::array::from_fn(|_| leaked(BlockingQueue::bounded(1)));
    let [a, b] = queues;
    queues.iter().for_each(|queue| queue.set_patience(PATIENCE));
    let mut any = Step::queued(BlockingQueue::take_any(queues));
    let behind = Waiter::on_a_thread(|| a.take().wait());
    until_queued(a, 2);
    a.try_put(1).unwrap();
    assert_eq!(any.wakes(), 1);
    assert_eq!(behind.join(), Ok(1));
    // While it rests, others have what it might have had.
    b.try_put(2).unwrap();
    assert_eq!(b.try_take(), Ok(2));
    a.set_patience(LONG);
    // It stands first again, before one that came while it rested.
    let last = Step::queued(a.take());
    any.expect_pending();
    a.try_put(3).unwrap();
    assert_eq!((any.wakes(), any.expect_ready()), (2, Ok((0, 3))));
    drop(last);
    assert_eq!((a.waiters(), b.waiters()), (0, 0));
}

/// A poll that finds an item after a rest, and panics because of the waker of the one that it makes
/// room for, keeps nothing.
#[test]
fn a_poll_that_panics_after_a_rest_gives_the_item_back() {
    let queues: [_; 2] = std::array::from_fn(|_| leaked(BlockingQueue::bounded(1)));
    let [a, b] = queues;
    a.set_patience(PATIENCE);
    let mut any = Step::queued(BlockingQueue::take_any(queues));
    let behind = Waiter::on_a_thread(|| a.take().wait());
    until_queued(a, 2);
    a.try_put(1).unwrap();
    assert_eq!(behind.join(), Ok(1));
    b.try_put(2).unwrap();
    let mut putter = Step::panicking(b.put(3));
    assert_eq!(panic_of(|| any.poll().is_ready()), "the waker panicked");
    assert_eq!(putter.expect_ready(), Ok(()));
    assert_eq!((a.waiters(), b.waiters()), (0, 0), "it has left, though it is still there");
    assert_eq!([b.try_take(), b.try_take()], [Ok(2), Ok(3)]);
    drop(any);
}

/// What came to another queue meanwhile is found when it is polled.
#[test]
fn a_task_that_rested_finds_what_came_meanwhile() {
    let queues: [_; 2] = std::array::from_fn(|_| leaked(BlockingQueue::bounded(1)));
    let [a, b] = queues;
    a.set_patience(PATIENCE);
    let mut any = Step::queued(BlockingQueue::take_any(queues));
    let behind = Waiter::on_a_thread(|| a.take().wait());
    until_queued(a, 2);
    a.try_put(1).unwrap();
    assert_eq!(behind.join(), Ok(1));
    b.try_put(2).unwrap();
    assert_eq!(any.expect_ready(), Ok((1, 2)));
    assert_eq!((a.waiters(), b.waiters()), (0, 0));
}

/// An end that comes after the grant counts if that is taken back.
#[test]
fn a_late_end_counts_if_the_item_is_passed_on() {
    let queues: [_; 2] = std::array::from_fn(|_| leaked(BlockingQueue::bounded(1)));
    let [a, _] = queues;
    a.set_patience(PATIENCE);
    let stop = CancelSource::new();
    let mut any = Step::queued(BlockingQueue::take_any(queues).cancel_on(&stop.token()));
    let behind = Waiter::on_a_thread(|| a.take().wait());
    until_queued(a, 2);
    a.try_put(1).unwrap();
    stop.cancel();
    assert_eq!(behind.join(), Ok(1));
    eventually("the branch rests", || a.waiters() == 1);
    assert_eq!(any.expect_ready(), Err(WaitError::Cancelled));
    assert_eq!(a.waiters(), 0);
    // Without it, the grant wins.
    let mut any = Step::queued(BlockingQueue::take_any(queues).timeout(LONG));
    a.try_put(2).unwrap();
    assert_eq!(any.expect_ready(), Ok((0, 2)));
}

/// Leaked at every stage; the queues are dropped, then the token fires. The address sanitizer sees
/// what the assertions cannot.
#[test]
fn leaked_requests_lose_their_own_items_only() {
    let (tally, lost) = (Tally::new(), Tally::new());
    let stop = CancelSource::new();
    for patience in [PATIENCE, LONG] {
        let [a, b] = [(); 2].map(|()| BlockingQueue::<Counted>::bounded(1));
        [&a, &b].iter().for_each(|queue| queue.set_patience(patience));
        forget(BlockingQueue::put_any([&a, &b], lost.make()));
        forget(BlockingQueue::take_any([&a, &b]));
        let leak = || {
            let take = BlockingQueue::take_any([&a, &b]).cancel_on(&stop.token());
            forget(Step::queued(take).into_future());
        };
        (0..3).for_each(|_| leak());
        a.try_put(tally.make()).unwrap();
        b.try_put(tally.make()).unwrap();
        let put = || BlockingQueue::put_any([&a, &b], lost.make()).cancel_on(&stop.token());
        while a.len() + b.len() < 2 {
            let _ = BlockingQueue::try_put_any([&a, &b], tally.make());
        }
        forget(Step::queued(put()).into_future());
        drop((a, b));
        tally.expect_all_dropped();
    }
    stop.cancel();
    assert_eq!(lost.dropped(), []);
}

#[test]
fn a_queue_is_dropped_with_the_request_that_owns_it() {
    let tally = Tally::new();
    let all: Vec<_> = (0..2).map(|_| Arc::new(BlockingQueue::bounded(1))).collect();
    all.iter().for_each(|queue| queue.try_put(tally.make()).unwrap());
    let put = Step::queued(BlockingQueue::put_any(all, tally.make()));
    drop(put);
    tally.expect_all_dropped();
}

/// A waker that panics costs nothing but itself.
#[test]
fn a_panicking_waker_costs_no_item() {
    let tally = Tally::new();
    let [a, b] = [(); 2].map(|()| leaked(BlockingQueue::<Counted>::bounded(1)));
    let mut take = Step::new(BlockingQueue::take_any([a, b]));
    assert!(take.poll_with(&waker_that(|| panic!("a waker"))).is_pending());
    let why = panic_of(|| a.try_put(tally.make()));
    assert_eq!(why, "a waker");
    assert_eq!(take.expect_ready().unwrap().0, 0);
    // It panics in the one who takes, and that one's item goes back.
    a.try_put(tally.make()).unwrap();
    b.try_put(tally.make()).unwrap();
    let mut put = Step::new(BlockingQueue::put_any([a, b], tally.make()));
    assert!(put.poll_with(&waker_that(|| panic!("a waker"))).is_pending());
    let why = panic_of(|| BlockingQueue::take_any([b, a]).wait());
    assert_eq!(why, "a waker");
    assert_eq!(put.expect_ready().unwrap(), 1);
    assert_eq!((a.drain().len(), b.drain().len()), (1, 2));
    tally.expect_all_dropped();
}

/// The same while the request itself visits: a putter's waker panics when it is let in.
#[test]
fn a_panic_while_visiting_ends_the_request_and_keeps_the_items() {
    let tally = Tally::new();
    // By priority: every operation takes the lock, so that the visit is the one who lets in.
    let queue = || BlockingQueue::<Counted>::builder().capacity(1).lifo().build();
    let [a, b] = [(); 2].map(|()| leaked(queue()));
    b.try_put(tally.make()).unwrap();
    let mut put = Step::new(b.put(tally.make()));
    assert!(put.poll_with(&waker_that(|| panic!("a waker"))).is_pending());
    let mut take = Step::new(BlockingQueue::take_any([a, b]));
    assert_eq!(panic_of(|| take.poll()), "a waker");
    assert!(put.expect_ready().is_ok());
    assert_eq!((a.waiters(), b.waiters(), b.len()), (0, 0, 2));
    assert_eq!(take.expect_ready().unwrap().0, 1);
    drop(b.drain());
    tally.expect_all_dropped();
}

#[test]
fn transfer_queues_and_rendezvous_can_be_taken_from_together() {
    let [a, b] = [(); 2].map(|()| leaked(patient(TransferQueue::new())));
    let mut any = Step::queued(TransferQueue::take_any([a, b]));
    let mut transfer = Step::queued(b.transfer(1));
    assert_eq!(any.wakes(), 1);
    // Withdrawn before it was claimed: the task waits on, and finds what came elsewhere meanwhile.
    a.put(2).unwrap();
    assert_eq!(a.len(), 1, "passed over while it was claimed");
    transfer.expect_pending();
    drop(transfer);
    assert_eq!(any.expect_ready(), Ok((0, 2)));
    assert_eq!((a.waiters(), b.waiters()), (0, 0));

    let mut any = Step::queued(TransferQueue::take_any([a, b]));
    let mut transfer = Step::queued(b.transfer(3));
    assert_eq!(any.expect_ready(), Ok((1, 3)));
    assert_eq!(transfer.expect_ready(), Ok(()));
    let taker = Waiter::on_a_thread(move || TransferQueue::take_any([a, b]).wait());
    [a, b].iter().for_each(|queue| until_queued(*queue, 1));
    assert_eq!(a.transfer(4).timeout(Duration::ZERO).wait(), Ok(()));
    assert_eq!(taker.join(), Ok((0, 4)));
    let mut any = Step::queued(TransferQueue::take_any([a, b]));
    a.close();
    any.expect_pending();
    b.close();
    assert_eq!(any.expect_ready(), Err(Closed));

    let [a, b] = [(); 2].map(|()| leaked(patient(SynchronousQueue::new())));
    for kind in both() {
        let taker = Waiter::start_then(kind, SynchronousQueue::take_any([a, b]), |taken| taken);
        [a, b].iter().for_each(|queue| until_queued(*queue, 1));
        b.try_put(5).unwrap();
        assert_eq!(taker.join(), Ok((1, 5)));
    }
    let mut putter = Step::queued(b.put(6));
    assert_eq!(SynchronousQueue::try_take_any([a, b]), Ok((1, 6)));
    assert_eq!(putter.expect_ready(), Ok(()));
}

#[test]
fn a_message_that_came_back_is_not_lost_to_the_others() {
    let [a, b] = [(); 2].map(|()| leaked(TransferQueue::new()));
    a.set_patience(PATIENCE);
    let mut any = Step::queued(TransferQueue::take_any([a, b]));
    let behind = Waiter::on_a_thread(|| a.take().wait());
    until_queued(a, 2);
    let sender = Waiter::on_a_thread(|| a.transfer(1).wait());
    assert_eq!((behind.join(), sender.join()), (Ok(1), Ok(())));
    b.put(2).unwrap();
    assert_eq!(any.expect_ready(), Ok((1, 2)));
}

/// A queue that passed over a request keeps its items in order, although the request waits again.
#[test]
fn no_message_overtakes_one_that_a_request_was_passed_over_with() {
    let [a, b] = [(); 2].map(|()| leaked(patient(TransferQueue::new())));
    let mut any = Step::queued(TransferQueue::take_any([a, b]));
    let transfer = Step::queued(a.transfer(0));
    b.put(1).unwrap();
    drop(transfer);
    b.put(2).unwrap();
    let late = b.try_transfer(3);
    assert_eq!(late, Err(Rejected { item: 3, why: TryPutError::Full }));
    let mut sender = Step::queued(b.transfer(4));
    assert_eq!((any.expect_ready(), b.drain()), (Ok((1, 1)), vec![2, 4]));
    assert_eq!(sender.expect_ready(), Ok(()));
}

/// Requests with borrowed items, and on other threads.
#[test]
fn requests_are_sent_and_lent() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let a = Arc::new(BlockingQueue::<&'static str>::bounded(1));
    let b = Arc::clone(&a);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (left, right) = (Arc::clone(&a), Arc::clone(&b));
    let put = runtime.spawn(is_send(async move {
        BlockingQueue::put_any([left, right], "x").await.unwrap();
    }));
    runtime.block_on(put).unwrap();
    let taken = runtime.spawn(async move { BlockingQueue::take_any([&*a, &*b]).await.unwrap() });
    assert_eq!(runtime.block_on(taken).unwrap(), (0, "x"));
    let text = String::from("borrowed");
    let queue = BlockingQueue::bounded(1);
    BlockingQueue::put_any(&[&queue], text.as_str()).wait().unwrap();
    assert_eq!(BlockingQueue::take_any(&[&queue]).wait(), Ok((0, "borrowed")));
}

#[test]
fn each_queue_has_its_own_priorities() {
    let build = |sign: i64| BlockingQueue::builder().by_priority(move |item: &i64| sign * item);
    let (up, down) = (build(1).build(), build(-1).capacity(1).build());
    down.try_put(5).unwrap();
    let mut put = Step::queued(BlockingQueue::put_any([&down], 7));
    down.try_take().unwrap();
    assert_eq!(put.expect_ready(), Ok(0));
    for item in [1, 3, 2] {
        assert_eq!(BlockingQueue::put_any([&down, &up], item).wait(), Ok(1));
    }
    assert_eq!((down.drain(), up.drain()), (vec![7], vec![1, 2, 3]));
}

/// A message goes back to its sender when the queue is closed, also one that a task was handed and has
/// not come for: then that task, too, learns that all queues are closed.
#[test]
fn closing_after_a_hand_over_refuses_the_task() {
    for others in 0..3 {
        for closes_first in [true, false] {
            let queues: Vec<_> =
                (0..=others).map(|_| Arc::new(patient(TransferQueue::new()))).collect();
            let mut any = Step::queued(TransferQueue::take_any(queues.clone()));
            let mut sender = Step::queued(queues[0].transfer(1));
            let close_others = || queues[1..].iter().for_each(|queue| assert!(queue.close()));
            if closes_first {
                close_others();
            }
            assert!(queues[0].close());
            assert_eq!(sender.expect_ready(), Err(Rejected { item: 1, why: Closed }));
            if !closes_first {
                close_others();
            }
            assert_eq!((any.wakes(), any.expect_ready()), (1, Err(Closed)));
            assert!(queues.iter().all(|queue| queue.waiters() == 0));
        }
    }
}
