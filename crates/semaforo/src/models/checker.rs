//! Running a model under the checker that was chosen.

#[cfg(loom)]
mod chosen {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(crate) use loom::thread::spawn;

    use crate::primitive::loom_atomics::let_loads_yield_old_values;

    /// Runs the model in every order, unless `LOOM_MAX_PREEMPTIONS` is set.
    pub(crate) fn explore(model: fn()) {
        check(loom::model::Builder::new(), model);
    }

    /// Runs the model in every order in which no more than so many threads are preempted, or
    /// `LOOM_MAX_PREEMPTIONS` of them.
    pub(crate) fn explore_within(preemptions: usize, model: fn()) {
        let mut checker = loom::model::Builder::new();
        checker.preemption_bound.get_or_insert(preemptions);
        check(checker, model);
    }

    fn check(mut checker: loom::model::Builder, model: fn()) {
        checker.max_branches = 10_000;
        for old_values in [false, true] {
            if std::env::var("OLD").is_ok_and(|old| old != old_values.to_string()) {
                continue;
            }
            let_loads_yield_old_values(old_values);
            let orders = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&orders);
            checker.check(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                model();
            });
            let orders = orders.load(Ordering::Relaxed);
            println!("{orders} orders, loads may yield old values: {old_values}");
        }
    }
}

#[cfg(shuttle)]
mod chosen {
    pub(crate) use shuttle::thread::spawn;

    /// In how many random orders a small model is run.
    const ORDERS: usize = 1_000;

    /// Runs the model in random orders.
    pub(crate) fn explore(model: fn()) {
        shuttle::check_random(model, ORDERS);
    }

    /// Runs the model in random orders. The bound is for the checker that tries all of them.
    pub(crate) fn explore_within(_: usize, model: fn()) {
        explore(model);
    }
}

pub(crate) use chosen::*;
