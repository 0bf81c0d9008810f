//! Queues that are full, empty or closed: against those who wait for room or for an item. Nobody
//! overtakes.

use std::sync::Arc;

use super::accounts::{Basket, back, left_in};
use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::queue::blocking::Put;
use crate::request::Unlimited;
use crate::{
    BlockingQueue, CancelSource, Closed, Rejected, Request, TryPutError, TryTakeError, WaitError,
};

on_both_sides!(
    a_take_refills,
    refilling_from_the_first_look_on,
    closing_against_one_who_puts,
    closing_against_one_who_takes
);

/// A task prepared for one side that waits for room.
type Putting<L = Unlimited> = For<Task<Request<Put<Arc<BlockingQueue<u32>>>, L>>>;

/// A queue with room for one item, in which there is one.
fn full() -> Arc<BlockingQueue<u32>> {
    let queue = Arc::new(BlockingQueue::bounded(1));
    queue.try_put(1).unwrap();
    queue
}

/// A full queue, and a task that waits for room for another item.
fn overfull() -> (Arc<BlockingQueue<u32>>, Putting) {
    let queue = full();
    let putting = Task::queued(queue.put_owned(2));
    (queue, putting)
}

/// One waits for room while another takes, and both have to wait if they are early.
fn a_take_refills<S: Side>() {
    explore_within(3, || {
        let queue = with(full()).race([
            |queue| S::finish(queue.put(2)).unwrap(),
            |queue| {
                assert_eq!(S::finish(queue.take()), Ok(1));
                assert_eq!(S::finish(queue.take()), Ok(2));
            },
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// Two take at once, when one item is there and the other waits for room: each has one.
#[test]
fn two_takes_against_a_refill() {
    explore(|| {
        let (queue, putting) = overfull();
        let (_, basket) = with((Arc::clone(&queue), Basket::default())).race([
            |(queue, basket)| basket.add([queue.try_take().unwrap()]),
            |(queue, basket)| basket.add([queue.try_take().unwrap()]),
        ]);
        putting.left().resume().unwrap();
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// The one who waits for room polls while that is made.
#[test]
fn refilling_against_poll() {
    explore(|| {
        let (queue, _) = with(overfull()).race([
            |(queue, _)| assert_eq!(queue.try_take(), Ok(1)),
            |(_, putting)| putting.take().run().unwrap(),
        ]);
        assert_eq!(left_in(&*queue), [2]);
    });
}

/// A token fires for the one who waits for room, while that is made: its item is in the queue, or it
/// has it back.
#[test]
fn refilling_against_cancel() {
    explore(|| {
        let queue = full();
        let source = CancelSource::new();
        let putting = Task::queued(queue.put_owned(2).cancel_on(&source.token()));
        with((Arc::clone(&queue), source)).race([
            |(queue, _)| assert_eq!(queue.try_take(), Ok(1)),
            |(_, source)| source.cancel(),
        ]);
        match putting.left().resume() {
            Ok(()) => assert_eq!(left_in(&*queue), [2]),
            Err(back) => {
                assert_eq!((back.item, back.why), (2, WaitError::Cancelled));
                assert_eq!(left_in(&*queue), []);
            }
        }
    });
}

/// The same from the first look at the queue on.
fn refilling_from_the_first_look_on<S: Side>() {
    explore_within(3, || {
        let (queue, _, basket) = with((full(), CancelSource::new(), Basket::default())).race([
            |(queue, source, basket)| {
                let outcome = S::finish(queue.put(2).cancel_on(&source.token()));
                basket.add(back(outcome));
            },
            |(_, source, _)| source.cancel(),
            |(queue, _, basket)| basket.add(queue.try_take()),
        ]);
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// The time of one who waits for room is up while that is made.
#[test]
fn refilling_against_time_out() {
    explore(|| {
        let queue = full();
        let putting = Task::queued(queue.put_owned(2).timeout(HOUR));
        with(Arc::clone(&queue))
            .race([|queue| assert_eq!(queue.try_take(), Ok(1)), |_| assert!(time_passes())]);
        match putting.left().resume() {
            Ok(()) => assert_eq!(left_in(&*queue), [2]),
            Err(back) => {
                assert_eq!((back.item, back.why), (2, WaitError::TimedOut));
                assert_eq!(left_in(&*queue), []);
            }
        }
    });
}

/// Four items at once: one is there, and three wait for room; one more than a batch of wake-ups holds.
/// Meanwhile the last one polls.
#[test]
fn draining_against_poll() {
    explore_within(4, || {
        let queue = full();
        let tasks = [2, 3, 4].map(|item| Task::queued(queue.put_owned(item)));
        let (_, tasks) = with((Arc::clone(&queue), tasks)).race([
            |(queue, _)| assert_eq!(queue.drain(), [1, 2, 3, 4]),
            |(_, tasks)| tasks[2].take().run().unwrap(),
        ]);
        let [second, third, _] = tasks;
        second.left().resume().unwrap();
        third.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// The same, and the last one is dropped, with its item if that is not gone.
#[test]
fn draining_against_drop() {
    explore_within(4, || {
        let queue = full();
        let tasks = [2, 3, 4].map(|item| Task::queued(queue.put_owned(item)));
        let (_, tasks) = with((Arc::clone(&queue), tasks)).race([
            |(queue, _)| assert!(matches!(queue.drain()[..], [1, 2, 3] | [1, 2, 3, 4])),
            |(_, tasks)| drop(tasks[2].take()),
        ]);
        let [second, third, _] = tasks;
        second.left().resume().unwrap();
        third.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// The same, and a token fires for the last one: its item is gone, or it has it back.
#[test]
fn draining_against_cancel() {
    explore_within(4, || {
        let queue = full();
        let source = CancelSource::new();
        let tasks = [2, 3].map(|item| Task::queued(queue.put_owned(item)));
        let last = Task::queued(queue.put_owned(4).cancel_on(&source.token()));
        let (.., basket) = with((Arc::clone(&queue), source, Basket::default())).race([
            |(queue, _, basket)| basket.add(queue.drain()),
            |(_, source, _)| source.cancel(),
        ]);
        tasks.into_iter().for_each(|task| task.left().resume().unwrap());
        basket.add(back(last.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1, 2, 3, 4]);
    });
}

/// A queue is closed while an item is put without the lock: the item is in it, or the putter has it
/// back.
#[test]
fn closing_against_a_put() {
    explore(|| {
        let (queue, basket) = with((BlockingQueue::bounded(1), Basket::default())).race([
            |(queue, _)| assert!(queue.close()),
            |(queue, basket)| {
                if let Err(Rejected { item, why }) = queue.try_put(1) {
                    assert_eq!(why, TryPutError::Closed);
                    basket.add([item]);
                }
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// A queue is closed while one who puts finds no room, and waits for it: it has its item back.
fn closing_against_one_who_puts<S: Side>() {
    explore(|| {
        let queue = with(full()).race([
            |queue| assert!(queue.close()),
            |queue| {
                let Rejected { item, why: Closed } = S::finish(queue.put(2)).unwrap_err();
                assert_eq!(item, 2);
            },
        ]);
        assert_eq!(left_in(&*queue), [1]);
    });
}

/// A queue is closed while the only item is taken without the lock.
#[test]
fn closing_against_a_take() {
    explore(|| {
        let queue = with(full())
            .race([|queue| assert!(queue.close()), |queue| assert_eq!(queue.try_take(), Ok(1))]);
        assert_eq!(queue.try_take(), Err(TryTakeError::Closed));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A queue is closed while one who takes finds no item, and waits for one: it is refused.
fn closing_against_one_who_takes<S: Side>() {
    explore(|| {
        let queue = with(BlockingQueue::bounded(1)).race([
            |queue| assert!(queue.close()),
            |queue| assert_eq!(S::finish(queue.take()), Err(Closed)),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// A queue is closed while a task waits for an item, and one comes: it has the item or is refused, and
/// the item is somewhere.
#[test]
fn closing_against_a_hand_off() {
    explore(|| {
        let queue = Arc::new(BlockingQueue::bounded(1));
        let task = Task::queued(queue.take_owned());
        let (_, basket) = with((Arc::clone(&queue), Basket::default())).race([
            |(queue, _)| assert!(queue.close()),
            |(queue, basket)| basket.add(back(queue.try_put(1))),
        ]);
        basket.add(task.left().resume());
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// A queue is closed while room is made for a task that waits for it: its item is in the queue, or it
/// has it back.
#[test]
fn closing_against_a_refill() {
    explore(|| {
        let (queue, putting) = overfull();
        with(Arc::clone(&queue))
            .race([|queue| assert!(queue.close()), |queue| assert_eq!(queue.try_take(), Ok(1))]);
        let basket = Basket::default();
        basket.add(back(putting.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [2]);
    });
}

/// A task that was handed an item is dropped while the queue is closed: the item is there for whoever
/// comes.
#[test]
fn closing_against_drop_of_a_taker() {
    explore(|| {
        let queue = Arc::new(BlockingQueue::bounded(1));
        let task = Task::queued(queue.take_owned());
        queue.try_put(1).unwrap();
        with((Arc::clone(&queue), task))
            .race([|(queue, _)| assert!(queue.close()), |(_, task)| drop(task.take())]);
        assert_eq!(queue.take().wait(), Ok(1));
        assert_eq!(queue.take().wait(), Err(Closed));
        assert_eq!(left_in(&*queue), []);
    });
}

/// Three are refused at once, one more than a batch of wake-ups holds, while the last of them polls.
#[test]
fn closing_against_poll() {
    explore_within(4, || {
        let queue = full();
        let tasks = [2, 3, 4].map(|item| Task::queued(queue.put_owned(item)));
        let (_, tasks, basket) = with((Arc::clone(&queue), tasks, Basket::default())).race([
            |(queue, ..)| assert!(queue.close()),
            |(_, tasks, basket)| basket.add(back(tasks[2].take().run())),
        ]);
        let [second, third, _] = tasks;
        basket.add(back(second.left().resume()));
        basket.add(back(third.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1, 2, 3, 4]);
    });
}

/// Two close at once: one of them did.
#[test]
fn closing_twice() {
    explore(|| {
        let (queue, basket) = with((BlockingQueue::<u32>::bounded(1), Basket::default())).race([
            |(queue, basket)| basket.add(queue.close().then_some(0)),
            |(queue, basket)| basket.add(queue.close().then_some(0)),
        ]);
        assert_eq!(basket.with_left_in(&queue), [0]);
    });
}

/// A task waits for an item, and one is put: whoever only tries does not get it.
#[test]
fn trying_to_take_does_not_overtake() {
    explore(|| {
        let queue = Arc::new(BlockingQueue::bounded(1));
        let task = Task::queued(queue.take_owned());
        with(Arc::clone(&queue)).race([
            |queue| queue.try_put(1).unwrap(),
            |queue| assert_eq!(queue.try_take(), Err(TryTakeError::Empty)),
        ]);
        assert_eq!(task.left().resume(), Ok(1));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A task waits for room, and that is made: whoever only tries does not get it.
#[test]
fn trying_to_put_does_not_overtake() {
    explore(|| {
        let (queue, putting) = overfull();
        with(Arc::clone(&queue)).race([
            |queue| assert_eq!(queue.try_take(), Ok(1)),
            |queue| assert_eq!(queue.try_put(3).unwrap_err().why, TryPutError::Full),
        ]);
        putting.left().resume().unwrap();
        assert_eq!(left_in(&*queue), [2]);
    });
}

/// A task waits for an item, and two are put, while a thread comes and waits too: the task has the
/// first.
#[test]
fn waiting_to_take_does_not_overtake() {
    explore_within(3, || {
        let queue = Arc::new(BlockingQueue::bounded(1));
        let task = Task::queued(queue.take_owned());
        with(Arc::clone(&queue)).race([
            |queue| assert_eq!(queue.take().wait(), Ok(2)),
            |queue| {
                queue.put(1).wait().unwrap();
                queue.put(2).wait().unwrap();
            },
        ]);
        assert_eq!(task.left().resume(), Ok(1));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A task waits for room, while a thread comes and waits too: the items are taken in that order.
#[test]
fn waiting_to_put_does_not_overtake() {
    explore_within(3, || {
        let (queue, putting) = overfull();
        with(Arc::clone(&queue)).race([
            |queue| queue.put(3).wait().unwrap(),
            |queue| (1..=3).for_each(|item| assert_eq!(queue.take().wait(), Ok(item))),
        ]);
        putting.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// A thread puts an item that goes before all others, while one waits for room and another takes: by
/// its priority if both are there, and it waits like any other if not.
#[test]
fn priorities_with_one_who_waits() {
    explore_within(3, || {
        let queue = BlockingQueue::builder().capacity(1).by_priority(|item| i64::from(*item));
        let queue = Arc::new(queue.build());
        queue.try_put(2).unwrap();
        let putting = Task::queued(queue.put_owned(3));
        let (_, basket) = with((Arc::clone(&queue), Basket::default())).race([
            |(queue, _)| queue.put(1).wait().unwrap(),
            |(queue, basket)| {
                assert_eq!(queue.take().wait(), Ok(2));
                assert_eq!(queue.take().wait(), Ok(3));
                basket.add([2, 3]);
            },
        ]);
        putting.left().resume().unwrap();
        assert_eq!(basket.with_left_in(&*queue), [1, 2, 3]);
    });
}
