//! Cases B: the cyclic barrier.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex, OnceLock};
use std::time::{Duration, Instant};

use crate::support::{
    InlineTask, LONG, Line, Record, SHORT, Step, Waiter, WakerOf, eventually, fire,
    in_every_arrangement, in_every_arrangement_at_once, in_its_own_process, leaked, message_of,
    panic_of, panicking_waker, until_queued,
};
use semaforo::{Arrival, Barrier, Broken, CancelSource, PartiesError, WaitError};

const BROKEN: WaitError<Broken> = WaitError::Refused(Broken);

/// Parties, arrived, waiters, and whether it is broken.
fn state(barrier: &Barrier) -> (u32, u32, usize, bool) {
    (barrier.parties(), barrier.arrived(), barrier.waiters(), barrier.is_broken())
}

fn increment(count: &AtomicU32) {
    count.fetch_add(1, SeqCst);
}

/// A barrier that the action can find.
fn with_action(
    parties: u32,
    action: impl Fn(&'static Barrier) + Send + 'static,
) -> &'static Barrier {
    let itself: &'static OnceLock<&'static Barrier> = leaked(OnceLock::new());
    let act = move || action(itself.get().unwrap());
    let barrier = leaked(Barrier::with_action(parties, act));
    itself.set(barrier).unwrap();
    barrier
}

/// Everyone arrives, in the arrangement, and goes on.
#[track_caller]
fn a_round_works(arrangement: crate::support::Arrangement, barrier: &'static Barrier) {
    let mut line = Line::new(arrangement, barrier);
    let waiters: Vec<_> = (1..barrier.parties()).map(|_| line.enter(barrier.arrive())).collect();
    let last = line.start(barrier.arrive()).join().unwrap();
    assert_eq!((last.index(), last.is_last()), (barrier.parties() - 1, true));
    for (index, waiter) in waiters.into_iter().enumerate() {
        let arrival = waiter.join().unwrap();
        assert_eq!((arrival.index() as usize, arrival.is_last()), (index, false));
    }
    assert_eq!(state(barrier), (barrier.parties(), 0, 0, false));
}

/// B-01
#[test]
fn a_barrier_needs_a_party() {
    assert!(panic_of(|| Barrier::new(0)).contains("at least one party"));
    assert!(panic_of(|| Barrier::with_action(0, || ())).contains("at least one party"));
    for parties in [1, 2, u32::MAX] {
        let barrier = Barrier::new(parties);
        assert_eq!(state(&barrier), (parties, 0, 0, false));
        assert_eq!((barrier.available(), barrier.generation()), (parties, 0));
    }
}

/// B-02
#[test]
fn a_single_party_never_waits() {
    in_every_arrangement(|arrangement| {
        let ran = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&ran);
        let barrier = leaked(Barrier::with_action(1, move || increment(&count)));
        let mut line = Line::new(arrangement, barrier);
        for round in 1..=2 {
            let arrival = line.start(barrier.arrive()).join().unwrap();
            assert_eq!((arrival.index(), arrival.is_last()), (0, true));
            assert_eq!((ran.load(SeqCst), barrier.generation()), (round, u64::from(round)));
            assert_eq!(state(barrier), (1, 0, 0, false));
        }
        let plain = Barrier::new(1);
        assert!(plain.arrive().timeout(Duration::ZERO).wait().is_ok());
    });
}

/// B-04
#[test]
fn the_action_finds_everyone_there() {
    in_every_arrangement(|arrangement| {
        let seen = Record::new();
        let note = seen.clone();
        let barrier = with_action(3, move |barrier| note.note(state(barrier)));
        let mut line = Line::new(arrangement, barrier);
        let first = line.enter(barrier.arrive());
        assert_eq!((barrier.arrived(), barrier.available()), (1, 2));
        let second = line.enter(barrier.arrive());
        assert_eq!((barrier.arrived(), barrier.available()), (2, 1));
        assert!(!first.is_done() && !second.is_done());
        let third = line.start(barrier.arrive()).join();
        let arrivals = [first.join(), second.join(), third].map(Result::unwrap);
        assert_eq!(arrivals.map(Arrival::index), [0, 1, 2]);
        assert_eq!(seen.entries(), [(3, 3, 2, false)]);
        assert_eq!((state(barrier), barrier.generation()), ((3, 0, 0, false), 1));
    });
}

/// B-05
#[test]
fn every_generation_runs_its_action_once() {
    in_every_arrangement(|arrangement| {
        for with_action in [false, true] {
            let ran = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&ran);
            let barrier = leaked(if with_action {
                Barrier::with_action(3, move || increment(&count))
            } else {
                Barrier::new(3)
            });
            let mut line = Line::new(arrangement, barrier);
            let waiters: Vec<_> = (0..30).map(|_| line.start(barrier.arrive())).collect();
            let mut indices = [0; 3];
            for waiter in waiters {
                let arrival = waiter.join().unwrap();
                assert_eq!(arrival.is_last(), arrival.index() == 2);
                indices[arrival.index() as usize] += 1;
            }
            assert_eq!(indices, [10; 3]);
            assert_eq!(ran.load(SeqCst), if with_action { 10 } else { 0 });
            assert_eq!((state(barrier), barrier.generation()), ((3, 0, 0, false), 10));
        }
    });
}

/// More than are woken in one batch.
#[test]
fn a_hundred_parties_go_together() {
    let order = crate::support::WakeOrder::new();
    let barrier = Barrier::new(101);
    let mut waiters: Vec<_> = (0..100).map(|_| Step::new(barrier.arrive())).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert!(waiter.poll_with(&order.waker(number)).is_pending());
    }
    assert_eq!(barrier.arrive().wait().unwrap().index(), 100);
    assert_eq!(order.entries(), (0..100).collect::<Vec<_>>());
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert_eq!(waiter.expect_ready().unwrap().index() as usize, number);
    }
    let mut waiters: Vec<_> = (0..100).map(|_| Step::queued(barrier.arrive())).collect();
    barrier.reset();
    assert!(waiters.iter_mut().all(|waiter| waiter.expect_ready() == Err(Broken)));
    assert_eq!(state(&barrier), (101, 0, 0, false));
}

/// B-07, B-17
#[test]
fn a_party_that_times_out_breaks_the_barrier() {
    in_every_arrangement_at_once(|arrangement| {
        let barrier = leaked(Barrier::new(4));
        for _ in 0..2 {
            let mut line = Line::new(arrangement, barrier);
            let timed_too = line.enter(barrier.arrive().timeout(LONG));
            let start = Instant::now();
            let timed = line.start(barrier.arrive().timeout(SHORT * 4));
            let untimed = line.start(barrier.arrive());
            assert_eq!(timed.join(), Err(WaitError::TimedOut));
            assert!(start.elapsed() >= SHORT * 4);
            assert_eq!(timed_too.join(), Err(BROKEN));
            assert_eq!(untimed.join(), Err(Broken));
            assert_eq!(state(barrier), (4, 0, 0, true));
            broken_for_good(arrangement, barrier);
            barrier.reset();
            assert_eq!(state(barrier), (4, 0, 0, false));
        }
        a_round_works(arrangement, barrier);
    });
}

/// B-13
fn broken_for_good(arrangement: crate::support::Arrangement, barrier: &'static Barrier) {
    let mut line = Line::new(arrangement, barrier);
    let (parties, generation) = (barrier.parties(), barrier.generation());
    let stop = CancelSource::new();
    stop.cancel();
    for _ in 0..2 {
        assert_eq!(line.start(barrier.arrive()).join(), Err(Broken));
        assert_eq!(line.start(barrier.arrive().timeout(LONG)).join(), Err(BROKEN));
        assert_eq!(line.start(barrier.arrive().timeout(Duration::ZERO)).join(), Err(BROKEN));
        assert_eq!(line.start(barrier.arrive().cancel_on(&stop.token())).join(), Err(BROKEN));
    }
    assert_eq!(state(barrier), (parties, 0, 0, true));
    assert_eq!(barrier.generation(), generation);
}

/// B-08
#[test]
fn a_zero_timeout_that_would_have_to_wait_breaks_the_barrier() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(3));
        let mut line = Line::new(arrangement, barrier);
        let waiting = line.enter(barrier.arrive());
        let zero = line.start(barrier.arrive().timeout(Duration::ZERO));
        assert_eq!(zero.join(), Err(WaitError::TimedOut));
        assert_eq!(waiting.join(), Err(Broken));
        assert_eq!(state(barrier), (3, 0, 0, true));
        barrier.reset();
        let stop = CancelSource::new();
        stop.cancel();
        let fired = barrier.arrive().timeout(Duration::ZERO).cancel_on(&stop.token());
        assert_eq!(line.start(fired).join(), Err(WaitError::Cancelled));
        assert!(barrier.is_broken());
    });
}

/// B-09
#[test]
fn a_zero_timeout_does_not_matter_to_the_last() {
    in_every_arrangement(|arrangement| {
        for action in [false, true] {
            let barrier =
                leaked(if action { Barrier::with_action(3, || ()) } else { Barrier::new(3) });
            let stop = CancelSource::new();
            stop.cancel();
            let mut line = Line::new(arrangement, barrier);
            let waiters = [line.enter(barrier.arrive()), line.enter(barrier.arrive())];
            let last = barrier.arrive().timeout(Duration::ZERO).cancel_on(&stop.token());
            assert!(line.start(last).join().unwrap().is_last());
            assert!(waiters.into_iter().all(|waiter| waiter.join().is_ok()));
            assert_eq!(state(barrier), (3, 0, 0, false));
        }
    });
}

/// B-10, B-17
#[test]
fn a_party_that_is_cancelled_breaks_the_barrier() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(3));
        for _ in 0..2 {
            let stop = CancelSource::new();
            let mut line = Line::new(arrangement, barrier);
            let cancelled = line.enter(barrier.arrive().cancel_on(&stop.token()));
            let other = line.enter(barrier.arrive());
            fire(&stop, 1);
            assert_eq!(state(barrier), (3, 0, 0, true), "broken when the token has fired");
            assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
            assert_eq!(other.join(), Err(Broken));
            broken_for_good(arrangement, barrier);
            barrier.reset();
        }
        a_round_works(arrangement, barrier);
    });
}

#[test]
fn a_party_that_is_dropped_breaks_the_barrier() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(3));
        drop(barrier.arrive());
        assert_eq!(state(barrier), (3, 0, 0, false), "it never arrived");
        let dropped = Step::queued(barrier.arrive());
        let other = Line::new(arrangement, barrier).enter(barrier.arrive());
        drop(dropped);
        assert_eq!(state(barrier), (3, 0, 0, true));
        assert_eq!(other.join(), Err(Broken));
        barrier.reset();
        a_round_works(arrangement, barrier);
    });
}

/// Once all have arrived they go, whatever any of them does.
#[test]
fn a_party_that_may_go_can_be_dropped_or_cancelled() {
    let barrier = Barrier::new(3);
    let stop = CancelSource::new();
    let dropped = Step::queued(barrier.arrive());
    let mut cancelled = Step::queued(barrier.arrive().cancel_on(&stop.token()));
    assert!(barrier.arrive().wait().unwrap().is_last());
    stop.cancel();
    drop(dropped);
    assert_eq!(cancelled.expect_ready().unwrap().index(), 1);
    assert_eq!((state(&barrier), barrier.generation()), ((3, 0, 0, false), 1));
}

/// B-11
#[test]
fn of_many_that_are_cancelled_at_once_one_learns_it_and_the_others_that_it_is_broken() {
    in_every_arrangement(|arrangement| {
        const MANY: usize = 10;
        let barrier = leaked(Barrier::new(MANY as u32 + 1));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, barrier);
        let outcomes: Vec<_> = (0..MANY)
            .map(|number| {
                let request = barrier.arrive().timeout(LONG);
                let half = number % 2 == 0;
                line.enter(if half { request.cancel_on(&stop.token()) } else { request })
            })
            .collect();
        fire(&stop, MANY / 2);
        let outcomes: Vec<_> = outcomes.into_iter().map(Waiter::join).collect();
        let cancelled = outcomes.iter().filter(|end| **end == Err(WaitError::Cancelled)).count();
        let broken = outcomes.iter().filter(|end| **end == Err(BROKEN)).count();
        assert_eq!((cancelled, broken), (1, MANY - 1));
    });
}

/// B-14, B-17
#[test]
fn an_action_that_panics_breaks_the_barrier() {
    in_every_arrangement(|arrangement| {
        let fails = Arc::new(AtomicU32::new(2));
        let left = Arc::clone(&fails);
        let barrier = leaked(Barrier::with_action(3, move || {
            let left = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(left.is_err(), "the action panicked");
        }));
        for _ in 0..2 {
            let mut line = Line::new(arrangement, barrier);
            let waiters = [line.enter(barrier.arrive()), line.enter(barrier.arrive())];
            let last = line.start(barrier.arrive()).join_or_panic();
            assert_eq!(message_of(&*last.unwrap_err()), "the action panicked");
            assert!(waiters.into_iter().all(|waiter| waiter.join() == Err(Broken)));
            assert_eq!(state(barrier), (3, 0, 0, true));
            broken_for_good(arrangement, barrier);
            barrier.reset();
        }
        a_round_works(arrangement, barrier);
    });
}

/// B-15
#[test]
fn resetting_an_idle_barrier_breaks_nothing() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(3));
        for _ in 0..2 {
            barrier.reset();
            assert_eq!(state(barrier), (3, 0, 0, false));
            a_round_works(arrangement, barrier);
        }
        assert_eq!(barrier.generation(), 4, "rounds and resets");
    });
}

/// B-16
#[test]
fn a_reset_turns_away_those_who_wait() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(3));
        let mut line = Line::new(arrangement, barrier);
        let waiters = [line.enter(barrier.arrive()), line.enter(barrier.arrive())];
        barrier.reset();
        assert_eq!((state(barrier), barrier.generation()), ((3, 0, 0, false), 1));
        assert!(waiters.into_iter().all(|waiter| waiter.join() == Err(Broken)));
        a_round_works(arrangement, barrier);
    });
}

/// B-18
#[test]
fn those_who_were_turned_away_may_come_again_at_once() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(4));
        let again: Vec<_> = (0..3)
            .map(|position| {
                let kind = arrangement.kind(position);
                Waiter::on_a_thread(move || match kind {
                    crate::support::Kind::Blocking => {
                        (barrier.arrive().wait(), barrier.arrive().wait().map(|_| ()))
                    }
                    crate::support::Kind::Async(executor) => executor.block_on(async {
                        (barrier.arrive().await, barrier.arrive().await.map(|_| ()))
                    }),
                })
            })
            .collect();
        until_queued(barrier, 3);
        barrier.reset();
        until_queued(barrier, 3);
        eventually("all of the new generation", || barrier.arrived() == 3);
        assert!(barrier.arrive().wait().unwrap().is_last());
        for outcome in again.into_iter().map(Waiter::join) {
            assert_eq!(outcome, (Err(Broken), Ok(())));
        }
        assert_eq!(state(barrier), (4, 0, 0, false));
    });
}

/// B-19
#[test]
fn the_action_must_not_use_its_own_barrier() {
    in_every_arrangement(|arrangement| {
        for polls in [false, true] {
            let barrier = with_action(2, move |barrier| {
                assert_eq!(barrier.add_parties(1), Err(PartiesError::InAction));
                assert_eq!(barrier.remove_parties(1), Err(PartiesError::InAction));
                if polls {
                    let _ = Step::new(barrier.arrive()).poll();
                } else {
                    let _ = barrier.arrive().timeout(LONG).wait();
                }
            });
            let mut line = Line::new(arrangement, barrier);
            let waiting = line.enter(barrier.arrive());
            let last = line.start(barrier.arrive()).join_or_panic();
            let message = message_of(&*last.unwrap_err()).to_owned();
            assert!(message.contains("arrived at its own barrier"), "{message}");
            assert_eq!(waiting.join(), Err(Broken));
            assert_eq!(state(barrier), (2, 0, 0, true));
        }
    });
}

/// B-20
#[test]
fn parties_can_be_removed() {
    in_every_arrangement(|arrangement| {
        for action in [false, true] {
            let ran = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&ran);
            let barrier = leaked(if action {
                Barrier::with_action(4, move || increment(&count))
            } else {
                Barrier::new(4)
            });
            let waiting = Line::new(arrangement, barrier).enter(barrier.arrive());
            assert_eq!(barrier.remove_parties(2), Ok(()));
            for too_many in [20, 2, u32::MAX] {
                assert_eq!(barrier.remove_parties(too_many), Err(PartiesError::TooFew));
                assert_eq!(state(barrier), (2, 1, 1, false), "nothing has changed");
            }
            assert_eq!(barrier.remove_parties(0), Ok(()));
            assert_eq!(barrier.remove_parties(1), Ok(()));
            let arrival = waiting.join().unwrap();
            assert_eq!((arrival.index(), arrival.is_last()), (0, false));
            assert_eq!(state(barrier), (1, 0, 0, false));
            assert_eq!(ran.load(SeqCst), u32::from(action));
            assert_eq!(barrier.add_parties(u32::MAX), Err(PartiesError::TooMany));
            assert_eq!(barrier.add_parties(1), Ok(()));
            a_round_works(arrangement, barrier);
        }
    });
}

/// An action run by whoever removes a party panics there.
#[test]
fn removing_a_party_may_run_an_action_that_panics() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::with_action(2, || panic!("the action panicked")));
        let waiting = Line::new(arrangement, barrier).enter(barrier.arrive());
        assert_eq!(panic_of(|| barrier.remove_parties(1)), "the action panicked");
        assert_eq!(waiting.join(), Err(Broken));
        assert_eq!(state(barrier), (1, 0, 0, true));
    });
}

#[test]
fn parties_that_are_added_are_waited_for() {
    in_every_arrangement(|arrangement| {
        let barrier = leaked(Barrier::new(2));
        let mut line = Line::new(arrangement, barrier);
        let first = line.enter(barrier.arrive());
        barrier.add_parties(1).unwrap();
        let second = line.enter(barrier.arrive());
        assert!(!first.is_done());
        assert!(line.start(barrier.arrive()).join().unwrap().is_last());
        assert!(first.join().is_ok() && second.join().is_ok());
        assert_eq!(state(barrier), (3, 0, 0, false));
    });
}

/// A barrier whose action waits, the first time, until the test lets it go on.
struct Paused {
    barrier: &'static Barrier,
    running: &'static semaforo::Event,
    go_on: &'static semaforo::Event,
    ran: &'static AtomicU32,
}

fn paused(parties: u32) -> Paused {
    let (running, go_on) = (leaked(semaforo::Event::new()), leaked(semaforo::Event::new()));
    let ran = leaked(AtomicU32::new(0));
    let barrier = with_action(parties, move |_| {
        if ran.fetch_add(1, SeqCst) == 0 {
            running.set();
            go_on.happened().wait();
        }
    });
    Paused { barrier, running, go_on, ran }
}

/// Whoever comes while the action runs belongs to the next generation; its leaving breaks nothing.
#[test]
fn those_who_come_while_the_action_runs_are_the_next_generation() {
    in_every_arrangement(|arrangement| {
        let Paused { barrier, running, go_on, ran } = paused(2);
        let mut line = Line::new(arrangement, barrier);
        let first = line.enter(barrier.arrive().timeout(LONG));
        let last = Waiter::on_a_thread(|| barrier.arrive().wait());
        running.happened().wait();
        assert_eq!(state(barrier), (2, 2, 1, false));
        let stop = CancelSource::new();
        let cancelled = line.enter(barrier.arrive().cancel_on(&stop.token()));
        let timed = line.start(barrier.arrive().timeout(SHORT));
        let zero = line.start(barrier.arrive().timeout(Duration::ZERO));
        let dropped = Step::queued(barrier.arrive());
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        assert_eq!(timed.join(), Err(WaitError::TimedOut));
        assert_eq!(zero.join(), Err(WaitError::TimedOut));
        drop(dropped);
        assert_eq!(state(barrier), (2, 2, 1, false));
        let early: Vec<_> = (0..4).map(|_| line.enter(barrier.arrive())).collect();
        assert_eq!((barrier.waiters(), barrier.arrived()), (5, 2));
        go_on.set();
        assert_eq!(first.join().unwrap().index(), 0);
        assert!(last.join().unwrap().is_last());
        let indices: Vec<_> =
            early.into_iter().map(|early| early.join().unwrap().index()).collect();
        assert_eq!(indices, [0, 1, 0, 1]);
        assert_eq!((ran.load(SeqCst), barrier.generation()), (3, 3));
        assert_eq!(state(barrier), (2, 0, 0, false));
    });
}

/// All have arrived, so no limit comes in time any more; and who is dropped is not missed.
#[test]
fn nothing_ends_a_wait_once_the_action_runs() {
    in_every_arrangement(|arrangement| {
        let Paused { barrier, running, go_on, .. } = paused(4);
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, barrier);
        let cancelled = line.enter(barrier.arrive().cancel_on(&stop.token()));
        let timed = line.enter(barrier.arrive().timeout(SHORT * 8));
        let dropped = Step::queued(barrier.arrive());
        let last = Waiter::on_a_thread(|| barrier.arrive().wait());
        running.happened().wait();
        let entered = barrier.waiters() == 3;
        stop.cancel();
        drop(dropped);
        assert!(semaforo::Latch::new(1).opened().timeout(SHORT * 9).wait().is_err());
        go_on.set();
        assert!(entered, "this thread was kept from running until its limit had passed");
        assert_eq!(cancelled.join().unwrap().index(), 0);
        assert_eq!(timed.join().unwrap().index(), 1);
        assert!(last.join().unwrap().is_last());
        assert_eq!(state(barrier), (4, 0, 0, false));
    });
}

/// A generation that is reset while its action runs goes on for nobody: not for its last party either.
#[test]
fn a_reset_while_the_action_runs_turns_everyone_away() {
    in_every_arrangement(|arrangement| {
        let Paused { barrier, running, go_on, .. } = paused(3);
        let mut line = Line::new(arrangement, barrier);
        let waiters = [line.enter(barrier.arrive()), line.enter(barrier.arrive())];
        // On a thread of its own, which the action blocks.
        let last =
            Waiter::start_there(line.next_kind(), || barrier.arrive().timeout(LONG), |last| last);
        running.happened().wait();
        let early = line.enter(barrier.arrive());
        barrier.reset();
        assert!(waiters.into_iter().all(|waiter| waiter.join() == Err(Broken)));
        assert!(!early.is_done());
        go_on.set();
        assert_eq!(last.join(), Err(BROKEN));
        let second = line.enter(barrier.arrive());
        assert_eq!(line.start(barrier.arrive()).join().unwrap().index(), 2);
        assert_eq!([early, second].map(|early| early.join().unwrap().index()), [0, 1]);
        assert_eq!(state(barrier), (3, 0, 0, false));
    });
}

/// Those who wait for the next generation learn that an action has panicked.
#[test]
fn an_action_that_panics_turns_away_those_who_came_while_it_ran() {
    in_every_arrangement(|arrangement| {
        let (running, go_on) = (leaked(semaforo::Event::new()), leaked(semaforo::Event::new()));
        let barrier = leaked(Barrier::with_action(1, || {
            running.set();
            go_on.happened().wait();
            panic!("the action panicked");
        }));
        let last = Waiter::on_a_thread(|| barrier.arrive().wait());
        running.happened().wait();
        let early = Line::new(arrangement, barrier).enter(barrier.arrive());
        go_on.set();
        assert_eq!(message_of(&*last.join_or_panic().unwrap_err()), "the action panicked");
        assert_eq!(early.join(), Err(Broken));
        assert_eq!(state(barrier), (1, 0, 0, true));
    });
}

/// Parties that change while the action runs count from the next generation on.
#[test]
fn parties_may_change_while_the_action_runs() {
    in_every_arrangement(|arrangement| {
        let Paused { barrier, running, go_on, ran } = paused(3);
        let mut line = Line::new(arrangement, barrier);
        let waiters = [line.enter(barrier.arrive()), line.enter(barrier.arrive())];
        let last = Waiter::on_a_thread(|| barrier.arrive().wait());
        running.happened().wait();
        let early = [line.enter(barrier.arrive()), line.enter(barrier.arrive())];
        barrier.add_parties(5).unwrap();
        assert_eq!(barrier.remove_parties(8), Err(PartiesError::TooFew));
        barrier.remove_parties(6).unwrap();
        assert_eq!((barrier.parties(), barrier.available()), (2, 0));
        go_on.set();
        assert!(waiters.into_iter().all(|waiter| waiter.join().is_ok()));
        assert!(last.join().unwrap().is_last());
        assert_eq!(early.map(|early| early.join().unwrap().index()), [0, 1]);
        assert_eq!(ran.load(SeqCst), 2);
        assert_eq!(state(barrier), (2, 0, 0, false));
    });
}

/// A task that goes on inside its wake-up may come again, although the same thread will run the action
/// of the next generation, too.
#[test]
fn a_party_may_come_again_from_its_wake_up() {
    let outcomes: &'static StdMutex<Vec<Result<u32, Broken>>> = leaked(StdMutex::new(Vec::new()));
    let (runs, early) = (leaked(AtomicUsize::new(0)), leaked(StdMutex::new(Vec::new())));
    let barrier = with_action(2, move |barrier| {
        if runs.fetch_add(1, SeqCst) == 0 {
            // The next generation is complete before this one goes on.
            let two = std::thread::spawn(|| {
                [Step::queued(barrier.arrive()), Step::queued(barrier.arrive())]
            });
            early.lock().unwrap().extend(two.join().unwrap());
        }
    });
    InlineTask::start(&Arc::new(AtomicUsize::new(0)), async move {
        for _ in 0..2 {
            let arrival = barrier.arrive().await;
            outcomes.lock().unwrap().push(arrival.map(Arrival::index));
        }
    });
    assert_eq!(barrier.arrive().wait().unwrap().index(), 1);
    assert_eq!(*outcomes.lock().unwrap(), [Ok(0)]);
    let early: Vec<_> =
        early.lock().unwrap().iter_mut().map(|step| step.expect_ready().unwrap().index()).collect();
    assert_eq!(early, [0, 1]);
    assert_eq!(barrier.arrive().wait().unwrap().index(), 1);
    assert_eq!(*outcomes.lock().unwrap(), [Ok(0), Ok(0)]);
    assert_eq!((runs.load(SeqCst), state(barrier)), (3, (2, 0, 0, false)));
}

/// Promise 5
#[test]
fn a_panicking_waker_costs_nobody_else_their_wake_up() {
    for broken in [false, true] {
        let barrier = Barrier::new(34);
        let mut waiters: Vec<_> = (0..33).map(|_| Step::new(barrier.arrive())).collect();
        assert!(waiters[0].poll_with(&panicking_waker()).is_pending());
        waiters[1..].iter_mut().for_each(Step::expect_pending);
        let panic = panic_of(|| {
            if broken {
                barrier.reset();
            } else {
                barrier.arrive().wait().unwrap();
            }
        });
        assert_eq!(panic, "the waker panicked");
        for waiter in &mut waiters {
            assert_eq!(waiter.expect_ready().is_err(), broken);
        }
        assert_eq!(state(&barrier), (34, 0, 0, false));
    }
}

/// A chain of generations, each complete inside the wake-up of the one before.
#[test]
fn ten_thousand_generations_do_not_grow_the_stack() {
    in_its_own_process(|| {
        for action in [false, true] {
            let barrier =
                leaked(if action { Barrier::with_action(2, || ()) } else { Barrier::new(2) });
            let deepest = Arc::new(AtomicUsize::new(0));
            for _ in 0..2 {
                InlineTask::start(&deepest, async {
                    for _ in 0..10_000 {
                        barrier.arrive().await.unwrap();
                    }
                });
            }
            assert_eq!((barrier.generation(), state(barrier)), (10_000, (2, 0, 0, false)));
            // The first goes on inside a wake-up that the second makes.
            assert!(deepest.load(SeqCst) <= 2);
        }
    });
}

/// A leaked party keeps its place; the barrier may be gone when its limits come.
#[test]
fn leaked_parties_are_harmless() {
    let stop = CancelSource::new();
    let token = stop.token();
    for moved in [false, true] {
        let barrier = Barrier::new(9);
        for request in [
            barrier.arrive().timeout(LONG),
            barrier.arrive().timeout(Duration::from_millis(1)),
            barrier.arrive().cancel_on(&token),
        ] {
            std::mem::forget(Step::queued(request).into_future());
        }
        if moved {
            let elsewhere = Box::new(barrier);
            assert!(elsewhere.waiters() <= 3);
            drop(elsewhere);
        } else {
            drop(barrier);
        }
    }
    assert!(semaforo::Latch::new(1).opened().timeout(SHORT).wait().is_err());
    stop.cancel();
    assert_eq!(token.registrations(), 0);
}

#[test]
fn an_owned_arrival_keeps_the_barrier_alive() {
    in_every_arrangement(|arrangement| {
        let barrier = Arc::new(Barrier::new(2));
        let waiting = Line::new(arrangement, &*barrier).enter(barrier.arrive_owned());
        let last = barrier.arrive_owned();
        let weak = Arc::downgrade(&barrier);
        drop(barrier);
        assert!(last.wait().unwrap().is_last());
        assert!(waiting.join().is_ok());
        eventually("it is gone", || weak.upgrade().is_none());
    });
}

#[test]
fn a_barrier_shows_and_says_what_is_wrong() {
    let barrier = Barrier::new(3);
    let waiting = Step::queued(barrier.arrive());
    let shown = format!("{barrier:?}");
    assert!(shown.contains("arrived: 1") && shown.contains("broken: false"), "{shown}");
    drop(waiting);
    assert!(format!("{barrier:?}").contains("broken: true"));
    let broken = barrier.arrive().wait().unwrap_err();
    assert_eq!(broken.to_string(), "the barrier is broken: somebody did not come, or left");
    let few = barrier.remove_parties(3).unwrap_err();
    assert_eq!(few.to_string(), "a barrier needs at least one party, and those who have arrived");
}

/// The last party's poll lets the others go, and panics with the waker of one of them. It has arrived:
/// polled again, it says so, and does not arrive in the next generation.
#[test]
fn a_poll_that_panics_with_anothers_waker_does_not_arrive_twice() {
    for action in [false, true] {
        let barrier = if action { Barrier::with_action(2, || ()) } else { Barrier::new(2) };
        let mut first = Step::panicking(barrier.arrive());
        let mut last = Step::new(barrier.arrive());
        assert_eq!(panic_of(|| last.poll().is_ready()), "the waker panicked");
        let settled = || assert_eq!((barrier.generation(), state(&barrier)), (1, (2, 0, 0, false)));
        settled();
        if action {
            // The panic came out of what the finished request does for the others.
            assert!(panic_of(|| last.poll().is_ready()).contains("after it had completed"));
        } else {
            assert!(last.expect_ready().unwrap().is_last());
        }
        settled();
        drop(last);
        assert_eq!(first.expect_ready().map(Arrival::index), Ok(0));
        settled();
    }
}

/// The same for a party that became the last one only while it was about to wait: another comes while
/// its waker is cloned.
#[test]
fn a_party_that_becomes_the_last_one_late_does_not_lose_its_arrival() {
    let barrier = leaked(Barrier::new(3));
    let mut first = Step::panicking(barrier.arrive());
    let second = Arc::new(StdMutex::new(Step::new(barrier.arrive())));
    let comes = Arc::clone(&second);
    let come = move || {
        let mut second = comes.lock().unwrap();
        if barrier.arrived() == 1 {
            second.expect_pending();
        }
    };
    let mut last = Step::new(barrier.arrive());
    let waker = WakerOf(|| (), come, || ()).into_waker();
    assert_eq!(panic_of(|| last.poll_with(&waker).is_ready()), "the waker panicked");
    assert_eq!((barrier.generation(), state(barrier)), (1, (3, 0, 0, false)));
    assert!(last.expect_ready().unwrap().is_last());
    assert_eq!(first.expect_ready().map(Arrival::index), Ok(0));
    assert_eq!(second.lock().unwrap().expect_ready().map(Arrival::index), Ok(1));
    assert_eq!((barrier.generation(), state(barrier)), (1, (3, 0, 0, false)));
}
