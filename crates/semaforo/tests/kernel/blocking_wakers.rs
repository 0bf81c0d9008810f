//! A waker that waits for one of the library's objects: whatever its thread still has to tell others is
//! told before it sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Step, eventually, in_its_own_process, leaked, waker_that};
use semaforo::tasks::{CurrentThread, Pool};
use semaforo::{BlockingQueue, Latch, Semaphore};

/// More than are woken at a time.
const MANY: u32 = 40;

/// Releases `MANY` waiters of a semaphore. The waker of the first blocks as it is told, until the last
/// one, a thread, has been let through.
fn released_with(block: impl Fn(&'static Latch) + Send + Sync + 'static) {
    let semaphore = leaked(Semaphore::new(0));
    let last = leaked(Latch::new(1));
    let mut first = Step::new(semaphore.acquire(1));
    assert!(first.poll_with(&waker_that(move || block(last))).is_pending());
    let between: Vec<_> = (2..MANY).map(|_| Step::queued(semaphore.acquire(1))).collect();
    let thread = std::thread::spawn(|| {
        semaphore.acquire(1).wait().unwrap().forget();
        last.count_down();
    });
    eventually("all wait", || semaphore.waiters() == MANY as usize);
    semaphore.release(MANY).unwrap();
    thread.join().unwrap();
    assert!(between.iter().all(|waiter| waiter.wakes() == 1));
}

#[test]
fn waiting_for_one_that_finds_no_room_in_the_first_batch() {
    in_its_own_process(|| released_with(|last| last.opened().wait()));
}

#[test]
fn waiting_in_a_scope() {
    in_its_own_process(|| {
        let pool = leaked(Pool::builder().threads(1).build().unwrap());
        released_with(|last| pool.scope(|scope| scope.execute(|| last.opened().wait())));
    });
}

#[test]
fn waiting_in_a_scheduler_of_this_thread() {
    in_its_own_process(|| {
        released_with(|last| CurrentThread::new().run_until(async { last.opened().await }));
    });
}

#[test]
fn waiting_for_one_that_finds_no_room_in_the_first_batch_of_a_queue() {
    in_its_own_process(|| {
        let queue = leaked(BlockingQueue::<u32>::unbounded());
        let told = Arc::new(AtomicUsize::new(0));
        let last = leaked(Latch::new(1));
        let mut first = Step::new(queue.take());
        assert!(first.poll_with(&waker_that(|| last.opened().wait())).is_pending());
        let mut between: Vec<_> = (1..MANY).map(|_| Step::new(queue.take())).collect();
        for waiter in &mut between {
            let told = Arc::clone(&told);
            let waker = waker_that(move || {
                if told.fetch_add(1, Ordering::SeqCst) + 2 == MANY as usize {
                    last.count_down();
                }
            });
            assert!(waiter.poll_with(&waker).is_pending());
        }
        queue.close();
        assert_eq!(told.load(Ordering::SeqCst) + 1, MANY as usize);
    });
}
