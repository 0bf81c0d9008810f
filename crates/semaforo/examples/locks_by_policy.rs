//! Three locks of one's own, from one policy: a mutex, a simple lock that a newcomer may take
//! before the threads that wait, and a lock for twins, which admits two at once. What Java's
//! `AbstractQueuedSynchronizer` does with `tryAcquire` and `tryRelease` are two pure functions.
//! Because the holders of a mutex exclude each other, they can also wait on a `Condition`, Java's
//! `ConditionObject`.
//!
//! `cargo run --release -p semaforo --example locks_by_policy`

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use semaforo::policy::MutualExclusion;
use semaforo::{Condition, Policy, Synchronizer};

/// At most so many holders. The state is how many there are.
#[derive(Clone, Copy)]
struct Holders<const MOST: u64, const BARGING: bool>;

impl<const MOST: u64, const BARGING: bool> Policy for Holders<MOST, BARGING> {
    type Ask = ();
    type Give = ();
    type Refusal = Infallible;
    type Misuse = &'static str;

    fn acquire(&self, holders: u64, (): ()) -> Option<u64> {
        (holders < MOST).then_some(holders + 1)
    }

    fn release(&self, holders: u64, (): ()) -> Result<u64, &'static str> {
        holders.checked_sub(1).ok_or("nobody holds it")
    }

    fn undo(&self, (): ()) -> Option<()> {
        Some(())
    }

    fn barges(&self, _: u64) -> bool {
        BARGING
    }
}

impl<const BARGING: bool> MutualExclusion for Holders<1, BARGING> {}

type Fair<const MOST: u64> = Holders<MOST, false>;

static MUTEX: Synchronizer<Fair<1>> = Synchronizer::new(Holders, 0);
static SIMPLE: Synchronizer<Holders<1, true>> = Synchronizer::new(Holders, 0);
static TWINS: Synchronizer<Fair<2>> = Synchronizer::new(Holders, 0);

/// The most of four threads that were inside at once, and how long they took.
fn crowd<P>(lock: &Synchronizer<P>, rounds: u32) -> (u64, Duration)
where
    P: Policy<Ask = (), Refusal = Infallible>,
{
    let (inside, most) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let _held = lock.acquire(()).wait();
                    most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    (most.load(Ordering::Relaxed), start.elapsed())
}

/// A thread waits, with the lock, for what another does with the lock. How often it was woken.
fn wait_for_a_condition(lock: &Synchronizer<Fair<1>>) -> u32 {
    let (ready, made_ready) = (AtomicBool::new(false), Condition::new());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut held = lock.acquire(()).wait();
            let mut wake_ups = 0;
            while !ready.load(Ordering::Relaxed) {
                held = made_ready.wait(held).wait();
                wake_ups += 1;
            }
            drop(held);
            wake_ups
        });
        while !made_ready.is_awaited() {
            thread::yield_now();
        }
        let held = lock.acquire(()).wait();
        ready.store(true, Ordering::Relaxed);
        made_ready.signal(&held);
        drop(held);
        waiter.join().expect("it does not panic")
    })
}

fn main() {
    println!("Four threads, 2000 times each: the most inside at once, and the time it took");
    let runs = [
        ("mutex", crowd(&MUTEX, 2000)),
        ("simple lock", crowd(&SIMPLE, 2000)),
        ("twins' lock", crowd(&TWINS, 2000)),
    ];
    for (name, (most, time)) in runs {
        println!("  {name:<12} {most}  {:>7.1} ms", time.as_secs_f64() * 1e3);
    }
    let held = MUTEX.acquire(()).wait();
    let second = MUTEX.acquire(()).timeout(Duration::from_millis(20)).wait();
    println!("a second holder of the mutex, after 20 ms: {:?}", second.map(drop));
    drop(held);
    println!("unlocking what nobody holds: {:?}", MUTEX.release(()));
    println!("waiting for a condition of the mutex: woken {} time", wait_for_a_condition(&MUTEX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits_no_more_than_it_says<const MOST: u64, const BARGING: bool>() {
        let lock = Synchronizer::new(Holders::<MOST, BARGING>, 0);
        assert!(crowd(&lock, 500).0 <= MOST);
        assert_eq!((lock.state(), lock.waiters()), (0, 0));
    }

    #[test]
    fn no_lock_admits_more_than_it_says() {
        admits_no_more_than_it_says::<1, false>();
        admits_no_more_than_it_says::<1, true>();
        admits_no_more_than_it_says::<2, false>();
    }

    #[test]
    fn twins_hold_it_together_and_a_third_waits() {
        let lock = Synchronizer::new(Holders::<2, false>, 0);
        let first = lock.acquire(()).wait();
        let second = lock.try_acquire(()).expect("there is room for two");
        assert!(lock.try_acquire(()).is_err());
        thread::scope(|scope| {
            let third = scope.spawn(|| drop(lock.acquire(()).wait()));
            while lock.waiters() == 0 {
                thread::yield_now();
            }
            drop(first);
            third.join().unwrap();
        });
        drop(second);
    }

    #[test]
    fn a_mutex_that_nobody_holds_cannot_be_unlocked() {
        assert_eq!(Synchronizer::new(Holders::<1, false>, 0).release(()), Err("nobody holds it"));
    }

    #[test]
    fn a_mutex_of_ones_own_has_conditions() {
        let lock = Synchronizer::new(Holders::<1, false>, 0);
        assert_eq!(wait_for_a_condition(&lock), 1);
        assert_eq!(lock.state(), 0);
    }
}
