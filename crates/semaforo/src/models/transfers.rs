//! Messages whose senders wait until they are taken: against withdrawing, claiming, dropping, taking
//! back and closing.

use std::sync::Arc;
use std::task::Poll;

use super::accounts::{Basket, back, left_in};
use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, two_ticks, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::queue::{Receive, Transfer};
use crate::request::{Limited, Unlimited};
use crate::{
    CancelSource, Closed, Rejected, Request, TransferQueue, TryPutError, TryTakeError, WaitError,
};

on_both_sides!(
    from_one_to_the_other,
    a_message_against_one_who_takes,
    trying_to_transfer_against_one_who_takes,
    withdrawal_from_the_first_look_on,
    closing_against_one_who_sends,
    closing_against_one_who_takes
);

type Messages = Arc<TransferQueue<u32>>;

/// A task prepared for one side that waits until its message is taken.
type Sending<L = Unlimited> = For<Task<Request<Transfer<Messages>, L>>>;

/// A task prepared for one side that waits for a message.
type Taking<L = Unlimited> = For<Task<Request<Receive<Messages>, L>>>;

fn sending(queue: &Messages, message: u32) -> Sending {
    Task::queued(queue.transfer_owned(message))
}

fn sending_until(source: &CancelSource, queue: &Messages, message: u32) -> Sending<Limited> {
    Task::queued(queue.transfer_owned(message).cancel_on(&source.token()))
}

fn taking(queue: &Messages) -> Taking {
    Task::queued(queue.take_owned())
}

/// A queue, a sender with a token, and a task that its message was handed to and that has not come for
/// it.
fn unclaimed() -> (Messages, CancelSource, Sending<Limited>, Taking) {
    let (queue, source) = (Messages::default(), CancelSource::new());
    let taker = taking(&queue);
    let sender = sending_until(&source, &queue, 1);
    (queue, source, sender, taker)
}

/// Two transfer, one to the other: it is done when that has the message.
fn from_one_to_the_other<S: Side>() {
    explore(|| {
        let queue = with(TransferQueue::new()).race([
            |queue| S::finish(queue.transfer(1)).unwrap(),
            |queue| assert_eq!(S::finish(queue.take()), Ok(1)),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// A message is left for one who may be about to wait for it, without either taking the lock in vain.
fn a_message_against_one_who_takes<S: Side>() {
    explore(|| {
        let queue = with(TransferQueue::new()).race([
            |queue| queue.put(1).unwrap(),
            |queue| assert_eq!(S::finish(queue.take()), Ok(1)),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// Two messages are left while somebody takes one: they are taken in their order.
#[test]
fn messages_against_trying_to_take() {
    explore(|| {
        let (queue, basket) = with((TransferQueue::new(), Basket::default())).race([
            |(queue, _)| {
                queue.put(1).unwrap();
                queue.put(2).unwrap();
            },
            |(queue, basket)| match queue.try_take() {
                Ok(item) => {
                    assert_eq!(item, 1);
                    basket.add([item]);
                }
                Err(error) => assert_eq!(error, TryTakeError::Empty),
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// One comes to wait for a message, while a sender looks for a taker to hand one to.
fn trying_to_transfer_against_one_who_takes<S: Side>() {
    explore_within(4, || {
        let (queue, basket) = with((TransferQueue::new(), Basket::default())).race([
            |(queue, basket)| basket.add(S::finish(queue.take())),
            |(queue, basket)| {
                if let Err(Rejected { item, why }) = queue.try_transfer(1) {
                    assert_eq!(why, TryPutError::Full);
                    basket.add([item]);
                    queue.put(2).unwrap();
                } else {
                    basket.add([2]);
                }
            },
        ]);
        assert_eq!(basket.with_left_in(&queue), [1, 2]);
    });
}

/// A task is dropped while somebody looks for a task to hand a message to.
#[test]
fn trying_to_transfer_against_drop() {
    explore(|| {
        let queue = Messages::default();
        let task = taking(&queue);
        let (.., basket) = with((Arc::clone(&queue), task, Basket::default())).race([
            |(queue, _, basket)| basket.add(back(queue.try_transfer(1))),
            |(_, task, _)| drop(task.take()),
        ]);
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// A sender is cancelled while its message is taken: it is done, or has its message back.
#[test]
fn withdrawal_against_take() {
    explore(|| {
        let (queue, source) = (Messages::default(), CancelSource::new());
        let sender = sending_until(&source, &queue, 1);
        let (.., basket) = with((Arc::clone(&queue), source, Basket::default())).race([
            |(queue, _, basket)| basket.add(queue.try_take()),
            |(_, source, _)| source.cancel(),
        ]);
        basket.add(back(sender.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// The same with a sender that may be about to wait.
fn withdrawal_from_the_first_look_on<S: Side>() {
    explore_within(3, || {
        let (queue, _, basket) =
            with((TransferQueue::new(), CancelSource::new(), Basket::default())).race([
                |(queue, source, basket)| {
                    let transfer = queue.transfer(1).cancel_on(&source.token());
                    basket.add(back(S::finish(transfer)));
                },
                |(_, source, _)| source.cancel(),
                |(queue, _, basket)| basket.add(queue.try_take()),
            ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// A thread's time is up while its message is taken.
#[test]
fn time_out_of_a_thread_against_take() {
    explore_within(4, || {
        let (queue, basket) = with((TransferQueue::new(), Basket::default())).race([
            |(queue, basket)| basket.add(back(queue.transfer(1).timeout(HOUR).wait())),
            |(queue, basket)| basket.add(queue.try_take()),
        ]);
        assert_eq!(basket.with_left_in(&queue), [1]);
    });
}

/// A sender polls while its message is taken.
#[test]
fn take_against_poll() {
    explore(|| {
        let queue = Messages::default();
        let sender = sending(&queue, 1);
        with((Arc::clone(&queue), sender)).race([
            |(queue, _)| assert_eq!(queue.try_take(), Ok(1)),
            |(_, sender)| sender.take().run().unwrap(),
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// A sender is dropped while a thread waits for its message, or for the one behind it.
#[test]
fn drop_against_take() {
    explore_within(4, || {
        let queue = Messages::default();
        let sender = sending(&queue, 1);
        let (.., basket) = with((Arc::clone(&queue), sender, Basket::default())).race([
            |(queue, _, basket)| basket.add(queue.take().wait()),
            |(queue, sender, _)| {
                drop(sender.take());
                queue.put(2).unwrap();
            },
        ]);
        assert!(matches!(basket.with_left_in(&*queue)[..], [1, 2] | [2]));
    });
}

/// Two transfers, of which the first is cancelled while somebody takes: that is the first, or the
/// second, which is then done.
#[test]
fn withdrawal_of_the_first_of_two() {
    explore(|| {
        let (queue, source) = (Messages::default(), CancelSource::new());
        let (first, second) = (sending_until(&source, &queue, 1), sending(&queue, 2));
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

/// Both of two transfers are cancelled at the same moment, one by its token and one by the time.
#[test]
fn withdrawal_of_both() {
    explore(|| {
        let (queue, source) = (Messages::default(), CancelSource::new());
        let first = sending_until(&source, &queue, 1);
        let second = Task::queued(queue.transfer_owned(2).timeout(HOUR));
        with(source).race([CancelSource::cancel, |_| assert!(time_passes())]);
        let (first, second) = (first.left().resume(), second.left().resume());
        assert_eq!(first, Err(Rejected { item: 1, why: WaitError::Cancelled }));
        assert_eq!(second, Err(Rejected { item: 2, why: WaitError::TimedOut }));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A sender is cancelled while the task that was handed its message comes for it: the task has it and
/// the sender is done, or the sender has it back and the task goes on waiting.
#[test]
fn withdrawal_against_claim() {
    explore(|| {
        let (queue, source, sender, taker) = unclaimed();
        let (.., basket) = with((source, taker, Basket::default())).race([
            |(source, ..)| source.cancel(),
            |(_, taker, basket)| {
                if let Poll::Ready(item) = taker.take().poll() {
                    basket.add(item);
                }
            },
        ]);
        basket.add(back(sender.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// The same, and the task waits until it has another message.
#[test]
fn withdrawal_against_a_task_that_waits_on() {
    explore_within(3, || {
        let (queue, source, sender, taker) = unclaimed();
        let (.., basket) = with((Arc::clone(&queue), source, taker, Basket::default())).race([
            |(queue, source, ..)| {
                source.cancel();
                queue.put(2).unwrap();
            },
            |(_, _, taker, basket)| basket.add(taker.take().resume()),
        ]);
        basket.add(back(sender.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// The sender is dropped while another message comes for the task: that has one of them, or waits for
/// none.
#[test]
fn drop_of_the_sender_against_the_next_message() {
    explore(|| {
        let (queue, _, sender, taker) = unclaimed();
        with((Arc::clone(&queue), sender))
            .race([|(_, sender)| drop(sender.take()), |(queue, _)| queue.put(2).unwrap()]);
        assert_eq!(taker.left().resume(), Ok(2));
        assert_eq!(left_in(&*queue), []);
    });
}

/// The task that was handed a message is dropped, while the sender is cancelled: the sender has it
/// back, whoever was first, and another that waits still does.
#[test]
fn withdrawal_against_drop() {
    explore(|| {
        let (queue, source, sender, taker) = unclaimed();
        let mut follower = taking(&queue).left();
        with((source, taker))
            .race([|(source, _)| source.cancel(), |(_, taker)| drop(taker.take())]);
        let outcome = sender.left().resume();
        assert_eq!(outcome, Err(Rejected { item: 1, why: WaitError::Cancelled }));
        assert!(follower.poll().is_pending());
        queue.put(2).unwrap();
        assert_eq!(follower.resume(), Ok(2));
        assert_eq!(left_in(&*queue), []);
    });
}

/// The task that was handed a message is cancelled, while the sender is: the task has no message, and
/// the sender has it back.
#[test]
fn withdrawal_against_cancel_of_the_taker() {
    explore(|| {
        let (queue, sources) = (Messages::default(), (CancelSource::new(), CancelSource::new()));
        let taker = Task::queued(queue.take_owned().cancel_on(&sources.0.token()));
        let sender = sending_until(&sources.1, &queue, 1);
        with(sources).race([|(first, _)| first.cancel(), |(_, second)| second.cancel()]);
        let outcome = sender.left().resume();
        assert_eq!(outcome, Err(Rejected { item: 1, why: WaitError::Cancelled }));
        assert_eq!(taker.left().resume(), Err(WaitError::Cancelled));
        assert_eq!(left_in(&*queue), []);
    });
}

/// Two tasks were handed messages, and both senders are cancelled, in whichever order: the task that
/// came first has the next message, and the other the one after that.
#[test]
fn withdrawal_keeps_the_order_of_takers() {
    explore(|| {
        let (queue, sources) = (Messages::default(), (CancelSource::new(), CancelSource::new()));
        let [first, second, third] = [(); 3].map(|()| taking(&queue));
        let senders = [sending_until(&sources.0, &queue, 1), sending_until(&sources.1, &queue, 2)];
        with(sources).race([|(first, _)| first.cancel(), |(_, second)| second.cancel()]);
        (3..=5).for_each(|message| queue.put(message).unwrap());
        assert_eq!(first.left().resume(), Ok(3));
        assert_eq!(second.left().resume(), Ok(4));
        assert_eq!(third.left().resume(), Ok(5));
        let basket = Basket::default();
        senders.into_iter().for_each(|sender| basket.add(back(sender.left().resume())));
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// The task that was handed a message is dropped while a thread comes for one: the thread has it, and
/// the sender is done.
#[test]
fn drop_of_the_taker_against_take() {
    explore_within(4, || {
        let (queue, _, sender, taker) = unclaimed();
        with((Arc::clone(&queue), taker)).race([
            |(queue, _)| assert_eq!(queue.take().wait(), Ok(1)),
            |(_, taker)| drop(taker.take()),
        ]);
        sender.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// The task that was handed a message is dropped while another message comes: both are there, in their
/// order.
#[test]
fn drop_of_the_taker_against_the_next_message() {
    explore(|| {
        let (queue, _, sender, taker) = unclaimed();
        with((Arc::clone(&queue), taker))
            .race([|(queue, _)| queue.put(2).unwrap(), |(_, taker)| drop(taker.take())]);
        assert_eq!((queue.try_take(), queue.try_take()), (Ok(1), Ok(2)));
        sender.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// A message is taken back from a task that does not come, while it comes after all. Whoever has it,
/// the sender is done.
#[test]
fn taken_back_against_claim() {
    explore_within(3, || {
        let (queue, _, sender, taker) = unclaimed();
        let follower = taking(&queue);
        let (.., basket) = with((Arc::clone(&queue), taker, follower, Basket::default())).race([
            |(_, taker, _, basket)| basket.add(taker.take().run()),
            |(queue, _, follower, basket)| {
                two_ticks();
                queue.put(2).unwrap();
                basket.add(follower.take().resume());
            },
        ]);
        sender.left().resume().unwrap();
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// A message is taken back from a task that does not come, while its sender is cancelled, although
/// nobody else waits for one.
#[test]
fn taken_back_against_withdrawal() {
    explore(|| {
        let (queue, source, sender, taker) = unclaimed();
        with(source).race([CancelSource::cancel, |_| two_ticks()]);
        let outcome = sender.left().resume();
        assert_eq!(outcome, Err(Rejected { item: 1, why: WaitError::Cancelled }));
        queue.put(2).unwrap();
        assert_eq!(taker.left().resume(), Ok(2));
        assert_eq!(left_in(&*queue), []);
    });
}

/// A message is taken back from a task that does not come, for a thread that may still be queueing.
#[test]
fn taken_back_for_a_thread() {
    explore_within(4, || {
        let (queue, _, sender, taker) = unclaimed();
        with((Arc::clone(&queue), taker)).race([
            |(queue, _)| assert_eq!(queue.take().wait(), Ok(1)),
            |(_, taker)| {
                two_ticks();
                drop(taker.take());
            },
        ]);
        sender.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// A message that was left is handed to a task that does not come, and taken back for the next, while
/// its taker is dropped.
#[test]
fn taken_back_against_drop() {
    explore_within(4, || {
        let queue = Messages::default();
        let (taker, follower) = (taking(&queue), taking(&queue));
        queue.put(1).unwrap();
        with((taker, follower)).race([
            |(taker, _)| drop(taker.take()),
            |(_, follower)| {
                two_ticks();
                assert_eq!(follower.take().resume(), Ok(1));
            },
        ]);
        assert_eq!(left_in(&*queue), []);
    });
}

/// The queue is closed while a sender waits until its message is taken: it has it back.
fn closing_against_one_who_sends<S: Side>() {
    explore(|| {
        let queue = with(TransferQueue::new()).race([
            |queue| assert!(queue.close()),
            |queue| {
                let back = S::finish(queue.transfer(1));
                assert_eq!(back, Err(Rejected { item: 1, why: Closed }));
            },
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// The queue is closed while one waits for a message: it is refused.
fn closing_against_one_who_takes<S: Side>() {
    explore(|| {
        let queue = with(TransferQueue::<u32>::new()).race([
            |queue| assert!(queue.close()),
            |queue| assert_eq!(S::finish(queue.take()), Err(Closed)),
        ]);
        assert_eq!(left_in(&queue), []);
    });
}

/// The queue is closed while a message is left: it is there, or its sender has it back.
#[test]
fn closing_against_a_message() {
    explore(|| {
        let (queue, basket) = with((TransferQueue::new(), Basket::default())).race([
            |(queue, _)| assert!(queue.close()),
            |(queue, basket)| basket.add(back(queue.put(1))),
        ]);
        assert_eq!(queue.try_transfer(2).unwrap_err().why, TryPutError::Closed);
        assert_eq!(basket.with_left_in(&queue), [1]);
        assert_eq!(queue.try_take(), Err(TryTakeError::Closed));
    });
}

/// The queue is closed while a message is taken: its sender is done, or has it back.
#[test]
fn closing_against_take() {
    explore(|| {
        let queue = Messages::default();
        let sender = sending(&queue, 1);
        let (_, basket) = with((Arc::clone(&queue), Basket::default())).race([
            |(queue, _)| assert!(queue.close()),
            |(queue, basket)| basket.add(queue.try_take()),
        ]);
        basket.add(back(sender.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// The queue is closed while a task comes for the message that it was handed: it has it and the sender
/// is done, or it is refused and the sender has it back.
#[test]
fn closing_against_claim() {
    explore(|| {
        let (queue, _, sender, taker) = unclaimed();
        let (.., basket) = with((Arc::clone(&queue), taker, Basket::default())).race([
            |(queue, ..)| assert!(queue.close()),
            |(_, taker, basket)| basket.add(taker.take().run()),
        ]);
        basket.add(back(sender.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1]);
    });
}

/// The queue is closed while a task has been handed a message, and another is left behind it: the
/// sender has its message back, and the task the other, unless it was faster.
#[test]
fn closing_with_a_message_left() {
    explore(|| {
        let (queue, _, sender, taker) = unclaimed();
        queue.put(2).unwrap();
        let (.., basket) = with((Arc::clone(&queue), taker, Basket::default())).race([
            |(queue, ..)| assert!(queue.close()),
            |(_, taker, basket)| basket.add([taker.take().run().unwrap()]),
        ]);
        basket.add(back(sender.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1, 2]);
    });
}

/// Three messages are taken at once, and three senders are done: one more than a batch of wake-ups
/// holds. Meanwhile the last one polls.
#[test]
fn draining_against_poll() {
    explore_within(4, || {
        let queue = Messages::default();
        let senders = [1, 2, 3].map(|message| sending(&queue, message));
        let (_, senders) = with((Arc::clone(&queue), senders)).race([
            |(queue, _)| assert_eq!(queue.drain(), [1, 2, 3]),
            |(_, senders)| senders[2].take().run().unwrap(),
        ]);
        let [first, second, _] = senders;
        first.left().resume().unwrap();
        second.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// The same, and the last one is cancelled.
#[test]
fn draining_against_withdrawal() {
    explore_within(4, || {
        let (queue, source) = (Messages::default(), CancelSource::new());
        let (first, second) = (sending(&queue, 1), sending(&queue, 2));
        let third = sending_until(&source, &queue, 3);
        let (.., basket) = with((Arc::clone(&queue), source, Basket::default())).race([
            |(queue, _, basket)| basket.add(queue.drain()),
            |(_, source, _)| source.cancel(),
        ]);
        first.left().resume().unwrap();
        second.left().resume().unwrap();
        basket.add(back(third.left().resume()));
        assert_eq!(basket.with_left_in(&*queue), [1, 2, 3]);
    });
}

/// The same, and the last one is dropped.
#[test]
fn draining_against_drop() {
    explore_within(4, || {
        let queue = Messages::default();
        let senders = [1, 2, 3].map(|message| sending(&queue, message));
        let (_, senders) = with((Arc::clone(&queue), senders)).race([
            |(queue, _)| assert!(matches!(queue.drain()[..], [1, 2] | [1, 2, 3])),
            |(_, senders)| drop(senders[2].take()),
        ]);
        let [first, second, _] = senders;
        first.left().resume().unwrap();
        second.left().resume().unwrap();
        assert_eq!(left_in(&*queue), []);
    });
}

/// Three tasks have been handed messages, and all senders are turned away: two batches of answers, and
/// tasks that wait again in between. Meanwhile one of them comes.
#[test]
fn closing_over_three() {
    explore_within(4, || {
        let queue = Messages::default();
        let takers = [(); 3].map(|()| taking(&queue));
        let senders = [1, 2, 3].map(|message| sending(&queue, message));
        let (_, takers, basket) = with((Arc::clone(&queue), takers, Basket::default())).race([
            |(queue, ..)| assert!(queue.close()),
            |(_, takers, basket)| basket.add(takers[2].take().run()),
        ]);
        let [first, second, _] = takers;
        assert_eq!((first.left().resume(), second.left().resume()), (Err(Closed), Err(Closed)));
        senders.into_iter().for_each(|sender| basket.add(back(sender.left().resume())));
        assert_eq!(basket.with_left_in(&*queue), [1, 2, 3]);
    });
}

/// A task waits for a message, and one is put: whoever only tries does not get it.
#[test]
fn trying_does_not_overtake() {
    explore(|| {
        let queue = Messages::default();
        let taker = taking(&queue);
        with(Arc::clone(&queue)).race([
            |queue| queue.put(1).unwrap(),
            |queue| assert_eq!(queue.try_take(), Err(TryTakeError::Empty)),
        ]);
        assert_eq!(taker.left().resume(), Ok(1));
        assert_eq!(left_in(&*queue), []);
    });
}
