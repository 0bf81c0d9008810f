//! Every item is dropped exactly once: with the queue, with its request, or by whoever got it; also
//! if requests are leaked (`mem::forget`) at any stage, the queue is gone, and then their tokens fire
//! and their limits pass. The address sanitizer, where these tests run under it, sees what the
//! assertions cannot.

use std::future::IntoFuture;
use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    Counted, LONG, Step, Tally, eventually, leak, let_the_timer_pass, panic_of, waker_that,
};
use semaforo::{BlockingQueue, CancelSource, SynchronousQueue, TransferQueue};

const PATIENCE: Duration = Duration::from_millis(2);
const SOON: Duration = Duration::from_millis(5);

/// Every kind of blocking queue, without room for more than so many.
fn every_kind(capacity: usize) -> Vec<BlockingQueue<Counted>> {
    let builder = || BlockingQueue::<Counted>::builder().capacity(capacity);
    vec![
        builder().build(),
        builder().lifo().build(),
        builder().by_priority(|item| item.number as i64 % 3).build(),
    ]
}

#[test]
fn what_is_in_a_queue_goes_with_it() {
    let tally = Tally::new();
    let unbounded = [BlockingQueue::unbounded(), BlockingQueue::builder().lifo().build()];
    for queue in every_kind(5).into_iter().chain(unbounded) {
        // Around the end of a ring.
        for _ in 0..3 {
            queue.try_put(tally.make()).unwrap();
            drop(queue.try_take().unwrap());
        }
        (0..5).for_each(|_| queue.try_put(tally.make()).unwrap());
        drop(queue);
        tally.expect_all_dropped();
    }
    let transfers = TransferQueue::new();
    (0..5).for_each(|_| transfers.put(tally.make()).unwrap());
    drop(transfers);
    tally.expect_all_dropped();
}

/// What came back is dropped with the queue, too.
#[test]
fn what_came_back_goes_with_the_queue() {
    let tally = Tally::new();
    for queue in every_kind(2) {
        let takers = [Step::queued(queue.take()), Step::queued(queue.take())];
        (0..4).for_each(|_| queue.try_put(tally.make()).unwrap());
        drop(takers);
        assert_eq!(queue.len(), 4);
        drop(queue);
        tally.expect_all_dropped();
    }
    let queue = SynchronousQueue::new();
    let taker = Step::queued(queue.take());
    queue.try_put(tally.make()).unwrap();
    drop(taker);
    assert_eq!(queue.available(), 1);
    drop(queue);
    tally.expect_all_dropped();
}

#[test]
fn a_request_that_is_dropped_takes_its_item_along() {
    let tally = Tally::new();
    let stop = CancelSource::new();
    for queue in every_kind(1) {
        queue.try_put(tally.make()).unwrap();
        drop(queue.put(tally.make()));
        drop(Step::new(queue.put(tally.make()).cancel_on(&stop.token())));
        drop(Step::queued(queue.put(tally.make())));
        drop(Step::queued(queue.put(tally.make()).timeout(LONG)));
        drop(queue.try_put(tally.make()));
        drop(queue.put(tally.make()).timeout(Duration::ZERO).wait());
        assert_eq!((queue.len(), tally.dropped().len()), (1, tally.made() - 1));
        drop(queue);
        tally.expect_all_dropped();
    }
    let transfers = TransferQueue::new();
    drop(Step::queued(transfers.transfer(tally.make())));
    drop(transfers.try_transfer(tally.make()));
    drop(transfers.transfer(tally.make()).timeout(Duration::ZERO).wait());
    tally.expect_all_dropped();
    // Handed to a task that has not claimed it.
    let taker = Step::queued(transfers.take());
    drop(Step::queued(transfers.transfer(tally.make())));
    tally.expect_all_dropped();
    drop(taker);
}

/// Leaked before it was polled, while it waits, and after it was answered, in every way.
#[test]
fn leaked_puts_lose_their_own_items_only() {
    for queue in every_kind(1) {
        let (tally, leaked) = (Tally::new(), Tally::new());
        let stop = CancelSource::new();
        let token = stop.token();
        queue.try_put(tally.make()).unwrap();
        forget(queue.put(leaked.make()));
        forget(queue.put(leaked.make()).cancel_on(&token));
        // Let in: its item is the queue's.
        leak(queue.put(tally.make()).cancel_on(&token));
        drop(queue.try_take().unwrap());
        // Cancelled, timed out, and not told.
        let early = CancelSource::new();
        leak(queue.put(leaked.make()).cancel_on(&early.token()));
        leak(queue.put(leaked.make()).timeout(PATIENCE));
        early.cancel();
        eventually("the limit passes", || queue.waiters() == 0);
        // Waiting.
        leak(queue.put(leaked.make()));
        leak(queue.put(leaked.make()).cancel_on(&token));
        leak(queue.put(leaked.make()).timeout(SOON).cancel_on(&token));
        drop(queue);
        tally.expect_all_dropped();
        stop.cancel();
        let_the_timer_pass();
        assert_eq!((leaked.made(), leaked.dropped()), (7, vec![]));
        tally.expect_all_dropped();
        assert_eq!(token.registrations(), 0);
    }
}

#[test]
fn leaked_takes_lose_nothing() {
    for queue in every_kind(4) {
        queue.set_patience(PATIENCE);
        let tally = Tally::new();
        let stop = CancelSource::new();
        let token = stop.token();
        forget(queue.take().cancel_on(&token));
        // Dormant, with and without an end.
        leak(queue.take());
        leak(queue.take().cancel_on(&token).timeout(LONG));
        let mut claims = Step::queued(queue.take());
        queue.try_put(tally.make()).unwrap();
        eventually("the item is passed on", || claims.wakes() == 1);
        drop(claims.expect_ready().unwrap());
        drop(claims);
        assert_eq!(queue.waiters(), 2);
        // Granted.
        leak(queue.take());
        leak(queue.take().timeout(SOON).cancel_on(&token));
        queue.try_put(tally.make()).unwrap();
        queue.try_put(tally.make()).unwrap();
        // Waiting.
        leak(queue.take());
        leak(queue.take().timeout(SOON));
        leak(queue.take().cancel_on(&token));
        drop(queue);
        tally.expect_all_dropped();
        stop.cancel();
        let_the_timer_pass();
        tally.expect_all_dropped();
        assert_eq!(token.registrations(), 0);
    }
}

/// The token may fire, and the limit pass, before the queue is dropped.
#[test]
fn a_leaked_take_may_end_late() {
    let queue = BlockingQueue::bounded(4);
    queue.set_patience(PATIENCE);
    let tally = Tally::new();
    let stop = CancelSource::new();
    leak(queue.take().cancel_on(&stop.token()));
    leak(queue.take().timeout(PATIENCE));
    queue.try_put(tally.make()).unwrap();
    queue.try_put(tally.make()).unwrap();
    stop.cancel();
    let_the_timer_pass();
    // Nobody else waits, so they keep what they have; a taker makes the watchdog pass it on.
    let mut heir = Step::queued(queue.take());
    eventually("the item is passed on", || heir.wakes() == 1);
    drop(heir.expect_ready().unwrap());
    drop(heir);
    drop(queue);
    let_the_timer_pass();
    tally.expect_all_dropped();
}

#[test]
fn leaked_transfers_leave_their_messages_to_the_queue() {
    let (tally, leaked) = (Tally::new(), Tally::new());
    let queue = TransferQueue::new();
    queue.set_patience(LONG);
    let stop = CancelSource::new();
    let token = stop.token();
    forget(queue.transfer(leaked.make()));
    // Taken, and not told.
    leak(queue.transfer(tally.make()).cancel_on(&token));
    drop(queue.try_take().unwrap());
    // Withdrawn, and not told.
    let early = CancelSource::new();
    leak(queue.transfer(leaked.make()).cancel_on(&early.token()));
    early.cancel();
    // Handed to somebody who is leaked, too, and somebody who is not.
    leak(queue.take());
    leak(queue.transfer(tally.make()).cancel_on(&token));
    leak(queue.take().cancel_on(&token));
    leak(queue.transfer(tally.make()).timeout(SOON));
    let taker = Step::queued(queue.take());
    leak(queue.transfer(tally.make()));
    drop(taker);
    // Lying.
    leak(queue.transfer(tally.make()));
    leak(queue.transfer(tally.make()).cancel_on(&token));
    leak(queue.transfer(tally.make()).timeout(LONG).cancel_on(&token));
    drop(queue);
    tally.expect_all_dropped();
    stop.cancel();
    let_the_timer_pass();
    tally.expect_all_dropped();
    assert_eq!((leaked.dropped(), token.registrations()), (vec![], 0));
}

/// A leaked transfer still ends: what a living task was handed can be withdrawn by its token.
#[test]
fn a_leaked_transfer_can_be_withdrawn() {
    let leaked = Tally::new();
    let queue = TransferQueue::new();
    let stop = CancelSource::new();
    let mut taker = Step::queued(queue.take());
    leak(queue.transfer(leaked.make()).cancel_on(&stop.token()));
    stop.cancel();
    taker.expect_pending();
    drop(taker);
    assert_eq!((queue.len(), queue.waiters()), (0, 0));
    drop(queue);
    assert_eq!(leaked.dropped(), [], "it is with the leaked request");
}

#[test]
fn leaked_puts_of_a_rendezvous_leave_their_items_to_the_queue() {
    let tally = Tally::new();
    let queue = SynchronousQueue::new();
    let stop = CancelSource::new();
    leak(queue.take().cancel_on(&stop.token()));
    leak(queue.take());
    queue.try_put(tally.make()).unwrap();
    queue.put(tally.make()).wait().unwrap();
    leak(queue.put(tally.make()).cancel_on(&stop.token()));
    leak(queue.put(tally.make()).timeout(SOON));
    drop(queue);
    tally.expect_all_dropped();
    stop.cancel();
    let_the_timer_pass();
    tally.expect_all_dropped();
}

/// The same for values that borrow: whatever is reached later must not touch them.
#[test]
fn leaked_requests_do_not_reach_what_was_borrowed() {
    struct Borrowing<'a>(&'a str, #[allow(dead_code, reason = "counted")] Counted);
    impl Drop for Borrowing<'_> {
        fn drop(&mut self) {
            assert!(self.0.starts_with("borrowed"), "dropped too late");
        }
    }
    let (tally, leaked) = (Tally::new(), Tally::new());
    let stop = CancelSource::new();
    for moved in [false, true] {
        let text = String::from("borrowed text, long enough to be on the heap");
        let bounded = BlockingQueue::bounded(1);
        let transfers = TransferQueue::new();
        bounded.set_patience(PATIENCE);
        transfers.set_patience(PATIENCE);
        leak(bounded.take().cancel_on(&stop.token()));
        leak(bounded.take().timeout(SOON));
        for _ in 0..3 {
            bounded.try_put(Borrowing(&text, tally.make())).ok().unwrap();
        }
        leak(bounded.put(Borrowing(&text, leaked.make())).cancel_on(&stop.token()));
        leak(transfers.take().cancel_on(&stop.token()));
        leak(transfers.transfer(Borrowing(&text, tally.make())).timeout(SOON));
        leak(transfers.transfer(Borrowing(&text, tally.make())).cancel_on(&stop.token()));
        if moved {
            // The borrow ended with the leak, so the queues can be moved.
            drop((Box::new(bounded), Box::new(transfers)));
        } else {
            drop(transfers);
            drop(bounded);
        }
        drop(text);
        tally.expect_all_dropped();
    }
    // Reuses the memory, if it was wrongly given back.
    let others: Vec<_> =
        (0..100).map(|number| format!("something else, number {number}")).collect();
    stop.cancel();
    let_the_timer_pass();
    tally.expect_all_dropped();
    assert_eq!((leaked.dropped(), others.len()), (vec![], 100));
}

/// An item whose drop panics does not cost the others theirs.
#[test]
fn an_item_that_panics_when_dropped_does_not_cost_the_others_theirs() {
    struct Panicking(Counted);
    impl Drop for Panicking {
        fn drop(&mut self) {
            assert_ne!(self.0.number % 4, 1, "a bad item");
        }
    }
    let tally = Tally::new();
    let queue = BlockingQueue::bounded(4);
    (0..4).for_each(|_| queue.try_put(Panicking(tally.make())).ok().unwrap());
    panic_of(|| drop(queue));
    tally.expect_all_dropped();
    let queue = TransferQueue::new();
    (0..4).for_each(|_| queue.put(Panicking(tally.make())).ok().unwrap());
    panic_of(|| drop(queue));
    tally.expect_all_dropped();
}

/// An item may use the queue that it lies in, or own it, when it is dropped: no lock is held then.
#[test]
fn an_item_may_use_its_queue_when_it_is_dropped() {
    struct Using(
        Arc<BlockingQueue<Option<Using>>>,
        #[allow(dead_code, reason = "counted")] Counted,
    );
    impl Drop for Using {
        fn drop(&mut self) {
            let _ = self.0.try_put(None);
            assert!(self.0.len() <= 3);
            drop(self.0.try_take());
        }
    }
    let tally = Tally::new();
    let queue = Arc::new(BlockingQueue::bounded(3));
    let make = || Some(Using(Arc::clone(&queue), tally.make()));
    queue.try_put(make()).ok().unwrap();
    queue.try_put(make()).ok().unwrap();
    drop(queue.try_put(make()));
    drop(queue.try_put(make()));
    drop(Step::new(queue.put(make()).timeout(Duration::ZERO)).poll());
    queue.close();
    drop(queue.try_put(make()));
    drop(queue.drain());
    tally.expect_all_dropped();
    assert_eq!(Arc::strong_count(&queue), 1);
}

/// The last handle goes with a wake-up, or with the request itself.
#[test]
fn the_last_handle_may_go_with_a_wake_up() {
    let tally = Tally::new();
    let queue = Arc::new(BlockingQueue::bounded(2));
    let slot = Arc::new(std::sync::Mutex::new(Some(Arc::clone(&queue))));
    let waker = waker_that(move || drop(slot.lock().unwrap().take()));
    let mut take = Step::new(queue.take_owned());
    assert!(take.poll_with(&waker).is_pending());
    queue.try_put(tally.make()).unwrap();
    queue.try_put(tally.make()).unwrap();
    drop(queue);
    let item = take.expect_ready().unwrap();
    assert_eq!((item.number, tally.dropped()), (0, vec![1]), "the rest went with the queue");
    drop((item, take));
    tally.expect_all_dropped();

    // A granted request that is dropped gives its item back to a queue that goes with it.
    let queue = Arc::new(BlockingQueue::bounded(2));
    let take = Step::queued(queue.take_owned());
    queue.try_put(tally.make()).unwrap();
    drop(queue);
    drop(take);
    tally.expect_all_dropped();
}

/// A task that is dropped between its steps, at every one of them.
#[test]
fn a_task_may_be_dropped_at_any_step() {
    for steps in 0..7 {
        let (tally, queue) = (Tally::new(), BlockingQueue::bounded(1));
        let (transfers, meeting) = (TransferQueue::new(), SynchronousQueue::new());
        let mut task = Step::new(async {
            let first = queue.take().await.unwrap();
            meeting.put(first).timeout(LONG).await.ok().unwrap();
            let batch = queue.take_batch(2, LONG).into_future().await.unwrap();
            for item in batch {
                transfers.transfer(item).await.unwrap();
            }
        });
        for step in 0..steps {
            let _ = task.poll();
            match step {
                0 | 2 | 3 => queue.try_put(tally.make()).unwrap(),
                1 => drop(meeting.try_take()),
                _ => drop(transfers.try_take()),
            }
        }
        drop(task);
        assert_eq!(queue.waiters() + transfers.waiters() + meeting.waiters(), 0);
        let left = queue.drain().len() + transfers.drain().len() + meeting.drain().len();
        assert!(left <= tally.made());
        tally.expect_all_dropped();
    }
}

/// What the items refer to is gone, and the watchdog and a token move them all the same: as bytes,
/// never as references. Only an interpreter of memory rules (Miri) could see the difference; the
/// address sanitizer sees that nothing looks through them.
#[test]
fn a_leaked_queue_of_references_outlives_what_they_refer_to() {
    let stop = CancelSource::new();
    {
        let text = Box::new(String::from("borrowed"));
        let queue: BlockingQueue<&String> = BlockingQueue::unbounded();
        queue.set_patience(PATIENCE);
        (0..2).for_each(|_| leak(queue.take()));
        queue.try_put(&text).unwrap();
        forget(queue);
        let transfers: TransferQueue<&String> = TransferQueue::new();
        transfers.set_patience(PATIENCE);
        leak(transfers.transfer(&text).cancel_on(&stop.token()));
        forget(transfers);
        let handed: TransferQueue<&String> = TransferQueue::new();
        handed.set_patience(PATIENCE);
        (0..2).for_each(|_| leak(handed.take()));
        leak(handed.transfer(&text).cancel_on(&stop.token()));
        forget(handed);
        let limited: TransferQueue<&String> = TransferQueue::new();
        leak(limited.transfer(&text).timeout(SOON));
        forget(limited);
    }
    let_the_timer_pass();
    stop.cancel();
    let_the_timer_pass();
}
