//! Long chains of tasks: nothing grows with them but the heap.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::support::{hold, in_its_own_process, pool, watched};
use semaforo::tasks::{
    CurrentThread, Handle, JoinError, Mode, Pool, Runnable, Scheduler, Shutdown, Spawn, when_all,
    when_any, yield_now,
};

const LENGTH: u64 = 10_000;

/// Runs everything where it becomes ready.
#[derive(Clone)]
struct Immediate;

impl Scheduler for Immediate {
    fn enqueue(&self, runnable: Runnable) {
        runnable.run();
    }
}

fn chain<S: Scheduler + Clone + 'static>(first: Handle<u64>, by: &S) -> Handle<u64> {
    (0..LENGTH).fold(first, |last, _| last.then(by, |n| n.unwrap() + 1))
}

#[test]
fn ten_thousand_continuations_of_one_task() {
    in_its_own_process(|| {
        for mode in crate::support::MODES {
            let pool = pool(mode, 2);
            let held = hold(&pool);
            let last = chain(pool.spawn(|| 0), &pool);
            drop(held);
            assert_eq!(last.wait().unwrap(), LENGTH);
        }
    });
}

/// The task that they all wait for ends while they do, so each is woken by the one before.
#[test]
fn ten_thousand_wake_ups_on_the_spot() {
    in_its_own_process(|| {
        let pool = pool(Mode::Stealing, 1);
        let held = hold(&pool);
        let last = chain(pool.spawn(|| 0), &Immediate);
        drop(held);
        assert_eq!(last.wait().unwrap(), LENGTH);
    });
}

#[test]
fn ten_thousand_nested_combinations() {
    in_its_own_process(|| {
        let pool = pool(Mode::Stealing, 1);
        let held = hold(&pool);
        let mut all = when_all([pool.spawn(|| 1_u64)]).then(&Immediate, |_| 1);
        for _ in 0..LENGTH / 4 {
            all = when_all([all]).then(&Immediate, |all| all.unwrap().remove(0).unwrap() + 1);
            all = when_any([all]).then(&Immediate, |any| any.unwrap().1.unwrap() + 1);
        }
        drop(held);
        assert_eq!(all.wait().unwrap(), 1 + LENGTH / 2);
    });
}

#[test]
fn ten_thousand_that_wait_for_each_other_are_cancelled_by_the_first() {
    in_its_own_process(|| {
        for mode in crate::support::MODES {
            let pool = pool(mode, 2);
            let first: Handle<Result<(), JoinError>> = pool.spawn_future(std::future::pending());
            let stop = first.id();
            let mut last = first.then(&pool, |outcome| outcome.unwrap_or_else(Err));
            for _ in 0..LENGTH {
                last = last.then(&pool, |outcome| outcome.unwrap_or_else(Err));
            }
            assert!(last.id() != stop && !last.is_finished());
            // All of them at once.
            pool.shutdown(Shutdown::Cancel).wait();
            assert!(matches!(last.wait(), Err(JoinError::ShutDown)));
        }
    });
}

#[test]
fn ten_thousand_that_wait_for_each_other_are_dropped_from_the_last() {
    in_its_own_process(|| {
        for polled in [false, true] {
            let here = CurrentThread::new();
            let never = here.spawn_future(std::future::pending::<u64>());
            let last = chain(never, &here);
            if polled {
                here.run_until(async {
                    for _ in 0..2 * LENGTH {
                        yield_now().await;
                    }
                });
            }
            last.cancel();
            drop((last, here));
        }
    });
}

#[test]
fn ten_thousand_queued_by_a_scheduler_that_goes_are_cancelled() {
    #[derive(Clone, Default)]
    struct Keeping(Arc<Mutex<VecDeque<Runnable>>>);
    impl Scheduler for Keeping {
        fn enqueue(&self, runnable: Runnable) {
            self.0.lock().unwrap().push_back(runnable);
        }
    }
    in_its_own_process(|| {
        let keeping = Keeping::default();
        let last = chain(keeping.spawn(|| 0), &keeping);
        let queued = std::mem::take(&mut *keeping.0.lock().unwrap());
        assert_eq!(queued.len() as u64, LENGTH + 1);
        drop(queued);
        assert!(matches!(last.wait(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn a_token_is_passed_on_ten_thousand_times() {
    watched(|| {
        let pool = Pool::builder().threads(2).build().unwrap();
        fn pass_on(pool: Pool, left: u64, done: std::sync::mpsc::Sender<()>) {
            if left == 0 {
                return done.send(()).unwrap();
            }
            pool.clone().execute(move || pass_on(pool, left - 1, done));
        }
        let (done, is_done) = std::sync::mpsc::channel();
        pass_on(pool, LENGTH, done);
        is_done.recv().unwrap();
    });
}
