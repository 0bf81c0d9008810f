//! What a signal costs: with a condition for each, exactly one wake-up; with one condition for all, as
//! many as wait.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Context;

use semaforo::{Condition, Mutex};

use crate::support::{Executor, LONG, Waiter, leaked, until_queued, waker_that};

const WAITERS: usize = 64;
const NOBODY: usize = usize::MAX;

/// Whose turn it is, and where one waits for it.
struct Table {
    turn: Mutex<usize>,
    /// One for each, or one for all.
    conditions: Vec<Condition>,
    served: Condition,
    /// How often a thread returned from a wait, or a task was woken.
    wake_ups: AtomicUsize,
}

impl Table {
    fn new(conditions: usize) -> &'static Self {
        let table = leaked(Self {
            turn: Mutex::new(NOBODY),
            conditions: (0..conditions).map(|_| Condition::new()).collect(),
            served: Condition::new(),
            wake_ups: AtomicUsize::new(0),
        });
        // On a busy machine a task may be late, and would be woken twice.
        table.turn.set_patience(LONG);
        table
    }

    fn condition(&self, number: usize) -> &Condition {
        &self.conditions[number % self.conditions.len()]
    }

    fn sit_down(&'static self, number: usize) {
        let mut turn = self.turn.lock().wait();
        while *turn != number {
            turn = self.condition(number).wait(turn).wait();
            self.wake_ups.fetch_add(1, SeqCst);
        }
        *turn = NOBODY;
        self.served.signal(&turn);
    }

    async fn sit_down_as_a_task(&'static self, number: usize) {
        let mut turn = self.turn.lock().await;
        while *turn != number {
            let mut wait = pin!(self.condition(number).wait(turn));
            let mut counting = None;
            turn = std::future::poll_fn(|context| {
                // Not the polls: executors may make more of them.
                let waker = counting.get_or_insert_with(|| {
                    let waker = context.waker().clone();
                    waker_that(move || {
                        self.wake_ups.fetch_add(1, SeqCst);
                        waker.wake_by_ref();
                    })
                });
                wait.as_mut().poll(&mut Context::from_waker(waker))
            })
            .await;
        }
        *turn = NOBODY;
        self.served.signal(&turn);
    }

    /// Seats everyone, and gives everyone its turn. Returns how many wake-ups each turn took.
    fn serve(&'static self, as_tasks: bool) -> Vec<usize> {
        let guests: Vec<_> = (0..WAITERS)
            .map(|number| {
                Waiter::on_a_thread(move || match as_tasks {
                    false => self.sit_down(number),
                    true => Executor::next().block_on(self.sit_down_as_a_task(number)),
                })
            })
            .collect();
        let specific = self.conditions.len() == WAITERS;
        let wake_ups = (0..WAITERS)
            .map(|number| {
                if specific {
                    until_queued(self.condition(number), 1);
                } else {
                    until_queued(&self.conditions[0], WAITERS - number);
                }
                let before = self.wake_ups.load(SeqCst);
                let mut turn = self.turn.lock().wait();
                *turn = number;
                if specific {
                    assert!(self.condition(number).signal(&turn));
                } else {
                    assert_eq!(self.conditions[0].broadcast(&turn), WAITERS - number);
                }
                drop(self.served.wait_while(turn, |turn| *turn != NOBODY).wait());
                if !specific {
                    until_queued(&self.conditions[0], WAITERS - number - 1);
                }
                self.wake_ups.load(SeqCst) - before
            })
            .collect();
        guests.into_iter().for_each(Waiter::join);
        wake_ups
    }
}

fn compare(as_tasks: bool) {
    let who = if as_tasks { "tasks" } else { "threads" };
    let specific = Table::new(WAITERS).serve(as_tasks);
    let broadcast = Table::new(1).serve(as_tasks);
    println!(
        "{WAITERS} {who}, one turn each: {} wake-ups with a condition for each, {} with one for all",
        specific.iter().sum::<usize>(),
        broadcast.iter().sum::<usize>(),
    );
    assert_eq!(specific, [1; WAITERS]);
    let everyone_left: Vec<_> = (0..WAITERS).map(|served| WAITERS - served).collect();
    assert_eq!(broadcast, everyone_left);
}

#[test]
fn specific_notification_wakes_one_thread_and_a_broadcast_all() {
    compare(false);
}

#[test]
fn specific_notification_wakes_one_task_and_a_broadcast_all() {
    compare(true);
}
