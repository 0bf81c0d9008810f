//! What the behavioural tests share.
//!
//! Rules: nothing sleeps and hopes. A waiter "blocks" when the object shows it in its queue; every
//! wait for something has a generous limit, after which the test fails and says what it waited
//! for; a panic in a waiter is the panic of whoever joins it; every waiter is joined.

#![allow(dead_code, reason = "every test file uses its own part of this")]
#![allow(unused_imports, reason = "as above")]

mod bombs;
mod door;
mod executors;
#[cfg(feature = "tasks")]
mod pools;
mod races;
mod single_step;
mod tally;
mod waiter;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) use bombs::{Bomb, explodes, exploding_waker};
pub(crate) use door::Door;
pub(crate) use executors::{Executor, block_on, on_tokio};
#[cfg(feature = "tasks")]
pub(crate) use pools::{Held, MODES, hold, hold_some, in_both_modes, pool, pool_with_spares};
pub(crate) use races::{Cancellers, abandon, stress_seconds};
pub(crate) use single_step::{
    InlineTask, Step, WakeOrder, WakerOf, meddling_waker, panicking_waker, waker_that,
};
pub(crate) use tally::{Counted, Tally};
pub(crate) use waiter::{
    Arrangement, Kind, Line, ThreadState, Waiter, held_up, in_every_arrangement,
    in_every_arrangement_at_once, watched,
};

/// Longer than anything here takes on the slowest machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Long enough to be measured, short enough for a test.
pub(crate) const SHORT: Duration = Duration::from_millis(25);

/// For what ends by itself long before.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// An object that outlives every thread and task of the test, as a global would.
pub(crate) fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Returns when the timer has ended every request whose limit of so long, or less, began before this.
#[track_caller]
pub(crate) fn let_limits_pass(limit: Duration) {
    let idle = semaforo::Semaphore::new(0);
    // The timer goes by whole milliseconds.
    let last = Step::queued(idle.acquire(1).timeout(limit + Duration::from_millis(2)));
    eventually("the timer comes to the last limit", || last.wakes() == 1);
}

/// Waits until the timer has certainly looked at everything that was due by now, or within the few
/// milliseconds of a short limit or patience.
#[track_caller]
pub(crate) fn let_the_timer_pass() {
    let_limits_pass(Duration::from_millis(15));
}

/// Polls once, expecting to wait, and leaks the request.
#[track_caller]
pub(crate) fn leak<F: Future>(request: F) {
    std::mem::forget(Step::queued(request).into_future());
}

/// Waits for a condition that another thread brings about.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    let mut looks = 0_u32;
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain: {what}");
        looks += 1;
        if looks < 200 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// An object with a queue that can be looked at.
pub(crate) trait Queued {
    fn queued(&self) -> usize;
}

macro_rules! queued {
    ($([$($generics:tt)*] $object:ty),* $(,)?) => {$(
        impl<$($generics)*> Queued for $object {
            fn queued(&self) -> usize {
                self.waiters()
            }
        }
    )*};
}

queued! {
    [] semaforo::Semaphore,
    [T: ?Sized] semaforo::Mutex<T>,
    [T: ?Sized] semaforo::RwLock<T>,
    [T: ?Sized] semaforo::ReentrantLock<T>,
    [T: ?Sized] semaforo::ReentrantRwLock<T>,
    [] semaforo::Latch,
    [] semaforo::Event,
    [] semaforo::AutoEvent,
    [] semaforo::Parker,
    [T, E] semaforo::Promise<T, E>,
    [P: semaforo::Policy] semaforo::Synchronizer<P>,
    [T] semaforo::BlockingQueue<T>,
    [T] semaforo::TransferQueue<T>,
    [T] semaforo::SynchronousQueue<T>,
    [P: semaforo::Policy] semaforo::Condition<P>,
    [] semaforo::Barrier,
    [] semaforo::Phaser,
    [T] semaforo::Exchanger<T>,
    [R: semaforo::Rule] semaforo::Contended<R>,
}

impl Queued for semaforo::CancelToken {
    fn queued(&self) -> usize {
        self.registrations()
    }
}

/// An object whose tasks may take their time: for tests that are not about promise 4, on machines
/// that may let none of them run for a while.
pub(crate) fn patient<Q: Patient>(object: Q) -> Q {
    object.be_patient();
    object
}

pub(crate) trait Patient {
    fn be_patient(&self);
}

macro_rules! patient {
    ($([$($generics:tt)*] $object:ty),* $(,)?) => {$(
        impl<$($generics)*> Patient for $object {
            fn be_patient(&self) {
                self.set_patience(LONG);
            }
        }
    )*};
}

patient! {
    [] semaforo::Semaphore,
    [] semaforo::AutoEvent,
    [T] semaforo::Mutex<T>,
    [T] semaforo::RwLock<T>,
    [T] semaforo::Monitor<T>,
    [P: semaforo::Policy] semaforo::Synchronizer<P>,
    [T] semaforo::BlockingQueue<T>,
    [T] semaforo::TransferQueue<T>,
    [T] semaforo::SynchronousQueue<T>,
}

/// Waits until exactly so many requests are queued.
#[track_caller]
pub(crate) fn until_queued(object: &impl Queued, count: usize) {
    eventually(&format!("{count} requests queued"), || object.queued() == count);
}

/// Fires a source whose token must know of so many waits: what is seen in its queue is known to its
/// token.
#[track_caller]
pub(crate) fn fire(source: &semaforo::CancelSource, waits: usize) {
    let known = source.token().registrations();
    assert!(known >= waits, "the token knows of {known} waits instead of {waits}");
    source.cancel();
}

/// What happened, in order, told by several threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record<E>(Arc<Mutex<Vec<E>>>);

impl<E: Clone> Record<E> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn note(&self, entry: E) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<E> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// The message of a caught panic.
pub(crate) fn message_of(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// Runs what must panic, and returns the message.
#[track_caller]
pub(crate) fn panic_of<R>(run: impl FnOnce() -> R) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(_) => panic!("this should have panicked"),
        Err(panic) => message_of(&*panic).to_owned(),
    }
}

/// Runs the calling test again, alone, in a process of its own, and expects that to end well: for
/// what would otherwise take the other tests down with it (a stack overflow, an abort, a memory
/// error, a hang). The test's name is its thread's; a child that runs another number of tests than
/// one fails it.
#[track_caller]
pub(crate) fn in_its_own_process(body: impl FnOnce()) {
    const ALONE: &str = "SEMAFORO_TEST_ALONE";
    let thread = std::thread::current();
    let test = thread.name().expect("this is called on the thread of a test, which has its name");
    if std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return body();
    }
    let file = format!("semaforo-{}-{}.log", test.replace("::", "-"), std::process::id());
    let log = std::env::temp_dir().join(file);
    let output = std::fs::File::create(&log).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, test)
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() >= end => break None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    match status {
        None => panic!("{test} alone did not end:\n{said}"),
        Some(status) => assert!(status.success(), "{test} alone ended with {status}:\n{said}"),
    }
    assert!(said.contains("test result: ok. 1 passed;"), "{test} did not run alone:\n{said}");
}

/// A small pseudo-random sequence, so that a failing run can be repeated from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // Marsaglia's xorshift, its high bits.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }

    pub(crate) fn one_in(&mut self, chances: u32) -> bool {
        self.below(chances) == 0
    }
}
