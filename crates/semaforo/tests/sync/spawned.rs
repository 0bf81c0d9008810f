//! Requests and guards of values with lifetimes in them can be held across an `.await` of a task that
//! is sent to another thread: what compiles here is the test.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use semaforo::policy::Exclusive;
use semaforo::query::IntoParallel;
use semaforo::tasks::{Pool, Shutdown, sleep, when_all, when_any};
use semaforo::{
    AutoEvent, Barrier, BlockingQueue, CancelSource, Condition, Event, Exchanger, Interrupted,
    Latch, Monitor, Mutex, MutexGuard, OwnedMutexGuard, OwnerKey, Parker, Phaser, Promise,
    ReentrantLock, ReentrantMonitor, ReentrantRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Semaphore, Synchronizer, SynchronousQueue, TransferQueue,
};

/// Values as users have them: borrowed text, a list of it, a closure that takes a reference.
type Words = Vec<&'static str>;
type Callback = Box<dyn Fn(&str) -> usize + Send + Sync>;

fn callback() -> Callback {
    Box::new(|text| text.len())
}

/// Runs a task that the compiler has to show to be `Send` and `'static`.
fn spawned<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_time().build().expect("a runtime");
    runtime.block_on(runtime.spawn(task)).expect("the task does not panic")
}

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_mutex_and_its_guards() {
    let words = Arc::new(Mutex::new(Words::new()));
    let call = Arc::new(Mutex::new(callback()));
    let token = CancelSource::new().token();
    let total = spawned(async move {
        let mut guard = words.lock().await;
        tokio::task::yield_now().await;
        guard.push("borrowed");
        drop(guard);
        let mut guard = words.lock_owned().timeout(LIMIT).cancel_on(&token).await.unwrap();
        tokio::task::yield_now().await;
        guard.push("owned");
        let shared = &guard;
        tokio::task::yield_now().await;
        let length = call.lock().await;
        tokio::task::yield_now().await;
        length(shared[0]) + length(shared[1])
    });
    assert_eq!(total, 13);
}

#[test]
fn reader_writer_locks() {
    let words = Arc::new(RwLock::new(Words::new()));
    let call = Arc::new(RwLock::new(callback()));
    let length = spawned(async move {
        let mut write = words.write().await;
        tokio::task::yield_now().await;
        write.push("borrowed");
        let read = write.downgrade();
        tokio::task::yield_now().await;
        let other = words.read_owned().timeout(LIMIT).await.unwrap();
        tokio::task::yield_now().await;
        let call = call.read().await;
        tokio::task::yield_now().await;
        call(read[0]) + call(other[0])
    });
    assert_eq!(length, 16);
}

#[test]
fn reentrant_locks() {
    let words = Arc::new(ReentrantLock::new(Mutex::new(Words::new())));
    let read_write = Arc::new(ReentrantRwLock::new(callback()));
    let length = spawned(async move {
        let me = OwnerKey::new();
        let outer = words.lock_as(&me).await.unwrap();
        tokio::task::yield_now().await;
        let inner = words.lock_owned_as(&me).timeout(LIMIT).await.unwrap();
        tokio::task::yield_now().await;
        inner.lock().await.push("borrowed");
        let write = read_write.write_as(&me).await.unwrap();
        tokio::task::yield_now().await;
        let read = read_write.read_owned_as(&me).await.unwrap();
        tokio::task::yield_now().await;
        let word = outer.lock().await[0];
        write(word) + read(word)
    });
    assert_eq!(length, 16);
}

#[test]
fn monitors_and_conditions() {
    let monitor = Arc::new(Monitor::new(Words::new()));
    let reentrant = Arc::new(ReentrantMonitor::new(Mutex::new(Words::new())));
    let lock = Arc::new(Mutex::new(callback()));
    let condition = Arc::new(Condition::new());
    spawned(async move {
        let inside = monitor.enter().await;
        let inside = monitor.wait(inside).timeout(Duration::ZERO).await.unwrap_err().guard;
        tokio::task::yield_now().await;
        let inside = monitor.wait_while(inside, |words| !words.is_empty()).await;
        tokio::task::yield_now().await;
        drop(inside);
        let me = OwnerKey::new();
        let inside = reentrant.enter_as(&me).await.unwrap();
        let inside = reentrant.wait(inside).timeout(Duration::ZERO).await.unwrap_err().guard;
        tokio::task::yield_now().await;
        drop(inside);
        let guard = lock.lock().await;
        let guard = condition.wait(guard).timeout(Duration::ZERO).await;
        let guard = guard.err().expect("there is no signal").guard;
        tokio::task::yield_now().await;
        let guard = condition.signal_urgent(guard).await;
        assert_eq!(guard("four"), 4);
    });
}

#[test]
fn queues() {
    let blocking = Arc::new(BlockingQueue::<&'static str>::bounded(1));
    let calls = Arc::new(BlockingQueue::<Callback>::unbounded());
    let transfer = Arc::new(TransferQueue::<Words>::new());
    let synchronous = Arc::new(SynchronousQueue::<&'static str>::new());
    let token = CancelSource::new().token();
    let sum = spawned(async move {
        blocking.put("x").await.unwrap();
        blocking.put_owned("y").timeout(Duration::ZERO).await.unwrap_err();
        let word = blocking.take().cancel_on(&token).await.unwrap();
        calls.put(callback()).await.unwrap();
        let call = calls.take_owned().await.unwrap();
        blocking.put("batch").await.unwrap();
        let batch = blocking.take_batch(1, LIMIT).await.unwrap();
        transfer.put(vec!["a"]).unwrap();
        let words = transfer.take().timeout(LIMIT).await.unwrap();
        transfer.transfer(vec!["b"]).timeout(Duration::ZERO).await.unwrap_err();
        transfer.transfer_owned(vec!["b"]).timeout(Duration::ZERO).await.unwrap_err();
        synchronous.put("z").timeout(Duration::ZERO).await.unwrap_err();
        synchronous.take_owned().timeout(Duration::ZERO).await.unwrap_err();
        call(word) + call(batch[0]) + call(words[0])
    });
    assert_eq!(sum, 7);
}

#[test]
fn exchangers_and_promises() {
    let exchanger = Arc::new(Exchanger::<&'static str>::new());
    let other = Arc::clone(&exchanger);
    let promise = Arc::new(Promise::<&'static str, &'static str>::new());
    promise.set("kept").unwrap();
    let partner = std::thread::spawn(move || other.exchange("from the thread").wait());
    let got = spawned(async move {
        let kept = promise.get().await.copied();
        assert_eq!(kept, Ok("kept"));
        exchanger.exchange_owned("from the task").await
    });
    assert_eq!((got, partner.join().unwrap()), ("from the thread", "from the task"));
}

#[test]
fn handles_of_tasks() {
    let pool = Arc::new(Pool::builder().threads(1).build().unwrap());
    let words = spawned(async move {
        let handle = pool.spawn(|| vec!["from", "a", "task"]);
        handle.await.unwrap()
    });
    assert_eq!(words.into_parallel().count(), 3);
}

/// The guard of a wait that its limit has ended.
fn ended<G>(waited: Result<G, Interrupted<G>>) -> G {
    waited.err().expect("nothing was signalled").guard
}

/// A closure that may be sent and not shared.
type Action = Box<dyn Fn(&str) -> usize + Send>;

/// Declares a module of tests for each kind of value, all with the same programs.
macro_rules! for_each_value {
    ($($(#[$attribute:meta])* fn $test:ident<$value:ident>($make:ident) $body:block)*) => {
        for_each_value! { @ text: &'static str, "text";
            $($(#[$attribute])* $test $value $make $body)* }
        for_each_value! { @ words: Words, vec!["a", "b"];
            $($(#[$attribute])* $test $value $make $body)* }
        for_each_value! { @ action: Action, callback();
            $($(#[$attribute])* $test $value $make $body)* }
    };
    (@ $module:ident: $type:ty, $new:expr;
        $($(#[$attribute:meta])* $test:ident $value:ident $make:ident $body:block)*
    ) => {
        mod $module {
            use super::*;

            $($(#[$attribute])*
            #[test]
            fn $test() {
                type $value = $type;
                let $make = || -> $value { $new };
                spawned(async move $body);
            })*
        }
    };
}

for_each_value! {
    fn every_wait_of_a_mutex<T>(value) {
        let (lock, other) = (Arc::new(Mutex::<T>::new(value())), Condition::new());
        let token = CancelSource::new().token();
        let guard = lock.lock().deadline(Instant::now() + LIMIT).cancel_on(&token).await.unwrap();
        tokio::task::yield_now().await;
        let part = MutexGuard::map(guard, |whole| whole);
        tokio::task::yield_now().await;
        drop(part);
        let guard = lock.lock_owned().await;
        let guard = ended(other.wait(guard).timeout(Duration::ZERO).await);
        let guard = other.wait_by(guard, 3).cancel_on(&token).timeout(Duration::ZERO).await;
        let guard = ended(guard);
        let guard = other.wait_while(guard, |_| false).await;
        let guard = ended(other.wait_while(guard, |_| true).timeout(Duration::ZERO).await);
        let guard = other.signal_urgent(guard).await;
        tokio::task::yield_now().await;
        let part = OwnedMutexGuard::map(guard, |whole| whole);
        tokio::task::yield_now().await;
        drop(part);
    }

    fn every_wait_of_a_monitor<T>(value) {
        let monitor = Arc::new(Monitor::<T>::new(value()));
        let inside = monitor.enter().timeout(LIMIT).await.unwrap();
        let inside = ended(monitor.wait_by(inside, 1).timeout(Duration::ZERO).await);
        let inside = monitor.wait_while(inside, |_| false).timeout(LIMIT).await.unwrap();
        let inside = monitor.signal_urgent(inside).await;
        tokio::task::yield_now().await;
        assert!(!monitor.signal_and_leave(inside));
    }

    fn every_wait_of_an_exchanger<T>(value) {
        let exchanger = Arc::new(Exchanger::<T>::new());
        let token = CancelSource::new().token();
        let alone = exchanger.exchange(value()).timeout(Duration::ZERO).cancel_on(&token).await;
        assert!(alone.is_err());
        let other = Arc::clone(&exchanger);
        let other = tokio::spawn(async move { other.exchange_owned(value()).await });
        let _own = exchanger.exchange(value()).await;
        let _others = other.await.unwrap();
    }

    fn every_wait_of_a_blocking_queue<T>(value) {
        let queue = Arc::new(BlockingQueue::<T>::bounded(4));
        let full = Arc::new(BlockingQueue::<T>::bounded(1));
        let token = CancelSource::new().token();
        full.put_owned(value()).await.unwrap();
        let queues = [Arc::clone(&full), Arc::clone(&queue)];
        assert_eq!(BlockingQueue::put_any(queues, value()).await.unwrap(), 1);
        queue.put(value()).timeout(LIMIT).cancel_on(&token).await.unwrap();
        let queues = vec![Arc::clone(&queue), Arc::clone(&full)];
        assert_eq!(BlockingQueue::take_any(queues).timeout(LIMIT).await.unwrap().0, 0);
        let put = BlockingQueue::put_any([&*full], value()).timeout(Duration::ZERO).await;
        assert!(put.is_err());
        assert_eq!(queue.take_batch(2, Duration::ZERO).await.unwrap().len(), 1);
        queue.put(value()).await.unwrap();
        let batch = queue.take_batch(2, Duration::ZERO).timeout(LIMIT).cancel_on(&token).await;
        assert_eq!(batch.unwrap().len(), 1);
        queue.put(value()).await.unwrap();
        let mut stream = pin!(queue.stream().timeout(LIMIT).cancel_on(&token));
        assert!(stream.next().await.is_some());
        let mut stream = pin!(queue.stream_owned().timeout(Duration::ZERO));
        assert!(stream.next().await.is_none());
        assert!(full.take_owned().await.is_ok());
        let (sender, receiver) = BlockingQueue::<T>::bounded(2).into_ends();
        sender.put(value()).await.unwrap();
        sender.put(value()).timeout(LIMIT).await.unwrap();
        assert!(receiver.take().await.is_ok());
        let mut stream = pin!(receiver.stream());
        assert!(stream.next().await.is_some());
        drop(sender);
        assert!(stream.next().await.is_none());
    }

    fn every_wait_of_a_transfer_queue<T>(value) {
        let queue = Arc::new(TransferQueue::<T>::new());
        queue.put(value()).unwrap();
        queue.put(value()).unwrap();
        assert!(queue.take_owned().await.is_ok());
        assert_eq!(TransferQueue::take_any([Arc::clone(&queue)]).await.unwrap().0, 0);
        assert!(pin!(queue.stream().timeout(Duration::ZERO)).next().await.is_none());
        assert!(pin!(queue.stream_owned().timeout(Duration::ZERO)).next().await.is_none());
        let (sender, receiver) = TransferQueue::<T>::new().into_ends();
        let taker = tokio::spawn(async move { receiver.take().await.is_ok() });
        sender.transfer(value()).await.unwrap();
        assert!(taker.await.unwrap());
        let transferred = queue.transfer_owned(value()).timeout(Duration::ZERO).await;
        assert!(transferred.is_err());
    }

    fn every_wait_of_a_synchronous_queue<T>(value) {
        let queue = Arc::new(SynchronousQueue::<T>::new());
        let other = Arc::clone(&queue);
        let taker = tokio::spawn(async move {
            other.take().await.is_ok()
                && SynchronousQueue::take_any([Arc::clone(&other)]).await.is_ok()
                && pin!(other.stream_owned()).next().await.is_some()
        });
        queue.put(value()).await.unwrap();
        queue.put_owned(value()).await.unwrap();
        queue.put(value()).timeout(LIMIT).await.unwrap();
        assert!(taker.await.unwrap());
        let (sender, receiver) = SynchronousQueue::<T>::new().into_ends();
        let taker = tokio::spawn(async move { pin!(receiver.stream()).next().await.is_some() });
        sender.put(value()).await.unwrap();
        assert!(taker.await.unwrap());
    }

    fn every_wait_for_a_task<T>(value) {
        let pool = Arc::new(Pool::builder().threads(1).build().unwrap());
        let token = CancelSource::new().token();
        let mut handle = pool.spawn(value);
        handle.finished().await;
        assert!(handle.by_ref().timeout(LIMIT).await.is_ok());
        assert!(pool.spawn(value).timeout(LIMIT).cancel_on(&token).await.is_ok());
        let future = pool.spawn_future(async move { value() });
        assert!(future.deadline(Instant::now() + LIMIT).await.is_ok());
        assert_eq!(when_all([pool.spawn(value), pool.spawn(value)]).await.unwrap().len(), 2);
        let _first = when_any([pool.spawn(value)]).await;
        let held = Some(value());
        sleep(Duration::from_millis(1)).cancel_on(&token).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        assert!(held.is_some());
        pool.shutdown(Shutdown::Drain).timeout(LIMIT).await.unwrap();
    }

    /// What has no value of its own, beside one that the task has.
    fn every_wait_without_a_value<T>(value) {
        let held = Some(value());
        let token = CancelSource::new().token();
        let semaphore = Arc::new(Semaphore::new(3));
        let permit = semaphore.acquire(1).await.unwrap();
        let owned = semaphore.acquire_owned(1).timeout(LIMIT).cancel_on(&token).await.unwrap();
        tokio::task::yield_now().await;
        drop((permit, owned));
        let (latch, event) = (Latch::new(0), Event::new());
        let (auto, parker) = (AutoEvent::new(), Parker::new());
        event.set();
        auto.set();
        parker.unpark();
        latch.opened().await;
        event.happened().timeout(LIMIT).await.unwrap();
        auto.happened().cancel_on(&token).await.unwrap();
        parker.park().await;
        let barrier = Arc::new(Barrier::new(1));
        barrier.arrive().await.unwrap();
        barrier.arrive_owned().timeout(LIMIT).await.unwrap();
        let phaser = Arc::new(Phaser::new(1));
        phaser.arrive_and_wait().await.unwrap();
        phaser.arrive_and_wait_owned().timeout(LIMIT).await.unwrap();
        phaser.advanced(0).await.unwrap();
        phaser.advanced_owned(0).timeout(LIMIT).await.unwrap().unwrap();
        assert!(token.cancelled().timeout(Duration::ZERO).await.is_err());
        let (lock, condition) = (Arc::new(Synchronizer::new(Exclusive, 0)), Condition::new());
        drop(lock.acquire(()).await);
        let own = lock.acquire_owned(()).await;
        let own = ended(condition.wait(own).timeout(Duration::ZERO).await);
        tokio::task::yield_now().await;
        drop(own);
        assert!(held.is_some());
    }
}

/// Locks whose value is shared by their holders.
macro_rules! for_each_shared_value {
    ($($module:ident: $type:ty = $new:expr),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[test]
            fn every_wait_of_an_rwlock() {
                spawned(async {
                    let lock = Arc::new(RwLock::<$type>::new($new));
                    let condition = Condition::new();
                    let read = lock.read().timeout(LIMIT).await.unwrap();
                    let part = RwLockReadGuard::map(read, |whole| whole);
                    tokio::task::yield_now().await;
                    drop((part, lock.read_owned().await));
                    let write = lock.write().await;
                    let write = condition.wait(write).timeout(Duration::ZERO).await;
                    let part = RwLockWriteGuard::map(ended(write), |whole| whole);
                    tokio::task::yield_now().await;
                    drop(part);
                    let write = lock.write_owned().timeout(LIMIT).await.unwrap();
                    let write = condition.wait_while(write, |_| false).await;
                    tokio::task::yield_now().await;
                    drop(write.downgrade());
                });
            }

            #[test]
            fn every_wait_of_a_reentrant_lock() {
                spawned(async {
                    let me = OwnerKey::new();
                    let lock = Arc::new(ReentrantLock::<$type>::new($new));
                    let condition = Condition::new();
                    let guard = lock.lock_as(&me).timeout(LIMIT).await.unwrap();
                    let guard = condition.wait(guard).timeout(Duration::ZERO).await;
                    tokio::task::yield_now().await;
                    drop(ended(guard));
                    let guard = lock.lock_owned_as(&me).await.unwrap();
                    let guard = condition.wait_while(guard, |_| false).await;
                    tokio::task::yield_now().await;
                    drop(guard);
                    let monitor = Arc::new(ReentrantMonitor::<$type>::new($new));
                    let inside = monitor.enter_as(&me).timeout(LIMIT).await.unwrap();
                    let inside = monitor.wait_by(inside, 1).timeout(Duration::ZERO).await;
                    let inside = monitor.wait_while(ended(inside), |_| false).await;
                    let inside = monitor.signal_urgent(inside).await;
                    tokio::task::yield_now().await;
                    drop(inside);
                });
            }

            #[test]
            fn every_wait_of_a_reentrant_rwlock() {
                spawned(async {
                    let me = OwnerKey::new();
                    let lock = Arc::new(ReentrantRwLock::<$type>::new($new));
                    let condition = Condition::new();
                    let read = lock.read_as(&me).timeout(LIMIT).await.unwrap();
                    let owned = lock.read_owned_as(&me).await.unwrap();
                    tokio::task::yield_now().await;
                    drop((read, owned));
                    let write = lock.write_as(&me).timeout(LIMIT).await.unwrap();
                    let write = condition.wait(write).timeout(Duration::ZERO).await;
                    tokio::task::yield_now().await;
                    drop(ended(write));
                    let write = lock.write_owned_as(&me).await.unwrap();
                    let write = condition.wait_while(write, |_| false).await;
                    tokio::task::yield_now().await;
                    drop(write);
                });
            }

            #[test]
            fn every_wait_of_a_promise() {
                spawned(async {
                    let promise = Arc::new(Promise::<$type, $type>::new());
                    let token = CancelSource::new().token();
                    let early = promise.get().timeout(Duration::ZERO).cancel_on(&token).await;
                    assert!(early.is_err());
                    let _ = promise.fail($new);
                    let failed = promise.get().await.is_err();
                    tokio::task::yield_now().await;
                    assert!(failed && promise.get().timeout(LIMIT).await.unwrap().is_err());
                });
            }
        }
    )*};
}

for_each_shared_value! {
    shared_text: &'static str = "text",
    shared_words: Words = vec!["a", "b"],
    shared_callback: Callback = callback(),
}
