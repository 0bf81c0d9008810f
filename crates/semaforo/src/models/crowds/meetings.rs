//! Parties that wait for each other: pairs that swap, generations that gather, and phases that end.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::{crowd, draw};
use crate::models::checker::explore_crowd;
use crate::models::race::{HOUR, time_passes};
use crate::models::task::Task;
use crate::policy::PhaserError;
use crate::request::Limited;
use crate::sync::barrier::{Arrive, Broken};
use crate::sync::exchanger::Exchange;
use crate::{Barrier, CancelSource, Exchanger, Phaser, Rejected, Request, WaitError};

#[derive(Default)]
struct Table {
    exchanger: Arc<Exchanger<u32>>,
    source: Mutex<CancelSource>,
    /// What was brought, and what was taken home.
    brought: Mutex<Vec<u32>>,
    home: Mutex<Vec<u32>>,
}

type Swap = Request<Exchange<Arc<Exchanger<u32>>>, Limited>;

impl Table {
    fn swap(&self) -> Swap {
        let mut brought = self.brought.lock().unwrap();
        let item = brought.len() as u32;
        brought.push(item);
        let token = self.source.lock().unwrap().token();
        self.exchanger.exchange_owned(item).timeout(HOUR).cancel_on(&token)
    }

    fn take_home(&self, outcome: Result<u32, Rejected<u32, WaitError>>) {
        self.home.lock().unwrap().push(outcome.unwrap_or_else(Rejected::into_item));
    }

    fn operate(self: &Arc<Self>, pocket: &mut Option<Task<Swap>>) {
        match draw(6) {
            0 => self.take_home(self.swap().wait()),
            1 | 2 => self.take_home(Task::new(self.swap()).run()),
            3 => {
                let source = std::mem::take(&mut *self.source.lock().unwrap());
                source.cancel();
            }
            _ => {
                let mut task = Task::new(self.swap());
                match task.poll() {
                    Poll::Ready(outcome) => self.take_home(outcome),
                    Poll::Pending => {
                        if let Some(task) = pocket.replace(task) {
                            self.take_home(task.run());
                        }
                    }
                }
            }
        }
    }
}

/// Nobody has its own item and another's, nor two have the same; what is missing was in the pockets.
#[test]
fn a_table() {
    explore_crowd(|| {
        let table = crowd(Table::default(), Table::operate);
        while time_passes() {}
        assert_eq!(table.exchanger.waiters(), 0);
        let (brought, mut home) =
            (table.brought.into_inner().unwrap(), table.home.into_inner().unwrap());
        home.sort_unstable();
        assert!(home.windows(2).all(|pair| pair[0] < pair[1]), "an item was doubled");
        assert!(home.len() + super::THREADS as usize >= brought.len(), "an item was lost");
    });
}

struct Gathering {
    barrier: Arc<Barrier>,
    source: Mutex<CancelSource>,
}

impl Gathering {
    fn new(barrier: Barrier) -> Self {
        Self { barrier: Arc::new(barrier), source: Mutex::new(CancelSource::new()) }
    }

    fn arrive(&self) -> Request<Arrive<Arc<Barrier>>, Limited> {
        let token = self.source.lock().unwrap().token();
        self.barrier.arrive_owned().timeout(HOUR).cancel_on(&token)
    }

    fn operate(self: &Arc<Self>, (): &mut ()) {
        let arrival = match draw(8) {
            0 | 1 => self.arrive().wait(),
            2..=4 => Task::new(self.arrive()).run(),
            5 => match Task::new(self.arrive()).poll() {
                Poll::Ready(arrival) => arrival,
                Poll::Pending => return,
            },
            6 => {
                let source = std::mem::take(&mut *self.source.lock().unwrap());
                return source.cancel();
            }
            _ => return self.barrier.reset(),
        };
        match arrival {
            Ok(arrival) => assert_eq!(arrival.is_last(), arrival.index() == 1),
            Err(WaitError::Refused(Broken)) => self.barrier.reset(),
            Err(WaitError::Cancelled | WaitError::TimedOut) => {}
        }
    }

    fn assert_settled(self) {
        while time_passes() {}
        self.barrier.reset();
        assert_eq!((self.barrier.waiters(), self.barrier.arrived()), (0, 0));
        assert!(!self.barrier.is_broken());
    }
}

/// A barrier that is broken and reset again and again: nobody waits for ever.
#[test]
fn a_barrier() {
    explore_crowd(|| {
        crowd(Gathering::new(Barrier::new(2)), Gathering::operate).assert_settled();
    });
}

/// The same with an action.
#[test]
fn a_barrier_with_an_action() {
    explore_crowd(|| {
        let barrier = Barrier::with_action(2, crate::primitive::yield_now);
        crowd(Gathering::new(barrier), Gathering::operate).assert_settled();
    });
}

/// Each registers, goes through two phases, and leaves.
fn go_through_phases(phaser: &Arc<Phaser>, (): &mut ()) {
    let first = phaser.register().unwrap();
    let wait = || {
        let phase = match draw(3) {
            0 => phaser.arrive_and_wait().wait(),
            1 => Task::new(phaser.arrive_and_wait()).run(),
            _ => phaser.arrive().and_then(|phase| phaser.advanced(phase).wait()),
        };
        phase.unwrap()
    };
    let phases = [wait(), wait()];
    assert!(first < phases[0] && phases[0] < phases[1]);
    assert!(phaser.arrive_and_deregister().unwrap() >= phases[1]);
}

/// All phases end, and nobody is left.
#[test]
fn a_phaser() {
    explore_crowd(|| {
        let phaser = crowd(Phaser::with_hook(0, |_, _| false), go_through_phases);
        assert_eq!((phaser.waiters(), phaser.registered(), phaser.unarrived()), (0, 0, 0));
        assert_eq!(phaser.arrive(), Err(PhaserError::NotRegistered));
    });
}
