//! Conditions, barriers and exchangers in races of waits that are granted, cancelled, timed out,
//! dropped and never polled, with exact accounting. `SEMAFORO_STRESS_SECONDS` makes it longer; meant
//! for the address sanitizer too.

mod support;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use semaforo::{
    Barrier, Broken, CancelSource, Condition, Exchanger, Monitor, Mutex, MutexGuard, WaitError,
};
use support::{Executor, Random, Waiter, leaked};

fn end_of_test() -> Instant {
    let seconds = std::env::var("SEMAFORO_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Instant::now() + Duration::from_secs(seconds.unwrap_or(2))
}

/// Lets the other threads go on until the end. Only then is their own end waited for, with a limit.
fn run_until(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

fn a_moment(random: &mut Random) -> Duration {
    Duration::from_micros(random.below(300).into())
}

/// Polls a future a few times, and drops it if it is not ready then: the way in which `select!` leaves
/// the losers.
fn poll_and_drop<F: Future>(future: F, random: &mut Random) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..=random.below(3) {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        match random.below(20) {
            0 => std::thread::sleep(Duration::from_millis(3)),
            1..=5 => std::thread::sleep(a_moment(random)),
            _ => std::thread::yield_now(),
        }
    }
    None
}

type Buffer = VecDeque<u64>;
type Inside = MutexGuard<'static, Buffer>;

struct BoundedBuffer {
    items: Mutex<Buffer>,
    filled: Condition,
    emptied: Condition,
}

/// How often a wait was granted, and how often it was given up.
#[derive(Debug, Default)]
struct Tally {
    granted: AtomicUsize,
    given_up: AtomicUsize,
}

impl BoundedBuffer {
    const CAPACITY: usize = 2;

    fn new(barging: bool) -> Self {
        let items = if barging { Mutex::barging(Buffer::new()) } else { Mutex::new(Buffer::new()) };
        items.set_patience(Duration::from_millis(2));
        Self { items, filled: Condition::new(), emptied: Condition::new() }
    }

    /// Waits while the condition says so, in one of many ways; nothing if it gave up.
    fn wait(
        &'static self,
        on: &'static Condition,
        goes_on: fn(&Buffer) -> bool,
        random: &mut Random,
    ) -> Option<Inside> {
        let inside = self.items.lock().wait();
        match random.below(12) {
            0 => on.wait_while(inside, goes_on).timeout(a_moment(random)).wait().ok(),
            1 => {
                let stop = CancelSource::new();
                let wait = on.wait_while(inside, goes_on).cancel_on(&stop.token());
                let limit = a_moment(random);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(limit);
                        stop.cancel();
                    });
                    wait.wait().ok()
                })
            }
            2 => poll_and_drop(on.wait_while(inside, goes_on), random),
            3 => Executor::next()
                .block_on(on.wait_while(inside, goes_on).timeout(a_moment(random)))
                .ok(),
            4..=7 => Some(Executor::next().block_on(on.wait_while(inside, goes_on))),
            _ => Some(on.wait_while(inside, goes_on).wait()),
        }
    }

    /// Tries until it can, and does something inside.
    fn once<T>(
        &'static self,
        on: &'static Condition,
        goes_on: fn(&Buffer) -> bool,
        random: &mut Random,
        tally: &Tally,
        then: impl FnOnce(&mut Inside) -> T,
    ) -> T {
        loop {
            if let Some(mut inside) = self.wait(on, goes_on, random) {
                assert!(!goes_on(&inside), "what was waited for is not there");
                tally.granted.fetch_add(1, SeqCst);
                return then(&mut inside);
            }
            tally.given_up.fetch_add(1, SeqCst);
        }
    }

    fn put(&'static self, item: u64, random: &mut Random, tally: &Tally) {
        let full = |items: &Buffer| items.len() == Self::CAPACITY;
        self.once(&self.emptied, full, random, tally, |inside| {
            inside.push_back(item);
            self.filled.signal(inside);
        });
    }

    fn take(&'static self, random: &mut Random, tally: &Tally) -> u64 {
        self.once(&self.filled, Buffer::is_empty, random, tally, |inside| {
            let item = inside.pop_front().expect("it is not empty");
            self.emptied.signal(inside);
            item
        })
    }
}

/// Every item is put once and taken once. A lost signal, or a lost lock, leaves somebody waiting.
#[test]
fn a_bounded_buffer_loses_neither_items_nor_signals() {
    const WORKERS: u64 = 3;
    const ITEMS: u64 = 60;
    let tally = leaked(Tally::default());
    let end = end_of_test();
    let mut seed = 0;
    while Instant::now() < end {
        let buffer = leaked(BoundedBuffer::new(seed % 2 == 1));
        let taken: &'static StdMutex<Vec<u64>> = leaked(StdMutex::new(Vec::new()));
        let workers: Vec<_> = (0..WORKERS)
            .flat_map(|number| {
                seed += 1;
                let mut random = Random::new(seed);
                let producer = Waiter::on_a_thread(move || {
                    for item in 0..ITEMS {
                        buffer.put(number * ITEMS + item, &mut random, tally);
                    }
                });
                let mut random = Random::new(seed + 1_000_000);
                let consumer = Waiter::on_a_thread(move || {
                    for _ in 0..ITEMS {
                        let item = buffer.take(&mut random, tally);
                        taken.lock().unwrap().push(item);
                    }
                });
                [producer, consumer]
            })
            .collect();
        workers.into_iter().for_each(Waiter::join);
        let mut taken = taken.lock().unwrap().clone();
        taken.sort_unstable();
        assert_eq!(taken, (0..WORKERS * ITEMS).collect::<Vec<_>>());
        assert_eq!((buffer.items.is_locked(), buffer.items.waiters()), (false, 0));
        assert_eq!((buffer.filled.waiters(), buffer.emptied.waiters()), (0, 0));
    }
    println!("{tally:?}");
}

/// Urgent signals: nobody is ever inside together with another, the signalled one finds what its
/// signaller left, and nobody is left waiting.
#[test]
fn urgent_signals_never_let_two_in() {
    let end = end_of_test();
    // The number of the signal that was sent last, and whether somebody is inside.
    let monitor: &'static Monitor<u64> = leaked(Monitor::new(0));
    monitor.set_patience(Duration::from_millis(2));
    let (inside, over) = (leaked(AtomicBool::new(false)), leaked(AtomicBool::new(false)));
    let signalled = leaked(AtomicU64::new(0));
    let alone = |work: &mut dyn FnMut()| {
        assert!(!inside.swap(true, SeqCst), "two are inside");
        work();
        inside.store(false, SeqCst);
    };
    let waiters: Vec<_> = (0..3)
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed);
                while !over.load(SeqCst) {
                    let guard = monitor.enter().wait();
                    alone(&mut || ());
                    let limit = a_moment(&mut random);
                    let back = match random.below(4) {
                        0 => monitor.wait(guard).timeout(limit).wait().ok(),
                        1 => poll_and_drop(monitor.wait(guard), &mut random),
                        2 => Executor::next().block_on(monitor.wait(guard).timeout(limit * 8)).ok(),
                        _ => monitor.wait(guard).timeout(Duration::from_millis(20)).wait().ok(),
                    };
                    if back.is_some() {
                        alone(&mut || ());
                        signalled.fetch_add(1, SeqCst);
                    }
                }
            })
        })
        .collect();
    let signallers: Vec<_> = (0..2)
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed + 100);
                while Instant::now() < end {
                    let mut guard = monitor.enter().wait();
                    alone(&mut || *guard += 1);
                    let back = match random.below(8) {
                        0 => poll_and_drop(monitor.signal_urgent(guard), &mut random),
                        1 => {
                            monitor.notify(&guard);
                            Some(guard)
                        }
                        2 => {
                            monitor.notify_all(&guard);
                            Some(guard)
                        }
                        3 => Some(Executor::next().block_on(monitor.signal_urgent(guard))),
                        _ => Some(monitor.signal_urgent(guard).wait()),
                    };
                    if back.is_some() {
                        alone(&mut || ());
                    }
                }
            })
        })
        .collect();
    run_until(end);
    signallers.into_iter().for_each(Waiter::join);
    over.store(true, SeqCst);
    waiters.into_iter().for_each(Waiter::join);
    println!("{} signalled", signalled.load(SeqCst));
    assert_eq!((monitor.waiting(), monitor.waiters(), monitor.is_entered()), (0, 0, false));
}

/// What became of all arrivals.
#[derive(Debug, Default)]
struct Arrivals {
    by_index: [AtomicU64; PARTIES as usize],
    last: AtomicU64,
    broken: AtomicU64,
    for_its_own_reason: AtomicU64,
    resets: AtomicU64,
}

const PARTIES: u32 = 4;

impl Arrivals {
    fn note(&self, outcome: Result<semaforo::Arrival, WaitError<Broken>>) {
        match outcome {
            Ok(arrival) => {
                self.by_index[arrival.index() as usize].fetch_add(1, SeqCst);
                self.last.fetch_add(arrival.is_last().into(), SeqCst);
            }
            Err(WaitError::Refused(Broken)) => {
                self.broken.fetch_add(1, SeqCst);
            }
            Err(WaitError::Cancelled | WaitError::TimedOut) => {
                self.for_its_own_reason.fetch_add(1, SeqCst);
            }
        }
    }
}

/// Parties that come with limits, and somebody who resets: at any time, or only what is broken.
fn meet(barrier: &'static Barrier, reset_at_any_time: bool, end: Instant) -> &'static Arrivals {
    let arrivals: &'static Arrivals = leaked(Arrivals::default());
    let over = leaked(AtomicBool::new(false));
    let parties: Vec<_> = (0..PARTIES.into())
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed + 7);
                while !over.load(SeqCst) {
                    // Long enough for a round, unless somebody is gone for good.
                    let long = Duration::from_millis(20);
                    let limit = if random.one_in(4) { a_moment(&mut random) } else { long };
                    let request = barrier.arrive().timeout(limit);
                    arrivals.note(match random.below(8) {
                        0..=2 => Executor::next().block_on(request),
                        3 if random.one_in(8) => {
                            let stop = CancelSource::new();
                            stop.cancel_after(limit / 2);
                            request.cancel_on(&stop.token()).wait()
                        }
                        _ => request.wait(),
                    });
                }
            })
        })
        .collect();
    let mut random = Random::new(3);
    while Instant::now() < end {
        if barrier.is_broken() || (reset_at_any_time && random.one_in(3)) {
            barrier.reset();
            arrivals.resets.fetch_add(1, SeqCst);
        }
        std::thread::sleep(a_moment(&mut random));
    }
    over.store(true, SeqCst);
    parties.into_iter().for_each(Waiter::join);
    println!("{arrivals:?}");
    assert_eq!((barrier.waiters(), barrier.arrived()), (0, 0));
    arrivals
}

/// In each generation all go on, each with its own index, or none does.
#[track_caller]
fn all_or_none(barrier: &Barrier, arrivals: &Arrivals) -> u64 {
    let went = arrivals.by_index.each_ref().map(|count| count.load(SeqCst));
    assert_eq!(went, [went[0]; PARTIES as usize]);
    assert_eq!(arrivals.last.load(SeqCst), went[0]);
    assert_eq!(barrier.generation(), went[0] + arrivals.resets.load(SeqCst));
    went[0]
}

#[test]
fn in_each_generation_all_go_on_or_one_breaks_it() {
    let barrier = leaked(Barrier::new(PARTIES));
    let arrivals = meet(barrier, false, end_of_test());
    all_or_none(barrier, arrivals);
    // Whoever left broke it, and nobody else could leave before it was reset.
    let breaks = arrivals.resets.load(SeqCst) + u64::from(barrier.is_broken());
    assert_eq!(arrivals.for_its_own_reason.load(SeqCst), breaks);
}

#[test]
fn in_each_generation_all_go_on_or_none_whoever_resets() {
    let barrier = leaked(Barrier::new(PARTIES));
    let arrivals = meet(barrier, true, end_of_test());
    all_or_none(barrier, arrivals);
    assert!(arrivals.broken.load(SeqCst) > 0);
}

#[test]
fn in_each_generation_all_go_on_or_none_also_with_an_action() {
    let ran = leaked(AtomicU64::new(0));
    let barrier = leaked(Barrier::with_action(PARTIES, || {
        if ran.fetch_add(1, SeqCst) % 5 == 0 {
            std::thread::yield_now();
        }
    }));
    let arrivals = meet(barrier, true, end_of_test());
    let went = all_or_none(barrier, arrivals);
    assert!(ran.load(SeqCst) >= went, "some were reset while it ran");
}

/// An item that notes when it is dropped.
#[derive(Debug)]
struct Item(u64, &'static StdMutex<Vec<u64>>);

impl Drop for Item {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// A quarter of the waits is given up. Every item is still somebody's, or was dropped once.
#[test]
fn exchanged_items_are_neither_lost_nor_duplicated() {
    const PARTIES: u64 = 4;
    let end = end_of_test();
    let table: &'static Exchanger<Item> = leaked(Exchanger::new());
    let dropped: &'static StdMutex<Vec<u64>> = leaked(StdMutex::new(Vec::new()));
    let (made, exchanged) = (leaked(AtomicU64::new(0)), leaked(AtomicUsize::new(0)));
    let new_item = move || Item(made.fetch_add(1, SeqCst), dropped);
    let over = leaked(CancelSource::new());
    let parties: Vec<_> = (0..PARTIES)
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed + 31);
                let mut own = new_item();
                while !over.is_cancelled() {
                    let given = own.0;
                    let limit = a_moment(&mut random);
                    let request = table.exchange(own).cancel_on(&over.token());
                    let outcome = match random.below(12) {
                        0 => Some(request.timeout(limit).wait()),
                        1 => poll_and_drop(request.timeout(limit), &mut random),
                        2 => Some(Executor::next().block_on(request.timeout(limit))),
                        3..=6 => Some(Executor::next().block_on(request)),
                        _ => Some(request.wait()),
                    };
                    own = match outcome {
                        None => new_item(),
                        Some(Ok(item)) => {
                            assert_ne!(item.0, given, "its own");
                            exchanged.fetch_add(1, SeqCst);
                            item
                        }
                        Some(Err(rejected)) => {
                            assert_eq!(rejected.item.0, given, "another's");
                            rejected.item
                        }
                    };
                }
                own
            })
        })
        .collect();
    run_until(end);
    over.cancel();
    let left: Vec<_> = parties.into_iter().map(Waiter::join).collect();
    assert_eq!(table.waiters(), 0);
    let mut all: Vec<_> = left.iter().map(|item| item.0).collect();
    all.extend_from_slice(&dropped.lock().unwrap());
    all.sort_unstable();
    assert_eq!(all, (0..made.load(SeqCst)).collect::<Vec<_>>());
    println!("{} exchanged, {} items", exchanged.load(SeqCst), all.len());
}
