//! `sleep`: a request like any other that nothing but time grants.

use std::time::{Duration, Instant};

use crate::support::{Executor, LONG, SHORT, Step, in_both_modes, pool, watched};
use semaforo::tasks::{Shutdown, sleep, sleep_until, when_all};
use semaforo::{CancelSource, WaitError};

#[test]
fn it_takes_its_time_in_threads_and_tasks() {
    watched(|| {
        let start = Instant::now();
        sleep(SHORT).wait();
        assert!(start.elapsed() >= SHORT);
        let until = Instant::now() + SHORT;
        sleep_until(until).wait();
        assert!(Instant::now() >= until);
        for executor in [Executor::HandRolled, Executor::Tokio, Executor::Smol, Executor::Futures] {
            let start = Instant::now();
            executor.block_on(sleep(SHORT));
            assert!(start.elapsed() >= SHORT);
        }
        sleep(Duration::ZERO).wait();
        sleep_until(start).wait();
        Step::new(sleep(Duration::ZERO)).expect_ready();
    });
}

/// As many as one likes sleep on one thread, and leave it to others meanwhile.
#[test]
fn tasks_that_sleep_hold_no_thread() {
    in_both_modes(|mode| {
        let (pool, start) = (pool(mode, 1), Instant::now());
        let sleepers = when_all((0..1000).map(|_| pool.spawn_future(sleep(SHORT))));
        let others = when_all((0..1000).map(|n| pool.spawn(move || n)));
        assert_eq!(others.wait().unwrap().len(), 1000);
        sleepers.wait().unwrap().into_iter().for_each(Result::unwrap);
        assert!(start.elapsed() >= SHORT && start.elapsed() < 500 * SHORT);
        // A thread that sleeps in the middle of a task waits, and shows it.
        let waits = pool.spawn(|| sleep(SHORT).wait());
        crate::support::eventually("it waits", || {
            pool.metrics().waiting == 1 || waits.is_finished()
        });
        waits.wait().unwrap();
        pool.shutdown(Shutdown::Drain).wait();
    });
}

#[test]
fn it_is_cancelled_and_withdrawn_like_any_other_request() {
    watched(|| {
        let stop = CancelSource::new();
        let mut sleeper = Step::queued(sleep(LONG).cancel_on(&stop.token()));
        let dropped = Step::queued(sleep(LONG).cancel_on(&stop.token()));
        assert_eq!(stop.token().registrations(), 2);
        drop(dropped);
        assert_eq!(stop.token().registrations(), 1);
        stop.cancel();
        assert_eq!(sleeper.wakes(), 1);
        assert_eq!(sleeper.expect_ready(), Err(WaitError::Cancelled));
        assert_eq!(sleep(LONG).cancel_on(&stop.token()).wait(), Err(WaitError::Cancelled));
        let never = CancelSource::new();
        assert_eq!(sleep(SHORT).cancel_on(&never.token()).wait(), Ok(()));
        assert_eq!(sleep(LONG).cancel_on(&never.token()).timeout(SHORT).wait(), Ok(()));
    });
}
