//! Races, with exact accounting afterwards. `SEMAFORO_STRESS_SECONDS` says how long all of them
//! together may take on two cores, 3 if it is not set. The cases that are races of their own are in
//! `racing_cases.rs`.
//!
//! The stress has threads that block and tasks that await, and every way in which a request
//! can end: granted, timed out, cancelled, dropped while pending, dropped after it was granted,
//! and left unpolled until its grant was taken back.

mod support;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use semaforo::request::{Limited, Operation, Output};
use semaforo::{CancelSource, CancelToken, Mutex, Request, RwLock, Semaphore, WaitError};
use support::{Random, Waiter, block_on, leaked, on_tokio};

/// How long one of the six mixed tests runs; two of them run at a time.
fn duration() -> Duration {
    let seconds =
        std::env::var("SEMAFORO_STRESS_SECONDS").ok().and_then(|value| value.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(3.0) / 3.0)
}

/// Sources that are fired and replaced at random, so that every moment is hit.
struct Cancellers {
    sources: [StdMutex<CancelSource>; 4],
    done: AtomicBool,
}

impl Cancellers {
    fn new() -> Self {
        Self {
            sources: [(); 4].map(|()| StdMutex::new(CancelSource::new())),
            done: AtomicBool::new(false),
        }
    }

    fn token(&self, random: &mut Random) -> CancelToken {
        self.sources[random.below(4) as usize].lock().unwrap().token()
    }

    fn run(&self) {
        let mut random = Random::new(99);
        while !self.done.load(Ordering::Relaxed) {
            let slot = &self.sources[random.below(4) as usize];
            let source = std::mem::replace(&mut *slot.lock().unwrap(), CancelSource::new());
            source.cancel();
            assert_eq!(source.token().registrations(), 0);
            std::thread::sleep(Duration::from_micros(random.below(300).into()));
        }
    }

    fn leftovers(&self) -> usize {
        self.sources.iter().map(|source| source.lock().unwrap().token().registrations()).sum()
    }
}

/// Bounds a request at random.
fn bound<O: Operation>(
    request: Request<O>,
    cancellers: &Cancellers,
    random: &mut Random,
) -> Request<O, Limited> {
    let limit = Duration::from_micros(random.below(400).into());
    match random.below(4) {
        0 => request.timeout(limit),
        1 => request.cancel_on(&cancellers.token(random)),
        2 => request.timeout(limit).cancel_on(&cancellers.token(random)),
        _ => {
            let request = request.cancel_on(&cancellers.token(random));
            request.cancel_on(&cancellers.token(random)).timeout(Duration::from_secs(60))
        }
    }
}

/// Polls by hand: once, and perhaps once more after a while. What is not ready then is dropped,
/// pending or granted.
fn abandon<O: Operation>(
    request: Request<O, Limited>,
    random: &mut Random,
) -> Option<Output<O, Limited>> {
    let mut context = Context::from_waker(Waker::noop());
    let mut request = pin!(request);
    if let Poll::Ready(output) = request.as_mut().poll(&mut context) {
        return Some(output);
    }
    match random.below(8) {
        // Long enough for a grant to be taken back.
        0 => std::thread::sleep(3 * PATIENCE),
        1..=4 => std::thread::yield_now(),
        _ => {}
    }
    if random.one_in(2) {
        return None;
    }
    match request.poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// What the mixed stress does with an object: one visit, by a thread or by a task.
trait Visitor: Sync {
    type Granted;
    type Refusal;
    type Operation: Operation<Bounded = Result<Self::Granted, WaitError<Self::Refusal>>>;

    /// A request, with whatever it takes to account for it.
    fn request(&self, random: &mut Random) -> Request<Self::Operation>;
    /// It was granted: uses it, and lets go of it.
    fn granted(&self, granted: Self::Granted, random: &mut Random);
}

fn visit<V: Visitor>(visitor: &V, cancellers: &Cancellers, random: &mut Random) {
    let request = visitor.request(random);
    let outcome = match random.below(6) {
        0 | 1 => Some(bound(request, cancellers, random).wait()),
        2 => Some(block_on(bound(request, cancellers, random))),
        3 => Some(futures::executor::block_on(bound(request, cancellers, random))),
        _ => abandon(bound(request, cancellers, random), random),
    };
    if let Some(Ok(granted)) = outcome {
        visitor.granted(granted, random);
    }
}

async fn visit_as_a_task<V: Visitor>(visitor: &V, cancellers: &Cancellers, random: &mut Random) {
    let request = visitor.request(random);
    if random.one_in(4) {
        let mut request = pin!(bound(request, cancellers, random));
        tokio::select! {
            biased;
            outcome = &mut request => {
                if let Ok(granted) = outcome {
                    visitor.granted(granted, random);
                }
            }
            () = tokio::task::yield_now() => {}
        }
    } else if let Ok(granted) = bound(request, cancellers, random).await {
        visitor.granted(granted, random);
    }
}

/// Runs threads and tasks for the duration.
fn mixed_stress<V: Visitor + 'static>(visitor: &'static V) {
    let end = Instant::now() + duration();
    let cancellers = leaked(Cancellers::new());
    let canceller = Waiter::on_a_thread(|| cancellers.run());
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed + 1);
                while Instant::now() < end {
                    visit(visitor, cancellers, &mut random);
                }
            })
        })
        .collect();
    on_tokio(async {
        let mut random = Random::new(50);
        let tasks = (0..4).map(|_| {
            let mut random = Random::new(random.below(1 << 20).into());
            async move {
                while Instant::now() < end {
                    visit_as_a_task(visitor, cancellers, &mut random).await;
                    if random.one_in(64) {
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
        futures::future::join_all(tasks).await;
    });
    threads.into_iter().for_each(Waiter::join);
    cancellers.done.store(true, Ordering::Relaxed);
    canceller.join();
    assert_eq!(cancellers.leftovers(), 0, "registrations left");
}

const PERMITS: u32 = 5;
const PATIENCE: Duration = Duration::from_millis(2);

struct Weighing {
    semaphore: Semaphore,
    in_use: AtomicI64,
    granted: AtomicU64,
}

impl Visitor for &'static Weighing {
    type Granted = semaforo::Permit<'static>;
    type Refusal = semaforo::AcquireError;
    type Operation = semaforo::sync::semaphore::Acquire<&'static Semaphore>;

    fn request(&self, random: &mut Random) -> Request<Self::Operation> {
        self.semaphore.acquire(random.below(PERMITS + 1))
    }

    fn granted(&self, mut permit: semaforo::Permit<'static>, random: &mut Random) {
        let count = i64::from(permit.permits());
        let in_use = self.in_use.fetch_add(count, Ordering::SeqCst) + count;
        assert!(in_use <= PERMITS.into(), "{in_use} permits in use");
        self.granted.fetch_add(1, Ordering::Relaxed);
        if random.one_in(8) {
            std::thread::yield_now();
        }
        let part = permit.split(permit.permits() / 2);
        self.in_use.fetch_sub(count, Ordering::SeqCst);
        match random.below(16) {
            0 => {
                // Kept for good, and replaced.
                let forgotten = permit.permits();
                permit.forget();
                self.semaphore.release(forgotten).unwrap();
            }
            _ => drop(permit),
        }
        drop(part);
    }
}

fn weigh(semaphore: Semaphore) {
    semaphore.set_patience(PATIENCE);
    let (in_use, granted) = (AtomicI64::new(0), AtomicU64::new(0));
    let weighing = leaked(Weighing { semaphore, in_use, granted });
    mixed_stress(leaked(weighing));
    let semaphore = &weighing.semaphore;
    assert_eq!((semaphore.available(), semaphore.held(), semaphore.waiters()), (PERMITS, 0, 0));
    assert!(weighing.granted.load(Ordering::Relaxed) > 100);
}

#[test]
fn a_semaphore_counts_exactly() {
    weigh(Semaphore::with_max(PERMITS, PERMITS));
}

#[test]
fn a_barging_semaphore_counts_exactly() {
    weigh(Semaphore::barging_with_max(PERMITS, PERMITS));
}

struct Adding {
    /// Two halves that are never seen apart by a holder.
    mutex: Mutex<(u64, u64)>,
    granted: AtomicU64,
}

impl Visitor for &'static Adding {
    type Granted = semaforo::MutexGuard<'static, (u64, u64)>;
    type Refusal = Infallible;
    type Operation = semaforo::sync::mutex::Lock<&'static Mutex<(u64, u64)>>;

    fn request(&self, _: &mut Random) -> Request<Self::Operation> {
        self.mutex.lock()
    }

    fn granted(&self, mut guard: semaforo::MutexGuard<'static, (u64, u64)>, random: &mut Random) {
        guard.0 += 1;
        if random.one_in(8) {
            std::thread::yield_now();
        }
        guard.1 += 1;
        assert_eq!(guard.0, guard.1);
        self.granted.fetch_add(1, Ordering::Relaxed);
    }
}

fn add_up(mutex: Mutex<(u64, u64)>) {
    mutex.set_patience(PATIENCE);
    let adding = leaked(Adding { mutex, granted: AtomicU64::new(0) });
    mixed_stress(leaked(adding));
    let granted = adding.granted.load(Ordering::Relaxed);
    assert_eq!(adding.mutex.waiters(), 0);
    assert_eq!(*adding.mutex.try_lock().expect("free"), (granted, granted));
    assert!(granted > 100);
}

#[test]
fn a_mutex_excludes() {
    add_up(Mutex::new((0, 0)));
}

#[test]
fn a_barging_mutex_excludes() {
    add_up(Mutex::barging((0, 0)));
}

struct Reading {
    lock: RwLock<(u64, u64)>,
    readers: AtomicI64,
    written: AtomicU64,
}

struct Writing(&'static Reading);

impl Visitor for &'static Reading {
    type Granted = semaforo::RwLockReadGuard<'static, (u64, u64)>;
    type Refusal = Infallible;
    type Operation = semaforo::sync::rwlock::Read<&'static RwLock<(u64, u64)>>;

    fn request(&self, _: &mut Random) -> Request<Self::Operation> {
        self.lock.read()
    }

    fn granted(&self, guard: semaforo::RwLockReadGuard<'static, (u64, u64)>, random: &mut Random) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(guard.0, guard.1, "a reader never sees half a write");
        if random.one_in(8) {
            std::thread::yield_now();
        }
        self.readers.fetch_sub(1, Ordering::SeqCst);
        if random.one_in(4) {
            match guard.try_upgrade() {
                Ok(guard) => Writing(self.lock_of()).granted(guard, random),
                Err(guard) => drop(guard),
            }
        }
    }
}

impl Reading {
    fn lock_of(self: &&'static Self) -> &'static Self {
        self
    }
}

impl Visitor for Writing {
    type Granted = semaforo::RwLockWriteGuard<'static, (u64, u64)>;
    type Refusal = Infallible;
    type Operation = semaforo::sync::rwlock::Write<&'static RwLock<(u64, u64)>>;

    fn request(&self, _: &mut Random) -> Request<Self::Operation> {
        self.0.lock.write()
    }

    fn granted(
        &self,
        mut guard: semaforo::RwLockWriteGuard<'static, (u64, u64)>,
        random: &mut Random,
    ) {
        assert_eq!(self.0.readers.load(Ordering::SeqCst), 0, "a writer is alone");
        guard.0 += 1;
        if random.one_in(8) {
            std::thread::yield_now();
        }
        guard.1 += 1;
        self.0.written.fetch_add(1, Ordering::Relaxed);
        if random.one_in(4) {
            let guard = guard.downgrade();
            assert_eq!(guard.0, guard.1);
        }
    }
}

/// Readers and writers at once: two stresses over one lock.
fn read_and_write(lock: RwLock<(u64, u64)>) {
    lock.set_patience(PATIENCE);
    let (readers, written) = (AtomicI64::new(0), AtomicU64::new(0));
    let reading = leaked(Reading { lock, readers, written });
    let writers = Waiter::on_a_thread(|| mixed_stress(leaked(Writing(reading))));
    mixed_stress(leaked(reading));
    writers.join();
    let lock = &reading.lock;
    assert_eq!((lock.readers(), lock.has_writer(), lock.waiters()), (0, false, 0));
    let written = reading.written.load(Ordering::Relaxed);
    assert_eq!(*lock.try_read().expect("free"), (written, written));
    assert!(written > 10);
}

#[test]
fn a_read_write_lock_excludes() {
    read_and_write(RwLock::new((0, 0)));
}

#[test]
fn a_barging_read_write_lock_excludes() {
    read_and_write(RwLock::barging((0, 0)));
}
