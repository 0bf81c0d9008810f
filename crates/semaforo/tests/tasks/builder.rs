//! How pools are built, what they refuse, and where their tasks run.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;

use crate::support::{
    Door, Tally, eventually, hold, in_both_modes, panic_of, pool, until_queued, watched,
};
use semaforo::Event;
use semaforo::tasks::{self, BuildError, Builder, Mode, Pool, Scheduler, Shutdown, Spawn};

#[track_caller]
fn refusal(builder: Builder) -> (BuildError, String) {
    let error = builder.build().unwrap_err();
    let said = error.to_string();
    (error, said)
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (error, said) = refusal(Pool::builder().threads(0));
    assert!(matches!(error, BuildError::Threads { threads: 0, .. }));
    assert_eq!(said, "a pool needs at least 1 thread");
    for (threads, spares) in
        [(4000, 97), (usize::MAX, 256), (1, usize::MAX), (usize::MAX, usize::MAX)]
    {
        let (error, said) = refusal(Pool::builder().threads(threads).spares(spares));
        assert!(matches!(error, BuildError::Threads { .. }), "{threads} {spares}");
        assert!(said.contains(&threads.to_string()) && said.contains("4096"));
    }
    for levels in [0, 65_537, u32::MAX] {
        let (error, said) = refusal(Pool::builder().levels(levels));
        assert!(matches!(error, BuildError::Levels(refused) if refused == levels));
        assert!(said.contains(&levels.to_string()));
    }
    let (error, said) = refusal(Pool::builder().levels(3).normal(3));
    assert!(matches!(error, BuildError::Normal { normal: 3, levels: 3 }));
    assert!(said.contains("the normal level 3"));
    for picks in [0, 1] {
        assert!(matches!(refusal(Pool::builder().aging(picks)).0, BuildError::Aging));
    }
    assert!(matches!(refusal(Pool::builder().name("a\0b")).0, BuildError::Name));
}

#[test]
fn the_normal_level_is_the_one_in_the_middle_unless_said() {
    watched(|| {
        for (levels, normal) in [(1, 0), (2, 1), (10, 5), (11, 5)] {
            let pool = Pool::builder().threads(1).levels(levels).build().unwrap();
            assert_eq!((pool.levels(), pool.normal_level()), (levels, normal));
            pool.spawn(|| ()).wait().unwrap();
            assert_eq!(pool.metrics().levels[normal as usize].picked, 1);
        }
        let pool = Pool::builder().threads(1).levels(7).normal(6).build().unwrap();
        pool.spawn(|| ()).wait().unwrap();
        assert_eq!(pool.metrics().levels[6].picked, 1);
    });
}

/// A level that does not exist is a mistake of the caller's, and costs only the task.
#[test]
fn a_level_that_does_not_exist_is_refused_clearly() {
    in_both_modes(|mode| {
        let (pool, tally) = (pool(mode, 1), Tally::new());
        for level in [10, 64, u32::MAX] {
            let said = panic_of(|| pool.at(level));
            assert_eq!(said, format!("there is no level {level}: the pool has 10, counted from 0"));
            let value = tally.make();
            let said = panic_of(|| pool.start().at(level).spawn(move || drop(value)));
            assert!(said.contains("no level"), "{said}");
            let value = tally.make();
            let start =
                AssertUnwindSafe(|| pool.start().at(level).spawn_future(async { drop(value) }));
            let said = panic_of(start.0);
            assert!(said.contains("no level"), "{said}");
            let value = tally.make();
            let start = AssertUnwindSafe(|| pool.start().at(level).execute(move || drop(value)));
            assert!(panic_of(start.0).contains("no level"));
        }
        tally.expect_all_dropped();
        assert_eq!(pool.at(9).spawn(|| 42).wait().unwrap(), 42);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn threads_have_the_names_of_their_pool() {
    in_both_modes(|mode| {
        let pool = Pool::builder().mode(mode).threads(3).name("nurse").build().unwrap();
        let meeting = Arc::new(std::sync::Barrier::new(3));
        let names: Vec<_> = (0..3)
            .map(|_| {
                let meeting = Arc::clone(&meeting);
                pool.spawn(move || {
                    meeting.wait();
                    thread::current().name().unwrap().to_owned()
                })
            })
            .collect();
        let names: HashSet<_> = names.into_iter().map(|name| name.wait().unwrap()).collect();
        let expected = ["nurse-0", "nurse-1", "nurse-2"].map(str::to_owned);
        assert_eq!(names, HashSet::from(expected));
    });
}

#[test]
fn a_long_running_task_has_a_thread_of_its_own() {
    in_both_modes(|mode| {
        let pool = Pool::builder().mode(mode).threads(1).name("ward").build().unwrap();
        let name = || thread::current().name().unwrap().to_owned();
        let held = hold(&pool);
        // It does not wait for the worker.
        let apart = pool.long_running().spawn(name);
        assert!(apart.wait().unwrap().starts_with("ward-long-"));
        assert!(pool.at(3).long_running().spawn_future(async move { name() }).wait().is_ok());
        let door = Door::new();
        let passes = Arc::clone(&door);
        let long = pool.long_running().spawn(move || passes.pass());
        eventually("it runs", || pool.metrics().running == 2);
        assert_eq!(pool.metrics().threads, 2);
        door.open();
        long.wait().unwrap();
        drop(held);
        // Nor does a worker that waits for it take it away from its thread.
        for _ in 0..20 {
            let inside = pool.clone();
            let apart = pool.spawn(move || inside.long_running().spawn(name).wait().unwrap());
            assert!(apart.wait().unwrap().starts_with("ward-long-"));
        }
        pool.shutdown(Shutdown::Drain).wait();
        assert_eq!(pool.metrics().threads, 0);
    });
}

#[test]
fn the_global_pool_is_one_and_always_there() {
    let (one, other) = (Pool::global(), Pool::global());
    assert!(std::ptr::eq(one, other));
    let handle = one.clone();
    drop(handle);
    assert_eq!(other.spawn(|| 42).wait().unwrap(), 42);
    let cores = thread::available_parallelism().unwrap().get();
    assert_eq!((one.threads(), one.levels(), one.concurrency()), (cores, 10, cores));
    assert_eq!(Pool::default().levels(), 10);
}

#[test]
fn a_pool_of_many_levels_has_them_all() {
    watched(|| {
        for mode in [Mode::Strict, Mode::Stealing] {
            let pool = Pool::builder().mode(mode).threads(1).levels(3000).build().unwrap();
            let tasks: Vec<_> =
                (0..3000).map(|level| pool.at(level).spawn(move || level)).collect();
            for (level, task) in (0..).zip(tasks) {
                assert_eq!(task.wait().unwrap(), level);
            }
        }
    });
}

/// The threads of calls end with them, whoever else still knows the task for a moment.
#[test]
fn the_threads_of_long_running_calls_end() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        for _ in 0..300 {
            pool.long_running().execute(|| ());
            drop(pool.long_running().spawn(|| ()));
        }
        eventually("their threads end", || pool.metrics().threads == 1);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

/// A long-running future keeps its thread between its polls, and gives it back in the end, whatever that is.
#[test]
fn a_long_running_future_has_one_thread() {
    in_both_modes(|mode| {
        let (pool, event) = (pool(mode, 1), Arc::new(Event::new()));
        let name = || thread::current().name().map(String::from).unwrap();
        let future = pool.long_running().spawn_future({
            let event = Arc::clone(&event);
            async move {
                let mut names = vec![name()];
                for _ in 0..10 {
                    tasks::yield_now().await;
                    names.push(name());
                }
                event.happened().await;
                names.push(name());
                names
            }
        });
        until_queued(&*event, 1);
        assert_eq!(pool.metrics().threads, 2);
        event.set();
        let names = future.wait().unwrap();
        assert!(names[0].contains("-long-") && names.iter().all(|name| *name == names[0]));
        eventually("the thread ends", || pool.metrics().threads == 1);
        // One that is cancelled while it is suspended, and one that nobody can wake any more.
        let never = Arc::new(Event::new());
        let waits = Arc::clone(&never);
        let suspended = pool.long_running().spawn_future(async move { waits.happened().await });
        until_queued(&*never, 1);
        assert!(suspended.cancel());
        drop(pool.long_running().spawn_future(std::future::pending::<()>()));
        eventually("their threads end", || pool.metrics().threads == 1);
        pool.shutdown(Shutdown::Drain).wait();
    });
}
