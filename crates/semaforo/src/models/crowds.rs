//! Several threads that each do many different things, in orders drawn at random: too many for a
//! checker that tries all of them.
//!
//! What each does is drawn at random too. A timekeeper lets time pass until they are done, so that
//! limits end and unclaimed grants are taken back at any moment.

mod conditions;
mod locks;
mod meetings;
mod permits;
mod queues;

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};

use super::checker::spawn;
use super::race::time_passes;
use super::side::{ATask, AThread, Side, Wait};
use crate::primitive::{AtomicU32, Ordering, yield_now};

const THREADS: u32 = 4;
const OPERATIONS: u32 = 5;

/// A number below `end`, drawn at random.
fn draw(end: u32) -> u32 {
    thread_rng().gen_range(0..end)
}

/// Waits as a thread or as a task, as is drawn.
fn finish<W: Wait>(wait: W) -> W::Output {
    if draw(2) == 0 { AThread::finish(wait) } else { ATask::finish(wait) }
}

/// Lets each thread do its operations on what they share, while the timekeeper lets time pass, and
/// gives that back when all have ended. Each thread has pockets of its own, which are emptied last.
fn crowd<T: Send + Sync + 'static, P: Default + 'static>(
    shared: T,
    operate: fn(&Arc<T>, &mut P),
) -> T {
    let shared = Arc::new(shared);
    let working = Arc::new(AtomicU32::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (shared, working) = (Arc::clone(&shared), Arc::clone(&working));
            spawn(move || {
                let mut pockets = P::default();
                for _ in 0..OPERATIONS {
                    operate(&shared, &mut pockets);
                }
                drop(pockets);
                working.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    while working.load(Ordering::SeqCst) > 0 {
        time_passes();
        yield_now();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    Arc::into_inner(shared).expect("all threads have ended")
}
