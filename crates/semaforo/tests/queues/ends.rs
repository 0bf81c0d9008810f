//! The two ends of a queue, which close it when the last of one side is gone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::StreamExt;

use crate::support::{Step, Tally, Waiter, block_on, until_queued};
use semaforo::{BlockingQueue, Closed, Rejected, SynchronousQueue, TransferQueue, TryTakeError};

#[test]
fn the_last_sender_closes_the_queue() {
    let (sender, receiver) = BlockingQueue::bounded(2).into_ends();
    let other = sender.clone();
    sender.put(1).wait().unwrap();
    drop(sender);
    assert!(!receiver.queue().is_closed());
    other.try_put(2).unwrap();
    drop(other);
    assert_eq!(receiver.take().wait(), Ok(1));
    assert_eq!(receiver.try_take(), Ok(2));
    assert_eq!(receiver.try_take(), Err(TryTakeError::Closed));
    assert_eq!(receiver.take().timeout(Duration::ZERO).wait().unwrap_err(), Closed.into());
}

/// What it is for: a producer that panics does not leave its consumers waiting.
#[test]
fn a_producer_that_panics_ends_its_consumers() {
    let (sender, receiver) = SynchronousQueue::<u32>::new().into_ends();
    let consumers = [(); 2].map(|()| {
        let receiver = receiver.clone();
        Waiter::on_a_thread(move || receiver.items().count())
    });
    until_queued(&**receiver.queue(), 2);
    let producer = Waiter::on_a_thread(move || {
        let _sender = sender;
        panic!("a producer");
    });
    assert!(producer.join_or_panic().is_err());
    consumers.into_iter().for_each(|consumer| assert_eq!(consumer.join(), 0));
}

#[test]
fn the_last_receiver_gives_items_back() {
    let tally = Tally::new();
    let (sender, receiver) = BlockingQueue::bounded(1).into_ends();
    let other = receiver.clone();
    sender.try_put(tally.make()).unwrap();
    let mut waiting = Step::queued(sender.put(tally.make()));
    drop(receiver);
    waiting.expect_pending();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _receiver = other;
        panic!("a consumer");
    }));
    assert!(ended.is_err());
    let Rejected { item, why } = waiting.expect_ready().unwrap_err();
    assert_eq!((item.number, why), (1, Closed));
    drop((item, waiting));
    assert_eq!(sender.queue().len(), 1);
    drop(sender);
    tally.expect_all_dropped();
}

#[test]
fn ends_of_other_queues() {
    let (sender, receiver) = TransferQueue::new().into_ends();
    sender.put(1).unwrap();
    let mut transfer = Step::queued(sender.transfer(2));
    assert_eq!((receiver.try_take(), receiver.try_take()), (Ok(1), Ok(2)));
    assert_eq!(transfer.expect_ready(), Ok(()));
    drop(transfer);
    let mut next = Step::queued(receiver.take());
    sender.try_transfer(3).unwrap();
    assert_eq!(next.expect_ready(), Ok(3));
    sender.put(4).unwrap();
    drop(sender);
    assert_eq!(block_on(receiver.stream().collect::<Vec<_>>()), [4]);
    assert_eq!((&receiver).into_iter().next(), None);
    assert!(format!("{receiver:?}").contains("closed: true"));
}

/// A loop over a receiver keeps its end open, and closes the queue when it is left.
#[test]
fn a_receiver_goes_with_its_loop() {
    let (sender, receiver) = BlockingQueue::bounded(4).into_ends();
    (1..=3).for_each(|item| sender.try_put(item).unwrap());
    let mut taken = Vec::new();
    for item in receiver {
        assert!(!sender.queue().is_closed());
        taken.push(item);
        if item == 2 {
            break;
        }
    }
    assert_eq!((taken, sender.queue().is_closed()), (vec![1, 2], true));
    let Rejected { item, why } = sender.put(4).wait().unwrap_err();
    assert_eq!((item, why), (4, Closed));
    let (sender, receiver) = TransferQueue::from([1, 2]).into_ends();
    drop(sender);
    assert!(receiver.into_iter().eq([1, 2]));
}
