//! Specific notification: if each waiter has a condition of its own, nobody is woken in vain; with one
//! condition for all, every change wakes everyone.
//!
//! The waiters wait for their turns, and the turns come one after another. A wake-up is a return from
//! `wait`: whoever is woken has the lock, so there are no others to count.
//!
//! `cargo run --release -p semaforo --example specific_notification`

use std::thread;
use std::time::{Duration, Instant};

use semaforo::{Condition, Monitor};

const WAITERS: usize = 64;

/// Which turn it is, and what that has cost.
#[derive(Default)]
struct Turns {
    /// The turns that have begun: waiter `i` may go when there are more than `i`.
    begun: usize,
    /// Who has had its turn, in this order.
    done: Vec<usize>,
    wake_ups: usize,
}

/// Gives each waiter its turn, with so many conditions for all of them: waiter `i` waits on condition
/// `i`, modulo their number, and a turn wakes all who wait on its condition.
fn give_turns(waiters: usize, conditions: usize) -> (Turns, Duration) {
    let turns = Monitor::new(Turns::default());
    let conditions: Vec<_> = (0..conditions).map(|_| Condition::new()).collect();
    let condition_of = |waiter: usize| &conditions[waiter % conditions.len()];
    let start = Instant::now();
    thread::scope(|scope| {
        for waiter in 0..waiters {
            let turns = &turns;
            scope.spawn(move || {
                let mut inside = turns.enter().wait();
                while inside.begun <= waiter {
                    inside = condition_of(waiter).wait(inside).wait();
                    inside.wake_ups += 1;
                }
                inside.done.push(waiter);
            });
        }
        for turn in 0..waiters {
            // Everyone whose turn has not come waits again: the numbers do not depend on luck.
            while conditions.iter().map(Condition::waiters).sum::<usize>() < waiters - turn {
                thread::yield_now();
            }
            let mut inside = turns.enter().wait();
            inside.begun += 1;
            condition_of(turn).broadcast(&inside);
        }
    });
    (turns.into_inner(), start.elapsed())
}

fn main() {
    println!("{WAITERS} threads wait for their turns.");
    for (what, conditions) in
        [("one condition for all", 1), ("eight conditions", 8), ("one condition each", WAITERS)]
    {
        let (turns, time) = give_turns(WAITERS, conditions);
        let vain = turns.wake_ups - turns.done.len();
        println!(
            "{what:<22} {:>5} wake-ups, {vain:>4} of them in vain, {:>5.1} ms",
            turns.wake_ups,
            time.as_secs_f64() * 1e3
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake_ups(conditions: usize) -> usize {
        let (turns, _) = give_turns(WAITERS, conditions);
        assert!(turns.done.into_iter().eq(0..WAITERS), "everyone has its turn, in order");
        turns.wake_ups
    }

    #[test]
    fn with_a_condition_each_nobody_is_woken_in_vain() {
        assert_eq!(wake_ups(WAITERS), WAITERS);
    }

    #[test]
    fn with_one_condition_everyone_is_woken_every_time() {
        assert_eq!(wake_ups(1), WAITERS * (WAITERS + 1) / 2);
    }

    #[test]
    fn with_some_conditions_it_is_in_between() {
        assert_eq!(wake_ups(8), 8 * (8 + 7 + 6 + 5 + 4 + 3 + 2 + 1));
    }
}
