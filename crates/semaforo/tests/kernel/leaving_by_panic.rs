//! A thread that leaves its wait by a panic, and a visit that is part of one, keep or give back what
//! they were served: never both, never neither.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::support::{Step, in_its_own_process, leaked, waker_that};
use semaforo::{BlockingQueue, Semaphore};

/// Runs `inside` in a waker, where wake-ups of tasks are owed until it returns or goes to sleep. Gives
/// what the releasing thread sees: the panic of a waker, or none.
fn in_a_waker(inside: impl Fn() + Send + Sync + 'static) -> bool {
    let first = leaked(Semaphore::new(0));
    let mut outer = Step::new(first.acquire(1));
    assert!(outer.poll_with(&waker_that(inside)).is_pending());
    let released = catch_unwind(AssertUnwindSafe(|| first.release(1)));
    released.is_err()
}

#[test]
fn a_thread_that_is_served_while_it_leaves_by_a_panic_gives_back() {
    in_its_own_process(|| {
        let wanted = leaked(Semaphore::new(0));
        let other = leaked(Semaphore::new(0));
        // Woken just before the thread sleeps: it serves the thread, and panics.
        let mut owed = Step::new(other.acquire(1));
        let waker = waker_that(|| {
            wanted.release(1).unwrap();
            panic!("a waker that panics after it has served the one that runs it");
        });
        assert!(owed.poll_with(&waker).is_pending());
        let panicked = in_a_waker(|| {
            other.release(1).unwrap();
            let permit = wanted.acquire(1).wait();
            unreachable!("the wait ends by a panic, not by {permit:?}");
        });
        assert!(panicked, "the waker's panic reaches the one who released");
        assert_eq!((wanted.available(), wanted.held(), wanted.waiters()), (1, 0, 0));
    });
}

#[test]
fn a_taker_that_is_handed_an_item_while_it_leaves_by_a_panic_gives_it_back() {
    in_its_own_process(|| {
        let wanted = leaked(BlockingQueue::unbounded());
        let other = leaked(Semaphore::new(0));
        let mut owed = Step::new(other.acquire(1));
        let waker = waker_that(|| {
            wanted.try_put("item").unwrap();
            panic!("a waker that panics after it has served the one that runs it");
        });
        assert!(owed.poll_with(&waker).is_pending());
        let panicked = in_a_waker(|| {
            other.release(1).unwrap();
            let item = wanted.take().wait();
            unreachable!("the wait ends by a panic, not by {item:?}");
        });
        assert!(panicked);
        assert_eq!((wanted.len(), wanted.waiters()), (1, 0));
        assert_eq!(wanted.try_take(), Ok("item"));
    });
}

/// Calls its closure when dropped, while a panic goes by.
struct InAPanic<F: FnMut()>(F);

impl<F: FnMut()> Drop for InAPanic<F> {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        (self.0)();
    }
}

#[test]
fn a_visit_that_is_part_of_a_panic_keeps_what_it_was_served_although_a_waker_panics() {
    let semaphore = leaked(Semaphore::barging(0));
    let mut first = Step::queued(semaphore.acquire(1));
    let mut second = Step::panicking(semaphore.acquire(1));
    // In barging mode the first is told to try again, and tells the second when it has.
    semaphore.release(2).unwrap();
    let kept = Arc::new(Mutex::new(None));
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _visit = InAPanic(|| *kept.lock().unwrap() = Some(first.expect_ready()));
        panic!("the panic that the visit is part of");
    }));
    assert!(unwound.is_err());
    let permit = kept.lock().unwrap().take().expect("visited").expect("not closed");
    assert_eq!((semaphore.available(), semaphore.held()), (1, 1));
    drop(permit);
    drop(second.expect_ready().unwrap());
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (2, 0, 0));
}
