//! What a pool tells about itself: what is queued, and what it counts.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Door, SHORT, eventually, hold, in_both_modes, pool, watched};
use semaforo::CancelSource;
use semaforo::tasks::{Limited, Mode, Pool, Scheduler, Shutdown, Spawn, yield_now};

#[test]
fn what_is_queued_is_listed_by_level_and_age() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        assert_eq!(pool.scheduled(), []);
        let held = hold(&pool);
        let start = Instant::now();
        let levels = [5, 2, 9, 2, 0, 5];
        let tasks: Vec<_> = levels.into_iter().map(|level| pool.at(level).spawn(|| ())).collect();
        let future = pool.at(2).spawn_future(async {});
        let cancelled = pool.at(2).spawn(|| ());
        cancelled.cancel();
        std::thread::sleep(SHORT);
        let order = [&tasks[4], &tasks[1], &tasks[3], &future, &tasks[0], &tasks[5], &tasks[2]];
        let listed = pool.scheduled();
        let ids: Vec<_> = listed.iter().map(|task| task.id).collect();
        assert_eq!(ids, order.map(|task| task.id()));
        let levels: Vec<_> = listed.iter().map(|task| task.level).collect();
        assert_eq!(levels, [0, 2, 2, 2, 5, 5, 9]);
        for task in &listed {
            assert!(task.age >= SHORT / 2 && task.age <= start.elapsed() + Duration::from_secs(1));
            assert_eq!(task.worker, None);
        }
        assert_eq!(Scheduler::scheduled(&pool).len(), 7);
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(pool.scheduled(), []);
    });
}

/// However a task is started; one without a label has none.
#[test]
fn labels_are_listed_whatever_was_started() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = hold(&pool);
        let closure = pool.at(1).label("a closure").spawn(|| ());
        let future = pool.at(2).label("a future").spawn_future(async {});
        pool.at(3).label(String::from("without a handle")).execute(|| ());
        pool.at(4).execute(|| ());
        let stop = CancelSource::new();
        let token = pool.at(5).label("with a token").cancel_on(&stop.token()).spawn(|| ());
        let labels = || pool.scheduled().into_iter().map(|task| task.label).collect::<Vec<_>>();
        let expected = [
            Some("a closure"),
            Some("a future"),
            Some("without a handle"),
            None,
            Some("with a token"),
        ];
        assert_eq!(labels(), expected.map(|label| label.map(String::from)));
        closure.cancel();
        stop.cancel();
        assert_eq!(labels().len(), 3, "{:?}", labels());
        drop(held);
        future.wait().unwrap();
        assert!(token.wait().is_err());
    });
}

/// What waits for its turn under a limit has its labels there; what was passed on is the pool's.
#[test]
fn a_limited_scheduler_lists_labels_of_what_waits_there() {
    watched(|| {
        let pool = pool(Mode::Strict, 1);
        let limited = Limited::new(pool.clone(), 1);
        let held = hold(&pool);
        let tasks = ["one", "two"].map(|label| limited.at(6).label(label).spawn(|| ()));
        let future = limited.at(2).label("a future").spawn_future(async {});
        limited.at(9).label("without a handle").execute(|| ());
        limited.execute(|| ());
        let listed: Vec<_> =
            limited.scheduled().into_iter().map(|task| (task.level, task.label)).collect();
        let named = |level, label: &str| (level, Some(label.to_owned()));
        let expected = [
            named(2, "a future"),
            (5, None),
            named(6, "one"),
            named(6, "two"),
            named(9, "without a handle"),
        ];
        assert_eq!(listed, expected);
        drop(held);
        tasks.into_iter().chain([future]).for_each(|task| task.wait().unwrap());
    });
}

#[test]
fn the_children_in_a_workers_own_queue_are_listed_too() {
    watched(|| {
        let pool = pool(Mode::Stealing, 1);
        let (ready, door) = (Arc::new(AtomicBool::new(false)), Door::new());
        let parent = pool.spawn({
            let (pool, ready, door) = (pool.clone(), Arc::clone(&ready), Arc::clone(&door));
            move || {
                let children = [pool.at(6).spawn(|| ()), pool.at(3).spawn(|| ())];
                let fair = pool.at(3).fair().spawn(|| ());
                let gone = pool.spawn(|| ());
                gone.cancel();
                ready.store(true, Ordering::SeqCst);
                door.pass();
                (children, fair)
            }
        });
        eventually("the children are there", || ready.load(Ordering::SeqCst));
        let listed: Vec<_> =
            pool.scheduled().into_iter().map(|task| (task.id, task.level, task.worker)).collect();
        door.open();
        let (children, fair) = parent.wait().unwrap();
        let expected =
            [(children[1].id(), 3, Some(0)), (fair.id(), 3, None), (children[0].id(), 6, Some(0))];
        assert_eq!(listed, expected);
    });
}

#[test]
fn tasks_are_counted_by_level() {
    in_both_modes(|mode| {
        let pool = pool(mode, 2);
        let held = hold(&pool);
        for level in 0..10 {
            for _ in 0..=level {
                pool.at(level).execute(|| ());
            }
        }
        let metrics = pool.metrics();
        assert_eq!((metrics.running, metrics.threads, metrics.sleeping), (2, 2, 0));
        for (level, counted) in metrics.levels.iter().enumerate() {
            let held = if level == 0 { 2 } else { 0 };
            assert_eq!((counted.queued, counted.picked), (level + 1, held));
        }
        drop(held);
        pool.shutdown(Shutdown::Drain).wait();
        let metrics = pool.metrics();
        assert_eq!((metrics.running, metrics.threads, metrics.spares), (0, 0, 0));
        for (level, counted) in metrics.levels.iter().enumerate() {
            let held = if level == 0 { 2 } else { 0 };
            assert_eq!((counted.queued, counted.picked), (0, level as u64 + 1 + held));
            assert_eq!(counted.waits.count(), counted.picked);
            assert_eq!(
                counted.waits.buckets().map(|(_, count)| count).sum::<u64>(),
                counted.picked
            );
        }
    });
}

#[test]
fn every_poll_of_a_future_is_a_pick() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let future = pool.at(4).spawn_future(async {
            for _ in 0..9 {
                yield_now().await;
            }
        });
        future.wait().unwrap();
        assert_eq!(pool.metrics().levels[4].picked, 10);
    });
}

#[test]
fn how_long_tasks_were_queued_is_measured() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let held = hold(&pool);
        let begun = Instant::now();
        let tasks: Vec<_> = (0..10).map(|_| pool.at(3).spawn(|| ())).collect();
        std::thread::sleep(SHORT);
        drop(held);
        for task in tasks {
            task.wait().unwrap();
        }
        let waits = &pool.metrics().levels[3].waits;
        assert_eq!(waits.count(), 10);
        // What they did not exceed, up to a factor of two: the ticks of the clock are known to a part in twenty.
        let most = begun.elapsed().mul_f64(2.1);
        assert!(waits.quantile(0.01) >= SHORT.mul_f64(0.95), "{waits:?}");
        assert!(waits.quantile(1.0) <= most, "{waits:?}, {most:?}");
        assert!(waits.quantile(0.5) <= waits.quantile(1.0));
        assert_eq!(pool.metrics().levels[2].waits.quantile(0.5), Duration::ZERO);
        for (range, count) in waits.buckets() {
            assert!(range.start < range.end && count > 0);
        }
    });
}

#[test]
fn workers_that_have_nothing_to_do_sleep() {
    in_both_modes(|mode| {
        let pool = pool(mode, 3);
        eventually("all sleep", || pool.metrics().sleeping == 3);
        let suspended = pool.spawn_future(pending::<()>());
        eventually("all sleep again", || {
            pool.metrics().sleeping == 3 && pool.metrics().levels[5].picked == 1
        });
        assert_eq!(pool.metrics().running, 0);
        suspended.cancel();
    });
}

#[test]
fn a_pool_says_what_it_is() {
    let pool = Pool::builder().threads(1).name("doctors").mode(Mode::Strict).build().unwrap();
    let held = hold(&pool);
    pool.execute(|| ());
    let said = format!("{pool:?}");
    for part in ["doctors", "Strict", "threads: 1", "running: 1", "queued: 1"] {
        assert!(said.contains(part), "{said}");
    }
    drop(held);
}
