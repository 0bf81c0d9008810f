//! Phases: arriving against registering, leaving, waiting and terminating.

use std::sync::Arc;

use super::checker::{explore, explore_within};
use super::race::{For, HOUR, with};
use super::side::{AThread, Side, on_both_sides};
use super::task::Task;
use crate::policy::PhaserError;
use crate::primitive::{AtomicU32, Ordering};
use crate::{CancelSource, Phaser, WaitError};

on_both_sides!(
    two_phases,
    arriving_against_registering,
    arriving_against_leaving,
    waiting_against_terminating,
    a_hook_against_both,
    a_hook_against_terminating,
    a_hook_that_terminates
);

const TERMINATED: Result<u32, PhaserError> = Err(PhaserError::Terminated);

/// Nobody waits, and this is the state: the phase, the parties, and how many of them have arrived.
fn assert_settled(phaser: &Phaser, phase: u32, registered: u32, arrived: u32) {
    assert_eq!(phaser.waiters(), 0);
    assert_eq!(
        (phaser.phase(), phaser.registered(), phaser.arrived()),
        (phase, registered, arrived)
    );
}

/// Goes through two phases, in each seeing what the other did before.
fn go_through<S: Side, const OWN: usize>((phaser, came): &(Phaser, [AtomicU32; 2])) {
    for phase in 1..=2 {
        came[OWN].store(phase, Ordering::Relaxed);
        assert_eq!(S::finish(phaser.arrive_and_wait()), Ok(phase));
        assert!(came[1 - OWN].load(Ordering::Relaxed) >= phase);
    }
}

/// A thread and another one, or a task, go through two phases together.
fn two_phases<S: Side>() {
    explore_within(2, || {
        let (phaser, _) = with((Phaser::new(2), [AtomicU32::new(0), AtomicU32::new(0)]))
            .race([go_through::<AThread, 0>, go_through::<S, 1>]);
        assert_settled(&phaser, 2, 2, 0);
    });
}

/// The only party arrives while another registers: that is expected in this phase, or in the next.
fn arriving_against_registering<S: Side>() {
    explore_within(4, || {
        let (phaser, phase) = with((Phaser::new(1), For::later())).race([
            |(phaser, _)| assert_eq!(S::finish(phaser.arrive_and_wait()), Ok(1)),
            |(phaser, phase)| {
                let registered = phaser.register().unwrap();
                assert_eq!(phaser.arrive(), Ok(registered));
                phase.put(registered);
            },
        ]);
        assert_settled(&phaser, 1, 2, phase.left());
    });
}

/// A party arrives and waits, while the other leaves.
fn arriving_against_leaving<S: Side>() {
    explore_within(4, || {
        let phaser = with(Phaser::new(2)).race([
            |phaser| assert_eq!(S::finish(phaser.arrive_and_wait()), Ok(1)),
            |phaser| assert_eq!(phaser.arrive_and_deregister(), Ok(0)),
        ]);
        assert_settled(&phaser, 1, 1, 0);
    });
}

/// Both parties leave, and somebody waits: there are no more phases.
#[test]
fn both_leave() {
    explore(|| {
        let phaser = Arc::new(Phaser::new(2));
        let waiting = Task::queued(phaser.advanced_owned(0));
        with(Arc::clone(&phaser)).race([
            |phaser| assert_eq!(phaser.arrive_and_deregister(), Ok(0)),
            |phaser| assert_eq!(phaser.arrive_and_deregister(), Ok(0)),
        ]);
        assert_eq!(waiting.left().resume(), TERMINATED);
        assert!(phaser.is_terminated());
        assert_settled(&phaser, 0, 0, 0);
    });
}

/// The last party leaves while another registers: it comes in time, or too late.
#[test]
fn leaving_against_registering() {
    explore(|| {
        let (phaser, registered) = with((Phaser::new(1), For::later())).race([
            |(phaser, _)| assert_eq!(phaser.arrive_and_deregister(), Ok(0)),
            |(phaser, registered)| registered.put(phaser.register()),
        ]);
        match registered.left() {
            Ok(phase) => {
                assert_eq!((phase, phaser.is_terminated(), phaser.registered()), (0, false, 1))
            }
            Err(error) => {
                assert_eq!((error, phaser.is_terminated()), (PhaserError::Terminated, true))
            }
        }
    });
}

/// A party arrives and waits for another that does not come, while all is ended.
fn waiting_against_terminating<S: Side>() {
    explore_within(4, || {
        let phaser = with(Phaser::new(2)).race([
            |phaser| assert_eq!(S::finish(phaser.arrive_and_wait()), TERMINATED),
            |phaser| assert!(phaser.terminate()),
        ]);
        assert_eq!(phaser.waiters(), 0);
    });
}

/// The last party arrives while all is ended: whoever waits learns of one of the two.
#[test]
fn arriving_against_terminating() {
    explore(|| {
        let phaser = Arc::new(Phaser::new(1));
        let waiting = Task::queued(phaser.advanced_owned(0));
        with(Arc::clone(&phaser)).race([
            |phaser| assert!(matches!(phaser.arrive(), Ok(0) | TERMINATED)),
            |phaser| assert!(phaser.terminate()),
        ]);
        assert!(matches!(waiting.left().resume(), Ok(1) | TERMINATED));
        assert!(phaser.is_terminated());
        assert_eq!(phaser.waiters(), 0);
    });
}

/// The last party arrives while one who waits is cancelled.
#[test]
fn arriving_against_cancel() {
    explore(|| {
        let (phaser, source) = (Arc::new(Phaser::new(1)), CancelSource::new());
        let waiting = Task::queued(phaser.advanced_owned(0).cancel_on(&source.token()));
        with((Arc::clone(&phaser), source)).race([
            |(phaser, _)| assert_eq!(phaser.arrive(), Ok(0)),
            |(_, source)| source.cancel(),
        ]);
        match waiting.left().resume() {
            Ok(phase) => assert_eq!(phase, Ok(1)),
            Err(error) => assert_eq!(error, WaitError::Cancelled),
        }
        assert_settled(&phaser, 1, 1, 0);
    });
}

/// A thread's time is up: what has arrived has arrived, and the phase ends with the other.
#[test]
fn arriving_against_time_out() {
    explore_within(4, || {
        let phaser = with(Phaser::new(2)).race([
            |phaser| match phaser.arrive_and_wait().timeout(HOUR).wait() {
                Ok(phase) => assert_eq!(phase, 1),
                Err(error) => assert_eq!(error, WaitError::TimedOut),
            },
            |phaser| assert_eq!(phaser.arrive(), Ok(0)),
        ]);
        assert_settled(&phaser, 1, 2, 0);
    });
}

/// One who waits is dropped while the phase ends.
#[test]
fn arriving_against_drop() {
    explore(|| {
        let phaser = Arc::new(Phaser::new(1));
        let waiting = Task::queued(phaser.advanced_owned(0));
        let other = Task::queued(phaser.advanced_owned(0));
        with((Arc::clone(&phaser), waiting)).race([
            |(phaser, _)| assert_eq!(phaser.arrive(), Ok(0)),
            |(_, waiting)| drop(waiting.take()),
        ]);
        assert_eq!(other.left().resume(), Ok(1));
        assert_settled(&phaser, 1, 1, 0);
    });
}

/// A phaser that asks a hook whether to go on, and how often that was asked.
fn hooked(parties: u32, terminate: bool) -> (Phaser, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let phaser = Phaser::with_hook(parties, move |_, _| {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before + 1, Ordering::Relaxed);
        terminate
    });
    (phaser, asked)
}

/// Ends a phase with the other, and the hook has been asked before it goes on.
fn end_a_phase<S: Side>((phaser, asked): &(Phaser, Arc<AtomicU32>)) {
    assert_eq!(S::finish(phaser.arrive_and_wait()), Ok(1));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Two end a phase, and the hook has been asked once before either goes on.
fn a_hook_against_both<S: Side>() {
    explore_within(3, || {
        let (phaser, _) = with(hooked(2, false)).race([end_a_phase::<S>, end_a_phase::<S>]);
        assert_settled(&phaser, 1, 2, 0);
    });
}

/// A party registers and arrives while the hook is asked: it learns in which phase it is expected, and
/// arrives in that.
#[test]
fn a_hook_against_registering() {
    explore_within(4, || {
        let (phaser, _) = with(hooked(1, false)).race([
            |(phaser, _)| assert_eq!(phaser.arrive(), Ok(0)),
            |(phaser, _)| {
                let registered = phaser.register().unwrap();
                assert_eq!(phaser.arrive(), Ok(registered));
            },
        ]);
        assert!(matches!((phaser.phase(), phaser.arrived()), (1, 0 | 1)));
        assert_settled(&phaser, 1, 2, phaser.arrived());
    });
}

/// All is ended while the hook is asked.
fn a_hook_against_terminating<S: Side>() {
    explore_within(4, || {
        let (phaser, _) = with(hooked(1, false)).race([
            |(phaser, _)| {
                assert!(matches!(S::finish(phaser.arrive_and_wait()), Ok(1) | TERMINATED))
            },
            |(phaser, _)| assert!(phaser.terminate()),
        ]);
        assert!(phaser.is_terminated());
        assert_eq!(phaser.waiters(), 0);
    });
}

/// The hook says that there are no more phases, while another party comes: too late.
fn a_hook_that_terminates<S: Side>() {
    explore_within(4, || {
        let (phaser, asked) = with(hooked(1, true)).race([
            |(phaser, _)| assert_eq!(S::finish(phaser.arrive_and_wait()), TERMINATED),
            |(phaser, _)| {
                if phaser.register().is_ok() {
                    assert!(matches!(phaser.arrive(), Ok(0) | TERMINATED));
                }
            },
        ]);
        assert!(phaser.is_terminated());
        assert_eq!((phaser.waiters(), asked.load(Ordering::Relaxed)), (0, 1));
    });
}
