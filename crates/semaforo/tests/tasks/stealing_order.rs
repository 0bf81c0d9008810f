//! The order in which the workers of a pool that steals begin their tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{Door, Record, eventually, hold, hold_some, in_both_modes, pool, watched};
use semaforo::tasks::{Mode, Pool, Shutdown, yield_now};

/// Runs `body` in a task of a pool with one worker, drains the pool, and tells what was noted.
fn noted_by_one_worker(
    body: impl FnOnce(&Pool, &Record<&'static str>) + Send + 'static,
) -> Vec<&'static str> {
    watched(|| {
        let pool = pool(Mode::Stealing, 1);
        let record = Record::new();
        let held = hold(&pool);
        let body = pool.at(0).spawn({
            let (pool, record) = (pool.clone(), record.clone());
            move || body(&pool, &record)
        });
        // So that nothing is refused that is started from outside.
        let last = pool.at(9).spawn(|| ());
        drop(held);
        body.wait().unwrap();
        last.wait().unwrap();
        pool.shutdown(Shutdown::Drain).wait();
        record.entries()
    })
}

fn noting(record: &Record<&'static str>, name: &'static str) -> impl FnOnce() + Send + use<> {
    let record = record.clone();
    move || record.note(name)
}

#[test]
fn children_begin_youngest_first_within_a_level() {
    let noted = noted_by_one_worker(|pool, record| {
        for (level, name) in [(5, "a"), (7, "x"), (5, "b"), (2, "m"), (7, "y"), (5, "c"), (2, "n")]
        {
            pool.at(level).execute(noting(record, name));
        }
    });
    assert_eq!(noted, ["n", "m", "c", "b", "a", "y", "x"]);
}

#[test]
fn what_is_more_urgent_in_the_queue_of_all_comes_before_children() {
    let noted = noted_by_one_worker(|pool, record| {
        for name in ["child a", "child b"] {
            pool.at(5).execute(noting(record, name));
        }
        let (outside, record) = (pool.clone(), record.clone());
        thread::spawn(move || {
            outside.at(6).execute(noting(&record, "less urgent"));
            outside.at(5).execute(noting(&record, "as urgent"));
            outside.at(4).execute(noting(&record, "more urgent"));
        })
        .join()
        .unwrap();
    });
    assert_eq!(noted, ["more urgent", "child b", "child a", "as urgent", "less urgent"]);
}

/// Also between two children: the queue of all is looked at before every single pick.
#[test]
fn what_is_more_urgent_comes_between_two_children() {
    let noted = noted_by_one_worker(|pool, record| {
        pool.at(5).execute(noting(record, "second child"));
        let (again, record) = (pool.clone(), record.clone());
        pool.at(5).execute(move || {
            let urgent = noting(&record, "urgent");
            record.note("first child");
            thread::spawn(move || again.at(1).execute(urgent)).join().unwrap();
        });
    });
    assert_eq!(noted, ["first child", "urgent", "second child"]);
}

#[test]
fn fair_children_queue_up_behind_everybody() {
    let noted = noted_by_one_worker(|pool, record| {
        pool.fair().execute(noting(record, "fair a"));
        pool.at(5).execute(noting(record, "child a"));
        pool.at(5).fair().execute(noting(record, "fair b"));
        pool.at(5).execute(noting(record, "child b"));
        pool.at(4).fair().execute(noting(record, "urgent"));
    });
    assert_eq!(noted, ["urgent", "child b", "child a", "fair a", "fair b"]);
}

#[test]
fn a_worker_that_never_runs_out_of_children_serves_the_others_too() {
    watched(|| {
        let pool = pool(Mode::Stealing, 1);
        let served = Arc::new(AtomicUsize::new(0));
        fn child(pool: &Pool, served: &Arc<AtomicUsize>) {
            let (again, served) = (pool.clone(), Arc::clone(served));
            pool.execute(move || {
                if served.load(Ordering::SeqCst) < 100 {
                    child(&again, &served);
                }
            });
        }
        let held = hold(&pool);
        child(&pool, &served);
        for _ in 0..100 {
            let served = Arc::clone(&served);
            pool.execute(move || {
                served.fetch_add(1, Ordering::SeqCst);
            });
        }
        drop(held);
        eventually("everyone is served", || served.load(Ordering::SeqCst) == 100);
    });
}

/// The one worker that is free takes the oldest child of the one that is not, level by level.
#[test]
fn thieves_begin_with_the_oldest_of_the_most_urgent_level() {
    const CHILDREN: usize = 40;
    watched(|| {
        let pool = pool(Mode::Stealing, 2);
        let begun = Record::new();
        let (door, ready) = (Door::new(), Arc::new(AtomicBool::new(false)));
        // One is held until there is something to steal; then the other is.
        let held = hold_some(&pool, 1);
        pool.execute({
            let (pool, begun) = (pool.clone(), begun.clone());
            let (door, ready) = (Arc::clone(&door), Arc::clone(&ready));
            move || {
                for number in 0..CHILDREN {
                    let begun = begun.clone();
                    let level = if number % 2 == 0 { 5 } else { 3 };
                    pool.at(level).execute(move || begun.note((level, number)));
                }
                ready.store(true, Ordering::SeqCst);
                door.pass();
            }
        });
        eventually("the children are there", || ready.load(Ordering::SeqCst));
        assert_eq!(begun.len(), 0);
        drop(held);
        eventually("all are stolen", || begun.len() == CHILDREN);
        let mut expected: Vec<_> =
            (0..CHILDREN).map(|number| (if number % 2 == 0 { 5 } else { 3 }, number)).collect();
        expected.sort_unstable();
        assert_eq!(begun.entries(), expected);
        assert!(pool.metrics().steals > 0);
        door.open();
        pool.shutdown(Shutdown::Drain).wait();
    });
}

/// The pool wakes somebody for every child, so nobody need ever wait for a worker that is busy.
#[test]
fn every_worker_gets_a_share_of_one_workers_children() {
    const THREADS: usize = 4;
    watched(|| {
        for _ in 0..50 {
            let pool = pool(Mode::Stealing, THREADS);
            // All of them have to be there at once, which the pool does not see.
            let meeting = Arc::new(std::sync::Barrier::new(THREADS));
            let children = pool.spawn({
                let pool = pool.clone();
                move || {
                    for _ in 1..THREADS {
                        let meeting = Arc::clone(&meeting);
                        pool.execute(move || {
                            meeting.wait();
                        });
                    }
                    meeting.wait();
                }
            });
            children.wait().unwrap();
            assert!(pool.metrics().steals > 0);
            pool.shutdown(Shutdown::Drain).wait();
        }
    });
}

#[test]
fn tasks_that_yield_take_turns() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let record = Record::new();
        let polite = |pool: &Pool, record: &Record<usize>, number: usize| {
            let record = record.clone();
            drop(pool.spawn_future(async move {
                for _ in 0..50 {
                    record.note(number);
                    yield_now().await;
                }
            }));
        };
        pool.execute({
            let (pool, record) = (pool.clone(), record.clone());
            move || (0..3).for_each(|number| polite(&pool, &record, number))
        });
        eventually("all have ended", || record.len() == 150);
        // Who is the first to begin depends on the mode.
        let record = record.entries();
        let turn = record[..3].to_vec();
        assert!(record.chunks(3).all(|next| next == turn), "{record:?}");
        let mut all = turn;
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

/// A task that yields until somebody else of its level has run: a child, and one from outside.
#[test]
fn a_task_that_yields_starves_nobody() {
    in_both_modes(|mode| {
        let pool = pool(mode, 1);
        let ran = Arc::new(AtomicUsize::new(0));
        let run = |ran: &Arc<AtomicUsize>| {
            let ran = Arc::clone(ran);
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        let held = hold(&pool);
        let polite = pool.spawn_future({
            let (pool, ran) = (pool.clone(), Arc::clone(&ran));
            async move {
                let ran_by_child = Arc::clone(&ran);
                pool.execute(move || {
                    ran_by_child.fetch_add(1, Ordering::SeqCst);
                });
                while ran.load(Ordering::SeqCst) < 3 {
                    yield_now().await;
                }
            }
        });
        pool.execute(run(&ran));
        pool.fair().execute(run(&ran));
        drop(held);
        polite.wait().unwrap();
    });
}

/// Tasks that yield are served in turn even while a worker has children without end.
#[test]
fn children_without_end_starve_no_task_that_yields() {
    watched(|| {
        let pool = pool(Mode::Stealing, 1);
        let left = Arc::new(AtomicUsize::new(3));
        fn child(pool: &Pool, left: &Arc<AtomicUsize>) {
            let (again, left) = (pool.clone(), Arc::clone(left));
            pool.execute(move || {
                if left.load(Ordering::SeqCst) > 0 {
                    child(&again, &left);
                }
            });
        }
        pool.execute({
            let (pool, left) = (pool.clone(), Arc::clone(&left));
            move || {
                for _ in 0..3 {
                    let left = Arc::clone(&left);
                    drop(pool.spawn_future(async move {
                        for _ in 0..20 {
                            yield_now().await;
                        }
                        left.fetch_sub(1, Ordering::SeqCst);
                        while left.load(Ordering::SeqCst) > 0 {
                            yield_now().await;
                        }
                    }));
                }
                child(&pool, &left);
            }
        });
        eventually("all were served", || left.load(Ordering::SeqCst) == 0);
        pool.shutdown(Shutdown::Drain).wait();
    });
}

/// The bound of aging also holds for a child that is older than a task that yields.
#[test]
fn aging_prefers_an_older_child_to_a_task_that_yields() {
    watched(|| {
        let pool = Pool::builder().threads(1).aging(4).build().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        fn urgent(pool: &Pool, done: &Arc<AtomicBool>) {
            let (again, done) = (pool.clone(), Arc::clone(done));
            pool.at(0).execute(move || {
                if !done.load(Ordering::SeqCst) {
                    urgent(&again, &done);
                }
            });
        }
        let held = hold(&pool);
        pool.at(0).execute({
            let (pool, done) = (pool.clone(), Arc::clone(&done));
            move || {
                let (seen, told) = (Arc::clone(&done), Arc::clone(&done));
                drop(pool.at(5).spawn_future(async move {
                    while !seen.load(Ordering::SeqCst) {
                        yield_now().await;
                    }
                }));
                pool.at(5).execute(move || told.store(true, Ordering::SeqCst));
                urgent(&pool, &done);
            }
        });
        drop(held);
        eventually("the child runs", || done.load(Ordering::SeqCst));
        pool.shutdown(Shutdown::Drain).wait();
    });
}
