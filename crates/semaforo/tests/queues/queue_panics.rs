//! Promises 5 and 6 for the queues, where somebody panics: whatever a waker does, items are neither
//! lost nor duplicated, and nobody else is held up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{
    Step, Waiter, WakerOf, eventually, in_its_own_process, leaked, panic_of, panicking_waker,
    patient, until_queued, waker_that,
};
use semaforo::{
    BlockingQueue, CancelSource, Closed, Event, SynchronousQueue, TransferQueue, TryTakeError,
};

/// Polls, whatever happens.
fn poll_caught<F: Future>(step: &mut Step<F>) -> Option<F::Output> {
    match catch_unwind(AssertUnwindSafe(|| step.poll())) {
        Ok(std::task::Poll::Ready(output)) => Some(output),
        _ => None,
    }
}

const PANICKED: &str = "the waker panicked";

/// Whoever puts has put, whatever the waker of the taker does.
#[test]
fn an_item_given_to_a_taker_whose_waker_panics_is_given() {
    let queue = patient(BlockingQueue::unbounded());
    let mut takers = [
        Step::panicking(queue.take()),
        Step::panicking(queue.take()),
        Step::panicking(queue.take()),
    ];
    assert_eq!(panic_of(|| queue.try_put(0)), PANICKED);
    assert_eq!(panic_of(|| queue.put(1).wait()), PANICKED);
    assert_eq!(panic_of(|| Step::new(queue.put(2)).poll()), PANICKED);
    assert_eq!(takers.each_mut().map(Step::expect_ready), [Ok(0), Ok(1), Ok(2)]);
    assert!(queue.is_empty());

    let queue = patient(TransferQueue::new());
    let mut takers = [Step::panicking(queue.take()), Step::panicking(queue.take())];
    assert_eq!(panic_of(|| queue.put(0)), PANICKED);
    assert_eq!(panic_of(|| queue.try_transfer(1)), PANICKED);
    assert_eq!(takers.each_mut().map(Step::expect_ready), [Ok(0), Ok(1)]);

    let queue = patient(SynchronousQueue::new());
    let mut takers = [Step::panicking(queue.take()), Step::panicking(queue.take())];
    assert_eq!(panic_of(|| queue.try_put(0)), PANICKED);
    assert_eq!(panic_of(|| queue.put(1).wait()), PANICKED);
    assert_eq!(takers.each_mut().map(Step::expect_ready), [Ok(0), Ok(1)]);
}

/// A transfer that panics is as one that was dropped: its message goes with it, and its taker waits
/// on.
#[test]
fn a_transfer_that_panics_takes_its_message_along() {
    let queue = patient(TransferQueue::new());
    let mut taker = Step::panicking(queue.take());
    assert_eq!(panic_of(|| queue.transfer(1).wait()), PANICKED);
    assert_eq!((queue.len(), queue.waiting_transfers(), queue.waiting_consumers()), (0, 0, 1));
    taker.expect_pending();
    queue.put(2).unwrap();
    assert_eq!(taker.expect_ready(), Ok(2));
}

/// Whoever takes and panics, because it let somebody in whose waker panics, leaves the item where it
/// was.
#[test]
fn an_item_whose_taker_panics_goes_to_the_next() {
    let queue = patient(BlockingQueue::bounded(1));
    queue.try_put(0).unwrap();
    let mut putters = [1, 2, 3].map(|item| Step::panicking(queue.put(item)));
    assert_eq!(panic_of(|| queue.try_take()), PANICKED);
    assert_eq!(queue.len(), 2, "what came back, and what was let in");
    assert_eq!(queue.try_take(), Ok(0));
    assert_eq!(panic_of(|| queue.take().wait()), PANICKED);
    assert_eq!(queue.try_take(), Ok(1));
    assert_eq!(panic_of(|| Step::new(queue.take()).poll()), PANICKED);
    assert_eq!([queue.try_take(), queue.try_take()], [Ok(2), Ok(3)]);
    assert!(queue.is_empty());
    assert_eq!(putters.each_mut().map(Step::expect_ready), [Ok(()); 3]);

    let queue = patient(TransferQueue::new());
    let mut transfers = [0, 1, 2].map(|item| Step::panicking(queue.transfer(item)));
    assert_eq!(panic_of(|| queue.try_take()), PANICKED);
    assert_eq!(queue.try_take(), Ok(0));
    assert_eq!(panic_of(|| queue.take().wait()), PANICKED);
    assert_eq!(queue.try_take(), Ok(1));
    assert_eq!(panic_of(|| Step::new(queue.take()).poll()), PANICKED);
    assert_eq!(queue.try_take(), Ok(2));
    assert_eq!(transfers.each_mut().map(Step::expect_ready), [Ok(()); 3]);

    let queue = patient(SynchronousQueue::new());
    let mut put = Step::panicking(queue.put(0));
    assert_eq!(panic_of(|| queue.take().wait()), PANICKED);
    assert_eq!((queue.take().wait(), put.expect_ready()), (Ok(0), Ok(())));
}

/// What comes back goes to whoever waits by then, before `try_take` has panicked.
#[test]
fn an_item_whose_taker_panics_may_find_another() {
    let queue = leaked(patient(TransferQueue::new()));
    let mut transfer = Step::new(queue.transfer(1));
    let meanwhile = leaked(std::sync::Mutex::new(None));
    let waker = waker_that(|| {
        *meanwhile.lock().unwrap() = Some(Step::queued(queue.take()));
        panic!("after somebody came");
    });
    assert!(transfer.poll_with(&waker).is_pending());
    assert_eq!(panic_of(|| queue.try_take()), "after somebody came");
    let mut other = meanwhile.lock().unwrap().take().unwrap();
    assert_eq!((other.wakes(), other.expect_ready()), (1, Ok(1)));
}

/// More putters than are woken at a time (32), one of whom panics.
#[test]
fn a_drain_that_panics_leaves_everything_there() {
    let queue = patient(BlockingQueue::bounded(1));
    queue.try_put(0).unwrap();
    let mut putters: Vec<_> = (1..=100)
        .map(|item| {
            if item == 50 {
                Step::panicking(queue.put(item))
            } else {
                Step::queued(queue.put(item))
            }
        })
        .collect();
    assert_eq!(panic_of(|| queue.drain()), PANICKED);
    assert!(putters.iter_mut().all(|putter| putter.expect_ready() == Ok(())));
    assert_eq!(queue.len(), 101);
    assert_eq!(queue.drain_at_most(1), [0]);
    assert_eq!(queue.drain(), (1..=100).collect::<Vec<_>>());

    let queue = patient(TransferQueue::new());
    let mut transfers: Vec<_> = (0..100)
        .map(|item| {
            let transfer = queue.transfer(item);
            if item == 50 { Step::panicking(transfer) } else { Step::queued(transfer) }
        })
        .collect();
    assert_eq!(panic_of(|| queue.drain()), PANICKED);
    assert!(transfers.iter_mut().all(|transfer| transfer.expect_ready() == Ok(())));
    assert_eq!(queue.drain(), (0..100).collect::<Vec<_>>());
}

///
#[test]
fn a_panicking_waker_costs_nobody_else_the_news_of_a_close() {
    fn one_of_33<F: Future>(
        request: impl Fn(usize) -> F,
        close: impl FnOnce() -> bool,
    ) -> Vec<F::Output> {
        let mut waiters: Vec<_> = (0..33).map(|number| Step::new(request(number))).collect();
        assert!(waiters[0].poll_with(&panicking_waker()).is_pending());
        waiters[1..].iter_mut().for_each(Step::expect_pending);
        assert_eq!(panic_of(close), PANICKED);
        assert!(waiters[1..].iter().all(|waiter| waiter.wakes() == 1));
        waiters.iter_mut().map(Step::expect_ready).collect()
    }
    let items: Vec<_> = (0..33).collect();
    let refused = |outputs: Vec<Result<(), semaforo::Rejected<usize>>>| {
        outputs.into_iter().map(|output| output.unwrap_err().item).collect::<Vec<_>>()
    };
    let queue = patient(BlockingQueue::<usize>::unbounded());
    assert_eq!(one_of_33(|_| queue.take(), || queue.close()), [Err(Closed); 33]);
    let queue = patient(BlockingQueue::bounded(1));
    queue.try_put(100).unwrap();
    assert_eq!(refused(one_of_33(|item| queue.put(item), || queue.close())), items);
    let queue = patient(TransferQueue::<usize>::new());
    assert_eq!(one_of_33(|_| queue.take(), || queue.close()), [Err(Closed); 33]);
    let queue = patient(TransferQueue::new());
    assert_eq!(refused(one_of_33(|item| queue.transfer(item), || queue.close())), items);
    let queue = patient(SynchronousQueue::new());
    assert_eq!(refused(one_of_33(|item| queue.put(item), || queue.close())), items);
}

/// A request that is dropped, cancelled or timed out gives what it was handed to one that panics.
#[test]
fn an_item_that_is_passed_on_to_a_panicking_waker_is_passed_on() {
    let queue = patient(BlockingQueue::unbounded());
    let first = Step::queued(queue.take());
    let mut next = Step::panicking(queue.take());
    queue.try_put(1).unwrap();
    assert_eq!(panic_of(|| drop(first)), PANICKED);
    assert_eq!(next.expect_ready(), Ok(1));

    let queue = patient(TransferQueue::new());
    let stop = CancelSource::new();
    let mut taker = Step::queued(queue.take());
    let mut transfer = Step::panicking(queue.transfer(1).cancel_on(&stop.token()));
    queue.put(2).unwrap();
    assert_eq!(panic_of(|| stop.cancel()), PANICKED);
    assert_eq!(transfer.expect_ready().unwrap_err().item, 1);
    assert_eq!(taker.expect_ready(), Ok(2), "the followers are let through all the same");
}

/// The watchdog passes an item on to a waker that panics: the next one is served all the same.
#[test]
fn a_panicking_waker_does_not_end_the_watchdog() {
    let queue = patient(BlockingQueue::unbounded());
    queue.set_patience(Duration::from_millis(2));
    let mut unpolled = Step::queued(queue.take());
    let mut panics = Step::panicking(queue.take());
    let mut last = Step::queued(queue.take());
    queue.try_put(1).unwrap();
    eventually("the last is served", || last.wakes() == 1);
    assert_eq!(last.expect_ready(), Ok(1));
    queue.try_put(2).unwrap();
    queue.try_put(3).unwrap();
    assert_eq!([unpolled.expect_ready(), panics.expect_ready()], [Ok(2), Ok(3)]);
}

/// A waker that cannot be cloned leaves the request, and its item, as they were.
#[test]
fn a_panic_while_cloning_the_waker_queues_nothing() {
    let waker = || WakerOf(|| {}, || panic!("not to be cloned"), || {}).into_waker();
    let queue = patient(BlockingQueue::bounded(1));
    queue.try_put(0).unwrap();
    let mut put = Step::new(queue.put(1));
    assert_eq!(panic_of(|| put.poll_with(&waker())), "not to be cloned");
    assert_eq!(queue.waiters(), 0);
    put.expect_pending();
    assert_eq!([queue.try_take(), queue.try_take()], [Ok(0), Ok(1)]);

    let queue = patient(TransferQueue::new());
    let mut transfer = Step::new(queue.transfer(1));
    assert_eq!(panic_of(|| transfer.poll_with(&waker())), "not to be cloned");
    assert_eq!((queue.waiters(), queue.len()), (0, 0));
    transfer.expect_pending();
    assert_eq!(queue.try_take(), Ok(1));
}

/// A priority that panics is the panic of whoever asks for it, and nothing is put.
#[test]
fn a_priority_that_panics_puts_nothing() {
    let queue = BlockingQueue::builder()
        .by_priority(|item: &i64| if *item == 0 { panic!("no priority") } else { *item })
        .build();
    assert_eq!(panic_of(|| queue.try_put(0)), "no priority");
    assert_eq!(panic_of(|| queue.put(0)), "no priority");
    queue.try_put(1).unwrap();
    assert_eq!(queue.drain(), [1]);
}

/// A consumer that panics between two items leaves the rest.
#[test]
fn a_consumer_that_panics_leaves_the_rest() {
    let queue = leaked(patient(BlockingQueue::bounded(2)));
    let consumer = Waiter::on_a_thread(|| {
        for item in queue.items() {
            assert_ne!(item, 3, "a bad item");
        }
    });
    for item in 1..=5 {
        queue.put(item).wait().unwrap();
        if item == 3 {
            break;
        }
    }
    assert!(consumer.join_or_panic().is_err());
    until_queued(queue, 0);
    queue.try_put(4).unwrap();
    assert_eq!(queue.drain(), [4]);
}

#[test]
fn a_put_whose_poll_panicked_can_be_polled_again() {
    in_its_own_process(|| {
        for capacity in [1, 2, 3] {
            let queue = patient(BlockingQueue::bounded(capacity));
            let mut taker = Step::panicking(queue.take());
            let mut put = Step::new(queue.put(1));
            assert_eq!(panic_of(|| put.poll()), "the waker panicked");
            let _ = poll_caught(&mut put);
            assert_eq!(taker.expect_ready(), Ok(1));
            assert_eq!((queue.len(), queue.try_take()), (0, Err(TryTakeError::Empty)));
            queue.try_put(2).unwrap();
            assert_eq!(queue.try_take(), Ok(2));
        }
    });
}

#[test]
fn a_take_whose_poll_panicked_can_be_polled_again() {
    in_its_own_process(|| {
        let queue = patient(TransferQueue::new());
        let mut take = Step::queued(queue.take());
        let mut transfer = Step::panicking(queue.transfer(1));
        assert_eq!(panic_of(|| take.poll()), "the waker panicked");
        assert_eq!(transfer.expect_ready(), Ok(()));
        let again = poll_caught(&mut take);
        let left = queue.try_take();
        assert!((again == Some(Ok(1))) != (left == Ok(1)), "{again:?}, {left:?}");
    });
}

#[test]
fn a_dormant_take_whose_poll_panicked_can_be_polled_again() {
    in_its_own_process(|| {
        let queue = patient(TransferQueue::new());
        queue.set_patience(Duration::from_millis(2));
        let mut dormant = Step::queued(queue.take());
        let mut transfer = Step::panicking(queue.transfer(1));
        eventually("the message is taken back", || queue.len() == 1);
        assert_eq!(panic_of(|| dormant.poll()), "the waker panicked");
        assert_eq!(transfer.expect_ready(), Ok(()));
        let again = poll_caught(&mut dormant);
        let left = queue.try_take();
        assert!((again == Some(Ok(1))) != (left == Ok(1)), "{again:?}, {left:?}");
    });
}

/// A transfer that panicked has ended: polled again it says so, and its message is nobody's.
#[test]
fn a_transfer_whose_poll_panicked_has_ended() {
    in_its_own_process(|| {
        let queue = patient(TransferQueue::new());
        let mut taker = Step::panicking(queue.take());
        let mut transfer = Step::new(queue.transfer(1).timeout(Duration::from_millis(5)));
        assert_eq!(panic_of(|| transfer.poll()), PANICKED);
        assert_eq!((queue.len(), queue.waiting_transfers(), queue.waiting_consumers()), (0, 0, 1));
        assert!(poll_caught(&mut transfer).is_none());
        drop(transfer);
        queue.put(2).unwrap();
        assert_eq!(taker.expect_ready(), Ok(2));
    });
}

/// What a destructor takes while its thread unwinds. A second panic would end the process, so a
/// waker's is swallowed; what was taken then stays taken.
struct Unwinding<R, F: Fn() -> R>(F, std::sync::mpsc::Sender<R>);

impl<R, F: Fn() -> R> Drop for Unwinding<R, F> {
    fn drop(&mut self) {
        self.1.send((self.0)()).unwrap();
    }
}

/// Runs something in a destructor, while a panic unwinds.
fn while_unwinding<R>(run: impl Fn() -> R) -> R {
    let (sender, receiver) = std::sync::mpsc::channel();
    let message = panic_of(|| {
        let _unwinding = Unwinding(run, sender);
        panic!("the first");
    });
    assert_eq!(message, "the first");
    receiver.recv().unwrap()
}

#[test]
fn what_is_taken_while_unwinding_is_taken_whatever_a_waker_does() {
    in_its_own_process(|| {
        let queue = patient(BlockingQueue::bounded(1));
        queue.try_put(1).unwrap();
        let mut put = Step::panicking(queue.put(2));
        assert_eq!(while_unwinding(|| queue.try_take()), Ok(1));
        assert_eq!((put.expect_ready(), queue.len()), (Ok(()), 1));
        let mut put = Step::panicking(queue.put(3));
        assert_eq!(while_unwinding(|| queue.drain()), [2, 3]);
        assert_eq!((put.expect_ready(), queue.len()), (Ok(()), 0));

        let transfers = patient(TransferQueue::new());
        let mut transfer = Step::panicking(transfers.transfer(4));
        assert_eq!(while_unwinding(|| transfers.try_take()), Ok(4));
        assert_eq!((transfer.expect_ready(), transfers.len()), (Ok(()), 0));
        let mut transfer = Step::panicking(transfers.transfer(5));
        assert_eq!(while_unwinding(|| transfers.drain()), [5]);
        assert_eq!((transfer.expect_ready(), transfers.len()), (Ok(()), 0));
    });
}

#[test]
fn what_is_claimed_while_unwinding_is_claimed_whatever_a_waker_does() {
    in_its_own_process(|| {
        let queue = patient(TransferQueue::new());
        let take = std::cell::RefCell::new(Step::queued(queue.take()));
        let mut transfer = Step::panicking(queue.transfer(1));
        assert_eq!(while_unwinding(|| take.borrow_mut().expect_ready()), Ok(1));
        assert_eq!((transfer.expect_ready(), queue.len()), (Ok(()), 0));
    });
}

/// A thread about to sleep makes the wake-ups that it owes. One of them panics while another thread
/// gives it an item: that must not get lost between the two.
#[test]
fn an_item_that_meets_a_panic_of_its_taker_is_not_lost() {
    let queue = leaked(patient(BlockingQueue::unbounded()));
    let panics = leaked(AtomicBool::new(false));
    let (round, over) = (leaked(std::sync::Barrier::new(2)), leaked(AtomicBool::new(false)));
    let putter = Waiter::on_a_thread(|| {
        let mut random = crate::support::Random::new(3);
        loop {
            round.wait();
            if over.load(SeqCst) {
                return;
            }
            while !panics.swap(false, SeqCst) {
                std::thread::yield_now();
            }
            // The longer the lock is taken, the more likely is it that both want it.
            (0..random.below(60)).for_each(|_| assert!(queue.waiters() < 2));
            queue.try_put(1).unwrap();
            round.wait();
        }
    });
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        round.wait();
        let (outer, inner) = (leaked(Event::new()), leaked(Event::new()));
        let taken = leaked(AtomicBool::new(false));
        let blocks = waker_that(|| {
            inner.set();
            taken.store(queue.take().wait().is_ok(), SeqCst);
        });
        let says_so = waker_that(|| {
            panics.store(true, SeqCst);
            // Without the hook, which takes its time.
            std::panic::resume_unwind(Box::new("the waker panicked"));
        });
        let mut first = Step::new(outer.happened());
        let mut second = Step::new(inner.happened());
        assert!(first.poll_with(&blocks).is_pending());
        assert!(second.poll_with(&says_so).is_pending());
        assert_eq!(panic_of(|| outer.set()), "the waker panicked");
        round.wait();
        let (taken, left) = (usize::from(taken.load(SeqCst)), queue.drain().len());
        assert_eq!(taken + left, 1, "taken {taken}, left {left}");
    }
    over.store(true, SeqCst);
    round.wait();
    putter.join();
}
