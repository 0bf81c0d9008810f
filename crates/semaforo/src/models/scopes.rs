//! A scope: its owner goes when everyone has left, and nobody touches it then.

use super::checker::explore_within;
use super::pools::{pool, shut_down};
use super::tray::Count;
use super::witness::Witness;
#[cfg(shuttle)]
use crate::CancelSource;

/// The owner waits for one task.
#[test]
fn one_task() {
    explore_within(2, || {
        let pool = pool(1, 0);
        let witness = Witness::new();
        pool.scope(|scope| scope.execute(|| witness.change()));
        assert_eq!(witness.look(), 1);
        shut_down(pool);
    });
}

/// It joins one task, and waits for another that it has not joined.
#[cfg(shuttle)]
#[test]
fn one_joined_and_one_not() {
    explore_within(1, || {
        let pool = pool(1, 0);
        let (first, second) = (Witness::new(), Witness::new());
        pool.scope(|scope| {
            let joined = scope.spawn(|| first.change());
            scope.execute(|| second.change());
            joined.wait().unwrap();
            assert_eq!(first.look(), 1);
        });
        assert_eq!((first.look(), second.look()), (1, 1));
        shut_down(pool);
    });
}

/// The worker goes on with a task of nobody's: it counts the other out before.
#[test]
fn a_task_that_another_follows() {
    explore_within(2, || {
        let pool = pool(1, 0);
        let witness = Witness::new();
        pool.scope(|scope| {
            scope.execute(|| witness.change());
            pool.execute(|| ());
        });
        assert_eq!(witness.look(), 1);
        shut_down(pool);
    });
}

/// A task of the scope starts another.
#[test]
fn a_task_that_starts_another() {
    explore_within(1, || {
        let pool = pool(1, 0);
        let count = Count::default();
        pool.scope(|scope| {
            scope.execute(|| {
                scope.execute(|| count.up());
                count.up();
            });
        });
        assert_eq!(count.get(), 2);
        shut_down(pool);
    });
}

/// The owner is a worker, and helps itself.
#[cfg(shuttle)]
#[test]
fn an_owner_that_helps() {
    explore_within(1, || {
        let pool = pool(1, 0);
        let inside = pool.clone();
        let sum = pool.spawn(move || {
            let count = Count::default();
            inside.scope(|scope| {
                scope.execute(|| count.up());
                scope.execute(|| count.up());
            });
            count.get()
        });
        assert_eq!(sum.wait().unwrap(), 2);
        shut_down(pool);
    });
}

/// The pool is shut down while the scope starts a task that borrows: it runs or is cancelled, and is gone when
/// the owner goes.
#[test]
fn against_the_end() {
    explore_within(2, || {
        let pool = pool(1, 0);
        let other = pool.clone();
        let ends = super::checker::spawn(move || shut_down(other));
        let (witness, captures) = (Witness::new(), Count::default());
        pool.scope(|scope| {
            let captured = captures.drops();
            let work = || {
                witness.change();
                drop(captured);
            };
            // Not joined, and no reason to panic if it was refused.
            std::mem::forget(scope.spawn(work));
        });
        assert_eq!(captures.get(), 1, "the owner has left before the task");
        assert!(witness.look() <= 1);
        ends.join().unwrap();
    });
}

/// A token fires while the scope's task begins: it runs or is cancelled, and the owner waits for it all the
/// same. (Loom does not follow the counts of the task, whose last one may be dropped by either.)
#[cfg(shuttle)]
#[test]
fn against_a_token() {
    explore_within(2, || {
        let pool = pool(1, 0);
        let stop = CancelSource::new();
        let (token, fires) = (stop.token(), stop.clone());
        let fired = super::checker::spawn(move || fires.cancel());
        let (witness, captures) = (Witness::new(), Count::default());
        pool.scope(|scope| {
            let captured = captures.drops();
            let work = || {
                witness.change();
                drop(captured);
            };
            scope.start().cancel_on(&token).execute(work);
        });
        assert_eq!(captures.get(), 1, "the owner has left before the task");
        assert!(witness.look() <= 1);
        fired.join().unwrap();
        assert_eq!(token.registrations(), 0);
        shut_down(pool);
    });
}
