//! Running a model under the checker that was chosen.

#[cfg(loom)]
mod chosen {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(crate) use loom::thread::spawn;

    use crate::primitive::loom_atomics;

    /// With old values there are many more orders: how many preemptions fewer are explored.
    const FEWER: usize = 2;

    /// Runs the model in every order, and then with old values in every order within 3 preemptions.
    pub(crate) fn explore(model: fn()) {
        check(None, Some(3), model);
    }

    /// Runs the model in every order within so many preemptions, and then with old values in every
    /// order within 2 preemptions fewer, but 1.
    pub(crate) fn explore_within(preemptions: usize, model: fn()) {
        check(Some(preemptions), Some(preemptions.saturating_sub(FEWER).max(1)), model);
    }

    /// `LOOM_MAX_PREEMPTIONS` in the environment replaces both bounds.
    fn check(all_orders: Option<usize>, old_values: Option<usize>, model: fn()) {
        for (with_old_values, bound) in [(false, all_orders), (true, old_values)] {
            let mut checker = loom::model::Builder::new();
            checker.preemption_bound = checker.preemption_bound.or(bound);
            checker.max_branches = 10_000;
            let orders = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&orders);
            checker.check(move || {
                loom_atomics::begin(with_old_values);
                counted.fetch_add(1, Ordering::Relaxed);
                model();
            });
            let orders = orders.load(Ordering::Relaxed);
            println!("{orders} orders, old values: {with_old_values}");
            // Within the smaller bound of the second pass some models have but one.
            assert!(with_old_values || orders > 1, "a model with one order shows nothing");
        }
    }
}

#[cfg(shuttle)]
mod chosen {
    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    pub(crate) use shuttle::thread::spawn;
    use shuttle::{Config, Runner};

    /// In how many orders a small model is run.
    const ORDERS: usize = 5_000;
    /// In how many orders of each kind a crowd is run.
    const CROWDED_ORDERS: usize = 15_000;
    /// How many threads are preempted where others go on until they wait.
    const PREEMPTIONS: usize = 3;

    /// Runs the model in orders in which any thread may go on at any time.
    pub(crate) fn explore(model: fn()) {
        check(RandomScheduler::new(ORDERS), model);
    }

    /// The same. The bound is for the checker that tries all orders.
    pub(crate) fn explore_within(_: usize, model: fn()) {
        explore(model);
    }

    /// Runs a larger model like that, and in orders in which threads go on until they wait, but for
    /// a few preemptions (probabilistic concurrency testing).
    pub(crate) fn explore_crowd(model: fn()) {
        check(RandomScheduler::new(CROWDED_ORDERS), model);
        check(PctScheduler::new(PREEMPTIONS, CROWDED_ORDERS), model);
    }

    fn check(scheduler: impl Scheduler + 'static, model: fn()) {
        let mut config = Config::new();
        // That the timer is made anew in each run is what we want.
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(model);
    }
}

pub(crate) use chosen::*;
