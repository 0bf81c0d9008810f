//! The cases that are races: S-24, M-16, M-17, L-08 and K-06.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use semaforo::request::{Limited, Operation, Output};
use semaforo::{CancelSource, Latch, Mutex, Parker, Request, Semaphore, WaitError};
use support::{
    Arrangement, Executor, Kind, Random, Waiter, block_on, eventually, in_every_arrangement, leaked,
};

/// Waits for a bounded request in the arrangement's way, on this thread.
fn wait_as<O: Operation>(kind: Kind, request: Request<O, Limited>) -> Output<O, Limited> {
    match kind {
        Kind::Blocking => request.wait(),
        Kind::Async(Executor::HandRolled | Executor::Tokio) => block_on(request),
        Kind::Async(Executor::Smol) => smol::block_on(request),
        Kind::Async(Executor::Futures) => futures::executor::block_on(request),
    }
}

/// S-24
#[test]
fn acquirers_and_releasers_in_any_order_cancel_out() {
    in_every_arrangement(|arrangement| {
        let semaphore = leaked(Semaphore::new(0));
        let mut random = Random::new(7);
        for _ in 0..150 {
            let mut started = Vec::new();
            let (mut acquirers, mut releasers) = (2, 2);
            while acquirers + releasers > 0 {
                let acquires = releasers == 0 || (acquirers > 0 && random.one_in(2));
                let kind = arrangement.kind(started.len());
                *(if acquires { &mut acquirers } else { &mut releasers }) -= 1;
                started.push(if acquires {
                    Waiter::start_then(kind, semaphore.acquire(1), |permit| {
                        permit.unwrap().forget()
                    })
                } else {
                    Waiter::on_a_thread(|| semaphore.release(1).unwrap())
                });
            }
            started.into_iter().for_each(Waiter::join);
            let now = (semaphore.available(), semaphore.held(), semaphore.waiters());
            assert_eq!(now, (0, 0, 0));
        }
    });
}

/// M-16
#[test]
fn all_but_two_are_cancelled_and_the_value_is_consistent() {
    const THREADS: usize = 6;
    for lock in [leaked(Mutex::new(0_u64)), leaked(Mutex::barging(0))] {
        in_every_arrangement(|arrangement| {
            *lock.lock().wait() = 0;
            let sources: Vec<_> = (0..THREADS).map(|_| CancelSource::new()).collect();
            let enough = leaked(AtomicBool::new(false));
            let loopers: Vec<_> = sources
                .iter()
                .enumerate()
                .map(|(number, source)| {
                    let (token, kind) = (source.token(), arrangement.kind(number));
                    Waiter::on_a_thread(move || {
                        let mut locked = 0_u64;
                        while !enough.load(Ordering::Relaxed) || token.is_cancelled() {
                            match wait_as(kind, lock.lock().cancel_on(&token)) {
                                Ok(mut value) => {
                                    *value += 1;
                                    locked += 1;
                                }
                                Err(error) => {
                                    assert_eq!(error, WaitError::Cancelled);
                                    return (locked, false);
                                }
                            }
                        }
                        (locked, true)
                    })
                })
                .collect();
            let mut random = Random::new(3);
            for source in &sources[2..] {
                std::thread::sleep(Duration::from_micros(random.below(2000).into()));
                source.cancel();
            }
            eventually("the cancelled ones end", || loopers[2..].iter().all(Waiter::is_done));
            enough.store(true, Ordering::Relaxed);
            let ends: Vec<_> = loopers.into_iter().map(Waiter::join).collect();
            assert_eq!(ends.iter().filter(|(_, uncancelled)| *uncancelled).count(), 2);
            let locked: u64 = ends.iter().map(|(locked, _)| locked).sum();
            assert_eq!(*lock.try_lock().expect("free"), locked);
            assert_eq!(lock.waiters(), 0);
        });
    }
}

/// M-17
#[test]
fn loopers_with_a_limit_end_when_the_lock_is_kept() {
    for lock in [leaked(Mutex::new(())), leaked(Mutex::barging(()))] {
        in_every_arrangement(|arrangement| {
            let loopers: Vec<_> = (0..6)
                .map(|number| {
                    let kind = arrangement.kind(number);
                    Waiter::on_a_thread(move || {
                        let limit = Duration::from_millis(20);
                        while wait_as(kind, lock.lock().timeout(limit)).is_ok() {}
                    })
                })
                .collect();
            let guard = lock.lock().wait();
            loopers.into_iter().for_each(Waiter::join);
            assert_eq!(lock.waiters(), 0);
            drop(guard);
        });
    }
}

/// L-08
#[test]
fn a_waiter_cancelled_as_the_counts_land_ends_one_way_or_the_other() {
    in_every_arrangement(|arrangement| {
        for round in 0..60 {
            let latch = leaked(Latch::new(3));
            let mut waiters = Vec::new();
            let stops: Vec<_> = (0..3).map(|_| CancelSource::new()).collect();
            for (batch, stop) in stops.iter().enumerate() {
                let kind = arrangement.kind(batch);
                let request = latch.opened().cancel_on(&stop.token());
                let cancelled = Waiter::start_then(kind, request, |ended| ended);
                for position in 0..3 {
                    let kind = arrangement.kind(position + batch + 1);
                    waiters.push(Waiter::start_then(kind, latch.opened(), |()| ()));
                }
                let stop = stop.clone();
                let canceller = Waiter::on_a_thread(move || stop.cancel());
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                latch.count_down();
                canceller.join();
                let ended = cancelled.join();
                assert!(matches!(ended, Ok(()) | Err(WaitError::Cancelled)));
                assert!(batch == 2 || ended.is_err(), "the latch is still shut");
            }
            waiters.into_iter().for_each(Waiter::join);
            assert_eq!((latch.count(), latch.waiters()), (0, 0));
        }
    });
}

/// K-06
#[test]
fn parkers_and_unparkers_over_shared_slots_all_finish() {
    const ROUNDS: usize = 30_000;
    for arrangement in Arrangement::ALL {
        let slots = leaked([const { Parker::new() }; 4]);
        let rounds = leaked(AtomicUsize::new(0));
        let parkers: Vec<_> = (0..4)
            .map(|number| {
                let kind = arrangement.kind(number);
                Waiter::on_a_thread(move || {
                    let mut random = Random::new(number as u64 + 1);
                    while rounds.fetch_add(1, Ordering::Relaxed) < ROUNDS / Arrangement::ALL.len() {
                        let slot = &slots[random.below(4) as usize];
                        match kind {
                            Kind::Blocking => slot.park().wait(),
                            Kind::Async(executor) if random.one_in(64) => {
                                executor.block_on(slot.park());
                            }
                            Kind::Async(_) => block_on(slot.park()),
                        }
                    }
                })
            })
            .collect();
        let done = leaked(AtomicBool::new(false));
        let unparkers: Vec<_> = (0..4)
            .map(|number| {
                Waiter::on_a_thread(move || {
                    let mut random = Random::new(number + 10);
                    while !done.load(Ordering::Relaxed) {
                        slots[random.below(4) as usize].unpark();
                        if random.one_in(16) {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        parkers.into_iter().for_each(Waiter::join);
        done.store(true, Ordering::Relaxed);
        unparkers.into_iter().for_each(Waiter::join);
        assert!(slots.iter().all(|slot| !slot.is_parked()), "seen only while parked");
    }
}
