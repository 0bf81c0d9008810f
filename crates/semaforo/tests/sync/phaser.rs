//! Cases PH: the phaser. It has no tiers, so PH-14 does not apply.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::support::{
    InlineTask, LONG, Line, Record, SHORT, Step, Waiter, eventually, fire, in_every_arrangement,
    in_every_arrangement_at_once, in_its_own_process, leaked, message_of, panic_of,
    panicking_waker,
};
use semaforo::{CancelSource, Event, Phaser, PhaserError, WaitError};

const TERMINATED: WaitError<PhaserError> = WaitError::Refused(PhaserError::Terminated);

/// Phase, registered, arrived, and yet to arrive.
fn state(phaser: &Phaser) -> (u32, u32, u32, u32) {
    (phaser.phase(), phaser.registered(), phaser.arrived(), phaser.unarrived())
}

/// PH-01
#[test]
fn a_new_phaser_is_in_phase_zero() {
    let most = Phaser::MAX_PARTIES;
    for parties in [0, 1, most] {
        let phaser = Phaser::new(parties);
        assert_eq!(state(&phaser), (0, parties, 0, parties));
        assert_eq!((phaser.available(), phaser.waiters()), (parties, 0));
        assert!(!phaser.is_terminated());
    }
    assert!(panic_of(|| Phaser::new(most + 1)).contains("at most 65535"));
    assert!(panic_of(|| Phaser::new(u32::MAX)).contains("at most 65535"));
    assert!(panic_of(|| Phaser::with_hook(most + 1, |_, _| false)).contains("at most 65535"));
    assert!(panic_of(|| Phaser::in_phase(1, Phaser::MAX_PHASE + 1)).contains("phase"));
}

/// PH-02
#[test]
fn there_can_be_only_so_many_parties() {
    let most = Phaser::MAX_PARTIES;
    let phaser = Phaser::new(most);
    for more in [1, 2, most, u32::MAX] {
        assert_eq!(phaser.register_many(more), Err(PhaserError::TooManyParties));
        assert_eq!(state(&phaser), (0, most, 0, most));
    }
    assert_eq!(phaser.register(), Err(PhaserError::TooManyParties));
    assert_eq!(phaser.register_many(0), Ok(0));
    assert_eq!(phaser.arrive(), Ok(0));
    assert_eq!(phaser.register(), Err(PhaserError::TooManyParties), "arrived is still registered");
    assert_eq!(phaser.arrive_and_deregister(), Ok(0));
    assert_eq!(phaser.register(), Ok(0));
    assert_eq!(state(&phaser), (0, most, 1, most - 1));
}

/// PH-04
#[test]
fn a_party_that_registers_in_the_middle_is_waited_for() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(1));
        assert_eq!(phaser.register(), Ok(0));
        let mut line = Line::new(arrangement, phaser);
        let first = line.enter(phaser.arrive_and_wait());
        assert_eq!(phaser.register_many(1), Ok(0));
        assert_eq!(phaser.arrive(), Ok(0));
        assert_eq!((state(phaser), first.is_done()), ((0, 3, 2, 1), false));
        assert_eq!(line.start(phaser.arrive_and_wait()).join(), Ok(1));
        assert_eq!(first.join(), Ok(1));
        assert_eq!(state(phaser), (1, 3, 0, 3));
    });
}

/// PH-05
#[test]
fn a_phase_that_is_not_now_is_not_waited_for() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(1));
        let mut line = Line::new(arrangement, phaser);
        phaser.arrive().unwrap();
        phaser.arrive().unwrap();
        for other in [0, 1, 3, Phaser::MAX_PHASE, Phaser::MAX_PHASE + 1, u32::MAX] {
            assert_eq!(line.start(phaser.advanced(other)).join(), Ok(2));
            let zero = phaser.advanced(other).timeout(Duration::ZERO);
            assert_eq!(line.start(zero).join(), Ok(Ok(2)));
        }
        let waiting = line.enter(phaser.advanced(2));
        phaser.arrive().unwrap();
        assert_eq!(waiting.join(), Ok(3));
        assert_eq!(phaser.waiters(), 0);
    });
}

/// PH-06
#[test]
fn nobody_can_arrive_who_is_not_registered() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(0));
        let mut line = Line::new(arrangement, phaser);
        for _ in 0..2 {
            assert_eq!(phaser.arrive(), Err(PhaserError::NotRegistered));
            assert_eq!(phaser.arrive_and_deregister(), Err(PhaserError::NotRegistered));
            let refused = line.start(phaser.arrive_and_wait()).join();
            assert_eq!(refused, Err(PhaserError::NotRegistered));
            let refused = line.start(phaser.arrive_and_wait().timeout(LONG)).join();
            assert_eq!(refused, Err(WaitError::Refused(PhaserError::NotRegistered)));
            assert_eq!(state(phaser), (0, 0, 0, 0));
        }
        assert_eq!(phaser.register(), Ok(0));
        assert_eq!(line.start(phaser.arrive_and_wait()).join(), Ok(1));
    });
}

/// PH-07
#[test]
fn whoever_deregisters_is_not_waited_for_any_more() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(2));
        let waiting = Line::new(arrangement, phaser).enter(phaser.arrive_and_wait());
        assert_eq!(phaser.arrive_and_deregister(), Ok(0));
        assert_eq!(waiting.join(), Ok(1));
        assert_eq!(state(phaser), (1, 1, 0, 1));
        assert_eq!(phaser.arrive(), Ok(1));
        assert_eq!(state(phaser), (2, 1, 0, 1));
    });
}

/// PH-08
#[test]
fn the_last_party_that_deregisters_terminates() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(1));
        let mut line = Line::new(arrangement, phaser);
        let waiting = line.enter(phaser.advanced(0));
        let bounded = line.enter(phaser.advanced(0).timeout(LONG));
        assert_eq!(phaser.arrive_and_deregister(), Ok(0));
        assert_eq!(waiting.join(), Err(PhaserError::Terminated));
        assert_eq!(bounded.join(), Ok(Err(PhaserError::Terminated)));
        assert!(phaser.is_terminated());
        assert_eq!(state(phaser), (0, 0, 0, 0));
    });
}

/// PH-08
#[test]
fn a_hook_may_decline_to_terminate() {
    in_every_arrangement(|arrangement| {
        let asked = Record::new();
        let note = asked.clone();
        let phaser = leaked(Phaser::with_hook(1, move |phase, parties| {
            note.note((phase, parties));
            phase == 2
        }));
        let mut line = Line::new(arrangement, phaser);
        let waiting = line.enter(phaser.advanced(0));
        assert_eq!(phaser.arrive_and_deregister(), Ok(0));
        assert_eq!(waiting.join(), Ok(1));
        assert_eq!((state(phaser), phaser.is_terminated()), ((1, 0, 0, 0), false));
        assert_eq!(phaser.register_many(2), Ok(1));
        let waiting = line.enter(phaser.arrive_and_wait());
        assert_eq!(line.start(phaser.arrive_and_wait()).join(), Ok(2));
        assert_eq!(waiting.join(), Ok(2));
        let waiting = line.enter(phaser.arrive_and_wait());
        let last = line.start(phaser.arrive_and_wait().timeout(LONG));
        assert_eq!(last.join(), Err(TERMINATED));
        assert_eq!(waiting.join(), Err(PhaserError::Terminated));
        assert_eq!(asked.entries(), [(0, 0), (1, 2), (2, 2)]);
        assert_eq!((phaser.phase(), phaser.registered(), phaser.is_terminated()), (2, 2, true));
    });
}

/// PH-10
#[test]
fn everyone_arrives_in_the_same_phase() {
    const PARTIES: u32 = 8;
    let phaser = leaked(Phaser::new(PARTIES));
    for round in 0..50 {
        let arrivals: Vec<_> =
            (0..PARTIES).map(|_| Waiter::on_a_thread(|| phaser.arrive())).collect();
        assert!(arrivals.into_iter().all(|arrival| arrival.join() == Ok(round)));
        assert_eq!(state(phaser), (round + 1, PARTIES, 0, PARTIES));
    }
}

/// More than are woken in one batch.
#[test]
fn a_hundred_go_on_together() {
    let phaser = Phaser::new(101);
    let mut waiters: Vec<_> = (0..100).map(|_| Step::queued(phaser.arrive_and_wait())).collect();
    assert_eq!((phaser.arrived(), phaser.waiters()), (100, 100));
    phaser.arrive().unwrap();
    for waiter in &mut waiters {
        assert_eq!((waiter.wakes(), waiter.expect_ready()), (1, Ok(1)));
    }
    assert_eq!((state(&phaser), phaser.waiters()), ((1, 101, 0, 101), 0));
}

/// PH-11
#[test]
fn termination_lets_everyone_go_and_is_final() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(5));
        let mut line = Line::new(arrangement, phaser);
        let arrived = [line.enter(phaser.arrive_and_wait()), line.enter(phaser.arrive_and_wait())];
        let waiting = [line.enter(phaser.advanced(0)), line.enter(phaser.advanced(0))];
        assert!(phaser.terminate());
        let all =
            arrived.into_iter().map(Waiter::join).chain(waiting.into_iter().map(Waiter::join));
        assert!(all.into_iter().all(|outcome| outcome == Err(PhaserError::Terminated)));
        assert_eq!((phaser.registered(), phaser.phase(), phaser.waiters()), (5, 0, 0));
        for _ in 0..2 {
            assert!(phaser.is_terminated() && !phaser.terminate());
            assert_eq!(phaser.register(), Err(PhaserError::Terminated));
            assert_eq!(phaser.register_many(0), Err(PhaserError::Terminated));
            assert_eq!(phaser.arrive(), Err(PhaserError::Terminated));
            assert_eq!(phaser.arrive_and_deregister(), Err(PhaserError::Terminated));
            let refused = line.start(phaser.arrive_and_wait()).join();
            assert_eq!(refused, Err(PhaserError::Terminated));
            let refused = line.start(phaser.arrive_and_wait().timeout(Duration::ZERO)).join();
            assert_eq!(refused, Err(TERMINATED));
            assert_eq!(line.start(phaser.advanced(0)).join(), Err(PhaserError::Terminated));
            assert_eq!((phaser.registered(), phaser.phase()), (5, 0));
        }
    });
}

/// PH-13
#[test]
fn after_the_last_phase_comes_the_first() {
    in_every_arrangement(|arrangement| {
        let last = Phaser::MAX_PHASE;
        let phaser = leaked(Phaser::in_phase(2, last));
        let mut line = Line::new(arrangement, phaser);
        let waiting = line.enter(phaser.arrive_and_wait());
        let outsider = line.enter(phaser.advanced(last));
        assert_eq!(phaser.arrive(), Ok(last));
        assert_eq!((waiting.join(), outsider.join()), (Ok(0), Ok(0)));
        assert_eq!(state(phaser), (0, 2, 0, 2));
        let waiting = line.enter(phaser.arrive_and_wait());
        assert_eq!(phaser.arrive(), Ok(0));
        assert_eq!(waiting.join(), Ok(1));
    });
}

/// A wait that ends takes nothing back: what has arrived has arrived.
#[test]
fn a_limit_ends_the_wait_and_not_the_arrival() {
    in_every_arrangement_at_once(|arrangement| {
        let phaser = leaked(Phaser::new(6));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, phaser);
        let cancelled = line.enter(phaser.arrive_and_wait().cancel_on(&stop.token()));
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        let start = Instant::now();
        let timed = line.start(phaser.arrive_and_wait().timeout(SHORT));
        assert_eq!(timed.join(), Err(WaitError::TimedOut));
        assert!(start.elapsed() >= SHORT);
        let zero = line.start(phaser.arrive_and_wait().timeout(Duration::ZERO));
        assert_eq!(zero.join(), Err(WaitError::TimedOut));
        let fired = line.start(phaser.arrive_and_wait().cancel_on(&stop.token()));
        assert_eq!(fired.join(), Err(WaitError::Cancelled));
        drop(Step::queued(phaser.arrive_and_wait()));
        drop(phaser.arrive_and_wait());
        assert_eq!((state(phaser), phaser.waiters()), ((0, 6, 5, 1), 0));
        let last = phaser.arrive_and_wait().timeout(Duration::ZERO).cancel_on(&stop.token());
        assert_eq!(line.start(last).join(), Ok(1), "nothing to wait for");
    });
}

#[test]
fn waiting_for_a_phase_can_be_cancelled() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(1));
        let stop = CancelSource::new();
        let mut line = Line::new(arrangement, phaser);
        let cancelled = line.enter(phaser.advanced(0).cancel_on(&stop.token()));
        let other = line.enter(phaser.advanced(0));
        fire(&stop, 1);
        assert_eq!(cancelled.join(), Err(WaitError::Cancelled));
        let zero = phaser.advanced(0).timeout(Duration::ZERO);
        assert_eq!(line.start(zero).join(), Err(WaitError::TimedOut));
        phaser.arrive().unwrap();
        assert_eq!(other.join(), Ok(1));
    });
}

/// A phaser with a hook that waits, in its first phase, until the test lets it go on.
struct Paused {
    phaser: &'static Phaser,
    running: &'static Event,
    go_on: &'static Event,
}

fn paused(parties: u32, panics: bool) -> Paused {
    let (running, go_on) = (leaked(Event::new()), leaked(Event::new()));
    let phaser = leaked(Phaser::with_hook(parties, move |phase, _| {
        if phase == 0 {
            running.set();
            go_on.happened().wait();
            assert!(!panics, "the hook panicked");
        }
        false
    }));
    Paused { phaser, running, go_on }
}

/// Whoever registers while the hook runs belongs to the next phase, and is told so.
#[test]
fn who_registers_while_the_hook_runs_is_expected_in_the_next_phase() {
    let Paused { phaser, running, go_on } = paused(1, false);
    let last = Waiter::on_a_thread(|| phaser.arrive_and_wait().wait());
    running.happened().wait();
    assert_eq!((phaser.phase(), phaser.unarrived()), (0, 0));
    assert_eq!(phaser.register(), Ok(1), "expected in the next phase");
    go_on.set();
    assert_eq!(last.join(), Ok(1));
    assert_eq!(state(phaser), (1, 2, 0, 2));
    assert_eq!((phaser.register(), phaser.arrive()), (Ok(1), Ok(1)));
}

#[test]
fn the_hook_may_register_parties() {
    let itself: &'static OnceLock<&'static Phaser> = leaked(OnceLock::new());
    let seen = Record::new();
    let note = seen.clone();
    let phaser = leaked(Phaser::with_hook(1, move |_, parties| {
        let phaser = itself.get().unwrap();
        note.note((phaser.register(), parties, phaser.registered(), phaser.is_terminated()));
        false
    }));
    itself.set(phaser).unwrap();
    assert_eq!(phaser.arrive(), Ok(0));
    assert_eq!(seen.entries(), [(Ok(1), 1, 2, false)]);
    assert_eq!(state(phaser), (1, 2, 0, 2));
}

/// Whoever arrives while the hook runs arrives in the next phase.
#[test]
fn who_arrives_while_the_hook_runs_arrives_in_the_next_phase() {
    in_every_arrangement(|arrangement| {
        let Paused { phaser, running, go_on } = paused(2, false);
        let mut line = Line::new(arrangement, phaser);
        let first = line.enter(phaser.arrive_and_wait());
        let last = Waiter::on_a_thread(|| phaser.arrive_and_wait().wait());
        running.happened().wait();
        let arrives = Waiter::on_a_thread(|| phaser.arrive());
        eventually("it waits for the hook", || phaser.waiters() == 2);
        let leaves = Waiter::on_a_thread(|| phaser.arrive_and_deregister());
        eventually("it waits for the hook", || phaser.waiters() == 3);
        assert!(!first.is_done() && !arrives.is_done() && !leaves.is_done());
        go_on.set();
        assert_eq!((arrives.join(), leaves.join()), (Ok(1), Ok(1)));
        // Those two end the next phase, too, perhaps before the others look.
        assert!(matches!((first.join(), last.join()), (Ok(1 | 2), Ok(1 | 2))));
        assert_eq!(state(phaser), (2, 1, 0, 1));
    });
}

#[test]
fn a_phaser_may_be_terminated_while_the_hook_runs() {
    in_every_arrangement(|arrangement| {
        let Paused { phaser, running, go_on } = paused(2, false);
        let mut line = Line::new(arrangement, phaser);
        let first = line.enter(phaser.arrive_and_wait());
        let last = Waiter::on_a_thread(|| phaser.arrive());
        running.happened().wait();
        assert!(phaser.terminate());
        assert_eq!(first.join(), Err(PhaserError::Terminated));
        assert_eq!(phaser.arrive(), Err(PhaserError::Terminated));
        go_on.set();
        assert_eq!(last.join(), Ok(0));
        assert!(phaser.is_terminated());
    });
}

#[test]
fn a_hook_that_panics_terminates() {
    in_every_arrangement(|arrangement| {
        let Paused { phaser, running, go_on } = paused(2, true);
        let mut line = Line::new(arrangement, phaser);
        let first = line.enter(phaser.arrive_and_wait());
        let outsider = line.enter(phaser.advanced(0));
        let last = line.start(phaser.arrive_and_wait());
        running.happened().wait();
        let arrives = Waiter::on_a_thread(|| phaser.arrive());
        eventually("it waits for the hook", || phaser.waiters() == 3);
        go_on.set();
        assert_eq!(message_of(&*last.join_or_panic().unwrap_err()), "the hook panicked");
        assert_eq!(first.join(), Err(PhaserError::Terminated));
        assert_eq!(outsider.join(), Err(PhaserError::Terminated));
        assert_eq!(arrives.join(), Err(PhaserError::Terminated));
        assert!(phaser.is_terminated());
        assert_eq!(phaser.registered(), 2);
    });
}

/// A poll that panicked in the hook has arrived: polled again, it says what has come of it.
#[test]
fn a_poll_that_panicked_in_the_hook_can_be_polled_again() {
    let phaser = Phaser::with_hook(1, |_, _| panic!("the hook panicked"));
    let mut step = Step::new(phaser.arrive_and_wait());
    assert_eq!(panic_of(|| step.poll().is_ready()), "the hook panicked");
    assert_eq!(step.expect_ready(), Err(PhaserError::Terminated));
    let phaser = Phaser::with_hook(1, |_, _| panic!("the hook panicked"));
    assert_eq!(panic_of(|| phaser.arrive()), "the hook panicked");
    assert!(phaser.is_terminated());
}

/// Promise 5
#[test]
fn a_panicking_waker_costs_nobody_else_their_wake_up() {
    for terminates in [false, true] {
        let phaser = Phaser::new(1);
        let mut waiters: Vec<_> = (0..33).map(|_| Step::new(phaser.advanced(0))).collect();
        assert!(waiters[0].poll_with(&panicking_waker()).is_pending());
        waiters[1..].iter_mut().for_each(Step::expect_pending);
        let panic = panic_of(|| {
            if terminates {
                phaser.terminate();
            } else {
                phaser.arrive().unwrap();
            }
        });
        assert_eq!(panic, "the waker panicked");
        assert!(waiters.iter_mut().all(|waiter| waiter.expect_ready().is_err() == terminates));
    }
}

#[test]
fn ten_thousand_phases_do_not_grow_the_stack() {
    in_its_own_process(|| {
        for hook in [false, true] {
            let phaser =
                leaked(if hook { Phaser::with_hook(2, |_, _| false) } else { Phaser::new(2) });
            let deepest = Arc::new(AtomicUsize::new(0));
            for _ in 0..2 {
                InlineTask::start(&deepest, async {
                    for _ in 0..10_000 {
                        phaser.arrive_and_wait().await.unwrap();
                    }
                });
            }
            assert_eq!(state(phaser), (10_000, 2, 0, 2));
            assert!(deepest.load(SeqCst) <= 2);
        }
    });
}

/// The example of the JDK: parties come and go, and each phase counts those who are there.
#[test]
fn parties_come_and_go() {
    in_every_arrangement(|arrangement| {
        let phaser = leaked(Phaser::new(1));
        let rounds = leaked(AtomicUsize::new(0));
        let workers: Vec<_> = (1..=6_u32)
            .map(|number| {
                phaser.register().unwrap();
                let kind = arrangement.kind(number as usize);
                Waiter::on_a_thread(move || {
                    for round in 0..number {
                        let next = match kind {
                            crate::support::Kind::Blocking => phaser.arrive_and_wait().wait(),
                            crate::support::Kind::Async(executor) => {
                                executor.block_on(phaser.arrive_and_wait())
                            }
                        };
                        assert_eq!(next, Ok(round + 1));
                        rounds.fetch_add(1, SeqCst);
                    }
                    phaser.arrive_and_deregister().unwrap();
                })
            })
            .collect();
        for round in 0..7 {
            assert_eq!(phaser.arrive_and_wait().wait(), Ok(round + 1));
        }
        workers.into_iter().for_each(Waiter::join);
        assert_eq!(rounds.load(SeqCst), 1 + 2 + 3 + 4 + 5 + 6);
        assert_eq!(state(phaser), (7, 1, 0, 1));
    });
}

#[test]
fn leaked_waits_are_harmless() {
    let stop = CancelSource::new();
    let token = stop.token();
    let phaser = Phaser::new(2);
    std::mem::forget(Step::queued(phaser.arrive_and_wait().cancel_on(&token)).into_future());
    let timed = phaser.advanced(0).timeout(Duration::from_millis(1));
    std::mem::forget(Step::queued(timed).into_future());
    drop(Box::new(phaser));
    assert!(semaforo::Latch::new(1).opened().timeout(SHORT).wait().is_err());
    stop.cancel();
    assert_eq!(token.registrations(), 0);
}

#[test]
fn an_owned_wait_keeps_the_phaser_alive() {
    in_every_arrangement(|arrangement| {
        let phaser = Arc::new(Phaser::new(2));
        let mut line = Line::new(arrangement, &*phaser);
        let waiting = [
            line.enter(phaser.arrive_and_wait_owned()),
            Waiter::start_then(arrangement.kind(0), phaser.advanced_owned(0), |phase| phase),
        ];
        assert_eq!(phaser.arrive(), Ok(0));
        drop(phaser);
        assert!(waiting.into_iter().all(|waiter| waiter.join() == Ok(1)));
    });
}

#[test]
fn a_phaser_shows_and_says_what_is_wrong() {
    let phaser = Phaser::new(2);
    phaser.arrive().unwrap();
    let shown = format!("{phaser:?}");
    assert!(shown.contains("registered: 2") && shown.contains("unarrived: 1"), "{shown}");
    assert_eq!(PhaserError::Terminated.to_string(), "the phaser is terminated");
    let none = Phaser::new(0).arrive().unwrap_err();
    assert_eq!(none.to_string(), "more parties arrived than are registered");
}

/// The last party's poll ends the phase, and panics with the waker of another. It has arrived: polled
/// again, it says so, and does not arrive in the next phase.
#[test]
fn a_poll_that_panics_with_anothers_waker_does_not_arrive_twice() {
    let phaser = Phaser::new(2);
    let mut first = Step::panicking(phaser.arrive_and_wait());
    let mut last = Step::new(phaser.arrive_and_wait());
    assert_eq!(panic_of(|| last.poll().is_ready()), "the waker panicked");
    assert_eq!((phaser.phase(), phaser.unarrived(), phaser.waiters()), (1, 2, 0));
    assert_eq!(last.expect_ready(), Ok(1));
    drop(last);
    assert_eq!((phaser.phase(), phaser.unarrived(), phaser.waiters()), (1, 2, 0));
    assert_eq!(first.expect_ready(), Ok(1));
}
