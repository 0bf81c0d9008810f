//! An item is handed to somebody who waits for it: against cancelling, timing out, dropping, claiming
//! and taking back.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use super::accounts::{Basket, left_in, unless};
use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, two_ticks, with};
use super::task::Task;
use crate::queue::blocking::Take;
use crate::request::Unlimited;
use crate::{BlockingQueue, CancelSource, Request, TryTakeError, WaitError};

/// A task prepared for one side that waits for an item.
type Taking<L = Unlimited> = For<Task<Request<Take<Arc<BlockingQueue<u32>>>, L>>>;

/// A request for several items.
type Collecting = Pin<Box<dyn Future<Output = ()> + Send>>;

fn taking(queue: &Arc<BlockingQueue<u32>>) -> Taking {
    Task::queued(queue.take_owned())
}

fn room_for_two() -> Arc<BlockingQueue<u32>> {
    Arc::new(BlockingQueue::bounded(2))
}

/// A queue, a task that an item was handed to and that has not come for it, and another that waits.
fn unclaimed() -> (Arc<BlockingQueue<u32>>, Taking, Taking) {
    let queue = room_for_two();
    let (handed, follower) = (taking(&queue), taking(&queue));
    queue.try_put(1).unwrap();
    (queue, handed, follower)
}

/// A queue from which a request has collected three items, and waits for a fourth; and three tasks that
/// wait behind it.
fn three() -> (Arc<BlockingQueue<u32>>, For<Task<Collecting>>, [Taking; 3]) {
    let queue = Arc::new(BlockingQueue::unbounded());
    (1..=3).for_each(|item| queue.try_put(item).unwrap());
    let batch = Arc::clone(&queue);
    let batch: Collecting = Box::pin(async move { drop(batch.take_batch(4, Duration::MAX).await) });
    let batch = Task::queued(batch);
    let tasks = [(); 3].map(|()| taking(&queue));
    (queue, batch, tasks)
}

/// A thread waits with a token, while the token fires and an item is put: it has the item, or the item
/// is in the queue.
#[test]
fn against_cancel_of_a_thread() {
    explore_within(3, || {
        let (queue, _, basket) =
            with((BlockingQueue::bounded(1), CancelSource::new(), Basket::default())).race([
                |(queue, source, basket)| {
                    basket.add(unless(
                        WaitError::Cancelled,
                        queue.take().cancel_on(&source.token()).wait(),
                    ))
                },
                |(_, source, _)| source.cancel(),
                |(queue, ..)| queue.try_put(1).unwrap(),
            ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// The same with a task that waits in line, and learns of one of the two.
#[test]
fn against_cancel_of_a_task() {
    explore(|| {
        let queue = room_for_two();
        let source = CancelSource::new();
        let task = Task::queued(queue.take_owned().cancel_on(&source.token()));
        with((Arc::clone(&queue), source))
            .race([|(_, source)| source.cancel(), |(queue, _)| queue.try_put(1).unwrap()]);
        match task.left().resume() {
            Ok(item) => assert_eq!((item, left_in(&*queue)), (1, vec![])),
            Err(error) => assert_eq!((error, left_in(&*queue)), (WaitError::Cancelled, vec![1])),
        }
    });
}

/// The same, and the task polls at the same time.
#[test]
fn against_cancel_of_a_task_that_polls() {
    explore_within(3, || {
        let queue = room_for_two();
        let source = CancelSource::new();
        let task = Task::queued(queue.take_owned().cancel_on(&source.token()));
        let (.., basket) = with((Arc::clone(&queue), source, task, Basket::default())).race([
            |(_, source, ..)| source.cancel(),
            |(queue, ..)| queue.try_put(1).unwrap(),
            |(_, _, task, basket)| basket.add(unless(WaitError::Cancelled, task.take().run())),
        ]);
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// A thread's time is up while an item is put.
#[test]
fn against_time_out_of_a_thread() {
    explore_within(4, || {
        let (queue, basket) = with((BlockingQueue::bounded(1), Basket::default())).race([
            |(queue, basket)| {
                basket.add(unless(WaitError::TimedOut, queue.take().timeout(HOUR).wait()))
            },
            |(queue, _)| queue.try_put(1).unwrap(),
        ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// The timer ends a task while an item is put.
#[test]
fn against_time_out_of_a_task() {
    explore(|| {
        let queue = Arc::new(BlockingQueue::unbounded());
        let task = Task::queued(queue.take_owned().timeout(HOUR));
        with(Arc::clone(&queue))
            .race([|_| assert!(time_passes()), |queue| queue.try_put(1).unwrap()]);
        match task.left().resume() {
            Ok(item) => assert_eq!((item, left_in(&*queue)), (1, vec![])),
            Err(error) => assert_eq!((error, left_in(&*queue)), (WaitError::TimedOut, vec![1])),
        }
    });
}

/// A task is dropped while an item is put: the item goes to whoever comes.
#[test]
fn against_drop() {
    explore(|| {
        let queue = room_for_two();
        let task = taking(&queue);
        with((Arc::clone(&queue), task))
            .race([|(queue, _)| queue.try_put(1).unwrap(), |(_, task)| drop(task.take())]);
        assert_eq!(left_in(&*queue), [1]);
    });
}

/// The same with another that waits: the item goes to it.
#[test]
fn against_drop_with_a_follower() {
    explore(|| {
        let queue = room_for_two();
        let (first, second) = (taking(&queue), taking(&queue));
        with((Arc::clone(&queue), first))
            .race([|(queue, _)| queue.try_put(1).unwrap(), |(_, first)| drop(first.take())]);
        assert_eq!(second.left().resume(), Ok(1));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A task is dropped with its item while the next item is put without the lock: its own comes first.
#[test]
fn drop_against_the_next_item() {
    explore(|| {
        let queue = room_for_two();
        let task = taking(&queue);
        queue.try_put(1).unwrap();
        with((Arc::clone(&queue), task))
            .race([|(queue, _)| queue.try_put(2).unwrap(), |(_, task)| drop(task.take())]);
        assert_eq!(left_in(&*queue), [1, 2]);
    });
}

/// The same while an item is taken: there is always one.
#[test]
fn drop_against_a_take() {
    explore(|| {
        let queue = room_for_two();
        let task = taking(&queue);
        queue.try_put(1).unwrap();
        queue.try_put(2).unwrap();
        let (.., basket) = with((Arc::clone(&queue), task, Basket::default())).race([
            |(queue, _, basket)| basket.add([queue.try_take().unwrap()]),
            |(_, task, _)| drop(task.take()),
        ]);
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// Two tasks are dropped with their items: those are there in their order, whoever is dropped first.
#[test]
fn two_drops_keep_the_order() {
    explore(|| {
        let queue = room_for_two();
        let (first, second) = (taking(&queue), taking(&queue));
        queue.try_put(1).unwrap();
        queue.try_put(2).unwrap();
        queue.try_put(3).unwrap();
        with((first, second))
            .race([|(first, _)| drop(first.take()), |(_, second)| drop(second.take())]);
        assert_eq!(left_in(&*queue), [1, 2, 3]);
    });
}

/// A task polls while it is handed an item.
#[test]
fn against_poll() {
    explore(|| {
        let queue = room_for_two();
        let task = taking(&queue);
        with((Arc::clone(&queue), task)).race([
            |(queue, _)| queue.try_put(1).unwrap(),
            |(_, task)| assert_eq!(task.take().run(), Ok(1)),
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// Two items are handed to two who wait, at once: each has one of them.
#[test]
fn two_at_once() {
    explore(|| {
        let queue = room_for_two();
        let (first, second) = (taking(&queue), taking(&queue));
        with(Arc::clone(&queue))
            .race([|queue| queue.try_put(1).unwrap(), |queue| queue.try_put(2).unwrap()]);
        let basket = Basket::default();
        basket.add(first.left().resume());
        basket.add(second.left().resume());
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// A task comes for its item while that is taken back for another: it has it, or has to wait for the
/// next, and stands before all who come later.
#[test]
fn taken_back_against_claim() {
    explore_within(4, || {
        let (queue, handed, follower) = unclaimed();
        let (queue, .., basket) = with((queue, handed, follower, Basket::default())).race([
            |(_, handed, _, basket)| basket.add(handed.take().run()),
            |(queue, _, follower, basket)| {
                two_ticks();
                queue.try_put(2).unwrap();
                basket.add(follower.take().resume());
            },
        ]);
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// The same, when the one that it is taken back for is a thread.
#[test]
fn taken_back_for_a_thread() {
    explore_within(4, || {
        let queue = room_for_two();
        let handed = taking(&queue);
        queue.try_put(1).unwrap();
        with((Arc::clone(&queue), handed)).race([
            |(queue, _)| assert_eq!(queue.take().wait(), Ok(1)),
            |(_, handed)| {
                two_ticks();
                drop(handed.take());
            },
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// A task is dropped while its item is taken back: the other has it, once.
#[test]
fn taken_back_against_drop() {
    explore_within(4, || {
        let (queue, ..) = with(unclaimed()).race([
            |(_, handed, _)| drop(handed.take()),
            |(_, _, follower)| {
                two_ticks();
                assert_eq!(follower.take().resume(), Ok(1));
            },
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// The one who waits leaves while the item is taken back for it: whoever comes first has it.
#[test]
fn taken_back_against_drop_of_the_follower() {
    explore(|| {
        let (queue, handed, _) =
            with(unclaimed()).race([|(_, _, follower)| drop(follower.take()), |_| two_ticks()]);
        assert_eq!(handed.left().resume(), Ok(1));
        assert_eq!(left_in(&*queue), []);
    });
}

/// An item is taken back while the next is put: both reach those who wait.
#[test]
fn taken_back_against_the_next_item() {
    explore_within(4, || {
        let (queue, handed, follower) = unclaimed();
        let last = taking(&queue);
        with(Arc::clone(&queue)).race([|_| two_ticks(), |queue| queue.try_put(2).unwrap()]);
        let basket = Basket::default();
        basket.add(follower.left().resume());
        basket.add(last.left().resume());
        drop(handed);
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// Two items are taken back from two who do not come, for two others, who have them in their order;
/// unless one of the first comes after all.
#[test]
fn two_taken_back_against_claim() {
    explore_within(3, || {
        let queue = Arc::new(BlockingQueue::unbounded());
        let [first, second, third, fourth] = [(); 4].map(|()| taking(&queue));
        queue.try_put(1).unwrap();
        queue.try_put(2).unwrap();
        let (_, claimed) = with((first, Mutex::new(false))).race([
            // If it comes too late, it does not stay.
            |(first, claimed)| {
                if let Poll::Ready(item) = first.take().poll() {
                    assert_eq!(item, Ok(1));
                    *claimed.lock().unwrap() = true;
                }
            },
            |_| two_ticks(),
        ]);
        if claimed.into_inner().unwrap() {
            assert_eq!(third.left().resume(), Ok(2));
            drop(fourth);
        } else {
            assert_eq!((third.left().resume(), fourth.left().resume()), (Ok(1), Ok(2)));
        }
        drop(second);
        assert_eq!(left_in(&*queue), []);
    });
}

/// A token fires while the item is taken back: the hand-off wins, or the task is cancelled.
#[test]
fn taken_back_against_cancel() {
    explore_within(4, || {
        let queue = room_for_two();
        let source = CancelSource::new();
        let handed = Task::queued(queue.take_owned().cancel_on(&source.token()));
        let follower = taking(&queue);
        queue.try_put(1).unwrap();
        with(source).race([CancelSource::cancel, |_| two_ticks()]);
        assert_eq!(follower.left().resume(), Ok(1));
        assert_eq!(handed.left().run(), Err(WaitError::Cancelled));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A task whose item was taken back is polled while another item is put: it has that, as the first in
/// line.
#[test]
fn waking_from_dormancy_against_a_put() {
    explore_within(4, || {
        let (queue, handed, follower) = unclaimed();
        two_ticks();
        assert_eq!(follower.left().resume(), Ok(1));
        with((Arc::clone(&queue), handed)).race([
            |(queue, _)| queue.try_put(2).unwrap(),
            |(_, handed)| assert_eq!(handed.take().run(), Ok(2)),
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// An item is handed to a task that does not come, by a newcomer who found the queue full just before:
/// the next in line is not held up.
#[test]
fn by_a_newcomer_who_found_no_room() {
    explore_within(3, || {
        let queue = Arc::new(BlockingQueue::bounded(1));
        queue.try_put(1).unwrap();
        let (_, waiting) = with((Arc::clone(&queue), Mutex::new(Vec::new()))).race([
            |(queue, _)| queue.put(2).wait().unwrap(),
            |(queue, waiting)| {
                assert_eq!(queue.try_take(), Ok(1));
                for _ in 0..2 {
                    let mut task = Task::new(queue.take_owned());
                    match task.poll() {
                        Poll::Ready(item) => assert_eq!(item, Ok(2)),
                        Poll::Pending => waiting.lock().unwrap().push(task),
                    }
                }
            },
        ]);
        let mut waiting = waiting.into_inner().unwrap();
        if waiting.len() == 2 {
            while time_passes() {}
            assert_eq!(waiting.remove(1).resume(), Ok(2));
        }
        drop(waiting);
        assert_eq!(left_in(&*queue), []);
    });
}

/// Three items go back to where they were, for three who wait: one more than a batch of wake-ups holds.
/// Meanwhile the third polls.
#[test]
fn deferring_against_poll() {
    explore_within(4, || {
        let (queue, batch, tasks) = three();
        let (_, tasks) = with((batch, tasks)).race([
            |(batch, _)| drop(batch.take()),
            |(_, tasks)| assert_eq!(tasks[2].take().run(), Ok(3)),
        ]);
        let [first, second, _] = tasks;
        assert_eq!((first.left().resume(), second.left().resume()), (Ok(1), Ok(2)));
        assert_eq!(left_in(&*queue), []);
    });
}

/// The same, and the third is dropped: its item stays.
#[test]
fn deferring_against_drop() {
    explore_within(4, || {
        let (queue, batch, tasks) = three();
        let (_, tasks) = with((batch, tasks))
            .race([|(batch, _)| drop(batch.take()), |(_, tasks)| drop(tasks[2].take())]);
        let [first, second, _] = tasks;
        assert_eq!((first.left().resume(), second.left().resume()), (Ok(1), Ok(2)));
        assert_eq!(left_in(&*queue), [3]);
    });
}

/// The same, while somebody only tries to take: the items are for those who wait.
#[test]
fn returning_a_batch_against_trying_to_take() {
    explore_within(4, || {
        let (queue, batch, tasks) = three();
        with((Arc::clone(&queue), batch)).race([
            |(_, batch)| drop(batch.take()),
            |(queue, _)| assert_eq!(queue.try_take(), Err(TryTakeError::Empty)),
        ]);
        for (task, item) in tasks.into_iter().zip(1..) {
            assert_eq!(task.left().resume(), Ok(item));
        }
        assert_eq!(left_in(&*queue), []);
    });
}

/// The same, when the request has been handed another item that it has not come for, and that is taken
/// back: all of them reach those who wait, or stay.
#[test]
fn returning_a_batch_against_taking_back() {
    explore_within(4, || {
        let (queue, batch, tasks) = three();
        queue.try_put(4).unwrap();
        with(batch).race([|batch| drop(batch.take()), |_| two_ticks()]);
        let basket = Basket::default();
        tasks.into_iter().for_each(|task| basket.add(task.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1, 2, 3, 4]);
    });
}
