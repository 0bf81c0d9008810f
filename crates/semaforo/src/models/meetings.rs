//! A queue without room: one who puts against one who takes, and both against cancelling, dropping and
//! taking back.

use std::sync::Arc;

use super::accounts::{Basket, back, left_in, unless};
use super::checker::{explore, explore_within};
use super::race::{HOUR, time_passes, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::{CancelSource, Closed, SynchronousQueue, TryPutError, TryTakeError, WaitError};

on_both_sides!(two_meet, meeting_against_cancel, trying_to_take_against_one_who_puts);

fn no_room() -> Arc<SynchronousQueue<u32>> {
    Arc::default()
}

/// Two meet, in either order.
fn two_meet<S: Side>() {
    explore(|| {
        let queue = with(SynchronousQueue::new()).race([
            |queue| S::finish(queue.put(1)).unwrap(),
            |queue| assert_eq!(S::finish(queue.take()), Ok(1)),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// Two put, and one takes twice, from both.
#[test]
fn two_putters() {
    explore_within(2, || {
        let (queue, basket) = with((SynchronousQueue::new(), Basket::default())).race([
            |(queue, _)| queue.put(1).wait().unwrap(),
            |(queue, _)| Task::new(queue.put(2)).run().unwrap(),
            |(queue, basket)| {
                basket.add(queue.take().wait());
                basket.add(queue.take().wait());
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// One who puts and one who takes are cancelled at the same moment: they have met, or both are
/// cancelled and the item is back.
fn meeting_against_cancel<S: Side>() {
    explore_within(2, || {
        let objects = (SynchronousQueue::new(), CancelSource::new(), Basket::default());
        let (queue, _, basket) = with(objects).race([
            |(queue, source, basket)| {
                basket.add(back(S::finish(queue.put(1).cancel_on(&source.token()))));
            },
            |(queue, source, basket)| {
                basket.add(S::finish(queue.take().cancel_on(&source.token())));
            },
            |(_, source, _)| source.cancel(),
        ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// One who puts waits, and is cancelled while its time is up and somebody comes to take.
#[test]
fn putting_against_both_ends() {
    explore_within(3, || {
        let (queue, source) = (no_room(), CancelSource::new());
        let put = queue.put_owned(1).timeout(HOUR).cancel_on(&source.token());
        let putting = Task::queued(put);
        let (.., basket) = with((Arc::clone(&queue), source, Basket::default())).race([
            |_| _ = time_passes(),
            |(_, source, _)| source.cancel(),
            |(queue, _, basket)| basket.add(queue.try_take()),
        ]);
        basket.add(back(putting.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// One who takes waits, and is cancelled while somebody tries to put.
#[test]
fn taking_against_cancel() {
    explore(|| {
        let (queue, source) = (no_room(), CancelSource::new());
        let taking = Task::queued(queue.take_owned().cancel_on(&source.token()));
        let (.., basket) = with((Arc::clone(&queue), source, Basket::default())).race([
            |(queue, _, basket)| basket.add(back(queue.try_put(1))),
            |(_, source, _)| source.cancel(),
        ]);
        basket.add(unless(WaitError::Cancelled, taking.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// A thread's time is up while somebody tries to put.
#[test]
fn taking_against_time_out_of_a_thread() {
    explore_within(4, || {
        let (queue, basket) = with((SynchronousQueue::new(), Basket::default())).race([
            |(queue, basket)| {
                basket.add(unless(WaitError::TimedOut, queue.take().timeout(HOUR).wait()))
            },
            |(queue, basket)| basket.add(back(queue.try_put(1))),
        ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// One comes to put, while another only tries to take.
fn trying_to_take_against_one_who_puts<S: Side>() {
    explore_within(4, || {
        let (queue, basket) = with((SynchronousQueue::new(), Basket::default())).race([
            |(queue, _)| S::finish(queue.put(1)).unwrap(),
            |(queue, basket)| {
                let item = queue.try_take().or_else(|why| {
                    assert_eq!(why, TryTakeError::Empty);
                    S::finish(queue.take())
                });
                basket.add(item);
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// A task is dropped while it is handed an item: whoever put it is done, and the item goes to the next
/// who comes.
#[test]
fn hand_off_against_drop() {
    explore_within(4, || {
        let queue = no_room();
        let taking = Task::queued(queue.take_owned());
        with((Arc::clone(&queue), taking)).race([
            |(queue, _)| queue.put(1).wait().unwrap(),
            |(queue, taking)| {
                drop(taking.take());
                assert_eq!(queue.take().wait(), Ok(1));
            },
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// An item is handed to a task that does not come, and taken back for the one behind it, while somebody
/// else puts.
#[test]
fn taken_back_against_a_put() {
    explore_within(4, || {
        let queue = no_room();
        let [first, second, third] = [(); 3].map(|()| Task::queued(queue.take_owned()));
        queue.put(1).wait().unwrap();
        with(Arc::clone(&queue)).race([
            |_| {
                assert!(time_passes() && time_passes());
            },
            |queue| queue.put(2).wait().unwrap(),
        ]);
        let basket = Basket::default();
        basket.add(second.left().resume());
        basket.add(third.left().resume());
        drop(first);
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// The queue is closed while two come to meet: they have met, or one is refused and the other has its
/// item back.
#[test]
fn closing_against_meeting() {
    explore_within(2, || {
        let (queue, basket) = with((SynchronousQueue::new(), Basket::default())).race([
            |(queue, basket)| basket.add(back(queue.put(1).wait())),
            |(queue, basket)| basket.add(queue.take().wait()),
            |(queue, _)| assert!(queue.close()),
        ]);
        assert_eq!(queue.take().wait(), Err(Closed));
        assert_eq!(queue.try_put(2).unwrap_err().why, TryPutError::Closed);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// Two wait to put, and the first is cancelled while somebody takes: it is not held up, and has the
/// item of one of them.
#[test]
fn taking_against_cancel_of_the_first() {
    explore(|| {
        let (queue, source) = (no_room(), CancelSource::new());
        let first = Task::queued(queue.put_owned(1).cancel_on(&source.token()));
        let second = Task::queued(queue.put_owned(2));
        let (.., basket) = with((Arc::clone(&queue), source, Basket::default())).race([
            |(queue, _, basket)| basket.add([queue.try_take().unwrap()]),
            |(_, source, _)| source.cancel(),
        ]);
        basket.add(back(first.left().resume()));
        basket.add(queue.try_take());
        second.left().resume().unwrap();
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}
