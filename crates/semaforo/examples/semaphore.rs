//! A semaphore: as a lock, as a limit, and with every operation of .NET's `Semaphore` and
//! `SemaphoreSlim`: waiting in a thread and in a task, for a limited time, until cancelled,
//! releasing several permits at once, and reading the count.
//!
//! `cargo run --release -p semaforo --example semaphore`

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use semaforo::{CancelSource, Mutex, Semaphore};

/// How many threads are inside, and the most that there ever were.
#[derive(Default)]
struct Section {
    inside: AtomicU32,
    most: AtomicU32,
}

impl Section {
    fn pass(&self) {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(inside, Ordering::Relaxed);
        thread::yield_now();
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Three threads go through a section again and again, each time by this door. Returns the most
/// of them that were inside at once.
fn most_inside(door: impl Fn(&Section) + Sync) -> u32 {
    let section = Section::default();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..200).for_each(|_| door(&section)));
        }
    });
    section.most.into_inner()
}

fn behind_a_lock() -> u32 {
    let lock = Mutex::new(());
    most_inside(|section| {
        let _guard = lock.lock().wait();
        section.pass();
    })
}

fn behind_a_semaphore(permits: u32) -> u32 {
    let semaphore = Semaphore::new(permits);
    most_inside(|section| {
        let _permit = semaphore.acquire(1).wait().expect("it is never closed");
        section.pass();
    })
}

/// How `SemaphoreSlim` calls an operation, how it is written here, and what came of it.
struct Operation {
    theirs: &'static str,
    ours: &'static str,
    outcome: String,
}

/// Every operation of a `SemaphoreSlim(2, 3)`, one after the other.
fn operations() -> Vec<Operation> {
    const SHORT: Duration = Duration::from_millis(20);
    let mut seen = Vec::new();
    let mut note = |theirs, ours, outcome| seen.push(Operation { theirs, ours, outcome });

    let semaphore = Semaphore::with_max(2, 3);
    let count = || format!("{} available, {} held", semaphore.available(), semaphore.held());
    note("SemaphoreSlim(2, 3)", "Semaphore::with_max(2, 3)", count());

    let first = semaphore.acquire(1).wait().expect("there are two");
    note("Wait()", "acquire(1).wait()", format!("{first:?}"));

    let second = block_on(async { semaphore.acquire(1).await }).expect("there is one left");
    note("WaitAsync()", "acquire(1).await", format!("{second:?}"));

    note("CurrentCount", "available()", semaphore.available().to_string());

    let now = semaphore.try_acquire(1);
    note("Wait(0)", "try_acquire(1)", format!("{now:?}"));

    let in_time = semaphore.acquire(1).timeout(SHORT).wait();
    note("Wait(time)", "acquire(1).timeout(time).wait()", format!("{in_time:?}"));

    let stop = CancelSource::new();
    stop.cancel_after(SHORT);
    let token = stop.token();
    let until_told = block_on(async { semaphore.acquire(1).cancel_on(&token).await });
    note("WaitAsync(token)", "acquire(1).cancel_on(&token).await", format!("{until_told:?}"));

    // What a thread has acquired it gives back by dropping the permit ...
    drop(first);
    note("Release()", "drop(permit)", count());

    // ... but a permit can also be kept, and another thread add new ones: `Release(n)`.
    second.forget();
    semaphore.release(2).expect("there is room for two");
    note("Release(2)", "permit.forget(), then release(2)", count());

    let too_many = semaphore.release(1).expect_err("there are three, and never more");
    note("SemaphoreFullException", "release(1)", too_many.to_string());

    let all = semaphore.acquire(3).wait().expect("all three at once");
    note("three times Wait()", "acquire(3).wait()", format!("{all:?}"));

    semaphore.close();
    drop(all);
    let refused = semaphore.acquire(1).wait().expect_err("it is closed");
    note("Dispose()", "close(), then acquire(1).wait()", refused.to_string());
    seen
}

fn main() {
    println!("Three threads go through a section; at most so many of them were in it at once:");
    println!("  {:<16} {}", "free for all", most_inside(Section::pass));
    println!("  {:<16} {}", "Mutex", behind_a_lock());
    println!("  {:<16} {}", "Semaphore of 1", behind_a_semaphore(1));
    println!("  {:<16} {}", "Semaphore of 2", behind_a_semaphore(2));

    println!("\n{:<22} {:<36} outcome", "SemaphoreSlim", "here");
    for Operation { theirs, ours, outcome } in operations() {
        println!("{theirs:<22} {ours:<36} {outcome}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_inside_than_there_are_permits() {
        assert_eq!(behind_a_lock(), 1);
        assert_eq!(behind_a_semaphore(1), 1);
        assert!(behind_a_semaphore(2) <= 2);
    }

    #[test]
    fn each_operation_has_the_outcome_that_is_shown() {
        let outcomes: Vec<_> =
            operations().into_iter().map(|seen| (seen.theirs, seen.outcome)).collect();
        let of = |name| &outcomes.iter().find(|(theirs, _)| *theirs == name).unwrap().1;
        assert!(of("Wait()").contains("permits: 1"));
        assert!(of("WaitAsync()").contains("permits: 1"));
        assert_eq!(of("CurrentCount"), "0");
        assert_eq!(of("Wait(0)"), "Err(NotNow)");
        assert_eq!(of("Wait(time)"), "Err(TimedOut)");
        assert_eq!(of("WaitAsync(token)"), "Err(Cancelled)");
        assert_eq!(of("Release()"), "1 available, 1 held");
        assert_eq!(of("Release(2)"), "3 available, 0 held");
        assert!(of("three times Wait()").contains("permits: 3"));
    }
}
