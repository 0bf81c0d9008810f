//! Races, with exact accounting afterwards. `SEMAFORO_STRESS_SECONDS` says how long all of them
//! together may take on two cores, 3 if it is not set. The cases that are races of their own are in
//! `racing_cases.rs`.
//!
//! The stress has threads that block and tasks that await, and every way in which a request
//! can end: granted, timed out, cancelled, dropped while pending, dropped after it was granted,
//! and left unpolled until its grant was taken back.

mod support;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use semaforo::request::{Limited, Operation};
use semaforo::{Mutex, Request, RwLock, Semaphore, WaitError};
use support::{Cancellers, Random, Waiter, abandon, block_on, leaked, on_tokio, stress_seconds};

/// How long one of the six mixed tests runs; two of them run at a time.
fn duration() -> Duration {
    stress_seconds(3.0) / 3
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
        _ => abandon(bound(request, cancellers, random), PATIENCE, 8, random),
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
    let canceller = cancellers.start();
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
    cancellers.stop(canceller);
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
