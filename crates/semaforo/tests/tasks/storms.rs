//! Storms of tasks that are cancelled and that panic: each runs once or not at all, everything that was
//! captured is dropped once, every joiner is answered once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{Counted, Random, Record, Tally, in_both_modes, pool};
use semaforo::CancelSource;
use semaforo::tasks::{Handle, JoinError, Pool, Shutdown, yield_now};

/// What became of the tasks, as their joiners were told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    /// Of those that ended.
    numbers: Vec<usize>,
    results: usize,
    panics: usize,
    cancelled: usize,
    shut_down: usize,
}

impl Told {
    fn note(&mut self, number: usize, outcome: Result<Counted, JoinError>) {
        match outcome {
            Ok(result) => {
                assert_eq!(result.number, number);
                self.numbers.push(number);
                self.results += 1;
            }
            Err(JoinError::Panicked(panic)) => {
                assert_eq!(panic.into_payload().downcast::<Counted>().unwrap().number, number);
                self.numbers.push(number);
                self.panics += 1;
            }
            Err(JoinError::Cancelled) => self.cancelled += 1,
            Err(JoinError::ShutDown) => self.shut_down += 1,
        }
    }

    fn all(&self) -> usize {
        self.results + self.panics + self.cancelled + self.shut_down
    }
}

/// Which tasks began and ended.
#[derive(Default)]
struct Ran {
    begun: Record<usize>,
    ended: Record<usize>,
}

/// The numbers of those that did, each at most once.
fn once(record: &Record<usize>) -> HashSet<usize> {
    let (all, numbers) = (record.len(), record.entries().into_iter().collect::<HashSet<_>>());
    assert_eq!(numbers.len(), all, "something happened twice");
    numbers
}

/// A task of some kind: a call or a future that yields, which ends with its value or panics with it.
fn start(pool: &Pool, random: &mut Random, value: Counted, ran: &Arc<Ran>) -> Handle<Counted> {
    let (ran, panics) = (Arc::clone(ran), random.one_in(4));
    let end = move |value: Counted, ran: Arc<Ran>| {
        ran.ended.note(value.number);
        if panics {
            // The hook would print thousands of messages.
            std::panic::resume_unwind(Box::new(value));
        }
        value
    };
    let spawner = pool.at(random.below(10));
    let spawner = if random.one_in(3) { spawner.fair() } else { spawner };
    match random.below(3) {
        0 => spawner.spawn(move || {
            ran.begun.note(value.number);
            end(value, ran)
        }),
        1 => spawner.spawn_future(async move {
            ran.begun.note(value.number);
            yield_now().await;
            end(value, ran)
        }),
        _ => {
            let never = CancelSource::new();
            spawner.cancel_on(&never.token()).spawn(move || {
                ran.begun.note(value.number);
                end(value, ran)
            })
        }
    }
}

/// Starts tasks from several threads, while others cancel some of them, and counts.
fn storm(pool: &Pool, seed: u64, ends: Option<Shutdown>) {
    const STARTERS: usize = 3;
    const TASKS: usize = 400;
    let (tally, ran) = (Tally::new(), Arc::new(Ran::default()));
    let told = thread::scope(|scope| {
        let starters: Vec<_> = (0..STARTERS)
            .map(|starter| {
                let (tally, ran) = (tally.clone(), Arc::clone(&ran));
                scope.spawn(move || {
                    let mut random = Random::new(seed * 31 + starter as u64);
                    let mut told = Told::default();
                    let mut waiting = Vec::new();
                    for task in 0..TASKS {
                        let value = tally.make();
                        let number = value.number;
                        let handle = start(pool, &mut random, value, &ran);
                        waiting.push((number, handle));
                        if random.one_in(2) {
                            let some = random.below(waiting.len() as u32) as usize;
                            waiting[some].1.cancel();
                        }
                        if random.one_in(3) {
                            let some = random.below(waiting.len() as u32) as usize;
                            let (number, handle) = waiting.swap_remove(some);
                            told.note(number, handle.wait());
                        }
                        if let (Some(ends), true) = (ends, starter == 0 && task == TASKS / 2) {
                            drop(pool.shutdown(ends));
                        }
                    }
                    for (number, handle) in waiting {
                        let outcome = if random.one_in(2) {
                            handle.wait()
                        } else {
                            futures::executor::block_on(handle)
                        };
                        told.note(number, outcome);
                    }
                    told
                })
            })
            .collect();
        starters.into_iter().map(|starter| starter.join().unwrap()).collect::<Vec<_>>()
    });
    pool.shutdown(Shutdown::Drain).wait();
    assert_eq!(told.iter().map(Told::all).sum::<usize>(), STARTERS * TASKS);
    // Whoever was told of an outcome was told the truth; the others were cancelled, some of them while
    // they ran.
    let (begun, ended) = (once(&ran.begun), once(&ran.ended));
    assert!(ended.is_subset(&begun));
    let told_of: HashSet<_> = told.iter().flat_map(|told| told.numbers.iter().copied()).collect();
    assert!(told_of.is_subset(&ended));
    if ends.is_none() {
        assert!(told.iter().all(|told| told.shut_down == 0));
    }
    tally.expect_all_dropped();
}

#[test]
fn a_storm_of_cancellations_and_panics() {
    in_both_modes(|mode| {
        for seed in 0..6 {
            storm(&pool(mode, 1 + seed as usize % 4), seed, None);
        }
    });
}

#[test]
fn a_storm_while_the_pool_drains() {
    in_both_modes(|mode| {
        for seed in 0..6 {
            storm(&pool(mode, 1 + seed as usize % 4), seed, Some(Shutdown::Drain));
        }
    });
}

#[test]
fn a_storm_while_the_pool_is_cancelled() {
    in_both_modes(|mode| {
        for seed in 0..6 {
            storm(&pool(mode, 1 + seed as usize % 4), seed, Some(Shutdown::Cancel));
        }
    });
}

/// Two threads race to cancel the same tasks while the pool begins them: exactly one of the three wins.
#[test]
fn a_task_is_begun_or_cancelled_by_exactly_one() {
    in_both_modes(|mode| {
        const TASKS: usize = 2000;
        let pool = pool(mode, 2);
        let ran = Arc::new(AtomicUsize::new(0));
        let (mut cancelled, mut answered) = (0, 0);
        let tally = Tally::new();
        for _ in 0..TASKS / 20 {
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let (ran, value) = (Arc::clone(&ran), tally.make());
                    pool.spawn(move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        value
                    })
                })
                .collect();
            let tasks = &tasks;
            cancelled += thread::scope(|scope| {
                let cancel = || tasks.iter().filter(|task| task.cancel()).count();
                let other = scope.spawn(cancel);
                cancel() + other.join().unwrap()
            });
            answered += tasks.iter().filter(|task| task.is_finished()).count();
        }
        assert_eq!(answered, TASKS);
        pool.shutdown(Shutdown::Drain).wait();
        let ran = ran.load(Ordering::SeqCst);
        assert!(cancelled <= TASKS && ran + cancelled >= TASKS, "{ran} ran, {cancelled} cancelled");
        tally.expect_all_dropped();
    });
}

/// Handles dropped at any moment: the tasks go on, and what they yield is dropped.
#[test]
fn a_storm_of_detached_tasks() {
    in_both_modes(|mode| {
        const TASKS: usize = 3000;
        let pool = pool(mode, 2);
        let (tally, ran) = (Tally::new(), Arc::new(Ran::default()));
        let mut random = Random::new(5);
        for _ in 0..TASKS {
            drop(start(&pool, &mut random, tally.make(), &ran));
        }
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!((once(&ran.begun).len(), once(&ran.ended).len()), (TASKS, TASKS));
        tally.expect_all_dropped();
    });
}
