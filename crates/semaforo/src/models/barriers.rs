//! Parties of a barrier: against limits, dropping, and starting anew.

use std::sync::Arc;
use std::task::Poll;

use super::checker::{explore, explore_within};
use super::race::{For, HOUR, time_passes, with};
use super::side::{Side, on_both_sides};
use super::task::Task;
use crate::primitive::{AtomicU32, Ordering};
use crate::request::Unlimited;
use crate::sync::barrier::{Arrival, Arrive, Broken};
use crate::{Barrier, CancelSource, Request, WaitError};

on_both_sides!(two_meet_twice, an_action_for_each_generation);

/// A task prepared for one side that has arrived at a barrier, and waits for the others.
type Arrived<L = Unlimited> = For<Task<Request<Arrive<Arc<Barrier>>, L>>>;

fn arrived(barrier: &Arc<Barrier>) -> Arrived {
    Task::queued(barrier.arrive_owned())
}

/// Nobody waits, and it is whole, after so many generations.
fn assert_whole(barrier: &Barrier, generations: u64) {
    assert_eq!((barrier.waiters(), barrier.arrived(), barrier.is_broken()), (0, 0, false));
    assert_eq!(barrier.generation(), generations);
}

/// Nobody waits, and it is broken.
fn assert_broken(barrier: &Barrier) {
    assert_eq!((barrier.waiters(), barrier.arrived(), barrier.is_broken()), (0, 0, true));
}

/// Everybody has arrived, as the number in order, and one of them as the last.
fn assert_all<const PARTIES: usize>(arrivals: [Result<Arrival, Broken>; PARTIES]) {
    let arrivals = arrivals.map(Result::unwrap);
    let mut indices = arrivals.map(|arrival| arrival.index() as usize);
    indices.sort_unstable();
    assert_eq!(indices, std::array::from_fn(|index| index));
    assert_eq!(arrivals.iter().filter(|arrival| arrival.is_last()).count(), 1);
}

/// Comes twice, and each time sees what the other did before.
fn meet_twice<S: Side, const OWN: usize>((barrier, came): &(Barrier, [AtomicU32; 2])) {
    for generation in 1..=2 {
        came[OWN].store(generation, Ordering::Relaxed);
        S::finish(barrier.arrive()).unwrap();
        assert!(came[1 - OWN].load(Ordering::Relaxed) >= generation);
    }
}

/// Two meet twice: neither goes on before the other has come.
fn two_meet_twice<S: Side>() {
    explore_within(4, || {
        let (barrier, _) = with((Barrier::new(2), [AtomicU32::new(0), AtomicU32::new(0)]))
            .race([meet_twice::<S, 0>, meet_twice::<S, 1>]);
        assert_whole(&barrier, 2);
    });
}

/// A thread and a task come at the same time, to where another waits.
#[test]
fn three_meet() {
    explore(|| {
        let barrier = Arc::new(Barrier::new(3));
        let first = arrived(&barrier);
        let (_, second, third) = with((Arc::clone(&barrier), For::later(), For::later())).race([
            |(barrier, second, _)| second.put(barrier.arrive().wait()),
            |(barrier, _, third)| third.put(Task::new(barrier.arrive()).run()),
        ]);
        assert_all([first.left().resume(), second.left(), third.left()]);
        assert_whole(&barrier, 1);
    });
}

/// The last one arrives, and three are told, one more than a batch of wake-ups holds. Meanwhile the
/// third polls.
#[test]
fn deferring_against_poll() {
    explore_within(4, || {
        let barrier = Arc::new(Barrier::new(4));
        let tasks = [(); 3].map(|()| arrived(&barrier));
        let (_, tasks) = with((Arc::clone(&barrier), tasks)).race([
            |(barrier, _)| assert!(barrier.arrive().wait().unwrap().is_last()),
            |(_, tasks)| assert_eq!(tasks[2].take().run().unwrap().index(), 2),
        ]);
        let [first, second, _] = tasks;
        assert_eq!(first.left().resume().unwrap().index(), 0);
        assert_eq!(second.left().resume().unwrap().index(), 1);
        assert_whole(&barrier, 1);
    });
}

/// The same, and the third is dropped: that breaks the barrier, unless it came too late.
#[test]
fn deferring_against_drop() {
    explore_within(4, || {
        let barrier = Arc::new(Barrier::new(4));
        let tasks = [(); 3].map(|()| arrived(&barrier));
        let (_, tasks, last) = with((Arc::clone(&barrier), tasks, For::later())).race([
            |(barrier, _, last)| last.put(barrier.arrive().wait()),
            |(_, tasks, _)| drop(tasks[2].take()),
        ]);
        let [first, second, _] = tasks;
        let others = [first.left().resume(), second.left().resume()];
        if last.left().is_ok() {
            assert!(others.iter().all(Result::is_ok));
            assert_whole(&barrier, 1);
        } else {
            assert_eq!(others, [Err(Broken), Err(Broken)]);
            assert_broken(&barrier);
        }
    });
}

/// The last one arrives while a token fires for one who waits: all go, or it is cancelled and the
/// others wait in vain.
#[test]
fn the_last_against_cancel() {
    explore(|| {
        let (barrier, source) = (Arc::new(Barrier::new(3)), CancelSource::new());
        let first = Task::queued(barrier.arrive_owned().cancel_on(&source.token()));
        let second = arrived(&barrier);
        let (.., last) = with((Arc::clone(&barrier), source, For::later())).race([
            |(barrier, _, last)| last.put(barrier.arrive().wait()),
            |(_, source, _)| source.cancel(),
        ]);
        match first.left().resume() {
            Ok(first) => {
                assert_all([Ok(first), second.left().resume(), last.left()]);
                assert_whole(&barrier, 1);
            }
            Err(error) => {
                assert_eq!(error, WaitError::Cancelled);
                assert_eq!([second.left().resume(), last.left()], [Err(Broken), Err(Broken)]);
                assert_broken(&barrier);
            }
        }
    });
}

/// The same with a thread that waits, and its time.
#[test]
fn the_last_against_time_out_of_a_thread() {
    explore_within(4, || {
        let (barrier, first, last) = with((Barrier::new(2), For::later(), For::later())).race([
            |(barrier, first, _)| first.put(barrier.arrive().timeout(HOUR).wait()),
            |(barrier, _, last)| last.put(barrier.arrive().wait()),
        ]);
        match (first.left(), last.left()) {
            (Ok(first), last) => {
                assert_all([Ok(first), last]);
                assert_whole(&barrier, 1);
            }
            (Err(error), last) => {
                assert_eq!((error, last), (WaitError::TimedOut, Err(Broken)));
                assert_broken(&barrier);
            }
        }
    });
}

/// The same with a task, and the timer.
#[test]
fn the_last_against_time_out_of_a_task() {
    explore(|| {
        let barrier = Arc::new(Barrier::new(2));
        let first = Task::queued(barrier.arrive_owned().timeout(HOUR));
        let (_, last) = with((Arc::clone(&barrier), For::later())).race([
            |(barrier, last)| last.put(barrier.arrive().wait()),
            |_| assert!(time_passes()),
        ]);
        match first.left().resume() {
            Ok(first) => {
                assert_all([Ok(first), last.left()]);
                assert_whole(&barrier, 1);
            }
            Err(error) => {
                assert_eq!((error, last.left()), (WaitError::TimedOut, Err(Broken)));
                assert_broken(&barrier);
            }
        }
    });
}

/// The last one arrives while the barrier is reset: all go, or those who waited do so in vain and the
/// last waits for others.
#[test]
fn the_last_against_reset() {
    explore(|| {
        let barrier = Arc::new(Barrier::new(2));
        let first = arrived(&barrier);
        let (_, last) = with((Arc::clone(&barrier), For::later())).race([
            |(barrier, last)| {
                let mut task = Task::new(barrier.arrive_owned());
                let arrival = task.poll();
                last.put((task, arrival));
            },
            |(barrier, _)| barrier.reset(),
        ]);
        let (task, arrival) = last.left();
        if arrival.is_ready() {
            first.left().resume().unwrap();
        } else {
            assert_eq!(first.left().resume(), Err(Broken));
            let other = barrier.arrive().wait();
            assert_all([task.resume(), other]);
        }
        assert_whole(&barrier, 2);
    });
}

/// A barrier is reset while one who waits is cancelled: whoever is first decides what that learns, and
/// in the end the barrier is broken or not.
#[test]
fn reset_against_cancel() {
    explore(|| {
        let (barrier, source) = (Arc::new(Barrier::new(3)), CancelSource::new());
        let first = Task::queued(barrier.arrive_owned().cancel_on(&source.token()));
        let second = arrived(&barrier);
        with((Arc::clone(&barrier), source))
            .race([|(barrier, _)| barrier.reset(), |(_, source)| source.cancel()]);
        let reason = first.left().resume().unwrap_err();
        assert!(matches!(reason, WaitError::Cancelled | WaitError::Refused(Broken)));
        assert_eq!(second.left().resume(), Err(Broken));
        assert_whole(&barrier, 1);
    });
}

/// One waits, and a party is taken off while another arrives: it goes with the one, or the other.
#[test]
fn removing_a_party_against_an_arrival() {
    explore_within(4, || {
        let barrier = Arc::new(Barrier::new(2));
        let first = arrived(&barrier);
        let (_, second) = with((Arc::clone(&barrier), For::later())).race([
            |(barrier, second)| second.put(barrier.arrive().wait().unwrap()),
            |(barrier, _)| barrier.remove_parties(1).unwrap(),
        ]);
        first.left().resume().unwrap();
        assert!(second.left().is_last());
        assert_eq!(barrier.parties(), 1);
        assert!(matches!(barrier.generation(), 1 | 2));
        assert_whole(&barrier, barrier.generation());
    });
}

/// A barrier for two with an action, and how often that has run.
fn with_action() -> (Arc<Barrier>, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&runs);
    let barrier = Barrier::with_action(2, move || {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before + 1, Ordering::Relaxed);
    });
    (Arc::new(barrier), runs)
}

/// Comes twice, each time after the action.
fn act_twice<S: Side>((barrier, runs): &(Arc<Barrier>, Arc<AtomicU32>)) {
    for generation in 1..=2 {
        S::finish(barrier.arrive()).unwrap();
        assert!(runs.load(Ordering::Relaxed) >= generation);
    }
}

/// Two meet twice, and the action has run before either goes on.
fn an_action_for_each_generation<S: Side>() {
    explore_within(2, || {
        let (barrier, _) = with(with_action()).race([act_twice::<S>, act_twice::<S>]);
        assert_whole(&barrier, 2);
    });
}

/// All have arrived and the action runs, while a token fires for one who waits: it is decided already,
/// unless the token was first.
#[test]
fn an_action_against_cancel() {
    explore_within(4, || {
        let ((barrier, runs), source) = (with_action(), CancelSource::new());
        let first = Task::queued(barrier.arrive_owned().cancel_on(&source.token()));
        let (.., last) = with((Arc::clone(&barrier), source, For::later())).race([
            |(barrier, _, last)| last.put(barrier.arrive().wait()),
            |(_, source, _)| source.cancel(),
        ]);
        match first.left().resume() {
            Ok(first) => {
                assert_all([Ok(first), last.left()]);
                assert_eq!(runs.load(Ordering::Relaxed), 1);
                assert_whole(&barrier, 1);
            }
            Err(error) => {
                assert_eq!((error, last.left()), (WaitError::Cancelled, Err(Broken)));
                assert_eq!(runs.load(Ordering::Relaxed), 0);
                assert_broken(&barrier);
            }
        }
    });
}

/// The action runs while the barrier is reset: everybody goes or waits in vain, whoever ran it too.
#[test]
fn an_action_against_reset() {
    explore(|| {
        let (barrier, _) = with_action();
        let first = arrived(&barrier);
        let (_, last) = with((Arc::clone(&barrier), For::later())).race([
            |(barrier, last)| {
                let mut task = Task::new(barrier.arrive_owned());
                let arrival = task.poll();
                last.put((task, arrival));
            },
            |(barrier, _)| barrier.reset(),
        ]);
        let first = first.left().resume();
        let (task, arrival) = last.left();
        match arrival {
            Poll::Ready(last) => assert_eq!(first.is_ok(), last.is_ok()),
            Poll::Pending => {
                assert_eq!(first, Err(Broken));
                let other = barrier.arrive().wait();
                assert_all([task.resume(), other]);
            }
        }
        assert_whole(&barrier, barrier.generation());
    });
}

/// Two come while the action runs, and make another generation complete: whoever runs the action runs
/// it again.
#[test]
fn an_action_against_early_parties() {
    explore_within(2, || {
        let (barrier, runs) = with_action();
        let first = arrived(&barrier);
        with(Arc::clone(&barrier)).race([
            |barrier| _ = barrier.arrive().wait().unwrap(),
            |barrier| _ = barrier.arrive().wait().unwrap(),
            |barrier| _ = Task::new(barrier.arrive()).run().unwrap(),
        ]);
        first.left().resume().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_whole(&barrier, 2);
    });
}
