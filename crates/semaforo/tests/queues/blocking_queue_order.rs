//! In which order items leave a blocking queue: last in, first out, by priority (cases PR), and when
//! some of them come back.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::support::{
    Line, Random, SHORT, Step, Waiter, eventually, fire, in_every_arrangement, leaked, patient,
};
use semaforo::{BlockingQueue, CancelSource, TryPutError, TryTakeError, WaitError};

fn by_first<T: 'static>() -> BlockingQueue<(i64, T)> {
    BlockingQueue::builder().by_priority(|item: &(i64, T)| item.0).build()
}

#[test]
fn last_in_first_out() {
    for builder in [BlockingQueue::builder(), BlockingQueue::builder().capacity(4)] {
        let queue = builder.lifo().build();
        (1..=3).for_each(|item| queue.try_put(item).unwrap());
        assert_eq!((queue.peek(), queue.try_take()), (Some(3), Ok(3)));
        queue.try_put(4).unwrap();
        assert_eq!(queue.drain(), [4, 2, 1]);
    }
}

/// Whoever waits is served in the order of coming, whatever the order of the items.
#[test]
fn takers_and_putters_of_a_stack_are_served_in_the_order_of_coming() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(patient(BlockingQueue::builder().capacity(1).lifo().build()));
        let mut line = Line::new(arrangement, queue);
        let takers: Vec<_> = (0..4).map(|_| line.enter(queue.take())).collect();
        (0..4).for_each(|item| queue.try_put(item).unwrap());
        let taken: Vec<_> = takers.into_iter().map(Waiter::join).collect();
        assert_eq!(taken, [Ok(0), Ok(1), Ok(2), Ok(3)]);
        queue.try_put(4).unwrap();
        let putters: Vec<_> = (5..8).map(|item| line.enter(queue.put(item))).collect();
        for item in 4..8 {
            assert_eq!(queue.try_take(), Ok(item));
        }
        putters.into_iter().for_each(|putter| putter.join().unwrap());
    });
}

/// The last of what the builder was told counts.
#[test]
fn a_builder_may_change_its_mind() {
    let queue = BlockingQueue::builder().lifo().capacity(9).by_priority(|item| *item).capacity(2);
    let queue = queue.build();
    queue.try_put(2).unwrap();
    queue.try_put(1).unwrap();
    assert_eq!(queue.try_put(3).unwrap_err().why, TryPutError::Full);
    assert_eq!((queue.capacity(), queue.drain()), (Some(2), vec![1, 2]));
    let queue = BlockingQueue::builder().by_priority(|item| *item).lifo().build();
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    assert_eq!(queue.drain(), [2, 1]);
}

#[test]
fn the_smallest_priority_first_and_first_in_first_out_among_equals() {
    let queue = by_first();
    let mut random = Random::new(1);
    let mut expected: Vec<_> =
        (0..1000).map(|number| (i64::from(random.below(10)) - 5, number)).collect();
    expected.iter().for_each(|item| queue.try_put(*item).unwrap());
    // Stable, hence in the order of coming among equals.
    expected.sort_by_key(|item| item.0);
    assert_eq!(queue.peek(), Some(expected[0]));
    assert_eq!(queue.drain(), expected);
}

#[test]
fn priorities_may_be_as_extreme_as_there_are() {
    let queue = by_first();
    for priority in [0, i64::MAX, i64::MIN, -1, 1, i64::MIN, i64::MAX] {
        queue.try_put((priority, ())).unwrap();
    }
    let taken: Vec<_> = queue.drain().into_iter().map(|item| item.0).collect();
    assert_eq!(taken, [i64::MIN, i64::MIN, -1, 0, 1, i64::MAX, i64::MAX]);
}

#[test]
fn the_priority_is_asked_once_before_the_item_is_put() {
    let asked = Arc::new(AtomicUsize::new(0));
    let asking = Arc::clone(&asked);
    let queue = BlockingQueue::builder()
        .capacity(1)
        .by_priority(move |item: &i64| {
            asking.fetch_add(1, SeqCst);
            *item
        })
        .build();
    queue.try_put(3).unwrap();
    let mut put = Step::queued(queue.put(2));
    put.expect_pending();
    assert_eq!(asked.load(SeqCst), 2);
    assert_eq!((queue.try_take(), queue.try_take()), (Ok(3), Ok(2)));
    drop(put);
    drop(queue);
    assert_eq!((asked.load(SeqCst), Arc::strong_count(&asked)), (2, 1));
}

/// A bounded queue by priority: who waits for room is let in in the order of coming.
#[test]
fn putters_wait_in_the_order_of_coming_whatever_they_bring() {
    in_every_arrangement(|arrangement| {
        let queue = BlockingQueue::builder().capacity(2).by_priority(|item: &i64| *item).build();
        let queue = leaked(queue);
        [5, 9].into_iter().for_each(|item| queue.try_put(item).unwrap());
        let mut line = Line::new(arrangement, queue);
        let putters = [7, 1, 3].map(|item| line.enter(queue.put(item)));
        let taken: Vec<_> = (0..5).map(|_| queue.try_take().unwrap()).collect();
        assert_eq!(taken, [5, 7, 1, 3, 9]);
        putters.into_iter().for_each(|putter| putter.join().unwrap());
    });
}

/// PR-04
#[test]
fn an_empty_queue_by_priority_can_be_left() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(by_first::<u32>());
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, queue);
        let cancelled = line.enter(queue.take().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        let timed = line.start(queue.take().timeout(SHORT)).join();
        assert_eq!(timed, Err(WaitError::TimedOut));
        let zero = line.start(queue.take().timeout(Duration::ZERO)).join();
        assert_eq!(zero, Err(WaitError::TimedOut));
        assert_eq!(queue.try_take(), Err(TryTakeError::Empty));
        assert_eq!(queue.waiters(), 0);
    });
}

/// PR-05
#[test]
fn a_taker_that_waits_gets_one_of_what_is_put_before_it_runs() {
    in_every_arrangement(|arrangement| {
        let queue = leaked(by_first());
        let taker = Line::new(arrangement, queue).enter(queue.take());
        queue.try_put((9, "low")).unwrap();
        queue.try_put((1, "high")).unwrap();
        assert_eq!(queue.len(), 1);
        let (taken, left) = (taker.join().unwrap(), queue.try_take().unwrap());
        assert_ne!(taken, left);
        assert!(queue.is_empty());
    });
}

/// Items that were handed out and came back come first, in the order in which they were put.
#[test]
fn items_that_came_back_keep_their_order() {
    for backwards in [false, true] {
        let queue = patient(BlockingQueue::bounded(8));
        let mut takers: Vec<_> = (0..4).map(|_| Step::queued(queue.take())).collect();
        (0..6).for_each(|item| queue.try_put(item).unwrap());
        if backwards {
            takers.reverse();
        }
        takers.into_iter().for_each(drop);
        assert_eq!(queue.drain(), [0, 1, 2, 3, 4, 5]);
    }
}

/// The same if they were handed out twice in between.
#[test]
fn items_that_came_back_twice_keep_their_order() {
    for backwards in [false, true] {
        let queue = patient(BlockingQueue::bounded(8));
        let first = Step::queued(queue.take());
        let second = Step::queued(queue.take());
        let third = Step::queued(queue.take());
        queue.try_put(0).unwrap();
        queue.try_put(1).unwrap();
        drop(first);
        assert_eq!((second.wakes(), third.wakes()), (1, 1), "each has one of the two");
        let mut both = [second, third];
        if backwards {
            both.reverse();
        }
        both.into_iter().for_each(drop);
        assert_eq!(queue.drain(), [0, 1]);
    }
}

/// The same when the watchdog passes them on.
#[test]
fn items_that_were_passed_on_keep_their_order() {
    let queue = patient(BlockingQueue::unbounded());
    queue.set_patience(Duration::from_millis(2));
    let unpolled: Vec<_> = (0..3).map(|_| Step::queued(queue.take())).collect();
    let heirs: Vec<_> = (0..3).map(|_| Step::queued(queue.take())).collect();
    (0..3).for_each(|item| queue.try_put(item).unwrap());
    eventually("all are passed on", || heirs.iter().all(|heir| heir.wakes() == 1));
    drop((heirs, unpolled));
    assert_eq!(queue.drain(), [0, 1, 2]);
}

/// A priority of any ordered type, and integers of every size.
#[test]
fn anything_ordered_is_a_priority() {
    fn order<K: Ord + Send + 'static>(
        priority: impl Fn(&u64) -> K + Send + Sync + 'static,
    ) -> Vec<u64> {
        let queue = BlockingQueue::builder().by_priority(priority).build();
        queue.extend_from([5, u64::MAX, 30, 0, 1 << 63, 200]);
        queue.drain()
    }
    let (up, down) = ([0, 5, 30, 200, 1 << 63, u64::MAX], [u64::MAX, 1 << 63, 200, 30, 5, 0]);
    assert_eq!(order(|item| *item), up);
    assert_eq!(order(|item| *item as usize), up);
    assert_eq!(order(|item| u128::from(*item)), up);
    assert_eq!(order(|item| Some(*item)), up);
    assert_eq!(order(|item| Reverse(*item)), down);
    assert_eq!(order(|item| -i128::from(*item)), down);
    assert_eq!(order(|item| item.to_string()), [0, u64::MAX, 200, 30, 5, 1 << 63]);
    assert_eq!(order(|item| (item % 2, item.to_string()))[..2], [0, 200]);
    // Equal ones in the order of their coming.
    assert_eq!(order(|_| ()), [5, u64::MAX, 30, 0, 1 << 63, 200]);
    assert_eq!(order(|item| *item as u8), [0, 1 << 63, 5, 30, 200, u64::MAX]);
    assert_eq!(order(|item| *item as i8), [200, u64::MAX, 0, 1 << 63, 5, 30]);
    assert_eq!(order(|item| *item as i64), [1 << 63, u64::MAX, 0, 5, 30, 200]);
}

/// A priority that counts how many of its kind there are, and looks at the queue as it is dropped: that
/// would wait for ever if the queue were locked.
struct Looking(u32, &'static AtomicUsize, &'static OnceLock<&'static BlockingQueue<u32>>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
        let _ = self.2.get().expect("the queue is there").waiters();
    }
}

impl PartialEq for Looking {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Looking {}

impl PartialOrd for Looking {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Looking {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Whatever becomes of an item, its priority is dropped once, by then or soon after, and not while the
/// queue is locked.
#[test]
fn priorities_are_dropped_outside_of_the_lock() {
    let keys: &'static AtomicUsize = leaked(AtomicUsize::new(0));
    let itself = leaked(OnceLock::new());
    let build = || {
        let key = move |item: &u32| {
            keys.fetch_add(1, SeqCst);
            Looking(*item, keys, itself)
        };
        leaked(patient(BlockingQueue::builder().capacity(2).by_priority(key).build()))
    };
    let (queue, other) = (build(), build());
    assert!(itself.set(queue).is_ok());
    let live = || keys.load(SeqCst);
    // Stored and taken.
    queue.try_put(2).unwrap();
    queue.put(1).wait().unwrap();
    assert_eq!(live(), 2);
    // Refused, timed out, dropped while it waits, and served while it waits.
    assert!(queue.try_put(3).is_err());
    assert!(queue.put(4).timeout(Duration::ZERO).wait().is_err());
    assert_eq!(live(), 2);
    drop(Step::queued(queue.put(5)));
    let mut waiting = Step::queued(queue.put(0));
    assert_eq!(live(), 3);
    assert_eq!((queue.try_take(), waiting.expect_ready()), (Ok(1), Ok(())));
    assert_eq!((live(), queue.drain(), live()), (2, vec![0, 2], 0));
    // Handed to a taker, and given back by that.
    let mut taker = Step::queued(queue.take());
    queue.try_put(6).unwrap();
    assert_eq!((live(), taker.expect_ready()), (0, Ok(6)));
    let taker = Step::queued(queue.take());
    queue.put(7).wait().unwrap();
    drop(taker);
    assert_eq!((live(), queue.take_batch(9, Duration::ZERO).wait()), (0, Ok(vec![7])));
    // In one of two queues.
    [queue, other].iter().for_each(|queue| assert_eq!(queue.extend_from([8, 9]), 2));
    let mut any = Step::queued(BlockingQueue::put_any([queue, other], 1));
    drop(Step::queued(BlockingQueue::put_any([queue, other], 2)));
    assert_eq!((live(), other.try_take(), any.expect_ready()), (6, Ok(8), Ok(1)));
    drop(any);
    assert_eq!((live(), other.drain()), (4, vec![1, 9]));
    // Closed, with one that waits.
    let mut waiting = Step::queued(queue.put(3));
    queue.close();
    assert!(waiting.expect_ready().is_err());
    drop(waiting);
    assert_eq!((live(), queue.items().collect::<Vec<_>>(), live()), (2, vec![8, 9], 0));
    // Dropped with items.
    let last = {
        let key = move |item: &u32| {
            keys.fetch_add(1, SeqCst);
            Looking(*item, keys, itself)
        };
        BlockingQueue::builder().by_priority(key).build()
    };
    last.extend_from([3, 1, 2]);
    assert_eq!((last.try_take(), live()), (Ok(1), 2));
    drop(last);
    assert_eq!(live(), 0);
}

/// An order that panics costs no item.
#[test]
fn priorities_whose_order_panics_count_as_equal() {
    #[derive(PartialEq, Eq)]
    struct Unordered;
    impl PartialOrd for Unordered {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Unordered {
        fn cmp(&self, _: &Self) -> std::cmp::Ordering {
            panic!("no order")
        }
    }
    let queue = BlockingQueue::builder().by_priority(|_: &u32| Unordered).build();
    assert_eq!(queue.extend_from(0..9), 9);
    assert_eq!(queue.drain(), (0..9).collect::<Vec<_>>());
}

/// What an order panics with is dropped when the queue is not locked: its `drop` may use it.
#[test]
fn payloads_of_an_order_may_use_the_queue() {
    static QUEUE: OnceLock<BlockingQueue<u32>> = OnceLock::new();
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    struct Looks;
    impl Drop for Looks {
        fn drop(&mut self) {
            LOOKS.fetch_add(QUEUE.get().map_or(0, BlockingQueue::len), SeqCst);
        }
    }
    #[derive(PartialEq, Eq)]
    struct Unordered;
    impl PartialOrd for Unordered {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Unordered {
        fn cmp(&self, _: &Self) -> std::cmp::Ordering {
            std::panic::panic_any(Looks)
        }
    }
    let queue =
        QUEUE.get_or_init(|| BlockingQueue::builder().by_priority(|_: &u32| Unordered).build());
    let thread = Waiter::on_a_thread(|| {
        assert_eq!(queue.extend_from(0..9), 9);
        assert_eq!(queue.drain(), (0..9).collect::<Vec<_>>());
    });
    eventually("every put and take returns", || thread.is_done());
    thread.join();
    assert!(LOOKS.load(SeqCst) > 0);
}
