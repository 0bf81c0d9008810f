//! What one object, one waker or one setting may do to the limits of all others: nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::support::{LONG, SHORT, Step, eventually, in_its_own_process, leaked, waker_that};
use semaforo::{BlockingQueue, CancelSource, Mutex, Policy, Semaphore, Synchronizer, WaitError};

/// Permits whose release, and with it the object's lock, takes until the test says so.
#[derive(Clone, Copy, Debug)]
struct Slow(&'static Gate);

#[derive(Debug, Default)]
struct Gate {
    inside: AtomicUsize,
    open: AtomicBool,
}

impl Policy for Slow {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = Infallible;

    fn acquire(&self, free: u64, (): ()) -> Option<u64> {
        free.checked_sub(1)
    }
    fn release(&self, free: u64, (): ()) -> Result<u64, Infallible> {
        self.0.inside.fetch_add(1, Ordering::SeqCst);
        while !self.0.open.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Ok(free + 1)
    }
    fn undo(&self, (): ()) -> Option<()> {
        Some(())
    }
}

/// An object that somebody waits for, so that releasing takes its lock.
fn slow() -> (&'static Synchronizer<Slow>, &'static Gate) {
    let gate = leaked(Gate::default());
    (leaked(Synchronizer::new(Slow(gate), 0)), gate)
}

#[test]
fn an_object_that_stays_locked_delays_no_limit_of_another() {
    in_its_own_process(|| {
        let (slow, gate) = slow();
        let mut late = Step::queued(slow.acquire(()).timeout(SHORT));
        let mut next = Step::queued(slow.acquire(()));
        let releasing = std::thread::spawn(|| slow.release(()));
        eventually("the object is locked", || gate.inside.load(Ordering::SeqCst) == 1);

        let other = Semaphore::new(0);
        let mut limited = Step::queued(other.acquire(1).timeout(3 * SHORT));
        // It comes behind the limit of the object that is locked.
        eventually("the other limit acts", || limited.wakes() == 1);
        assert_eq!(limited.expect_ready().unwrap_err(), WaitError::TimedOut);
        assert_eq!(late.wakes(), 0);

        gate.open.store(true, Ordering::SeqCst);
        releasing.join().unwrap().unwrap();
        // Either came first: the limit that was put off, or the release.
        eventually("one has it", || late.wakes() + next.wakes() > 0);
        match late.poll() {
            Poll::Ready(Ok(held)) => drop(held),
            Poll::Ready(Err(why)) => assert_eq!(why, WaitError::TimedOut),
            Poll::Pending => panic!("woken, and not answered"),
        }
        eventually("the next one has it", || next.wakes() == 1);
        drop(next.expect_ready());
    });
}

#[test]
fn an_object_that_stays_locked_keeps_no_one_from_a_token() {
    in_its_own_process(|| {
        let (slow, gate) = slow();
        let stop = leaked(CancelSource::new());
        let mut cancelled = Step::queued(slow.acquire(()).cancel_on(&stop.token()));
        let _next = Step::queued(slow.acquire(()));
        let releasing = std::thread::spawn(|| slow.release(()));
        eventually("the object is locked", || gate.inside.load(Ordering::SeqCst) == 1);

        let cancelling = std::thread::spawn(|| stop.cancel());
        eventually("the token fires", || stop.is_cancelled());
        // The token's own lock is free: it can be asked, and used.
        let token = stop.token();
        assert_eq!(token.reason(), None);
        let other = Semaphore::new(0);
        let ended = other.acquire(1).cancel_on(&token).wait();
        assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
        assert!(!cancelling.is_finished(), "the request may not be left behind");

        gate.open.store(true, Ordering::SeqCst);
        releasing.join().unwrap().unwrap();
        cancelling.join().unwrap();
        assert!(cancelled.poll().is_ready(), "granted or cancelled, when `cancel` has returned");
    });
}

#[test]
fn a_waker_on_the_timers_thread_may_wait_for_the_watchdog() {
    in_its_own_process(|| {
        let lock = leaked(Mutex::new(()));
        let held = lock.lock().wait();
        // Granted the lock, and never polled again.
        let unpolled = Step::queued(lock.lock());
        drop(held);
        assert_eq!(unpolled.wakes(), 1);

        let done = Arc::new(AtomicBool::new(false));
        let blocking = {
            let done = Arc::clone(&done);
            waker_that(move || {
                drop(lock.lock().wait());
                done.store(true, Ordering::SeqCst);
            })
        };
        let never = leaked(Semaphore::new(0));
        let mut limited = Step::new(never.acquire(1).timeout(SHORT));
        assert!(limited.poll_with(&blocking).is_pending());
        eventually("the one that blocks has the lock", || done.load(Ordering::SeqCst));
        let mut other = Step::queued(never.acquire(1).timeout(SHORT));
        eventually("limits act", || other.wakes() == 1);
        assert_eq!(other.expect_ready().unwrap_err(), WaitError::TimedOut);
    });
}

#[test]
fn a_waker_on_the_timers_thread_may_wait_for_a_token_that_the_timer_fires() {
    in_its_own_process(|| {
        let stop = CancelSource::new();
        let (token, done) = (stop.token(), Arc::new(AtomicBool::new(false)));
        let blocking = {
            let done = Arc::clone(&done);
            waker_that(move || {
                token.cancelled().wait();
                done.store(true, Ordering::SeqCst);
            })
        };
        let never = leaked(Semaphore::new(0));
        let mut limited = Step::new(never.acquire(1).timeout(Duration::from_millis(1)));
        assert!(limited.poll_with(&blocking).is_pending());
        stop.cancel_after(SHORT);
        eventually("the token fires", || done.load(Ordering::SeqCst));
    });
}

#[test]
fn a_shorter_patience_counts_for_a_watchdog_that_is_out_already() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(LONG);
    let unpolled = Step::queued(semaphore.acquire(1));
    let next = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    assert_eq!(unpolled.wakes(), 1);
    semaphore.set_patience(Duration::from_millis(4));
    eventually("the grant is passed on", || next.wakes() == 1);

    let queue = BlockingQueue::unbounded();
    queue.set_patience(LONG);
    let unpolled = Step::queued(queue.take());
    let next = Step::queued(queue.take());
    queue.try_put(1).unwrap();
    assert_eq!(unpolled.wakes(), 1);
    queue.set_patience(Duration::from_millis(4));
    eventually("the item is passed on", || next.wakes() == 1);
}

/// The memory that this process may have from now on; `None` for any.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn limit_memory(bytes: Option<u64>) {
    const RLIMIT_AS: i32 = 9;
    unsafe extern "C" {
        fn setrlimit(resource: i32, limit: *const [u64; 2]) -> i32;
    }
    let limit = [bytes.unwrap_or(u64::MAX), u64::MAX];
    // SAFETY: the two numbers are a `struct rlimit`, which is only read.
    let result = unsafe { setrlimit(RLIMIT_AS, &raw const limit) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// In a process that can have no more threads whoever is granted something is woken all the same, and
/// what the timer was to do is done once a thread can be had.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn a_timer_that_cannot_be_started_is_late_and_harms_nobody() {
    in_its_own_process(|| {
        if std::env::var_os("ASAN_OPTIONS").is_some() {
            // The address sanitizer itself needs memory at any time.
            return;
        }
        let (semaphore, other) = (leaked(Semaphore::new(0)), leaked(Semaphore::new(0)));
        let unpolled = Step::queued(semaphore.acquire(1));
        let waits = std::thread::spawn(|| semaphore.acquire(1).wait().map(drop));
        eventually("both wait", || semaphore.waiters() == 2);
        limit_memory(Some(1));
        // The watchdog is wanted, and a limit; there is no memory for the stack of a thread.
        let released = semaphore.release(1);
        let mut limited = Step::queued(other.acquire(1).timeout(SHORT));
        let failed = std::thread::Builder::new().spawn(|| ()).is_err();
        limit_memory(None);
        assert!(failed, "threads could be had");
        released.unwrap();
        assert_eq!((unpolled.wakes(), limited.wakes()), (1, 0));

        let _uses_the_timer = Step::queued(other.acquire(1).timeout(LONG));
        waits.join().unwrap().unwrap();
        eventually("the limit acts", || limited.wakes() == 1);
        assert_eq!(limited.expect_ready().unwrap_err(), WaitError::TimedOut);
    });
}

#[test]
fn a_token_that_the_timer_fires_delays_no_limit_although_its_object_stays_locked() {
    in_its_own_process(|| {
        let (slow, gate) = slow();
        let stop = CancelSource::new();
        let _waits = Step::queued(slow.acquire(()).cancel_on(&stop.token()));
        let releasing = std::thread::spawn(|| slow.release(()));
        eventually("the object is locked", || gate.inside.load(Ordering::SeqCst) == 1);
        stop.cancel_after(Duration::from_millis(1));
        eventually("the token fires", || stop.is_cancelled());
        let other = Semaphore::new(0);
        let mut limited = Step::queued(other.acquire(1).timeout(SHORT));
        eventually("the other limit acts", || limited.wakes() == 1);
        assert_eq!(limited.expect_ready().unwrap_err(), WaitError::TimedOut);
        gate.open.store(true, Ordering::SeqCst);
        releasing.join().unwrap().unwrap();
    });
}

#[test]
fn an_object_that_stays_locked_delays_no_other_request_with_the_same_token() {
    in_its_own_process(|| {
        let (slow, gate) = slow();
        let stop = leaked(CancelSource::new());
        let other = Semaphore::new(0);
        let _waits = Step::queued(slow.acquire(()).cancel_on(&stop.token()));
        let mut next = Step::queued(other.acquire(1).cancel_on(&stop.token()));
        let releasing = std::thread::spawn(|| slow.release(()));
        eventually("the object is locked", || gate.inside.load(Ordering::SeqCst) == 1);
        let cancelling = std::thread::spawn(|| stop.cancel());
        eventually("the other is told", || next.wakes() == 1);
        assert_eq!(next.expect_ready().unwrap_err(), WaitError::Cancelled);
        gate.open.store(true, Ordering::SeqCst);
        releasing.join().unwrap().unwrap();
        cancelling.join().unwrap();
    });
}

#[test]
fn a_patience_that_is_set_again_and_again_counts_all_the_same() {
    let semaphore = Semaphore::new(0);
    semaphore.set_patience(Duration::from_secs(1));
    let unpolled = Step::queued(semaphore.acquire(1));
    let next = Step::queued(semaphore.acquire(1));
    semaphore.release(1).unwrap();
    assert_eq!(unpolled.wakes(), 1);
    eventually("the grant is passed on", || {
        semaphore.set_patience(Duration::from_secs(1));
        next.wakes() == 1
    });
}

/// Permits of which none is free; whether one is takes the policy as long as the test says, once it
/// is armed.
#[derive(Clone, Copy, Debug)]
struct SlowToSay(&'static Gate, &'static AtomicBool);

impl Policy for SlowToSay {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = Infallible;

    fn acquire(&self, free: u64, (): ()) -> Option<u64> {
        if self.1.load(Ordering::SeqCst) {
            self.0.inside.fetch_add(1, Ordering::SeqCst);
            while !self.0.open.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        free.checked_sub(1)
    }
    fn release(&self, free: u64, (): ()) -> Result<u64, Infallible> {
        Ok(free + 1)
    }
    fn undo(&self, (): ()) -> Option<()> {
        Some(())
    }
}

/// The thread that ends a request asks the policy about the next one, and holds neither the timer's lock
/// nor the token's meanwhile: others arm and disarm limits, and use the token.
#[test]
fn a_policy_that_takes_long_keeps_no_one_from_the_timer_and_the_token() {
    fn case(by_token: bool) {
        let (gate, armed) = (leaked(Gate::default()), leaked(AtomicBool::new(false)));
        let slow = leaked(Synchronizer::new(SlowToSay(gate, armed), 0));
        let stop = leaked(CancelSource::new());
        let first = slow.acquire(()).cancel_on(&stop.token());
        let mut first = Step::queued(first.timeout((!by_token).then_some(SHORT)));
        let mut next = Step::queued(slow.acquire(()));
        armed.store(true, Ordering::SeqCst);
        let cancelling = by_token.then(|| std::thread::spawn(|| stop.cancel()));
        eventually("the policy is asked", || gate.inside.load(Ordering::SeqCst) > 0);

        let using = std::thread::spawn(|| {
            let other = Semaphore::new(0);
            drop(Step::queued(other.acquire(1).timeout(LONG)));
            (stop.token().registrations(), stop.token().reason())
        });
        eventually("the timer and the token are used", || using.is_finished());
        assert_eq!(using.join().unwrap(), (usize::from(!by_token), None));

        gate.open.store(true, Ordering::SeqCst);
        cancelling.into_iter().for_each(|thread| thread.join().unwrap());
        eventually("the first is told", || first.wakes() == 1);
        assert!(first.expect_ready().is_err());
        next.expect_pending();
        slow.release(()).unwrap();
        drop(next.expect_ready());
    }
    in_its_own_process(|| {
        case(false);
        case(true);
    });
}
