//! Promise 7, counted: no allocation on the uncontended path nor per waiter, at most one per object
//! that was ever contended. Also case X-18: attempts that end leave nothing behind.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semaforo::policy::Exclusive;
use semaforo::{
    AutoEvent, BlockingQueue, CancelSource, CancelToken, Condition, Event, Latch, Mutex, OwnerKey,
    Parker, ReentrantLock, RwLock, Semaphore, Synchronizer, SynchronousQueue, TransferQueue,
};
use support::{LONG, Waiter, eventually, leaked};

/// Counts what this thread allocates and gives back, so that tests can run beside each other.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
    static FREED: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        FREED.set(FREED.get() + 1);
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(pointer, layout) };
    }
}

/// How often this thread allocates while it runs this.
fn allocations(run: impl FnOnce()) -> isize {
    let before = ALLOCATED.get();
    run();
    ALLOCATED.get() - before
}

/// What this thread keeps of what it allocates while it runs this.
fn kept(run: impl FnOnce()) -> isize {
    let before = ALLOCATED.get() - FREED.get();
    run();
    ALLOCATED.get() - FREED.get() - before
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a request on the stack, and expects it to be granted.
macro_rules! granted {
    ($request:expr) => {{
        let mut request = pin!($request);
        let Poll::Ready(output) = poll(request.as_mut()) else { panic!("it is available") };
        black_box(output)
    }};
}

/// The timer's thread starts with the first limit that is waited for.
fn start_the_timer() {
    let latch = Latch::new(1);
    assert!(poll(pin!(latch.opened().timeout(LONG))).is_pending());
}

#[test]
fn nothing_is_allocated_while_nobody_waits() {
    let stop = CancelSource::new();
    let (token, other) = (stop.token(), CancelSource::new().token());
    let (semaphore, mutex, lock) = (Semaphore::new(1), Mutex::new(0), RwLock::new(0));
    let (reentrant, key) = (ReentrantLock::new(0), OwnerKey::new());
    let (latch, event, auto) = (Latch::new(0), Event::new_set(), AutoEvent::new());
    let (parker, own) = (Parker::new(), Synchronizer::new(Exclusive, 0));
    macro_rules! check {
        ($($prepare:block $request:expr),* $(,)?) => {$(
            let count = allocations(|| {
                $prepare drop($request.wait());
                $prepare drop($request.timeout(LONG).wait());
                $prepare drop($request.cancel_on(&token).wait());
                $prepare drop($request.cancel_on(&token).timeout(LONG).cancel_on(&other).wait());
                $prepare drop(granted!($request));
                $prepare drop(granted!($request.timeout(LONG)));
                $prepare drop(granted!($request.cancel_on(&token)));
                $prepare drop(granted!($request.cancel_on(&token).timeout(LONG).cancel_on(&other)));
            });
            assert_eq!(count, 0, "{}", stringify!($request));
        )*};
    }
    #[allow(clippy::drop_non_drop, dropping_copy_types, reason = "some requests yield nothing")]
    {
        check! {
            {} semaphore.acquire(1),
            {} mutex.lock(),
            {} lock.read(),
            {} lock.write(),
            {} reentrant.lock(),
            {} reentrant.lock_as(&key),
            {} latch.opened(),
            {} event.happened(),
            { auto.set(); } auto.happened(),
            { parker.unpark(); } parker.park(),
            {} own.acquire(()),
        }
    }
    let tried = allocations(|| {
        drop(semaphore.try_acquire(1));
        drop(mutex.try_lock());
        drop(lock.try_read().map(semaforo::RwLockReadGuard::try_upgrade));
        drop(lock.try_write().map(semaforo::RwLockWriteGuard::downgrade));
        drop(reentrant.try_lock());
        semaphore.release(1).unwrap();
        semaphore.drain();
        assert!(!auto.try_pass() && latch.try_pass());
        assert_eq!(semaphore.waiters() + mutex.waiters(), 0);
    });
    assert_eq!(tried, 0);
}

#[test]
fn an_object_allocates_once_when_it_is_first_contended() {
    start_the_timer();
    let token = CancelSource::new().token();
    let semaphore = Semaphore::new(0);
    let first = allocations(|| assert!(poll(pin!(semaphore.acquire(1))).is_pending()));
    assert_eq!(first, 1);
    let later = allocations(|| contend(&semaphore, &token));
    assert_eq!(later, 0);
    let lock = RwLock::new(());
    let guard = lock.write().wait();
    let first = allocations(|| {
        assert!(poll(pin!(lock.read().timeout(LONG))).is_pending());
        assert!(poll(pin!(lock.write().cancel_on(&token))).is_pending());
    });
    assert_eq!(first, 1);
    drop(guard);
}

/// Queues, withdraws, grants and claims in every way.
fn contend(semaphore: &Semaphore, token: &CancelToken) {
    for _ in 0..10 {
        assert!(poll(pin!(semaphore.acquire(1))).is_pending());
        assert!(poll(pin!(semaphore.acquire(1).timeout(LONG))).is_pending());
        assert!(poll(pin!(semaphore.acquire(1).cancel_on(token))).is_pending());
        let mut first = pin!(semaphore.acquire(1));
        let mut second = pin!(semaphore.acquire(1).timeout(LONG).cancel_on(token));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        semaphore.release(1).unwrap();
        assert!(poll(second.as_mut()).is_pending());
        let Poll::Ready(permit) = poll(first.as_mut()) else { panic!("granted") };
        drop(permit);
        let Poll::Ready(permit) = poll(second.as_mut()) else { panic!("granted") };
        permit.unwrap().forget();
    }
}

#[test]
fn a_waiting_task_allocates_nothing() {
    start_the_timer();
    let stop = CancelSource::new();
    let token = stop.token();
    let mutex = Mutex::new(());
    let guard = mutex.lock().wait();
    assert!(poll(pin!(mutex.lock())).is_pending());
    let count = allocations(|| {
        assert!(poll(pin!(mutex.lock())).is_pending());
        assert!(poll(pin!(mutex.lock().timeout(LONG))).is_pending());
        assert!(poll(pin!(mutex.lock().cancel_on(&token))).is_pending());
        assert!(poll(pin!(mutex.lock().timeout(LONG).cancel_on(&token))).is_pending());
    });
    assert_eq!(count, 0);
    drop(guard);
}

/// Not for the request, nor for the lock; a condition once, when it is first waited on.
#[test]
fn a_task_that_waits_on_a_condition_allocates_nothing() {
    start_the_timer();
    let token = CancelSource::new().token();
    let lock = Mutex::new(());
    let wait = |condition: &Condition| {
        allocations(|| {
            let mut waiting = pin!(condition.wait(lock.lock().wait()));
            assert!(poll(waiting.as_mut()).is_pending());
            assert!(condition.signal(&lock.lock().wait()));
            assert!(poll(waiting).is_ready());
        })
    };
    let (condition, another) = (Condition::new(), Condition::new());
    assert_eq!(wait(&condition), 2, "the lock and the condition, for the first time");
    assert_eq!((wait(&condition), wait(&another), wait(&another)), (0, 1, 0));
    let count = allocations(|| {
        let bounded = condition.wait(lock.lock().wait()).timeout(LONG).cancel_on(&token);
        assert!(poll(pin!(bounded)).is_pending());
        assert!(poll(pin!(condition.wait_by(lock.lock().wait(), 7))).is_pending());
    });
    assert_eq!(count, 0);
}

/// A second token costs something only if the request has to wait: the two are joined then, for as
/// long as it waits.
#[test]
fn two_tokens_are_joined_only_to_wait() {
    let tokens = [CancelSource::new().token(), CancelSource::new().token()];
    let (open, shut) = (Latch::new(0), Latch::new(1));
    assert!(poll(pin!(shut.opened())).is_pending());
    let both = |latch| Latch::opened(latch).cancel_on(&tokens[0]).cancel_on(&tokens[1]);
    let count = allocations(|| assert!(poll(pin!(both(&open))).is_ready()));
    assert_eq!(count, 0);
    assert!(poll(pin!(both(&shut))).is_pending());
    assert_eq!(tokens.map(|token| token.registrations()), [0, 0]);
}

/// A thread that has waited before, for an object that was waited for before, allocates nothing.
#[test]
fn a_waiting_thread_allocates_nothing() {
    static ASLEEP_ONCE: AtomicBool = AtomicBool::new(false);
    let semaphore = leaked(Semaphore::new(0));
    let stop = leaked(CancelSource::new());
    let thread = Waiter::on_a_thread(|| {
        let token = stop.token();
        // Long enough to fall asleep, for which a thread needs something once.
        let limit = Duration::from_millis(5);
        assert!(semaphore.acquire(1).timeout(limit).wait().is_err());
        ASLEEP_ONCE.store(true, Ordering::SeqCst);
        [
            allocations(|| semaphore.acquire(1).wait().unwrap().forget()),
            allocations(|| semaphore.acquire(1).timeout(LONG).wait().unwrap().forget()),
            allocations(|| semaphore.acquire(1).cancel_on(&token).wait().unwrap().forget()),
            allocations(|| {
                let limit = Duration::from_micros(100);
                assert!(semaphore.acquire(1).timeout(limit).cancel_on(&token).wait().is_err());
            }),
        ]
    });
    for _ in 0..3 {
        eventually("it has fallen asleep once, and waits", || {
            ASLEEP_ONCE.load(Ordering::SeqCst) && semaphore.waiters() == 1
        });
        assert_eq!(allocations(|| semaphore.release(1).unwrap()), 0);
    }
    assert_eq!(thread.join(), [0; 4]);
}

/// Firing a token for many allocates only for the list of tokens to fire.
#[test]
fn firing_a_token_does_not_allocate_per_waiter() {
    let count_for = |waiters: usize| {
        let (latch, stop) = (Latch::new(1), CancelSource::new());
        let token = stop.token();
        let mut requests: Vec<_> =
            (0..waiters).map(|_| Box::pin(latch.opened().cancel_on(&token))).collect();
        for request in &mut requests {
            assert!(poll(request.as_mut()).is_pending());
        }
        allocations(|| stop.cancel())
    };
    assert_eq!(count_for(100), count_for(1));
}

///
#[test]
fn short_attempts_keep_nothing() {
    start_the_timer();
    let held = leaked(Mutex::new(()));
    let event = leaked(AutoEvent::new());
    let stop = leaked(CancelSource::new());
    let _guard = held.lock().wait();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            Waiter::on_a_thread(|| {
                let token = stop.token();
                let attempt = |limit| {
                    let limit = Duration::from_nanos(limit);
                    assert!(held.lock().timeout(limit).wait().is_err());
                    assert!(event.happened().timeout(limit).cancel_on(&token).wait().is_err());
                    assert!(poll(pin!(held.lock().timeout(LONG).cancel_on(&token))).is_pending());
                };
                (0..100).for_each(attempt);
                kept(|| (0..300).for_each(attempt))
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join(), 0);
    }
    assert_eq!((held.waiters(), event.waiters(), stop.token().registrations()), (0, 0, 0));
}

/// A queue allocates when it is built or first used, and an unbounded one when it grows.
#[test]
fn a_queue_allocates_nothing_while_nobody_waits() {
    let token = CancelSource::new().token();
    let made = |make: fn() -> BlockingQueue<u64>| allocations(|| drop(black_box(make())));
    let used = |make: fn() -> BlockingQueue<u64>| allocations(|| assert!(make().is_empty()));
    assert_eq!(made(|| BlockingQueue::bounded(64)), 0);
    assert_eq!(used(|| BlockingQueue::bounded(64)), 2, "itself, and the room");
    assert_eq!(made(|| BlockingQueue::builder().capacity(64).build()), 2);
    assert_eq!((made(BlockingQueue::unbounded), used(BlockingQueue::unbounded)), (0, 1));
    assert_eq!(allocations(|| drop(black_box(TransferQueue::<u64>::new()))), 0);
    assert_eq!(allocations(|| assert_eq!(TransferQueue::<u64>::new().len(), 0)), 1);
    assert_eq!(allocations(|| drop(black_box(SynchronousQueue::<u64>::new()))), 0);
    assert_eq!(allocations(|| assert_eq!(SynchronousQueue::<u64>::new().waiters(), 0)), 1);
    let sized = || BlockingQueue::builder().capacity(4);
    let bounded = sized().build();
    // Grown by the first round.
    let grown = [BlockingQueue::unbounded(), sized().lifo().build()];
    let transfers = TransferQueue::new();
    let pass = |queue: &BlockingQueue<u64>| {
        for _ in 0..3 {
            queue.try_put(1).unwrap();
            queue.put(2).wait().unwrap();
            granted!(queue.put(3).timeout(LONG)).unwrap();
            granted!(queue.put(4).cancel_on(&token)).unwrap();
            queue.peek().unwrap();
            queue.try_take().unwrap();
            queue.take().wait().unwrap();
            granted!(queue.take().timeout(LONG)).unwrap();
            granted!(queue.take().cancel_on(&token)).unwrap();
            assert!(queue.is_empty() && queue.waiters() == 0);
        }
    };
    assert_eq!(allocations(|| pass(&bounded)), 0);
    for queue in &grown {
        pass(queue);
        assert_eq!(allocations(|| pass(queue)), 0);
    }
    let pass = || {
        (0..3).for_each(|item| transfers.put(item).unwrap());
        transfers.try_take().unwrap();
        granted!(transfers.take().timeout(LONG)).unwrap();
        transfers.take().wait().unwrap();
        assert!(transfers.try_transfer(1).is_err());
    };
    pass();
    assert_eq!(allocations(pass), 0);
}

/// Nor per waiter: a waiter lives in its request, and what is handed to it is written there.
#[test]
fn a_task_that_waits_for_a_queue_allocates_nothing() {
    start_the_timer();
    let token = CancelSource::new().token();
    let (full, empty) = (BlockingQueue::bounded(1), BlockingQueue::<u64>::unbounded());
    full.try_put(1).unwrap();
    let meeting = SynchronousQueue::new();
    let wait = || {
        assert!(poll(pin!(full.put(2))).is_pending());
        assert!(poll(pin!(full.put(2).timeout(LONG).cancel_on(&token))).is_pending());
        assert!(poll(pin!(empty.take())).is_pending());
        assert!(poll(pin!(empty.take().timeout(LONG).cancel_on(&token))).is_pending());
        assert!(poll(pin!(meeting.take().timeout(LONG))).is_pending());
        // Let in, handed over, claimed, and passed on.
        let mut put = pin!(full.put(2));
        assert!(poll(put.as_mut()).is_pending());
        full.try_take().unwrap();
        assert!(poll(put).is_ready());
        let (mut first, mut second) = (pin!(empty.take()), pin!(empty.take().timeout(LONG)));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        empty.try_put(1).unwrap();
        empty.try_put(2).unwrap();
        assert!(poll(first).is_ready() && poll(second).is_ready());
        let mut taker = pin!(meeting.take());
        assert!(poll(taker.as_mut()).is_pending());
        assert!(poll(pin!(meeting.put(1))).is_ready());
        assert!(poll(taker).is_ready());
    };
    wait();
    assert_eq!(allocations(wait), 0);
}

/// The line of messages grows as any queue does, not with each of them.
#[test]
fn transfers_do_not_allocate_one_by_one() {
    let queue = TransferQueue::new();
    let mut requests: Vec<_> = (0..1000).map(|item| Box::pin(queue.transfer(item))).collect();
    let grown = allocations(|| {
        for request in &mut requests {
            assert!(poll(request.as_mut()).is_pending());
        }
    });
    assert!(grown <= 12, "{grown} allocations");
    // Withdrawn from the middle, from the end, and taken.
    let shrunk = allocations(|| {
        requests.drain(200..700);
        requests.truncate(400);
        while queue.try_take().is_ok() {}
    });
    assert_eq!((shrunk, queue.len()), (0, 0));
}

/// Answering many allocates nothing, whoever they are.
#[test]
fn closing_and_draining_do_not_allocate_per_waiter() {
    let queue = BlockingQueue::<u64>::bounded(1);
    let mut takers: Vec<_> = (0..100).map(|_| Box::pin(queue.take())).collect();
    takers.iter_mut().for_each(|taker| assert!(poll(taker.as_mut()).is_pending()));
    // What several wakers are owed is noted once per thread.
    let closed = allocations(|| assert!(queue.close()));
    assert!(closed <= 6, "{closed} allocations");
    let other = BlockingQueue::<u64>::bounded(1);
    let mut takers: Vec<_> = (0..100).map(|_| Box::pin(other.take())).collect();
    takers.iter_mut().for_each(|taker| assert!(poll(taker.as_mut()).is_pending()));
    assert_eq!(allocations(|| assert!(other.close())), 0);
}

/// also timed polls of empty queues.
#[test]
fn short_looks_at_an_empty_queue_keep_nothing() {
    start_the_timer();
    let queue = leaked(BlockingQueue::<u64>::bounded(1));
    let transfers = leaked(TransferQueue::<u64>::new());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            Waiter::on_a_thread(|| {
                let attempt = |limit| {
                    let limit = Duration::from_nanos(limit);
                    assert!(queue.take().timeout(limit).wait().is_err());
                    assert!(transfers.take().timeout(limit).wait().is_err());
                    assert!(poll(pin!(queue.take().timeout(LONG))).is_pending());
                    assert!(poll(pin!(transfers.take().timeout(LONG))).is_pending());
                };
                (0..100).for_each(attempt);
                kept(|| (0..300).for_each(attempt))
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join(), 0);
    }
    assert_eq!((queue.waiters(), transfers.waiters()), (0, 0));
}
