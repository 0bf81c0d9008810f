//! A tour of the unsafe code: every way in which a request is queued, answered, moved, leaked and
//! dropped, in few steps. For tools that watch each access to memory, which is why nothing here is
//! large: `./test --deep` runs it under the address sanitizer, and under Miri where that is installed.

use std::cell::Cell;
use std::future::Future;
use std::mem::forget;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use semaforo::query::prelude::*;
use semaforo::tasks::{CurrentThread, Pool, Shutdown, Spawn, when_all};
use semaforo::{
    Barrier, BlockingQueue, CancelSource, Condition, Event, Exchanger, Mutex, MutexGuard, OwnerKey,
    Phaser, Promise, ReentrantCondition, ReentrantLock, RwLock, Semaphore, SynchronousQueue,
    TransferQueue, WaitError,
};
use support::{LONG, Step, eventually};

mod support;

/// For what a watchdog or the timer does.
const SOON: Duration = Duration::from_millis(2);

#[test]
fn tasks_that_are_granted_cancelled_and_dropped() {
    let semaphore = Semaphore::new(0);
    let (stop, other) = (CancelSource::new(), CancelSource::new());
    let dropped = Step::queued(semaphore.acquire(1));
    let request = semaphore.acquire(1).cancel_on(&stop.token()).cancel_on(&other.token());
    let mut cancelled = Step::queued(request);
    let mut granted = Step::queued(semaphore.acquire(1).timeout(LONG));
    granted.expect_pending();
    drop(dropped);
    stop.cancel();
    assert_eq!(cancelled.expect_ready().unwrap_err(), WaitError::Cancelled);
    semaphore.release(1).unwrap();
    drop(granted.expect_ready().unwrap());
    let unclaimed = Step::queued(semaphore.acquire(5));
    semaphore.release(5).unwrap();
    drop(unclaimed);
    assert_eq!((semaphore.available(), semaphore.waiters()), (6, 0));
}

#[test]
fn a_request_on_the_stack() {
    let semaphore = Semaphore::new(0);
    let mut request = pin!(semaphore.acquire(1));
    let mut context = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    semaphore.release(1).unwrap();
    assert!(request.as_mut().poll(&mut context).is_ready());
}

#[test]
fn threads_and_a_task() {
    for semaphore in [Semaphore::new(1), Semaphore::barging(1)] {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..5).for_each(|_| drop(semaphore.acquire(1).wait())));
            }
            scope.spawn(|| {
                for _ in 0..5 {
                    let mut request = Step::new(semaphore.acquire(1));
                    if request.poll().is_pending() {
                        std::thread::yield_now();
                        drop(request.poll());
                    }
                }
            });
        });
        assert_eq!((semaphore.available(), semaphore.waiters()), (1, 0));
    }
}

#[test]
fn a_request_that_is_leaked_outlives_its_object() {
    let stop = CancelSource::new();
    let semaphore = Semaphore::new(0);
    forget(Step::queued(semaphore.acquire(1).cancel_on(&stop.token()).timeout(SOON)));
    let moved = semaphore;
    drop(moved);
    stop.cancel();
    assert_eq!(stop.token().registrations(), 0);
}

/// A queue of references is leaked with its requests, and what they refer to goes: the watchdog passes
/// an item on, a token and the timer give one back, and none of them may look at the references.
#[test]
fn a_queue_of_references_that_is_leaked() {
    let stop = CancelSource::new();
    {
        let text = Box::new(String::from("borrowed"));

        let passed_on: BlockingQueue<&String> = BlockingQueue::unbounded();
        passed_on.set_patience(SOON);
        (0..2).for_each(|_| forget(Step::queued(passed_on.take())));
        passed_on.try_put(&text).unwrap();
        forget(passed_on);

        let handed: TransferQueue<&String> = TransferQueue::new();
        handed.set_patience(SOON);
        (0..2).for_each(|_| forget(Step::queued(handed.take())));
        handed.put(&text).unwrap();
        forget(handed);

        let room: BlockingQueue<&String> = BlockingQueue::bounded(1);
        room.try_put(&text).unwrap();
        forget(Step::queued(room.put(&text).cancel_on(&stop.token())));
        forget(Step::queued(room.put(&text).timeout(SOON)));
        forget(room);

        let given_back: TransferQueue<&String> = TransferQueue::new();
        forget(Step::queued(given_back.transfer(&text).cancel_on(&stop.token())));
        forget(Step::queued(given_back.transfer(&text).timeout(SOON)));
        forget(given_back);

        let synchronous: SynchronousQueue<&String> = SynchronousQueue::new();
        forget(Step::queued(synchronous.put(&text).cancel_on(&stop.token()).timeout(SOON)));
        forget(synchronous);

        let either: [BlockingQueue<&String>; 2] = [(); 2].map(|()| BlockingQueue::bounded(1));
        either.iter().for_each(|queue| queue.try_put(&text).unwrap());
        let ends = [&either[0], &either[1]];
        forget(Step::queued(BlockingQueue::put_any(ends, &text).cancel_on(&stop.token())));
        forget(Step::queued(BlockingQueue::put_any(ends, &text).timeout(SOON)));
        forget(either);

        let exchanger: Exchanger<&String> = Exchanger::new();
        forget(Step::queued(exchanger.exchange(&text).cancel_on(&stop.token())));
        forget(Step::queued(Exchanger::new().exchange(&*text).timeout(SOON)));
        forget(exchanger);

        let lock: Mutex<&String> = Mutex::new(&text);
        let condition = Condition::new();
        forget(Step::queued(condition.wait(lock.lock().wait()).cancel_on(&stop.token())));
        forget((lock, condition));
    }
    stop.cancel();
    assert_eq!(stop.token().registrations(), 0);
    // Whatever the timer does by then was inserted before this.
    let last = Semaphore::new(0);
    let waits = Step::queued(last.acquire(1).timeout(8 * SOON));
    eventually("the timer has done it all", || waits.wakes() == 1);
}

#[test]
fn a_grant_that_is_passed_on() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(SOON);
    let mut first = Step::queued(semaphore.acquire(1));
    let mut second = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    eventually("it is passed on", || second.wakes() == 1);
    drop(second.expect_ready());
    drop(first.expect_ready());
}

#[test]
fn conditions() {
    let (lock, condition) = (Mutex::new(0), Condition::new());
    std::thread::scope(|scope| {
        scope.spawn(|| drop(condition.wait_while(lock.lock().wait(), |n| *n == 0).wait()));
        eventually("it waits", || condition.waiters() == 1);
        let mut guard = lock.lock().wait();
        *guard = 1;
        condition.signal(&guard);
    });
    let last = Step::queued(condition.wait_by(lock.lock().wait(), 3));
    let first = Step::queued(condition.wait_by(lock.lock().wait(), 2).timeout(LONG));
    let mut signalling = Step::queued(condition.signal_urgent(lock.lock().wait()));
    // The signal goes to the next one, which leaves in turn.
    drop(first);
    drop(last);
    drop(signalling.expect_ready());
    let mut again = Step::queued(condition.wait_while(lock.lock().wait(), |n| *n < 2));
    let mut guard = lock.lock().wait();
    *guard = 2;
    condition.broadcast(&guard);
    drop(guard);
    drop(again.expect_ready());
    assert_eq!((condition.waiters(), lock.waiters(), lock.is_locked()), (0, 0, false));
}

#[test]
fn blocking_queues() {
    let text = String::from;
    for queue in [
        BlockingQueue::bounded(2),
        BlockingQueue::unbounded(),
        BlockingQueue::builder().capacity(1).lifo().build(),
        BlockingQueue::builder().capacity(1).by_priority(|s: &String| s.len() as i64).build(),
    ] {
        let take = Step::queued(queue.take());
        queue.put(text("a")).wait().unwrap();
        let mut puts = ["bb", "c", "d"].map(|item| Step::new(queue.put(text(item))));
        let here = puts.iter_mut().filter_map(|put| put.poll().is_ready().then_some(())).count();
        drop(take);
        drop(puts);
        assert!((here..=here + 1).contains(&queue.drain().len()));
    }
    let queue = BlockingQueue::bounded(1);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let queue = &queue;
            scope.spawn(move || (0..4).for_each(|i| queue.put(Box::new((n, i))).wait().unwrap()));
            scope.spawn(move || (0..4).for_each(|_| drop(queue.take().wait().unwrap())));
        }
    });
    queue.try_put(Box::new((0, 0))).unwrap();
    let batch = Step::queued(queue.take_batch(3, LONG).into_future());
    drop(batch);
    assert_eq!(queue.drain().len(), 1);
}

#[test]
fn hand_overs() {
    let queue = TransferQueue::new();
    let mut take = Step::queued(queue.take());
    // Withdrawn from the taker's hands.
    drop(Step::queued(queue.transfer(String::from("x"))));
    take.expect_pending();
    let mut transfer = Step::queued(queue.transfer(String::from("y")));
    assert_eq!(take.expect_ready().unwrap(), "y");
    transfer.expect_ready().unwrap();

    let queue = SynchronousQueue::new();
    std::thread::scope(|scope| {
        scope.spawn(|| queue.put(Box::new(1)).wait().unwrap());
        assert_eq!(*queue.take().wait().unwrap(), 1);
    });

    let exchanger = Exchanger::new();
    let mut first = Step::queued(exchanger.exchange(String::from("a")));
    assert_eq!(exchanger.exchange(String::from("b")).wait(), "a");
    assert_eq!(first.expect_ready(), "b");
}

#[test]
fn meetings() {
    let barrier = Barrier::with_action(2, || ());
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.arrive().wait().unwrap());
        barrier.arrive().wait().unwrap();
    });
    drop(Step::queued(barrier.arrive()));
    assert!(barrier.is_broken());
    let phaser = Phaser::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| phaser.arrive_and_wait().wait().unwrap());
        phaser.arrive_and_wait().wait().unwrap();
    });
    let promise = Promise::<String, ()>::new();
    let mut get = Step::queued(promise.get());
    promise.set("value".into()).unwrap();
    assert_eq!(get.expect_ready().unwrap(), "value");
}

#[test]
fn locks() {
    let lock = Arc::new(RwLock::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                drop(lock.read().wait());
                lock.write().wait().push('x');
                assert!(!lock.write_owned().wait().downgrade().is_empty());
            });
        }
    });
    let reentrant = ReentrantLock::new(Cell::new(1));
    let (outer, inner) = (reentrant.lock().wait().unwrap(), reentrant.lock().wait().unwrap());
    inner.set(outer.get() + 1);
}

#[test]
fn tokens() {
    let root = CancelSource::new();
    let mut chain = vec![root.token()];
    for _ in 0..20 {
        chain.push(chain[chain.len() - 1].child().token());
    }
    let mut waits = Step::queued(chain[20].cancelled());
    root.cancel_after(SOON);
    eventually("the chain fires", || waits.wakes() == 1);
    waits.expect_ready();
    drop(waits);
    drop(chain);
    let unfired = CancelSource::new();
    unfired.cancel_after(SOON);
    drop(unfired);
}

#[test]
fn pools() {
    let pool = Pool::builder().threads(2).build().unwrap();
    let begins = pool.spawn(|| String::from("a"));
    let goes_on = pool.spawn_future(async {
        semaforo::tasks::yield_now().await;
        String::from("b")
    });
    assert_eq!(begins.wait().unwrap() + &goes_on.wait().unwrap(), "ab");
    let mut numbers = vec![1, 2, 3, 4];
    let (left, right) = numbers.split_at_mut(2);
    pool.scope(|scope| {
        scope.execute(|| left[0] = 9);
        scope.spawn(|| right[0] = 8).wait().unwrap();
    });
    assert_eq!(numbers, [9, 2, 8, 4]);
    let cancelled = pool.spawn(|| 1);
    cancelled.cancel();
    drop(cancelled);
    let all = when_all((0..3).map(|n| pool.spawn(move || Box::new(n))));
    assert_eq!(all.wait().unwrap().len(), 3);
    assert_eq!(pool.spawn(|| 5).timeout(LONG).wait().unwrap(), 5);
    pool.shutdown(Shutdown::Cancel).wait();
    let here = CurrentThread::new();
    let handle = here.spawn(|| Box::new(7));
    assert_eq!(*here.run_until(handle).unwrap(), 7);
}

/// One request in several queues, which one of them serves.
#[test]
fn one_of_several_queues() {
    let queues = [(); 2].map(|()| BlockingQueue::bounded(1));
    let ends = [&queues[0], &queues[1]];
    let mut taker = Step::queued(BlockingQueue::take_any(ends));
    drop(Step::queued(BlockingQueue::take_any(ends)));
    queues[1].try_put(String::from("a")).unwrap();
    assert_eq!(taker.expect_ready().unwrap(), (1, String::from("a")));
    queues.iter().for_each(|queue| queue.try_put(String::from("b")).unwrap());
    let mut putter = Step::queued(BlockingQueue::put_any(ends, String::from("c")));
    let stop = CancelSource::new();
    let request = BlockingQueue::put_any(ends, String::from("d")).cancel_on(&stop.token());
    let mut cancelled = Step::queued(request);
    stop.cancel();
    assert!(cancelled.expect_ready().is_err());
    assert_eq!(queues[0].try_take().unwrap(), "b");
    assert_eq!(putter.expect_ready().unwrap(), 0);
    assert_eq!(queues[0].try_take().unwrap(), "c");
}

/// Priorities that lie in boxes, and guards of a part of a value.
#[test]
fn keys_and_parts() {
    let queue = BlockingQueue::builder().capacity(2).by_priority(String::clone).build();
    queue.try_put(String::from("b")).unwrap();
    queue.try_put(String::from("a")).unwrap();
    let mut waits = Step::queued(queue.put(String::from("0")));
    drop(Step::queued(queue.put(String::from("1"))));
    assert_eq!(queue.try_take().unwrap(), "a");
    waits.expect_ready().unwrap();
    assert_eq!(queue.drain(), ["0", "b"]);

    let lock = Arc::new(Mutex::new((String::from("x"), 1)));
    let part = MutexGuard::map(lock.lock().wait(), |pair| &mut pair.0);
    let mut next = Step::queued(lock.lock_owned());
    assert_eq!(*part, "x");
    drop(part);
    assert_eq!(next.expect_ready().1, 1);
}

/// An owner's other holds, and what becomes of them while it waits.
#[test]
fn holds_of_an_owner_that_waits() {
    let (lock, condition) = (ReentrantLock::new(()), ReentrantCondition::new());
    let key = OwnerKey::new();
    let outer = lock.lock_as(&key).wait().unwrap();
    let mut waits = Step::queued(condition.wait(lock.lock_as(&key).wait().unwrap()));
    drop(outer);
    let other = lock.lock_as(&OwnerKey::new()).wait().unwrap();
    assert!(condition.signal_and_leave(other));
    drop(waits.expect_ready());
    assert_eq!((lock.holds(), lock.waiters()), (0, 0));
}

/// Tasks that a token ends, and futures that borrow.
#[test]
fn tasks_with_tokens_and_scoped_futures() {
    let pool = Pool::builder().threads(1).build().unwrap();
    let stop = CancelSource::new();
    let never = Arc::new(Event::new());
    let waits = Arc::clone(&never);
    let future = pool.at(0).cancel_on(&stop.token()).spawn_future(async move {
        waits.happened().await;
    });
    eventually("the future is suspended", || never.waiters() == 1);
    stop.cancel();
    assert!(future.wait().is_err());
    assert_eq!((never.waiters(), Arc::strong_count(&never)), (0, 1));
    let (text, event) = (String::from("borrowed"), Event::new());
    let length = pool.scope(|scope| {
        let length = scope.spawn_future(async {
            event.happened().await;
            text.len()
        });
        scope.execute(|| event.set());
        length.wait().unwrap()
    });
    assert_eq!(length, text.len());
    pool.shutdown(Shutdown::Drain).wait();
}

#[test]
fn queries() {
    const ROWS: usize = 60;
    let words: Vec<String> = (0..ROWS).map(|n| ((n * 7919) % 1000).to_string()).collect();
    let doubled = words.as_parallel().with_threads(2).map(|word| word.repeat(2)).to_vec();
    assert_eq!(doubled.len(), ROWS);
    let long = words.clone().into_parallel().with_threads(2).filter(|w| w.len() > 1).to_vec();
    let sorted = long.into_parallel().with_threads(2).order_by(Clone::clone).to_vec();
    assert!(sorted.is_sorted());
    let groups = words.clone().into_parallel().with_threads(2).group_by(String::len).to_vec();
    assert!(groups.len() <= 3);
    assert!(words.as_parallel().with_threads(2).distinct().count() <= ROWS);
    // Dropped half-way.
    let mut rows = words.clone().into_parallel().with_threads(2).map(|w| w.len()).into_iter();
    rows.by_ref().take(ROWS / 2).for_each(drop);
    drop(rows);
    let part = words.into_parallel().with_threads(2).skip(3).take(ROWS / 2).reverse().to_vec();
    assert_eq!(part.len(), ROWS / 2);
}
