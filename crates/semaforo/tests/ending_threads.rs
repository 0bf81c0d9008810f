//! A thread that is ending has lost some of its thread-local storage, also the library's own, and may
//! still release and wait, in the destructors of what is left.

mod support;

use std::cell::RefCell;

use semaforo::tasks::Pool;
use semaforo::{Event, ReentrantLock, Semaphore};
use support::{Step, Waiter, leaked};

/// Runs something when its thread ends.
struct AtTheEnd(RefCell<Option<Box<dyn FnOnce()>>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

thread_local! {
    static AT_THE_END: AtTheEnd = const { AtTheEnd(RefCell::new(None)) };
}

fn at_the_end_of_this_thread(run: impl FnOnce() + 'static) {
    AT_THE_END.with(|end| *end.0.borrow_mut() = Some(Box::new(run)));
}

/// Makes this thread use whatever thread-local storage the library has.
fn wait_and_wake_a_little() {
    let semaphore = Semaphore::new(0);
    let limit = std::time::Duration::from_millis(3);
    assert!(semaphore.acquire(1).timeout(limit).wait().is_err());
    let mut step = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    drop(step.expect_ready().unwrap());
    drop(ReentrantLock::new(()).lock().wait().unwrap());
}

#[test]
fn an_ending_thread_releases_waits_and_locks() {
    // Whichever was used last is destroyed first, so both orders are tried.
    for library_first in [true, false] {
        let semaphore = leaked(Semaphore::new(0));
        let (asked, answered) = (leaked(Event::new()), leaked(Event::new()));
        let reentrant = leaked(ReentrantLock::new(()));
        let mut task = Step::queued(semaphore.acquire(1));
        let thread = Waiter::on_a_thread(|| semaphore.acquire(1).wait().map(drop));
        support::until_queued(semaphore, 2);
        let ending = std::thread::spawn(move || {
            if library_first {
                wait_and_wake_a_little();
            }
            at_the_end_of_this_thread(|| {
                semaphore.release(2).unwrap();
                let _outer = reentrant.lock().wait().unwrap();
                let _inner = reentrant.lock().wait().unwrap();
                asked.set();
                answered.happened().wait();
            });
            if !library_first {
                wait_and_wake_a_little();
            }
        });
        asked.happened().wait();
        support::until_queued(answered, 1);
        answered.set();
        ending.join().unwrap();
        drop(task.expect_ready().unwrap());
        thread.join().unwrap();
        assert_eq!((semaphore.available(), reentrant.holds()), (2, 0));
    }
}

/// A worker's thread that ends knows no pool any more: what it does then is no task's.
#[test]
fn an_ending_worker_waits_like_any_other_thread() {
    let (ending, answered) = (leaked(Event::new()), leaked(Event::new()));
    let ended = leaked(Event::new());
    let pool = Pool::builder().threads(1).build().unwrap();
    let task = pool.spawn(move || {
        wait_and_wake_a_little();
        at_the_end_of_this_thread(|| {
            ending.set();
            answered.happened().wait();
            drop(ReentrantLock::new(()).lock().wait().unwrap());
            ended.set();
        });
    });
    task.wait().unwrap();
    let shutdown = Waiter::on_a_thread(move || drop(pool));
    ending.happened().wait();
    answered.set();
    ended.happened().wait();
    shutdown.join();
}
