//! How long a grant stays with a task that does not come, while others wait: at least half the
//! patience, at most all of it.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::support::{Step, eventually, held_up, leaked, waker_that};
use semaforo::{Condition, Mutex, Semaphore, TransferQueue};

/// Long enough that the timer's thread runs in time on a busy machine, at least once in a few attempts.
const PATIENCE: Duration = Duration::from_millis(300);
const ATTEMPTS: usize = 5;

/// When something was woken.
#[derive(Clone, Default)]
struct Woken(Arc<OnceLock<Instant>>);

impl Woken {
    fn waker(&self) -> Waker {
        let own = Arc::clone(&self.0);
        waker_that(move || _ = own.set(Instant::now()))
    }

    fn when(&self, what: &str) -> Instant {
        eventually(what, || self.0.get().is_some());
        *self.0.get().unwrap()
    }
}

/// A grant that is not claimed, and who gets it when it is passed on.
struct Unclaimed {
    /// Before it was made.
    granted: Instant,
    follower: Woken,
    /// The object and its requests.
    _objects: Box<dyn Any>,
}

/// The grant is passed on not before half the patience, however busy the machine is, and before a limit
/// a little longer than the patience that the same timer looks after. Only an upper bound can be missed
/// because the machine is busy, and is not missed each time.
fn expect_patience(unclaimed: impl Fn() -> Unclaimed) {
    let in_time = |_| {
        let idle = Semaphore::new(0);
        let limit = Woken::default();
        let unclaimed = unclaimed();
        let mut waits = Step::new(idle.acquire(1).timeout(PATIENCE + PATIENCE / 4));
        assert!(waits.poll_with(&limit.waker()).is_pending());
        let passed_on = unclaimed.follower.when("the grant is passed on");
        let kept = passed_on.duration_since(unclaimed.granted);
        assert!(kept >= PATIENCE / 2, "passed on after {kept:?}");
        passed_on < limit.when("the limit passes")
    };
    assert!((0..ATTEMPTS).any(in_time), "passed on after more than the patience, {ATTEMPTS} times");
}

#[test]
fn a_permit() {
    expect_patience(|| {
        let semaphore = leaked(Semaphore::new(0));
        semaphore.set_patience(PATIENCE);
        let unpolled = Step::queued(semaphore.acquire(1));
        let (follower, mut next) = (Woken::default(), Step::new(semaphore.acquire(1)));
        assert!(next.poll_with(&follower.waker()).is_pending());
        let granted = Instant::now();
        semaphore.release(1).unwrap();
        Unclaimed { granted, follower, _objects: Box::new((unpolled, next)) }
    });
}

/// The watchdog is on its way already, because of an older grant: it does not come too soon for the
/// younger one.
#[test]
fn a_permit_that_is_granted_just_before_the_watchdog_looks() {
    expect_patience(|| {
        let semaphore = leaked(Semaphore::new(0));
        semaphore.set_patience(PATIENCE);
        let older = Step::queued(semaphore.acquire(1));
        let younger = Step::queued(semaphore.acquire(2));
        let (first, mut taken) = (Woken::default(), Step::new(semaphore.acquire(1)));
        assert!(taken.poll_with(&first.waker()).is_pending());
        let (follower, mut next) = (Woken::default(), Step::new(semaphore.acquire(2)));
        assert!(next.poll_with(&follower.waker()).is_pending());
        let armed = Instant::now();
        semaphore.release(1).unwrap();
        eventually("some time passes", || armed.elapsed() >= PATIENCE / 2 - PATIENCE / 10);
        let granted = Instant::now();
        semaphore.release(2).unwrap();
        Unclaimed { granted, follower, _objects: Box::new((older, younger, taken, next)) }
    });
}

#[test]
fn a_lock_after_a_signal() {
    expect_patience(|| {
        let (lock, condition) = (leaked(Mutex::new(())), leaked(Condition::new()));
        lock.set_patience(PATIENCE);
        let unpolled = Step::queued(condition.wait(lock.lock().wait()));
        let guard = lock.lock().wait();
        condition.signal(&guard);
        let (follower, mut next) = (Woken::default(), Step::new(lock.lock()));
        assert!(next.poll_with(&follower.waker()).is_pending());
        let granted = Instant::now();
        drop(guard);
        Unclaimed { granted, follower, _objects: Box::new((unpolled, next)) }
    });
}

#[test]
fn an_item() {
    expect_patience(|| {
        let queue = leaked(TransferQueue::new());
        queue.set_patience(PATIENCE);
        let unpolled = Step::queued(queue.take());
        let (follower, mut next) = (Woken::default(), Step::new(queue.take()));
        assert!(next.poll_with(&follower.waker()).is_pending());
        let granted = Instant::now();
        queue.put(1).unwrap();
        Unclaimed { granted, follower, _objects: Box::new((unpolled, next)) }
    });
}

/// A thread always comes, however long that takes: its grant is its own.
#[test]
fn a_threads_grant_is_never_taken_back() {
    let semaphore = leaked(Semaphore::new(0));
    let patience = Duration::from_millis(2);
    semaphore.set_patience(patience);
    let (granted, door) = held_up(|| semaphore.acquire(1).wait().map(drop));
    let unpolled = Step::queued(semaphore.acquire(1));
    let mut next = Step::queued(semaphore.acquire(1));
    // The thread and a task have one each, and the watchdog is out because of the task.
    semaphore.release(2).unwrap();
    eventually("the task's is passed on", || next.wakes() == 1);
    drop(next.expect_ready());
    let mut last = Step::queued(semaphore.acquire(2));
    let looks = Step::queued(leaked(Semaphore::new(0)).acquire(1).timeout(10 * patience));
    eventually("the watchdog has looked often enough", || looks.wakes() == 1);
    assert_eq!((last.wakes(), semaphore.held()), (0, 1), "the thread has its permit still");
    door.open();
    granted.join().unwrap();
    drop(unpolled);
    eventually("all come back", || last.wakes() == 1);
    drop(last.expect_ready());
    assert_eq!((semaphore.available(), semaphore.waiters()), (2, 0));
}
