//! The order in which a strict pool begins its tasks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Door, Random, Record, eventually, hold, in_both_modes, pool, watched};
use semaforo::tasks::{Handle, Mode, Pool, Shutdown};

fn with_levels(mode: Mode, threads: usize, levels: u32) -> Pool {
    Pool::builder().mode(mode).threads(threads).levels(levels).build().unwrap()
}

/// Queues tasks of random levels behind a held worker, and expects them by level, and within
/// a level as they came.
fn one_worker_begins_by_level(mode: Mode, levels: u32) {
    const TASKS: usize = 2000;
    let pool = with_levels(mode, 1, levels);
    let begun = Record::new();
    let mut random = Random::new(u64::from(levels));
    let held = hold(&pool);
    let mut expected = Vec::new();
    for number in 0..TASKS {
        let level = random.below(levels);
        expected.push((level, number));
        let begun = begun.clone();
        pool.at(level).execute(move || begun.note((level, number)));
    }
    drop(held);
    pool.shutdown(Shutdown::Drain).wait();
    expected.sort_unstable();
    assert_eq!(begun.entries(), expected);
}

#[test]
fn one_worker_begins_tasks_by_level_and_then_as_they_came() {
    for levels in [1, 2, 10, 32, 33, 64, 65, 130, 1000] {
        in_both_modes(move |mode| one_worker_begins_by_level(mode, levels));
    }
}

/// Children and newcomers alike: nothing has a place of its own in a strict pool.
#[test]
fn children_wait_for_their_turn_in_a_strict_pool() {
    watched(|| {
        let pool = pool(Mode::Strict, 1);
        let begun = Record::new();
        let held = hold(&pool);
        pool.at(3).execute({
            let (pool, begun) = (pool.clone(), begun.clone());
            move || {
                for (level, name) in [(7, "low"), (5, "normal 2"), (0, "urgent"), (5, "normal 3")] {
                    let begun = begun.clone();
                    pool.at(level).execute(move || begun.note(name));
                }
                begun.note("parent");
            }
        });
        pool.at(5).execute({
            let begun = begun.clone();
            move || begun.note("normal 1")
        });
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        let expected = ["parent", "urgent", "normal 1", "normal 2", "normal 3", "low"];
        assert_eq!(begun.entries(), expected);
    });
}

/// When one task was started, and begun, on a clock that only counts.
#[derive(Clone, Copy, Debug)]
struct Span {
    level: u32,
    /// Before and after it was started.
    started: (u64, u64),
    /// When the worker that runs it was last busy, and when the task began: it was picked in between.
    picked: (u64, u64),
}

/// No task was picked before one that comes first, and was surely waiting when the worker looked.
fn expect_strict(spans: &[Span]) {
    for early in spans {
        for late in spans.iter().filter(|late| early.picked.1 < late.picked.0) {
            let waited = late.started.1 < early.picked.0;
            assert!(!(waited && late.level < early.level), "{early:?} overtook {late:?}");
            let older = late.started.1 < early.started.0;
            assert!(!(older && late.level == early.level), "{early:?} overtook {late:?}");
        }
    }
}

#[test]
fn four_workers_never_begin_a_task_while_a_more_urgent_one_waits() {
    const STARTERS: usize = 3;
    const TASKS: usize = 700;
    thread_local! {
        static LAST_BUSY: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    watched(|| {
        for levels in [4, 40] {
            let pool = with_levels(Mode::Strict, 4, levels);
            let clock = Arc::new(AtomicU64::new(1));
            let spans = Arc::new(Mutex::new(Vec::new()));
            let held = &Mutex::new(Some(hold(&pool)));
            std::thread::scope(|scope| {
                for starter in 0..STARTERS {
                    let (pool, clock, spans) = (&pool, &clock, &spans);
                    scope.spawn(move || {
                        let mut random = Random::new(starter as u64 + 1);
                        for number in 0..TASKS {
                            if number == TASKS / 2 {
                                // Half of them wait already when the workers begin.
                                held.lock().unwrap().take();
                            }
                            let level = random.below(levels);
                            let after = Arc::new(AtomicU64::new(u64::MAX));
                            let before = clock.fetch_add(1, Ordering::SeqCst);
                            let (ticks, spans, told) =
                                (Arc::clone(clock), Arc::clone(spans), Arc::clone(&after));
                            pool.at(level).execute(move || {
                                let began = ticks.fetch_add(1, Ordering::SeqCst);
                                let picked = (LAST_BUSY.get(), began);
                                spans.lock().unwrap().push((level, before, told, picked));
                                LAST_BUSY.set(ticks.fetch_add(1, Ordering::SeqCst));
                            });
                            after.store(clock.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        }
                    });
                }
            });
            pool.shutdown(Shutdown::Drain).wait();
            let spans: Vec<_> = std::mem::take(&mut *spans.lock().unwrap())
                .into_iter()
                .map(|(level, before, after, picked)| Span {
                    level,
                    started: (before, after.load(Ordering::SeqCst)),
                    picked,
                })
                .collect();
            assert_eq!(spans.len(), STARTERS * TASKS);
            expect_strict(&spans);
        }
    });
}

#[test]
fn a_running_task_is_not_interrupted() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let (door, begun) = (Door::new(), Record::new());
        let slow = pool.at(9).spawn({
            let (door, begun) = (Arc::clone(&door), begun.clone());
            move || {
                begun.note("slow begins");
                door.pass();
                begun.note("slow ends");
            }
        });
        eventually("it begins", || begun.len() == 1);
        let urgent = pool.at(0).spawn({
            let begun = begun.clone();
            move || begun.note("urgent")
        });
        assert!(!urgent.is_finished());
        assert_eq!(begun.entries(), ["slow begins"]);
        door.open();
        slow.wait().unwrap();
        urgent.wait().unwrap();
        assert_eq!(begun.entries(), ["slow begins", "slow ends", "urgent"]);
    });
}

/// Urgent tasks that start each other for as long as anybody waits.
fn flood(pool: &Pool, picks: &Arc<AtomicUsize>, until: Arc<AtomicUsize>) {
    let (again, picks) = (pool.clone(), Arc::clone(picks));
    pool.at(0).fair().execute(move || {
        picks.fetch_add(1, Ordering::SeqCst);
        if until.load(Ordering::SeqCst) > 0 {
            flood(&again, &picks, until);
        }
    });
}

#[test]
fn aging_serves_the_oldest_within_the_promised_number_of_picks() {
    const TASKS: usize = 20;
    in_both_modes(|mode| {
        for aging in [2, 5, 16] {
            let pool = Pool::builder().mode(mode).threads(1).aging(aging).build().unwrap();
            let (picks, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(TASKS)));
            let mut random = Random::new(u64::from(aging));
            let held = hold(&pool);
            flood(&pool, &picks, Arc::clone(&left));
            flood(&pool, &picks, Arc::clone(&left));
            let tasks: Vec<Handle<usize>> = (0..TASKS)
                .map(|_| {
                    let (picks, left) = (Arc::clone(&picks), Arc::clone(&left));
                    pool.at(1 + random.below(9)).spawn(move || {
                        left.fetch_sub(1, Ordering::SeqCst);
                        picks.fetch_add(1, Ordering::SeqCst)
                    })
                })
                .collect();
            drop(held);
            let mut last = 0;
            for (older, task) in tasks.into_iter().enumerate() {
                let before = task.wait().unwrap();
                let bound = aging as usize * (older + 1);
                assert!(before < bound, "the {older}. began after {before} picks, not {bound}");
                assert!(older == 0 || before > last, "the oldest comes first");
                last = before;
            }
        }
    });
}

#[test]
fn without_aging_the_urgent_ones_come_first_for_as_long_as_they_come() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let (picks, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(1)));
        let held = hold(&pool);
        flood(&pool, &picks, Arc::clone(&left));
        let patient = pool.at(1).spawn({
            let picks = Arc::clone(&picks);
            move || picks.load(Ordering::SeqCst)
        });
        drop(held);
        eventually("many urgent ones", || picks.load(Ordering::SeqCst) > 1000);
        assert!(!patient.is_finished());
        left.store(0, Ordering::SeqCst);
        assert!(patient.timeout(Duration::from_secs(20)).wait().unwrap() > 1000);
    });
}

/// Aging counts picks, and not how often an idle worker has looked: after a round of four picks the next one
/// begins where the last one did, however long the worker had nothing to do in between.
#[test]
fn aging_counts_picks() {
    in_both_modes(|mode| {
        let pool = Pool::builder().mode(mode).threads(1).aging(4).build().unwrap();
        for round in 0..40 {
            eventually("the worker sleeps", || pool.metrics().sleeping == 1);
            let begun = Record::new();
            let held = hold(&pool);
            let (low, urgent) = (begun.clone(), begun.clone());
            pool.at(9).execute(move || low.note("low"));
            for _ in 0..2 {
                let urgent = urgent.clone();
                pool.at(1).execute(move || urgent.note("urgent"));
            }
            drop(held);
            eventually("all have begun", || begun.len() == 3);
            assert_eq!(begun.entries(), ["urgent", "urgent", "low"], "round {round}");
        }
    });
}

/// Tasks that were cancelled while they were queued are no picks: neither do they take the turn of
/// an aged one, nor are they counted.
#[test]
fn cancelled_tasks_are_not_picked() {
    in_both_modes(|mode| {
        let pool = Pool::builder().mode(mode).threads(1).aging(4).build().unwrap();
        let begun = Record::new();
        let held = hold(&pool);
        let cancelled: Vec<_> = (0..9).map(|level| pool.at(level).spawn(|| ())).collect();
        let low = begun.clone();
        pool.at(9).execute(move || low.note("low"));
        for _ in 0..4 {
            let urgent = begun.clone();
            pool.at(1).execute(move || urgent.note("urgent"));
        }
        assert!(cancelled.iter().all(Handle::cancel));
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(begun.entries(), ["urgent", "urgent", "low", "urgent", "urgent"]);
        let picked: Vec<_> = pool.metrics().levels.iter().map(|level| level.picked).collect();
        // The first is the one that held the worker.
        assert_eq!(picked, [1, 4, 0, 0, 0, 0, 0, 0, 0, 1]);
    });
}
