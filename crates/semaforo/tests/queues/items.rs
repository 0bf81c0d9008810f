//! Item after item, with limits, from every kind of queue; queues as collections; errors that travel.

use std::cell::Cell;
use std::error::Error;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;

use crate::support::{
    SHORT, Step, Waiter, block_on, eventually, leaked, on_tokio, patient, until_queued,
};
use semaforo::{
    BlockingQueue, CancelSource, Closed, Rejected, SynchronousQueue, TransferQueue, TryPutError,
    TryTakeError, WaitError,
};

/// An owned queue is extended as other collections are, by whatever takes one; a shared one by reference.
#[test]
fn queues_are_extended_as_collections_are() {
    fn fill<C: Default + Extend<u32>>() -> C {
        let mut all = C::default();
        all.extend([1, 2]);
        all.extend(vec![3]);
        all
    }
    assert_eq!(fill::<BlockingQueue<u32>>().drain(), fill::<Vec<u32>>());
    let queue = fill::<TransferQueue<u32>>();
    (&queue).extend([4]);
    assert_eq!(std::iter::from_fn(|| queue.try_take().ok()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let (even, odd): (BlockingQueue<u32>, BlockingQueue<u32>) =
        (0..6).partition(|number| number % 2 == 0);
    assert_eq!((even.drain(), odd.drain()), (vec![0, 2, 4], vec![1, 3, 5]));
    let mut closed = BlockingQueue::from([1]);
    closed.close();
    closed.extend([2]);
    assert_eq!(closed.drain(), [1]);
}

#[test]
fn a_loop_takes_item_after_item() {
    let queue = BlockingQueue::from([1, 2, 3]);
    queue.close();
    let mut taken = Vec::new();
    for item in &queue {
        taken.push(item);
    }
    assert_eq!(taken, [1, 2, 3]);
    let messages = TransferQueue::from(vec![4, 5]);
    messages.close();
    assert!((&messages).into_iter().eq([4, 5]));
    let meeting = leaked(SynchronousQueue::new());
    let sender = Waiter::on_a_thread(|| {
        (0..3).for_each(|item| meeting.put(item).wait().unwrap());
        meeting.close()
    });
    assert!(meeting.items().eq(0..3));
    assert!(sender.join());
}

/// A limit or a token ends the wait for one item, not the whole; what is there is taken in any case.
#[test]
fn limits_are_for_each_item() {
    let queue = leaked(BlockingQueue::from([1, 2]));
    let stop = CancelSource::new();
    let mut items = queue.items().timeout(SHORT).cancel_on(&stop.token());
    let begun = Instant::now();
    assert_eq!((items.next(), items.next(), items.next()), (Some(1), Some(2), None));
    assert!(begun.elapsed() >= SHORT);
    assert_eq!(items.ended_by(), Some(WaitError::TimedOut));
    queue.try_put(3).unwrap();
    assert_eq!((items.next(), items.ended_by()), (Some(3), None));
    stop.cancel();
    queue.try_put(4).unwrap();
    assert_eq!((items.next(), items.next()), (Some(4), None));
    assert_eq!(items.ended_by(), Some(WaitError::Cancelled));
    let mut late = queue.items().deadline(Instant::now());
    assert_eq!((late.next(), late.ended_by()), (None, Some(WaitError::TimedOut)));
    queue.close();
    let mut all = queue.items();
    assert_eq!((all.next(), all.ended_by()), (None, Some(WaitError::Refused(Closed))));
}

#[test]
fn a_token_ends_a_loop_that_waits() {
    let queue = leaked(TransferQueue::<u32>::new());
    let stop = CancelSource::new();
    let token = stop.token();
    let consumer = Waiter::on_a_thread(move || {
        let mut items = queue.items().cancel_on(&token);
        (items.by_ref().collect::<Vec<_>>(), items.ended_by())
    });
    queue.put(1).unwrap();
    eventually("it waits for the next", || queue.waiting_consumers() == 1 && queue.is_empty());
    stop.cancel();
    assert_eq!(consumer.join(), (vec![1], Some(WaitError::Cancelled)));
}

#[test]
fn streams_have_limits_too() {
    let queue = leaked(patient(SynchronousQueue::<u32>::new()));
    let stop = CancelSource::new();
    let mut stream = Box::pin(queue.stream().timeout(SHORT).cancel_on(&stop.token()));
    let mut next = Step::queued(stream.next());
    queue.try_put(1).unwrap();
    assert_eq!(next.expect_ready(), Some(1));
    drop(next);
    assert_eq!((block_on(stream.next()), stream.ended_by()), (None, Some(WaitError::TimedOut)));
    stop.cancel();
    assert_eq!((block_on(stream.next()), stream.ended_by()), (None, Some(WaitError::Cancelled)));
    assert_eq!(queue.waiters(), 0);
}

/// A limit that is none is none, for items, streams and batches.
#[test]
fn limits_may_be_none() {
    let queue = BlockingQueue::from([1, 2, 3]);
    queue.close();
    let never = None::<&semaforo::CancelToken>;
    let mut items = queue.items().timeout(None).deadline(None).cancel_on(never);
    assert_eq!((items.next(), items.ended_by()), (Some(1), None));
    let stream = queue.stream().timeout(None).deadline(None).cancel_on(never);
    assert_eq!(block_on(stream.take(1).collect::<Vec<_>>()), [2]);
    let batch = queue.take_batch(9, Duration::ZERO).timeout(None).deadline(None).cancel_on(never);
    assert_eq!(batch.wait(), Ok(vec![3]));
    let mut late = queue.items().timeout(Some(SHORT)).timeout(None).timeout(Duration::ZERO);
    assert_eq!((late.next(), late.ended_by()), (None, Some(WaitError::Refused(Closed))));
}

/// With handles of their own they can be sent anywhere; also with items that have lifetimes.
#[test]
fn items_and_streams_own_their_queue() {
    let queue = Arc::new(BlockingQueue::<&'static str>::from(["a", "b"]));
    queue.close();
    let items = queue.items_owned();
    let stream = queue.stream_owned();
    drop(queue);
    let mut items = std::thread::spawn(move || {
        let mut items = items;
        assert_eq!(items.next(), Some("a"));
        items
    })
    .join()
    .unwrap();
    let rest = on_tokio(async move {
        tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            let mut rest = Vec::new();
            while let Some(item) = stream.next().await {
                rest.push(item);
            }
            rest
        })
        .await
        .unwrap()
    });
    assert_eq!((rest, items.next()), (vec!["b"], None));
}

#[test]
fn queues_are_made_of_items() {
    let queue: BlockingQueue<u32> = (1..4).collect();
    assert_eq!((queue.capacity(), queue.extend_from([4])), (None, 1));
    (&queue).extend([5]);
    queue.close();
    assert_eq!(queue.extend_from([6]), 0);
    assert_eq!(queue.drain(), [1, 2, 3, 4, 5]);
    let messages: TransferQueue<u32> = (1..4).collect();
    (&messages).extend([4]);
    assert_eq!(messages.drain(), [1, 2, 3, 4]);
    assert_eq!(BlockingQueue::<u8>::default().capacity(), None);
    // Waits for room.
    let queue = leaked(BlockingQueue::bounded(1));
    let producer = Waiter::on_a_thread(|| queue.extend_from(1..=3));
    until_queued(queue, 1);
    assert_eq!([(); 3].map(|()| queue.take().wait().unwrap()), [1, 2, 3]);
    assert_eq!(producer.join(), 3);
}

#[test]
fn queues_are_unwind_safe() {
    fn check<Q: UnwindSafe + RefUnwindSafe>() {}
    check::<BlockingQueue<Cell<u8>>>();
    check::<TransferQueue<Cell<u8>>>();
    check::<SynchronousQueue<Cell<u8>>>();
}

/// Errors travel with `?`: with the item where it may go, and without it everywhere.
#[test]
fn errors_travel() {
    fn with_item(queue: &BlockingQueue<String>) -> Result<(), Box<dyn Error + Send + Sync>> {
        queue.try_put("x".to_owned())?;
        queue.put("y".to_owned()).timeout(Duration::ZERO).wait()?;
        Ok(())
    }
    fn anyhow(queue: &BlockingQueue<String>) -> anyhow::Result<String> {
        queue.put("z".to_owned()).timeout(Duration::ZERO).wait()?;
        Ok(queue.try_take()?)
    }
    fn without<'a>(
        queue: &BlockingQueue<&'a Cell<u8>>,
        item: &'a Cell<u8>,
    ) -> Result<(), WaitError<Closed>> {
        queue.put(item).wait()?;
        queue.put(item).timeout(Duration::ZERO).wait()?;
        queue.take().wait()?;
        Ok(())
    }
    fn at_once(queue: &BlockingQueue<Cell<u8>>) -> Result<(), TryPutError> {
        queue.put(Cell::new(1)).wait()?;
        queue.try_put(Cell::new(2))?;
        Ok(())
    }
    fn closed(queue: &BlockingQueue<Cell<u8>>) -> Result<Cell<u8>, Closed> {
        queue.put(Cell::new(1)).wait()?;
        queue.take().wait()
    }
    fn taken(queue: &BlockingQueue<Cell<u8>>) -> Result<(), TryTakeError> {
        queue.take().wait()?;
        queue.try_take()?;
        Ok(())
    }
    let queue = BlockingQueue::bounded(1);
    let why = with_item(&queue).unwrap_err();
    let why = why.downcast::<Rejected<String, WaitError<Closed>>>().unwrap();
    assert_eq!((why.item.as_str(), why.why), ("y", WaitError::TimedOut));
    assert_eq!(
        anyhow(&queue).unwrap_err().to_string(),
        "the item was not accepted: timed out while waiting"
    );
    let cell = Cell::new(0);
    assert_eq!(without(&BlockingQueue::bounded(1), &cell), Err(WaitError::TimedOut));
    assert_eq!(at_once(&BlockingQueue::bounded(1)), Err(TryPutError::Full));
    let queue = BlockingQueue::bounded(1);
    queue.close();
    assert_eq!(closed(&queue).unwrap_err(), Closed);
    assert_eq!(taken(&queue), Err(TryTakeError::Closed));
    assert_eq!(at_once(&queue), Err(TryPutError::Closed));
    assert_eq!(queue.put(Cell::new(1)).wait().unwrap_err().into_error(), Closed);
}
