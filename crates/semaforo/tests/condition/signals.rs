//! Who is signalled, when, and in which order.

use std::sync::atomic::Ordering::SeqCst;

use semaforo::Condition;

use crate::locks::Lock;
use crate::support::{
    Line, Record, Step, Waiter, eventually, in_every_arrangement, leaked, panic_of, until_queued,
};

/// C-04, for a lock that is held once.
pub(crate) fn waiting_gives_the_lock_away_and_returns_with_it<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let guard = lock.lock();
        guard.store(1, SeqCst);
        let waiter = Line::new(arrangement, condition).enter_then(condition.wait(guard), |guard| {
            assert_eq!(guard.load(SeqCst), 2);
            guard.store(3, SeqCst);
            guard
        });
        assert!(!lock.is_locked() && condition.is_awaited());
        let guard = lock.try_lock().expect("given away");
        guard.store(2, SeqCst);
        assert!(condition.signal(&guard));
        assert!(!waiter.is_done(), "it must have the lock first");
        drop(guard);
        let guard = waiter.join();
        assert!(lock.is_locked() && lock.try_lock().is_none(), "held on return");
        assert_eq!(guard.load(SeqCst), 3);
        drop(guard);
        assert!(!lock.is_locked());
        assert_eq!((condition.waiters(), lock.waiters()), (0, 0));
    });
}

/// C-05
pub(crate) fn a_signal_moves_the_first_into_the_locks_line<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let order = Record::new();
        let mut line = Line::new(arrangement, condition);
        let waiters: Vec<_> = (0..2)
            .map(|number| {
                let order = order.clone();
                line.enter_then(condition.wait(lock.lock()), move |guard| {
                    order.note(number);
                    drop(guard);
                })
            })
            .collect();
        let guard = lock.lock();
        assert_eq!((condition.waiters(), lock.waiters()), (2, 0));
        assert!(condition.signal(&guard));
        assert_eq!((condition.waiters(), lock.waiters()), (1, 1));
        assert!(condition.signal(&guard));
        assert_eq!((condition.waiters(), lock.waiters()), (0, 2));
        assert!(!condition.signal(&guard));
        assert!(waiters.iter().all(|waiter| !waiter.is_done()));
        drop(guard);
        waiters.into_iter().for_each(Waiter::join);
        assert_eq!(order.entries(), [0, 1]);
        assert!(!lock.is_locked());
    });
}

/// There are no wake-ups but the one that comes with the lock.
pub(crate) fn nobody_else_is_woken_by_a_signal<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let mut waiters: Vec<_> = (0..3).map(|_| Step::queued(condition.wait(lock.lock()))).collect();
    for other in 0..3 {
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        assert_eq!(waiters[other].wakes(), 0, "the lock is held");
        drop(guard);
        let wakes: Vec<_> = waiters.iter().map(Step::wakes).collect();
        let expected: Vec<_> = (0..3).map(|number| usize::from(number <= other)).collect();
        assert_eq!(wakes, expected);
        drop(waiters[other].expect_ready());
    }
    // Neither does the lock changing hands, nor a poll in between.
    let mut waiter = Step::queued(condition.wait(lock.lock()));
    for _ in 0..3 {
        drop(lock.lock());
        waiter.expect_pending();
    }
    assert_eq!(waiter.wakes(), 0);
}

pub(crate) fn a_signal_that_nobody_waits_for_is_not_stored<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let guard = lock.lock();
        assert!(!condition.signal(&guard));
        assert_eq!((condition.broadcast(&guard), condition.signal_many(&guard, 3)), (0, 0));
        let waiter = Line::new(arrangement, condition).enter(condition.wait(guard));
        let guard = lock.lock();
        assert!(!waiter.is_done());
        assert_eq!(condition.signal_many(&guard, 0), 0);
        assert_eq!(condition.waiters(), 1);
        assert!(condition.signal(&guard));
        drop(guard);
        drop(waiter.join());
    });
}

/// C-09
pub(crate) fn more_signals_than_waiters_are_not_stored<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let mut line = Line::new(arrangement, condition);
        let two = [(); 2].map(|()| line.enter_then(condition.wait(lock.lock()), drop));
        let guard = lock.lock();
        assert_eq!(condition.signal_many(&guard, 2048), 2);
        assert_eq!(condition.signal_many(&guard, 2048), 0);
        drop(guard);
        two.into_iter().for_each(Waiter::join);
        let third = line.enter(condition.wait(lock.lock()));
        let guard = lock.lock();
        assert_eq!((condition.waiters(), third.is_done()), (1, false));
        assert_eq!(condition.signal_many(&guard, 1), 1);
        drop(guard);
        drop(third.join());
    });
}

pub(crate) fn a_broadcast_signals_everyone<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let mut line = Line::new(arrangement, condition);
        let order = Record::new();
        let waiters: Vec<_> = (0..6)
            .map(|number| {
                let order = order.clone();
                line.enter_then(condition.wait(lock.lock()), move |guard| {
                    order.note((number, guard.fetch_add(1, SeqCst)));
                })
            })
            .collect();
        let guard = lock.lock();
        assert_eq!(condition.broadcast(&guard), 6);
        assert_eq!((condition.waiters(), lock.waiters()), (0, 6));
        drop(guard);
        waiters.into_iter().for_each(Waiter::join);
        let in_turn: Vec<_> = (0..6).map(|number| (number, number)).collect();
        assert_eq!(order.entries(), in_turn, "in the order in which they came, one at a time");
        assert!(!lock.is_locked());
    });
}

/// More than are woken in one batch.
pub(crate) fn a_hundred_are_all_woken_by_a_broadcast<L: Lock>() {
    let (lock, condition) = L::with_condition();
    let mut waiters: Vec<_> = (0..100).map(|_| Step::queued(condition.wait(lock.lock()))).collect();
    let guard = lock.lock();
    assert_eq!(condition.broadcast(&guard), 100);
    assert_eq!((condition.waiters(), lock.waiters()), (0, 100));
    drop(guard);
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert_eq!(waiter.wakes(), 1, "number {number}");
        drop(waiter.expect_ready());
    }
    assert!(!lock.is_locked());
    assert_eq!(lock.waiters(), 0);
}

pub(crate) fn the_smallest_priority_is_signalled_first<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let mut line = Line::new(arrangement, condition);
        let order = Record::new();
        let priorities = [5, 1, 3, 1, u64::MAX, 0, 3];
        let waiters: Vec<_> = priorities
            .into_iter()
            .enumerate()
            .map(|(number, priority)| {
                let order = order.clone();
                let request = condition.wait_by(lock.lock(), priority);
                line.enter_then(request, move |guard| {
                    order.note(number);
                    drop(guard);
                })
            })
            .collect();
        let expected = [5, 1, 3, 2, 6, 0, 4];
        for number in expected {
            let guard = lock.lock();
            assert_eq!(condition.least_priority(&guard), Some(priorities[number]));
            assert!(condition.signal(&guard));
            drop(guard);
            eventually("it has been", || order.entries().last() == Some(&number));
        }
        waiters.into_iter().for_each(Waiter::join);
        assert_eq!(order.entries(), expected);
        assert_eq!(condition.least_priority(&lock.lock()), None);
    });
}

pub(crate) fn the_signalled_stand_behind_those_who_wait_for_the_lock<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let mut line = Line::new(arrangement, condition);
        let order = Record::new();
        let note = |who: &'static str| {
            let order = order.clone();
            move |guard: L::Guard| {
                order.note(who);
                drop(guard);
            }
        };
        let signalled = line.enter_then(condition.wait(lock.lock()), note("signalled"));
        let guard = lock.lock();
        let before = lock.start(line.next_kind(), note("before"));
        eventually("it waits", || lock.waiters() == 1);
        assert!(condition.signal(&guard));
        let after = lock.start(line.next_kind(), note("after"));
        eventually("it waits", || lock.waiters() == 3);
        drop(guard);
        for waiter in [before, signalled, after] {
            waiter.join();
        }
        assert_eq!(order.entries(), ["before", "signalled", "after"]);
    });
}

/// C-01, C-02, as far as guards let them be expressed.
pub(crate) fn the_guard_of_another_lock_panics_and_changes_nothing<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        let waiter = Line::new(arrangement, condition).enter(condition.wait(lock.lock()));
        let another = L::new();
        let wrong = |message: String| {
            assert_eq!(message, "a condition was used with the guard of another lock");
            assert_eq!((condition.waiters(), lock.waiters()), (1, 0));
            assert!(!lock.is_locked());
        };
        let guard = another.lock();
        wrong(panic_of(|| condition.signal(&guard)));
        wrong(panic_of(|| condition.signal_many(&guard, 0)));
        wrong(panic_of(|| condition.broadcast(&guard)));
        wrong(panic_of(|| condition.least_priority(&guard)));
        assert!(another.is_locked(), "only lent");
        wrong(panic_of(|| condition.wait(guard)));
        assert!(!another.is_locked(), "dropped by the panic");
        wrong(panic_of(|| condition.wait_by(another.lock(), 1)));
        wrong(panic_of(|| condition.wait_while(another.lock(), |_| true)));
        wrong(panic_of(|| condition.signal_urgent(another.lock())));
        assert!(!another.is_locked());
        let guard = lock.lock();
        assert!(condition.signal(&guard));
        drop(guard);
        drop(waiter.join());
    });
}

/// C-03
pub(crate) fn misuse_does_not_disturb_those_who_wait<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let (lock, condition) = L::with_condition();
        drop(Step::new(condition.wait(lock.lock())));
        let over = leaked(std::sync::atomic::AtomicBool::new(false));
        let rogue = Waiter::on_a_thread(move || {
            let another = L::new();
            while !over.load(SeqCst) {
                panic_of(|| condition.wait(another.lock()));
                panic_of(|| condition.broadcast(&another.lock()));
            }
        });
        let mut line = Line::new(arrangement, condition);
        let waiters = [(); 4].map(|()| line.enter_then(condition.wait(lock.lock()), drop));
        assert_eq!(condition.waiters(), 4);
        assert_eq!(condition.broadcast(&lock.lock()), 4);
        waiters.into_iter().for_each(Waiter::join);
        over.store(true, SeqCst);
        rogue.join();
    });
}

/// Also when that lock is gone: its memory is not mistaken for another's.
pub(crate) fn a_condition_belongs_to_its_first_lock_for_good<L: Lock>() {
    let condition = Condition::<L::Policy>::new();
    assert!(!condition.signal(&L::new().lock()), "nobody can wait, so it belongs to none yet");
    assert!(!condition.signal(&L::new().lock()));
    let first = L::new();
    drop(condition.wait(first.lock()));
    for _ in 0..10 {
        panic_of(|| condition.signal(&L::new().lock()));
    }
    assert!(!condition.signal(&first.lock()));
}

/// C-01, C-02: a condition that was never waited on belongs to no lock, whatever was signalled; the
/// first wait decides, and another lock's guard is refused from then on, also if nothing waits.
pub(crate) fn a_fresh_condition_takes_the_lock_of_its_first_wait<L: Lock>() {
    for first_use in 0..4 {
        let (lock, condition) = L::with_condition();
        let another = L::new();
        assert!(!condition.signal(&another.lock()));
        assert_eq!(condition.signal_many(&another.lock(), 3), 0);
        assert_eq!(condition.broadcast(&another.lock()), 0);
        assert_eq!(condition.least_priority(&another.lock()), None);
        match first_use {
            0 => drop(Step::queued(condition.wait(lock.lock()))),
            1 => drop(condition.wait_by(lock.lock(), 1)),
            2 => drop(condition.wait_while(lock.lock(), |_| false).wait()),
            _ => drop(condition.signal_urgent(lock.lock()).wait()),
        }
        let message = panic_of(|| condition.wait(another.lock()));
        assert_eq!(message, "a condition was used with the guard of another lock");
        assert!(!another.is_locked(), "the guard is dropped");
        let mut own = Step::queued(condition.wait(lock.lock()));
        assert!(condition.signal(&lock.lock()));
        drop(own.expect_ready());
        assert!(!lock.is_locked());
    }
}

pub(crate) fn several_conditions_of_one_lock<L: Lock>() {
    in_every_arrangement(|arrangement| {
        let lock = L::new();
        let conditions = [(); 3].map(|()| leaked(Condition::new()));
        let waiters = conditions.map(|condition| {
            Line::new(arrangement, condition).enter_then(condition.wait(lock.lock()), drop)
        });
        for (condition, waiter) in conditions.into_iter().zip(waiters).rev() {
            let guard = lock.lock();
            assert!(condition.signal(&guard));
            assert!(!condition.signal(&guard), "the others wait for something else");
            drop(guard);
            waiter.join();
            until_queued(condition, 0);
        }
        assert!(!lock.is_locked());
    });
}
