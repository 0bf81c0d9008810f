//! Requests that wait in several queues at once: exactly one of them serves each, and nothing is lost.

use std::sync::Arc;

use super::accounts::{Basket, back, left_in};
use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, two_ticks, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::queue::{PutAny, TakeAny};
use crate::request::Unlimited;
use crate::{BlockingQueue, CancelSource, Closed, Rejected, Request, TransferQueue, WaitError};

on_both_sides!(
    two_puts_against_the_first_look,
    two_takes_against_the_first_look,
    cancel_from_the_first_look_on
);

type Blocking = Arc<BlockingQueue<u32>>;
type Pair = [Blocking; 2];
type Taking<L = Unlimited> = For<Task<Request<TakeAny<Pair>, L>>>;
type Putting<L = Unlimited> = For<Task<Request<PutAny<Pair>, L>>>;

fn empty() -> Pair {
    [(); 2].map(|()| Arc::new(BlockingQueue::bounded(1)))
}

/// Two queues without room, with an item in each.
fn full() -> Pair {
    let pair = empty();
    (0..).zip(&pair).for_each(|(item, queue)| queue.try_put(item).unwrap());
    pair
}

fn taking() -> (Pair, Taking) {
    let pair = empty();
    let task = Task::queued(BlockingQueue::take_any(pair.clone()));
    (pair, task)
}

fn putting() -> (Pair, Putting) {
    let pair = full();
    let task = Task::queued(BlockingQueue::put_any(pair.clone(), 7));
    (pair, task)
}

fn left(pair: &Pair) -> Vec<u32> {
    pair.iter().flat_map(|queue| left_in(&**queue)).collect()
}

fn item<E>(taken: Result<(usize, u32), E>) -> Option<u32> {
    taken.ok().map(|(_, item)| item)
}

/// Both queues could serve a task: one does, and the other keeps its item.
#[test]
fn two_puts_against_a_take() {
    explore(|| {
        let (pair, task) = with(taking()).race([
            |(pair, _)| pair[0].try_put(1).unwrap(),
            |(pair, _)| pair[1].try_put(2).unwrap(),
        ]);
        let (index, item) = task.left().resume().unwrap();
        let other = left(&pair);
        assert!((index, item, other) == (0, 1, vec![2]) || (index, item) == (1, 2));
    });
}

/// The same from the first look at the queues on.
fn two_puts_against_the_first_look<S: Side>() {
    explore_within(3, || {
        let (pair, basket) = with((empty(), Basket::default())).race([
            |(pair, basket)| basket.add(item(S::finish(BlockingQueue::take_any(pair)))),
            |(pair, _)| pair[0].try_put(1).unwrap(),
            |(pair, _)| pair[1].try_put(2).unwrap(),
        ]);
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// Both queues have room for an item at once: it is in one of them.
#[test]
fn two_takes_against_a_put() {
    explore(|| {
        let (pair, task) = with(putting()).race([
            |(pair, _)| assert_eq!(pair[0].try_take(), Ok(0)),
            |(pair, _)| assert_eq!(pair[1].try_take(), Ok(1)),
        ]);
        let index = task.left().resume().unwrap();
        assert_eq!(pair[1 - index].len(), 0);
        assert_eq!(left(&pair), [7]);
    });
}

/// The same from the first look at the queues on, and the takers may have to wait too.
fn two_takes_against_the_first_look<S: Side>() {
    explore_within(3, || {
        let (pair, basket) = with((full(), Basket::default())).race([
            |(pair, _)| assert!(S::finish(BlockingQueue::put_any(pair, 7)).is_ok()),
            |(pair, basket)| basket.add([pair[0].take().wait().unwrap()]),
            |(pair, basket)| basket.add([pair[1].take().wait().unwrap()]),
        ]);
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [0, 1, 7]);
    });
}

/// A request that waits is dropped while a queue serves it.
#[test]
fn drop_against_a_put() {
    explore(|| {
        let (pair, _) = with(taking())
            .race([|(pair, _)| pair[1].try_put(1).unwrap(), |(_, task)| drop(task.take())]);
        assert_eq!(left(&pair), [1]);
    });
}

/// The same for one that puts: the item is in the queue, or went with the request.
#[test]
fn drop_against_a_take() {
    explore(|| {
        let (pair, _) = with(putting()).race([
            |(pair, _)| assert_eq!(pair[1].try_take(), Ok(1)),
            |(_, task)| drop(task.take()),
        ]);
        assert!(matches!(left(&pair)[..], [0] | [0, 7]));
    });
}

/// A token fires while a queue serves the request.
#[test]
fn cancel_against_a_put() {
    explore(|| {
        let pair = empty();
        let source = CancelSource::new();
        let task = Task::queued(BlockingQueue::take_any(pair.clone()).cancel_on(&source.token()));
        let (pair, _) = with((pair, source))
            .race([|(pair, _)| pair[1].try_put(1).unwrap(), |(_, source)| source.cancel()]);
        match task.left().resume() {
            Ok(taken) => assert_eq!((taken, left(&pair)), ((1, 1), vec![])),
            Err(why) => assert_eq!((why, left(&pair)), (WaitError::Cancelled, vec![1])),
        }
    });
}

/// The same for one that puts, from its first look at the queues on.
fn cancel_from_the_first_look_on<S: Side>() {
    explore_within(3, || {
        let (pair, _, basket) = with((full(), CancelSource::new(), Basket::default())).race([
            |(pair, source, basket)| {
                let put = BlockingQueue::put_any(pair, 7).cancel_on(&source.token());
                basket.add(back(S::finish(put)));
            },
            |(_, source, _)| source.cancel(),
            |(pair, _, basket)| basket.add(pair[1].try_take()),
        ]);
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [0, 1, 7]);
    });
}

/// A limit passes while a queue serves the request.
#[test]
fn time_out_against_a_take() {
    explore(|| {
        let pair = full();
        let task = Task::queued(BlockingQueue::put_any(pair.clone(), 7).timeout(HOUR));
        let pair = with(pair)
            .race([|pair| assert_eq!(pair[0].try_take(), Ok(0)), |_| assert!(time_passes())]);
        match task.left().resume() {
            Ok(index) => assert_eq!((index, left(&pair)), (0, vec![7, 1])),
            Err(back) => {
                assert_eq!((back.item, back.why), (7, WaitError::TimedOut));
                assert_eq!(left(&pair), [1]);
            }
        }
    });
}

/// Both queues are closed at once: it is refused once.
#[test]
fn closing_all_queues() {
    explore(|| {
        let (pair, task) = with(taking())
            .race([|(pair, _)| assert!(pair[0].close()), |(pair, _)| assert!(pair[1].close())]);
        assert_eq!(task.left().resume(), Err(Closed));
        assert_eq!(left(&pair), []);
    });
}

/// One closes and the other gets an item, while a request comes.
#[test]
fn closing_against_coming() {
    explore_within(3, || {
        let (pair, basket) = with((empty(), Basket::default())).race([
            |(pair, basket)| {
                let taken = Task::new(BlockingQueue::take_any(pair.clone())).run();
                basket.add(item(taken));
            },
            |(pair, _)| {
                assert!(pair[0].close());
                assert!(pair[1].try_put(1).is_ok());
                assert!(pair[1].close());
            },
        ]);
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [1]);
    });
}

/// One that puts and one that takes come at once, to the same queues in opposite order.
#[test]
fn putting_against_taking() {
    explore_within(3, || {
        let (pair, basket) = with((empty(), Basket::default())).race([
            |(pair, basket)| basket.add(item(BlockingQueue::take_any(pair).wait())),
            |(pair, _)| {
                let [a, b] = pair.each_ref().map(|queue| &**queue);
                assert!(BlockingQueue::put_any([b, a], 7).wait().is_ok());
            },
        ]);
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [7]);
    });
}

/// One that puts finds one that takes while that is being claimed by another queue, or has come only
/// just: they serve each other, or both go on waiting for somebody else.
#[test]
fn requests_that_claim_each_other() {
    explore_within(3, || {
        let (pair, task) = taking();
        let (pair, basket) = with((pair, Basket::default())).race([
            |(pair, ..)| assert!(BlockingQueue::put_any([&*pair[1], &*pair[0]], 1).wait().is_ok()),
            |(pair, ..)| assert!(BlockingQueue::put_any([&*pair[0], &*pair[1]], 2).wait().is_ok()),
        ]);
        basket.add(item(task.left().resume()));
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// An item that a task does not come for is taken back while it comes after all.
#[test]
fn poll_against_the_watchdog() {
    explore_within(3, || {
        let (pair, task) = taking();
        let behind = Task::queued(Arc::clone(&pair[0]).take_owned());
        pair[0].try_put(1).unwrap();
        // Seen once.
        assert!(time_passes());
        let (pair, task, basket) = with((pair, task, Basket::default())).race([
            |(_, task, basket)| {
                let mut task = task.take();
                if let std::task::Poll::Ready(taken) = task.poll() {
                    basket.add(item(taken));
                }
            },
            |_| {
                time_passes();
            },
            |(pair, ..)| pair[1].try_put(2).unwrap(),
        ]);
        drop(task);
        let mut behind = behind.left();
        match behind.poll() {
            std::task::Poll::Ready(taken) => basket.add(taken),
            std::task::Poll::Pending => drop(behind),
        }
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// An item is taken back from a task before that was told of it: the task is woken all the same,
/// and finds what has come to the other queue.
#[test]
fn passed_over_before_it_was_told() {
    explore_within(3, || {
        let (pair, task) = taking();
        let behind = Task::queued(Arc::clone(&pair[0]).take_owned());
        let (pair, basket) = with((pair, Basket::default()))
            .race([|(pair, _)| pair[0].try_put(1).unwrap(), |_| two_ticks()]);
        pair[1].try_put(2).unwrap();
        basket.add(item(task.left().resume()));
        let mut behind = behind.left();
        match behind.poll() {
            std::task::Poll::Ready(taken) => basket.add(taken),
            std::task::Poll::Pending => drop(behind),
        }
        basket.add(left(&pair));
        assert_eq!(basket.sorted(), [1, 2]);
    });
}

/// A sender takes its message back while the task that was handed it polls, and another queue has one.
#[test]
fn withdrawing_against_poll() {
    explore_within(3, || {
        let pair = [(); 2].map(|()| Arc::new(TransferQueue::<u32>::new()));
        let task = Task::queued(TransferQueue::take_any(pair.clone()));
        let sender = Task::queued(Arc::clone(&pair[0]).transfer_owned(1));
        let (pair, _, _, basket) = with((pair, task, sender, Basket::default())).race([
            |(_, task, _, basket)| basket.add(item(task.take().resume())),
            |(_, _, sender, basket)| {
                let mut sender = sender.take();
                if sender.poll().is_pending() {
                    drop(sender);
                    basket.add([100]);
                }
            },
            |(pair, ..)| pair[1].put(2).unwrap(),
        ]);
        pair.iter().for_each(|queue| basket.add(left_in(&**queue)));
        // Its sender was told that it was taken, or has it back.
        assert!(matches!(basket.sorted()[..], [1, 2] | [2, 100] | [1, 2, 100]));
    });
}

/// The queue is closed while a task that was handed a message polls: it has the message, or is refused,
/// and the sender knows which.
#[test]
fn closing_against_a_hand_over() {
    explore_within(3, || {
        let queue = Arc::new(TransferQueue::<u32>::new());
        let task = Task::queued(TransferQueue::take_any([Arc::clone(&queue)]));
        let sender = Task::queued(Arc::clone(&queue).transfer_owned(1));
        let (queue, _, basket) = with((queue, task, Basket::default())).race([
            |(_, task, basket)| basket.add(item(task.take().resume())),
            |(queue, ..)| assert!(queue.close()),
        ]);
        basket.add(sender.left().resume().err().map(Rejected::into_item));
        basket.add(left_in(&*queue));
        assert_eq!(basket.sorted(), [1]);
    });
}

/// A queue is closed while a task whose item was taken back looks at all queues: that queue is counted
/// once among the closed ones, and the task has what comes to the other.
#[test]
fn closing_against_a_second_look() {
    explore_within(3, || {
        let (pair, task) = taking();
        let behind = Task::queued(Arc::clone(&pair[0]).take_owned());
        pair[0].try_put(1).unwrap();
        // Seen twice: what it was granted goes to the one behind it.
        assert!(time_passes() && time_passes());
        assert_eq!(behind.left().resume(), Ok(1));
        let (pair, _) = with((pair, task)).race([
            |(_, task)| assert_eq!(task.take().resume(), Ok((0, 2))),
            |(pair, _)| assert!(pair[1].close()),
            |(pair, _)| pair[0].try_put(2).unwrap(),
        ]);
        assert_eq!(left(&pair), []);
    });
}
