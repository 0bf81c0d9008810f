//! A CLH lock, after Craig, Landin and Hagersten: a queue in which each thread spins on a flag of
//! the one before it. It is strictly first come, first served, and needs neither a list nor a
//! system call. And why one would not use it:
//!
//! - who waits keeps a core busy, and does nothing with it;
//! - as soon as there are more threads than cores, the next in line is often one that does not run,
//!   and all others spin until the system lets it;
//! - who waits cannot give up: no time limit, no cancellation, and no task may wait like this.
//!
//! The library's `Mutex` is a queue of that kind too, but its waiters sleep, and can leave it.
//!
//! `cargo run --release -p semaforo --example clh_lock`

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo::{Barrier, Mutex};

struct ClhLock {
    /// Whether the thread that queued with this slot has, or wants, the lock. There is one slot
    /// more than threads: a thread that unlocks leaves its slot to its successor, who looks at it,
    /// and takes that of its predecessor.
    busy: Box<[AtomicBool]>,
    /// The slot of the thread that came last.
    tail: AtomicUsize,
    threads: AtomicUsize,
}

impl ClhLock {
    fn new(threads: usize) -> Self {
        Self {
            busy: (0..=threads).map(|_| AtomicBool::new(false)).collect(),
            tail: AtomicUsize::new(threads),
            threads: AtomicUsize::new(0),
        }
    }

    /// For one of the threads, which keeps it.
    fn join(&self) -> Participant<'_> {
        let slot = self.threads.fetch_add(1, Ordering::Relaxed);
        assert!(slot < self.busy.len() - 1, "more threads than the lock was made for");
        Participant { lock: self, slot, looks: 0 }
    }
}

struct Participant<'a> {
    lock: &'a ClhLock,
    slot: usize,
    /// How often it looked in vain.
    looks: u64,
}

impl Participant<'_> {
    fn with<R>(&mut self, section: impl FnOnce() -> R) -> R {
        let busy = &self.lock.busy;
        busy[self.slot].store(true, Ordering::Relaxed);
        // Publishes the flag, and sees that of the one before.
        let before = self.lock.tail.swap(self.slot, Ordering::AcqRel);
        while busy[before].load(Ordering::Acquire) {
            self.looks += 1;
            std::hint::spin_loop();
        }
        let result = section();
        busy[self.slot].store(false, Ordering::Release);
        self.slot = before;
        result
    }
}

/// What is counted under a lock. Two steps, so that a lock that fails is seen.
#[derive(Default)]
struct Count(AtomicU64);

impl Count {
    fn add_one(&self) {
        let count = self.0.load(Ordering::Relaxed);
        work();
        self.0.store(count + 1, Ordering::Relaxed);
    }
}

/// What takes a microsecond or so.
fn work() {
    for step in 0..500 {
        std::hint::black_box(step);
    }
}

/// What came of some threads that fought for a lock.
struct Fight {
    /// How often the lock was taken.
    taken: u64,
    /// What was counted under it.
    counted: u64,
    /// How often a waiting thread looked in vain.
    looks: u64,
}

impl Fight {
    /// With the lock made for so many threads.
    fn by_clh(threads: usize, ends: Ends) -> Self {
        let lock = ClhLock::new(threads);
        Self::between(threads, |count, start| {
            let mut participant = lock.join();
            let taken = ends.rounds(start).map(|()| participant.with(|| count.add_one())).count();
            (taken as u64, participant.looks)
        })
    }

    fn by_mutex(threads: usize, ends: Ends) -> Self {
        let lock = Mutex::new(());
        Self::between(threads, |count, start| {
            let round = |()| {
                let _guard = lock.lock().wait();
                count.add_one();
            };
            (ends.rounds(start).map(round).count() as u64, 0)
        })
    }

    fn between(threads: usize, thread: impl Fn(&Count, Instant) -> (u64, u64) + Sync) -> Self {
        let count = Count::default();
        // No thread runs alone at the beginning, or at the end.
        let start = OnceLock::new();
        let all_are_here = Barrier::new(threads as u32);
        let (taken, looks) = thread::scope(|scope| {
            let fighters: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        all_are_here.arrive().wait().expect("nobody leaves it");
                        thread(&count, *start.get_or_init(Instant::now))
                    })
                })
                .collect();
            let joined = fighters.into_iter().map(|fighter| fighter.join().expect("no panic"));
            joined.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
        });
        Self { taken, counted: count.0.into_inner(), looks }
    }
}

/// When a thread stops fighting.
#[derive(Clone, Copy)]
enum Ends {
    After(Duration),
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests, which count"))]
    AfterRounds(u64),
}

impl Ends {
    /// One item for each round.
    fn rounds(self, start: Instant) -> impl Iterator<Item = ()> {
        (0_u64..).map_while(move |round| {
            work();
            let goes_on = match self {
                Self::After(time) => start.elapsed() < time,
                Self::AfterRounds(rounds) => round < rounds,
            };
            goes_on.then_some(())
        })
    }
}

fn main() {
    const TIME: Duration = Duration::from_millis(250);
    let cores = thread::available_parallelism().map_or(2, |cores| cores.get());
    println!("{cores} cores; taken in {} ms:", TIME.as_millis());
    println!("{:>8} {:>12} {:>12} {:>26}", "threads", "CLH", "Mutex", "CLH's looks in vain, each");
    for threads in [1, cores, 4 * cores] {
        let clh = Fight::by_clh(threads, Ends::After(TIME));
        let mutex = Fight::by_mutex(threads, Ends::After(TIME));
        assert_eq!((clh.counted, mutex.counted), (clh.taken, mutex.taken), "both exclude");
        let looks = clh.looks as f64 / clh.taken as f64;
        println!("{threads:>8} {:>12} {:>12} {looks:>26.1}", clh.taken, mutex.taken);
    }
    println!("And a thread that waits for the Mutex can give up:");
    let lock = Mutex::new(());
    let _held = lock.lock().wait();
    println!("  {:?}", lock.lock().timeout(Duration::from_millis(20)).wait().map(drop));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_locks_exclude() {
        for threads in [1, 2, 3] {
            let rounds = 100;
            for fight in [
                Fight::by_clh(threads, Ends::AfterRounds(rounds)),
                Fight::by_mutex(threads, Ends::AfterRounds(rounds)),
            ] {
                assert_eq!(fight.taken, rounds * threads as u64);
                assert_eq!(fight.counted, fight.taken);
            }
        }
    }

    #[test]
    fn it_is_taken_in_the_order_of_asking() {
        let lock = ClhLock::new(3);
        let order = std::sync::Mutex::new(Vec::new());
        let mut first = lock.join();
        first.with(|| {
            thread::scope(|scope| {
                let queue = |name| {
                    let (lock, order) = (&lock, &order);
                    let last = lock.tail.load(Ordering::Relaxed);
                    scope.spawn(move || lock.join().with(|| order.lock().unwrap().push(name)));
                    while lock.tail.load(Ordering::Relaxed) == last {
                        thread::yield_now();
                    }
                };
                queue("second");
                queue("third");
                // The scope ends when they are through, so the first lets them go from in here.
                order.lock().unwrap().push("first");
                lock.busy[0].store(false, Ordering::Release);
            });
        });
        assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
    }
}
