//! Dining philosophers that cannot deadlock: a butler seats all but one of them, so that among those
//! who have their left forks one finds its right fork on the table.
//!
//! `cargo run --release -p semaforo --example dining_philosophers`

use std::thread;

use semaforo::{Mutex, Semaphore};

const PHILOSOPHERS: usize = 5;
const MEALS: u32 = 200;

struct Table {
    /// Between philosopher `i` and the one before lies fork `i`, which knows how often it was used.
    forks: [Mutex<u32>; PHILOSOPHERS],
    butler: Semaphore,
}

impl Table {
    fn new(seats: u32) -> Self {
        Self { forks: [const { Mutex::new(0) }; PHILOSOPHERS], butler: Semaphore::new(seats) }
    }

    fn left_fork(&self, philosopher: usize) -> &Mutex<u32> {
        &self.forks[philosopher]
    }

    fn right_fork(&self, philosopher: usize) -> &Mutex<u32> {
        &self.forks[(philosopher + 1) % PHILOSOPHERS]
    }

    /// Sits down, takes both forks, and calls this while it has them.
    fn eat(&self, philosopher: usize, meal: impl FnOnce()) {
        let _seat = self.butler.acquire(1).wait().expect("the butler never closes");
        let mut left = self.left_fork(philosopher).lock().wait();
        let mut right = self.right_fork(philosopher).lock().wait();
        *left += 1;
        *right += 1;
        meal();
    }

    /// If so many sit, and each has its left fork: how many find that their right fork is taken.
    fn stuck(seated: usize) -> usize {
        let table = Self::new(0);
        let _left: Vec<_> =
            (0..seated).map(|philosopher| table.left_fork(philosopher).try_lock()).collect();
        (0..seated).filter(|philosopher| table.right_fork(*philosopher).is_locked()).count()
    }
}

/// Everyone eats so often. Returns how often each fork was used.
fn dine(meals: u32, meal: impl Fn(usize) + Sync) -> [u32; PHILOSOPHERS] {
    let table = Table::new(PHILOSOPHERS as u32 - 1);
    thread::scope(|scope| {
        for philosopher in 0..PHILOSOPHERS {
            let (table, meal) = (&table, &meal);
            scope.spawn(move || {
                for _ in 0..meals {
                    table.eat(philosopher, || meal(philosopher));
                }
            });
        }
    });
    table.forks.map(Mutex::into_inner)
}

fn main() {
    for seated in [PHILOSOPHERS, PHILOSOPHERS - 1] {
        let stuck = Table::stuck(seated);
        let verdict = if stuck == seated { "nobody can ever eat" } else { "somebody can eat" };
        println!("{seated} sit with a fork in the left hand: {stuck} lack the other, {verdict}");
    }
    println!("So the butler seats {} at a time.", PHILOSOPHERS - 1);

    let eaten = [const { Mutex::new(0) }; PHILOSOPHERS];
    dine(MEALS, |philosopher| *eaten[philosopher].lock().wait() += 1);
    println!("Meals eaten: {:?}", eaten.map(Mutex::into_inner));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[test]
    fn all_but_one_can_be_stuck_unless_all_sit() {
        assert_eq!(Table::stuck(PHILOSOPHERS), PHILOSOPHERS);
        for seated in 1..PHILOSOPHERS {
            assert_eq!(Table::stuck(seated), seated - 1);
        }
    }

    #[test]
    fn everyone_eats_and_never_beside_somebody_who_does() {
        let eating = [const { AtomicBool::new(false) }; PHILOSOPHERS];
        let meals = AtomicU32::new(0);
        let used = dine(MEALS, |philosopher| {
            eating[philosopher].store(true, Ordering::SeqCst);
            for neighbour in [philosopher + 1, philosopher + PHILOSOPHERS - 1] {
                assert!(!eating[neighbour % PHILOSOPHERS].load(Ordering::SeqCst));
            }
            thread::yield_now();
            meals.fetch_add(1, Ordering::Relaxed);
            eating[philosopher].store(false, Ordering::SeqCst);
        });
        assert_eq!(meals.into_inner(), MEALS * PHILOSOPHERS as u32);
        assert_eq!(used, [2 * MEALS; PHILOSOPHERS], "both neighbours used each fork at every meal");
    }
}
