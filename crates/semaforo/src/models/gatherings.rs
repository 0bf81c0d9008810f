//! Barriers, phasers and exchangers: those who come, against those who leave.

use std::sync::Arc;

use super::checker::{explore, explore_within};
use super::race::{HOUR, race, time_passes};
use super::task::Task;
use crate::queue::Rejected;
use crate::{Barrier, Broken, CancelSource, Exchanger, Phaser, PhaserError, WaitError};

fn pair() -> Arc<Barrier> {
    Arc::new(Barrier::new(2))
}

/// A barrier of two at which nobody waits: broken or not, and nobody has arrived.
fn is_empty(barrier: &Barrier, broken: bool) {
    assert_eq!((barrier.waiters(), barrier.arrived(), barrier.is_broken()), (0, 0, broken));
}

/// Two threads meet twice.
#[test]
fn two_threads_meet_twice() {
    explore_within(3, || {
        fn twice(barrier: &Barrier) {
            barrier.arrive().wait().unwrap();
            barrier.arrive().wait().unwrap();
        }
        let barrier = race(Barrier::new(2), [twice, twice]);
        is_empty(&barrier, false);
        assert_eq!(barrier.generation(), 2);
    });
}

/// A thread's time is up while the other arrives: both go on, or the one is too late and the other
/// finds it broken.
#[test]
fn trip_against_time_out_of_a_thread() {
    explore_within(3, || {
        let barrier = race(
            Barrier::new(2),
            [
                |barrier| match barrier.arrive().timeout(HOUR).wait() {
                    Ok(_) => is_empty(barrier, false),
                    Err(error) => {
                        assert_eq!(error, WaitError::TimedOut);
                        assert!(barrier.is_broken());
                    }
                },
                |barrier| match barrier.arrive().wait() {
                    Ok(_) => assert!(!barrier.is_broken()),
                    Err(Broken) => assert!(barrier.is_broken()),
                },
            ],
        );
        is_empty(&barrier, barrier.is_broken());
        assert_eq!(barrier.generation(), u64::from(!barrier.is_broken()));
    });
}

/// The timer ends a task that waits, while another arrives.
#[test]
fn trip_against_time_out_of_a_task() {
    explore(|| {
        let barrier = pair();
        let task = Task::queued(barrier.arrive_owned().timeout(HOUR));
        race(
            Arc::clone(&barrier),
            [
                |_| _ = time_passes(),
                |barrier| match barrier.arrive().wait() {
                    Ok(arrival) => assert!(arrival.is_last()),
                    Err(Broken) => assert!(barrier.is_broken()),
                },
            ],
        );
        match task.left().resume() {
            Ok(arrival) => assert_eq!((arrival.index(), barrier.is_broken()), (0, false)),
            Err(error) => {
                assert_eq!((error, barrier.is_broken()), (WaitError::TimedOut, true));
            }
        }
        is_empty(&barrier, barrier.is_broken());
    });
}

/// A task that waits is cancelled, another is dropped: the barrier is broken once, and each learns its
/// own reason.
#[test]
fn cancel_against_drop() {
    explore(|| {
        let barrier = Arc::new(Barrier::new(3));
        let source = CancelSource::new();
        let cancelled = Task::queued(barrier.arrive_owned().cancel_on(&source.token()));
        let dropped = Task::queued(barrier.arrive_owned());
        race(
            (source, dropped),
            [|(source, _)| source.cancel(), |(_, dropped)| drop(dropped.take())],
        );
        let error = cancelled.left().resume().unwrap_err();
        assert!(matches!(error, WaitError::Cancelled | WaitError::Refused(Broken)));
        is_empty(&barrier, true);
        assert_eq!(barrier.arrive().wait(), Err(Broken));
    });
}

/// A reset while the last one arrives: the one that waits goes on with it, or learns that it waited in
/// vain, and then the last one waits for another.
#[test]
fn trip_against_reset() {
    explore(|| {
        let barrier = pair();
        let first = Task::queued(barrier.arrive_owned());
        race(
            (Arc::clone(&barrier), CancelSource::new()),
            [
                |(barrier, source)| {
                    barrier.reset();
                    source.cancel();
                },
                |(barrier, source)| {
                    let arrived = barrier.arrive().cancel_on(&source.token()).wait();
                    assert!(matches!(arrived, Ok(_) | Err(WaitError::Cancelled)));
                },
            ],
        );
        if first.left().resume().is_ok() {
            assert_eq!(barrier.generation(), 2);
        }
        barrier.reset();
        is_empty(&barrier, false);
    });
}

/// Three come to a barrier of one party with an action: it runs three times, one at a time, whoever
/// runs it.
#[test]
fn actions_of_generations_that_overlap() {
    explore_within(2, || {
        let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let barrier = Barrier::with_action(1, move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        fn come(barrier: &Barrier) {
            barrier.arrive().wait().unwrap();
        }
        let barrier = race(barrier, [come, come, come]);
        is_empty(&barrier, false);
        assert_eq!(runs.load(std::sync::atomic::Ordering::Relaxed), 3);
    });
}

/// A limit of somebody who waits while the action runs has no effect: all have arrived.
#[test]
fn action_against_cancel() {
    explore(|| {
        let barrier = Arc::new(Barrier::with_action(2, || ()));
        let source = CancelSource::new();
        let first = Task::queued(barrier.arrive_owned().cancel_on(&source.token()));
        race(
            (Arc::clone(&barrier), source),
            [
                |(_, source)| source.cancel(),
                |(barrier, _)| match barrier.arrive().wait() {
                    Ok(arrival) => assert!(arrival.is_last()),
                    Err(Broken) => assert!(barrier.is_broken()),
                },
            ],
        );
        match first.left().resume() {
            Ok(_) => is_empty(&barrier, false),
            Err(error) => {
                assert_eq!(error, WaitError::Cancelled);
                is_empty(&barrier, true);
            }
        }
    });
}

/// Two threads meet and swap, whoever comes first.
#[test]
fn two_threads_swap() {
    explore(|| {
        let exchanger = race(
            Exchanger::new(),
            [
                |exchanger| assert_eq!(exchanger.exchange(1).wait(), 2),
                |exchanger| assert_eq!(exchanger.exchange(2).wait(), 1),
            ],
        );
        assert_eq!(exchanger.waiters(), 0);
    });
}

/// The first is cancelled while the second comes: both have swapped, or each has its own item.
#[test]
fn pairing_against_cancel() {
    explore(|| {
        let exchanger = Arc::new(Exchanger::new());
        let source = CancelSource::new();
        let first = Task::queued(exchanger.exchange_owned(1).cancel_on(&source.token()));
        race(
            (Arc::clone(&exchanger), source),
            [
                |(_, source)| source.cancel(),
                |(exchanger, source)| match exchanger.exchange(2).cancel_on(&source.token()).wait()
                {
                    Ok(item) => assert_eq!(item, 1),
                    Err(Rejected { item, why }) => {
                        assert_eq!((item, why), (2, WaitError::Cancelled));
                    }
                },
            ],
        );
        match first.left().resume() {
            Ok(item) => assert_eq!(item, 2),
            Err(Rejected { item, why }) => assert_eq!((item, why), (1, WaitError::Cancelled)),
        }
        assert_eq!(exchanger.waiters(), 0);
    });
}

/// Both threads' time is up while they meet: never one-sided.
#[test]
fn pairing_against_time_out_of_threads() {
    explore_within(3, || {
        fn swap(exchanger: &Exchanger<(u32, bool)>, number: u32) -> (u32, bool) {
            // The second says whether it was swapped.
            match exchanger.exchange((number, true)).timeout(HOUR).wait() {
                Ok(item) => item,
                Err(Rejected { item: (number, _), .. }) => (number, false),
            }
        }
        let (exchanger, outcomes) = race(
            (Exchanger::new(), std::sync::Mutex::new(Vec::new())),
            [
                |(exchanger, outcomes)| {
                    let outcome = swap(exchanger, 1);
                    outcomes.lock().unwrap().push(outcome);
                },
                |(exchanger, outcomes)| {
                    let outcome = swap(exchanger, 2);
                    outcomes.lock().unwrap().push(outcome);
                },
            ],
        );
        let mut outcomes = outcomes.into_inner().unwrap();
        outcomes.sort_unstable();
        let swapped = outcomes[0].1;
        assert_eq!(outcomes, [(1, swapped), (2, swapped)]);
        assert_eq!(exchanger.waiters(), 0);
    });
}

/// Two threads go through two phases.
#[test]
fn two_phases() {
    explore_within(3, || {
        fn twice(phaser: &Phaser) {
            assert_eq!(phaser.arrive_and_wait().wait(), Ok(1));
            phaser.arrive_and_wait().wait().unwrap();
        }
        let phaser = race(Phaser::new(2), [twice, twice]);
        assert_eq!((phaser.phase(), phaser.unarrived(), phaser.waiters()), (2, 2, 0));
    });
}

/// One registers while the only other party arrives: the newcomer is expected in this phase or the
/// next.
#[test]
fn arrive_against_register() {
    explore(|| {
        let phaser = race(
            Phaser::new(1),
            [
                |phaser| {
                    let phase = phaser.register().unwrap();
                    assert_eq!(phaser.arrive(), Ok(phase));
                },
                |phaser| assert_eq!(phaser.arrive_and_wait().wait(), Ok(1)),
            ],
        );
        assert_eq!((phaser.registered(), phaser.waiters()), (2, 0));
    });
}

/// The last parties leave while one waits: it learns that there are no more phases.
#[test]
fn deregister_against_wait() {
    explore_within(3, || {
        let phaser = race(
            Phaser::new(2),
            [
                |phaser| {
                    phaser.arrive_and_deregister().unwrap();
                    phaser.arrive_and_deregister().unwrap();
                },
                |phaser| assert_eq!(phaser.advanced(0).wait(), Err(PhaserError::Terminated)),
            ],
        );
        assert!(phaser.is_terminated());
        assert_eq!((phaser.registered(), phaser.waiters()), (0, 0));
    });
}

/// Terminated while one waits and another arrives: nobody waits for ever.
#[test]
fn terminate_against_arrive() {
    explore_within(3, || {
        let phaser = race(
            Phaser::new(2),
            [
                |phaser| assert!(phaser.terminate()),
                |phaser| {
                    let ended = phaser.arrive_and_wait().wait();
                    assert_eq!(ended, Err(PhaserError::Terminated));
                },
            ],
        );
        assert_eq!(phaser.waiters(), 0);
    });
}
