//! Read-write locks: a read alone, and many reads among a few writes.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use asyncband::blocking::FutureExt;

use crate::java;
use crate::placement::Placement::Apart;
use crate::row::{Bar, Contestant, Row};
use crate::workload::one_thread::{ready, repeat};
use crate::workload::tasks::crowd;
use crate::workload::two_threads::fight;

/// These serve readers and writers in order, as ours does; the other peers let readers overtake.
const FAIR: &[&str] = &["tokio", "asyncband", "java-fair"];

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "rwlock-read-async",
            "read-lock and unlock, polled with a no-op waker",
            read_alone,
        )
        .bar(Bar::against("saa", 1.0)),
        Row::new(
            "rwlock-95-threads",
            "95% reads, 2 threads, pinned; saa and async-lock are unfair",
            between_threads,
        )
        .bar(Bar::against("saa", 1.5))
        .patience(3),
        Row::new(
            "rwlock-95-tasks",
            "95% reads, 64 tasks on tokio; saa and async-lock are unfair",
            between_tasks,
        )
        .bar(Bar::best_of(FAIR, 0.8)),
    ]
}

/// One write in so many turns: 95% are reads.
const WRITE_EVERY: u64 = 20;

fn is_write(turn: u64) -> bool {
    turn % WRITE_EVERY == WRITE_EVERY - 1
}

/// Reads what the lock guards, and nothing optimises it away.
fn look(value: u64) {
    black_box(value);
}

/// What saa's lock, which holds no value, guards in place of one. Relaxed: as cheap as a plain access.
#[derive(Default)]
struct SaaLock {
    lock: saa::Lock,
    value: AtomicU64,
}

impl SaaLock {
    fn read_and_release(&self) {
        look(self.value.load(Relaxed));
        self.lock.release_share();
    }

    fn write_and_release(&self) {
        self.value.store(self.value.load(Relaxed) + 1, Relaxed);
        self.lock.release_lock();
    }
}

fn read_alone() -> Vec<Contestant> {
    vec![
        Contestant::ours(repeat(semaforo::RwLock::new(0_u64), |lock| drop(ready(lock.read())))),
        Contestant::peer(
            "saa",
            repeat(saa::Lock::new(), |lock| {
                ready(lock.share_async());
                lock.release_share();
            }),
        ),
        Contestant::peer(
            "async-lock",
            repeat(async_lock::RwLock::new(0_u64), |lock| drop(ready(lock.read()))),
        ),
        Contestant::peer(
            "tokio",
            repeat(tokio::sync::RwLock::new(0_u64), |lock| drop(ready(lock.read()))),
        ),
    ]
}

fn between_threads() -> Vec<Contestant> {
    let mut contestants = vec![
        Contestant::ours(fight(Apart, semaforo::RwLock::new(0_u64), |lock, turn| {
            match is_write(turn) {
                true => *lock.write().wait() += 1,
                false => look(*lock.read().wait()),
            }
        })),
        Contestant::peer(
            "tokio",
            fight(Apart, tokio::sync::RwLock::new(0_u64), |lock, turn| match is_write(turn) {
                true => *lock.blocking_write() += 1,
                false => look(*lock.blocking_read()),
            }),
        ),
        Contestant::peer(
            "asyncband",
            fight(Apart, asyncband::rwlock::RwLock::new(0_u64), |lock, turn| {
                match is_write(turn) {
                    true => *lock.write().block_on() += 1,
                    false => look(*lock.read().block_on()),
                }
            }),
        ),
        Contestant::peer(
            "saa",
            fight(Apart, SaaLock::default(), |lock, turn| match is_write(turn) {
                true => {
                    lock.lock.lock_sync();
                    lock.write_and_release();
                }
                false => {
                    lock.lock.share_sync();
                    lock.read_and_release();
                }
            }),
        ),
        Contestant::peer(
            "async-lock",
            fight(Apart, async_lock::RwLock::new(0_u64), |lock, turn| match is_write(turn) {
                true => *lock.write_blocking() += 1,
                false => look(*lock.read_blocking()),
            }),
        ),
    ];
    contestants.extend(java::timed("java-fair", "rwlock-fair", Apart));
    contestants
}

fn between_tasks() -> Vec<Contestant> {
    vec![
        Contestant::ours(crowd(semaforo::RwLock::new(0_u64), |lock, turn| async move {
            match is_write(turn) {
                true => *lock.write().await += 1,
                false => look(*lock.read().await),
            }
        })),
        Contestant::peer(
            "tokio",
            crowd(tokio::sync::RwLock::new(0_u64), |lock, turn| async move {
                match is_write(turn) {
                    true => *lock.write().await += 1,
                    false => look(*lock.read().await),
                }
            }),
        ),
        Contestant::peer(
            "asyncband",
            crowd(asyncband::rwlock::RwLock::new(0_u64), |lock, turn| async move {
                match is_write(turn) {
                    true => *lock.write().await += 1,
                    false => look(*lock.read().await),
                }
            }),
        ),
        Contestant::peer(
            "saa",
            crowd(SaaLock::default(), |lock, turn| async move {
                match is_write(turn) {
                    true => {
                        lock.lock.lock_async().await;
                        lock.write_and_release();
                    }
                    false => {
                        lock.lock.share_async().await;
                        lock.read_and_release();
                    }
                }
            }),
        ),
        Contestant::peer(
            "async-lock",
            crowd(async_lock::RwLock::new(0_u64), |lock, turn| async move {
                match is_write(turn) {
                    true => *lock.write().await += 1,
                    false => look(*lock.read().await),
                }
            }),
        ),
    ]
}
