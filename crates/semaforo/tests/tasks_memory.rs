//! A million tasks leave nothing behind. Alone in its process, because all threads are counted.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use semaforo::CancelSource;
use semaforo::tasks::{Limited, Mode, Pool, Shutdown, Spawn, yield_now};
use support::{eventually, pool, watched};

/// Counts the bytes that all threads have.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(pointer, layout) };
    }
}

fn bytes() -> isize {
    BYTES.load(Ordering::Relaxed)
}

/// What the buffers of a pool's queues may keep, of each level and worker some thousand places: far less
/// than any of these would need for its tasks.
const KEPT: isize = 4 << 20;

/// Runs something, and expects it to have given back what it took, soon after.
#[track_caller]
fn expect_no_growth(what: &str, run: impl FnOnce()) {
    let before = bytes();
    run();
    eventually(&format!("{what} leaves nothing behind"), || bytes() - before < KEPT);
}

fn count(counter: &Arc<AtomicUsize>) -> impl FnOnce() + Send + use<> {
    let counter = Arc::clone(counter);
    move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts so many tasks of all kinds, from outside and from inside.
fn many_tasks(pool: &Pool, tasks: usize) {
    let done = Arc::new(AtomicUsize::new(0));
    let share = tasks / 5;
    for _ in 0..share {
        pool.execute(count(&done));
    }
    for level in 0..share {
        drop(pool.at(level as u32 % 10).spawn(count(&done)));
    }
    for _ in 0..share {
        let done = Arc::clone(&done);
        drop(pool.spawn_future(async move {
            yield_now().await;
            done.fetch_add(1, Ordering::Relaxed);
        }));
    }
    let (inside, counter) = (pool.clone(), Arc::clone(&done));
    pool.execute(move || {
        for _ in 0..share {
            inside.execute(count(&counter));
        }
    });
    pool.scope(|scope| {
        for _ in 0..share {
            scope.execute(count(&done));
        }
    });
    eventually("all have run", || done.load(Ordering::Relaxed) == 5 * share);
}

/// A worker that starts tasks and waits for each does not keep them.
fn one_by_one(pool: &Pool, tasks: usize) {
    let inside = pool.clone();
    let most = pool.spawn(move || {
        let before = bytes();
        let growth = (0..tasks).map(|n| {
            let task = inside.spawn(move || n);
            let other = inside.spawn(move || n);
            assert_eq!(task.wait().unwrap() + other.wait().unwrap(), 2 * n);
            bytes() - before
        });
        growth.max().unwrap()
    });
    let most = most.wait().unwrap();
    assert!(most < KEPT, "{most} bytes are kept while tasks are awaited one by one");
}

/// Tasks that are cancelled while the workers are busy do not fill the queue.
fn cancelled_one_by_one(pool: &Pool, tasks: usize) {
    let before = bytes();
    let growth = (0..tasks).map(|n| {
        let (stop, captured) = (CancelSource::new(), [n; 64]);
        let task = pool.at(9).cancel_on(&stop.token()).spawn(move || captured.len());
        if n % 2 == 0 {
            stop.cancel();
        } else {
            assert!(task.cancel());
        }
        bytes() - before
    });
    let most = growth.max().unwrap();
    assert!(most < KEPT, "{most} bytes are kept while tasks are cancelled one by one");
}

#[test]
fn a_million_tasks_leave_nothing_behind() {
    watched(|| {
        // What is made once: threads, the clock, the queues' first buffers.
        let pools = [pool(Mode::Stealing, 2), pool(Mode::Strict, 2)];
        pools.iter().for_each(|pool| many_tasks(pool, 1000));
        for pool in &pools {
            expect_no_growth("half a million", || many_tasks(pool, 500_000));
        }
        one_by_one(&pool(Mode::Stealing, 1), 20_000);
        expect_no_growth("cancelling", || {
            let held = support::hold(&pools[0]);
            let tasks: Vec<_> = (0..50_000).map(|n| pools[0].spawn(move || n)).collect();
            assert!(tasks.iter().all(|task| task.cancel()));
            drop(held);
            pools[0].at(9).spawn(|| ()).wait().unwrap();
        });
        // Of levels whose turn does not come, also in the queue of a worker.
        for mode in support::MODES {
            let pool = pool(mode, 1);
            let held = support::hold(&pool);
            cancelled_one_by_one(&pool, 50_000);
            drop(held);
            let inside = pool.clone();
            pool.spawn(move || cancelled_one_by_one(&inside, 50_000)).wait().unwrap();
        }
        // A token that outlives them.
        let stop = CancelSource::new();
        expect_no_growth("tasks with a token", || {
            let done = Arc::default();
            for round in 0..250_000 {
                let start = pools[round % 2].start().cancel_on(&stop.token());
                let counts = count(&done);
                match round % 3 {
                    0 => start.execute(counts),
                    1 => drop(start.spawn(counts)),
                    _ => drop(start.spawn_future(async move {
                        yield_now().await;
                        counts();
                    })),
                }
            }
            eventually("all have run", || done.load(Ordering::Relaxed) == 250_000);
            eventually("the token keeps none", || stop.token().registrations() == 0);
        });
        expect_no_growth("limits", || {
            let (limited, done) = (Limited::new(pools[0].clone(), 1), Arc::default());
            for _ in 0..50_000 {
                limited.execute(count(&done));
            }
            eventually("all have run", || done.load(Ordering::Relaxed) == 50_000);
        });
        expect_no_growth("pools", || {
            for round in 0..50 {
                let pool = pool(support::MODES[round % 2], 2);
                many_tasks(&pool, 100);
                if round % 3 > 0 {
                    pool.shutdown([Shutdown::Drain, Shutdown::Cancel][round % 2]).wait();
                }
            }
        });
    });
}
